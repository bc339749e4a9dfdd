"""A learned policy: its file, its scores, how it is served, and how it is evaluated on another log."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank import policies
from counterrank.arrays import Floats, Ints
from counterrank.atomic import write_text
from counterrank.data.encoding import encoded_context, encoded_features
from counterrank.data.log import LOGGING, RankingLog
from counterrank.errors import PolicyError
from counterrank.learning.scorer import Scorer
from counterrank.learning.vocabulary import code_tables, coded, item_numbers, translated
from counterrank.models import Rankings
from counterrank.policies import (
    BestOf,
    Candidates,
    Factored,
    PlackettLuce,
    Policy,
    Scored,
    parse_policy,
)
from counterrank.records import Json, plain
from counterrank.texts import first_line

SCHEMA = "counterrank/policy/1"
KINDS = ("best-of", "plackett-luce", "top")
#: Rankings (n, D, K) of the items of a log's rows, as a scorer reads them.
Reader = Callable[[RankingLog, Ints], Rankings]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LearnedPolicy:
    """A scorer, and the way rankings are made from its scores.

    `kind` "best-of": of `m` rankings drawn from the logger, the one with the best list value is
    served. "plackett-luce": items are drawn without replacement by exp(score / `temperature`).
    "top": sorted by score. Items are known by `items`,
    labels or ids in the order of the scorer's numbers.
    """

    kind: str
    scorer: Scorer
    items: tuple[Any, ...]
    position_weights: Floats
    m: int = 1
    temperature: float = 1.0
    context_names: tuple[str, ...] = ()
    context_categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    feature_categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: What was certified when it was learned, for people.
    certificate: Mapping[str, Any] = field(default_factory=dict)
    #: The fingerprint of the rows it was learned from: on these no evaluation is reliable.
    learned_from: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PolicyError(f"a learned policy is one of {', '.join(KINDS)}, not '{self.kind}'")

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

        `context` (n, d) has the columns `context_names`, categories as labels or as codes of
        `context_categories`. `candidates` (n, C) are items as in `items`, -1 or None where there is
        none. `item_features` is a table (A, p) in the order of `items`, or (n, C, p) beside the
        candidates, with the columns `feature_names`.
        """
        x = self._context(context, candidates)
        if candidates is None:
            numbers = np.broadcast_to(np.arange(len(self.items)), (len(x), len(self.items)))
        else:
            numbers = self._numbers(candidates)
        return self.scorer.relevance(self._given(x, numbers[:, None, :], item_features))

    def list_value(
        self, context: ArrayLike | None, rankings: ArrayLike, item_features: ArrayLike | None = None
    ) -> Floats:
        """Return the expected total reward (n,) of rankings (n, K) of items."""
        return self._values(context, np.asarray(rankings)[:, None], item_features)[:, 0]

    def serve(
        self, context: ArrayLike | None, draws: ArrayLike, item_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the best (n, K) by list value of rankings (n, m, K) that the logger has drawn.

        The first of equals.
        """
        given = np.asarray(draws)
        if given.ndim != 3:
            raise PolicyError(f"draws are rankings (n, m, K); got shape {given.shape}")
        best = np.argmax(self._values(context, given, item_features), axis=1)
        chosen: NDArray[Any] = given[np.arange(len(given)), best]
        return chosen

    def _values(
        self, context: ArrayLike | None, rankings: NDArray[Any], item_features: ArrayLike | None
    ) -> Floats:
        """Return the expected total rewards (n, m) of rankings (n, m, K)."""
        x, numbers = self._context(context, rankings), self._numbers(rankings)
        pages = self._given(x, numbers, item_features)
        values = self.scorer.list_value(pages, self.position_weights)
        return values.reshape(numbers.shape[:2])

    def bind(self, log: RankingLog) -> Policy:
        """Return the policy on the rows of a log, for `evaluate`: the same items, context and features by name."""
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
                    "weights need today's policy itself: give scores and --logger, or whole "
                    "distributions ('propensity_dist')"
                )

            def value(rows: Ints, drawn: Ints) -> Floats:
                part = rankings(log.take(rows), drawn)
                return self.scorer.list_value(part, self.position_weights).reshape(drawn.shape[:2])

            # Draws depend on the row's number in the whole log, so that batches do not change weights.
            numbers = np.r_[log.rows]
            return BestOf(logger, value, self.m, draws=max(64, 2 * self.m), numbers=numbers)
        if log.candidates is not None:
            found = self._candidate_scores(log, log.candidates, rankings) / self.temperature
            return Scored(log.candidates, found, parse_policy(self.kind))
        every = np.broadcast_to(np.arange(log.n_actions), (log.n, 1, log.n_actions))
        table = self.scorer.relevance(rankings(log, every))
        if self.kind == "plackett-luce":
            return PlackettLuce(table / self.temperature)
        # Stable sort: ties stay in the order of items on any machine.
        order = np.argsort(-table, axis=1, kind="stable")[:, : log.K]
        return policies.Deterministic(order, n_actions=table.shape[1])

    def _reader(self, log: RankingLog) -> Reader:
        """Return a function from rows of a log and rankings (n, D, K) of its items to what the scorer reads."""
        if log.K > len(self.position_weights):
            raise PolicyError(
                f"the policy was learned on pages of {len(self.position_weights)} positions, and "
                f"this log has {log.K}: it knows nothing of what is below"
            )
        own = ("context", self.context_names, self.context_categories)
        context = code_tables(*own, log.context_names, log.categories)
        own = ("item features", self.feature_names, self.feature_categories)
        features = code_tables(*own, log.item_feature_names, log.categories_of_items)
        numbers = item_numbers(self.items, log, features=bool(self.feature_names))

        def rankings(rows: RankingLog, items: Ints) -> Rankings:
            ids = np.asarray(items, dtype=np.int64)
            x = np.empty((rows.n, 0)) if rows.context is None else rows.context
            # By the log's ids: features are the log's own.
            raw = translated(rows.features_of(ids), features) if self.feature_names else None
            own = ids if numbers is None else numbers[ids]
            return self._rankings(translated(x, context), own, raw)

        return rankings

    def _candidate_scores(
        self, log: RankingLog, candidates: Candidates, rankings: Reader
    ) -> Floats:
        out = np.empty(len(candidates.items))
        for rows in candidates.blocks(200_000):
            part = log.take(rows)
            assert part.candidates is not None
            padded = part.candidates.dense(part.candidates.items.astype(np.float64), -1.0).astype(
                np.int64
            )
            found = self.scorer.relevance(rankings(part, padded[:, None, :]))
            out[candidates.offsets[rows.start] : candidates.offsets[rows.stop]] = found[padded >= 0]
        return out

    def _context(self, context: ArrayLike | None, like: Any) -> Floats:
        if context is None:
            if self.context_names:
                raise PolicyError(
                    f"the policy needs a context with the columns {', '.join(self.context_names)}"
                )
            return np.empty((1 if like is None else len(np.asarray(like)), 0))
        given = np.asarray(context)
        given = given[:, None] if given.ndim == 1 else given
        if given.ndim != 2 or given.shape[1] != len(self.context_names):
            raise PolicyError(
                f"the context has shape {given.shape}; expected {len(self.context_names)} columns: "
                f"{', '.join(self.context_names) or 'none'}"
            )
        return coded(given, self.context_names, self.context_categories)

    def _numbers(self, items: Any) -> Ints:
        given = np.asarray(items)
        named = bool(self.items) and isinstance(self.items[0], str)
        flat = given.ravel().tolist()
        if given.dtype.kind in "iu" and not named:
            return given.astype(np.int64)
        known = {None: -1, -1: -1, **{item: number for number, item in enumerate(self.items)}}
        other = next((item for item in flat if item not in known), None)
        # An unknown name may be a new item. A number among names means that items are called otherwise.
        if other is not None and isinstance(other, str) != named:
            raise PolicyError(
                f"the policy knows its items by {'names' if named else 'numbers'}, such as "
                f"{self.items[0]!r}; {other!r} is none"
            )
        found = [known.get(item, len(self.items)) for item in flat]
        return np.array(found, dtype=np.int64).reshape(given.shape)

    def _given(self, x: Floats, numbers: Ints, item_features: ArrayLike | None) -> Rankings:
        """Return rankings (n, D, C) of the scorer's numbers, with the features that a caller gives."""
        if not self.feature_names:
            return self._rankings(x, numbers, None)
        if item_features is None:
            raise PolicyError(f"the policy needs item features: {', '.join(self.feature_names)}")
        given = np.asarray(item_features, dtype=np.float64)
        if given.ndim == 2:
            shown = given[np.clip(numbers, 0, len(given) - 1)]
            raw = np.where((numbers >= 0)[..., None], shown, np.nan)
        else:
            raw = given.reshape(*numbers.shape, -1)
        if raw.shape[-1] != len(self.feature_names):
            raise PolicyError(
                f"item features have {raw.shape[-1]} columns; expected "
                f"{', '.join(self.feature_names)}"
            )
        return self._rankings(x, numbers, raw)

    def _rankings(self, x: Floats, numbers: Ints, raw: Floats | None) -> Rankings:
        """Return rankings (n, D, C) of the scorer's numbers, with context and features as it was fitted to."""
        n, D, C = numbers.shape
        x = encoded_context(x, self.context_names, self.context_categories)
        features = None
        if raw is not None:
            table = encoded_features(raw, self.feature_names, dict(self.feature_categories))
            features = table.reshape(n * D, C, -1)
        row = np.repeat(np.arange(n), D)
        return Rankings(numbers.reshape(n * D, C), x, row=row, features=features)

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
        """Write the policy as JSON, whole or not at all, with the result that it came with."""
        refuse_other_formats(path)
        found = self.to_dict() | ({} if result is None else {"result": result})
        write_text(path, json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LearnedPolicy:
        """Return the policy of plain data, which is checked because a file may come from anywhere."""
        if data.get("schema") != SCHEMA:
            raise PolicyError(f"schema {data.get('schema')!r}: this version reads {SCHEMA!r}")
        try:
            scorer = Scorer.from_dict(data["scorer"])
            weights = np.asarray(data["position_weights"], dtype=np.float64)
            if weights.shape != (scorer.K,) or not np.isfinite(weights).all():
                raise ValueError(f"there is not one position weight for each of {scorer.K} places")
            found = cls(
                kind=str(data["kind"]),
                scorer=scorer,
                items=_known_items(data["items"]),
                position_weights=weights,
                m=_draws(data["m"]),
                temperature=_temperature(data["temperature"]),
                context_names=_texts(data["context"]["names"]),
                context_categories=_tuples(data["context"]["categories"]),
                feature_names=_texts(data["features"]["names"]),
                feature_categories=_tuples(data["features"]["categories"]),
                certificate=dict(data.get("certificate", {})),
                learned_from=str(data.get("learned_from", "")),
            )
            blank = np.full((1, len(found.feature_names)), np.nan)
            raw = blank.reshape(1, 1, 1, -1) if found.feature_names else None
            one = np.zeros((1, len(found.context_names)))
            if not scorer.reads(found._rankings(one, np.zeros((1, 1, 1), dtype=np.int64), raw)):
                raise ValueError("its scorer reads other columns than it names")
            return found
        except PolicyError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            raise PolicyError(f"the policy file is damaged: {first_line(problem)}") from problem


def refuse_other_formats(path: str | os.PathLike[str]) -> None:
    """Raise for a name of the ONNX format, which earlier versions wrote."""
    if os.fspath(path).lower().endswith(".onnx"):
        raise PolicyError(
            f"'{os.fspath(path)}': policies are not written as ONNX graphs; write a .json file, and "
            "serve with counterrank.load_policy(path).scores(...) or .serve(...)"
        )


def sampler_of(log: RankingLog) -> Policy | None:
    """Return the logging policy as something that can be drawn from: a policy, or whole distributions; else None."""
    if isinstance(log.propensity, Policy):
        return log.propensity if "sample" in log.propensity.capabilities else None
    found = log.dists.get(LOGGING)
    return Factored(found) if found is not None else None


#: No page is the best of more draws than this.
_MOST_DRAWS = 1024


def _draws(m: Any) -> int:
    if not isinstance(m, int) or isinstance(m, bool) or not 1 <= m <= _MOST_DRAWS:
        raise ValueError(f"m is a whole number from 1 to {_MOST_DRAWS}, not {str(m)[:40]}")
    return m


def _temperature(given: Any) -> float:
    found = float(given)
    if not 0.0 < found < np.inf:
        raise ValueError(f"the temperature is a number above 0, not {found}")
    return found


def _known_items(given: Any) -> tuple[Any, ...]:
    """Return items as a file lists them: names, none twice, or the numbers from 0 on."""
    items = tuple(given) if isinstance(given, list) else ()
    named = len(set(map(str, items))) == len(items) and all(isinstance(one, str) for one in items)
    if not items or not (named or items == tuple(range(len(items)))):
        raise ValueError("items are different names, or the numbers from 0 on")
    return items


def _tuples(found: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {str(name): _texts(labels) for name, labels in found.items()}


def _texts(found: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in found)
