"""Which column is what: from options and the first rows to a LogSpec."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count, takewhile

import pyarrow as pa
import pyarrow.compute as pc

from counterrank.common.errors import ConfigError, LogError, MissingColumnError, PropensityError
from counterrank.common.messages import MISSING_PROPENSITY, REWARD_PER_RANKING, TIES_DROPPED, say
from counterrank.common.texts import comma_separated, suggestion
from counterrank.data.events import JoinedEvents, JoinedScores
from counterrank.data.log import LOGGING, MEANING
from counterrank.io import values
from counterrank.io.joined_tables import Events
from counterrank.io.options import FEATURE, ROLES, ReadOptions
from counterrank.io.roles import named
from counterrank.io.target_lists import TargetLists
from counterrank.io.where import Where
from counterrank.policies import ItemFeatures, PolicySpec, spec_in_file

#: The time of a shown item, where rows were positions; keys are " k0", " k1" and so on.
TIME = " t"


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
    #: What became of tables of scores.
    scores: tuple[JoinedScores, ...] = ()
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
    #: A second ranker's lists by target.
    lists: Mapping[str, TargetLists] = field(default_factory=dict)
    kind: str = "factored"
    position_weights: str | tuple[float, ...] = "uniform"
    missing_reward: str = "error"
    renumber: bool = False
    #: Only so many positions are kept.
    depth: int | None = None
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

    def to_read(self, events: Events | None = None, where: Where | None = None) -> tuple[str, ...]:
        """Return the columns of a log that stand in its files, with those of events and of a condition."""
        names = list(self.columns)
        if events is not None:
            names = [name for name in names if name not in events.names]
            names += self.joined_by(events).values()
        return tuple(dict.fromkeys([*names, *(where.columns if where else ())]))

    def joined_by(self, events: Events) -> dict[str, str]:
        """Return the columns of the log that keys and the time mean: a role, or a column."""
        roles = {"ranking": self.ranking, "unit": self.unit, "action": self.fields["action"].name}
        columns = {f" k{i}": roles.get(shown) or shown for i, (shown, _) in enumerate(events.keys)}
        return columns | ({TIME: events.shown} if events.shown else {})

    @property
    def unasked(self) -> frozenset[str]:
        """Columns that are read only because they might be a segment or a target."""
        targets = {name: field.columns for name, field in self.targets.items()}
        columns = (column for name in self.guessed for column in targets.get(name, (name,)))
        return frozenset(columns) - set(replace(self, segments=(), targets={}).columns)


#: Rows looked at to tell text that holds lists from text that holds names.
_SAMPLE = 1000


def resolve(table: pa.Table, options: ReadOptions, *, in_memory: bool) -> LogSpec:
    """Return the spec of data of which `table` is all or the start; K and vocabularies are still open."""
    return _Resolver(table, options, in_memory).spec()


@dataclass(frozen=True)
class _Resolver:
    table: pa.Table
    options: ReadOptions
    in_memory: bool

    def spec(self) -> LogSpec:
        # Columns are looked for in this order because the first that is missing is the one told
        # about, and targets are guessed among what the roles above leave over.
        options = self.options
        action = self.field("action")
        if options.events is not None:
            self.refuse_keys(options.events, action)
        layout = self.layout(action)
        rewards = {name: self.reward(name, column) for name, column in options.rewards.items()}
        reward = next(iter(rewards.values()), None) or self.field("reward")
        fields = {"action": action, "reward": reward}
        propensity, logger = self.logging_policy()
        if propensity is not None:
            fields["propensity"] = propensity
        targets, guessed = self.targets({**fields, **rewards})
        dists = self.distributions(targets)
        context = self.context()
        placed = ("ranking", "position") if layout == "long" else ()
        single = {role: self.single(role) for role in (*placed, "unit", "behavior", "weight")}
        parts = self.candidates(action, layout == "long", logger)
        # Text that only looks like lists of probabilities may still be a segment.
        unsure = {name for name in guessed if targets[name].form == "text"}
        sure = [field for name, field in targets.items() if name not in unsure]
        used = _columns_of(
            *fields.values(), *rewards.values(), *sure, *dists.values(), *parts.fields
        )
        segments = self.segments(used.union(filter(None, single.values())))
        named_segments = options.segments or options.keep
        return LogSpec(
            layout=layout,
            fields=fields,
            targets=targets,
            dists=dists,
            rewards=rewards,
            of_page=tuple(item.name for item in rewards.values() if self.is_of_page(item.name)),
            ranking=single.get("ranking"),
            position=single.get("position"),
            unit=single["unit"],
            weight=single["weight"],
            behavior=single["behavior"],
            behavior_masks=self.behavior_masks(),
            context=context,
            segments=segments,
            candidates=parts,
            lists=self.target_lists(),
            kind=self.kind(),
            position_weights=options.position_weights,
            missing_reward=options.missing_reward,
            renumber=options.renumber,
            depth=options.depth,
            guessed=(*guessed, *(name for name in segments if name not in named_segments)),
            notes=(*self.notes(fields), *((TIES_DROPPED,) if options.drop_ties else ())),
        )

    def distributions(self, targets: Iterable[str]) -> dict[str, Field]:
        """Return the whole distributions of the logger and of targets, where the user wants them."""
        named = (LOGGING, *targets) if self.options.dists else ()
        companions = {name: self.companion(name, "dist") for name in named}
        return {name: field for name, field in companions.items() if field is not None}

    def target_lists(self) -> dict[str, TargetLists]:
        """Return the targets whose lists stand in files."""
        query = str(self.options.column("query"))
        return {name: TargetLists(path, query) for name, path in self.options.target_lists.items()}

    def layout(self, action: Field) -> str:
        """Whether a row is a ranking, its items in lists or numbered columns, or a position."""
        if action.form != "scalar":
            return "list" if action.has_lists else "numbered"
        if self.is_long:
            return "long"
        self.refuse_positions()
        return "numbered"

    def notes(self, fields: Mapping[str, Field]) -> tuple[str, ...]:
        """Say what readers of the results must know about how the columns were taken."""
        # One reward per ranking, not one per position.
        per_page = fields["reward"].form == "scalar" and fields["action"].form != "scalar"
        unknown = "propensity" not in fields and self.options.logger is None
        return (REWARD_PER_RANKING,) * per_page + (MISSING_PROPENSITY,) * unknown

    # Looked up for every column of files that may have thousands.
    @cached_property
    def names(self) -> dict[str, None]:
        return dict.fromkeys(self.table.column_names)

    @cached_property
    def runs(self) -> dict[str, set[str]]:
        """Numbers behind the stems of numbered columns: {"action": {"1", "2"}}."""
        numbers: dict[str, set[str]] = {}
        for name in self.names:
            stem, line, number = name.rpartition("_")
            if line and number.isdecimal():
                numbers.setdefault(stem, set()).add(number)
        return numbers

    def kind(self) -> str:
        """What the numbers are: as the user says, else as the file says of its own `propensity`, else factored."""
        if self.options.propensity_kind is not None:
            return self.options.propensity_kind
        if self.options.logger is not None:
            return "factored" if self.options.logger.kind == "softmax" else "prefix"
        stored = (
            (self.table.schema.metadata or {}).get(KIND_IN_FILE, b"").decode("utf-8", "replace")
        )
        return (
            stored if stored in MEANING and "propensity" not in self.options.columns else "factored"
        )

    def behavior_masks(self) -> dict[str, list[list[int]]]:
        """Return the masks of behaviours that the file stores beside their names; none where it has none."""
        stored = (self.table.schema.metadata or {}).get(MASKS_IN_FILE, b"{}")
        try:
            masks = json.loads(stored)
            return {
                str(name): [[int(v) for v in row] for row in mask] for name, mask in masks.items()
            }
        except (ValueError, TypeError, AttributeError) as problem:
            raise LogError(
                f"the file's metadata '{MASKS_IN_FILE.decode()}' holds no masks by name ({problem}); "
                "write the file again"
            ) from problem

    def field(self, role: str) -> Field:
        """Return where a role or policy is, or say which columns there are."""
        field = self.find(self.options.column(role))
        if field is None:
            raise self.no_role(role) if role in ROLES else self.no_policy(role)
        return field

    def refuse_keys(self, events: Events, action: Field) -> None:
        """Raise where the log lacks a column that events are joined by."""
        names = {*self.names, action.name, "action", "ranking", "unit"}
        for shown, _ in events.keys:
            if shown not in names:
                self.require(shown, "the join with events")
        if events.shown is not None:
            self.require(events.shown, "the time of the impression")
        for name in events.names:
            if name in self.names:
                raise ConfigError(
                    f"the log has a column '{name}' already; give the event another name (--event)"
                )

    def is_of_page(self, column: str) -> bool:
        """Whether a reward is made of events that are joined to rankings, whatever the item."""
        events = self.options.events
        if events is None or column not in events.names:
            return False
        action, position = self.field("action"), self.options.column("position")
        return events.of_page([*action.columns, action.name, "action", str(position)])

    def reward(self, name: str, column: str) -> Field:
        """Return where one of several rewards is, or will be once events are joined."""
        if self.options.events is not None and column in self.options.events.names:
            single = self.is_long or self.is_of_page(column)
            return Field((column,), "scalar" if single else "list")
        shown = self.options.columns.get(column, column)
        field = self.find(shown)
        if field is None:
            purpose = f" for the reward {name}"
            raise self.absent(_shown(shown), purpose, numbered=True, error=MissingColumnError)
        return field

    def absent(
        self,
        name: str,
        purpose: str,
        *,
        numbered: bool = False,
        advice: str = "",
        error: type[LogError] = LogError,
    ) -> LogError:
        """Return the error about a column that is not there, nor those that are numbered like it."""
        return error(
            f"there is no column '{name}'{purpose}{suggestion(name, self.names)}"
            + (f", nor '{name}_1'" if numbered else ""),
            remedy=f"columns are {comma_separated(self.names)}{advice}",
        )

    def no_policy(self, name: str) -> LogError:
        shown = _shown(self.options.column(name))
        if self.find(f"{shown}_scores") is not None:
            return LogError(
                f"policy '{name}' has scores in '{shown}_scores', but no probabilities; say how "
                "it ranks by them, as plackett-luce, softmax, top or another kind: "
                + say(
                    "--policy", f"{name}=plackett-luce", f"policies={{'{name}': 'plackett-luce'}}"
                )
            )
        advice = f". {_map_names({name: 'NAME'})}"
        if self.options.policies:
            advice += f". Policies that rank by scores are {comma_separated(self.options.policies)}"
        role = "baseline" if name == self.options.baseline else "target policy"
        return self.absent(shown, f" for the {role} {name}", numbered=True, advice=advice)

    def no_role(self, role: str) -> LogError:
        """One message names all that is missing, and maps it to columns whose names are usual."""
        shown = _shown(self.options.column(role))
        required = (
            "action",
            "reward",
            *(["propensity"] if self.options.require_propensity else []),
        )
        missing = [
            missing_role
            for missing_role in required
            if missing_role != role and self.find(self.options.column(missing_role)) is None
        ]
        also = f" (nor for {', '.join(missing)})" if missing else ""
        roles = (role, *missing)
        if self.usual("position") and not self.is_long:
            roles = ("ranking", "position", *roles)
        advice = f". {_map_names({lacking: self.usual(lacking) or 'NAME' for lacking in roles})}"
        for name, columns in _SIGNATURES.items():
            if set(columns) <= set(self.names):
                advice += f". These are the columns of another format: say {say('--format', name)}"
        problem = self.absent(shown, f" for the {role}", numbered=True, advice=advice)
        return LogError(f"{problem.said}{also}", remedy=problem.remedy)

    def find(self, name: str | tuple[str, ...]) -> Field | None:
        """Return the field of that name, or those names, if it is there in any form."""
        if isinstance(name, tuple):
            for column in name:
                self.require(column)
            return Field(name, "wide") if len(name) > 1 else self.find(name[0])
        if name in self.names:
            return Field((name,), self.form(name))
        numbered = self.numbered(name)
        return Field(numbered, "wide") if numbered else None

    def form(self, name: str) -> str:
        kind = self.table.schema.field(name).type
        if values.is_list(kind):
            return "list"
        cells = self.table[name].slice(0, _SAMPLE).to_pylist() if values.is_text(kind) else []
        return "text" if any(cell and values.looks_like_list(cell) for cell in cells) else "scalar"

    def numbered(self, stem: str) -> tuple[str, ...]:
        first = 0 if {"0", "1"} <= self.runs.get(stem, set()) else 1
        run = list(takewhile(self.names.__contains__, (f"{stem}_{k}" for k in count(first))))
        if run and len(self.runs[stem]) > len(run):
            last = max(self.runs[stem], key=int)
            raise LogError(
                f"columns go from '{run[-1]}' to '{stem}_{last}': '{stem}_{first + len(run)}' is "
                "missing"
            )
        return tuple(run)

    @cached_property
    def is_long(self) -> bool:
        ranking, position = (self.options.column(role) for role in ("ranking", "position"))
        return ranking in self.names and position in self.names

    def logging_policy(self) -> tuple[Field | None, PolicySpec | None]:
        """Return where the propensities are, or how the logger ranked by its scores."""
        if self.options.logger is not None:
            return None, self.options.logger
        propensity = self.find(self.options.column("propensity"))
        required, rows = self.options.require_propensity, self.table.num_rows
        if propensity is not None and (
            required or any(self.table[name].null_count < rows for name in propensity.columns)
        ):
            return propensity, None
        scored = self.companion(LOGGING, "scores")
        if scored is not None and required:
            raise PropensityError(
                f"there are scores of the logger in '{scored.name}', but no propensities; say how "
                "it ranked by them, as plackett-luce, softmax, top, epsilon:epsilon=0.1 or "
                f"another kind: {say('--logger', 'plackett-luce')}",
                remedy=(
                    f"if nobody knows, {say('--estimate-propensity', 'plackett-luce')} of "
                    "evaluate learns it"
                ),
            )
        if required or "propensity" in self.options.columns:
            shown = _shown(self.options.column("propensity"))
            raise PropensityError(
                f"there is no column '{shown}' with the logging policy's propensities"
                f"{suggestion(shown, self.names)}; columns are {comma_separated(self.names)}. Map it with "
                f"{say('--columns', 'propensity=NAME')}",
                remedy=(
                    "if none were logged, evaluate "
                    f"{say('--estimate-propensity', python='estimate_propensity=True')} "
                    "estimates them"
                ),
            )
        # Scores of a logger that nobody described are kept for those who estimate how it ranked; as
        # a fixed order they give no weight that could be taken for a propensity.
        return None, None if scored is None else PolicySpec("top")

    def targets(self, fields: Mapping[str, Field]) -> tuple[dict[str, Field], list[str]]:
        if self.options.targets is not None:
            return self.with_probabilities(self.options.targets), []
        policies = self.with_probabilities(
            name
            for name in self.options.columns
            if name not in ROLES and not name.endswith(_BESIDE) and not name.startswith(FEATURE)
        )
        # A stream reads the columns of its spec in every pass: a wrong guess would cost each time.
        if not self.in_memory:
            return policies, []
        # What the user gave a role is no guess.
        mapped = {name for name in self.options.columns.values() if isinstance(name, str)}
        used = _columns_of(*fields.values(), *policies.values()) | mapped
        # Where scores say how the logger draws, its logged probabilities are left over, and no target.
        guesses = {
            stem: field
            for stem, field in self.guesses()
            if stem != LOGGING and not used & set(field.columns)
        }
        return policies | guesses, list(guesses)

    def with_probabilities(self, names: Iterable[str]) -> dict[str, Field]:
        """Return where the named policies' probabilities are; those that rank by scores have none."""
        return {name: self.field(name) for name in names if name not in self.options.policies}

    def guesses(self) -> Iterator[tuple[str, Field]]:
        """Fields that may be target policies: lists or numbered columns of fractions."""
        context = set(self.context())
        for name in self.names:
            # What belongs to candidates or stands beside a policy's own column is none.
            companion = name.endswith(_BESIDE) or name == "candidates" or name.startswith(FEATURE)
            if name not in context and not companion and self.may_be_policy(name):
                yield name, Field((name,), self.form(name))
        for stem in sorted(stem for stem, numbers in self.runs.items() if "1" in numbers):
            columns = self.fractions(stem)
            if columns and not context & set(columns):
                yield stem, Field(columns, "wide")

    def fractions(self, stem: str) -> tuple[str, ...]:
        """Return a policy's numbered columns if all hold fractions, else none."""
        # "x" numbers context; a column of the bare name is the policy, and the run beside it is not.
        if stem in ("x", "") or stem.endswith(_BESIDE) or stem in self.names:
            return ()
        columns = self.numbered(stem)
        kinds = [self.table.schema.field(name).type for name in columns]
        return columns if all(map(pa.types.is_floating, kinds)) else ()

    def may_be_policy(self, name: str) -> bool:
        kind, form = self.table.schema.field(name).type, self.form(name)
        if form == "text":
            return not self.is_long
        if form == "list":
            return bool(pa.types.is_floating(kind.value_type))
        return self.is_long and bool(pa.types.is_floating(kind))

    def candidates(self, action: Field, long: bool, logger: PolicySpec | None) -> CandidateSpec:
        """Return where candidates, scores and features of candidates are, if this log has any."""
        options = self.options
        policies = self.scored_policies(logger)
        scored = [name for name, policy in policies.items() if policy.needs_scores]
        teams = () if logger is None else logger.teams
        scores = {name: self.scores(name) for name in dict.fromkeys([*scored, *teams])}
        items = self.list_field(options.column("candidates"))
        if long:
            # A row for each candidate, shown or not, whose position is missing where it was not.
            unshown = self.table[self.single("position") or ""].null_count
            items = Field(action.columns, "scalar") if scores or unshown else None
        features = () if items is None else self.features(long)
        return CandidateSpec(
            items=items,
            scores=scores,
            policies={name: policy.text for name, policy in policies.items()},
            features=features,
            categories={field.name: () for field in features if self.holds_names(field)},
            item_file=options.items,
        )

    def scored_policies(self, logger: PolicySpec | None) -> dict[str, PolicySpec]:
        """Return how scores become policies, by name; the logger is `LOGGING`."""
        logger = None if logger is None else spec_in_file(logger)
        if logger is not None and not (logger.needs_scores or logger.teams):
            raise ConfigError(
                "the logger's scores stand in the log: give its kind, such as plackett-luce, or "
                "the file of `counterrank plan --out`, and no other file"
            )
        named = self.options.policies
        names = named if self.options.targets is None else self.options.targets
        first = {} if logger is None else {LOGGING: logger}
        return first | {name: spec_in_file(named[name]) for name in names if name in named}

    def features(self, long: bool) -> tuple[Field, ...]:
        """Return the columns z_... with one entry per candidate."""
        columns = self.options.columns
        mapped = {role: columns[role] for role in columns if role.startswith(FEATURE)}
        unmapped = {name: name for name in self.names if name.startswith(FEATURE)}
        fields = []
        for title, column in {**unmapped, **mapped}.items():
            field = self.find(column) if long else self.list_field(column)
            fits = field is not None and (field.form == "scalar" if long else field.has_lists)
            if field is not None and fits:
                fields.append(replace(field, title=title))
            elif title in mapped and _shown(column) not in self.names:
                raise self.absent(_shown(column), f" for '{title}'")
            elif title in mapped:
                requirement = (
                    "one value per row" if long else "a list with an entry for each candidate"
                )
                raise LogError(
                    f"column '{_shown(column)}' for '{title}' is no feature of candidates: it must "
                    f"hold {requirement}"
                )
        return tuple(fields)

    def list_field(self, name: str | tuple[str, ...]) -> Field | None:
        """Return a field of lists; text without brackets, "a b c", is one where only lists can stand."""
        field = self.find(name)
        scalar = field is not None and field.form == "scalar"
        if field and scalar and values.is_text(self.table.schema.field(field.name).type):
            return Field(field.columns, "text")
        return field

    def companion(self, policy: str, ending: str) -> Field | None:
        """Return what stands beside the column of a policy, its scores or distributions, if it is there."""
        key, stem = f"{policy}_{ending}", self.options.column(policy)
        for column in (self.options.columns.get(key), f"{stem}_{ending}", key):
            field = None if column is None else self.find(column)
            if field is not None:
                return field
        return None

    def scores(self, name: str) -> Field:
        field = self.companion(name, "scores")
        if field is not None:
            return field
        key, owner = f"{name}_scores", "the logger" if name == LOGGING else f"policy {name}"
        advice = f". Map it with {say('--columns', f'{key}=NAME')}"
        raise self.absent(key, f" with the scores of {owner}", advice=advice)

    def holds_names(self, field: Field) -> bool:
        """Whether a feature of candidates is a category rather than a number."""
        array = values.one_chunk(self.table[field.name].slice(0, _SAMPLE))
        if field.form == "text":
            words = values.parse_lists(array, field.name, 0).flatten()
            return not values.all_numbers(words)
        return values.is_text(array.type.value_type if field.form == "list" else array.type)

    def context(self) -> tuple[str, ...]:
        if self.options.context is None:
            schema = self.table.schema
            return tuple(
                n
                for n in self.names
                if n.startswith("x_") and not values.is_list(schema.field(n).type)
            )
        return self.required(self.options.context, "context")

    def segments(self, used: set[str]) -> tuple[str, ...]:
        if self.options.segments is not None:
            return self.required(self.options.segments, "segment")
        required = self.required(self.options.keep, "segment")
        guessed: list[str] = []
        if self.in_memory:
            guessed = [
                f.name for f in self.table.schema if f.name not in used and values.is_scalar(f.type)
            ]
        return tuple(dict.fromkeys([*guessed[:_MOST_CARRIED], *required]))

    def single(self, role: str) -> str | None:
        name = self.options.column(role)
        if isinstance(name, tuple):
            raise LogError(f"'{role}' is one column, but {len(name)} are given: {', '.join(name)}")
        mapped = role in self.options.columns
        if mapped:
            self.require(name, role)
        # A column of that name may be anything, the weight of a product for one.
        if name not in self.names or (role == "weight" and not mapped):
            return None
        kind = self.table.schema.field(name).type
        if role != "behavior" and not values.is_scalar(kind):
            raise LogError(
                f"column '{name}' holds {kind}, which cannot be a {role}",
                remedy="a text or a number is wanted, one value per row",
            )
        return name

    def required(self, names: tuple[str, ...], role: str) -> tuple[str, ...]:
        """Return columns that the user named and that have one value per ranking."""
        for name in names:
            self.require(name, role)
            kind = self.table.schema.field(name).type
            if not values.is_scalar(kind):
                raise LogError(
                    f"column '{name}' holds {kind}",
                    remedy=f"a {role} column needs one value per ranking",
                )
        return names

    def require(self, name: str, role: str = "") -> None:
        if name not in self.names:
            purpose = f" for {role}" if role else ""
            raise self.absent(name, purpose, error=MissingColumnError)

    def usual(self, role: str) -> str | None:
        """Return the column that has one of the names people give to a role, unless it is spoken for."""
        column = self.options.columns.get(role)
        if isinstance(column, str) and column in self.table.column_names:
            return column
        return next(iter(named(self.unspoken, role)), None)

    @cached_property
    def unspoken(self) -> list[str]:
        """Columns that no option names."""
        options = self.options
        # A column the user gave a part has that part, however telling its name is: a "rank" that is
        # context must not be taken for the position.
        spoken = {
            *(options.context or ()),
            *(options.segments or ()),
            *options.keep,
            *options.columns.values(),
        }
        return [name for name in self.table.column_names if name not in spoken]

    def refuse_positions(self) -> None:
        """Raise when rows look like positions: read as rankings of one item, they would give a wrong answer."""
        position, ranking = self.usual("position"), self.usual("ranking")
        if position is not None and _counts_up(self.table[position]):
            raise self.unmarked(f"'{position}' counts them", say("--context", position))
        if ranking is not None and _repeats(self.table[ranking]):
            raise self.unmarked(f"'{ranking}' repeats from row to row", say("--unit", ranking))
        counted = self.counted()
        if counted is not None:
            ranking, position = counted
            raise self.unmarked(
                f"'{position}' counts them within each '{ranking}'",
                say("--unit", ranking),
                ranking=ranking,
                position=position,
            )

    def counted(self) -> tuple[str, str] | None:
        """Return a column whose every value has rows numbered from 0 or 1 on, and the column of those numbers.

        Positions, whatever they are called.
        """
        start = self.table.slice(0, _SEEN)
        roles = {self.options.column(role) for role in ("action", "reward", "propensity")}
        free = [name for name in self.unspoken if name not in roles]
        plain = [name for name in free if not pa.types.is_nested(start[name].type)]
        for position in plain:
            if not _counts_up(start[position]) or start[position].null_count:
                continue
            for ranking in plain:
                if ranking != position and _numbers_within(start[ranking], start[position]):
                    return ranking, position
        return None

    def unmarked(self, evidence: str, answer: str, **stated: str) -> LogError:
        """The way out for rows that are positions, and `answer` for rows that only look like it."""
        by_role = {role: stated.get(role) or self.usual(role) or "NAME" for role in _LONG_ROLES}
        columns = ",".join(f"{role}={name}" for role, name in by_role.items() if role != name)
        return LogError(
            f"each row seems to be one position of a ranking ({evidence}), not a ranking. Say "
            f"{say('--columns', columns)} to have them put together",
            remedy=f"if each row is a ranking of its own, say {answer}",
        )


