"""What is said about a log: options by the user, and LogSpec, how the data lie, once that was found out."""

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Self, TypedDict

from numpy.typing import ArrayLike

from counterrank import stores
from counterrank.data.log import RankingLog
from counterrank.data.propensity import MEANING
from counterrank.data.source import Source
from counterrank.errors import ConfigError
from counterrank.io.warehouses import Query
from counterrank.io.where import Where
from counterrank.messages import say
from counterrank.policies import (
    ItemFeatures,
    PolicySpec,
    parse_named_policy,
    parse_policy,
    policy_from_table,
)
from counterrank.texts import suggestion

#: What a column can be to a log. Any other key of `columns` is the name of a target policy.
ROLES = (
    "action",
    "reward",
    "propensity",
    "ranking",
    "position",
    "unit",
    "behavior",
    "candidates",
    "query",
)

#: How features of candidates are called; `columns` maps them too.
FEATURE = "z_"

#: A target policy that needs no column of some formats: every candidate equally likely.
UNIFORM = "uniform"

Names = str | Iterable[str] | None


class CommonOptions(TypedDict, total=False):
    """The options of the reader that every function with a log takes; see `ReadOptions`."""

    columns: Mapping[str, Any] | str
    context: Names
    keep: Names
    propensity_kind: str | None
    unit: str | None
    behavior: str | None
    missing_reward: str
    require_propensity: bool
    encode_actions: bool | None
    dists: bool
    decimal: str
    renumber: bool
    drop_ties: bool
    logger: Any
    policies: Any
    items: str | os.PathLike[str] | None
    where: Where | Mapping[str, Any] | str | None
    version: int | None
    target_lists: Mapping[str, str | os.PathLike[str]] | None


class ReadKeywords(CommonOptions, total=False):
    """The keyword arguments of `read_log`, `scan_log` and `from_frame`; see `ReadOptions`."""

    segments: Names
    targets: Names
    position_weights: Any
    rewards: Mapping[str, str] | Iterable[str] | str | None


class OpenOptions(CommonOptions, total=False):
    """The keyword arguments with which `evaluate`, `learn` and `validate` open a log."""

    format: str | None
    engine: Any


class FrameLike(Protocol):
    """A table of pandas, polars, Dask or Spark."""

    @property
    def columns(self) -> Any:
        """Its columns."""


class ArrowTable(Protocol):
    """A table of pyarrow or DuckDB."""

    @property
    def column_names(self) -> Any:
        """The names of its columns."""


