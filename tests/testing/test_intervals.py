"""Every registered interval method keeps the contract; too short a one is caught."""

import pytest

from counterrank.inference.intervals import METHODS, interval
from counterrank.testing import check_interval


@pytest.mark.parametrize("name", METHODS)
def test_registered_interval_keeps_the_contract(name):
    check_interval(METHODS[name], runs=40 if name in ("bootstrap", "poisson") else 100)


def shrunk(evidence, level):
    low, high = interval(evidence, level)
    centre, half = (low + high) / 2, (high - low) / 2
    return centre - half / 3, centre + half / 3


def ignoring_level(evidence, level):
    return interval(evidence, 0.9)


def unscaled(evidence, level):
    low, high = interval(evidence, level)
    return low - 0.1, high + 0.1


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (shrunk, "holds the truth"),
        (ignoring_level, "must be refused"),
        (unscaled, "rewards times 4"),
    ],
)
def test_a_broken_interval_is_caught(broken, law):
    with pytest.raises(AssertionError, match=law):
        check_interval(broken)
