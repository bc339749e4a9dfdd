"""Contract checks of estimators, intervals, MSE estimates and sources."""

import functools
import itertools
import json
import math
import operator
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import CounterrankError
from counterrank.data.log import SUPPORTS, Propensity, RankingLog
from counterrank.data.source import MemorySource, Source
from counterrank.estimators import IPS, Estimate, Estimator, Workspace
from counterrank.estimators.behavior import (
    BehaviorTree,
    MSEEstimate,
    Objective,
    Position,
    candidates,
)
from counterrank.policies import Factored, repeated
from counterrank.statistics import Quantity
from counterrank.testing.spaces import drawn_log, exact_log, random_log, space

_CLOSE = 1e-9


def check_estimator(
    estimator: Estimator,
    *,
    seed: int = 0,
    unbiased: bool = False,
    equivariant: bool = True,
    on_policy: bool = True,
    shift: bool = False,
    policies: bool = False,
) -> None:
    """Raise AssertionError unless `estimator` satisfies the contract.

    The result must be well-formed and the same for any batches, order of rows and repetition with one
    seed. The log must not be modified, and logs that the estimator cannot use must raise a
    `CounterrankError`.

    Parameters
    ----------
    estimator
        The estimator to check.
    seed
        Seed of the log and of the estimator.
    unbiased
        Whether it must be exact on a log that enumerates all rankings, for any behaviour.
    equivariant
        Whether V(c r) = c V(r).
    on_policy
        Whether a target equal to the logger must have weights of one and the value of the log.
    shift
        Whether V(r + c) = V(r) + c sum_k alpha_k, as for normalised weights.
    policies
        Whether the estimator needs policies instead of propensities; the rewards are then clicks.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        The estimator violates a law, which the message names.

    Examples
    --------
    >>> import counterrank as cr
    >>> check_estimator(cr.IPS(), unbiased=True)
    """
    rng = np.random.default_rng(seed)
    plain = log = random_log(rng)
    if policies:
        logger, target = (Factored(log.dists[name]) for name in ("propensity", "new"))
        clicks = (log.reward > np.median(log.reward)).astype(np.float64)
        log = replace(log, reward=clicks, propensity=logger, targets={"new": target}, dists={})

    def estimate(changed_log: RankingLog) -> Estimate:
        return estimator.estimate(changed_log, "new", seed=seed)

    original = estimate(log)
    _well_formed(original, log)
    repeated = estimate(log)
    assert (repeated.value, repeated.stderr) == (original.value, original.stderr), (
        "two runs with one seed differ"
    )
    estimate(_read_only(log))
    _chunking(estimator, log, original, seed)
    mixed = log.where(np.ones(log.n, dtype=bool)).take(rng.permutation(log.n))
    _same(estimate(mixed).value, original.value, "the order of rows changes the value")
    if equivariant:
        larger = estimate(log.changed(reward=log.reward * 4.0)).value
        assert abs(larger - 4.0 * original.value) <= 1e-6 * max(abs(4 * original.value), 1), (
            "V(4 r) is not 4 V(r)"
        )
    if on_policy:
        _on_policy(estimate, log)
    if shift:
        expected = original.value + 3.0 * float(log.position_weights.sum())
        higher = estimate(replace(log, reward=log.reward + 3.0)).value
        _same(higher, expected, "V(r + 3) is not V(r) + 3 sum alpha")
    # With the log of propensities, because kinds are those of propensities.
    _refusals(estimate, plain)
    if unbiased:
        world = space(rng)
        exact = estimate(exact_log(world)).value
        law = f"{estimator.name} is biased on an enumerated space"
        _same(exact, float(world.value.sum()), law)


def _on_policy(estimate: Callable[[RankingLog], Estimate], log: RankingLog) -> None:
    """A target that is the logger earns what the log earned."""
    dists = {"propensity": log.dists["propensity"], "new": log.dists["propensity"]}
    on_logger = estimate(replace(log, targets={"new": log.propensity}, dists=dists))
    law = "the target is the logger, but "
    _same(on_logger.value, log.value, law + "does not earn what the log earned")
    _same(on_logger.ess, log.n, law + "weights are not one")


def _read_only(log: RankingLog) -> RankingLog:
    """Return the same log, whose arrays raise where they are written to."""
    arrays = {name: getattr(log, name).copy() for name in ("action", "reward", "context", "bucket")}
    for array in arrays.values():
        array.setflags(write=False)
    return replace(log, **arrays)


