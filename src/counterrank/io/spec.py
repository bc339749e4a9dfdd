"""How the data of a log lie, once that was found out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from counterrank.data.events import JoinedEvents
from counterrank.policies import ItemFeatures


@dataclass(frozen=True, slots=True)
class Field:
    """Where the numbers of one role or policy are.

    `form` is "list" (one column of lists), "text" (lists written as text), "wide" (a column a
    position) or "scalar" (one number per row). `size` is the number of actions of a whole
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
        """Every field with one entry per candidate."""
        listed = () if self.items is None else (self.items,)
        return (*listed, *self.scores.values(), *self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpec:
    """Everything needed to decode any piece of a data set into a RankingLog, also on another machine.

    `layout` is "list", "numbered" or "long" (one row per position: `ranking` and `position` are set;
    such rows become lists before they are decoded, which keep the id of their ranking).
    `K` and the vocabularies (`action_names`, `categories`) hold for the whole data set, so
    that pieces agree.
    """

    layout: str
    fields: Mapping[str, Field]
    targets: Mapping[str, Field] = field(default_factory=dict)
    dists: Mapping[str, Field] = field(default_factory=dict)
    #: Every reward by name, where there are several; `of_page` are columns with one number per ranking.
    rewards: Mapping[str, Field] = field(default_factory=dict)
    of_page: tuple[str, ...] = ()
    #: What became of the events that the rewards were made of.
    events: JoinedEvents | None = None
    K: int = 0
    ranking: str | None = None
    position: str | None = None
    unit: str | None = None
    weight: str | None = None
    behavior: str | None = None
    #: Masks behind names of behaviour that the file itself stores.
    behavior_masks: Mapping[str, list[list[int]]] = field(default_factory=dict)
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
        single = [self.ranking, self.position, self.unit, self.behavior, self.weight]
        names += [*(name for name in single if name), *self.context, *self.segments]
        return tuple(dict.fromkeys(names))

    @property
    def unasked(self) -> frozenset[str]:
        """Columns that are read only because they might be a segment or a target."""
        targets = {name: field.columns for name, field in self.targets.items()}
        found = (column for name in self.guessed for column in targets.get(name, (name,)))
        return frozenset(found) - set(replace(self, segments=(), targets={}).columns)
