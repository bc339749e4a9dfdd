"""Logs of other libraries: Vowpal Wabbit and Open Bandit Pipeline."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.data.propensity import Propensity
from counterrank.errors import LogError, PropensityError
from counterrank.io.files import Unpacked, expand, guard
from counterrank.io.options import UNIFORM, ReadOptions
from counterrank.io.reading import Converted, Path, adapter
from counterrank.messages import BY_INDEX
from counterrank.records import Json

# Vowpal Wabbit logs of slates: conditional contextual bandits (CCB) and Slates, as JSON or dsjson
# lines.
#
# A line is {"c": {shared features, "_multi": [actions], "_slots": [slots]}, "_outcomes": [one per
# slot]}; an outcome is {"_a": [chosen action, others], "_p": [their probabilities], "_label_cost":
# cost}. The plain JSON form has the same keys inside "_slots". Costs become rewards with the opposite
# sign.
#
# CCB fills slots one after another from what is left, so `_p` is conditional on the slots above: kind
# "prefix", one cost a slot. Slates fill slots independently, kind "factored", with one cost for the
# whole, which is put at the last slot. Formats: github.com/VowpalWabbit/vowpal_wabbit/wiki (DSJSON,
# Conditional-Contextual-Bandit, Slates).

Event = Json


@adapter
def read_vw_ccb(path: Path, options: ReadOptions) -> Converted:
    """Return a CCB log; a target policy is a key of the outcomes, its probability of what was shown, or "uniform"."""
    return _load(path, options, slates=False)


@adapter
def read_vw_slates(path: Path, options: ReadOptions) -> Converted:
    """Return a Slates log; a target policy is a key of the outcomes or "uniform"."""
    return _load(path, options, slates=True)


def _load(path: Path, options: ReadOptions, *, slates: bool) -> Converted:
    what = os.fspath(path)
    with guard(what, prefix=True):
        rows = [_row(event, place, options.targets or (), slates) for place, event in _events(what)]
        if not rows:
            raise LogError(f"{what} has no event with an outcome")
        shared, context = feature_columns([row.pop("shared") for row in rows])
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        tags, indices = columns.pop("tag"), columns.pop("index")
        # Names only if every action has one: some by name and some by index cannot be told apart.
        named = None not in chain.from_iterable(tags)
        columns = {"action": tags if named else indices, **columns}
        table = pa.table({**shared, **columns})
        context = [name for name in context if name not in columns]
    own = options.over({}, context, "factored" if slates else "prefix")
    return table, own, () if named else (BY_INDEX,)


def _events(path: str) -> Iterator[tuple[str, Event]]:
    """Events that were learned from; those marked "_skipLearn" are not part of the log."""
    for place, event in json_lines(path):
        if not event.get("_skipLearn", False):
            if float(event.get("pdrop", 0) or 0) > 0:
                raise LogError(
                    f"{place}: events were dropped at random (pdrop {event['pdrop']}); the log no "
                    "longer has the rows in their true shares. Use a log without dropping"
                )
            yield place, event


def _row(event: Event, place: str, targets: tuple[str, ...], slates: bool) -> Json:
    inside, outcomes = _parts(event, place)
    slots = [(outcome, f"{place}, slot {k + 1}") for k, outcome in enumerate(outcomes)]
    chosen = [_chosen(outcome, slot) for outcome, slot in slots]
    row: Json = {
        "tag": [_tag(inside, index) for index, _, _ in chosen],
        "index": [index for index, _, _ in chosen],
        "propensity": [probability for _, probability, _ in chosen],
        "shared": inside,
    }
    if slates:
        cost = event.get("_label_cost", inside.get("_label_cost"))
        # 0 - cost, not -cost, here and below: no cost is a reward of 0, never of -0.
        row["reward"] = 0.0 - _number(cost, f"{place}: '_label_cost' of the slate")
    else:
        row["reward"] = [
            0.0 - _number(outcome.get("_label_cost"), f"{slot}: '_label_cost'")
            for outcome, slot in slots
        ]
    for name in targets:
        row[name] = _target(name, event, outcomes, [count for _, _, count in chosen], place)
    row["event_id"], row["timestamp"] = event.get("EventId"), event.get("Timestamp")
    return row


def _parts(event: Event, place: str) -> tuple[Event, list[Any]]:
    """Return the context, with shared features and actions, and the outcomes of the slots."""
    inside = event.get("c", event)
    if isinstance(inside, dict):
        outcomes = event.get("_outcomes") or inside.get("_slots")
        if isinstance(outcomes, list) and outcomes:
            return inside, outcomes
    raise LogError(
        f"{place}: there is no '_outcomes' list (or '_slots' with outcomes); is this a CCB or "
        "Slates log?"
    )


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
    if name == UNIFORM:
        return [1.0 / count for count in counts]
    raise LogError(
        f"{place}: there is no target policy '{name}'; give its probability of each chosen action "
        "as a key of the "
        f"outcomes or a list '{name}' of the event, or use the target '{UNIFORM}'"
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


def json_lines(path: str) -> Iterator[tuple[str, Json]]:
    """Yield ("file, line 3", object) for each line that is not empty."""
    for file in expand(path, "jsonl"):
        number, rest = 0, b""
        with Unpacked(file) as stream:
            while chunk := stream.read(1 << 22):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    number += 1
                    if line.strip():
                        yield _parsed(line, f"{file.path}, line {number}")
        if rest.strip():
            yield _parsed(rest, f"{file.path}, line {number + 1}")


def _parsed(line: bytes, place: str) -> tuple[str, Json]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise LogError(f"{place} is not JSON: {str(problem)[:200]}") from None
    if not isinstance(found, dict):
        raise LogError(f"{place} is not a JSON object, but {str(found)[:40]!r}")
    return place, found


#: Text with more values than this is an id, not a category; it stays a segment.
MOST_CATEGORIES = 50
MOST_COLUMNS = 200


def feature_columns(events: Sequence[Json]) -> tuple[dict[str, list[Any]], list[str]]:
    """Return scalar features by dotted name, None where absent, and the names fit for context.

    >>> feature_columns([{"User": {"age": 3, "_x": 1}, "_multi": []}, {"User": {"age": 4}}])
    ({'User.age': [3, 4]}, ['User.age'])
    """
    found: dict[str, list[Any]] = {}
    for i, event in enumerate(events):
        for name, value in _scalars(event, ""):
            if name in found or len(found) < MOST_COLUMNS:
                found.setdefault(name, [None] * len(events))[i] = value
    found = {name: _of_one_type(values) for name, values in found.items()}
    return found, [name for name, values in found.items() if _is_context(values)]


def _of_one_type(values: list[Any]) -> list[Any]:
    # JSON lets a feature be a number in one event and text in the next; an Arrow column does not.
    if not any(isinstance(value, str) for value in values):
        return values
    return [None if value is None else str(value) for value in values]


def _scalars(event: Json, above: str) -> Iterator[tuple[str, Any]]:
    for key, value in event.items():
        if key.startswith("_"):
            continue
        if isinstance(value, dict):
            if above.count(".") < 5:
                yield from _scalars(value, f"{above}{key}.")
        elif isinstance(value, (str, int, float)):
            yield f"{above}{key}", float(value) if isinstance(value, bool) else value


def _is_context(values: Sequence[Any]) -> bool:
    labels = {value for value in values if value is not None}
    return not any(isinstance(value, str) for value in labels) or len(labels) <= MOST_CATEGORIES


# Slate feedback of Open Bandit Pipeline (obp): flat arrays, one entry a (slate, position).
#
# obp keeps three probabilities of what was shown: `pscore` of the whole slate, `pscore_cascade` of
# the items down to this position (cumulative), `pscore_item_position` of this item at this position.
# Positions start at 0.

_KEY = {"prefix": "pscore_cascade", "position": "pscore_item_position", "joint": "pscore"}
#: Rounding allowed between the product of marginals and the joint of a factored policy.
_CLOSE = 1e-9


def from_obp(
    feedback: Mapping[str, Any],
    targets: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    kind: str | None = None,
) -> RankingLog:
    """Return a log from `obtain_batch_bandit_feedback` of obp's slate data sets.

    `targets` maps a name to a dict with the same pscore keys (obp's evaluation_policy_pscore...).
    `kind` None takes the most that all of them support: factored when the item marginals multiply
    to the joint, else prefix, else position, else joint.
    """
    slots = _Slots(feedback)
    policies = {"": feedback, **(targets or {})}
    tables = {name: _pscores(policy, name, slots) for name, policy in policies.items()}
    kind = kind or _common_kind(tables)
    propensities = {name: _propensity(table, kind, name) for name, table in tables.items()}
    context = feedback.get("context")
    return RankingLog(
        action=slots.spread(feedback["action"], "action", -1),
        reward=slots.spread(feedback["reward"], "reward", 0.0),
        propensity=propensities.pop(""),
        context=None
        if context is None
        else np.asarray(context, dtype=np.float64)[slots.rounds(context)],
        targets=propensities,
    )


class _Slots:
    """Where each entry of the flat arrays goes: (slate, position)."""

    def __init__(self, feedback: Mapping[str, Any]) -> None:
        for key in ("slate_id", "position", "action", "reward"):
            if key not in feedback or feedback[key] is None:
                known = ", ".join(sorted(map(str, feedback)))
                raise LogError(
                    f"obp feedback has no '{key}'; it has {known}. Slate feedback is wanted"
                )
        slate = np.asarray(feedback["slate_id"])
        self.position = np.asarray(feedback["position"]).astype(np.int64)
        self.size = len(slate)
        if self.size == 0 or self.position.shape != slate.shape:
            raise LogError(
                f"'slate_id' has {self.size} entries, 'position' {self.position.size}; one each "
                "is wanted"
            )
        self.ids, self.row = np.unique(slate, return_inverse=True)
        self.n, self.K = len(self.ids), int(self.position.max()) + 1
        self._check()

    def _check(self) -> None:
        if self.position.min() < 0:
            raise LogError(
                f"'position' is {self.position.min()} at entry {self.position.argmin()}; obp "
                "counts from 0"
            )
        seen = np.bincount(self.row * self.K + self.position, minlength=self.n * self.K)
        if seen.max() > 1:
            row, position = divmod(int(seen.argmax()), self.K)
            raise LogError(f"slate {self.ids[row]} has position {position} {seen.max()} times")
        used = seen.reshape(self.n, self.K)
        gap = (np.diff(used, axis=1) > 0).any(axis=1) | (used[:, 0] == 0)
        if gap.any():
            row = int(np.argmax(gap))
            missing = int(np.argmin(used[row]))
            raise LogError(f"slate {self.ids[row]} has no position {missing}, but later ones")
        self.used = used.astype(bool)

    def spread(self, values: Any, name: str, pad: float) -> NDArray[Any]:
        """Return (n, K) from a flat array."""
        flat = np.asarray(values)
        if flat.shape != (self.size,):
            raise LogError(
                f"'{name}' has shape {flat.shape}, 'slate_id' has ({self.size},); they must match"
            )
        if flat.dtype.kind not in "biuf":
            raise LogError(f"'{name}' holds {flat.dtype}, numbers are wanted")
        result = np.full(
            (self.n, self.K), pad, dtype=np.int64 if flat.dtype.kind in "biu" else np.float64
        )
        if name != "action":
            result = result.astype(np.float64)
        result[self.row, self.position] = flat
        return result

    def rounds(self, context: Any) -> Ints:
        """Return the row of `context` for each slate: slate ids are rounds when they fit, else their order."""
        rows = len(np.asarray(context))
        if (
            np.issubdtype(self.ids.dtype, np.integer)
            and self.ids.min() >= 0
            and self.ids.max() < rows
        ):
            return self.ids.astype(np.int64)
        if rows != self.n:
            raise LogError(f"'context' has {rows} rows, there are {self.n} slates")
        return np.arange(self.n)


def _pscores(policy: Mapping[str, Any], name: str, slots: _Slots) -> dict[str, Floats]:
    prefix = "evaluation_policy_"
    found = {}
    for kind, key in _KEY.items():
        values = policy.get(key, policy.get(prefix + key) if name else None)
        if values is not None:
            found[kind] = slots.spread(values, key, 1.0)
    if not found:
        raise PropensityError(f"{_called(name)} has none of {', '.join(_KEY.values())}")
    if "position" in found and "joint" in found:
        product = np.where(slots.used, found["position"], 1.0).prod(axis=1)
        if np.allclose(product, found["joint"][:, 0], rtol=_CLOSE, atol=0):
            found["factored"] = found["position"]
    return found


def _common_kind(tables: Mapping[str, Mapping[str, Floats]]) -> str:
    for kind in ("factored", "prefix", "position", "joint"):
        if all(kind in table for table in tables.values()):
            return kind
    have = "; ".join(
        f"{_called(name)}: {', '.join(_KEY[k] for k in table if k in _KEY)}"
        for name, table in tables.items()
    )
    raise PropensityError(f"logging and target policies have no pscore in common ({have})")


def _propensity(table: Mapping[str, Floats], kind: str, name: str) -> Propensity:
    source = "position" if kind == "factored" and kind not in table else kind
    if source not in table:
        key = _KEY.get(source, source)
        raise PropensityError(f"kind '{kind}' needs '{key}', which {_called(name)} does not have")
    values = table[source]
    if kind == "prefix":
        above = np.concatenate([np.ones((len(values), 1)), values[:, :-1]], axis=1)
        # Below a prefix of probability zero nothing can follow: zero, not 0/0.
        values = np.divide(values, above, out=np.zeros_like(values), where=above > 0)
    return Propensity(kind, values[:, 0] if kind == "joint" else values)


def _called(name: str) -> str:
    return f"target policy '{name}'" if name else "the feedback"
