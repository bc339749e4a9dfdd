"""LogSpec: how a data set lies on disk, once that has been found out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from counterrank.policies import ItemFeatures


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

    @property
    def fields(self) -> tuple[Field, ...]:
        """Every field with one entry a candidate."""
        listed = () if self.items is None else (self.items,)
        return (*listed, *self.scores.values(), *self.features)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the spec written by `LogSpec.to_dict`."""
        values = dict(content)
        values["items"] = None if values["items"] is None else _field(values["items"])
        values["scores"] = {key: _field(item) for key, item in values["scores"].items()}
        values["features"] = tuple(_field(item) for item in values["features"])
        values["categories"] = {key: tuple(labels) for key, labels in values["categories"].items()}
        if values["item_features"] is not None:
            given = values["item_features"]
            labels = {key: tuple(names) for key, names in given["categories"].items()}
            values["item_features"] = ItemFeatures(given["values"], tuple(given["names"]), labels)
        return cls(**values)


def _field(content: Mapping[str, Any]) -> Field:
    return Field(tuple(content["columns"]), content["form"], content["size"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpec:
    """Everything needed to decode any piece of a data set into a RankingLog, also on another
    machine.

    `layout` is "list", "numbered" or "long" (one row a position; then `ranking` and `position` are
    set). `K` and the vocabularies (`action_names`, `categories`) hold for the whole data set, so
    that pieces agree.
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
    #: What could have been shown, and the policies made of its scores.
    candidates: CandidateSpec | None = None
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
        groups += self.candidates.fields if self.candidates is not None else ()
        names = [name for group in groups for name in group.columns]
        single = [self.ranking, self.position, self.unit, self.behavior]
        names += [*(name for name in single if name), *self.context, *self.segments]
        return tuple(dict.fromkeys(names))

    def with_position_weights(self, weights: str | tuple[float, ...]) -> Self:
        """Return the same spec with other position weights."""
        return replace(self, position_weights=weights)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable content."""
        content = asdict(self)
        if self.candidates is not None and self.candidates.item_features is not None:
            content["candidates"]["item_features"]["values"] = (
                self.candidates.item_features.values.tolist()
            )
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the spec written by `to_dict`, also after a trip through JSON."""
        values = dict(content)
        for name in ("fields", "targets", "dists"):
            values[name] = {key: _field(item) for key, item in values[name].items()}
        values["categories"] = {key: tuple(labels) for key, labels in values["categories"].items()}
        for name in ("context", "segments", "guessed", "notes"):
            values[name] = tuple(values[name])
        if values["action_names"] is not None:
            values["action_names"] = tuple(values["action_names"])
        if not isinstance(values["position_weights"], str):
            values["position_weights"] = tuple(values["position_weights"])
        if values["candidates"] is not None:
            values["candidates"] = CandidateSpec.from_dict(values["candidates"])
        return cls(**values)
