"""The chart of the lifts: what is drawn, in which unit, and where it stands on the page."""

import pytest
from tests.report import sample

from counterrank.report import evaluation
from counterrank.report.estimates import lifts_drawing


def test_lifts_are_shares_of_the_baseline_with_their_intervals_against_zero():
    reading = sample.reading(sample.model())
    drawn = lifts_drawing(reading)
    assert drawn.axis.line == 0.0 and [row.label for row in drawn.rows] == reading.candidates
    for row in drawn.rows:
        lift = reading.lift(row.label)
        assert row.value == pytest.approx(100 * lift.relative)
        assert (row.low, row.high) == pytest.approx(
            (100 * lift.relative_low, 100 * lift.relative_high)
        )


def test_where_a_share_has_no_meaning_lifts_are_amounts():
    model = sample.model()
    for row in model["lift"]:
        row.update(relative=None, relative_low=None, relative_high=None)
    reading = sample.reading(model)
    drawn = lifts_drawing(reading)
    assert "clicks per page" in drawn.axis.title
    assert [row.value for row in drawn.rows] == [
        reading.lift(target).value for target in reading.candidates
    ]
    # A practical lift of one per cent, in clicks.
    assert drawn.axis.region == pytest.approx((-0.012, 0.012))


def test_the_lift_comes_before_the_value_on_the_page():
    text = evaluation.page(sample.result(sample.model()))
    lift, value = text.index("<h3>Lift over today&#39;s policy"), text.index("<h3>Clicks per page")
    assert lift < value
