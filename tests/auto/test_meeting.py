"""How far `auto` meets IIPS, and what its interval allows for by the reward model's kind."""

import numpy as np
import pytest

from counterrank.estimators.auto.plan import column_names
from counterrank.estimators.auto.routes import CLASSES, MODEL, TRIPLES, WEIGHTS
from counterrank.estimators.auto.rule import decide
from counterrank.estimators.auto.state import Summary

QUIET = ("logger", "dm", "projected", "dr-order-1", "dr-pairs")


def summary_of(iips, noise, *, logger=9.0):
    """Return a summary of four positions in which everything is 10 with little noise but IIPS and higher orders."""
    names = column_names(4)
    value, spread = np.full(len(names), 10.0), np.array([0.01 if name in QUIET else 3.0 for name in names])
    value[names.index("iips")], value[names.index("logger")] = iips, logger
    spread[names.index("iips")] = noise
    covariance = np.diag(spread**2)
    return Summary(
        names, 1000, np.ones(4), np.tile(value / 4, (4, 1)), value, covariance, np.stack([covariance / 16] * 4),
        np.ones(len(names)), 1000,
    )  # fmt: skip


def met(found):
    return dict(found.moves)["iips"]


def test_where_they_agree_the_two_are_averaged():
    found = decide(summary_of(10.05, 0.1), MODEL)
    size = 0.4 * found.anchor
    assert met(found) == pytest.approx(0.5 * size**2 / (size**2 + 0.1**2))
    assert 10.01 < found.weights @ summary_of(10.05, 0.1).value < 10.025


def test_a_clear_difference_moves_little():
    """d = 2 at s = .1 (and .01 of order 1): 2 s^2 / d^2 is about .005."""
    found = decide(summary_of(12.0, 0.1), MODEL)
    size = 0.4 * found.anchor
    assert met(found) == pytest.approx(2 * (0.1**2 + 0.01**2) / 4 * size**2 / (size**2 + 0.1**2))


def test_a_noisy_iips_is_no_place_to_meet():
    quiet, noisy = decide(summary_of(10.05, 0.1), MODEL), decide(summary_of(10.05, 5.0), MODEL)
    assert met(noisy) < 0.01 < met(quiet)


def test_the_interval_stays_where_it_was():
    """It does not allow for the bias of IIPS, so its centre does not move towards it."""
    summary = summary_of(10.3, 0.3)
    found = decide(summary, MODEL)
    assert found.base == "dr-pairs"
    assert found.centre[summary.index("iips")] == 0.0 < found.weights[summary.index("iips")]
    assert found.centre.sum() == pytest.approx(1.0) and found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("same", [True, False])
def test_nothing_moves_without_reason(same):
    """Equal values, or a route that does not meet: no step, and no division by zero."""
    found = decide(summary_of(10.0, 0.1, logger=10.0 if same else 9.0), MODEL if same else WEIGHTS)
    assert "iips" not in dict(found.moves)


def test_classes_allow_for_less_and_three_way_effects_for_more():
    summary = summary_of(9.0, 0.1)
    widths = [decide(summary, route).allowance for route in (CLASSES, MODEL, TRIPLES)]
    assert widths[0] < widths[1] < widths[2]
    assert dict(TRIPLES.members)["dr-order-2"] == dict(TRIPLES.members)["dr-pairs"]  # pairs tell nothing of threes
