"""Who behaves how: which items matter to the rewards of whom, by the behaviour tree."""

import re

import numpy as np

from counterrank.common.texts import plural
from counterrank.estimators.behavior import Condition, ForestDescription, Leaf, People
from counterrank.report.document import Block, Note, Table, section
from counterrank.report.reading import Reading, column_name
from counterrank.report.words import percent, plain

#: Models of `counterrank.estimators.behavior` in words.
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
EVERYONE = "everyone"


def behavior(reading: Reading) -> list[Block]:
    """Return for each target what counts for whom, the groups, and what tells them apart."""
    first = reading.result.behavior
    described = [] if first is None else [first, *first.others.values()]
    lead = "Which items of the page affect the rewards, by group of users."
    tables = [
        table
        for description in described
        for table in (_people(reading, description), _importance(description), _groups(description))
    ]
    notes = [Note(line) for description in described for line in description.notes]
    return section("Who behaves how", "behavior", *tables, *notes, lead=lead)


def _people(reading: Reading, described: ForestDescription) -> Table:
    """Return for each side of the split that matters most on how many items a reward depends."""
    rows = []
    for group in (group for group in described.people if group.sees):
        sees, length = np.clip(group.sees, 0.0, 1.0), len(group.sees)
        influences = round(float((sees.sum() - sees.trace()) / length))
        rows.append(
            (rule_of(group), percent(group.share, digits=0), f"{influences} of {length - 1}")
        )
    head = ("group", f"share of {plural(reading.ranking)}", "other items that matter to a reward")
    return Table(f"Who looks at how many items under {described.target}", head, rows)


def _importance(described: ForestDescription) -> Table:
    gains = sorted(described.importance.items(), key=lambda entry: -entry[1])
    rows = [(column_name(name), percent(share, digits=0)) for name, share in gains if share > 0]
    caption = f"Columns that separate the groups of {described.target}: shares of the improvement"
    return Table(caption, ("context", "share"), rows)


def _groups(described: ForestDescription) -> Table:
    rows = [
        (
            rule_of(leaf),
            model_words(leaf.model),
            str(tree.position),
            percent(leaf.share),
            *(plain(v, leaf.stderr) for v in (leaf.estimate, leaf.low, leaf.high)),
        )
        for tree in described.positions
        for leaf in tree.groups
    ]
    head = ("group", "what matters", "position", "share", "value", "low", "high")
    return Table(f"Groups of the behaviour tree of {described.target}", head, rows, texts=2)


def rule_of(leaf: Leaf | People) -> str:
    """Return a group's rule in words."""
    return ", ".join(map(condition_words, leaf.conditions)) or EVERYONE


def condition_words(condition: Condition) -> str:
    """Return a condition as people say it.

    >>> from counterrank.estimators.behavior import Condition
    >>> condition_words(Condition("x_device", "in", labels=("mobile", "tablet")))
    'device is mobile or tablet'
    >>> condition_words(Condition("x_tenure_days", "range", high=29.5, or_missing=True))
    '(tenure days ≤ 29.5 or missing)'
    """
    name = column_name(condition.column)
    if condition.labels:
        words = f"{name} is {'not ' if condition.kind == 'not in' else ''}{' or '.join(condition.labels)}"
    elif condition.or_missing and condition.kind == "known":
        return f"{name} anything"
    else:
        words = condition.text(name, at_most="≤")
    return f"({words} or missing)" if condition.or_missing else words


def model_words(name: str) -> str:
    """Return what the name of a behaviour model means.

    >>> model_words("C"), model_words("N2"), model_words("S, order 2")
    ('the items above matter', '2 neighbours on either side matter', 'every item matters, at most 2 at a time')
    """
    name, _, order = name.partition(", order ")
    if order:
        return f"{model_words(name)}, at most {order} at a time"
    match = re.fullmatch(r"(IC|[SCINWPR])(\d*)", name)
    if not match:
        return name
    kind, number = match[1], match[2]
    return _SIZED.get(kind, name).format(number) if number else _WHOLE.get(kind, name)
