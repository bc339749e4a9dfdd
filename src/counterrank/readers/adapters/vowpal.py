"""Vowpal Wabbit logs of slates: conditional contextual bandits (CCB) and Slates, as JSON or dsjson
lines.

A line is {"c": {shared features, "_multi": [actions], "_slots": [slots]}, "_outcomes": [one per
slot]}; an outcome is {"_a": [chosen action, others], "_p": [their probabilities], "_label_cost":
cost}. The plain JSON form has the same keys inside "_slots". Costs become rewards with the opposite
sign.

CCB fills slots one after another from what is left, so `_p` is conditional on the slots above: kind
"prefix", one cost a slot. Slates fill slots independently, kind "factored", with one cost for the
whole, which is put at the last slot. Formats: github.com/VowpalWabbit/vowpal_wabbit/wiki (DSJSON,
Conditional-Contextual-Bandit, Slates).
"""

import os
from collections.abc import Iterator
from typing import Any, Unpack

import pyarrow as pa

from counterrank.errors import LogError
from counterrank.log import RankingLog
from counterrank.readers.adapters import common
from counterrank.readers.messages import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.reading import from_table
from counterrank.texts import BY_INDEX

Event = dict[str, Any]


def read_vw_ccb(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return a CCB log; a target policy is a key of the outcomes, its probability of what was
    shown, or "uniform".
    """
    return load_vw_ccb(path, ReadOptions.of(**options))


def read_vw_slates(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return a Slates log; a target policy is a key of the outcomes or "uniform"."""
    return load_vw_slates(path, ReadOptions.of(**options))


def load_vw_ccb(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the CCB log at `path`."""
    return _load(path, options, slates=False)


def load_vw_slates(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the Slates log at `path`."""
    return _load(path, options, slates=True)


def _load(path: str | os.PathLike[str], options: ReadOptions, *, slates: bool) -> RankingLog:
    what = os.fspath(path)
    with guard(what, prefix=True):
        rows = [_row(event, place, options.targets or (), slates) for place, event in _events(what)]
        if not rows:
            raise LogError(f"{what} has no event with an outcome")
        named = all(isinstance(name, str) for row in rows for name in row["tag"])
        notes = () if named else (BY_INDEX,)
        columns = {"action": [row["tag" if named else "index"] for row in rows]}
        columns |= {
            name: [row[name] for row in rows]
            for name in rows[0]
            if name not in ("shared", "tag", "index")
        }
        shared, context = common.feature_columns([row["shared"] for row in rows])
        table = pa.table({**shared, **columns})
        context = [name for name in context if name not in columns]
        log = from_table(
            table, common.merged(options, {}, context, "factored" if slates else "prefix")
        )
    object.__setattr__(log, "notes", (*log.notes, *notes))
    return log


def _events(path: str) -> Iterator[tuple[str, Event]]:
    """Events that were learned from; those marked "_skipLearn" are not part of the log."""
    for place, event in common.json_lines(path):
        if not event.get("_skipLearn", False):
            if float(event.get("pdrop", 0) or 0) > 0:
                raise LogError(
                    f"{place}: events were dropped at random (pdrop {event['pdrop']}); the log no "
                    "longer has the rows in their true shares. Use a log without dropping"
                )
            yield place, event


def _row(event: Event, place: str, targets: tuple[str, ...], slates: bool) -> dict[str, Any]:
    inside = event.get("c", event)
    outcomes = event.get("_outcomes") or (
        inside.get("_slots") if isinstance(inside, dict) else None
    )
    if not isinstance(inside, dict) or not isinstance(outcomes, list) or not outcomes:
        raise LogError(
            f"{place}: there is no '_outcomes' list (or '_slots' with outcomes); is this a CCB or "
            "Slates log?"
        )
    chosen = [_chosen(outcome, f"{place}, slot {k + 1}") for k, outcome in enumerate(outcomes)]
    row: dict[str, Any] = {
        "tag": [_tag(inside, index) for index, _, _ in chosen],
        "index": [index for index, _, _ in chosen],
        "propensity": [probability for _, probability, _ in chosen],
        "shared": inside,
    }
    if slates:
        cost = event.get("_label_cost", inside.get("_label_cost"))
        row["reward"] = 0.0 - _number(cost, f"{place}: '_label_cost' of the slate")
    else:
        row["reward"] = [
            0.0 - _number(o.get("_label_cost"), f"{place}, slot {k + 1}: '_label_cost'")
            for k, o in enumerate(outcomes)
        ]
    for name in targets:
        row[name] = _target(name, event, outcomes, [count for _, _, count in chosen], place)
    row["event_id"], row["timestamp"] = event.get("EventId"), event.get("Timestamp")
    return row


def _chosen(outcome: Any, place: str) -> tuple[int, float, int]:
    """Index and probability of the chosen action, and how many there were to choose from."""
    if not isinstance(outcome, dict) or "_a" not in outcome or "_p" not in outcome:
        raise LogError(
            f"{place}: the outcome needs '_a' (actions, the chosen one first) and '_p' "
            "(probabilities)"
        )
    actions = outcome["_a"] if isinstance(outcome["_a"], list) else [outcome["_a"]]
    probabilities = outcome["_p"] if isinstance(outcome["_p"], list) else [outcome["_p"]]
    if not actions or len(actions) != len(probabilities):
        raise LogError(
            f"{place}: '_a' has {len(actions)} entries, '_p' has {len(probabilities)}; they go "
            "together"
        )
    return (
        int(_number(actions[0], f"{place}: '_a'")),
        _number(probabilities[0], f"{place}: '_p'"),
        len(actions),
    )


def _target(
    name: str, event: Event, outcomes: list[Event], counts: list[int], place: str
) -> list[float]:
    if isinstance(event.get(name), list):
        return [_number(value, f"{place}: '{name}'") for value in event[name]]
    if all(name in outcome for outcome in outcomes):
        return [_number(outcome[name], f"{place}: '{name}'") for outcome in outcomes]
    if name == common.UNIFORM:
        return [1.0 / count for count in counts]
    raise LogError(
        f"{place}: there is no target policy '{name}'; give its probability of each chosen action "
        "as a key of the "
        f"outcomes or a list '{name}' of the event, or use the target '{common.UNIFORM}'"
    )


def _tag(inside: Event, index: int) -> str | None:
    actions = inside.get("_multi")
    action = actions[index] if isinstance(actions, list) and 0 <= index < len(actions) else None
    tag = action.get("_tag") if isinstance(action, dict) else None
    return tag if isinstance(tag, str) and tag else None


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LogError(f"{what} must be a number, got {value!r}")
    return float(value)
