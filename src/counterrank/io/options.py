"""The options of the reader: what a user says about a log, checked and in one form."""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from numpy.typing import ArrayLike

from counterrank.common import stores
from counterrank.common.errors import ConfigError
from counterrank.common.messages import say
from counterrank.common.options import OPTIONS
from counterrank.common.texts import suggestion
from counterrank.data.log import LOGGING, MEANING, RankingLog
from counterrank.data.source import Source
from counterrank.io.joined_tables import Events, Scores, scores_of
from counterrank.io.warehouses import Query
from counterrank.io.where import Where
from counterrank.policies import (
    PolicySpec,
    parse_named_policy,
    parse_policy,
    policy_from_table,
)

#: What a column can be to a log. Any other key of `columns` is the name of a target policy.
ROLES = (
    "action",
    "reward",
    "propensity",
    "ranking",
    "position",
    "unit",
    "behavior",
    "weight",
    "candidates",
    "query",
)

#: How features of candidates are called; `columns` maps them too.
FEATURE = "z_"

#: A target policy that needs no column of some formats: every candidate equally likely.
UNIFORM = "uniform"

Names = str | Iterable[str] | None
#: Takes the name of an option and what a user gives for it.
Clean = Callable[[str, Any], Any]


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


def columns_of(columns: Mapping[str, Any] | str) -> dict[str, str | tuple[str, ...]]:
    """Return what columns are called, given as a mapping or as text.

    >>> columns_of("action=items,reward=clicks")["reward"]
    'clicks'
    """
    if isinstance(columns, str):
        columns = _pairs(columns)
    if not isinstance(columns, Mapping):
        raise ConfigError(
            f"columns must map names to columns, like action=items,reward=clicks; got {columns!r}"
        )
    return {str(role): _column(role, column) for role, column in columns.items()}


def _column(role: str, value: Any) -> str | tuple[str, ...]:
    # "clicks_*" is how people write a run of numbered columns, which the stem alone finds.
    if isinstance(value, str) and value:
        return value.removesuffix("_*")
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ConfigError(f"columns: '{role}' must be a column name or a list of them, got {value!r}")


def _pairs(text: str) -> dict[str, str | tuple[str, ...]]:
    mapping: dict[str, str | tuple[str, ...]] = {}
    # action=slot_a,slot_b: a comma before another column of the same role begins no new pair.
    parts = (pair.strip(", ") for pair in re.split(r",(?=[^,]*=)", text))
    for pair in filter(None, parts):
        role, _, columns = map(str.strip, pair.partition("="))
        column, *further = map(str.strip, columns.split(","))
        if not (role and column):
            raise ConfigError(
                f"columns: '{pair}' is not understood; write pairs like action=items,reward=clicks"
            )
        # A dict would keep the last of two silently.
        if role in mapping:
            raise ConfigError(
                f"columns: '{role}' is said to be '{mapping[role]}' and '{column}'; name one "
                "column, or in a TOML file "
                f'a list of them, {role} = ["{mapping[role]}", "{column}"]'
            )
        mapping[role] = (column, *filter(None, further)) if further else column
    return mapping


def _names(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    names = list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(item, str) for item in names):
        raise ConfigError(f"{key} must be column names, got {value!r}")
    return tuple(dict.fromkeys(names))


def _weights(key: str, weights: Any) -> str | tuple[float, ...]:
    if isinstance(weights, str):
        return weights
    try:
        return tuple(float(value) for value in weights)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{key} must be 'uniform', 'dcg' or one number per position; got {weights!r}"
        ) from None


