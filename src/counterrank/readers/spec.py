"""LogSpec: how a data set lies on disk, once that has been found out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from counterrank.readers.options import ReadOptions


@dataclass(frozen=True, slots=True)
class Field:
    """Where the numbers of one role or policy are.

    `form` is "list" (one column of lists), "text" (lists written as text), "wide" (a column a position) or
    "scalar" (one number a row). `size` is the number of actions of a whole distribution.
    """

    columns: tuple[str, ...]
    form: str
    size: int = 0

    @property
    def name(self) -> str:
        """The column, or the stem of the columns, as a person would call it."""
        return self.columns[0] if len(self.columns) == 1 else f"{self.columns[0]} .. {self.columns[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpec:
    """Everything needed to decode any piece of a data set into a RankingLog, also on another machine.

    `layout` is "list", "numbered" or "long" (one row a position; then `ranking` and `position` are set).
    `K` and the vocabularies (`action_names`, `categories`) hold for the whole data set, so that pieces agree.
    """

    layout: str
    fields: Mapping[str, Field]
    targets: Mapping[str, Field] = field(default_factory=dict)
    dists: Mapping[str, Field] = field(default_factory=dict)
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
    kind: str = "factored"
    position_weights: str | tuple[float, ...] = "uniform"
    missing_reward: str = "error"
    #: Names of segments and targets that nobody asked for: left out, rather than refused, when they do not fit.
    guessed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every physical column that is read, once."""
        groups = (*self.fields.values(), *self.targets.values(), *self.dists.values())
        names = [name for group in groups for name in group.columns]
        single = [self.ranking, self.position, self.unit, self.behavior]
        names += [*(name for name in single if name), *self.context, *self.segments]
        return tuple(dict.fromkeys(names))

    def with_position_weights(self, weights: str | tuple[float, ...]) -> Self:
        """Return the same spec with other position weights."""
        return replace(self, position_weights=weights)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable content."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the spec written by `to_dict`, also after a trip through JSON."""
        values = dict(content)
        for name in ("fields", "targets", "dists"):
            values[name] = {
                key: Field(tuple(item["columns"]), item["form"], item["size"]) for key, item in values[name].items()
            }
        values["categories"] = {key: tuple(labels) for key, labels in values["categories"].items()}
        for name in ("context", "segments", "guessed", "notes"):
            values[name] = tuple(values[name])
        if values["action_names"] is not None:
            values["action_names"] = tuple(values["action_names"])
        if not isinstance(values["position_weights"], str):
            values["position_weights"] = tuple(values["position_weights"])
        return cls(**values)


__all__ = ["Field", "LogSpec", "ReadOptions"]
