"""Laws every estimator keeps."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from counterrank.data.log import SUPPORTS, Propensity, RankingLog
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
    plain = log = random_log(rng)
    if policies:
        logger, target = (Factored(log.dists[name]) for name in ("propensity", "new"))
        clicks = (log.reward > np.median(log.reward)).astype(np.float64)
        log = replace(log, reward=clicks, propensity=logger, targets={"new": target}, dists={})

    def estimate(other: RankingLog) -> Estimate:
        return estimator.estimate(other, "new", seed=seed)

    found = estimate(log)
    _well_formed(found, log)
    again = estimate(log)
    assert (again.value, again.stderr) == (found.value, found.stderr), (
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
    _chunking(estimator, log, found, seed)
    mixed = log.where(np.ones(log.n, dtype=bool)).take(rng.permutation(log.n))
    _same(estimate(mixed).value, found.value, "the order of rows changes the value")
    if equivariant:
        larger = estimate(log.changed(reward=log.reward * 4.0)).value
        assert abs(larger - 4.0 * found.value) <= 1e-6 * max(abs(4 * found.value), 1), (
            "V(4 r) is not 4 V(r)"
        )
    if on_policy:
        dists = {"propensity": log.dists["propensity"], "new": log.dists["propensity"]}
        own = estimate(replace(log, targets={"new": log.propensity}, dists=dists))
        law = "the target is the logger, but "
        _same(own.value, log.value, law + "does not earn what the log earned")
        _same(own.ess, log.n, law + "weights are not one")
    if shift:
        expected = found.value + 3.0 * float(log.position_weights.sum())
        higher = estimate(replace(log, reward=log.reward + 3.0)).value
        _same(higher, expected, "V(r + 3) is not V(r) + 3 sum alpha")
    # A log of numbers, also where whole policies were asked for above: kinds are of numbers.
    _refusals(estimate, plain)
    if unbiased:
        world = space(rng)
        exact = estimate(exact_log(world)).value
        law = f"{estimator.name} is biased on an enumerated space"
        _same(exact, float(world.value.sum()), law)


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


def _refusals(estimate: Callable[[RankingLog], Estimate], log: RankingLog) -> None:
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
            found = estimate(other)
        except CounterrankError as problem:
            assert str(problem), "an error needs a message"
        else:
            assert np.isfinite(found.value), f"{kind} propensities give {found.value}"


def _same(value: float, expected: float, law: str) -> None:
    scale = max(abs(value), abs(expected), 1e-12)
    assert abs(value - expected) <= _CLOSE * scale, f"{law}: {value!r} against {expected!r}"