def _whole(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    raise ConfigError(f"{key} must be a whole number, got {value!r}")


def _lists(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{key} maps names of targets to files, {{'new': 'lists.csv'}}; got {value!r}"
        )
    return {str(name): os.fspath(path) for name, path in value.items()}


def _rewards(key: str, value: Any) -> dict[str, str]:
    pairs = value if isinstance(value, Mapping) else {name: name for name in _names(key, value)}
    if not all(isinstance(word, str) and word for pair in pairs.items() for word in pair):
        raise ConfigError(
            f"{key} maps names to columns, {{'clicks': 'click'}}; got {dict(pairs)!r}"
        )
    return dict(pairs)


def _policy(where: str, policy: Any) -> PolicySpec:
    if isinstance(policy, PolicySpec):
        return policy
    if isinstance(policy, Mapping):
        return policy_from_table(policy, f"[{where}]")
    if isinstance(policy, str):
        return parse_policy(policy)
    raise ConfigError(
        f"{where} must be a text like plackett-luce:temperature=1, or a table with kind; got "
        f"{policy!r}"
    )


def _policies(key: str, policies: Any) -> dict[str, PolicySpec]:
    if not isinstance(policies, Mapping):
        texts = [policies] if isinstance(policies, str) else policies
        pairs = [parse_named_policy(text) for text in texts]
        policies = dict(pairs)
        if len(policies) < len(pairs):
            names = [name for name, _ in pairs]
            raise ConfigError(f"policy '{max(names, key=names.count)}' is given twice")
    if LOGGING in policies:
        raise ConfigError(
            f"'{LOGGING}' is the logging policy; describe it with {say('--logger', 'KIND')}"
        )
    return {
        str(name): _policy(f"{key}.{name}", policy)
        for name, policy in policies.items()
        if policy is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read a log: the options that `counterrank.read_log` explains, each in one form.

    >>> ReadOptions.from_keywords(columns="action=items, reward=clicks", targets="new").columns["reward"]
    'clicks'
    """

    columns: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    context: tuple[str, ...] | None = None
    segments: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    propensity_kind: str | None = None
    position_weights: str | tuple[float, ...] = "uniform"
    missing_reward: str = "error"
    require_propensity: bool = True
    encode_actions: bool | None = None
    dists: bool = True
    decimal: str = "."
    renumber: bool = False
    drop_ties: bool = False
    depth: int | None = None
    logger: PolicySpec | None = None
    policies: Mapping[str, PolicySpec] = field(default_factory=dict)
    items: str | None = None
    where: Where | None = None
    version: int | None = None
    target_lists: Mapping[str, str] = field(default_factory=dict)
    rewards: Mapping[str, str] = field(default_factory=dict)
    events: Events | None = None
    scores: tuple[Scores, ...] = ()
    #: The target that lifts are over: messages call it that.
    baseline: str | None = None

    @classmethod
    def from_keywords(cls, **options: Any) -> Self:
        """Return options from keyword arguments, command-line texts or a TOML table; None is the default."""
        values: dict[str, Any] = {}
        for key, value in options.items():
            if key not in _FORMS:
                # What was meant may be an option of the function and not of its reader.
                near = suggestion(key, dict.fromkeys([*_FORMS, *OPTIONS]))
                raise ConfigError(
                    f"there is no option '{key}'{near}; options are {', '.join(_FORMS)}"
                )
            form = _FORMS[key]
            if value is None:
                continue
            if isinstance(form, type) and not isinstance(value, form):
                raise ConfigError(f"{key} {_TYPES[form]}, got {value!r}")
            values[key] = value if isinstance(form, type) else form(key, value)
        # Roles with an option of their own are columns like any other.
        columns = values.pop("columns", {})
        for role in _OWN_OPTION:
            if name := values.pop(role, None):
                columns = {**columns, role: name}
        return cls(columns=columns, **values)._checked()

    def column(self, role: str) -> str | tuple[str, ...]:
        """Return what the data calls a role or target."""
        if role == "reward" and self.rewards:
            return next(iter(self.rewards.values()))
        return self.columns.get(role, role)

    def over(self, columns: Mapping[str, str], context: Iterable[str], kind: str) -> Self:
        """Return these options over what a format implies."""
        return replace(
            self,
            columns={**columns, **self.columns},
            context=tuple(context) if self.context is None else self.context,
            propensity_kind=self.propensity_kind or kind,
        )

    def carrying(self, names: Iterable[str]) -> Self:
        """Return options that read further columns, with one value per ranking."""
        if self.segments is None:
            return replace(self, keep=tuple(dict.fromkeys([*self.keep, *names])))
        return replace(self, segments=tuple(dict.fromkeys([*self.segments, *names])))

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
        if self.depth == 0:
            raise ConfigError("depth is a number of positions, 1 or more")
        if self.columns:
            self._refuse_unknown_parts()
        return self._joined() if self.logger or self.events or self.target_lists else self

    def _joined(self) -> Self:
        options = self
        if self.logger is not None and self.logger.teams:
            # The rankers of a draft are targets that show their lists.
            teams = dict.fromkeys(self.logger.teams, parse_policy("top"))
            options = replace(options, policies={**teams, **self.policies})
        if self.target_lists:
            # By its query a ranking finds its list.
            options = options.carrying([str(self.column("query"))])
        if self.events is not None:
            # Each event is a reward; others may stand in the log.
            events = self.events.seen_at(None)
            options = replace(options, rewards=events.with_names(self.rewards), events=events)
        return options

    def _refuse_unknown_parts(self) -> None:
        named = dict.fromkeys(["propensity", *(self.targets or ()), *self.policies])
        companions = (f"{name}_{what}" for what in ("dist", "scores") for name in named)
        parts = [*dict.fromkeys([*ROLES, *named, *companions])]
        for role, column in self.columns.items():
            if role.startswith(FEATURE) and isinstance(column, str):
                continue
            if role.startswith("x_") and role not in parts:
                columns = column if isinstance(column, str) else ",".join(column)
                raise ConfigError(
                    f"columns maps '{role}': context columns keep their names; name them with "
                    f"{say('--context', columns)}"
                )
            # Without named targets any other name may be a target; only misspelt roles are refused.
            target = not self.targets and role.endswith(("_dist", "_scores"))
            misspelt = self.targets is not None or suggestion(role, ROLES)
            if role not in parts and misspelt and not target:
                raise ConfigError(
                    f"columns maps '{role}', which is no part of a log{suggestion(role, parts)}; "
                    f"known: {', '.join(parts)}"
                )


_OWN_OPTION = ("unit", "weight", "behavior")

#: How what a user gives for an option is brought into one form: a type that it has, or what makes it so.
_FORMS: Mapping[str, type | Clean] = {
    "columns": lambda _, columns: columns_of(columns),
    "context": _names,
    "segments": _names,
    "keep": _names,
    "targets": _names,
    "propensity_kind": str,
    "unit": str,
    "weight": str,
    "behavior": str,
    "position_weights": _weights,
    "missing_reward": str,
    "require_propensity": bool,
    "encode_actions": bool,
    "dists": bool,
    "decimal": str,
    "renumber": bool,
    "drop_ties": bool,
    "depth": _whole,
    "logger": _policy,
    "policies": _policies,
    "items": lambda _, path: os.fspath(path),
    "where": lambda _, condition: Where.parse(condition),
    "version": _whole,
    "target_lists": _lists,
    "rewards": _rewards,
    "events": Events,
    "scores": lambda _, tables: scores_of(tables),
}
_TYPES = {
    str: "must be a text",
    bool: "must be true or false",
    Events: "is counterrank.Events(path, on=..., rewards=...)",
}


def refuse_unread(options: Mapping[str, Any]) -> None:
    """Raise where options on reading come with a log that has been read.

    They would be ignored, and so would a name that is mistyped.
    """
    # What evaluations themselves pass on.
    names = [name for name in options if name not in ("require_propensity", "position_weights")]
    if names:
        ReadOptions.from_keywords(**{names[0]: options[names[0]]})
        raise ConfigError(
            f"'{names[0]}' says how to read a log, and this one has been read; give it to read_log, "
            "scan_log or from_frame"
        )


def load_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a TOML file, or say what is wrong with it."""
    try:
        return tomllib.loads(stores.read_bytes(path).decode("utf-8"))
    except OSError as problem:
        raise ConfigError(f"cannot read {os.fspath(path)}: {problem.strerror or problem}") from None
    except (ValueError, RecursionError) as problem:
        # Python itself refuses numbers of thousands of digits, with an error of its own.
        reason = (
            "a number has thousands of digits" if "int_max_str_digits" in str(problem) else problem
        )
        raise ConfigError(f"{os.fspath(path)} is not valid TOML: {reason}") from None
