"""The terminal view: the same model, in eighty columns too."""

import io
import re
from typing import Any

import pytest
from rich.console import Console, Group
from tests.report import sample

from counterrank.errors import ConfigError
from counterrank.report import terminal


def shown(model: dict[str, Any], width: int = 120) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(
        *terminal.renderables(sample.result(model)), sep="\n"
    )
    return stream.getvalue()


def test_answer_evidence_estimates_flags_segments_audit() -> None:
    text = shown(sample.model())
    for piece in ("● RELIABLE evidence", "◐ DIRECTIONAL evidence", "★ auto", "[1] "
                                                                             "low-ess", "device = "
                                                                                        "mobile",
                  "1 passed, 1 warned, 1 failed, 1 did not apply",
                  "✗ sums", "→ log more digits", "cascade-dr was left out"):  # fmt: skip
        assert piece in text


def test_narrow_terminals_lose_columns_not_digits() -> None:
    text = shown(sample.model(), 80)
    assert "±" not in text.split("Estimates")[1].split("Lift")[0]
    assert "1.300" in text and "+0.082 to +0.118" in text
    assert "…" not in text.split("Lift")[0]


def test_very_narrow_terminals_keep_lift_and_interval_whole() -> None:
    text = shown(sample.model(), width=44)
    table = text[text.index("Estimates") :]
    table = table[: table.index("Lift by segment")]
    assert re.search(r"★ auto +\+0\.100 +\+0\.082 to \+0\.118", table) and "…" not in table


def test_markup_and_escape_codes_in_names_are_shown_not_obeyed() -> None:
    model = sample.model()
    model["estimates"][0]["flags"] = ["[red]not red[/red] \x1b[31mnor this\x1b[0m"]
    text = shown(model)
    assert "[red]not red[/red]" in text and "\x1b" not in text


@pytest.mark.parametrize("key", list(sample.model()))
@pytest.mark.parametrize("value", [None, {}, []])
def test_any_part_may_be_missing(key: str, value: Any) -> None:
    # What there is, or one message that names the part.
    try:
        assert "24,000" in shown({**sample.model(), key: value})
    except ConfigError as problem:
        assert "damaged" in str(problem) or "is expected here" in str(problem)


def test_long_lists_of_segments_show_both_ends() -> None:
    model = sample.model()
    model["segments"] = [
        sample.segment("personalised", "c", f"s{i}", i / 100, 0.01, 900.0) for i in range(40)
    ]
    text = shown(model)
    assert "top and bottom of 40" in text and "s39" in text and "s0" in text and "s20" not in text


def _scaled(value, factor, key=None):
    """Return a model whose amounts are `factor` times as large."""
    if isinstance(value, dict):
        return {name: _scaled(item, factor, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_scaled(item, factor, key) for item in value]
    return (
        value * factor
        if key in ("value", "stderr", "low", "high") and isinstance(value, (int, float))
        else value
    )


@pytest.mark.parametrize("width", [80, 110])
@pytest.mark.parametrize(
    ("factor", "unit", "value"),
    [(1.0, "", "1.300"), (3e5, "", "390,000"), (3e8, ", in millions", "390.0"), (1e9, ", in "
                                                                                      "billions", "1.300"),
     (1e-9, ", in units of 1e-9", "1.300"),
     (1e15, ", in units of 1e15", "1.300"), (1e200, ", in units of 1e198", "130.0")],
)  # fmt: skip
def test_huge_and_tiny_amounts_leave_the_table_whole(factor, unit, value, width):
    text = shown(_scaled(sample.model(), factor), width)
    assert f"Estimates{unit} (★ recommended)" in text and f"Lift by segment{unit}" in text
    assert "…" not in text[text.index("Estimates") : text.index("Audit")]
    assert re.search(rf"★ auto .*% +{re.escape(value)} ", text)


@pytest.mark.parametrize("space", ["\N{NO-BREAK SPACE}", "\N{NARROW NO-BREAK SPACE}"])
def test_no_line_breaks_between_a_number_and_its_per_cent(space: str) -> None:
    text = terminal.safe(f"a lift of 12{space}% at the level 95{space}% and no more")
    for width in range(10, 40):
        stream = io.StringIO()
        console = Console(file=stream, width=width, color_system=None)
        console.print(Group(text))  # Rich joins bare texts into one of its own
        pieces = " ".join(line.strip(" ") for line in stream.getvalue().splitlines()).strip()
        assert pieces == text.plain, width
    assert console.measure(text).minimum == len("level") < console.measure(text).maximum


def test_cells_of_a_table_are_shown_as_they_are() -> None:
    stream = io.StringIO()
    table = terminal.tabled("Arms", ("arm", "rows"), [("[red]a[/red]", 3), ("b\x1b[2J", 4)])
    Console(file=stream, width=60, color_system=None).print(table)
    assert "[red]a[/red]" in stream.getvalue() and "\x1b" not in stream.getvalue()
