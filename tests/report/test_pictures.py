"""The report's charts as matplotlib figures: the same numbers in the same places, or a reason why
not.
"""

import pytest
from tests.report import sample

from counterrank.errors import ConfigError
from counterrank.report import pictures
from counterrank.report.estimates import values_drawing

pytest.importorskip("matplotlib")


#: Those of several metrics are drawn in tests/metrics.
SINGLE = [kind for kind in pictures.KINDS if kind not in ("metrics", "trade-offs")]


@pytest.mark.parametrize("kind", SINGLE)
def test_every_kind_is_drawn_and_saved(kind, tmp_path):
    figure = pictures.draw(sample.result(sample.model()), kind)
    panels = pictures.drawn(sample.reading(sample.model()), kind)
    assert len(figure.axes) == len(panels)
    for name in ("chart.svg", "chart.png"):
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_marks_stand_at_the_values():
    reading = sample.reading(sample.model())
    (axes,) = pictures.draw(sample.result(sample.model()), "values").axes
    marks = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() not in ("None", "")
    ]
    rows = values_drawing(reading).rows
    assert marks == [(row.value, place) for place, row in enumerate(rows)]


def test_colours_are_those_of_the_page():
    (axes,) = pictures.draw(sample.result(sample.model()), "values").axes
    colours = [line.get_color() for line in axes.lines if line.get_marker() not in ("None", "")]
    assert colours[:2] == ["#5a636e", "#0b62a4"]


def test_an_interval_beyond_the_axis_ends_in_an_arrow():
    model = sample.model()
    model["estimates"][0]["high"] = 1e6
    (axes, *_) = pictures.draw(sample.result(model), "agreement").axes
    assert any(line.get_marker() == ">" for line in axes.lines)
    assert axes.get_xlim()[1] < 1e6


def test_names_with_dollars_are_no_formulas(tmp_path):
    model = sample.model()
    model["segments"][0]["label"] = "$x_{1$"
    pictures.draw(sample.result(model), "segments").savefig(tmp_path / "s.svg")


def test_unknown_kinds_and_missing_numbers_are_told():
    with pytest.raises(ConfigError, match="choose one of lifts, values"):
        pictures.draw(sample.result(sample.model()), "vaules")
    with pytest.raises(ConfigError, match="there are no segments"):
        pictures.draw(sample.result({**sample.model(), "segments": []}), "segments")
