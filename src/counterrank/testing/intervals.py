"""Laws every interval method keeps."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from counterrank.data.log import RankingLog
from counterrank.errors import CounterrankError
from counterrank.estimators import IPS
from counterrank.statistics import Quantity
from counterrank.testing.spaces import drawn_log, space

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
    _refusals(method, quantity)
    truth = float(world.value.sum())
    ends = np.array([method(quantity_of(drawn(300, 3, run)), _LEVEL) for run in range(runs)])
    held = int(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).sum())
    # One-sided: an interval that is too long breaks no promise.
    p_value = stats.binomtest(held, runs, _LEVEL, alternative="less").pvalue
    assert p_value > _ALARM, (
        f"holds the truth {held} times of {runs} at level {_LEVEL} (p = {p_value:.1e})"
    )


def _refusals(method: Method, quantity: Quantity) -> None:
    for level in (0.0, 1.0, 1.5, math.nan):
        try:
            ends = method(quantity, level)
        except CounterrankError:
            continue
        raise AssertionError(f"level {level} gives {ends}; it must be refused")
