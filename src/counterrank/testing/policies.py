"""Contract checks of policies, by enumeration of all rankings."""

import itertools
import math
import tempfile
from pathlib import Path

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies import CAPABILITIES, Policy, kinds, load_policy, save_policy

#: Number of rows that are checked, and the largest number of rankings that are enumerated.
ROWS, RANKINGS = 5, 10_000


def check_policy(
    policy: Policy, *, length: int, rng: np.random.Generator, exact: float = 1e-9
) -> None:
    """Raise AssertionError unless a small policy satisfies the contract; takes seconds.

    The probabilities of all rankings must sum to one, and those of prefixes, positions and subsets of
    positions must be sums of them. Draws must follow the probabilities (chi-square test, false-alarm
    rate 1e-6). Padding must be ignored, `take` must select rows, a policy that can be stored must be
    restored unchanged, and its capabilities must be known. Five rows are checked.

    Parameters
    ----------
    policy
        A policy with at most 10,000 rankings.
    length
        Number of positions.
    rng
        The source of random numbers.
    exact
        Tolerance of probabilities; sampled ones may differ by six standard errors.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        The policy violates a law, which the message names.

    Examples
    --------
    >>> import counterrank as cr
    >>> check_policy(cr.PlackettLuce([[1.0, 0.5, 0.0]]), length=2, rng=np.random.default_rng(0))
    """
    unknown = ", ".join(sorted(policy.capabilities - CAPABILITIES))
    assert not unknown, (
        f"{type(policy).__name__} has unknown capabilities: {unknown}; known: "
        f"{', '.join(sorted(CAPABILITIES))}"
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
    # Policies of plug-ins need not be storable.
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


def _rankings(policy: Policy, length: int) -> Ints:
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


def _joint(policy: Policy, rankings: Ints) -> Floats:
    return np.exp(policy.of_rows(len(rankings)).prefix_log_prob(rankings)[:, -1])


def _marginals(policy: Policy, rankings: Ints, joint: Floats, exact: float) -> None:
    length = rankings.shape[1]
    masks = np.array(list(itertools.product([False, True], repeat=length))[1:])
    # A few rankings only, because there are 2^K subsets of positions.
    likely = np.argsort(-joint)[: min(12, len(joint))]
    shown = rankings[likely]
    bound = policy.of_rows(len(shown))
    result = bound.subset_log_prob(shown, masks)
    agrees = rankings == shown[:, None]  # (12, R, K)
    for j, mask in enumerate(masks):
        expected = (agrees | ~mask).all(axis=2) @ joint
        allowed = exact + 6 * np.sqrt(result.rel_var[:, j]) * expected
        got = np.exp(result.log_prob[:, j])
        for i in np.flatnonzero(~(np.abs(got - expected) <= allowed)):
            raise AssertionError(
                f"P{mask.tolist()} of {shown[i].tolist()}: {got[i]!r}, not {expected[i]!r}"
            )
    prefix = np.exp(bound.prefix_log_prob(shown))
    expected = np.logical_and.accumulate(agrees, axis=2).swapaxes(1, 2) @ joint
    assert np.allclose(prefix, expected, atol=exact, rtol=exact), "prefixes"


def _draws(policy: Policy, rankings: Ints, joint: Floats, rng: np.random.Generator) -> None:
    from scipy import stats

    size = 4000
    drawn = policy.sample(rankings.shape[1], rng, size=size)[0]
    number = {tuple(ranking): i for i, ranking in enumerate(rankings.tolist())}
    counts = np.bincount([number[tuple(page)] for page in drawn.tolist()], minlength=len(rankings))
    assert (joint[counts > 0] > 0).all(), "a ranking was drawn that has probability zero"
    # Cochran's rule: cells with an expectation below five are merged.
    common = joint * size >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(joint[common], joint[~common].sum()) * size
    keep = expected > 0
    if keep.sum() < 2:
        return
    # SciPy requires equal totals, and these differ by rounding.
    scaled = expected[keep] * observed[keep].sum() / expected[keep].sum()
    p_value = stats.chisquare(observed[keep], scaled).pvalue
    assert p_value > 1e-6, f"draws do not follow the probabilities (p = {p_value:.1e})"


def _padding(policy: Policy, ranking: Ints) -> None:
    if len(ranking) > 1:
        short = np.append(ranking[:-1], -1)
        full, cut = policy.of_rows(2).prefix_log_prob(np.stack([ranking, short]))
        assert abs(cut[-1] - full[-2]) <= 1e-9, "padding must not change a probability"