#: Endings of columns that belong to a policy.
_BESIDE = ("_dist", "_scores")
#: Scalar columns that nobody named are carried along as possible segments, up to this many.
_MOST_CARRIED = 100
#: Where files written by `counterrank simulate` say what their propensities are.
KIND_IN_FILE = b"counterrank.propensity_kind"
MASKS_IN_FILE = b"counterrank.behavior_masks"

_SIGNATURES = {
    "open-bandit": ("item_id", "position", "click", "propensity_score"),
    "kuairand": ("user_id", "video_id", "is_rand", "is_click"),
}


def _columns_of(*fields: Field) -> set[str]:
    return {name for field in fields for name in field.columns}


def _shown(column: str | tuple[str, ...]) -> str:
    return column if isinstance(column, str) else ", ".join(column)


def _map_names(mapping: Mapping[str, str]) -> str:
    pairs = ",".join(f"{role}={column}" for role, column in mapping.items())
    python = ", ".join(f"'{role}': '{column}'" for role, column in mapping.items())
    return f"Map names with {say('--columns', pairs, f'columns={{{python}}}')}"


_LONG_ROLES = ("ranking", "position", "action", "reward", "propensity")
#: Rows in which positions are looked for by content; rankings stand together, or the log is small.
_SEEN = 1000


