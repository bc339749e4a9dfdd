"""Which column is what: from options and the first rows to a LogSpec."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice, takewhile
from typing import Any

import pyarrow as pa

from counterrank.common.errors import ConfigError, LogError, MissingColumnError, PropensityError
from counterrank.common.messages import MISSING_PROPENSITY, REWARD_PER_RANKING, TIES_DROPPED, say
from counterrank.common.texts import comma_separated, suggestion
from counterrank.data.events import JoinedEvents, JoinedScores
from counterrank.data.log import LOGGING, MEANING
from counterrank.io import values
from counterrank.io.joined_tables import Events
from counterrank.io.options import FEATURE, ROLES, ReadOptions
from counterrank.io.roles import named, unmarked_positions
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
    def shown(self) -> tuple[Field, ...]:
        """The fields that hold items: what was shown and, where they are listed, the candidates."""
        listed = self.candidates.items
        return (self.fields["action"], *([] if listed is None else [listed]))

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
            # Items in numbered columns have no column of their own.
            items = self.fields["action"].name
            names += [name for name in self.joined_by(events).values() if name != items]
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


class _Resolver:
    """The columns of a table, and which of them is what."""

    def __init__(self, table: pa.Table, options: ReadOptions, in_memory: bool) -> None:
        self.table, self.options, self.in_memory = table, options, in_memory
        # Looked up for every column of files that may have thousands.
        self.kinds = dict(zip(table.column_names, table.schema.types, strict=True))
        #: Numbers behind the stems of numbered columns: {"action": {"1", "2"}}.
        self.runs: dict[str, set[str]] = {}
        for name in self.kinds:
            stem, line, number = name.rpartition("_")
            if line and number.isdecimal():
                self.runs.setdefault(stem, set()).add(number)
        self.is_long = {options.column("ranking"), options.column("position")} <= self.kinds.keys()

    def spec(self) -> LogSpec:
        # Columns are looked for in this order because the first that is missing is the one told
        # about, and targets are guessed among what the roles above leave over.
        options, metadata = self.options, self.table.schema.metadata or {}
        action = self.field("action")
        layout = "list" if action.has_lists else "numbered"
        if action.form == "scalar":
            layout = self.layout_of_single_items()
        of_page = options.events is not None and self.is_of_page(options.events, action)
        rewards = {
            name: self.reward(name, column, of_page=of_page)
            for name, column in options.rewards.items()
        }
        fields = {
            "action": action,
            "reward": next(iter(rewards.values()), None) or self.field("reward"),
        }
        propensity, logger = self.logging_policy()
        if propensity is not None:
            fields["propensity"] = propensity
        context = self.context()
        policies, guesses = self.targets(fields, rewards, context)
        targets = {**policies, **guesses}
        query = str(options.column("query"))
        roles = ("unit", "behavior", "weight", *(_PLACES if layout == "long" else ()))
        single: dict[str, Any] = {role: self.single(role) for role in roles}
        spec = LogSpec(
            layout=layout,
            fields=fields,
            targets=targets,
            dists=self.distributions(targets),
            rewards=rewards,
            of_page=options.events.names if options.events is not None and of_page else (),
            **single,
            behavior_masks=_stored_masks(metadata) if MASKS_IN_FILE in metadata else {},
            context=context,
            candidates=self.candidates(action, layout == "long", logger),
            lists={name: TargetLists(path, query) for name, path in options.target_lists.items()},
            kind=self.kind(metadata),
            position_weights=options.position_weights,
            missing_reward=options.missing_reward,
            renumber=options.renumber,
            depth=options.depth,
            notes=self.notes(fields),
        )
        # Text that only looks like lists of probabilities may still be a segment.
        unsure = [name for name, field in guesses.items() if field.form == "text"]
        segments, unasked = self.segments({*spec.columns} - {*context, *unsure})
        return replace(spec, segments=segments, guessed=(*guesses, *unasked))

    def notes(self, fields: Mapping[str, Field]) -> tuple[str, ...]:
        """Say what readers of the results must know about how the columns were taken."""
        per_ranking = fields["reward"].form == "scalar" != fields["action"].form
        unknown = LOGGING not in fields and self.options.logger is None
        notes = {
            REWARD_PER_RANKING: per_ranking,
            MISSING_PROPENSITY: unknown,
            TIES_DROPPED: self.options.drop_ties,
        }
        return tuple(note for note, is_true in notes.items() if is_true)

    def field(self, role: str) -> Field:
        """Return where a role or policy is, or say which columns there are."""
        field = self.find(self.options.column(role))
        if field is None:
            raise self.no_role(role) if role in ROLES else self.no_policy(role)
        return field

    def find(self, name: str | tuple[str, ...]) -> Field | None:
        """Return the field of that name, or those names, if it is there in any form."""
        if isinstance(name, tuple):
            for column in name:
                self.require(column)
            return Field(name, "wide") if len(name) > 1 else self.find(name[0])
        if name in self.kinds:
            return Field((name,), self.form(name))
        numbered = self.numbered(name) if name in self.runs else ()
        return Field(numbered, "wide") if numbered else None

    def form(self, name: str) -> str:
        if values.is_list(self.kinds[name]):
            return "list"
        is_text = values.is_text(self.kinds[name])
        cells = self.table[name].slice(0, _SAMPLE).to_pylist() if is_text else []
        return "text" if any(cell and values.looks_like_list(cell) for cell in cells) else "scalar"

    def numbered(self, stem: str) -> tuple[str, ...]:
        first = 0 if {"0", "1"} <= self.runs[stem] else 1
        run = list(takewhile(self.kinds.__contains__, (f"{stem}_{k}" for k in count(first))))
        if run and len(self.runs[stem]) > len(run):
            last = max(self.runs[stem], key=int)
            raise LogError(
                f"columns go from '{run[-1]}' to '{stem}_{last}': '{stem}_{first + len(run)}' is "
                "missing"
            )
        return tuple(run)

    def layout_of_single_items(self) -> str:
        """Whether rows with one item are positions of rankings, or rankings of one item."""
        if self.is_long:
            return "long"
        options = self.options
        roles = {options.column(role) for role in ("action", "reward", "propensity")}
        free = [name for name in self.unspoken() if name not in roles]
        unmarked = unmarked_positions(
            self.table, self.usual("ranking"), self.usual("position"), free
        )
        if unmarked is None:
            return "numbered"
        evidence, answer, places = unmarked
        columns = {role: places.get(role) or self.usual(role) or "NAME" for role in _LONG_ROLES}
        pairs = ",".join(f"{role}={name}" for role, name in columns.items() if role != name)
        raise LogError(
            f"each row seems to be one position of a ranking ({evidence}), not a ranking. Say "
            f"{say('--columns', pairs)} to have them put together",
            remedy=f"if each row is a ranking of its own, say {answer}",
        )

    def is_of_page(self, events: Events, action: Field) -> bool:
        """Whether events are joined to rankings, whatever the item; the log has all that joins them."""
        items = {*action.columns, action.name, "action", str(self.options.column("position"))}
        for shown, _ in events.keys:
            if shown not in {*items, "ranking", "unit"}:
                self.require(shown, "the join with events")
        if events.shown is not None:
            self.require(events.shown, "the time of the impression")
        for name in events.names:
            if name in self.kinds:
                raise ConfigError(
                    f"the log has a column '{name}' already; give the event another name (--event)"
                )
        return not {shown for shown, _ in events.keys} & items

    def reward(self, name: str, column: str, *, of_page: bool) -> Field:
        """Return where one of several rewards is, or will be once events are joined."""
        if self.options.events is not None and column in self.options.events.names:
            return Field((column,), "scalar" if self.is_long or of_page else "list")
        shown = self.options.columns.get(column, column)
        field = self.find(shown)
        if field is None:
            raise self.absent(shown, f" for the reward {name}", numbered=True)
        return field

    def absent(
        self, name: str | tuple[str, ...], purpose: str, *, numbered: bool = False, advice: str = ""
    ) -> MissingColumnError:
        """Return the error about a column that is not there, nor those that are numbered like it."""
        shown = _shown(name)
        nor = f", nor '{shown}_1'" if numbered else ""
        return MissingColumnError(
            f"there is no column '{shown}'{purpose}{suggestion(shown, self.kinds)}{nor}",
            remedy=f"columns are {comma_separated(self.kinds)}{advice}",
        )

    def no_policy(self, name: str) -> LogError:
        shown = _shown(self.options.column(name))
        if self.find(f"{shown}_scores") is not None:
            kinds = say(
                "--policy", f"{name}=plackett-luce", f"policies={{'{name}': 'plackett-luce'}}"
            )
            return LogError(
                f"policy '{name}' has scores in '{shown}_scores', but no probabilities; say how "
                f"it ranks by them, as plackett-luce, softmax, top or another kind: {kinds}"
            )
        advice = f". {_map_names({name: 'NAME'})}"
        if self.options.policies:
            advice += f". Policies that rank by scores are {comma_separated(self.options.policies)}"
        role = "baseline" if name == self.options.baseline else "target policy"
        return self.absent(shown, f" for the {role} {name}", numbered=True, advice=advice)

    def no_role(self, role: str) -> LogError:
        """One message names all that is missing, and maps it to columns whose names are usual."""
        required = ["action", "reward", *["propensity"] * self.options.require_propensity]
        missing = [
            name
            for name in required
            if name != role and self.find(self.options.column(name)) is None
        ]
        places = _PLACES if self.usual("position") and not self.is_long else ()
        usual = {lacking: self.usual(lacking) or "NAME" for lacking in (*places, role, *missing)}
        advice = f". {_map_names(usual)}"
        for name, columns in _SIGNATURES.items():
            if self.kinds.keys() >= columns:
                advice += f". These are the columns of another format: say {say('--format', name)}"
        shown = self.options.column(role)
        problem = self.absent(shown, f" for the {role}", numbered=True, advice=advice)
        also = f" (nor for {', '.join(missing)})" if missing else ""
        return LogError(f"{problem.said}{also}", remedy=problem.remedy)

    def usual(self, role: str) -> str | None:
        """Return the column that has one of the names people give to a role, unless it is spoken for."""
        column = self.options.columns.get(role)
        if isinstance(column, str) and column in self.kinds:
            return column
        return next(iter(named(self.unspoken(), role)), None)

    def unspoken(self) -> list[str]:
        """Return the columns that no option names.

        One the user gave a part has that part, however telling its name is: a "rank" that is context
        must not be taken for the position.
        """
        options = self.options
        spoken = {
            *(options.context or ()),
            *(options.segments or ()),
            *options.keep,
            *options.columns.values(),
        }
        return [name for name in self.kinds if name not in spoken]

    def logging_policy(self) -> tuple[Field | None, PolicySpec | None]:
        """Return where the propensities are, or how the logger ranked by its scores."""
        options, required = self.options, self.options.require_propensity
        if options.logger is not None:
            return None, options.logger
        column, rows = options.column(LOGGING), self.table.num_rows
        propensity = self.find(column)
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
        if required or LOGGING in options.columns:
            problem = self.absent(column, " with the logging policy's propensities")
            raise PropensityError(
                f"{problem.said}; {problem.remedy}. Map it with {say('--columns', 'propensity=NAME')}",
                remedy=(
                    "if none were logged, evaluate "
                    f"{say('--estimate-propensity', python='estimate_propensity=True')} "
                    "estimates them"
                ),
            )
        # Scores of a logger that nobody described are kept for those who estimate how it ranked; as
        # a fixed order they give no weight that could be taken for a propensity.
        return None, None if scored is None else PolicySpec("top")

    def kind(self, metadata: Mapping[bytes, bytes]) -> str:
        """What the numbers are: as the user says, else as the file says of its own `propensity`, else factored."""
        options = self.options
        if options.propensity_kind is not None:
            return options.propensity_kind
        if options.logger is not None:
            return "factored" if options.logger.kind == "softmax" else "prefix"
        stored = metadata.get(KIND_IN_FILE, b"").decode("utf-8", "replace")
        return stored if stored in MEANING and LOGGING not in options.columns else "factored"

    def targets(
        self, fields: Mapping[str, Field], rewards: Mapping[str, Field], context: tuple[str, ...]
    ) -> tuple[dict[str, Field], dict[str, Field]]:
        """Return where the probabilities of targets are, and of what may be one though nobody said so."""
        options = self.options
        names = options.targets
        if names is None:
            names = tuple(n for n in options.columns if n not in ROLES and not _is_beside(n))
        policies = {name: self.field(name) for name in names if name not in options.policies}
        # A stream reads the columns of its spec in every pass: a wrong guess would cost each time.
        if options.targets is not None or not self.in_memory:
            return policies, {}
        # What the user gave a role is no guess; and where scores say how the logger draws, its logged
        # probabilities are left over, and no target.
        groups = (*fields.values(), *rewards.values(), *policies.values())
        used = {*context, *options.columns.values(), *(n for item in groups for n in item.columns)}
        guesses = {
            name: field
            for name, field in self.guesses()
            if name != LOGGING and not used & {*field.columns}
        }
        return policies, guesses

    def guesses(self) -> Iterator[tuple[str, Field]]:
        """Yield what may be target policies: lists, numbered columns, and in long rows columns of fractions."""
        for name, kind in self.kinds.items():
            # What belongs to candidates or stands beside a policy's own column is none.
            if name == "candidates" or _is_beside(name):
                continue
            form = self.form(name)
            entries = kind.value_type if form == "list" else kind
            fractions = pa.types.is_floating(entries) and (self.is_long or form == "list")
            if fractions or (form == "text" and not self.is_long):
                yield name, Field((name,), form)
        for stem in sorted(stem for stem, numbers in self.runs.items() if "1" in numbers):
            # "x" numbers context; a column of the bare name is the policy, and the run beside it is not.
            if stem not in ("x", "") and stem not in self.kinds and not stem.endswith(_BESIDE):
                columns = self.numbered(stem)
                if columns and all(pa.types.is_floating(self.kinds[name]) for name in columns):
                    yield stem, Field(columns, "wide")

    def distributions(self, targets: Iterable[str]) -> dict[str, Field]:
        """Return the whole distributions of the logger and of targets, where the user wants them."""
        named = (LOGGING, *targets) if self.options.dists else ()
        companions = ((name, self.companion(name, "dist")) for name in named)
        return {name: field for name, field in companions if field is not None}

    def companion(self, policy: str, ending: str) -> Field | None:
        """Return what stands beside the column of a policy, its scores or distributions, if it is there."""
        key, stem = f"{policy}_{ending}", self.options.column(policy)
        columns = (self.options.columns.get(key), f"{stem}_{ending}", key)
        fields = (self.find(column) for column in columns if column is not None)
        return next((field for field in fields if field is not None), None)

    def candidates(self, action: Field, long: bool, logger: PolicySpec | None) -> CandidateSpec:
        """Return where candidates, scores and features of candidates are, if this log has any."""
        options = self.options
        policies = self.scored_policies(logger) if logger or options.policies else {}
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
        named, names = self.options.policies, self.options.targets
        first: dict[str, PolicySpec] = {}
        if logger is not None:
            first = {LOGGING: spec_in_file(logger)}
            if not (first[LOGGING].needs_scores or first[LOGGING].teams):
                raise ConfigError(
                    "the logger's scores stand in the log: give its kind, such as plackett-luce, or "
                    "the file of `counterrank plan --out`, and no other file"
                )
        names = tuple(named) if names is None else names
        return first | {name: spec_in_file(named[name]) for name in names if name in named}

    def features(self, long: bool) -> tuple[Field, ...]:
        """Return the columns z_... with one entry per candidate."""
        columns = self.options.columns
        mapped = {role: columns[role] for role in columns if role.startswith(FEATURE)}
        unmapped = {name: name for name in self.kinds if name.startswith(FEATURE)}
        fields = []
        for title, column in {**unmapped, **mapped}.items():
            field = self.find(column) if long else self.list_field(column)
            if field is not None and (field.form == "scalar" if long else field.has_lists):
                fields.append(replace(field, title=title))
            elif title in mapped and _shown(column) not in self.kinds:
                raise self.absent(column, f" for '{title}'")
            elif title in mapped:
                entry = "one value per row" if long else "a list with an entry for each candidate"
                raise LogError(
                    f"column '{_shown(column)}' for '{title}' is no feature of candidates: it must "
                    f"hold {entry}"
                )
        return tuple(fields)

    def list_field(self, name: str | tuple[str, ...]) -> Field | None:
        """Return a field of lists; text without brackets, "a b c", is one where only lists can stand."""
        field = self.find(name)
        if field and field.form == "scalar" and values.is_text(self.kinds[field.name]):
            return Field(field.columns, "text")
        return field

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
            return not values.all_numbers(values.parse_lists(array, field.name, 0).flatten())
        return values.is_text(array.type.value_type if field.form == "list" else array.type)

    def context(self) -> tuple[str, ...]:
        if self.options.context is not None:
            return self.required(self.options.context, "context")
        kinds = self.kinds.items()
        return tuple(n for n, kind in kinds if n.startswith("x_") and not values.is_list(kind))

    def segments(self, used: set[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the columns to split by or to carry along, and those among them that nobody named."""
        options = self.options
        if options.segments is not None or not self.in_memory:
            names = options.keep if options.segments is None else options.segments
            return self.required(names, "segment"), ()
        free = (n for n, kind in self.kinds.items() if n not in used and values.is_scalar(kind))
        carried = tuple(islice(free, _MOST_CARRIED))
        named = self.required(options.keep, "segment")
        unnamed = tuple(name for name in carried if name not in named)
        return tuple(dict.fromkeys([*carried, *named])), unnamed

    def single(self, role: str) -> str | None:
        name = self.options.column(role)
        if isinstance(name, tuple):
            raise LogError(f"'{role}' is one column, but {len(name)} are given: {', '.join(name)}")
        mapped = role in self.options.columns
        if mapped:
            self.require(name, role)
        # A column of that name may be anything, the weight of a product for one.
        if name not in self.kinds or (role == "weight" and not mapped):
            return None
        if role != "behavior" and not values.is_scalar(self.kinds[name]):
            raise LogError(
                f"column '{name}' holds {self.kinds[name]}, which cannot be a {role}",
                remedy="a text or a number is wanted, one value per row",
            )
        return name

    def required(self, names: tuple[str, ...], role: str) -> tuple[str, ...]:
        """Return columns that the user named and that have one value per ranking."""
        for name in names:
            self.require(name, role)
            if not values.is_scalar(self.kinds[name]):
                raise LogError(
                    f"column '{name}' holds {self.kinds[name]}",
                    remedy=f"a {role} column needs one value per ranking",
                )
        return names

    def require(self, name: str, role: str = "") -> None:
        if name not in self.kinds:
            raise self.absent(name, f" for {role}" if role else "")


