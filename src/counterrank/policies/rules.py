"""Rules: policies that are not bound to rows, but to whatever log they meet; stored as JSON, data and never code."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.atomic import replacing
from counterrank.errors import PolicyError
from counterrank.policies.base import Floats, Ints, Policy
from counterrank.policies.best_of import BestOf
from counterrank.policies.candidates import Candidates, ItemFeatures
from counterrank.policies.specs import PolicySpec

FORMAT = "counterrank/policy-rule/1"
KINDS = ("top", "plackett-luce", "best-of")


@dataclass(frozen=True, slots=True, eq=False)
class LinearScorer:
    """score(x, a) = level_a + slope_a . (x - x_mean) / x_scale + weight . (z_a - z_mean) / z_scale.

    `items` (A,) ids; `level` (A,), `slope` (A, d) by item, one row for all items alike; `weight` (p,) of the item
    features `features`. An item that is not in `items` has the mean level and slope. Missing values count as means.
    """

    items: Ints
    level: Floats
    context: tuple[str, ...] = ()
    slope: Floats = field(default_factory=lambda: np.zeros((1, 0)))
    context_mean: Floats = field(default_factory=lambda: np.zeros(0))
    context_scale: Floats = field(default_factory=lambda: np.ones(0))
    features: tuple[str, ...] = ()
    weight: Floats = field(default_factory=lambda: np.zeros(0))
    feature_mean: Floats = field(default_factory=lambda: np.zeros(0))
    feature_scale: Floats = field(default_factory=lambda: np.ones(0))

    def __post_init__(self) -> None:
        for name in ("level", "slope", "context_mean", "context_scale", "weight", "feature_mean", "feature_scale"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if not np.isfinite(values).all():
                raise PolicyError(f"the scorer's '{name}' holds a value that is no finite number")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "items", np.asarray(self.items, dtype=np.int64))
        A, d, p = len(self.items), len(self.context), len(self.features)
        slope = self.slope if d else np.zeros((1, 0))
        object.__setattr__(self, "slope", slope)
        fits = self.level.shape == (A,) and slope.shape in ((A, d), (1, d)) and self.weight.shape == (p,)
        fits &= self.context_mean.shape == self.context_scale.shape == (d,)
        fits &= self.feature_mean.shape == self.feature_scale.shape == (p,)
        if A == 0 or not fits or len(np.unique(self.items)) != A:
            raise PolicyError(
                f"a linear scorer of {A} distinct items needs level ({A},), slope ({A} or 1, {d}), weight ({p},), and "
                "a mean and scale for each column"
            )

    def score(self, context: Floats | None, items: Ints, features: Floats | None) -> Floats:
        """Return scores of items (n, ...) with features (n, ..., p); padding is scored like an unknown item."""
        order = np.argsort(self.items)
        at = np.minimum(np.searchsorted(self.items[order], items), len(order) - 1)
        known = self.items[order][at] == items
        number = order[at]
        out = np.where(known, self.level[number], self.level.mean())
        if self.context:
            x = self._standard(context, self.context, self.context_mean, self.context_scale, "context")
            shape = (len(x),) + (1,) * (np.ndim(items) - 1) + (len(self.context),)
            slopes = self.slope[number if len(self.slope) > 1 else np.zeros_like(number)]
            slopes = np.where(known[..., None], slopes, self.slope.mean(axis=0))
            out = out + (x.reshape(shape) * slopes).sum(axis=-1)
        if self.features:
            out = (
                out
                + self._standard(features, self.features, self.feature_mean, self.feature_scale, "item") @ self.weight
            )
        result: Floats = out
        return result

    @staticmethod
    def _standard(values: Floats | None, names: tuple[str, ...], mean: Floats, scale: Floats, what: str) -> Floats:
        if values is None or np.shape(values)[-1] != len(names):
            have = "none" if values is None else str(np.shape(values)[-1])
            raise PolicyError(f"the policy scores by {len(names)} {what} columns ({', '.join(names)}), given: {have}")
        return np.nan_to_num((np.asarray(values, dtype=np.float64) - mean) / scale, nan=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """What is served: "top" of the scores, "plackett-luce" at a temperature, or the "best-of" m of the logger's draws.

    `curve` (K,) weighs positions in a list's value, sum_k curve_k sigmoid(score_k), by which "best-of" chooses.

    >>> rule = Rule("top", LinearScorer([0, 1], [0.0, 1.0]))
    >>> rule.scores(np.empty((2, 0))).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """

    kind: str
    scorer: LinearScorer
    temperature: float = 1.0
    m: int = 1
    curve: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PolicyError(f"unknown kind of policy '{self.kind}'; known: {', '.join(KINDS)}")
        if not (self.temperature > 0 and np.isfinite(self.temperature)) or int(self.m) != self.m or self.m < 1:
            raise PolicyError(f"temperature {self.temperature} must be positive and m {self.m} a whole number from 1")
        if self.kind == "best-of" and not self.curve:
            raise PolicyError("best-of needs the curve by which positions count in a list's value")

    @property
    def items(self) -> Ints:
        """The items known to the scorer, in the order of `scores` without candidates."""
        return self.scorer.items

    def scores(
        self,
        context: ArrayLike | None,
        candidates: Candidates | ArrayLike | None = None,
        item_features: ItemFeatures | ArrayLike | None = None,
    ) -> Floats:
        """Return scores (n, C) of candidates (n, C), or of `items`; ragged lists are padded with -inf."""
        x = None if context is None else np.atleast_2d(np.asarray(context, dtype=np.float64))
        if isinstance(candidates, Candidates):
            listed = np.full((candidates.n, int(candidates.counts.max())), -1, np.int64)
            listed[np.arange(listed.shape[1]) < candidates.counts[:, None]] = candidates.items
        elif candidates is None:
            listed = np.tile(self.items, (1 if x is None else len(x), 1))
        else:
            listed = np.asarray(candidates, dtype=np.int64)
        found = self.scorer.score(x, listed, self._features(listed, item_features))
        return np.where(listed >= 0, found, -np.inf)

    def list_value(
        self, context: ArrayLike | None, rankings: ArrayLike, item_features: ItemFeatures | ArrayLike | None = None
    ) -> Floats:
        """Return the value of rankings (n, K): sum_k curve_k sigmoid(score of the item at k)."""
        items = np.asarray(rankings, dtype=np.int64)
        x = None if context is None else np.atleast_2d(np.asarray(context, dtype=np.float64))
        return self._value(self.scorer.score(x, items, self._features(items, item_features)), items)

    def serve(
        self, context: ArrayLike | None, draws: ArrayLike, item_features: ItemFeatures | ArrayLike | None = None
    ) -> Ints:
        """Return the best by list value of draws (n, m, K): (n, K)."""
        items = np.asarray(draws, dtype=np.int64)
        x = None if context is None else np.atleast_2d(np.asarray(context, dtype=np.float64))
        values = self._value(self.scorer.score(x, items, self._features(items, item_features)), items)
        best: Ints = np.take_along_axis(items, np.argmax(values, axis=1)[:, None, None], axis=1)[:, 0]
        return best

    def bind(self, log: Any) -> Policy:
        """Return the policy of a log's rows, over its candidates where it has them."""
        context = self._columns(log)
        if self.kind == "best-of":
            if not isinstance(log.propensity, Policy):
                raise PolicyError("best-of draws from the logging policy: give the logger as a policy (--logger KIND)")

            def score(rows: Ints, rankings: Ints) -> Floats:
                features = self._named(log.take(rows), rankings) if self.scorer.features else None
                x = None if context is None else context[rows]
                return self._value(self.scorer.score(x, rankings, features), rankings)

            return BestOf(log.propensity, score, self.m, n_rows=log.n)
        options = {"temperature": self.temperature} if self.kind == "plackett-luce" else {}
        spec = PolicySpec(self.kind, options)
        if log.candidates is None:
            listed = np.broadcast_to(np.arange(log.n_actions), (log.n, log.n_actions))
            features = self._named(log, listed) if self.scorer.features else None
            return spec.bind(scores=self.scorer.score(context, listed, features))
        sets = log.candidates
        listed = np.full((sets.n, int(sets.counts.max())), -1, np.int64)
        real = np.arange(listed.shape[1]) < sets.counts[:, None]
        listed[real] = sets.items
        features = self._named(log, listed) if self.scorer.features else None
        return spec.bind(candidates=sets, scores=self.scorer.score(context, listed, features)[real])

    def to_json(self) -> dict[str, Any]:
        """Return the rule as plain data."""
        scorer = {
            name: value.tolist() if isinstance(value, np.ndarray) else list(value)
            for name, value in asdict(self.scorer).items()
        }
        return {"format": FORMAT, "kind": self.kind, "temperature": self.temperature, "m": self.m,
                "curve": list(self.curve), "scorer": {"kind": "linear", **scorer}}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Rule":
        """Return the rule that `to_json` gave, checked like a new one."""
        scorer = dict(data["scorer"])
        kind = scorer.pop("kind", None)
        if data.get("format") != FORMAT or kind != "linear":
            raise PolicyError(
                f"format {data.get('format')!r} with scorer {kind!r}; this version reads {FORMAT!r}, linear"
            )
        scorer["context"], scorer["features"] = tuple(scorer["context"]), tuple(scorer["features"])
        return cls(
            data["kind"],
            LinearScorer(**scorer),
            float(data["temperature"]),
            int(data["m"]),
            tuple(map(float, data["curve"])),
        )

    def _value(self, scores: Floats, items: Ints) -> Floats:
        K = items.shape[-1]
        if len(self.curve) < K:
            raise PolicyError(f"the policy was made for {len(self.curve)} positions, the rankings have {K}")
        attracted = np.where(items >= 0, 1.0 / (1.0 + np.exp(-np.clip(scores, -700, 700))), 0.0)
        value: Floats = attracted @ np.asarray(self.curve[:K], dtype=np.float64)
        return value

    def _features(self, items: Ints, given: ItemFeatures | ArrayLike | None) -> Floats | None:
        if not self.scorer.features or given is None:
            return None
        if isinstance(given, ItemFeatures):
            missing = [name for name in self.scorer.features if name not in given.names]
            if missing:
                raise PolicyError(f"the policy scores by the item feature '{missing[0]}', which is not there")
            return given.of(items)[..., [given.names.index(name) for name in self.scorer.features]]
        table = np.asarray(given, dtype=np.float64)
        return ItemFeatures(table, tuple(map(str, range(table.shape[1])))).of(items)

    def _named(self, log: Any, items: Ints) -> Floats:
        names = log.item_feature_names
        missing = [name for name in self.scorer.features if name not in names]
        if missing:
            raise PolicyError(f"the policy scores by the item feature '{missing[0]}', which the log does not have")
        found: Floats = log.features_of(items)[..., [names.index(name) for name in self.scorer.features]]
        return found

    def _columns(self, log: Any) -> Floats | None:
        if not self.scorer.context:
            return None
        missing = [name for name in self.scorer.context if name not in log.context_names]
        if missing:
            raise PolicyError(f"the policy scores by the context column '{missing[0]}', which the log does not have")
        found: Floats = log.context[:, [log.context_names.index(name) for name in self.scorer.context]]
        return found


def save_rule(rule: Rule, path: str | os.PathLike[str]) -> None:
    """Write the rule as JSON, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        json.dump(rule.to_json(), file, indent=1, allow_nan=False)


def load_rule(path: str | os.PathLike[str]) -> Rule:
    """Return the rule stored at `path`."""
    try:
        with open(path, encoding="utf-8") as file:
            return Rule.from_json(json.load(file))
    except PolicyError as problem:
        raise PolicyError(f"{path}: {problem}") from None
    except (OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError, OverflowError) as problem:
        raise PolicyError(f"{path} is not a stored policy: {problem or type(problem).__name__}") from problem
