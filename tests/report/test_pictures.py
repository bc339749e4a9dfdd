"""The report's charts as matplotlib figures: the same numbers in the same places, or a reason why
not.
"""

import pytest
from tests.report import sample

from counterrank.common.errors import ConfigError

pytest.importorskip("matplotlib")


#: Names that people use.
KINDS = ("lifts", "values", "agreement", "order-path", "positions", "segments", "weights")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_and_saved(kind, tmp_path):
    figure = sample.result().plot(kind)
    assert len(figure.axes) == len(sample.figures(None, kind)) > 0
    for name in ("chart.svg", "chart.png"):
        figure.savefig(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


def test_marks_stand_at_the_values():
    (axes,) = sample.result(sample.model()).plot("values").axes
    marks = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in axes.lines
        if line.get_marker() not in ("None", "")
    ]
    rows = sample.figures(None, "values")[0].rows
    assert marks == [(row.value, place) for place, row in enumerate(rows)]


def test_colours_are_those_of_the_page():
    (axes,) = sample.result(sample.model()).plot("values").axes
    colours = [line.get_color() for line in axes.lines if line.get_marker() not in ("None", "")]
    assert colours[:2] == ["#55606c", "#1a2028"]


def test_an_interval_beyond_the_axis_ends_in_an_arrow():
    model = sample.model()
    model["lift"][1]["relative_high"] = 1e6
    (axes, *_) = sample.result(model).plot("agreement").axes
    assert any(line.get_marker() == ">" for line in axes.lines)
    assert axes.get_xlim()[1] < 1e6


def test_names_with_dollars_are_no_formulas(tmp_path):
    model = sample.model()
    model["segments"][0]["label"] = "$x_{1$"
    sample.result(model).plot("segments").savefig(tmp_path / "s.svg")


def test_unknown_kinds_and_missing_numbers_are_told():
    with pytest.raises(ConfigError, match="choose one of lifts, segments, values"):
        sample.result(sample.model()).plot("vaules")
    with pytest.raises(ConfigError, match="there are no segments"):
        sample.result({**sample.model(), "segments": []}).plot("segments")
