"""The matrix of visibilities: drawn when an estimate has one, left out when it is damaged."""

import copy
from typing import Any

import pytest
from tests.report import sample

from counterrank.report.visibility import visibility


def test_the_matrix_is_drawn_with_its_numbers() -> None:
    shown = visibility(sample.reading(sample.model()))
    assert shown is not None
    text = str(shown.body)
    assert text.count('class="mark"') == 30  # six positions, each with five others
    assert "reward at 3, item at 2: 1.60 of the average" in text
    assert "<td" in text and "Show the numbers" in text


@pytest.mark.parametrize(
    "damage", [None, "text", [[1.0]], [[0.0, "x"], [1.0, 0.0]], [[0.0, 1.0]], 5]
)
def test_damaged_numbers_are_left_out(damage: Any) -> None:
    model = copy.deepcopy(sample.model())
    model["estimates"][0]["details"]["regression"]["visibility"] = damage
    shown = visibility(sample.reading(model))
    assert shown is None or damage == [[1.0]]
