"""Do the estimators agree? Dots with intervals, grouped by what they rest on."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import rows as charts
from counterrank.report.charts.svg import tag
from counterrank.report.numbers import count, known, percent, plain, span
from counterrank.report.reading import Reading, family, known_bias, rows, table, texts
from counterrank.report.sections import parts
from counterrank.report.sentences import interval

GROUPS = {
    "weights": ("From weights alone", "no model of the reward"),
    "model": ("With a model of the reward", "weights correct what the model gets wrong"),
    "biased": ("Biased as soon as items act on each other", "shown for comparison"),
}


def section(reading: Reading) -> parts.Section | None:
    """Return one figure a target and the flags."""
    figures = [_figure(reading, target) for target in reading.targets]
    if not any(figures):
        return None
    body = parts.grid(*figures) + _flags(reading) + _skipped(reading)
    lead = (
        "Different methods make different mistakes. When those that should agree do agree, the "
        "answer is safer."
    )
    return parts.Section("estimators", "Do the estimators agree?", lead, body)


def drawing(reading: Reading, target: str) -> charts.Drawing:
    """Return every estimate of a target, the recommended one first, then by what they rest on."""
    found = reading.of(target)
    best = reading.recommended(target)
    shown = [charts.Row(label="Recommended", value=None, heading=True)]
    shown += [_row(reading, target, e) for e in found if e.get("estimator") == best]
    for name, (title, note) in GROUPS.items():
        members = [e for e in found if e.get("estimator") != best and family(e) == name]
        if members:
            shown.append(charts.Row(label=title, note=note, value=None, heading=True))
            shown += [_row(reading, target, e, faded=name == "biased") for e in members]
    today = reading.log.get("value")
    reward, ranking = reading.words()
    axis = charts.Axis(
        f"{reward} per {ranking}", line=today if known(today) else None, line_name="today"
    )
    return charts.Drawing(shown, axis, f"Estimates of {target}")


def _figure(reading: Reading, target: str) -> Markup:
    aid = (
        f"{agreement_in_words(reading, target)} The recommended estimate comes first; known "
        "bias is greyed."
    )
    numbers = _table(reading, target) + _why(reading, target)
    return parts.figure(
        parts.named(reading, target), aid, drawing(reading, target).svg(), numbers, target=target
    )


def agreement_in_words(reading: Reading, target: str) -> str:
    """Return whether the intervals that should agree overlap with the recommended one's, naming
    those that do not.
    """
    best = reading.best(target)
    others = [
        e
        for e in reading.of(target)
        if e is not best and family(e) != "biased" and _has_interval(e)
    ]
    if not _has_interval(best) or not others:
        return "Intervals that overlap agree."
    apart = [
        str(e["estimator"]) for e in others if e["low"] > best["high"] or e["high"] < best["low"]
    ]
    if not apart:
        return "All intervals that should agree overlap with the recommended one."
    verb = "does" if len(apart) == 1 else "do"
    return (
        f"{', '.join(apart)} {verb} not overlap with the recommended estimate: the methods rest on "
        "different assumptions, and at least one of them fails here."
    )


def _has_interval(e: Mapping[str, Any]) -> bool:
    return known(e.get("low")) and known(e.get("high"))


def _why(reading: Reading, target: str) -> Markup:
    """What the recommended estimator says about its own choice."""
    found = table(reading.best(target).get("details")).get("why")
    return (
        tag("p", tag("em", f"{reading.recommended(target)}: "), found, class_="aid why")
        if found
        else Markup("")
    )


def _row(reading: Reading, target: str, e: Mapping[str, Any], *, faded: bool = False) -> charts.Row:
    # One column, one number of digits: those that the recommended estimate's error supports.
    error = reading.best(target).get("stderr") or e.get("stderr")
    style = parts.style_of(reading, target)
    name = str(e.get("estimator"))
    lift = reading.lift(target, name)
    flags = texts(e.get("flags"))
    lines = [
        f"{name}: {plain(e.get('value'), error)} ± {plain(e.get('stderr'), error)}",
        interval(reading, span(e.get("low"), e.get("high"), error)),
        f"lift {percent(lift.get('relative'), sign=True)}",
        f"effective rows {count(e.get('ess'))}",
        *(f"⚑ {flag}" for flag in flags),
    ]
    best = name == reading.recommended(target)
    note = known_bias(name) if faded else ("★ recommended" if best else "")
    return charts.Row(
        label=name + (" ⚑" if flags else ""), note=note, value=e.get("value"), low=e.get("low"), high=e.get("high"),
        shown=plain(e.get("value"), error), tip="\n".join(lines), look=style.look, shape=style.shape, faded=faded,
    )  # fmt: skip


def _table(reading: Reading, target: str) -> Markup:
    head = ("estimator", "value", "std. error", "low", "high", "lift", "relative", "effective rows")
    body = []
    for e in reading.of(target):
        error = e.get("stderr")
        lift = reading.lift(target, str(e.get("estimator")))
        body.append(
            (e.get("estimator"), plain(e.get("value"), error), plain(error, error), plain(e.get("low"), error),
             plain(e.get("high"), error), plain(lift.get("value"), lift.get("stderr"), sign=True),
             percent(lift.get("relative"), sign=True), count(e.get("ess")))
        )  # fmt: skip
    return parts.table(head, body)


def _flags(reading: Reading) -> Markup:
    found: dict[str, list[str]] = {}
    for e in reading.estimates:
        for flag in texts(e.get("flags")):
            found.setdefault(flag, []).append(f"{e.get('target')}/{e.get('estimator')}")
    if not found:
        return Markup("")
    lines = [
        tag("li", tag("span", ", ".join(who), class_="who"), " ", flag)
        for flag, who in found.items()
    ]
    return tag("div", tag("h3", "⚑ Flags"), tag("ul", *lines, class_="plain-list"), class_="block")


def _skipped(reading: Reading) -> Markup:
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows(reading.model.get("skipped")):
        key = (str(row.get("estimator")), str(row.get("reason")))
        found.setdefault(key, []).append(str(row.get("target")))
    if not found:
        return Markup("")
    lines = [tag("li", tag("span", name, class_="who"), " ", reason) for name, reason in found]
    return tag(
        "details",
        tag("summary", f"{len(lines)} left out, and why"),
        tag("ul", *lines),
        class_="twin",
    )
