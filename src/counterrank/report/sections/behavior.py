"""Who behaves how: the groups of the behaviour tree, each with its model drawn as a small matrix."""

import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report.charts import matrix
from counterrank.report.charts import rows as charts
from counterrank.report.charts.svg import tag
from counterrank.report.numbers import count, known, percent, plain, short
from counterrank.report.reading import Reading, rows, table, texts
from counterrank.report.sections import parts
from counterrank.report.sentences import level

#: Models of `counterrank.behavior.masks` in words.
_WHOLE = {
    "S": "every item matters",
    "C": "the items above matter",
    "I": "only the own item matters",
    "IC": "the items below matter",
}
_SIZED = {
    "N": "{} neighbours on either side matter",
    "I": "{} neighbours on either side matter",
    "C": "the items above and {} below matter",
    "W": "the {} items just above matter",
    "P": "the first {} items matter",
    "R": "{} other items matter",
}
#: More groups than this are listed in the table only.
MOST = 24


def section(reading: Reading) -> parts.Section | None:
    """Return the groups as cards, their estimates on one axis, and what decides."""
    described = reading.model.get("behavior")
    groups = groups_of(described)
    if not groups:
        return None
    shown = sorted(groups, key=lambda g: (g.get("position") or 0, -float(g.get("share") or 0.0)))[:MOST]
    body = tag("div", *(_card(reading, group) for group in shown), class_="groups")
    body += parts.grid(_estimates(reading, shown), _features(table(described)))
    body += parts.twin(_table(groups)) + _stability(table(described))
    lead = (
        "Groups of users and, for each, which items act on which: a row is the reward at a position, "
        "a filled cell an item that matters to it. The own item always does."
    )
    return parts.Section("behavior", "Who behaves how", lead, body)


def groups_of(described: Any) -> list[Mapping[str, Any]]:
    """Return the groups of a description: a list, or a mapping with `groups`, alone or by target or fold."""
    if isinstance(described, list):
        return rows(described)
    found = table(described)
    for name in ("groups", "leaves"):
        if rows(found.get(name)):
            return rows(found[name])
    for inner in found.values():
        if isinstance(inner, Mapping) and (nested := groups_of(inner)):
            return nested
    return []


def rule_of(group: Mapping[str, Any]) -> str:
    """Return a group's rule in words.

    >>> rule_of({"rule": ["x_device is mobile", "x_tenure_days < 30"]}), rule_of({"rule": ""})
    ('device is mobile, tenure days < 30', 'everyone')
    """
    rule = group.get("rule")
    pieces = texts(rule) if isinstance(rule, list) else [str(rule)] if rule else []
    words = [" ".join(parts.column_name(word) if word.startswith("x_") else word for word in p.split()) for p in pieces]
    return ", ".join(words).replace(">=", "≥").replace("<=", "≤") or "everyone"


def model_words(name: str) -> str:
    """Return what the name of a behaviour model means.

    >>> model_words("C"), model_words("N2"), model_words("mine")
    ('the items above matter', '2 neighbours on either side matter', 'mine')
    """
    found = re.fullmatch(r"(IC|[SCINWPR])(\d*)", name)
    if not found:
        return name
    kind, number = found[1], found[2]
    if not number:
        return _WHOLE.get(kind, name)
    return _SIZED[kind].format(number) if kind in _SIZED else name


def _card(reading: Reading, group: Mapping[str, Any]) -> Markup:
    facts = []
    if known(group.get("position")):
        facts.append(f"position {group['position']}")
    if known(group.get("share")):
        facts.append(f"{percent(group['share'], digits=0)} of {reading.words()[1]}s")
    if group.get("model"):
        facts.append(model_words(str(group["model"])))
    if known(group.get("stability")):
        facts.append(f"found again in {percent(group['stability'], digits=0)} of folds")
    value = Markup("")
    if known(group.get("value")):
        text = f"{plain(group['value'], _error(group))} ({_interval(reading, group)})"
        value = tag("p", text)
    return tag(
        "div", tag("p", rule_of(group), class_="rule"), tag("p", ", ".join(facts), class_="soft"),
        tag("div", *_matrices(group), class_="models"), value, class_="group t0",
    )  # fmt: skip


def _error(group: Mapping[str, Any]) -> Any:
    low, high = group.get("low"), group.get("high")
    width = (high - low) / 3.92 if known(low) and known(high) else None  # type: ignore[operator]
    return group.get("stderr") if known(group.get("stderr")) else width


def _interval(reading: Reading, group: Mapping[str, Any]) -> str:
    ends = (plain(group.get(key), _error(group)) for key in ("low", "high"))
    return f"{level(reading)} interval {' to '.join(ends)}"


def _matrices(group: Mapping[str, Any]) -> list[Markup]:
    found = next((group[name] for name in ("matrix", "mask", "matrices", "masks") if group.get(name)), None)
    if not isinstance(found, list) or not found:
        return []
    name = f"behaviour of {rule_of(group)}"
    if not isinstance(found[0], list):
        return [matrix.chart([found], size=96, name=name)]
    if found[0] and isinstance(found[0][0], list):
        return [matrix.chart(one, size=56, name=f"{name}, position {k}") for k, one in enumerate(found, start=1)]
    return [matrix.chart(found, size=84, name=name)]


def _estimates(reading: Reading, groups: list[Mapping[str, Any]]) -> Markup:
    reward, ranking = reading.words()
    shown = [
        charts.Row(
            label=rule_of(g), note=f"{percent(g.get('share'), digits=0)}", value=g.get("value"), low=g.get("low"),
            high=g.get("high"), shown=plain(g.get("value"), _error(g)),
            tip=f"{rule_of(g)}\n{plain(g.get('value'), _error(g))}\n{_interval(reading, g)}",
        )
        for g in groups if known(g.get("value"))
    ]  # fmt: skip
    drawn = charts.chart(shown, charts.Axis(f"{reward} per {ranking}"), name="Estimates of the groups")
    return parts.figure("What each group would earn", f"Bars are {level(reading)} intervals.", drawn)


def _features(described: Mapping[str, Any]) -> Markup:
    found = next((table(described[name]) for name in ("features", "importance") if described.get(name)), {})
    lines = [(parts.column_name(name), value) for name, value in found.items() if known(value)]
    if not lines:
        return Markup("")
    lines.sort(key=lambda item: -item[1])
    return tag("div", tag("h3", "What decides"), parts.table(("context", "gain"), [(n, short(v)) for n, v in lines]),
               class_="block")  # fmt: skip


def _stability(described: Mapping[str, Any]) -> Markup:
    value = described.get("stability")
    if not known(value):
        return Markup("")
    return tag("p", f"Trees grown on different folds agree on {percent(value)} of rows.", class_="aid")


def _table(groups: list[Mapping[str, Any]]) -> Markup:
    head = ("group", "model", "position", "share", "rows", "value", "low", "high")
    body = [
        (rule_of(g), g.get("model") or "–", g.get("position") or "all", percent(g.get("share")), count(g.get("n")),
         *(plain(g.get(key), _error(g)) for key in ("value", "low", "high")))
        for g in groups
    ]  # fmt: skip
    return parts.table(head, body, texts=2)
