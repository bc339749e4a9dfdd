"""What is called better or worse is so in both intervals that are shown: of the lift and of the relative lift."""

import math
from types import SimpleNamespace

import pytest
from tests.evaluation.logs import gentle_log

import counterrank as cr
from counterrank.estimators.base import Lift
from counterrank.evaluation.metric_table import decision, standing
from counterrank.report.forest import outcome
from counterrank.statistics import ONCE, Number


def lift(low, high, relative_low, relative_high):
    middle = (low + high) / 2
    return Lift(
        middle, 1.0, low, high, (), middle, relative_low=relative_low, relative_high=relative_high
    )


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((0.1, 2.0, 0.01, 0.2), "better"),
        ((0.1, 2.0, -0.01, 0.2), "unclear"),
        ((-0.1, 2.0, 0.01, 0.2), "unclear"),
        ((-2.0, -0.1, -0.2, 0.01), "unclear"),
        ((-2.0, -0.1, -0.2, -0.01), "worse"),
        ((0.1, 2.0, math.nan, math.nan), "better"),
    ],
)
def test_both_intervals_decide(ends, word):
    assert outcome(*lift(*ends).decisive).look == word
    low, high, *relative = ends
    turned = lift(-high, -low, *(-end for end in relative[::-1]))
    assert outcome(*turned.decisive, lower_is_better=True).look == word


def test_mark_and_decision_agree_where_the_relative_interval_alone_excludes_zero():
    # Found among 400 seeds: the interval of the lift holds zero, that of the relative lift does not.
    result = cr.evaluate(
        gentle_log(200, seed=327, shift=0.8), ["new"], estimators=["ips"], audit=False
    )
    found = result.estimate().lift
    assert found.low < 0.0 < found.relative_low
    assert outcome(*found.decisive).look == "unclear"
    assert "┼○" in str(result) or "─○" in str(result)
    assert "●" not in str(result)
    assert {row.code for row in result.decision.reasons} <= {"primary-open", "primary-evidence"}


class Earned:
    """What a target earns, of which only the lift and the relative lift are known."""

    def __init__(self, lift, relative):
        self.lift, self.relative = lift, relative

    def __sub__(self, _):
        return SimpleNamespace(number=lambda _, looks, family: self.lift(family))

    def relative_to(self, _):
        return SimpleNamespace(interval=lambda *_: self.relative)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("relative_low", "action"), [(0.01, "ship"), (-0.01, "test")])
def test_the_decision_waits_where_the_relative_lift_may_be_zero(relative_low, action, turned):
    low, high, relative_high, sign = 0.1, 2.0, 0.2, 1.0
    if turned:
        low, high, relative_low, relative_high = -high, -low, -relative_high, -relative_low
    values = Earned(lambda _: Number(sign, 1.0, low, high), (relative_low, relative_high)), None
    standings = {"new": standing(values, "reliable", 0.95, ONCE, 1, lower_is_better=turned)}
    assert decision("clicks", standings).action == action


@pytest.mark.parametrize("turned", [False, True])
def test_of_several_candidates_the_end_that_ships_is_the_joint_one_and_the_other_the_one_that_is_shown(
    turned,
):
    values = Earned(lambda family: Number(0.0, 1.0, -family, family), (math.nan, math.nan)), None
    ends = standing(values, "reliable", 0.95, ONCE, 3, lower_is_better=turned)
    assert ends == (-3, 1, "reliable")