class ArrowStream(Protocol):
    """Whatever hands over Arrow batches: a reader, a relation of DuckDB, a table of ibis."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


#: What can be opened as a log.
LogLike = (
    RankingLog
    | Source
    | str
    | os.PathLike[str]
    | Query
    | FrameLike
    | ArrowTable
    | ArrowStream
    | Mapping[str, ArrayLike]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read a log.

    `columns` maps what we call a column to what the data calls it, {"action": "items"}, or to a
    list of columns, {"action": ["slot_a", "slot_b"]}; a text "action=items,reward=clicks" says the
    same. `context` None means the columns that start with x_. `propensity_kind` None means
    factored, or what an adapter knows of its format. `segments` None carries scalar columns (at
    most 100) in memory and none in a stream, and those named in `keep`. `targets` None finds list
    columns of probabilities in memory and asks for none in a stream. `missing_reward` "zero" reads
    an absent reward as 0. `require_propensity` False reads a log that has none. `encode_actions`
    gives integer ids the codes 0..A-1, as is always done for names; None does so for huge ids.
    `dists` False leaves whole distributions unread. `decimal` "," reads 0,5 as a half, in text and
    CSV. `logger` says how the scores in `propensity_scores` became rankings,
    "plackett-luce:temperature=1", and `policies` the same for targets by name, {"new": "top"}, from
    NAME_scores; `items` is a file of features by item. `renumber` True closes gaps in positions
    (slots of ads, items that were filtered out): the rest moves up. `drop_ties` True leaves out rows
    in which equal scores decide what the logger would show. `where` keeps the rows that fit
    a condition, "day >= '2026-10-01' and country = 'DE'", or a table like {"country": "DE"}.
    `version` is that of a Delta table, or a snapshot of an Iceberg one. `target_lists` are lists of
    other rankers: files with the columns query, rank and document, by the name of the target; the
    log's column `query` says which list is meant. `rewards` are several rewards, their columns by
    name, {"clicks": "click", "revenue": "revenue"}; the first stands for `reward`.

    >>> ReadOptions.of(columns="action=items, reward=clicks", targets="new").columns["reward"]
    'clicks'
    """

    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    context: tuple[str, ...] | None = None
    segments: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    propensity_kind: str | None = None
    unit: str | None = None
    behavior: str | None = None
    position_weights: str | tuple[float, ...] = "uniform"
    missing_reward: str = "error"
    require_propensity: bool = True
    encode_actions: bool | None = None
    dists: bool = True
    decimal: str = "."
    renumber: bool = False
    drop_ties: bool = False
    logger: PolicySpec | None = None
    policies: Mapping[str, PolicySpec] = field(default_factory=dict)
    items: str | None = None
    where: Where | None = None
    version: int | None = None
    target_lists: Mapping[str, str] = field(default_factory=dict)
    rewards: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Return options from keyword arguments, command-line texts or a TOML table."""
        known = [item.name for item in fields(cls)]
        for key in given:
            if key not in known:
                raise ConfigError(
                    f"there is no option '{key}'{suggestion(key, known)}; options are "
                    f"{', '.join(known)}"
                )
        values: dict[str, Any] = {key: _CLEAN[key](key, value) for key, value in given.items()}
        return cls(**values)._checked()

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], **more: Any) -> Self:
        """Return options from the [log] table of a TOML file, or from the whole file when there is none."""
        table = log_table(path)
        try:
            return cls.of(**table | more)
        except ConfigError as problem:
            raise ConfigError(f"{os.fspath(path)}: {problem}") from None

    def column(self, role: str) -> str | tuple[str, ...]:
        """Return what the data calls a role or target."""
        named = {"unit": self.unit, "behavior": self.behavior}.get(role)
        if role == "reward" and self.rewards:
            return next(iter(self.rewards.values()))
        return named or self.columns.get(role, role)

    def over(self, columns: Mapping[str, str], context: Iterable[str], kind: str) -> Self:
        """Return these options over what a format implies."""
        return replace(
            self,
            columns={**columns, **self.columns},
            context=tuple(context) if self.context is None else self.context,
            propensity_kind=self.propensity_kind or kind,
        )

    def is_named(self, role: str) -> bool:
        """Whether the user pointed at a column for this role, so that its absence is an error."""
        return role in self.columns or bool(
            {"unit": self.unit, "behavior": self.behavior}.get(role)
        )

    def _checked(self) -> Self:
        if self.propensity_kind is not None and self.propensity_kind not in MEANING:
            near = suggestion(self.propensity_kind, MEANING)
            raise ConfigError(
                f"propensity kind '{self.propensity_kind}' is unknown{near}; use "
                f"{', '.join(MEANING)}"
            )
        if self.missing_reward not in ("error", "zero"):
            raise ConfigError(f"missing_reward is 'error' or 'zero', got {self.missing_reward!r}")
        if self.decimal not in (".", ","):
            raise ConfigError(f"decimal is '.' or ',', got {self.decimal!r}")
        self._refuse_unknown_parts()
        return self._with_query() if self.target_lists else self

    def _with_query(self) -> Self:
        """Return options that carry the column by which a ranking finds its list."""
        query = str(self.column("query"))
        if self.segments is None:
            return replace(self, keep=tuple(dict.fromkeys([*self.keep, query])))
        return replace(self, segments=tuple(dict.fromkeys([*self.segments, query])))

    def _refuse_unknown_parts(self) -> None:
        named = ("propensity", *dict.fromkeys([*(self.targets or ()), *self.policies]))
        known = [
            *ROLES,
            *named[1:],
            *(f"{name}_{what}" for what in ("dist", "scores") for name in named),
        ]
        for role, column in self.columns.items():
            if role.startswith(FEATURE) and isinstance(column, str):
                continue
            if role.startswith("x_") and role not in known:
                given = _joined(column)
                raise ConfigError(
                    f"columns maps '{role}': context columns keep their names; name them with "
                    f"{say('--context', given)}"
                )
            # While targets are not named, any other name is one; only slips of the roles' names are
            # told.
            if role not in known and (self.targets is not None or suggestion(role, ROLES)):
                raise ConfigError(
                    f"columns maps '{role}', which is no part of a log{suggestion(role, known)}; "
                    f"known: {', '.join(known)}"
                )


def refuse_unread(given: Mapping[str, Any]) -> None:
    """Raise where options on reading come with a log that has been read.

    They would be ignored, and so would a name that is mistyped.
    """
    # What evaluations themselves pass on.
    names = [name for name in given if name not in ("require_propensity", "position_weights")]
    if names:
        ReadOptions.of(**{names[0]: given[names[0]]})
        raise ConfigError(
            f"'{names[0]}' says how to read a log, and this one has been read; give it to read_log, "
            "scan_log or from_frame"
        )


def log_table(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the [log] table of a TOML file, or the whole file when there is none, with the names of options."""
    content = load_toml(path)
    table = content.get("log", content)
    if not isinstance(table, dict):
        raise ConfigError(f"{os.fspath(path)}: 'log' must be a table, [log], got {table!r}")
    # A file with a [log] table may hold these as tables of their own, beside it.
    beside = {
        key: content[key]
        for key in (
            "logger",
            "policies",
            "items",
            "where",
            "rewards",
            "primary",
            "guardrails",
            "baseline",
        )
        if key in content and key not in table
    }
    return {key.replace("-", "_"): value for key, value in {**table, **beside}.items()}


