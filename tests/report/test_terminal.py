"""The terminal view: the same model, in eighty columns too."""

import io
import re
from typing import Any

import pytest
from rich.console import Console, Group
from tests.report import sample

from counterrank.common.errors import ConfigError
from counterrank.common.records import printed
from counterrank.report import terminal
from counterrank.report.document import BRIEF, Document, Table

shown = sample.shown


def test_answer_table_and_little_else() -> None:
    text = shown(sample.model())
    for piece in ("▲ Ship  personalised  reliable", "■ Stop  clickbait  directional", "★ auto", "device mobile",
                  "0 failed · 1 warned · 1 passed", "! No row is repeated", "Remedy: drop one copy"):  # fmt: skip
        assert piece in text
    assert "low-ess" not in text and "cascade-dr" not in text
    more = shown(sample.model(), verbose=True)
    assert "low-ess" in more and "cascade-dr" in more


def test_narrow_terminals_lose_columns_not_digits() -> None:
    table = shown(sample.model(), 60).split("Estimates")[1].split("Lift by")[0]
    assert "sampling error" not in table and "+0.082 to +0.118" in table and "…" not in table


def test_very_narrow_terminals_keep_lift_and_interval_whole() -> None:
    text = shown(sample.model(), width=44)
    table = text[text.index("Estimates") :]
    assert re.search(r"★ auto +\+0\.100 +\+0\.082 to \+0\.118", table) and "…" not in table


def test_markup_and_escape_codes_in_names_are_shown_not_obeyed() -> None:
    model = sample.model()
    model["estimates"][0]["flags"] = ["[red]not red[/red] \x1b[31mnor this\x1b[0m"]
    text = shown(model, verbose=True)
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
    assert "14 of 40" in text and "s39" in text and "s0" in text and "s20" not in text


def test_at_most_three_lines_of_advice() -> None:
    model = sample.model()
    model["audit"] = []
    model["verdict"]["targets"] = dict.fromkeys(sample.TARGETS, "directional")
    model["verdict"]["reasons"] = [
        sample.reason(target, check, "warn", "so", f"mend {check} of {target}")
        for target in sample.TARGETS
        for check in ("tail", "support")
    ]
    assert shown(model).count("→ Mend") == 3


@pytest.mark.parametrize("factor", [3e5, 3e8, 1e-9, 1e15, 1e200])
@pytest.mark.parametrize("width", [80, 110])
def test_huge_and_tiny_amounts_leave_the_table_whole(factor: float, width: int) -> None:
    model = sample.model()
    for rows in (model["estimates"], model["lift"]):
        for row in rows:
            row.update({key: row[key] * factor for key in ("value", "stderr", "low", "high")})
    text = shown(model, width)
    assert "…" not in text and "★ auto" in text


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
    table = Table("Arms", ("arm", "rows"), [("[red]a[/red]", "3"), ("b\x1b[2J", "4")], detail=BRIEF)
    text = "".join(printed(one, 60) for one in terminal.renderables(Document("", [table])))
    assert "[red]a[/red]" in text and "\x1b" not in text


@pytest.mark.parametrize("width", [60, 65, 70])
def test_a_scorecard_of_three_policies_keeps_its_numbers_whole(width: int) -> None:
    cells = [f"▲ +8.{i} % (+6.1 % to +12.7 %, directional)" for i in range(3)]
    head = ("metric", "today's policy", "better", "worse", "a policy with a long name")
    table = Table("Lifts", head, [("revenue", "3.71 per ranking", *cells)], detail=BRIEF)
    text = "".join(printed(one, width) for one in terminal.renderables(Document("", [table])))
    assert all(one in " ".join(text.split()) for one in (*cells, *head[1:], "3.71 per ranking"))


@pytest.mark.parametrize("width", [44, 60, 80, 110, 200])
def test_numbers_and_pictures_of_the_answer_keep_their_width(width: int) -> None:
    text = shown(sample.model(), width)
    lines = [line.rstrip() for line in text.splitlines()]
    assert all(len(line) <= width for line in lines)
    rows = [line for line in lines if line.startswith("  clicks")]
    assert len(rows) == 2 and all("%" in row for row in rows)
    if width >= 60:
        assert "├" in rows[0] and "┤" in rows[0] and rows[0].index("│") == rows[1].index("│")
        assert rows[1].index("◆") < rows[1].index("│") < rows[0].index("●")


def test_a_recommended_estimate_without_value_stands_first() -> None:
    model = sample.model()
    model["estimates"][0].update(value=None, low=None, high=None, stderr=None, estimable=False)
    table = shown(model).partition("Estimates")[2]
    assert table.index("★ auto") < table.index("ips")


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_bias_allowance_is_never_left_out(width):
    model = sample.model()
    for row in model["estimates"]:
        row["allowance"] = 0.0123
    model["metrics"][0]["estimates"] = model["estimates"]
    text = sample.shown(model, width)
    assert "bias" in text and text.count("± 0.012 ") == len(model["estimates"])
    assert max(map(len, text.splitlines())) <= width
