"""RankingLog: n logged rankings, validated once. Propensity: numbers of the shown items, and what they are of."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.arrays import Floats, Ints, changed
from counterrank.common.errors import LogError, PropensityError
from counterrank.common.messages import REWARD_PER_RANKING, row_name
from counterrank.common.texts import suggestion
from counterrank.data import validation
from counterrank.data.events import JoinedEvents, JoinedScores
from counterrank.policies import Candidates, ItemFeatures, Policy, Scored

if TYPE_CHECKING:
    import os

Rows = slice | Ints


def rows_of(values: NDArray[Any], rows: Rows) -> NDArray[Any]:
    """Return the selected rows of an array."""
    # `take` gathers rows twice as fast as an index does.
    return values[rows] if isinstance(rows, slice) else values.take(rows, axis=0)


#: What each kind of number can answer. "subset" is the probability of items at any set of
#: positions.
SUPPORTS: dict[str, frozenset[str]] = {
    "factored": frozenset({"joint", "prefix", "position", "subset"}),
    "prefix": frozenset({"joint", "prefix"}),
    "position": frozenset({"position"}),
    "joint": frozenset({"joint"}),
}

MEANING = {
    "factored": "P(a_k|x) per position, positions independent",
    "prefix": "P(a_k|a_1..a_k-1,x) per position",
    "position": "marginal P(a_k at position k|x)",
    "joint": "one number for the whole ranking",
}


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """A policy's probabilities of the logged items, and their kind.

    ========  ==================================  ==============================
    kind      values                              supports
    ========  ==================================  ==============================
    factored  (n, K): P(a_k | x)                  every estimator
    prefix    (n, K): P(a_k | a_1..a_k-1, x)      RIPS, IPS
    position  (n, K): P(a_k at position k | x)    IIPS
    joint     (n,):   P(a_1..a_K | x)             IPS
    ========  ==================================  ==============================

    Parameters
    ----------
    kind
        What the numbers are: "factored", "prefix", "position" or "joint".
    values
        The probabilities of the logged items, of the shape that the kind has.

    Examples
    --------
    >>> Propensity(kind="joint", values=[0.25, 0.5]).supports
    frozenset({'joint'})
    """

    kind: str
    values: Floats

    if TYPE_CHECKING:
        # Lists are taken too.
        def __init__(self, kind: str, values: ArrayLike) -> None: ...

    def __post_init__(self) -> None:
        if self.kind not in SUPPORTS:
            raise PropensityError(
                f"propensity kind '{self.kind}' is unknown",
                remedy=f"use one of {', '.join(SUPPORTS)}",
            )
        try:
            values = np.ascontiguousarray(self.values, dtype=np.float64)
        except (TypeError, ValueError) as problem:
            raise PropensityError(f"propensity values must be numbers: {problem}") from problem
        if self.kind == "joint" and values.ndim == 2:
            differ = (values != values[:, :1]).any(axis=1)
            if differ.any():
                row = int(np.argmax(differ))
                raise PropensityError(
                    f"'joint' propensities need one number per ranking, but {row_name(row)} has "
                    f"different ones: {values[row]}"
                )
            values = np.ascontiguousarray(values[:, 0])
        expected = 1 if self.kind == "joint" else 2
        if values.ndim != expected:
            shape = "(n,)" if expected == 1 else "(n, K)"
            raise PropensityError(
                f"'{self.kind}' propensities ({MEANING[self.kind]}) must have shape {shape}, got "
                f"{values.shape}"
            )
        object.__setattr__(self, "values", values)

    @property
    def supports(self) -> frozenset[str]:
        """The questions these numbers answer: joint, prefix, position, subset."""
        return SUPPORTS[self.kind]

    @property
    def n_rows(self) -> int:
        """Number of rankings."""
        return int(self.values.shape[0])

    def take(self, rows: Rows) -> Self:
        """Return the numbers of the selected rows."""
        return type(self)(self.kind, rows_of(self.values, rows))

    def by_position(self, length: int) -> Floats:
        """Return (n, K) factors whose allowed products are probabilities; a joint sits in the first column."""
        if self.kind != "joint":
            return self.values
        factors = np.ones((self.values.shape[0], length))  # (n, K)
        factors[:, 0] = self.values
        return factors


Probabilities = Propensity | Policy

#: Fields with an entry per ranking, and those that hold such arrays by name.
_BY_ROW = (
    "action",
    "reward",
    "propensity",
    "context",
    "unit",
    "behavior",
    "lengths",
    "bucket",
    "weight",
)
_BY_NAME = ("targets", "dists", "columns", "rewards")
#: The name under which the logging policy's whole distribution is kept in `dists`.
LOGGING = "propensity"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RankingLog:
    """n rankings of K positions with rewards, propensities and context.

    `action` (n, K) integer ids, -1 pads shorter rankings at the end; `reward` (n, K), or (n,) where
    there is one reward per ranking (`page_reward`), or several of them by name, {"clicks": ...,
    "revenue": ...}, of which the first is `reward` and all are `rewards`; `propensity` an (n, K) array (factored), a
    `Propensity` of another kind, or a `Policy`; `context` (n, d), NaN for missing; `unit` (n,) of
    users or sessions whose rows belong together; `behavior` (n,) names of known behaviour, with
    `behavior_masks` (K, K) by name where the names alone do not tell; `targets` the candidate
    policies by name; `dists` whole distributions (n, A) or (n, K, A) by policy name ("propensity"
    for the logger); `columns` anything else, by name, for segments; `candidates` what
    each row could have shown, a `Candidates` or a list of lists, with features by candidate;
    `item_features` those by item; `weight` (n,) one over the probability that a row was kept, where the log
    is a part of a larger one.

    Examples
    --------
    >>> log = RankingLog(action=[[0, 1], [1, 1]], reward=[[1, 0], [0, 2.5]], propensity=[[.5, .5], [.5, .25]])
    >>> log, log.value
    (RankingLog(n=2, K=2, propensity='factored'), 1.75)
    """

    action: Ints
    reward: Floats
    propensity: Probabilities
    context: Floats | None = None
    unit: NDArray[Any] | None = None
    behavior: NDArray[np.str_] | None = None
    #: The masks (K, K) behind names of known behaviour that do not say which items matter.
    behavior_masks: Mapping[str, ArrayLike] = field(default_factory=dict)
    targets: Mapping[str, Probabilities] = field(default_factory=dict)
    dists: Mapping[str, Floats] = field(default_factory=dict)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    context_names: tuple[str, ...] = ()
    #: For each categorical context column, the labels behind its codes.
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The labels behind the action ids, where actions were not integers.
    action_names: tuple[str, ...] | None = None
    position_weights: Floats = field(default_factory=partial(np.empty, 0))
    lengths: Ints = field(default_factory=partial[Any](np.empty, 0, np.int64))
    #: (n,) hash of the unit, or of the row where there is none: folds, clusters, bootstrap.
    bucket: Ints = field(default_factory=partial[Any](np.empty, 0, np.int64))
    #: Index of the first row in the whole log, when this is a part of one.
    start: int = 0
    #: What a reader had to say: repairs, assumptions. They end up in `flags`.
    notes: tuple[str, ...] = ()
    candidates: Candidates | None = None
    item_features: ItemFeatures | None = None
    #: (n,) indices of the rows in the whole log, when this is a selection of them and no stretch.
    selected: Ints | None = None
    #: Whether there is one reward per ranking (any click, success, revenue of the page): it depends on
    #: the page as a whole and stands at the last item only for want of a better place.
    page_reward: bool = False
    #: Every reward by name, (n, K) or one per ranking (n,), where there are several; `reward` is the
    #: first of them.
    rewards: Mapping[str, Floats] = field(default_factory=dict)
    #: What became of the events that the rewards were made of.
    events: JoinedEvents | None = None
    #: What became of tables of scores.
    scores: tuple[JoinedScores, ...] = ()
    #: (n,) one over the probability that the row was kept.
    weight: Floats | None = None

    if TYPE_CHECKING:
        # What may be given is wider than what is kept: lists and arrays of any kind.
        def __init__(  # noqa: PLR0913 - a column each
            self,
            *,
            action: ArrayLike,
            reward: ArrayLike | Mapping[str, ArrayLike],
            propensity: Probabilities | ArrayLike,
            context: ArrayLike | None = None,
            unit: ArrayLike | None = None,
            behavior: ArrayLike | None = None,
            behavior_masks: Mapping[str, ArrayLike] = ...,
            targets: Mapping[str, Probabilities | ArrayLike] | None = None,
            dists: Mapping[str, ArrayLike] | None = None,
            columns: Mapping[str, ArrayLike] | None = None,
            context_names: Sequence[str] = (),
            categories: Mapping[str, Sequence[str]] = ...,
            action_names: Sequence[str] | None = None,
            position_weights: str | ArrayLike = ...,
            lengths: Ints = ...,
            bucket: Ints = ...,
            start: int = 0,
            notes: Sequence[str] = (),
            candidates: Candidates | Sequence[Sequence[int]] | None = None,
            item_features: ItemFeatures | None = None,
            selected: Ints | None = None,
            weight: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        put = object.__setattr__
        # None, as for other columns that a log does not have.
        for name in filter(lambda name: getattr(self, name) is None, _BY_NAME):
            put(self, name, {})
        action = validation.actions(self.action)
        put(self, "action", action)
        put(self, "lengths", validation.lengths(action, start=self.start))
        self._set_rewards(action.shape)
        put(self, "propensity", self._probabilities(self.propensity, LOGGING, positive=True))
        put(self, "targets", self.with_targets(self.targets).targets)
        context, names = validation.context(self.context, tuple(self.context_names), self.n)
        put(self, "context", context)
        put(self, "context_names", names)
        if self.categories:
            validation.known_names("categories", self.categories, "context column", names)
        put(self, "position_weights", self._weights(self.position_weights))
        if self.dists:
            dists = validation.distributions(self.dists, self.action, start=self.start)
            put(self, "dists", dists)
            if self.targets:
                validation.known_names("dists", dists, "policy", [LOGGING, *self.targets])
        for name in ("unit", "behavior"):
            if getattr(self, name) is not None:
                put(self, name, validation.column(getattr(self, name), self.n, name))
        if self.weight is not None:
            put(self, "weight", validation.row_weights(self.weight, self.n, start=self.start))
        columns = {
            name: validation.column(value, self.n, name) for name, value in self.columns.items()
        }
        put(self, "columns", columns)
        if self.candidates is not None:
            put(self, "candidates", validation.candidates(self.candidates, self.n))
        if self.bucket.shape != (self.n,):
            put(self, "bucket", validation.buckets(self.unit, self.numbers))

    def _set_rewards(self, shape: tuple[int, ...]) -> None:
        """Set the rewards by name, the first of them or the only one as `reward`, and what one per page means."""
        put, per_page = object.__setattr__, False
        first: Any = self.reward
        several = isinstance(first, Mapping)
        if several and not first:
            raise LogError("reward is an empty table of rewards; give one by name at least")
        named = {
            str(name): validation.named_rewards(
                values, str(name), self.lengths, shape, start=self.start
            )
            for name, values in (first if several else self.rewards).items()
        }
        put(self, "rewards", named)
        if several:
            first = next(iter(named.values()))
        if np.shape(first) == shape[:1]:
            first, per_page = validation.spread_rewards(first, self.lengths, shape), True
        put(self, "page_reward", shape[1] > 1 and (per_page or self.page_reward))
        put(self, "reward", validation.rewards(first, self.lengths, shape, start=self.start))
        if self.page_reward:
            validation.page_rewards(self.reward, self.lengths, start=self.start)
            put(self, "notes", tuple(dict.fromkeys((*self.notes, REWARD_PER_RANKING))))

    def __repr__(self) -> str:
        """Return sizes and names; the arrays are there to be looked at one by one."""
        logger = self.propensity
        kind = logger.kind if isinstance(logger, Propensity) else logger
        parts = [f"n={self.n}", f"K={self.K}", f"propensity={kind!r}"]
        named = {name: getattr(self, name) for name in ("rewards", "targets", "dists", "columns")}
        named["context"] = self.context_names
        parts += [f"{name}={list(values)}" for name, values in named.items() if values]
        return f"RankingLog({', '.join(parts)})"

    @property
    def n(self) -> int:
        """Number of rankings."""
        return int(self.action.shape[0])

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions."""
        return int(self.action.shape[1])

    @property
    def n_actions(self) -> int:
        """Number of actions A: from a distribution or a policy, else the largest id + 1."""
        for values in self.dists.values():
            return int(values.shape[-1])
        for policy in (self.propensity, *self.targets.values()):
            if isinstance(policy, Policy):
                return policy.n_actions
        if self.action_names is not None:
            return len(self.action_names)
        if self.candidates is not None:
            return max(self.candidates.n_items, int(self.action.max(initial=0)) + 1)
        return int(self.action.max(initial=0)) + 1

    @property
    def value(self) -> float:
        """What the logging policy earned: mean over rankings of sum_k alpha_k r_k."""
        return float(np.average(self.reward @ self.position_weights, weights=self.weight))

    @property
    def summed_by_unit(self) -> bool:
        """Whether errors follow from sums by unit; rows with weights are spread over buckets."""
        return self.unit is not None or self.weight is not None

    @property
    def rows(self) -> Rows:
        """Where these rows stand in the whole log: index other (n, ...) arrays with it."""
        return slice(self.start, self.start + self.n) if self.selected is None else self.selected

    @property
    def draw_keys(self) -> Ints:
        """What random draws of each row depend on (n,): unit, context and items, so that no order of rows changes them.

        Without units rows may be alike in everything, and each has its number in the log.
        """
        if self.unit is None:
            return self.numbers
        from counterrank.kernels import hashing

        hashes = hashing.RowHashes(self.n)
        hashes.absorb(self.lengths, self.action)
        unit = (
            self.unit.astype(np.int64)
            if self.unit.dtype.kind in "iub"
            else np.array(
                [zlib.crc32(str(name).encode()) for name in self.unit.tolist()], dtype=np.int64
            )
        )
        hashes.absorb(None, unit[:, None], *(() if self.context is None else (self.context,)))
        return (hashes.values >> np.uint64(1)).astype(np.int64)

    @property
    def numbers(self) -> Ints:
        """The number of each row in the whole log (n,): draws depend on it, not on chunks or order."""
        return (
            np.arange(self.start, self.start + self.n) if self.selected is None else self.selected
        )

    @property
    def shown(self) -> Ints:
        """The place of each shown item among its row's candidates (n, K): -1 padding, -2 if it is none."""
        if self.candidates is None:
            raise LogError(
                "this log has no candidates; give RankingLog(candidates=...) what each row could "
                "have shown"
            )
        return self.candidates.locate(self.action)

    @property
    def item_feature_names(self) -> tuple[str, ...]:
        """Names of what `features_of` returns: features of candidates, then of items."""
        by_candidate = () if self.candidates is None else tuple(self.candidates.features)
        return (*by_candidate, *(() if self.item_features is None else self.item_features.names))

    @property
    def categories_of_items(self) -> dict[str, tuple[str, ...]]:
        """For each categorical feature of candidates or items, the labels behind its codes."""
        by_candidate = {} if self.candidates is None else self.candidates.categories
        by_item = {} if self.item_features is None else self.item_features.categories
        return {**by_candidate, **by_item}

    def features_of(self, items: Ints) -> Floats:
        """Return the features of items (n, ...) in their rows: (n, ..., d), NaN where not known."""
        columns = [] if self.candidates is None else self.candidates.features_of(items)
        parts = [np.stack(columns, axis=-1)] if columns else []
        if self.item_features is not None:
            parts.append(self.item_features.lookup(items))
        return np.concatenate(parts, axis=-1) if parts else np.empty((*np.shape(items), 0))

    def take(self, rows: Rows) -> Self:
        """Return the log of the selected rows, which remember where they stood.

        Nothing is validated again.
        """
        cut = None if self.candidates is None else self.candidates.take(rows)
        arrays = {name: self._cut(getattr(self, name), rows, cut) for name in _BY_ROW}
        named = {
            name: {key: self._cut(value, rows, cut) for key, value in getattr(self, name).items()}
            for name in _BY_NAME
        }
        stretch = isinstance(rows, slice) and rows.step in (None, 1)
        start = self.start + (rows.indices(self.n)[0] if isinstance(rows, slice) else 0)
        selected = None
        if not stretch or self.selected is not None:
            # Of a few rows of a long stretch their numbers alone are written out.
            by_number = self.selected is None and not isinstance(rows, slice)
            selected = self.start + np.asarray(rows) if by_number else self.numbers[rows]
        return self.changed(candidates=cut, start=start, selected=selected, **arrays, **named)

    def changed(self, **fields: Any) -> Self:
        """Return the same log with other values of some fields.

        Nothing is validated again.
        """
        return changed(self, **fields)

    def first_positions(self, depth: int) -> Self:
        """Return the log of the first positions of each page; what stands below is not evaluated.

        Examples
        --------
        >>> log = RankingLog(action=[[1, 0]], reward=[[1, 0]], propensity=[[0.5, 0.5]])
        >>> log.first_positions(1).action.tolist()
        [[1]]
        """
        if depth >= self.K:
            return self
        joint = isinstance(self.propensity, Propensity) and self.propensity.kind == "joint"
        if joint or self.page_reward:
            what = "a probability" if joint else "a reward"
            raise LogError(
                f"{what} of the whole page says nothing of its first positions; leave out depth"
            )

        def cut(policy: Any) -> Any:
            if not isinstance(policy, Propensity):
                return policy
            return Propensity(policy.kind, policy.values[:, :depth])

        dists = {n: d[:, :depth] if d.ndim == 3 else d for n, d in self.dists.items()}
        return self.changed(
            action=self.action[:, :depth],
            reward=self.reward[:, :depth],
            rewards={n: r[:, :depth] if r.ndim == 2 else r for n, r in self.rewards.items()},
            lengths=np.minimum(self.lengths, depth),
            propensity=cut(self.propensity),
            dists=dists,
            behavior_masks={
                n: np.asarray(m)[:depth, :depth] for n, m in self.behavior_masks.items()
            },
            targets={name: cut(target) for name, target in self.targets.items()},
            position_weights=self.position_weights[:depth],
        )

    def evenly_kept(self) -> Self:
        """Return rows that were each kept with the same probability: of a log with weights, some of its rows.

        A row stays with probability weight / largest weight, by its number in the log; at least one does.
        """
        if self.weight is None:
            return self
        from counterrank.kernels import hashing

        chance = self.weight / self.weight.max()
        keep = hashing.uniforms(self.numbers) < chance
        keep[int(np.argmax(chance))] = True
        return self.take(np.flatnonzero(keep)).changed(weight=None)

    def chunks(self, size: int) -> Iterator[Self]:
        """Yield consecutive parts of at most `size` rows."""
        for first in range(0, self.n, size):
            yield self.take(slice(first, min(first + size, self.n)))

    def with_targets(self, targets: Mapping[str, Probabilities | ArrayLike]) -> Self:
        """Return the same log with these target policies added, each checked against it."""
        if LOGGING in targets:
            raise LogError(
                f"a target is called '{LOGGING}', the name of the logging policy; call it otherwise"
            )
        added = {
            name: self._probabilities(value, name, positive=False)
            for name, value in targets.items()
        }
        log = self.changed(targets={**self.targets, **added})
        if targets and self.dists and LOGGING not in self.dists:
            # Of a log without targets others may be evaluated later; but the logger has one name only.
            validation.known_names("dists", self.dists, "policy", [LOGGING, *log.targets])
        return log

    def with_position_weights(self, weights: str | ArrayLike) -> Self:
        """Return the same log with other position weights: "uniform", "dcg" or K numbers."""
        return self.changed(position_weights=self._weights(weights))

    def with_reward(self, reward: Floats, *, alpha: Floats | None = None) -> Self:
        """Return the same log with another reward: (n, K), or (n,) for one per ranking.

        `alpha` are the position weights of the former. Its numbers are finite, and zero in the
        padding.
        """
        per_page = self.K > 1 and reward.ndim == 1
        if reward.ndim == 1:
            reward = validation.spread_rewards(reward, self.lengths, self.action.shape)
        notes = tuple(note for note in self.notes if note != REWARD_PER_RANKING)
        return self.changed(
            reward=reward,
            page_reward=per_page,
            notes=(*notes, REWARD_PER_RANKING) if per_page else notes,
            position_weights=np.ones(self.K) if per_page or alpha is None else alpha,
        )

    def target(self, name: str) -> Probabilities:
        """Return the target policy called `name`."""
        if name not in self.targets:
            names = ", ".join(self.targets) or "none"
            near = suggestion(name, self.targets)
            raise LogError(f"there is no target policy '{name}' in this log{near}; known: {names}")
        return self.targets[name]

    def distribution(self, name: str) -> Floats | None:
        """Return the whole distribution of a policy by name, (n, A) or (n, K, A); None if unknown."""
        if name in self.dists:
            return self.dists[name]
        policy = self.propensity if name == LOGGING else self.targets.get(name)
        if isinstance(policy, Policy) and "dist" in policy.capabilities:
            table = policy.dist()
            return (
                np.broadcast_to(table, (self.n, *table.shape[1:])) if table.shape[0] == 1 else table
            )
        return None

    def where(self, keep: ArrayLike) -> Self:
        """Return the rows for which `keep` (n,) is true, as a log of its own."""
        rows = np.flatnonzero(np.asarray(keep, dtype=bool))
        return self.take(rows).changed(start=0, selected=None)

    @classmethod
    def from_frame(cls, frame: object, **options: Any) -> RankingLog:
        """Return a log from a pandas, polars or pyarrow table.

        Options: `columns`, `context`, `unit`, `weight`, `behavior`, `targets`, `segments`, `keep`,
        `propensity_kind`, `logger`, `policies`, `items`, `events`, `where`, `position_weights`,
        `missing_reward`, `require_propensity`, `dists`, `renumber`, `encode_actions`, `drop_ties`, `depth`,
        `decimal`, `version`, `target_lists`, `rewards`, `scores`;
        `help(counterrank.read_log)` explains each.
        """
        # The one way up, known to import-linter: readers stand above the log and make it.
        from counterrank.io import from_frame

        return from_frame(frame, **options)

    @classmethod
    def read(cls, path: str | os.PathLike[str], **options: Any) -> RankingLog:
        """Return a log from a file; the same as `counterrank.read_log`."""
        from counterrank.io import read_log

        return read_log(path, **options)

    def _cut(self, value: Any, rows: Rows, candidates: Candidates | None) -> Any:
        """Return the selected rows of a field.

        Policies over the log's candidates share the ones cut for it.
        """
        if value is None:
            return None
        if (
            isinstance(value, Scored)
            and candidates is not None
            and value.candidates is self.candidates
        ):
            return value.over(candidates, rows)
        if isinstance(value, (Propensity, Policy)):
            return value.take(rows)
        return rows_of(value, rows)

    def _probabilities(self, policy: Any, name: str, *, positive: bool) -> Probabilities:
        if isinstance(policy, Policy):
            if positive:
                validation.known_items(policy, self.action, self.start)
            return validation.policy(policy, self.n, name)
        logger, kind = self.propensity, "factored"
        if name != LOGGING:
            kind = logger.kind if isinstance(logger, Propensity) else logger.propensity_kind
        numbers: Propensity = policy if isinstance(policy, Propensity) else Propensity(kind, policy)
        validation.propensities(
            numbers.values,
            self.lengths,
            self.action.shape,
            name=name,
            positive=positive,
            start=self.start,
        )
        return numbers

    def _weights(self, position_weights: str | ArrayLike) -> Floats:
        weights = validation.position_weights(position_weights, self.K)
        if self.page_reward and not (weights == 1.0).all():
            raise LogError(
                "position weights weigh rewards by their position, but this log has one reward per "
                "ranking; leave the weights out"
            )
        return weights