def load_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a TOML file, or say what is wrong with it."""
    try:
        return tomllib.loads(stores.read_bytes(path).decode("utf-8"))
    except OSError as problem:
        raise ConfigError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ConfigError(f"{os.fspath(path)} is not valid TOML: {problem}") from None


def _mapping(key: str, given: Any) -> dict[str, str | tuple[str, ...]]:
    if isinstance(given, str):
        given = _pairs(given)
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{key} must map names to columns, like action=items,reward=clicks; got {given!r}"
        )
    return {str(role): _column(role, value) for role, value in given.items()}


def _column(role: str, value: Any) -> str | tuple[str, ...]:
    # "clicks_*" is how people write a run of numbered columns, which the stem alone finds.
    if isinstance(value, str) and value:
        return value.removesuffix("_*")
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"columns: '{role}' must be a column name or a list of them, got {value!r}")


def _joined(column: str | tuple[str, ...]) -> str:
    return column if isinstance(column, str) else ",".join(column)


def _pairs(text: str) -> dict[str, str | tuple[str, ...]]:
    found: dict[str, str | tuple[str, ...]] = {}
    role = ""
    for part in text.split(","):
        if role and part.strip() and "=" not in part:
            # action=slot_a,slot_b: one more column of the same role.
            before = found[role]
            found[role] = (*((before,) if isinstance(before, str) else before), part.strip())
            continue
        if not part.strip():
            continue
        role, column = _pair(part)
        # A dict would keep the last of two silently.
        if role in found:
            raise ConfigError(
                f"columns: '{role}' is said to be '{found[role]}' and '{column}'; name one "
                "column, or in a TOML file "
                f'a list of them, {role} = ["{found[role]}", "{column}"]'
            )
        found[role] = column
    return found


def _pair(text: str) -> tuple[str, str]:
    role, sign, column = text.partition("=")
    if not sign or not role.strip() or not column.strip():
        raise ConfigError(
            f"columns: '{text.strip()}' is not understood; write pairs like "
            "action=items,reward=clicks"
        )
    return role.strip(), column.strip()


def _names(key: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    found = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(item, str) for item in found):
        raise ConfigError(f"{key} must be column names, got {given!r}")
    return tuple(dict.fromkeys(found))


def _weights(key: str, given: Any) -> str | tuple[float, ...]:
    if isinstance(given, str):
        return given
    try:
        return tuple(float(value) for value in given)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{key} must be 'uniform', 'dcg' or one number a position; got {given!r}"
        ) from None


def _text(key: str, given: Any) -> str | None:
    if given is None or isinstance(given, str):
        return given
    raise ConfigError(f"{key} must be a text, got {given!r}")


def _whole(key: str, given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if isinstance(given, str) and given.isdecimal():
        return int(given)
    raise ConfigError(f"{key} must be a whole number, got {given!r}")


def _lists(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"target_lists maps names of targets to files, {{'new': 'lists.csv'}}; got {given!r}"
        )
    return {str(name): os.fspath(path) for name, path in given.items()}


def _rewards(given: Any) -> dict[str, str]:
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    pairs = given if isinstance(given, Mapping) else {name: name for name in given}
    if not all(isinstance(part, str) and part for pair in pairs.items() for part in pair):
        raise ConfigError(
            f"rewards maps names to columns, {{'clicks': 'click'}}; got {dict(pairs)!r}"
        )
    return dict(pairs)


def _switch(key: str, given: Any) -> bool:
    if isinstance(given, bool):
        return given
    raise ConfigError(f"{key} must be true or false, got {given!r}")


def _policy(where: str, given: Any) -> PolicySpec | None:
    if given is None or isinstance(given, PolicySpec):
        return given
    if isinstance(given, Mapping):
        return policy_from_table(given, f"[{where}]")
    if isinstance(given, str):
        return parse_policy(given)
    raise ConfigError(
        f"{where} must be a text like plackett-luce:temperature=1, or a table with kind; got "
        f"{given!r}"
    )


def _policies(key: str, given: Any) -> dict[str, PolicySpec]:
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Mapping):
        pairs = [parse_named_policy(text) for text in given]
        for name, _ in pairs:
            if sum(name == other for other, _ in pairs) > 1:
                raise ConfigError(f"policy '{name}' is given twice")
        return dict(pairs)
    return {
        str(name): spec
        for name, one in given.items()
        if (spec := _policy(f"{key}.{name}", one)) is not None
    }


_CLEAN: dict[str, Callable[[str, Any], Any]] = {
    "columns": _mapping,
    "context": _names,
    "segments": _names,
    "keep": lambda key, given: _names(key, given) or (),
    "targets": _names,
    "position_weights": _weights,
    "propensity_kind": _text,
    "unit": _text,
    "behavior": _text,
    "missing_reward": _text,
    "require_propensity": _switch,
    "encode_actions": lambda key, given: None if given is None else _switch(key, given),
    "dists": _switch,
    "decimal": _text,
    "renumber": _switch,
    "drop_ties": _switch,
    "logger": _policy,
    "policies": _policies,
    "items": lambda key, given: None if given is None else os.fspath(given),
    "version": lambda key, given: None if given is None else _whole(key, given),
    "target_lists": lambda key, given: _lists(given or {}),
    "rewards": lambda key, given: _rewards(given or {}),
    "where": lambda key, given: None if given is None else Where.of(given),
}


@dataclass(frozen=True, slots=True)
class Field:
    """Where the numbers of one role or policy are.

    `form` is "list" (one column of lists), "text" (lists written as text), "wide" (a column a
    position) or "scalar" (one number a row). `size` is the number of actions of a whole
    distribution.
    """

    columns: tuple[str, ...]
    form: str
    size: int = 0
    #: What it is called in the log, where that is not the column's name.
    title: str = ""

    @property
    def has_lists(self) -> bool:
        """Whether a cell holds the numbers of all positions, or of all candidates."""
        return self.form in ("list", "text")

    @property
    def label(self) -> str:
        """What it is called in the log."""
        return self.title or self.name

    @property
    def name(self) -> str:
        """The column, or the stem of the columns, as a person would call it."""
        return (
            self.columns[0]
            if len(self.columns) == 1
            else f"{self.columns[0]} .. {self.columns[-1]}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSpec:
    """Where candidates are, and what stands beside them, one entry for each.

    `items` None means that every item is a candidate. `policies` says how scores become a policy
    ("top", "plackett-luce:temperature=1") by name, "propensity" for the logger; those without
    `scores` are rules in files. `categories` has the labels of features that are no numbers.
    `count` is how many candidates a row has, about.
    """

    items: Field | None = None
    scores: Mapping[str, Field] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)
    features: tuple[Field, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    n_items: int = 0
    count: int = 0
    item_file: str | None = None
    item_features: ItemFeatures | None = None

    def __bool__(self) -> bool:
        """Whether a log has anything of the kind."""
        return bool(self.items or self.policies or self.item_file)

    @property
    def named(self) -> tuple[Field, ...]:
        """Features that are categories rather than numbers."""
        return tuple(field for field in self.features if field.name in self.categories)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Every field with one entry a candidate."""
        listed = () if self.items is None else (self.items,)
        return (*listed, *self.scores.values(), *self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpec:
    """Everything needed to decode any piece of a data set into a RankingLog, also on another machine.

    `layout` is "list", "numbered" or "long" (one row a position; then `ranking` and `position` are
    set). `K` and the vocabularies (`action_names`, `categories`) hold for the whole data set, so
    that pieces agree.
    """

    layout: str
    fields: Mapping[str, Field]
    targets: Mapping[str, Field] = field(default_factory=dict)
    dists: Mapping[str, Field] = field(default_factory=dict)
    #: Every reward by name, where there are several.
    rewards: Mapping[str, Field] = field(default_factory=dict)
    K: int = 0
    ranking: str | None = None
    position: str | None = None
    first_position: int = 1
    unit: str | None = None
    behavior: str | None = None
    context: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    action_names: tuple[str, ...] | None = None
    #: What could have been shown, and the policies made of its scores.
    candidates: CandidateSpec = field(default_factory=lambda: CandidateSpec())
    kind: str = "factored"
    position_weights: str | tuple[float, ...] = "uniform"
    missing_reward: str = "error"
    renumber: bool = False
    #: Names of segments and targets that nobody asked for: left out, rather than refused, when they
    #: do not fit.
    guessed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every physical column that is read, once."""
        groups = [*self.fields.values(), *self.targets.values(), *self.dists.values()]
        groups += [*self.rewards.values(), *self.candidates.fields]
        names = [name for group in groups for name in group.columns]
        single = [self.ranking, self.position, self.unit, self.behavior]
        names += [*(name for name in single if name), *self.context, *self.segments]
        return tuple(dict.fromkeys(names))

    @property
    def unasked(self) -> frozenset[str]:
        """Columns that are read only because they might be a segment or a target."""
        targets = {name: field.columns for name, field in self.targets.items()}
        found = (column for name in self.guessed for column in targets.get(name, (name,)))
        return frozenset(found) - set(replace(self, segments=(), targets={}).columns)

    def with_position_weights(self, weights: str | tuple[float, ...]) -> Self:
        """Return the same spec with other position weights."""
        return replace(self, position_weights=weights)