def _counts_up(column: pa.ChunkedArray) -> bool:
    """Whether a column holds small whole numbers from 0 or 1 upwards, more than one of them."""
    if not pa.types.is_integer(column.type):
        return False
    numbers = pc.unique(column).drop_null().to_pylist()
    return 1 < len(numbers) <= 1000 and min(numbers) in (0, 1) and max(numbers) <= 1000


def _numbers_within(groups: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Whether the rows of each group are numbered without a gap, all from 0 or all from 1.

    Groups have at least two rows on average; the last one may be cut.
    """
    rows = pa.table({"group": values.plain(values.one_chunk(groups)), "number": numbers})
    kinds = ("min", "max", "count", "count_distinct")
    summary = rows.group_by("group").aggregate([("number", kind) for kind in kinds])
    low, high, count, distinct = (summary[f"number_{kind}"].to_numpy() for kind in kinds)
    gapless = (low == low.min()) & (high - low + 1 == count) & (distinct == count)
    return bool(gapless.all()) and 2 <= len(low) <= rows.num_rows / 2


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether at least a fifth of the rows have the value of the row above."""
    array = values.plain(values.one_chunk(column))
    if len(array) < 2 or pa.types.is_nested(array.type):
        return False
    repeated = pc.sum(pc.equal(array.slice(1), array.slice(0, len(array) - 1))).as_py() or 0
    return bool(repeated * 5 >= len(array))
