"""The verdict is that of `auto`, whatever else is asked for; without `auto` it is never higher."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.research.simulate import World, random

LEVELS = ["insufficient", "directional", "reliable"]
FIXED = ("ips", "snips", "iips", "rips")


def world(behavior, logger, target="near", n=1000):
    return World(
        seed=1, behavior=behavior, logger=logger, target=target, K=3, items=8, candidates=8
    ).log(n, seed=3)


def changed(log, **changes):
    fields = {name: getattr(log, name) for name in ("action", "reward", "context", "targets")}
    return cr.RankingLog(**{**fields, "propensity": log.propensity, **changes})


def gentle_without_distributions():
    log = gentle_log(3000)
    return changed(log, propensity=log.propensity.values)


def too_small():
    log = gentle_log(3000)
    return changed(log, propensity=0.85 * log.propensity.values)


def amounts():
    log = gentle_log(1500)
    paid = np.random.default_rng(0).lognormal(0.0, 2.0, log.reward.shape)
    return changed(log, reward=log.reward * paid, dists=log.dists)


def one_position():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(3000, 4))
    logger = cr.PlackettLuce(0.5 * scores)
    action = logger.sample(1, rng)[:, 0]
    reward = (rng.random(action.shape) < 0.2 + 0.1 * action).astype(float)
    log = cr.RankingLog(action=action, reward=reward, propensity=logger)
    return log.with_targets({"new": cr.PlackettLuce(scores)})


def triples(n=1000):
    env = random(seed=1001, form="paper", reward="triple", K=4, delta=1.0, actions=3)
    return env.draw(n, np.random.default_rng(0)).to_log()


#: Logs of several kinds, with every level of evidence among them.
LOGS = {
    "gentle": lambda: gentle_log(6000),
    "gentle, few rows": lambda: gentle_log(60),
    "gentle, without distributions": gentle_without_distributions,
    "propensities too small": too_small,
    "amounts with a tail": amounts,
    "one position": one_position,
    "triples": triples,
    "triples, more rows": lambda: triples(2500),
    "positions": lambda: world("position", "plackett-luce"),
    "cascade": lambda: world("cascade", "plackett-luce"),
    "redundancy, far": lambda: world("redundancy", "plackett-luce", "far"),
    "a mixture of loggers": lambda: world("ubm", "mixture"),
    "swaps": lambda: world("dbn", "swap"),
    "epsilon": lambda: world("attention", "epsilon", n=3000),
}


@cache
def verdict(kind, estimators):
    asked = None if estimators is None else list(estimators)
    found = cr.evaluate(
        made(kind), ["new"], estimators=asked, independent_rows=True, target_is_fresh=True
    )
    return found.verdict


@cache
def made(kind):
    return LOGS[kind]()


def height(found):
    return LEVELS.index(found.level)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOGS)
def test_without_auto_no_list_of_estimators_gives_more_than_auto(kind):
    most = height(verdict(kind, ("auto",)))
    # Where the lift is hardly known at all, the honest interval of `auto` is wider than that of IIPS,
    # and insufficient beside directional: no decision follows from either.
    most = max(most, 1) if kind == "triples" else most
    for size in range(1, len(FIXED) + 1):
        for asked in combinations(FIXED, size):
            found = verdict(kind, asked)
            assert height(found) <= most, asked
            assert [row["status"] for row in found.reasons if row["check"] == "auto"] == ["warn"]


@pytest.mark.parametrize("kind", LOGS)
def test_with_auto_the_verdict_is_that_of_auto_alone(kind):
    """Every check says the same, word for word; order-4 and clip-ips are no judges of others."""
    alone = verdict(kind, ("auto",))
    more = ("order-4",) if made(kind).dists else ()
    for asked in (None, ("ips", "auto"), ("iips", "clip-ips", *more, "auto", "rips")):
        assert verdict(kind, asked).reasons == alone.reasons, asked


def test_these_logs_show_every_level():
    assert {verdict(kind, ("auto",)).level for kind in LOGS} == set(LEVELS)


def test_what_helps_is_to_add_auto():
    (said,) = [row for row in verdict("gentle", ("ips",)).reasons if row["check"] == "auto"]
    assert "'auto' was not run" in said["reason"] and "--estimators ips,auto" in said["help"]
    assert verdict("gentle", ("auto",)).level == "reliable"
