"""The interval of a quantity keeps the contract; too short a one is caught."""

import pytest

from counterrank.statistics import Quantity
from counterrank.testing import check_interval


def test_the_interval_of_a_quantity_keeps_the_contract():
    check_interval(Quantity.interval)


def shrunk(quantity, level):
    low, high = quantity.interval(level)
    centre, half = (low + high) / 2, (high - low) / 2
    return centre - half / 3, centre + half / 3


def ignoring_level(quantity, level):
    return quantity.interval(0.9)


def unscaled(quantity, level):
    low, high = quantity.interval(level)
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
