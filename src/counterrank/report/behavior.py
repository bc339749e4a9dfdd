"""Who reads how: which items matter to the rewards of whom, by the behaviour tree, as pictures and in words."""

import re
from collections.abc import Sequence

import numpy as np

from counterrank.common.texts import plural
from counterrank.estimators.behavior import Condition, ForestDescription, Leaf, People
from counterrank.report.document import (
    MATTERS,
    PARTLY,
    Block,
    Fold,
    Mask,
    Masks,
    Note,
    Table,
    section,
)
from counterrank.report.evaluation_view import Reading, column_name
from counterrank.report.words import percent, plain, sentence, whole_percents

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


def reads(reading: Reading) -> list[Block]:
    """Return pictures of what each group of users looks at, fitted for the first policy; others are folded."""
    shown = {
        described.target: masks
        for described in _described(reading)
        if (masks := _masks(reading, described)).groups
    }
    if not shown:
        return []
    first, *further = shown
    folds = [Fold(f"The same, fitted for {name}", [shown[name]]) for name in further]
    lead = (
        "Each row is the reward at a position, each column an item of the page: filled where that item "
        f"matters for the reward too. Fitted for {first}."
    )
    return section("Who reads how", "reads", shown[first], *folds, lead=lead)


def _described(reading: Reading) -> list[ForestDescription]:
    first = reading.result.behavior
    return [] if first is None else [first, *first.others.values()]


def _masks(reading: Reading, described: ForestDescription) -> Masks:
    """Return the groups of a policy's forest; a page of one item has nothing to tell apart."""
    groups = [group for group in described.people if len(group.sees) > 1 and 0 <= group.share <= 1]
    shares = whole_percents([group.share for group in groups])
    masks = [
        Mask(sentence(rule_of(group))[:-1], share, mask_words(group.sees), group.sees)
        for group, share in zip(groups, shares, strict=True)
    ]
    return Masks(masks, plural(reading.ranking))


def mask_words(sees: Sequence[Sequence[float]]) -> str:
    """Return what a picture shows: how many of the items above and below an item matter for its reward.

    >>> mask_words([[1, 0], [1, 1]]), mask_words([[1, 0], [0, 1]]), mask_words([[1, 1], [1, 1]])
    ('Reads from the top: all items above matter.', 'Only the item itself matters.', 'Looks at the whole page.')
    """
    matrix = np.asarray(sees, float)
    earlier = np.tri(len(matrix), k=-1)
    above, below = (
        _how_many(float(np.average(matrix, weights=half))) for half in (earlier, earlier.T)
    )
    if (above, below) in (("all", "all"), ("no", "no")):
        return "Looks at the whole page." if above == "all" else "Only the item itself matters."
    if below == "no":
        return f"Reads from the top: {above} items above matter."
    return f"{above.capitalize()} items above and {below} items below matter."


def _how_many(share: float) -> str:
    return next(
        word
        for least, word in ((MATTERS, "all"), (0.5, "most"), (PARTLY, "some"), (-1.0, "no"))
        if share > least
    )


def behavior(reading: Reading) -> list[Block]:
    """Return for each target what tells the groups apart, and every group in words."""
    described = _described(reading)
    tables = [
        table
        for description in described
        for table in (_importance(description), _groups(description))
    ]
    notes = [Note(line) for description in described for line in description.notes]
    return section("The groups of users in words", "behavior", *tables, *notes)


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
