"""The behaviour tree as a report reads it: groups of users, each with the items that matter to
them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from counterrank.report.numbers import known
from counterrank.report.reading import column_name, rows, table, texts

#: Models of `counterrank.behavior` in words.
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

Mask = tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Users for whom a rule holds; `mask` has a row for each position, None where another rule
    decides.
    """

    rule: str
    share: float | None
    models: tuple[str, ...]
    mask: Mask
    positions: tuple[int, ...] = ()


def by_target(described: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the targets whose trees were fitted, in order: the first's description holds the
    others'.

    >>> by_target({"target": "a", "folds": [], "others": {"b": {"folds": []}}})[1]
    ('b', {'folds': []})
    """
    first = table(described)
    others = [(str(target), table(other)) for target, other in table(first.get("others")).items()]
    return [(str(first.get("target") or ""), first), *others] if first else []


def forests(described: Any) -> list[Mapping[str, Any]]:
    """Return the forests of a description: one for each fold, or the only one."""
    found = table(described)
    inner = rows(found.get("folds"))
    return inner if inner else [found] if found else []


def groups(forest: Mapping[str, Any]) -> list[Group]:
    """Return the groups of a forest; positions split by the same rules share their groups."""
    trees = [
        (tree.get("position"), rows(tree.get("groups"))) for tree in rows(forest.get("positions"))
    ]
    length = len(trees)
    partitions: dict[tuple[str, ...], list[tuple[int, list[Mapping[str, Any]]]]] = {}
    found = []
    for position, leaves in trees:
        if known(position):
            key = tuple(sorted(rule_of(leaf) for leaf in leaves))
            partitions.setdefault(key, []).append((int(position), leaves))
        else:
            found += [_whole(leaf) for leaf in leaves]
    for members in partitions.values():
        found += [_joined(rule_of(leaf), members, length) for leaf in members[0][1]]
    return sorted(
        found,
        key=lambda group: (group.rule != EVERYONE, group.positions[:1], -(group.share or 0.0)),
    )


def _whole(leaf: Mapping[str, Any]) -> Group:
    mask = tuple(_row(row) for row in leaf.get("items") or ())
    share = leaf.get("share")
    return Group(rule_of(leaf), share if known(share) else None, (str(leaf.get("model")),), mask)


def _joined(rule: str, members: list[tuple[int, list[Mapping[str, Any]]]], length: int) -> Group:
    leaves = {
        position: leaf for position, found in members for leaf in found if rule_of(leaf) == rule
    }
    shares = [float(leaf["share"]) for leaf in leaves.values() if known(leaf.get("share"))]
    mask = tuple(
        _row(leaves[k].get("items")) if k in leaves else None for k in range(1, length + 1)
    )
    models = tuple(dict.fromkeys(str(leaf.get("model")) for leaf in leaves.values()))
    share = sum(shares) / len(shares) if shares else None
    return Group(rule, share, models, mask, tuple(sorted(leaves)))


def _row(items: Any) -> tuple[int, ...] | None:
    return tuple(int(bool(item)) for item in items) if isinstance(items, list) else None


def rule_of(leaf: Mapping[str, Any]) -> str:
    """Return a group's rule in words.

    >>> rule_of({"rules": ["x_device in {mobile, tablet}", "x_tenure_days <= 29.5"]}), rule_of({"rule": "all rankings"})
    ('device is mobile or tablet, tenure days ≤ 29.5', 'everyone')
    """
    pieces = texts(leaf.get("rules")) or [str(leaf.get("rule") or "")]
    text = ", ".join(pieces)
    text = re.sub(r"\bx_(\w+)", lambda found: column_name(found[0]), text)
    text = re.sub(
        r"not in \{([^}]*)\}", lambda found: "is not " + found[1].replace(", ", " or "), text
    )
    text = re.sub(r"in \{([^}]*)\}", lambda found: "is " + found[1].replace(", ", " or "), text)
    text = text.replace(">=", "≥").replace("<=", "≤")
    return EVERYONE if text in ("", "all rankings") else text


def model_words(name: str) -> str:
    """Return what the name of a behaviour model means.

    >>> model_words("C"), model_words("N2"), model_words("S, order 2")
    ('the items above matter', '2 neighbours on either side matter', 'every item matters, at most 2
    at a time')
    """
    name, _, order = name.partition(", order ")
    if order:
        return f"{model_words(name)}, at most {order} at a time"
    found = re.fullmatch(r"(IC|[SCINWPR])(\d*)", name)
    if not found:
        return name
    kind, number = found[1], found[2]
    if not number:
        return _WHOLE.get(kind, name)
    return _SIZED[kind].format(number) if kind in _SIZED else name


def ranges(positions: tuple[int, ...]) -> str:
    """Return positions as people write them.

    >>> ranges((1, 2, 3, 5)), ranges((4,))
    ('1–3, 5', '4')
    """
    runs: list[list[int]] = []
    for k in positions:
        if runs and runs[-1][-1] == k - 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)