def concat(pieces: Sequence[RankingLog]) -> RankingLog:
    """Return one log of all rows, in order; the pieces come from the same source and keep their buckets."""
    if not pieces:
        raise LogError("there is no ranking to put together")
    first = pieces[0]
    if len(pieces) == 1:
        return first
    listed = [piece.candidates for piece in pieces if piece.candidates is not None]
    sets = Candidates.concat(listed) if listed else None
    # Policies that a rule made and that cannot be put together row by row are made again.
    rules = {
        name: policy.rule
        for name, policy in first.targets.items()
        if isinstance(policy, Policy) and policy.rule is not None and not isinstance(policy, Scored)
    }
    arrays = {name: _joined([getattr(piece, name) for piece in pieces], sets) for name in _BY_ROW}
    named = {
        group: {
            name: _joined([getattr(piece, group)[name] for piece in pieces], sets)
            for name in getattr(first, group)
            if group != "targets" or name not in rules
        }
        for group in _BY_NAME
    }
    numbers = np.concatenate([piece.numbers for piece in pieces])
    stretch = np.array_equal(numbers, np.arange(first.start, first.start + len(numbers)))
    log = first.changed(
        candidates=sets,
        selected=None if stretch else numbers,
        notes=tuple(dict.fromkeys(note for piece in pieces for note in piece.notes)),
        **arrays,
        **named,
    )
    # Last: a rule reads the columns and candidates of the whole.
    bound = {name: rule.bind(log) for name, rule in rules.items()}
    return log.with_targets(bound) if bound else log


def _joined(parts: Sequence[Any], sets: Candidates | None) -> Any:
    """Return an array, or the numbers of a policy, of the rows of all parts."""
    first = parts[0]
    if first is None or isinstance(first, np.ndarray):
        return None if first is None else np.concatenate(parts)
    if all(isinstance(policy, Scored) for policy in parts):
        return Scored.concat(parts, sets)
    if not all(isinstance(policy, Propensity) for policy in parts):
        raise LogError("policies given as objects cannot be put together; use their probabilities")
    return Propensity(first.kind, np.concatenate([policy.values for policy in parts]))


__all__ = [
    "LOGGING",
    "MEANING",
    "SUPPORTS",
    "Probabilities",
    "Propensity",
    "RankingLog",
    "concat",
]
