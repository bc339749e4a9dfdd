"""Laws of estimators, and of what they are made of: intervals, MSE estimates and sources."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.data.log import SUPPORTS, Propensity, RankingLog
from counterrank.data.source import MemorySource, Source
from counterrank.errors import CounterrankError
from counterrank.estimators import IPS, Estimate, Estimator, View, Workspace
from counterrank.estimators.behavior import (
    BehaviorTree,
    MSEEstimate,
    Objective,
    Position,
    candidates,
)
from counterrank.policies import Factored
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
    """Raise AssertionError unless `estimator` keeps the contract.

    Well-formed result; no mutation of the log; the same result for any chunking, row order and
    repetition with one seed; clear errors on logs it cannot use. `equivariant`: V(c r) = c V(r).
    `on_policy`: a target equal to the logger has weights one and earns what the log earned.
    `shift`: V(r + c) = V(r) + c sum_k alpha_k, which normalised weights give. `unbiased`: exact on
    a log that enumerates a space, whatever the behaviour. `policies`: it must know which rankings
    policies would show, so the log has whole ones, and clicks for rewards.
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
    frozen = replace(
        log, action=log.action.copy(), reward=log.reward.copy(), bucket=log.bucket.copy()
    )
    for array in (frozen.action, frozen.reward, frozen.context, frozen.bucket):
        assert array is not None
        # Writing to it then raises, which no comparison afterwards could miss.
        array.setflags(write=False)
    estimate(frozen)
    _chunking(estimator, log, original, seed)
    mixed = log.where(np.ones(log.n, dtype=bool)).take(rng.permutation(log.n))
    _same(estimate(mixed).value, original.value, "the order of rows changes the value")
    if equivariant:
        larger = estimate(log.changed(reward=log.reward * 4.0)).value
        assert abs(larger - 4.0 * original.value) <= 1e-6 * max(abs(4 * original.value), 1), (
            "V(4 r) is not 4 V(r)"
        )
    if on_policy:
        dists = {"propensity": log.dists["propensity"], "new": log.dists["propensity"]}
        on_logger = estimate(replace(log, targets={"new": log.propensity}, dists=dists))
        law = "the target is the logger, but "
        _same(on_logger.value, log.value, law + "does not earn what the log earned")
        _same(on_logger.ess, log.n, law + "weights are not one")
    if shift:
        expected = original.value + 3.0 * float(log.position_weights.sum())
        higher = estimate(replace(log, reward=log.reward + 3.0)).value
        _same(higher, expected, "V(r + 3) is not V(r) + 3 sum alpha")
    # A log of numbers, also where whole policies were asked for above: kinds are of numbers.
    _refusals(estimate, plain)
    if unbiased:
        world = space(rng)
        exact = estimate(exact_log(world)).value
        law = f"{estimator.name} is biased on an enumerated space"
        _same(exact, float(world.value.sum()), law)


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
    plan = estimator.plan(workspace)
    # 37 divides neither the rows nor a kernel's block: every chunk ends in the middle of something.
    for size in (37, log.n):
        state: Any = None
        for chunk in log.chunks(size):
            partial_state = plan.partial(View(chunk, "new")).state
            state = partial_state if state is None else state + partial_state
        chunked = plan.finish(state)
        _same(chunked.value, expected.value, f"chunks of {size} rows change the value")
        _same(chunked.stderr, expected.stderr, f"chunks of {size} rows change the standard error")


def _refusals(estimate: Callable[[RankingLog], Estimate], log: RankingLog) -> None:
    values = log.propensity.values  # type: ignore[union-attr]
    for kind in SUPPORTS:
        # The same numbers under every name: each must be used or refused, none may give nonsense.
        numbers = values.prod(axis=1) if kind == "joint" else values
        renamed_log = replace(
            log,
            propensity=Propensity(kind, numbers),
            targets={"new": Propensity(kind, numbers)},
            dists={},
        )
        try:
            result = estimate(renamed_log)
        except CounterrankError as problem:
            assert str(problem), "an error needs a message"
        else:
            assert np.isfinite(result.value), f"{kind} propensities give {result.value}"


def _same(value: float, expected: float, law: str) -> None:
    scale = max(abs(value), abs(expected), 1e-12)
    assert abs(value - expected) <= _CLOSE * scale, f"{law}: {value!r} against {expected!r}"


Method = Callable[[Quantity, float], tuple[float, float]]

_LEVEL = 0.9
#: A method with the right level is called too short with this chance.
_ALARM = 1e-6


