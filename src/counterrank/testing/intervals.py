"""Laws every interval method keeps."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from counterrank.data.log import RankingLog
from counterrank.errors import CounterrankError
from counterrank.estimators import IPS
from counterrank.statistics import Quantity
from counterrank.testing.spaces import Space, drawn_log, space

Interval = tuple[float, float]
Method = Callable[[Quantity, float], Interval]

_LEVEL = 0.9
#: A method with the right level is called too short with this chance.
_ALARM = 1e-6


def check_interval(method: Method, *, seed: int = 0, runs: int = 100) -> None:
    """Raise AssertionError unless `method(quantity, level)` keeps the contract.

    Finite, ordered, repeatable; wider for a higher level, shorter for more rows; V(4 r) has four
    times the ends; levels outside (0, 1) are refused in our words; and over `runs` logs of a world
    with known value it holds that value no less often than it says (binomial test, false-alarm rate 1e-6).
    """
    world = space(np.random.default_rng(seed))
    log = drawn_log(world, 400, np.random.default_rng([seed, 1]))
    quantity = _quantity(log)
    low, high = method(quantity, _LEVEL)
    assert math.isfinite(low) and math.isfinite(high) and low <= high, (
        f"not an interval: {(low, high)}"
    )
    assert method(quantity, _LEVEL) == (low, high), "two calls on one quantity differ"
    _widths(method, quantity, world, seed)
    _scale(method, log, (low, high))
    _refusals(method, quantity)
    _coverage(method, world, seed, runs)


def _quantity(log: RankingLog) -> Quantity:
    contrast = IPS().estimate(log, "new", by_unit=True).contrast
    assert contrast is not None
    return contrast.value


def _width(ends: Interval) -> float:
    return ends[1] - ends[0]


def _widths(method: Method, quantity: Quantity, world: Space, seed: int) -> None:
    by_level = [method(quantity, level) for level in (0.5, 0.9, 0.99)]
    for narrow, wide in zip(by_level, by_level[1:], strict=False):
        assert wide[0] <= narrow[0] and narrow[1] <= wide[1], (
            "a higher level needs an interval around the lower one's"
        )
    more = _quantity(drawn_log(world, 6400, np.random.default_rng([seed, 2])))
    assert _width(method(more, _LEVEL)) < _width(method(quantity, _LEVEL)), (
        "16 times the rows, and no shorter"
    )


def _scale(method: Method, log: RankingLog, ends: Interval) -> None:
    again = method(_quantity(replace(log, reward=4.0 * log.reward)), _LEVEL)
    assert np.allclose(again, [4.0 * end for end in ends], rtol=1e-9), (
        f"rewards times 4: {again}, not 4 times {ends}"
    )


def _refusals(method: Method, quantity: Quantity) -> None:
    for level in (0.0, 1.0, 1.5, math.nan):
        try:
            found = method(quantity, level)
        except CounterrankError:
            continue
        raise AssertionError(f"level {level} gives {found}; it must be refused")


def _coverage(method: Method, world: Space, seed: int, runs: int) -> None:
    from scipy import stats

    truth, held = float(world.value.sum()), 0
    for run in range(runs):
        low, high = method(
            _quantity(drawn_log(world, 300, np.random.default_rng([seed, 3, run]))), _LEVEL
        )
        held += low <= truth <= high
    # One-sided: an interval that is too long breaks no promise.
    p_value = stats.binomtest(held, runs, _LEVEL, alternative="less").pvalue
    assert p_value > _ALARM, (
        f"holds the truth {held} times of {runs} at level {_LEVEL} (p = {p_value:.1e})"
    )
