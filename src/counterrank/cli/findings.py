"""The audit's findings for a terminal and as JSON."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = "counterrank/audit/1"
_MARKS = {"passed": "[green]✓ passed[/]", "warned": "[yellow]! warned[/]", "failed": "[red]✗ failed[/]"}


def as_json(findings: Sequence[dict[str, Any]]) -> str:
    """Return the findings as a JSON document."""
    return json.dumps({"schema": SCHEMA, "audit": list(findings)}, indent=2, ensure_ascii=False) + "\n"


def as_table(findings: Sequence[dict[str, Any]]) -> "Table":
    """Return a row for each check: what was found, why it may be so, what to do."""
    from rich.markup import escape
    from rich.table import Table

    table = Table("check", "", "found", "likely cause and remedy", box=None, pad_edge=False)
    for finding in findings:
        advice = " ".join(finding[key] for key in ("cause", "remedy") if finding.get(key))
        mark = _MARKS.get(finding["status"], "- skipped")
        table.add_row(escape(finding["check"]), mark, escape(finding["found"]), escape(advice))
    return table