def check_interval(method: Method, *, seed: int = 0, runs: int = 100) -> None:
    """Raise AssertionError unless `method(quantity, level)` keeps the contract.

    Finite, ordered, repeatable; wider for a higher level, shorter for more rows; V(4 r) has four
    times the ends; levels outside (0, 1) are refused in our words; and over `runs` logs of a world
    with known value it holds that value no less often than it says (binomial test, false-alarm rate 1e-6).
    """
    from scipy import stats

    world = space(np.random.default_rng(seed))

    def quantity_of(log: RankingLog) -> Quantity:
        contrast = IPS().estimate(log, "new", by_unit=True).contrast
        assert contrast is not None
        return contrast.value

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
    # One-sided: an interval that is too long breaks no promise.
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
    detects: bool = True,
) -> None:
    """Raise AssertionError unless `estimate` keeps the contract.

    It has a name; its objective is well-formed and does not touch what it is given; trees grown with
    it are the same for the same seed and for doubled rewards (`doubled` is the estimate to use then,
    where it holds values). `detects` adds: where interaction is strong and rows are many, the model
    without it is never chosen.
    """
    assert estimate.name and isinstance(estimate.name, str), "an MSE estimate needs a name"
    log, models = interacting_log(np.random.default_rng(seed)), candidates(3, ["S", "I"])

    def watched(position: Position) -> Objective:
        """Return the estimate's objective, given arrays that cannot be written to."""
        for array in (position.tails, position.y):
            array.setflags(write=False)
        objective = estimate.objective(position)
        assert objective.position is position, "models or rows were lost"
        assert np.isfinite(objective.rule).all() and np.isfinite(objective.targets).all(), (
            "the scoring rule is not finite"
        )
        return objective

    def assigned(mse: Any, log: RankingLog) -> NDArray[np.int64]:
        tree = BehaviorTree(candidates=models, mse=mse).fit(log, "new", seed=seed)
        return tree.assign(log.context, log.n)

    first = assigned(SimpleNamespace(name=estimate.name, objective=watched), log)
    assert np.array_equal(assigned(estimate, log), first), "two trees with one seed differ"
    # An MSE has the unit of rewards squared: a tree that changes with the unit has a threshold in
    # it.
    twice = assigned(doubled or estimate, replace(log, reward=2.0 * log.reward))
    assert np.array_equal(twice, first), "the tree for doubled rewards is another"
    alone = [m.name for m in models].index("I")
    assert not detects or not (first == alone).any(), (
        "strong interaction, 4000 rows, and the model without it was chosen"
    )


def interacting_log(rng: np.random.Generator) -> RankingLog:
    """Return 4000 rankings in which every reward depends strongly on all items: 6 more when no two are the same.

    All rows share one context, so that the biases of two groups cannot cancel.
    """
    world = space(rng, contexts=1)
    distinct = np.array([len(set(ranking)) == len(ranking) for ranking in world.rankings.tolist()])
    strong = replace(world, quality=world.quality + 6.0 * distinct[None, :, None])
    return drawn_log(strong, 4000, rng)


def _sums(batch: RankingLog) -> Floats:
    """Return what must not be lost or doubled: the number of rows, and sums of actions and rewards."""
    return np.array([batch.n, batch.action.sum(), batch.reward.sum()], dtype=np.float64)


def check_source(source: Source, log: RankingLog, *, target: str = "new") -> None:
    """Raise AssertionError unless `source` holds exactly the rows of `log` and sums like it.

    Every row once; passes repeat to the last digit; moments equal those in memory to 1e-10; a
    sample is a sample.
    """
    sums, expected_sums = source.reduce(_sums), _sums(log)
    assert (sums[:2] == expected_sums[:2]).all(), f"rows {sums} against {expected_sums}"
    assert np.isclose(sums[2], expected_sums[2], rtol=1e-10)
    assert (source.reduce(_sums) == sums).all(), "a second pass differs from the first"
    assert source.first.K == log.K and source.first.n <= log.n
    sample = source.sample(min(50, log.n), np.random.default_rng(0))
    assert 0 < sample.n <= log.n and sample.K == log.K
    mine, theirs = (_ips(s, target) for s in (source, MemorySource(log)))
    assert np.allclose(mine, theirs, rtol=1e-10), f"IPS {mine} against {theirs} in memory"


def _ips(source: Source, target: str) -> tuple[float, float]:
    plan = IPS().plan(Workspace(source, target))
    estimate = plan.finish(source.reduce(lambda batch: plan.partial(View(batch, target)).state))
    return estimate.value, estimate.stderr
