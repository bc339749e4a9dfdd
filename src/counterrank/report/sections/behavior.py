"""Who behaves how: the groups of the behaviour tree, each with its model drawn as a small matrix."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from counterrank.report import behaviors
from counterrank.report.charts import matrix
from counterrank.report.charts.svg import percent as place
from counterrank.report.charts.svg import tag
from counterrank.report.numbers import known, percent, plain
from counterrank.report.reading import Reading, column_name, rows, table, texts
from counterrank.report.sections import parts

#: More groups than this, of all targets, are listed in the table only.
MOST = 18
#: A target shows this many at least, however many targets share the page.
FEWEST = 6
#: Trees that agree less than this are not to be read as a story.
STABLE = 0.8


def section(reading: Reading) -> parts.Section | None:
    """Return for each target the groups as cards, what decides, and the whole forest as a table."""
    every = behaviors.by_target(reading.model.get("behavior"))
    found = [(target, described) for target, described in every if _groups(described)]
    if not found:
        return None
    most = max(MOST // len(found), FEWEST)
    body = [_of_target(reading, target, described, most) for target, described in found]
    lead = (
        "Which items act on which, for whom. In a matrix a row is the reward at a position; dark "
        "is its own item, light another item that matters to it, empty one that does not."
    )
    if len(found) > 1:
        lead += (
            " Users are the same whichever policy is judged; each policy's groups are those "
            "that judge it best."
        )
    return parts.Section("behavior", "Who behaves how", lead, Markup("").join(body))


def _of_target(reading: Reading, target: str, described: Mapping[str, Any], most: int) -> Markup:
    """Return one target's groups, named when the page has several targets."""
    named = target if len(reading.targets) > 1 else ""
    title = tag("h3", parts.named(reading, target), class_="of-target") if named else Markup("")
    look = parts.style_of(reading, target).look
    cards = tag(
        "div",
        *(_card(reading, group, look) for group in _groups(described)[:most]),
        class_="groups",
    )
    told_apart, forests = (
        parts.grid(_features(reading, named, described)),
        behaviors.forests(described),
    )
    remarks, table_of_all = _remarks(described, len(forests)), parts.twin(_table(forests))
    if _stable(described):
        return title + cards + told_apart + remarks + table_of_all
    summary = tag("summary", "Show the groups all the same")
    return (
        title + remarks + tag("details", summary, cards, told_apart, class_="twin") + table_of_all
    )


def _stable(described: Mapping[str, Any]) -> bool:
    """Return whether the trees tell one story; without a second tree there is nothing to disagree."""
    stability = described.get("stability")
    return not known(stability) or float(stability) >= STABLE


def _groups(described: Mapping[str, Any]) -> list[behaviors.Group]:
    """Return the groups that are drawn: those of the first fold's trees."""
    forests = behaviors.forests(described)
    return behaviors.groups(forests[0]) if forests else []


def _card(reading: Reading, group: behaviors.Group, look: str) -> Markup:
    facts = []
    if group.share is not None:
        facts.append(f"{percent(group.share, digits=0)} of {reading.words()[1]}s")
    if group.positions and len(group.positions) < len(group.mask):
        many = "positions" if len(group.positions) > 1 else "position"
        facts.append(f"{many} {behaviors.ranges(group.positions)}")
    words = "; ".join(behaviors.model_words(name) for name in group.models)
    drawn = (
        matrix.chart(group.mask, size=84, name=f"behaviour of {group.rule}") if group.mask else ""
    )
    return tag(
        "div", tag("div", drawn, class_="models"),
        tag("div", tag("p", group.rule, class_="rule"), tag("p", ", ".join(facts), class_="soft"), tag("p", words)),
        class_=f"group {look}",
    )  # fmt: skip


def _features(reading: Reading, target: str, described: Mapping[str, Any]) -> Markup:
    found = [
        (column_name(name), float(v))
        for name, v in table(described.get("importance")).items()
        if known(v)
    ]
    found = sorted((item for item in found if item[1] > 0), key=lambda item: -item[1])
    look = parts.style_of(reading, target).look if target else "t0"
    lines = [_bar(name, share, look) for name, share in found]
    drawn = (
        tag("div", *lines, class_="rows bars chart", role="group", tabindex="0")
        if lines
        else Markup("")
    )
    data = parts.table(
        ("context", "share of the gain"), [(name, percent(share)) for name, share in found]
    )
    topic, aid = "what tells the groups apart", "Share of the improvement that splits on it bring."
    title = parts.named(reading, target, topic) if target else topic.capitalize()
    return parts.figure(title, aid, drawn, data, target=target)


def _bar(name: str, share: float, look: str) -> Markup:
    bar = tag(
        "svg", tag("rect", x=0, y=9, width="100%", height=12, rx=3, class_="bar-all"),
        tag("rect", x=0, y=9, width=place(min(share, 1.0)), height=12, rx=3, class_="bar"),
        width="100%", height=30, class_=f"track {look}", aria_hidden="true",
    )  # fmt: skip
    shown = percent(share, digits=0)
    cells = (
        tag("div", name, class_="label"),
        tag("div", bar, class_="cell"),
        tag("div", shown, class_="shown"),
    )
    return tag("div", *cells, class_="row mark", data_tip=f"{name}: {shown} of the gain")


def _remarks(described: Mapping[str, Any], folds: int) -> Markup:
    lines = texts(described.get("notes"))
    if known(described.get("stability")) and folds > 1:
        shown = percent(described["stability"], digits=0)
        if not _stable(described):
            lines.insert(
                0,
                "Where the trees disagree, a group is a means to a smaller error, not a finding "
                "about users.",
            )
        lines.insert(0, f"{folds} trees were grown on different users; they agree on {shown} of "
                        "rows and positions. The first is drawn, the table holds all.")  # fmt: skip
    return (
        tag("ul", *(tag("li", line) for line in lines), class_="plain-list")
        if lines
        else Markup("")
    )


def _table(forests: list[Mapping[str, Any]]) -> Markup:
    head = ("group", "model", "fold", "position", "share", "value", "low", "high")
    body = []
    for number, forest in enumerate(forests, start=1):
        for tree in rows(forest.get("positions")):
            for leaf in rows(tree.get("groups")):
                value = leaf.get("estimate", leaf.get("value"))
                numbers = (
                    plain(v, leaf.get("stderr")) for v in (value, leaf.get("low"), leaf.get("high"))
                )
                where = tree.get("position") or "all"
                rule = behaviors.rule_of(leaf)
                body.append(
                    (rule, leaf.get("model"), number, where, percent(leaf.get("share")), *numbers)
                )
    return parts.table(head, body, texts=2)
