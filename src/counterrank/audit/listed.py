"""The findings of an audit as people look at them: in a table, in a notebook, as JSON."""

import html
import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

from counterrank import atomic
from counterrank.audit.findings import Finding
from counterrank.diagnostics import FAILED, PASSED, SKIPPED, WARNED, Outcome

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table
    from rich.text import Text

SCHEMA = "counterrank/audit/1"
_MARKS = {PASSED: ("✓", "green"), WARNED: ("!", "yellow"), FAILED: ("✗", "red"), SKIPPED: ("-", "")}


class Audit(tuple[dict[str, Any], ...]):
    """What the checks of a log found: a row for each, with `check`, `status`, `found`, `examples`,
    `cause`, `remedy`.

    >>> audit = Audit.of([Finding("units", PASSED, "900 users"), Finding("drift", WARNED, "day 3 differs")])
    >>> audit, audit.warned[0]["found"], audit[0]["status"]
    (Audit(warned=['drift'], passed=1), 'day 3 differs', 'passed')
    """

    __slots__ = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Self:
        """Return the rows of findings."""
        return cls(one.to_dict() for one in findings)

    @property
    def failed(self) -> Self:
        """The checks that failed: an estimate from such a log is not to be believed."""
        return self._with(FAILED)

    @property
    def warned(self) -> Self:
        """The checks that warn."""
        return self._with(WARNED)

    @property
    def passed(self) -> Self:
        """The checks that found nothing wrong."""
        return self._with(PASSED)

    @property
    def skipped(self) -> Self:
        """The checks that this log gives no occasion for."""
        return self._with(SKIPPED)

    def to_json(self, path: "str | os.PathLike[str] | None" = None) -> str:
        """Return the findings as a JSON document, and write it to `path` if one is given."""
        text = (
            json.dumps({"schema": SCHEMA, "audit": list(self)}, indent=2, ensure_ascii=False) + "\n"
        )
        if path is not None:
            atomic.write_text(path, text)
        return text

    def __repr__(self) -> str:
        """Return the names of what failed and warned, and how many passed."""
        named = {"failed": self.failed, "warned": self.warned}
        told = [
            f"{status}={[row['check'] for row in rows]}" for status, rows in named.items() if rows
        ]
        return f"Audit({', '.join([*told, f'passed={len(self.passed)}'])})"

    def __str__(self) -> str:
        import io

        from rich.console import Console

        stream = io.StringIO()
        Console(file=stream, width=110, color_system=None).print(self)
        return stream.getvalue()

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield self._table()

    def _repr_html_(self) -> str:
        cells = (
            (
                row["check"],
                f"{_MARKS[Outcome(row['status'])][0]} {row['status']}",
                row["found"],
                _advice(row),
            )
            for row in self
        )
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>"
            for line in cells
        )
        head = "".join(f"<th>{name}</th>" for name in _HEAD)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _with(self, status: Outcome) -> Self:
        return type(self)(row for row in self if row["status"] == status)

    def _table(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table(*_HEAD, box=None, pad_edge=False)
        for row in self:
            sign, style = _MARKS[Outcome(row["status"])]
            mark = Text(f"{sign} {row['status']}", style=style)
            table.add_row(_safe(row["check"]), mark, _safe(row["found"]), _safe(_advice(row)))
        return table


_HEAD = ("check", "", "found", "likely cause and remedy")


def _advice(row: dict[str, Any]) -> str:
    return " ".join(row[key] for key in ("cause", "remedy") if row.get(key))


def _safe(text: str) -> "Text":
    """Return text without markup and control characters: names of columns are the user's."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))