#: Endings of columns that belong to a policy.
_BESIDE = ("_dist", "_scores")
#: Scalar columns that nobody named are carried along as possible segments, up to this many.
_MOST_CARRIED = 100
#: Where files written by `counterrank simulate` say what their propensities are.
KIND_IN_FILE = b"counterrank.propensity_kind"
MASKS_IN_FILE = b"counterrank.behavior_masks"

_SIGNATURES = {
    "open-bandit": {"item_id", "position", "click", "propensity_score"},
    "kuairand": {"user_id", "video_id", "is_rand", "is_click"},
}
_PLACES = ("ranking", "position")
_LONG_ROLES = (*_PLACES, "action", "reward", "propensity")


def _is_beside(name: str) -> bool:
    """Whether a column belongs to a policy or to candidates."""
    return name.endswith(_BESIDE) or name.startswith(FEATURE)


def _stored_masks(metadata: Mapping[bytes, bytes]) -> dict[str, list[list[int]]]:
    """Return the masks of behaviours that the file stores beside their names."""
    try:
        masks = json.loads(metadata[MASKS_IN_FILE])
        return {str(name): [[int(v) for v in row] for row in mask] for name, mask in masks.items()}
    except (ValueError, TypeError, AttributeError) as problem:
        raise LogError(
            f"the file's metadata '{MASKS_IN_FILE.decode()}' holds no masks by name ({problem}); "
            "write the file again"
        ) from problem


def _shown(column: str | tuple[str, ...]) -> str:
    return column if isinstance(column, str) else ", ".join(column)


def _map_names(mapping: Mapping[str, str]) -> str:
    pairs = ",".join(f"{role}={column}" for role, column in mapping.items())
    python = ", ".join(f"'{role}': '{column}'" for role, column in mapping.items())
    return f"Map names with {say('--columns', pairs, f'columns={{{python}}}')}"
