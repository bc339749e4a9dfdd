"""Laws every estimator keeps."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from counterrank.data.log import RankingLog
from counterrank.data.propensity import SUPPORTS, Propensity
from counterrank.data.source import MemorySource
from counterrank.errors import CounterrankError
from counterrank.estimators import Estimate, Estimator, View, Workspace
from counterrank.policies import Factored
from counterrank.testing.spaces import exact_log, random_log, space

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
    log = _with_policies(random_log(rng)) if policies else random_log(rng)
    found = estimator.estimate(log, "new", seed=seed)
    _well_formed(found, log)
    _repeatable(estimator, log, found, seed)
    _untouched(estimator, log, seed)
    _chunking(estimator, log, found, seed)
    _row_order(estimator, log, found, rng, seed)
    if equivariant:
        _scale(estimator, log, found, seed)
    if on_policy:
        _on_policy(estimator, log, seed)
    if shift:
        _shift(estimator, log, found, seed)
    # A log of numbers, also where whole policies were asked for above: kinds are of numbers.
    _refusals(estimator, random_log(np.random.default_rng(seed)), seed)
    if unbiased:
        world = space(rng)
        exact = estimator.estimate(exact_log(world), "new", seed=seed)
        _same(
            exact.value,
            float(world.value.sum()),
            f"{estimator.name} is biased on an enumerated space",
        )


def _well_formed(found: Estimate, log: RankingLog) -> None:
    low, high = found.interval()
    assert np.isfinite([found.value, found.stderr, low, high, found.ess]).all(), (
        f"not finite: {found}"
    )
    assert low <= found.value <= high, "the interval must hold the value"
    assert 0 <= found.ess <= log.n * (1 + 1e-9), f"ESS {found.ess} of {log.n} rows"
    assert len(found.by_position) == log.K, "one value per position"
    total = float(log.position_weights @ [p.value for p in found.by_position])
    scale = max(found.stderr, abs(found.value), 1e-12)
    assert abs(total - found.value) <= 1e-6 * scale, f"positions add to {total}, not {found.value}"
    wide, narrow = found.interval(0.99), found.interval(0.5)
    assert wide[0] <= narrow[0] <= narrow[1] <= wide[1], "a higher level needs a wider interval"
    json.dumps(found.to_dict(), allow_nan=False)


def _repeatable(estimator: Estimator, log: RankingLog, found: Estimate, seed: int) -> None:
    again = estimator.estimate(log, "new", seed=seed)
    assert (again.value, again.stderr) == (found.value, found.stderr), (
        "two runs with one seed differ"
    )


def _with_policies(log: RankingLog) -> RankingLog:
    logger, target = (Factored(log.dists[name]) for name in ("propensity", "new"))
    clicks = (log.reward > np.median(log.reward)).astype(np.float64)
    return replace(log, reward=clicks, propensity=logger, targets={"new": target}, dists={})


def _untouched(estimator: Estimator, log: RankingLog, seed: int) -> None:
    log = replace(log, action=log.action.copy(), reward=log.reward.copy(), bucket=log.bucket.copy())
    for array in (log.action, log.reward, log.context, log.bucket):
        assert array is not None
        # Writing to it then raises, which no comparison afterwards could miss.
        array.setflags(write=False)
    estimator.estimate(log, "new", seed=seed)


def _chunking(estimator: Estimator, log: RankingLog, found: Estimate, seed: int) -> None:
    workspace = Workspace(
        MemorySource(log, threads=1), "new", seed=seed, by_unit=log.unit is not None
    )
    plan = estimator.plan(workspace)
    # 37 divides neither the rows nor a kernel's block: every chunk ends in the middle of something.
    for size in (37, log.n):
        state: Any = None
        for chunk in log.chunks(size):
            part = plan.partial(View(chunk, "new")).state
            state = part if state is None else state + part
        again = plan.finish(state)
        _same(again.value, found.value, f"chunks of {size} rows change the value")
        _same(again.stderr, found.stderr, f"chunks of {size} rows change the standard error")


def _row_order(
    estimator: Estimator, log: RankingLog, found: Estimate, rng: np.random.Generator, seed: int
) -> None:
    again = estimator.estimate(
        log.where(np.ones(log.n, dtype=bool)).take(rng.permutation(log.n)), "new", seed=seed
    )
    _same(again.value, found.value, "the order of rows changes the value")


def _scale(estimator: Estimator, log: RankingLog, found: Estimate, seed: int) -> None:
    again = estimator.estimate(log.changed(reward=log.reward * 4.0), "new", seed=seed)
    assert abs(again.value - 4.0 * found.value) <= 1e-6 * max(abs(4 * found.value), 1), (
        "V(4 r) is not 4 V(r)"
    )


def _on_policy(estimator: Estimator, log: RankingLog, seed: int) -> None:
    dists = {"propensity": log.dists["propensity"], "new": log.dists["propensity"]}
    same = replace(log, targets={"new": log.propensity}, dists=dists)
    found = estimator.estimate(same, "new", seed=seed)
    _same(found.value, log.value, "the target is the logger, but does not earn what the log earned")
    _same(found.ess, log.n, "the target is the logger, but weights are not one")


def _shift(estimator: Estimator, log: RankingLog, found: Estimate, seed: int) -> None:
    again = estimator.estimate(replace(log, reward=log.reward + 3.0), "new", seed=seed)
    _same(
        again.value,
        found.value + 3.0 * float(log.position_weights.sum()),
        "V(r + 3) is not V(r) + 3 sum alpha",
    )


def _refusals(estimator: Estimator, log: RankingLog, seed: int) -> None:
    values = log.propensity.values  # type: ignore[union-attr]
    for kind in SUPPORTS:
        # The same numbers under every name: each must be used or refused, none may give nonsense.
        numbers = values.prod(axis=1) if kind == "joint" else values
        other = replace(
            log,
            propensity=Propensity(kind, numbers),
            targets={"new": Propensity(kind, numbers)},
            dists={},
        )
        try:
            found = estimator.estimate(other, "new", seed=seed)
        except CounterrankError as problem:
            assert str(problem), "an error needs a message"
        else:
            assert np.isfinite(found.value), f"{kind} propensities give {found.value}"


def _same(value: float, expected: float, law: str) -> None:
    scale = max(abs(value), abs(expected), 1e-12)
    assert abs(value - expected) <= _CLOSE * scale, f"{law}: {value!r} against {expected!r}"
