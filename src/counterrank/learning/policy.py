"""Learned policies: scores, serving, the policy file, and binding to the rows of another log.

The codes of categories and the numbers of items differ between the log that a policy was learned on and
other logs, and are translated by label. A label that the policy does not know counts as missing, as it does
in serving. A log that shares no label with the policy is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank import policies
from counterrank.common.arrays import Floats, Ints
from counterrank.common.atomic import write_text
from counterrank.common.errors import PolicyError
from counterrank.common.records import Json, plain
from counterrank.common.texts import first_line
from counterrank.data.encoding import encoded_context, encoded_features
from counterrank.data.log import LOGGING, RankingLog
from counterrank.learning.scorer import Scorer
from counterrank.models import Rankings
from counterrank.policies import (
    BestOf,
    Candidates,
    Factored,
    Labels,
    PlackettLuce,
    Policy,
    Scored,
    parse_policy,
)

SCHEMA = "counterrank/policy/1"
KINDS = ("best-of", "plackett-luce", "top")
#: Limit of m in a policy file.
_MAX_DRAWS = 1024

#: Number of labels that a message names.
_NAMED = 3
#: A function of rows and rankings (n, D, K) of a log that returns the input of a scorer.
Reader = Callable[[RankingLog, Ints], Rankings]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedPolicy:
    """A scorer, and the way in which its scores become rankings.

    Parameters
    ----------
    kind
        "best-of" serves the best by list value of `m` rankings drawn from the logger, "plackett-luce"
        draws items without replacement by exp(score / `temperature`), "top" sorts by score.
    scorer
        The fitted reward model.
    items
        The labels or ids of items, in the order of the scorer's item numbers.
    position_weights
        The weight of each position's reward (K,).
    m
        Number of rankings that "best-of" compares.
    temperature
        Temperature of "plackett-luce".
    context_names, context_categories
        The columns of the context, and the labels of those that are categories.
    feature_names, feature_categories
        The columns of the item features, and the labels of those that are categories.
    certificate
        The certificate of the policy, for readers.
    learned_from
        The fingerprint of the rows it was learned from, on which it cannot be evaluated.

    Raises
    ------
    PolicyError
        The kind is unknown.

    Examples
    --------
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> policy = cr.PlackettLuce(rng.normal(size=(600, 6)))
    >>> action = policy.sample(3, rng)[:, 0]
    >>> clicks = (rng.random(action.shape) < action / 6).astype(float)
    >>> log = cr.RankingLog(action=action, reward=clicks, propensity=policy)
    >>> learned = cr.learn(log, independent_rows=True)
    >>> learned.policy
    LearnedPolicy('best-of', m=16, items=6)
    """

    kind: str
    scorer: Scorer
    items: tuple[Any, ...]
    position_weights: Floats
    m: int = 1
    temperature: float = 1.0
    context_names: tuple[str, ...] = ()
    context_categories: Labels = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    feature_categories: Labels = field(default_factory=dict)
    certificate: Mapping[str, Any] = field(default_factory=dict)
    learned_from: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PolicyError(f"a learned policy is one of {', '.join(KINDS)}, not '{self.kind}'")
        if type(self.m) is not int or not 1 <= self.m <= _MAX_DRAWS:
            raise PolicyError(f"m is a whole number from 1 to {_MAX_DRAWS}, not {str(self.m)[:40]}")
        if not 0.0 < self.temperature < np.inf:
            raise PolicyError(f"the temperature is a number above 0, not {self.temperature}")
        items = self.items
        names = {item for item in items if isinstance(item, str)}
        if not items or (len(names) < len(items) and items != tuple(range(len(items)))):
            raise PolicyError("items are different names, or the numbers from 0 on")

    def __repr__(self) -> str:
        """Return the kind, the number of items and the names of columns."""
        how = {"best-of": f", m={self.m}", "top": ""}.get(
            self.kind, f", temperature={self.temperature:.4g}"
        )
        named = "".join(
            f", {what}={list(names)}"
            for what, names in (("context", self.context_names), ("features", self.feature_names))
            if names
        )
        return f"LearnedPolicy({self.kind!r}{how}, items={len(self.items)}{named})"

    def scores(
        self,
        context: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        item_features: ArrayLike | None = None,
    ) -> Floats:
        """Return the score of each candidate (n, C); without candidates the columns are `items`.

        `context` (n, d) has the columns `context_names`, with categories as labels or as codes of
        `context_categories`. `candidates` (n, C) are items as in `items`, padded with -1 or None.
        `item_features` is a table (A, p) in the order of `items`, or (n, C, p) for the candidates,
        with the columns `feature_names`.
        """
        x = self._context(context, candidates)
        if candidates is None:
            numbers = np.broadcast_to(np.arange(len(self.items)), (len(x), len(self.items)))
        else:
            numbers = self._numbers(candidates)
        return self.scorer.relevance(self._with_features(x, numbers[:, None, :], item_features))

    def list_value(
        self, context: ArrayLike | None, rankings: ArrayLike, item_features: ArrayLike | None = None
    ) -> Floats:
        """Return the expected total reward (n,) of rankings (n, K) of items."""
        return self._values(context, np.asarray(rankings)[:, None], item_features)[:, 0]

    def serve(
        self, context: ArrayLike | None, draws: ArrayLike, item_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the best (n, K) by list value of rankings (n, m, K) drawn from the logger."""
        rankings = np.asarray(draws)
        if rankings.ndim != 3:
            raise PolicyError(f"draws are rankings (n, m, K); got shape {rankings.shape}")
        if self.kind == "best-of" and rankings.shape[1] != self.m:
            raise PolicyError(
                f"the policy is the best of {self.m} rankings, and so is its certificate; got "
                f"{rankings.shape[1]} for each row: draw {self.m}"
            )
        best = np.argmax(self._values(context, rankings, item_features), axis=1)
        chosen: NDArray[Any] = rankings[np.arange(len(rankings)), best]
        return chosen

    def _values(
        self, context: ArrayLike | None, rankings: NDArray[Any], item_features: ArrayLike | None
    ) -> Floats:
        """Return the expected total rewards (n, m) of rankings (n, m, K)."""
        x, numbers = self._context(context, rankings), self._numbers(rankings)
        pages = self._with_features(x, numbers, item_features)
        values = self.scorer.list_value(pages, self.position_weights)
        return values.reshape(numbers.shape[:2])

    def bind(self, log: RankingLog) -> Policy:
        """Return the policy on the rows of a log; items, context and features are matched by name."""
        bound = self._policy(log)
        bound.rule = self
        return bound

    def _policy(self, log: RankingLog) -> Policy:
        rankings = self._reader(log)
        if self.kind == "best-of":
            logger = sampler_of(log)
            if logger is None:
                raise PolicyError(
                    "this policy serves the best of several rankings of today's policy, so its "
                    "weights require today's policy: give scores and --logger, or log the item "
                    "distributions ('propensity_dist')"
                )

            def value(rows: Ints, drawn: Ints) -> Floats:
                pages = rankings(log.take(rows), drawn)
                return self.scorer.list_value(pages, self.position_weights).reshape(drawn.shape[:2])

            # The draws depend on the row's number in the log, so that batches do not change weights.
            numbers = np.r_[log.rows]
            return BestOf(logger, value, self.m, draws=max(64, 2 * self.m), numbers=numbers)
        if log.candidates is not None:
            scores = self._candidate_scores(log, log.candidates, rankings) / self.temperature
            return Scored(log.candidates, scores, parse_policy(self.kind))
        all_items = np.broadcast_to(np.arange(log.n_actions), (log.n, 1, log.n_actions))
        table = self.scorer.relevance(rankings(log, all_items))
        if self.kind == "plackett-luce":
            return PlackettLuce(table / self.temperature)
        # A stable sort, so that the order of ties does not depend on the machine.
        order = np.argsort(-table, axis=1, kind="stable")[:, : log.K]
        return policies.Deterministic(order, n_actions=table.shape[1])

    def _reader(self, log: RankingLog) -> Reader:
        """Return a function that turns rows and rankings (n, D, K) of a log into the scorer's input."""
        if log.K > len(self.position_weights):
            raise PolicyError(
                f"the policy was learned on pages of {len(self.position_weights)} positions, and "
                f"this log has {log.K}; it cannot value the positions below"
            )
        role = ("context", self.context_names, self.context_categories)
        context = code_tables(*role, log.context_names, log.categories)
        role = ("item features", self.feature_names, self.feature_categories)
        features = code_tables(*role, log.item_feature_names, log.categories_of_items)
        numbers = item_numbers(self.items, log, features=bool(self.feature_names))

        def rankings(rows: RankingLog, items: Ints) -> Rankings:
            ids = np.asarray(items, dtype=np.int64)
            x = np.empty((rows.n, 0)) if rows.context is None else rows.context
            # Features are looked up by the ids of the log.
            raw = translate(rows.features_of(ids), features) if self.feature_names else None
            item_numbers_of_rows = ids if numbers is None else numbers[ids]
            return self._rankings(translate(x, context), item_numbers_of_rows, raw)

        return rankings

    def _candidate_scores(
        self, log: RankingLog, candidates: Candidates, rankings: Reader
    ) -> Floats:
        out = np.empty(len(candidates.items))
        for rows in candidates.blocks(200_000):
            block = log.take(rows)
            assert block.candidates is not None
            padded = block.candidates.dense(block.candidates.items, -1.0).astype(np.int64)
            scores = self.scorer.relevance(rankings(block, padded[:, None, :]))
            out[candidates.offsets[rows.start] : candidates.offsets[rows.stop]] = scores[
                padded >= 0
            ]
        return out

    def _context(self, context: ArrayLike | None, rows: Any) -> Floats:
        if context is None:
            if self.context_names:
                raise PolicyError(
                    f"the policy needs a context with the columns {', '.join(self.context_names)}"
                )
            return np.empty((1 if rows is None else len(np.asarray(rows)), 0))
        table = np.asarray(context)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2 or table.shape[1] != len(self.context_names):
            raise PolicyError(
                f"the context has shape {table.shape}; expected {len(self.context_names)} columns: "
                f"{', '.join(self.context_names) or 'none'}"
            )
        return encode_labels(table, self.context_names, self.context_categories)

    def _numbers(self, items: Any) -> Ints:
        array = np.asarray(items)
        named = bool(self.items) and isinstance(self.items[0], str)
        if array.dtype.kind in "iu" and not named:
            return array.astype(np.int64)
        flat = array.ravel().tolist()
        numbers = {None: -1, -1: -1, **{item: number for number, item in enumerate(self.items)}}
        unknown = next((item for item in flat if item not in numbers), None)
        # An unknown name may be a new item; a number among names is an error.
        if unknown is not None and isinstance(unknown, str) != named:
            raise PolicyError(
                f"the policy knows its items by {'names' if named else 'numbers'}, such as "
                f"{self.items[0]!r}; got {unknown!r}"
            )
        coded_items = [numbers.get(item, len(self.items)) for item in flat]
        return np.array(coded_items, dtype=np.int64).reshape(array.shape)

    def _with_features(self, x: Floats, numbers: Ints, item_features: ArrayLike | None) -> Rankings:
        """Return the scorer's input for item numbers (n, D, C) and the features given by the caller."""
        if not self.feature_names:
            return self._rankings(x, numbers, None)
        if item_features is None:
            raise PolicyError(f"the policy needs item features: {', '.join(self.feature_names)}")
        values = np.asarray(item_features, dtype=np.float64)
        if values.ndim == 2:
            shown = values[np.clip(numbers, 0, len(values) - 1)]
            raw = np.where((numbers >= 0)[..., None], shown, np.nan)
        else:
            raw = values.reshape(*numbers.shape, -1)
        if raw.shape[-1] != len(self.feature_names):
            raise PolicyError(
                f"item features have {raw.shape[-1]} columns; expected "
                f"{', '.join(self.feature_names)}"
            )
        return self._rankings(x, numbers, raw)

    def _rankings(self, x: Floats, numbers: Ints, raw: Floats | None) -> Rankings:
        """Return the scorer's input: item numbers (n, D, C) with encoded context and features."""
        n, D, C = numbers.shape
        x = encoded_context(x, self.context_names, self.context_categories)
        features = None
        if raw is not None:
            table = encoded_features(raw, self.feature_names, dict(self.feature_categories))
            features = table.reshape(n * D, C, -1)
        return Rankings(
            numbers.reshape(n * D, C), x, row=np.repeat(np.arange(n), D), features=features
        )

    def to_dict(self) -> Json:
        """Return the policy as plain data."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "m": self.m,
            "temperature": self.temperature,
            "position_weights": self.position_weights.tolist(),
            "items": list(self.items),
            "context": plain({"names": self.context_names, "categories": self.context_categories}),
            "features": plain({"names": self.feature_names, "categories": self.feature_categories}),
            "certificate": dict(self.certificate),
            "learned_from": self.learned_from,
            "scorer": self.scorer.to_dict(),
        }

    def save(self, path: str | os.PathLike[str], *, result: Json | None = None) -> None:
        """Write the policy, and the result of learning if given, as JSON; the file is replaced atomically."""
        refuse_other_formats(path)
        content = self.to_dict() | ({} if result is None else {"result": result})
        write_text(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LearnedPolicy:
        """Return the policy of plain data; raise PolicyError if it is not valid."""
        if data.get("schema") != SCHEMA:
            raise PolicyError(f"schema {data.get('schema')!r}: this version reads {SCHEMA!r}")
        try:
            scorer = Scorer.from_dict(data["scorer"])
            weights = np.asarray(data["position_weights"], dtype=np.float64)
            if weights.shape != (scorer.K,) or not np.isfinite(weights).all():
                raise ValueError(f"there is not one position weight for each of {scorer.K} places")
            policy = cls(
                kind=str(data["kind"]),
                scorer=scorer,
                items=tuple(data["items"] if isinstance(data["items"], list) else ()),
                position_weights=weights,
                m=data["m"],
                temperature=float(data["temperature"]),
                **_columns("context", data["context"]),
                **_columns("feature", data["features"]),
                certificate=dict(data.get("certificate", {})),
                learned_from=str(data.get("learned_from", "")),
            )
            raw = np.full((1, 1, 1, len(policy.feature_names)), np.nan)
            context = np.zeros((1, len(policy.context_names)))
            if not scorer.reads(
                policy._with_features(context, np.zeros((1, 1, 1), dtype=np.int64), raw)
            ):
                raise ValueError("the columns of its scorer do not match their names")
            return policy
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise PolicyError(f"the policy file is damaged: {first_line(problem)}") from problem


def refuse_other_formats(path: str | os.PathLike[str]) -> None:
    """Raise PolicyError for a file name of the ONNX format."""
    if os.fspath(path).lower().endswith(".onnx"):
        raise PolicyError(
            f"'{os.fspath(path)}': policies are not written as ONNX graphs; write a .json file, and "
            "serve with counterrank.load_policy(path).scores(...) or .serve(...)"
        )


def sampler_of(log: RankingLog) -> Policy | None:
    """Return the logging policy as a sampler, or None if the log has neither a policy nor distributions."""
    if isinstance(log.propensity, Policy):
        return log.propensity if "sample" in log.propensity.capabilities else None
    distribution = log.dists.get(LOGGING)
    return Factored(distribution) if distribution is not None else None


def _columns(role: str, stored: Mapping[str, Any]) -> Json:
    """Return the names of columns and the labels of those that are categories."""
    labels = {str(name): tuple(map(str, labels)) for name, labels in stored["categories"].items()}
    return {f"{role}_names": tuple(map(str, stored["names"])), f"{role}_categories": labels}


def code_tables(
    what: str,
    policy_names: tuple[str, ...],
    policy_labels: Labels,
    names: tuple[str, ...],
    labels: Labels,
) -> dict[int, Floats]:
    """Return tables from a log's codes to the policy's, for each category whose codes differ.

    The last entry of a table is for missing values. `policy_names` and `policy_labels` are the columns
    that the policy reads, `names` and `labels` those of the log.
    """
    missing = [name for name in policy_names if name not in names]
    if missing:
        raise PolicyError(
            f"the policy was learned with {what} {', '.join(missing)}, which this log does not have"
        )
    if policy_names != tuple(names):
        raise PolicyError(
            f"the columns of {what} differ: the policy has {', '.join(policy_names) or 'none'}, this "
            f"log {', '.join(names) or 'none'}; give the same columns in the same order (--context)"
        )
    tables = {}
    for j, name in enumerate(names):
        learned_labels, log_labels = policy_labels.get(name, ()), labels.get(name, ())
        if bool(learned_labels) != bool(log_labels):
            kinds = ("categories", "numbers") if learned_labels else ("numbers", "categories")
            raise PolicyError(
                f"the policy was learned with {kinds[0]} in '{name}', and this log has "
                f"{kinds[1]}; give the column in its former type"
            )
        if tuple(learned_labels) != tuple(log_labels):
            tables[j] = _codes(name, learned_labels, log_labels)
    return tables


def _codes(name: str, policy_labels: Sequence[str], log_labels: Sequence[str]) -> Floats:
    place = {label: code for code, label in enumerate(policy_labels)}
    table = np.array([*(place.get(label, np.nan) for label in log_labels), np.nan])
    if np.isnan(table).all():
        raise PolicyError(
            f"'{name}' has no label that the policy was learned with: it knows {_examples(policy_labels)}, this "
            f"log has {_examples(log_labels)}"
        )
    return table


def translate(values: Floats, tables: Mapping[int, Floats]) -> Floats:
    """Return columns (..., p) with the policy's codes instead of the log's; NaN stays NaN."""
    if not tables:
        return values
    out = values.copy()
    for j, table in tables.items():
        # The code -1 of missing values selects the last entry, which is NaN.
        out[..., j] = table[np.nan_to_num(values[..., j], nan=-1.0).astype(np.int64)]
    return out


def encode_labels(values: NDArray[Any], names: Sequence[str], labels: Labels) -> Floats:
    """Return columns (n, p) as numbers: labels become codes, and unknown labels become NaN.

    Raises PolicyError where a column without labels holds something else than a number.
    """
    if values.dtype.kind in "biuf":
        out = values.astype(np.float64)
    else:
        codes = [{label: code for code, label in enumerate(labels.get(name, ()))} for name in names]
        out = np.array(
            [[_code(value, codes[j]) for j, value in enumerate(row)] for row in values.tolist()]
        ).reshape(values.shape)
    for j, name in enumerate(names):
        wrong = np.flatnonzero(~np.isfinite(out[:, j]))
        # A label that is not known is like none that was learned from; a number has to be one.
        if len(wrong) and name not in labels:
            value = values[wrong[0], j]
            raise PolicyError(f"'{name}' is {value} in row {wrong[0]}, which is not a number")
    return out


def _code(value: Any, codes: Mapping[str, int]) -> float:
    try:
        return codes.get(value, np.nan) if codes and isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        return np.nan


def item_numbers(items: Sequence[Any], log: RankingLog, *, features: bool) -> Ints | None:
    """Return a table from a log's items to the policy's item numbers, or None if they are the same.

    The last entry is for padding. Unknown items get a number beyond those of the policy. If all items
    are unknown, the policy can be used only if it has `features`.
    """
    named = bool(items) and isinstance(items[0], str)
    if log.action_names is None and not named:
        return None
    labels = log.action_names or tuple(str(item) for item in range(log.n_actions))
    place = {str(item): number for number, item in enumerate(items)}
    # The id -1 of padding selects the last entry, which is -1 again.
    table = np.array([*(place.get(label, len(items)) for label in labels), -1], dtype=np.int64)
    if (table[:-1] == len(items)).all() and (not features or named == (log.action_names is None)):
        raise PolicyError(
            f"the policy knows none of this log's items: it was learned with {_examples(items)}, this "
            f"log has {_examples(labels)}. Use the same ids"
        )
    return table


def _examples(labels: Sequence[Any]) -> str:
    """Return the first labels and the number of further ones.

    >>> _examples(["a", "b", "c", "d"]), _examples([7])
    ("'a', 'b', 'c' and 1 more", '7')
    """
    named = ", ".join(repr(label)[:40] for label in labels[:_NAMED])
    unnamed = len(labels) - _NAMED
    return f"{named} and {unnamed:,} more" if unnamed > 0 else named
