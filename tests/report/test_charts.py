"""Charts: marks lie where their numbers say."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterrank.report import svg
from counterrank.report.document import (
    AxisScale,
    Row,
    Timeline,
    around_intervals,
    axis_around,
    tick_names,
)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(4, 9))
def test_ticks_are_round_few_and_inside(low: float, width: float, most: int) -> None:
    scale = AxisScale(low, low + width)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert all(scale.inside(tick) for tick in ticks)
    steps = {round((b - a) / width, 6) for a, b in zip(ticks, ticks[1:], strict=False)}
    assert len(steps) <= 1


def test_one_hopeless_interval_does_not_squeeze_the_others() -> None:
    good = [
        Row(label=str(i), value=1.0 + i / 10, low=0.9 + i / 10, high=1.1 + i / 10) for i in range(4)
    ]
    wild = Row(label="ips", value=1.2, low=-1000.0, high=1000.0)
    scale = around_intervals([*good, wild])
    assert scale.high - scale.low < 3
    drawn = "".join(str(svg.track(row, scale)) for row in (*good, wild))
    # An arrow at each end says that the interval goes on.
    assert drawn.count('x="0%" y="15"') == 1 and drawn.count('x="100%" y="15"') == 1


def test_marks_lie_where_the_numbers_say() -> None:
    data = [
        Row(label="a", value=0.0, low=0.0, high=0.0),
        Row(label="b", value=10.0, low=10.0, high=10.0),
    ]
    scale = axis_around([row.value for row in data])
    drawn = "".join(str(svg.track(row, scale)) for row in data)
    places = [float(x) for x in re.findall(r'<svg x="([\d.]+)%" y="15"', drawn)]
    margin = 0.06 / 1.12 * 100
    assert places == pytest.approx([margin, 100 - margin], abs=0.01)


def test_a_second_reading_lies_below_the_first_on_the_same_axis() -> None:
    second = Row(label="alone", value=2.0, low=-9.0, high=3.0)
    drawn = str(
        svg.track(
            Row(label="a", value=1.0, low=0.0, high=2.0, second=second), AxisScale(0.0, 4.0), 100
        )
    )
    assert '<svg x="25%" y="36"' in drawn
    # Its value is a tick at 2 of 4, its line begins at the edge with an arrow.
    assert '<line x1="50%" y1="71" x2="50%" y2="81"' in drawn
    assert '<line x1="0%" y1="76" x2="75%" y2="76"' in drawn and '<svg x="0%" y="76"' in drawn


def test_time_is_to_scale_unless_days_repeat() -> None:
    rows = [Row(label=str(day), value=1.0) for day in range(3)]
    assert Timeline("x", rows, [10, 11, 14], "").places() == pytest.approx([0.05, 0.275, 0.95])
    assert Timeline("x", rows, [10, 10, 14], "").places() == pytest.approx([1 / 6, 0.5, 5 / 6])


def test_nothing_to_show_draws_nothing() -> None:
    assert "dot" not in svg.track(Row(label="a"), AxisScale(0.0, 1.0))


def test_equal_values_still_have_an_axis() -> None:
    scale = axis_around([2.0, 2.0])
    assert scale.low < 2.0 < scale.high


@given(st.floats(-1e3, 1e3), st.floats(1e-6, 1e3))
def test_a_signed_axis_has_a_tick_on_each_side_of_zero_with_equal_decimals(
    low: float, width: float
) -> None:
    scale = axis_around([low, low + width], also=[0.0])
    ticks = scale.ticks()
    assert any(tick < 0 for tick in ticks) and any(tick > 0 for tick in ticks)
    names = tick_names(ticks, signed=True)
    assert len({len(name.partition(".")[2]) for name in names}) == 1 or max(map(abs, ticks)) <= 1e-6


def test_tiny_values_have_an_axis_of_their_own():
    scale = axis_around([1e-13, 3e-13])
    assert scale.low < 1e-13 < 3e-13 < scale.high < 4e-13
    assert [tick for tick in scale.ticks() if scale.inside(tick)] == scale.ticks() != []
