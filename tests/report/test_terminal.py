"""The terminal view: the same model, in eighty columns too."""

import io
from typing import Any

import pytest
from rich.console import Console
from tests.report import sample

from counterrank.report import terminal


def shown(model: dict[str, Any], width: int = 120) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(*terminal.renderables(model), sep="\n")
    return stream.getvalue()


def test_answer_evidence_estimates_flags_segments_audit() -> None:
    text = shown(sample.model())
    for piece in ("● RELIABLE evidence", "◐ DIRECTIONAL evidence", "★ auto", "[1] low-ess", "device = mobile",
                  "1 passed, 1 warned, 1 failed, 1 did not apply",
                  "✗ sums", "→ log more digits", "cascade-dr was left out"):  # fmt: skip
        assert piece in text


def test_narrow_terminals_lose_columns_not_digits() -> None:
    text = shown(sample.model(), 80)
    assert "±" not in text.split("Estimates")[1].split("Lift")[0]
    assert "1.300" in text and "1.280 to 1.320" in text
    assert "…" not in text.split("Lift")[0]


def test_markup_and_escape_codes_in_names_are_shown_not_obeyed() -> None:
    model = sample.model()
    model["estimates"][0]["flags"] = ["[red]not red[/red] \x1b[31mnor this\x1b[0m"]
    text = shown(model)
    assert "[red]not red[/red]" in text and "\x1b" not in text


@pytest.mark.parametrize("key", list(sample.model()))
@pytest.mark.parametrize("value", [None, {}, []])
def test_any_part_may_be_missing(key: str, value: Any) -> None:
    assert "24,000" in shown({**sample.model(), key: value}) or key == "log"


def test_long_lists_of_segments_show_both_ends() -> None:
    model = sample.model()
    model["segments"] = [sample.segment("personalised", "c", f"s{i}", i / 100, 0.01, 900.0) for i in range(40)]
    text = shown(model)
    assert "top and bottom of 40" in text and "s39" in text and "s0" in text and "s20" not in text