def _well_formed(estimate: Estimate, log: RankingLog) -> None:
    low, high = estimate.interval()
    assert np.isfinite([estimate.value, estimate.stderr, low, high, estimate.ess]).all(), (
        f"not finite: {estimate}"
    )
    assert low <= estimate.value <= high, "the interval must hold the value"
    assert 0 <= estimate.ess <= log.n * (1 + 1e-9), f"ESS {estimate.ess} of {log.n} rows"
    assert len(estimate.by_position) == log.K, "one value per position"
    total = float(log.position_weights @ [p.value for p in estimate.by_position])
    scale = max(estimate.stderr, abs(estimate.value), 1e-12)
    assert abs(total - estimate.value) <= 1e-6 * scale, (
        f"positions add to {total}, not {estimate.value}"
    )
    wide, narrow = estimate.interval(0.99), estimate.interval(0.5)
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1], "a higher level needs a wider interval"
    json.dumps(estimate.to_dict(), allow_nan=False)


def _chunking(estimator: Estimator, log: RankingLog, expected: Estimate, seed: int) -> None:
    workspace = Workspace(
        MemorySource(log, threads=1), "new", seed=seed, by_unit=log.unit is not None
    )
    fitted = estimator.fit(workspace)
    # 37 divides neither the number of rows nor the block size of kernels.
    for size in (37, log.n):
        chunked = fitted.estimate(
            functools.reduce(operator.add, map(fitted.sums, log.chunks(size)))
        )
        _same(chunked.value, expected.value, f"chunks of {size} rows change the value")
        _same(chunked.stderr, expected.stderr, f"chunks of {size} rows change the standard error")


def _refusals(estimate: Callable[[RankingLog], Estimate], log: RankingLog) -> None:
    values = log.propensity.values  # type: ignore[union-attr]
    for kind in SUPPORTS:
        # The same numbers as each kind: the estimator must use or refuse them.
        numbers = values.prod(axis=1) if kind == "joint" else values
        propensity = Propensity(kind, numbers)
        try:
            result = estimate(
                replace(log, propensity=propensity, targets={"new": propensity}, dists={})
            )
        except CounterrankError as problem:
            assert str(problem), "an error needs a message"
        else:
            assert np.isfinite(result.value), f"{kind} propensities give {result.value}"


def _same(value: float, expected: float, law: str) -> None:
    scale = max(abs(value), abs(expected), 1e-12)
    assert abs(value - expected) <= _CLOSE * scale, f"{law}: {value!r} against {expected!r}"


Method = Callable[[Quantity, float], tuple[float, float]]

_LEVEL = 0.9
#: False-alarm rate for a method with the right level.
_ALARM = 1e-6


def check_interval(method: Method, *, seed: int = 0, runs: int = 100) -> None:
    """Raise AssertionError unless `method(quantity, level)` satisfies the contract of intervals.

    Intervals must be finite, ordered and repeatable, wider for a higher level, shorter for more rows,
    and four times as large for rewards times four. Levels outside (0, 1) must raise a
    `CounterrankError`. Over `runs` logs of a world with known value, the coverage must not be
    significantly below the level (binomial test, false-alarm rate 1e-6).

    Parameters
    ----------
    method
        A function of a quantity and a level that returns both ends.
    seed
        Seed of the logs.
    runs
        Number of logs for the test of coverage.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        The method violates a law, which the message names.

    Examples
    --------
    >>> check_interval(lambda quantity, level: quantity.interval(level))
    """
    from scipy import stats

    world = space(np.random.default_rng(seed))

    def quantity_of(log: RankingLog) -> Quantity:
        quantity = IPS().estimate(log, "new", by_unit=True).quantity
        assert quantity is not None
        return quantity

    def drawn(n: int, *stream: int) -> RankingLog:
        return drawn_log(world, n, np.random.default_rng([seed, *stream]))

    log = drawn(400, 1)
    quantity = quantity_of(log)
    low, high = method(quantity, _LEVEL)
    assert math.isfinite(low) and math.isfinite(high) and low <= high, (
        f"not an interval: {(low, high)}"
    )
    assert method(quantity, _LEVEL) == (low, high), "two calls on one quantity differ"
    by_level = [method(quantity, level) for level in (0.5, 0.9, 0.99)]
    for narrow, wide in itertools.pairwise(by_level):
        assert wide[0] <= narrow[0] and narrow[1] <= wide[1], (
            "a higher level needs an interval around the lower one's"
        )
    shorter = method(quantity_of(drawn(6400, 2)), _LEVEL)
    assert shorter[1] - shorter[0] < high - low, "16 times the rows, and no shorter"
    scaled = method(quantity_of(replace(log, reward=4.0 * log.reward)), _LEVEL)
    assert np.allclose(scaled, [4.0 * low, 4.0 * high], rtol=1e-9), (
        f"rewards times 4: {scaled}, not 4 times {(low, high)}"
    )
    _refused_levels(method, quantity)
    truth = float(world.value.sum())
    ends = np.array([method(quantity_of(drawn(300, 3, run)), _LEVEL) for run in range(runs)])
    held = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
    # One-sided, because an interval may be too long.
    p_value = stats.binomtest(held, runs, _LEVEL, alternative="less").pvalue
    assert p_value > _ALARM, (
        f"holds the truth {held} times of {runs} at level {_LEVEL} (p = {p_value:.1e})"
    )


