"""Method and provenance: what was run, on what, how to repeat it."""

import json
from typing import Any

from markupsafe import Markup

from counterrank.report.charts.svg import tag
from counterrank.report.numbers import count
from counterrank.report.reading import Reading, table
from counterrank.report.sections import parts
from counterrank.report.sections.methods import describe

#: Shown in a place of their own.
_ELSEWHERE = ("options", "command", "fingerprint", "estimators")


def section(reading: Reading) -> parts.Section | None:
    """Return the estimators in words and formulas, versions, options, fingerprint."""
    names = list(dict.fromkeys(str(e.get("estimator")) for e in reading.estimates))
    known_as = [(name, found) for name in names if (found := describe(name))]
    methods = [_method(name, *found) for name, found in known_as]
    body = tag("div", *methods, class_="block methods") + parts.table(
        ("what", "value"), _facts(reading), texts=2
    )
    command = table(reading.model.get("provenance")).get("command")
    if command:
        shown = command if isinstance(command, str) else " ".join(map(str, command))
        body += tag("div", tag("h3", "Repeat it"), tag("pre", shown, tabindex="0"), class_="block")
    lead = "The same command on the same data gives the same numbers."
    return parts.Section("method", "Method and provenance", lead, body)


def _method(name: str, words: str, formula: str) -> Markup:
    head = tag("summary", tag("strong", name), " ", words)
    return tag("details", head, tag("p", formula, class_="formula"), class_="twin")


def _facts(reading: Reading) -> list[tuple[str, Any]]:
    log, provenance = reading.log, table(reading.model.get("provenance"))
    facts: list[tuple[str, Any]] = [
        ("rankings", count(log.get("n"))), ("positions", log.get("K", "–")),
        ("data fingerprint", tag("code", log.get("fingerprint", "–"))),
    ]  # fmt: skip
    options = table(provenance.get("options"))
    facts += [
        (_name(k), _text(v)) for k, v in provenance.items() if k not in _ELSEWHERE and v is not None
    ]
    facts += [
        (_name(k), _text(v))
        for k, v in options.items()
        if k not in provenance and v not in (None, [], "")
    ]
    return facts


def _name(key: str) -> str:
    return str(key).replace("_", " ")


def _text(value: Any) -> "str | Markup":
    if isinstance(value, (list, tuple)) and all(
        isinstance(item, (str, int, float)) for item in value
    ):
        return ", ".join(map(str, value))
    if isinstance(value, dict) and all(
        isinstance(item, (str, int, float)) for item in value.values()
    ):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
