"""The list of evaluations and the comparison of two."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from counterrank.report import (
    EVIDENCE,
    SIGNS,
    Axis,
    Reading,
    Row,
    Rows,
    count,
    figure,
    headline,
    known,
    page,
    percent,
    plain,
    render,
    table,
)
from counterrank.serve.store import Entry


def listing(entries: Sequence[Entry], folder: str) -> str:
    """Return the page that lists all evaluations."""
    return page("list.html.j2", folder=folder, entries=[_line(entry) for entry in entries])


def report(entry: Entry) -> str:
    """Return the report of one evaluation, with a way back."""
    return render(entry.model, back="/")


def problem(title: str, text: str) -> str:
    """Return a page that says what went wrong."""
    return page("problem.html.j2", title=title, text=text)


def _line(entry: Entry) -> dict[str, Any]:
    reading = Reading(entry.model)
    level = reading.evidence()
    return {
        "name": entry.name,
        "link": f"/report?name={quote(entry.name, safe='')}",
        "headline": headline(reading),
        "size": count(reading.log.get("n")),
        "level": level or "unknown",
        "level_name": f"{SIGNS.get(level, '?')} {EVIDENCE[level][0] if level else 'No verdict'}",
        "written": entry.written.strftime("%Y-%m-%d %H:%M"),
    }


def compare(first: Entry, second: Entry) -> str:
    """Return two evaluations side by side: what changed in each estimate."""
    readings = (Reading(first.model), Reading(second.model))
    same = same_data(*readings)
    pairs = _pairs(*readings)
    note = (
        "Both used the same data: a difference comes from the method or the options, not from "
        "chance in the log."
        if same
        else "They used different data: errors of both add up in each difference."
    )
    return page(
        "compare.html.j2",
        title=f"{first.name} and {second.name}",
        names=(first.name, second.name),
        links=[f"/report?name={quote(entry.name, safe='')}" for entry in (first, second)],
        note=note,
        facts=table(("", "A", "B"), _facts(*readings), texts=3),
        differences=table(
            ("target", "estimator", "A", "B", "B − A", "± se", "lift A", "lift B"),
            [_difference(a, b, readings, same=same) for a, b in pairs],
            texts=2,
        ),
        chart=_chart(readings),
        only=_only(*readings),
    )


def same_data(a: Reading, b: Reading) -> bool:
    """Return whether two evaluations saw the same rows."""
    # Rows are the same data whatever targets are evaluated on them; older results know only both
    # together.
    both = a.log.get("rows_fingerprint") and b.log.get("rows_fingerprint")
    mine, other = (
        reading.log.get("rows_fingerprint" if both else "fingerprint") for reading in (a, b)
    )
    return mine is not None and mine == other


def _key(e: Mapping[str, Any]) -> tuple[str, str]:
    return str(e.get("target")), str(e.get("estimator"))


def _pairs(a: Reading, b: Reading) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    others = {_key(e): e for e in b.estimates}
    return [(e, others[_key(e)]) for e in a.estimates if _key(e) in others]


def _only(a: Reading, b: Reading) -> list[str]:
    first, second = {_key(e) for e in a.estimates}, {_key(e) for e in b.estimates}
    return [
        f"Only in {name}: {', '.join('/'.join(key) for key in sorted(extra))}"
        for name, extra in (("A", first - second), ("B", second - first))
        if extra
    ]


def _difference(
    a: Mapping[str, Any], b: Mapping[str, Any], readings: tuple[Reading, Reading], *, same: bool
) -> tuple[Any, ...]:
    errors = [e.get("stderr") for e in (a, b)]
    both = math.hypot(*errors) if all(map(known, errors)) and not same else None  # type: ignore[arg-type]
    lifts = [r.lift(*_key(a)) for r in readings]
    return (
        *_key(a), plain(a["value"], errors[0]), plain(b["value"], errors[1]),
        plain(b["value"] - a["value"], both or errors[0], sign=True), plain(both, both),
        *(percent(lift.get("relative"), sign=True) for lift in lifts),
    )  # fmt: skip


def _facts(a: Reading, b: Reading) -> list[tuple[Any, ...]]:
    def row(name: str, values: list[Any]) -> tuple[Any, ...]:
        return (name, *values)

    both = (a, b)
    return [
        row("rankings", [count(r.log.get("n")) for r in both]),
        row("positions", [r.log.get("K", "–") for r in both]),
        row("today's policy", [plain(r.log.get("value"), r.log.get("stderr")) for r in both]),
        row("evidence", [r.evidence() or "–" for r in both]),
        row("data", [r.log.get("fingerprint", "–") for r in both]),
    ]


def _chart(readings: tuple[Reading, Reading]) -> Markup:
    shown = []
    targets = list(dict.fromkeys(t for r in readings for t in r.targets))
    for target in targets:
        shown.append(Row(label=target, value=None, heading=True))
        for index, (name, reading) in enumerate(zip("AB", readings, strict=True)):
            best = reading.best(target)
            if best:
                shown.append(_row(name, index, best))
    drawn = Rows(shown, Axis("value"), "Recommended estimates of both evaluations").svg()
    return figure("Recommended estimates", "Circles: A. Diamonds: B. Bars are intervals.", drawn)


def _row(name: str, index: int, best: Mapping[str, Any]) -> Row:
    error = best.get("stderr")
    text = plain(best.get("value"), error)
    interval = f"{plain(best.get('low'), error)} to {plain(best.get('high'), error)}"
    return Row(
        label=name, note=f"by {best.get('estimator')}", value=best.get("value"), low=best.get("low"),
        high=best.get("high"), shown=text, look=f"t{index}", shape=index,
        tip=f"{name}, {best.get('estimator')}: {text}\n{interval}",
    )  # fmt: skip
