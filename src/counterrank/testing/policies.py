"""Laws every policy keeps, by enumeration of its rankings."""

import itertools
import math
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.errors import PolicyError
from counterrank.policies import CAPABILITIES, Policy, kinds, load_policy, save_policy

#: Rows that are looked at, spread over all of them, and the most rankings that are listed for each.
ROWS, RANKINGS = 5, 10_000


def check_policy(
    policy: Policy, *, length: int, rng: np.random.Generator, exact: float = 1e-9
) -> None:
    """Raise AssertionError unless a small policy (at most 10,000 rankings) keeps the contract; takes seconds.

    Probabilities of all rankings sum to one; prefixes, positions and any subset of positions are
    the sums they should be, to `exact` (or to six of their stated standard errors, where they are
    sampled); draws come as often as they should (chi-square, false-alarm rate 1e-6); padding is
    ignored; `take` follows rows; a policy that can be stored comes back the same; its capabilities
    are known ones. Five rows are looked at.
    """
    strange = ", ".join(sorted(policy.capabilities - CAPABILITIES))
    assert not strange, (
        f"nobody asks for the capabilities {strange}; known: {', '.join(sorted(CAPABILITIES))}"
    )
    rankings = _rankings(policy, length)
    rows = sorted({int(row) for row in np.linspace(0, policy.n_rows - 1, ROWS).round()})
    for row in rows:
        row_policy = policy.take(np.array([row]))
        joint = _joint(row_policy, rankings)
        assert abs(joint.sum() - 1) <= exact, (
            f"the probabilities of all rankings sum to {joint.sum()!r}"
        )
        _marginals(row_policy, rankings, joint, exact)
        if "sample" in policy.capabilities:
            _draws(row_policy, rankings, joint, rng)
        _padding(row_policy, rankings[np.argmax(joint)])
    # A plugin's policy may live in code alone; ours have a form on disk.
    if type(policy).__name__ in kinds():
        with tempfile.TemporaryDirectory() as folder:
            save_policy(policy, Path(folder) / "policy.npz")
            loaded = load_policy(Path(folder) / "policy.npz")
        assert type(loaded) is type(policy) and loaded.n_actions == policy.n_actions, (
            f"stored as {type(loaded).__name__}"
        )
        for row in rows:
            before, after = (_joint(p.take(np.array([row])), rankings) for p in (policy, loaded))
            assert np.array_equal(before, after), (
                "a stored policy comes back with other probabilities"
            )


def _rankings(policy: Policy, length: int) -> NDArray[np.int64]:
    A = policy.n_actions
    count = A**length if policy.factored else math.perm(A, length)
    if count > RANKINGS:
        raise PolicyError(
            f"{A} actions at {length} positions make {count:,} rankings, too many to list (at most "
            f"{RANKINGS:,}); check a smaller example of the policy"
        )
    all_rankings = (
        itertools.product(range(A), repeat=length)
        if policy.factored
        else itertools.permutations(range(A), length)
    )
    return np.array(list(all_rankings), dtype=np.int64)


def _for_all(policy: Policy, rankings: NDArray[np.int64]) -> Policy:
    return policy.take(np.zeros(len(rankings), dtype=np.int64))


def _joint(policy: Policy, rankings: NDArray[np.int64]) -> Floats:
    joint: Floats = np.exp(_for_all(policy, rankings).prefix_log_prob(rankings)[:, -1])
    return joint


def _marginals(policy: Policy, rankings: NDArray[np.int64], joint: Floats, exact: float) -> None:
    length = rankings.shape[1]
    masks = np.array(list(itertools.product([False, True], repeat=length))[1:])
    # All 2^K subsets of positions, so of a few rankings only.
    likely = np.argsort(-joint)[: min(12, len(joint))]
    shown = rankings[likely]
    result = _for_all(policy, shown).subset_log_prob(shown, masks)
    agrees = rankings == shown[:, None]  # (12, R, K)
    for j, mask in enumerate(masks):
        expected = (agrees | ~mask).all(axis=2) @ joint
        allowed = exact + 6 * np.sqrt(result.rel_var[:, j]) * expected
        got = np.exp(result.log_prob[:, j])
        for i in np.flatnonzero(~(np.abs(got - expected) <= allowed)):
            raise AssertionError(
                f"P{mask.tolist()} of {shown[i].tolist()}: {got[i]!r}, not {expected[i]!r}"
            )
    prefix = np.exp(_for_all(policy, shown).prefix_log_prob(shown))
    expected = np.logical_and.accumulate(agrees, axis=2).swapaxes(1, 2) @ joint
    assert np.allclose(prefix, expected, atol=exact, rtol=exact), "prefixes"


def _draws(
    policy: Policy, rankings: NDArray[np.int64], joint: Floats, rng: np.random.Generator
) -> None:
    from scipy import stats

    size = 4000
    drawn = policy.sample(rankings.shape[1], rng, size=size)[0]
    index = {tuple(r): i for i, r in enumerate(rankings.tolist())}
    counts = np.bincount([index[tuple(r)] for r in drawn.tolist()], minlength=len(rankings))
    assert (joint[counts > 0] > 0).all(), "a ranking was drawn that has probability zero"
    # Cochran's rule: chi-square is no law of cells that expect fewer than five; those stand
    # together.
    common = joint * size >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(joint[common], joint[~common].sum()) * size
    keep = expected > 0
    if keep.sum() < 2:
        return
    # scipy refuses totals that differ, and these do by rounding.
    scaled = expected[keep] * observed[keep].sum() / expected[keep].sum()
    p_value = stats.chisquare(observed[keep], scaled).pvalue
    assert p_value > 1e-6, f"draws do not follow the probabilities (p = {p_value:.1e})"


def _padding(policy: Policy, ranking: NDArray[np.int64]) -> None:
    if len(ranking) > 1:
        short = np.append(ranking[:-1], -1)
        full, cut = policy.take(np.zeros(2, np.int64)).prefix_log_prob(np.stack([ranking, short]))
        assert abs(cut[-1] - full[-2]) <= 1e-9, "padding must not change a probability"