def _refused_levels(method: Method, quantity: Quantity) -> None:
    for level in (0.0, 1.0, 1.5, math.nan):
        try:
            ends = method(quantity, level)
        except CounterrankError:
            continue
        raise AssertionError(f"level {level} gives {ends}; it must be refused")


def check_mse_estimate(
    estimate: MSEEstimate,
    *,
    seed: int = 0,
    doubled: MSEEstimate | None = None,
    rows: int = 4000,
) -> None:
    """Raise AssertionError unless `estimate` satisfies the contract of MSE estimates.

    It must have a name, and an objective that is well-formed and does not modify its input. Trees
    grown with it must be the same for the same seed and for doubled rewards.

    Parameters
    ----------
    estimate
        The MSE estimate to check.
    seed
        Seed of the log and the trees.
    doubled
        The estimate for doubled rewards, if it depends on the scale of rewards.
    rows
        Number of rows in which strong interaction must exclude the model without interaction.
        Cautious estimates may need more than the default.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        The estimate violates a law, which the message names.

    Examples
    --------
    >>> from counterrank.estimators.behavior.estimates import Pairs
    >>> check_mse_estimate(Pairs())
    """
    assert estimate.name and isinstance(estimate.name, str), "an MSE estimate needs a name"
    log = interacting_log(np.random.default_rng(seed), rows)
    models = candidates(3, ["S", "I"])

    def watched(position: Position) -> Objective:
        """Return the estimate's objective for read-only arrays."""
        for array in (position.tails, position.y):
            array.setflags(write=False)
        objective = estimate.objective(position)
        assert objective.position is position, "models or rows were lost"
        assert np.isfinite(objective.rule).all() and np.isfinite(objective.targets).all(), (
            "the scoring rule is not finite"
        )
        return objective

    def assigned(mse: Any, log: RankingLog) -> Ints:
        tree = BehaviorTree(candidates=models, mse=mse).fit(log, "new", seed=seed)
        return tree.assign(log.context, log.n)

    first = assigned(SimpleNamespace(name=estimate.name, objective=watched), log)
    assert np.array_equal(assigned(estimate, log), first), "two trees with one seed differ"
    # An MSE scales with the square of rewards; a tree that depends on the scale has a threshold.
    twice = assigned(doubled or estimate, replace(log, reward=2.0 * log.reward))
    assert np.array_equal(twice, first), "the tree for doubled rewards is another"
    alone = [m.name for m in models].index("I")
    assert not (first == alone).any(), (
        f"strong interaction, {rows} rows, and the model without it was chosen"
    )


def interacting_log(rng: np.random.Generator, rows: int = 4000) -> RankingLog:
    """Return rankings with strong interaction: rewards are larger by 6 if all items are distinct.

    All rows have the same context, so that the biases of two groups cannot cancel.
    """
    world = space(rng, contexts=1)
    distinct = ~repeated(world.rankings)
    strong = replace(world, quality=world.quality + 6.0 * distinct[None, :, None])
    return drawn_log(strong, rows, rng)


def _sums(batch: RankingLog) -> Floats:
    """Return the number of rows and the sums of actions and rewards."""
    return np.array([batch.n, batch.action.sum(), batch.reward.sum()], dtype=np.float64)


def check_source(source: Source, log: RankingLog, *, target: str = "new") -> None:
    """Raise AssertionError unless `source` has exactly the rows of `log`.

    Passes must repeat exactly, sums and estimates must equal those of the log in memory to 1e-10, and
    samples must have the requested size.

    Parameters
    ----------
    source
        The source to check.
    log
        The rows of the source as a log in memory.
    target
        A target of the log.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        The source violates a law, which the message names.

    Examples
    --------
    >>> log = random_log(np.random.default_rng(0))
    >>> check_source(MemorySource(log), log)
    """
    sums, expected_sums = source.reduce(_sums), _sums(log)
    assert (sums[:2] == expected_sums[:2]).all(), f"rows {sums} against {expected_sums}"
    assert np.isclose(sums[2], expected_sums[2], rtol=1e-10)
    assert (source.reduce(_sums) == sums).all(), "a second pass differs from the first"
    assert source.first.K == log.K and source.first.n <= log.n
    sample = source.sample(min(50, log.n), np.random.default_rng(0))
    assert 0 < sample.n <= log.n and sample.K == log.K
    fitted = IPS().fit(Workspace(source, target))
    estimates = [fitted.estimate(s.reduce(fitted.sums)) for s in (source, MemorySource(log))]
    mine, theirs = ((estimate.value, estimate.stderr) for estimate in estimates)
    assert np.allclose(mine, theirs, rtol=1e-10), f"IPS {mine} against {theirs} in memory"
