"""A result of every command, of one small log."""

from functools import cache

import numpy as np

import counterrank as cr
from counterrank.checks import audit_log


def log_of(rows=900, seed=0):
    """Return pages of two of four items by Plackett-Luce scores; arms a and b are half of the rows each."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, 4))
    policies = {"a": cr.PlackettLuce(scores), "b": cr.PlackettLuce(0.5 * scores)}
    drawn = {name: one.sample(2, rng)[:, 0] for name, one in policies.items()}
    arm = np.where(rng.random(rows) < 0.5, "a", "b")
    action = np.where((arm == "a")[:, None], drawn["a"], drawn["b"])
    liked = np.take_along_axis(scores, action, axis=1)
    reward = (rng.random(action.shape) < 1 / (1 + np.exp(1 - liked))).astype(float)
    return action, reward, policies, arm, scores


def sample(action, policy):
    # Of each item given those above it: the steps of the probabilities of what is shown so far.
    steps = np.diff(policy.prefix_log_prob(action), axis=1, prepend=0.0)
    return cr.Propensity(kind="prefix", values=np.exp(steps))


@cache
def results():
    """Return a result of every command on one small log; they are made once."""
    action, reward, policies, arm, scores = log_of()
    targets = {name: sample(action, one) for name, one in policies.items()}
    own = np.where((arm == "a")[:, None], targets["a"].values, targets["b"].values)
    device = np.where(scores[:, 0] > 0, "mobile", "secret-device")
    log = cr.RankingLog(
        action=action, reward=reward, propensity=cr.Propensity(kind="prefix", values=own),
        targets=targets, columns={"arm": arm, "device": device}, context=scores[:, :1],
    )  # fmt: skip
    rows = len(scores)
    sets = cr.Candidates(np.arange(rows + 1) * 4, np.tile(np.arange(4, dtype=np.int32), rows))
    logger = cr.parse_policy("plackett-luce").bind(candidates=sets, scores=scores.reshape(-1))
    flat = cr.RankingLog(
        action=action, reward=reward, propensity=logger, context=scores[:, :1], candidates=sets
    )
    evaluation = cr.evaluate(
        log, ["b"], estimators=["ips", "rips"], segments=["device"],
        guardrails=["reward where device = 'mobile' >= -0.5"],
    )  # fmt: skip
    return {
        "evaluation": evaluation,
        "audit": audit_log(log, ["b"]),
        "A/B test": cr.abtest(log, "arm"),
        "validation": cr.validate(log, "arm", estimators="rips"),
        "plan": cr.plan(flat),
        "learned policy": cr.learn(flat, independent_rows=True, despite_audit=True),
    }
