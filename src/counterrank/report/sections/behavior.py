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

#: More groups than this are listed in the table only.
MOST = 18
#: Trees that agree less than this are not to be read as a story.
STABLE = 0.8


def section(reading: Reading) -> parts.Section | None:
    """Return the groups as cards, what decides, and the whole forest as a table."""
    described = reading.model.get("behavior")
    forests = behaviors.forests(described)
    groups = behaviors.groups(forests[0]) if forests else []
    if not groups:
        return None
    body = tag("div", *(_card(reading, group) for group in groups[:MOST]), class_="groups")
    body += parts.grid(_features(table(described)))
    body += _remarks(table(described), len(forests)) + parts.twin(_table(forests))
    lead = (
        "Which items act on which, for whom. In a matrix a row is the reward at a position; dark is its own item, "
        "light another item that matters to it, empty one that does not."
    )
    return parts.Section("behavior", "Who behaves how", lead, body)


def _card(reading: Reading, group: behaviors.Group) -> Markup:
    facts = []
    if group.share is not None:
        facts.append(f"{percent(group.share, digits=0)} of {reading.words()[1]}s")
    if group.positions and len(group.positions) < len(group.mask):
        many = "positions" if len(group.positions) > 1 else "position"
        facts.append(f"{many} {behaviors.ranges(group.positions)}")
    words = "; ".join(behaviors.model_words(name) for name in group.models)
    drawn = matrix.chart(group.mask, size=84, name=f"behaviour of {group.rule}") if group.mask else ""
    return tag(
        "div", tag("div", drawn, class_="models"),
        tag("div", tag("p", group.rule, class_="rule"), tag("p", ", ".join(facts), class_="soft"), tag("p", words)),
        class_="group t0",
    )  # fmt: skip


def _features(described: Mapping[str, Any]) -> Markup:
    found = [(column_name(name), float(v)) for name, v in table(described.get("importance")).items() if known(v)]
    found = sorted((item for item in found if item[1] > 0), key=lambda item: -item[1])
    lines = [_bar(name, share) for name, share in found]
    drawn = tag("div", *lines, class_="rows bars chart", role="group", tabindex="0") if lines else Markup("")
    data = parts.table(("context", "share of the gain"), [(name, percent(share)) for name, share in found])
    return parts.figure("What tells the groups apart", "Share of the improvement that splits on it bring.", drawn, data)


def _bar(name: str, share: float) -> Markup:
    bar = tag(
        "svg", tag("rect", x=0, y=9, width="100%", height=12, rx=3, class_="bar-all"),
        tag("rect", x=0, y=9, width=place(min(share, 1.0)), height=12, rx=3, class_="bar"),
        width="100%", height=30, class_="track t0", aria_hidden="true",
    )  # fmt: skip
    shown = percent(share, digits=0)
    cells = (tag("div", name, class_="label"), tag("div", bar, class_="cell"), tag("div", shown, class_="shown"))
    return tag("div", *cells, class_="row mark", data_tip=f"{name}: {shown} of the gain")


def _remarks(described: Mapping[str, Any], folds: int) -> Markup:
    lines = texts(described.get("notes"))
    if known(described.get("stability")) and folds > 1:
        shown = percent(described["stability"], digits=0)
        if described["stability"] < STABLE:
            lines.insert(
                0, "Where the trees disagree, a group is a means to a smaller error, not a finding about users."
            )
        lines.insert(0, f"{folds} trees were grown on different users; they agree on {shown} of rows and positions. "
                        "The first is drawn, the table holds all.")  # fmt: skip
    return tag("ul", *(tag("li", line) for line in lines), class_="plain-list") if lines else Markup("")


def _table(forests: list[Mapping[str, Any]]) -> Markup:
    head = ("group", "model", "fold", "position", "share", "value", "low", "high")
    body = []
    for number, forest in enumerate(forests, start=1):
        for tree in rows(forest.get("positions")):
            for leaf in rows(tree.get("groups")):
                value = leaf.get("estimate", leaf.get("value"))
                numbers = (plain(v, leaf.get("stderr")) for v in (value, leaf.get("low"), leaf.get("high")))
                where = tree.get("position") or "all"
                rule = behaviors.rule_of(leaf)
                body.append((rule, leaf.get("model"), number, where, percent(leaf.get("share")), *numbers))
    return parts.table(head, body, texts=2)
