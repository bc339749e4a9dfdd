"""A forest of segments, sorted by lift, with intervals adjusted for looking at many."""

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import rows as charts
from counterrank.report.numbers import count, known, plain
from counterrank.report.reading import Reading, column_name, rows, table, texts
from counterrank.report.sections import parts
from counterrank.report.sentences import level

#: Below so many effective rows a segment is faded.
FEW = 100


def section(reading: Reading) -> parts.Section | None:
    """Return a forest for each target."""
    body = parts.grid(*(_figure(reading, target) for target in reading.targets))
    if not body:
        return None
    lead = (
        "Sorted by lift within each column. Segments with too little evidence are faded, not "
        "hidden."
    )
    return parts.Section("segments", "For whom", lead, body)


def adjusted(reading: Reading, lift: Mapping[str, Any], looks: int) -> tuple[float, float] | None:
    """Return the interval that holds for all segments at once: the recorded one, or Bonferroni over
    `looks`.
    """
    if known(lift.get("adjusted_low")) and known(lift.get("adjusted_high")):
        return _around(lift, float(lift["adjusted_low"]), float(lift["adjusted_high"]))
    value, error = lift.get("value"), lift.get("stderr")
    if not (known(value) and known(error)):
        return None
    reach = NormalDist().inv_cdf(1 - (1 - reading.level) / 2 / max(looks, 1)) * float(error)
    return _around(lift, float(value) - reach, float(value) + reach)


def _around(lift: Mapping[str, Any], low: float, high: float) -> tuple[float, float]:
    """Looking at more segments never makes an interval shorter, also where the first one is not
    symmetric.
    """
    first, last = lift.get("low"), lift.get("high")
    return min(low, first) if known(first) else low, max(high, last) if known(last) else high


def weak(s: Mapping[str, Any]) -> bool:
    """Return whether a segment's evidence is insufficient: as judged, or by its effective rows."""
    if s.get("evidence"):
        return bool(s["evidence"] == "insufficient")
    return known(s.get("ess")) and float(s["ess"]) < FEW


def _of(reading: Reading, target: str) -> list[Mapping[str, Any]]:
    return [s for s in rows(reading.model.get("segments")) if s.get("target") == target]


def drawing(reading: Reading, target: str) -> charts.Drawing:
    """Return the lift of every segment of a target."""
    found, shown = _of(reading, target), []
    for column in dict.fromkeys(str(s.get("column")) for s in found):
        members = [s for s in found if str(s.get("column")) == column]
        members.sort(key=lambda s: -float(table(s.get("lift")).get("value") or 0.0))
        shown.append(charts.Row(label=column_name(column), value=None, heading=True))
        shown += [_row(reading, target, s, len(found)) for s in members]
    reward, ranking = reading.words()
    axis = charts.Axis(
        f"lift in {reward} per {ranking}", line=0.0, line_name="no change", signed=True
    )
    return charts.Drawing(shown, axis, f"Lift of {target} by segment")


def _figure(reading: Reading, target: str) -> Markup:
    found, drawn = _of(reading, target), drawing(reading, target).svg()
    aid = (
        f"Thick: {level(reading)} interval of that segment. Thin: adjusted for looking at "
        f"{len(found)} segments; only what stays on one side of zero with the thin line stands out."
    )
    return parts.figure(
        parts.named(reading, target), aid, drawn, _table(reading, found), target=target
    )


def _row(reading: Reading, target: str, s: Mapping[str, Any], looks: int) -> charts.Row:
    lift = table(s.get("lift"))
    error = lift.get("stderr")
    style = parts.style_of(reading, target)
    outer = adjusted(reading, lift, looks)
    flags = texts(s.get("flags"))
    few = weak(s)
    lines = [
        f"{column_name(s.get('column'))} = {s.get('label')}",
        f"lift {plain(lift.get('value'), error, sign=True)} ± {plain(error, error)}",
        f"{count(s.get('n'))} rows, {count(s.get('ess'))} effective",
        *(f"⚑ {flag}" for flag in flags),
    ]
    if outer is not None:
        lines.insert(
            2,
            f"adjusted interval {plain(outer[0], error, sign=True)} to "
            f"{plain(outer[1], error, sign=True)}",
        )
    return charts.Row(
        label=str(s.get("label")),
        note=f"{count(s.get('n'))} rows" + (", too little evidence" if few else ""),
        value=lift.get("value"),
        low=lift.get("low"),
        high=lift.get("high"),
        outer=outer,
        shown=plain(lift.get("value"), error, sign=True),
        tip="\n".join(lines),
        look=style.look,
        shape=style.shape,
        faded=few,
    )


def _table(reading: Reading, found: list[Mapping[str, Any]]) -> Markup:
    body = []
    for s in found:
        lift = table(s.get("lift"))
        error = lift.get("stderr")
        outer = adjusted(reading, lift, len(found)) or (None, None)
        body.append(
            (column_name(s.get("column")), s.get("label"), count(s.get("n")), count(s.get("ess")),
             *(plain(v, error, sign=True) for v in (lift.get("value"), lift.get("low"), lift.get("high"), *outer)))
        )  # fmt: skip
    head = (
        "column",
        "segment",
        "rows",
        "effective",
        "lift",
        "low",
        "high",
        "adjusted low",
        "adjusted high",
    )
    return parts.table(head, body, texts=2)
