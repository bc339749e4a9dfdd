"""The one table of options: names, meaning, kind of value, default, and which command takes which.

Options of the command line, keys of job files (`counterrank run JOB.toml` and `--config`), defaults of
the Python functions and the page `docs/reference/command-line.md` come from it.

To add an option:

1. Add a field to `Request`, or to `Reading` if it says how a log is read: its name is the keyword in
   Python and the key in a job file, `option(...)` says what it means; `flag` is its name on the command
   line where that differs, `kind` which values it takes. What only other commands take stands in `_FURTHER`.
2. Name it in `COMMANDS`: under `shown` (in `--help`), `more` (in `--help-all`) or `keys` (job file and
   Python only, or `--config KEY=VALUE`). How a log is read is a key of every command already.
3. `evaluate` finds it in its request, the function of another command gets it as a keyword. What the
   command itself handles, such as files to write, stands in `WRITING` or `_LOCAL` and is found in
   `Call.values` (`cli/calls.py`). An option of the reader is a field of `ReadOptions` (`io/options.py`) as
   well.
4. `python docs/reference.py` writes the page; a test compares them.

A table in a job file whose keys have names of their own is a line of `NESTED`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, Final, Self, TypedDict

from counterrank.common.errors import ConfigError
from counterrank.common.texts import suggestion

#: Defaults of the Python functions, too.
LEVEL: Final = 0.95
SEED: Final = 0
SHARE: Final = 0.01


class Kind(Enum):
    """What values an option takes; the text says so in messages and on the reference pages."""

    TEXT = "a text"
    NUMBER = "a number"
    WHOLE = "a whole number"
    SWITCH = "true or false"
    #: On the command line separated by commas.
    LIST = "a text or a list"
    #: On the command line the option is repeated.
    MANY = "a text or a list of texts"
    #: A file to read, or one of the words of its option.
    FILE = "a path"
    OUTPUT = "a path to write"
    #: On the command line repeated; in a job file a path, or a table or tables with `path`.
    TABLES = "a path, or tables with `path`"
    #: On the command line separated by commas, ROLE=NAME.
    COLUMNS = "a table of roles and columns"
    #: On the command line the option is repeated; a table has `code`, `where` and `reason`.
    ANSWERS = "a text, a table with `code`, or a list of these"
    #: On the command line repeated, NAME=TEXT.
    PAIRS = "a table of names and texts"
    #: The same; a text is a column or a metric.
    METRICS = "a table of names and columns or metrics"
    POLICY = "a kind of policy, or a table with `kind`"
    POLICIES = "a table of names and kinds of policies"
    CONDITION = "a condition, or a table of columns and values"


class Group(Enum):
    """Where the help lists an option."""

    WHAT = "What"
    LOG = "Log"
    BESIDE = "Events and scores in tables of their own"
    OUTPUT = "Output"


#: Tables beside the log: every command that reads a log takes them on its line; `evaluate` lists them.
BESIDE: Final = "events join event within event_time unique scores scores_join".split()

#: What becomes of the result: the command handles it, and some others.
WRITING: Final = "json html markdown out require quiet verbose all reward_name ranking_name".split()
_LOCAL: Final = (
    "target_lists position_curve config query connection join event within event_time unique "
    "scores_join".split()
)


@dataclass
class Option:
    """One option of one or more commands."""

    name: str
    help: str
    kind: Kind = Kind.TEXT
    #: Its name on the command line, where that differs.
    flag: str = ""
    default: Any = None
    metavar: str = ""
    #: The words that it may be; for a path, words that are no path.
    words: tuple[str, ...] = ()
    #: The smallest whole number that it may be.
    least: int = 0
    #: Its value where it is given without one.
    bare: Any = None

    @property
    def group(self) -> Group:
        """Where the help lists it."""
        if self.name in WRITING:
            return Group.OUTPUT
        if self.name in BESIDE:
            return Group.BESIDE
        return Group.LOG if self.name in (*READING, "config") else Group.WHAT

    @property
    def local(self) -> bool:
        """Whether the command handles it: the Python function has no such keyword."""
        return self.name in WRITING or self.name in _LOCAL

    @property
    def spelled(self) -> str:
        """The option on the command line, with its dashes."""
        return "--" + (self.flag or self.name).replace("_", "-")

    @property
    def keys(self) -> tuple[str, ...]:
        """What a job file may call it."""
        return tuple(dict.fromkeys((self.name, self.flag or self.name)))


def option(help: str, kind: Kind = Kind.TEXT, *, default: Any = None, **attributes: Any) -> Any:
    """Return a field of a request that is an option of commands and a key of job files."""
    entry = Option("", help, kind, default=default, **attributes)
    return field(default=default, metadata={"option": entry})


_MANY, _LIST, _FILE, _SWITCH = Kind.MANY, Kind.LIST, Kind.FILE, Kind.SWITCH


Names = str | Iterable[str] | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a log is read: keys of every command, and keywords of every function with a log.

    `counterrank.io.ReadOptions` brings them into one form.
    """

    engine: Any = option(
        "Where the sums over files are computed.", default="local", words=("local", "dask", "spark")
    )
    columns: Mapping[str, Any] | str | None = option(
        "Names of columns, e.g. action=items,reward=clicks; adds to [columns] of --config.",
        Kind.COLUMNS,
        metavar="ROLE=NAME,...",
    )
    context: Names = option(
        "Context columns (default: names starting with x_).", _LIST, metavar="NAME,..."
    )
    propensity_kind: str | None = option(
        "Meaning of propensities: of each item (factored, the default); given the items above "
        "(prefix); of this item at this position (position); of the whole ranking (joint).",
        words=("factored", "prefix", "position", "joint"),
    )
    unit: str | None = option(
        "Column of users or sessions; their rows are not independent.", metavar="NAME"
    )
    weight: str | None = option(
        "Column with one over the probability that the row was kept, for thinned logs.",
        metavar="COLUMN",
    )
    logger: Any = option(
        "How the logger ranked by the scores in `propensity_scores`: plackett-luce, softmax "
        "(temperature), top, epsilon (epsilon), rand-top-n (n), swap (probability) or a "
        "policy file.",
        Kind.POLICY,
        metavar="KIND[:OPTION=VALUE,...]",
    )
    policies: Any = option(
        "How policy NAME ranks by the scores in NAME_scores (kinds as for a logger: "
        "plackett-luce, top, ...), or a policy file; repeatable.",
        Kind.POLICIES,
        flag="policy",
        metavar="NAME=KIND[:...]",
    )
    items: str | os.PathLike[str] | None = option(
        "Features of items: a file with a column `item` (or `item_id`) and one column per feature.",
        _FILE,
        metavar="FILE",
    )
    where: Any = option(
        "Condition on rows, e.g. \"day >= '2026-10-01' and country in ('DE', 'AT')\".",
        Kind.CONDITION,
        metavar="CONDITION",
    )
    events: Any = option(
        "Table of events, for rewards: a file, folder or pattern.", _FILE, metavar="FILE"
    )
    scores: Any = option(
        "Table of rankers' scores, one row per request and item, one column per target; repeatable.",
        Kind.TABLES,
        metavar="FILE",
    )
    missing_reward: str | None = option(
        "Treat a missing reward as an error (the default) or as zero.", words=("error", "zero")
    )
    format: str | None = option(
        "parquet, arrow, csv or jsonl (default: detected), or ubi, ga4, metarank, "
        "open-bandit, kuairand.",
        metavar="NAME",
    )
    version: int | None = option(
        "Version of a Delta table (default: the newest).", Kind.WHOLE, metavar="N"
    )
    behavior: str | None = option(
        "Column with the name of the known behaviour model of each row.", metavar="NAME"
    )
    dists: bool = option("Read whole distributions (NAME_dist).", _SWITCH, default=True)
    decimal: str | None = option("Decimal sign of numbers in text.", default=".", words=(".", ","))
    renumber: bool = option(
        "Close gaps in positions (slots of ads, filtered items).", _SWITCH, default=False
    )
    depth: int | None = option(
        "Evaluate only the first N positions.", Kind.WHOLE, least=1, metavar="N"
    )
    drop_ties: bool = option(
        "Leave out rows in which the logger's order depends on equal scores.",
        _SWITCH,
        default=False,
    )
    encode_actions: bool | None = option(
        "Renumber the items (default: only if ids are huge).", _SWITCH
    )
    #: Columns that are carried along.
    keep: Names = None
    require_propensity: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Request(Reading):
    """What `evaluate` is asked for: every option of an evaluation is a field, and stands nowhere else."""

    targets: Any = option(
        "Target policy: a column with its probabilities of the shown items, or a --policy "
        "(default: every --policy); repeatable.",
        _MANY,
        flag="target",
        metavar="COLUMN",
    )
    target_lists: Mapping[str, str | os.PathLike[str]] | None = option(
        "Target that shows fixed lists: a file with the columns query, rank and document.",
        _MANY,
        metavar="[NAME=]FILE",
    )
    estimators: Any = option(
        "Estimators (default: a recommended set); `counterrank estimators` lists them.",
        _LIST,
        metavar="NAME,...|all",
    )
    rewards: Any = option(
        "Metric: a column, any(COLUMN), mrr(COLUMN), first(COLUMN), ndcg(COLUMN), "
        "count(COLUMN) or A / B; repeatable.",
        Kind.METRICS,
        flag="reward",
        metavar="NAME=COLUMN",
    )
    primary: str | None = option("The metric that decides (default: the first).", metavar="NAME")
    guardrails: Any = option(
        "Limit for the relative lift of a metric, also 'NAME by COLUMN >= -0.02' (in every "
        "group) or 'NAME where COLUMN = VALUE >= -0.02'; repeatable.",
        _MANY,
        flag="guardrail",
        metavar="'NAME >= -0.01'",
        default=(),
    )
    baseline: str | None = option(
        "The policy that lifts are relative to (default: logger, the policy that served the log).",
        metavar="NAME|logger",
    )
    segments: Sequence[str] | str = option(
        "Report lifts by the values of a column; repeatable.",
        _MANY,
        flag="segment",
        metavar="COLUMN",
        default=(),
    )
    position_weights: Any = option(
        "Weight of each position (default: uniform).", _LIST, metavar="uniform|dcg|W1,W2,.."
    )
    level: float = option("Confidence level of the intervals.", Kind.NUMBER, default=LEVEL)
    seed: int = option("Seed of all random numbers.", Kind.WHOLE, default=SEED)
    practical: float | None = option(
        "Smallest relative lift that matters, e.g. 0.01.", Kind.NUMBER, metavar="SHARE"
    )
    behavior_candidates: Any = option(
        "Behaviour models that the tree of aips may choose from: a set, or a JSON file "
        "(default: generated).",
        _FILE,
        metavar="FILE|paper|published|real-world|generated",
        words=("paper", "published", "real-world", "generated"),
    )
    behavior_mse: Any = option(
        "What that tree minimises (default: models).", metavar="models|pairs|pasif|slope"
    )
    estimate_propensity: bool | str | None = option(
        "Estimate missing propensities: plackett-luce, logistic or by-list:COLUMNS (default: "
        "what fits the log).",
        metavar="[METHOD]",
        bare="auto",
    )
    independent_rows: bool = option(
        "Declare that no visitor has two rows, so that no unit column is needed.",
        _SWITCH,
        default=False,
    )
    target_is_fresh: bool = option(
        "Declare that no target was trained on these rows.", _SWITCH, default=False
    )
    target_trained_until: Any = option(
        "Declare when the training of the targets ended: only later rows, by --time, are used.",
        metavar="DATE",
    )
    time: str | None = option("Column of days or timestamps.", metavar="COLUMN")
    sequential: bool | int | None = option(
        "Intervals that are valid at every look at a growing log; shortest at about ROWS "
        "rankings (10000).",
        Kind.WHOLE,
        metavar="[ROWS]",
        least=1,
        bare=10_000,
    )
    accept: Any = option(
        "Answer to a question of the audit, as the question gives it; repeatable.",
        Kind.ANSWERS,
        metavar="'CODE [where CONDITION]'",
        default=(),
    )
    audit: bool | None = option("false: run only the checks that the verdict uses.", _SWITCH)
    weights_out: str | os.PathLike[str] | None = option(
        "Write the weights of every ranking as Parquet.", Kind.OUTPUT, metavar="FILE"
    )
    #: The command line, which the result records.
    command: str | None = None

    @classmethod
    def from_keywords(cls, **values: Any) -> Self:
        """Return a request, or raise for what is no option, with the nearest one."""
        refuse_unknown(values, [entry.name for entry in fields(cls)])
        return cls(**values)

    def reading(self) -> dict[str, Any]:
        """Return what the reader is told: what differs from its defaults."""
        values = {
            entry.name: (getattr(self, entry.name), entry.default) for entry in fields(Reading)
        }
        values["target_lists"] = self.target_lists, None
        return {name: entry for name, (entry, default) in values.items() if entry is not default}


class ReadingOptions(TypedDict, total=False):
    """Keywords of `Reading`, for type checkers, which do not read the fields of a class."""

    columns: Mapping[str, Any] | str | None
    context: Names
    propensity_kind: str | None
    unit: str | None
    weight: str | None
    logger: Any
    policies: Any
    items: str | os.PathLike[str] | None
    where: Any
    events: Any
    scores: Any
    missing_reward: str | None
    version: int | None
    behavior: str | None
    dists: bool
    decimal: str | None
    renumber: bool
    depth: int | None
    drop_ties: bool
    encode_actions: bool | None
    keep: Names
    require_propensity: bool | None
    target_lists: Mapping[str, str | os.PathLike[str]] | None


class LogOptions(ReadingOptions, total=False):
    """What `read_log` takes by `**options`."""

    targets: Names
    segments: Names
    rewards: Any
    position_weights: Any


class FurtherOptions(ReadingOptions, total=False):
    """What `evaluate` takes by `**further`."""

    engine: Any
    format: str | None
    practical: float | None
    behavior_candidates: Any
    behavior_mse: Any
    estimate_propensity: bool | str | None
    target_trained_until: Any
    time: str | None
    sequential: bool | int | None
    accept: Any
    command: str | None


def refuse_unknown(keywords: Iterable[str], names: Sequence[str]) -> None:
    """Raise for a keyword that is no option, with the nearest one."""
    for name in keywords:
        if name not in names:
            raise ConfigError(
                f"there is no option '{name}'{suggestion(name, names)}; options are {', '.join(names)}"
            )


#: What commands take beside the fields of a request.
_FURTHER = (
    Option("arm", "Column that says which arm served a row.", metavar="COLUMN"),
    Option(
        "position_curve",
        "How often users look at each position, for pbm and click-model: numbers in a file, "
        "or estimated.",
        _FILE,
        metavar="FILE|estimate",
        words=("estimate",),
    ),
    Option(
        "detect",
        "The relative lift to detect: 0.01 is 1 %.",
        Kind.NUMBER,
        default=SHARE,
        metavar="SHARE",
    ),
    Option(
        "budget",
        "The relative loss of the metric that exploration may cost.",
        Kind.NUMBER,
        default=SHARE,
        metavar="SHARE",
    ),
    Option("rows_per_week", "Rankings served in a week.", Kind.NUMBER, metavar="N"),
    Option(
        "model",
        "linear: a click model, linear in features and context. boosting: LightGBM on top "
        "(extra `boosting`).",
        default="linear",
        words=("linear", "boosting"),
    ),
    Option(
        "grade",
        "free: no assumption about users, valid for any number of rows. assumed: a t bound.",
        default="free",
        words=("free", "assumed"),
    ),
    Option(
        "reward_range",
        "Smallest and largest reward of a position, if it is not 0/1.",
        _LIST,
        metavar="LOW,HIGH",
    ),
    Option(
        "despite_audit", "Continue although the audit of the log failed.", _SWITCH, default=False
    ),
    Option(
        "config",
        "Job file with options, or one of its keys; repeatable. Options on the command line "
        "take precedence.",
        _MANY,
        metavar="FILE|KEY=VALUE",
    ),
    Option("query", "SQL query whose rows are the log, instead of LOG.", metavar="SQL"),
    Option(
        "connection",
        "Where --query runs: duckdb:FILE, sqlite:FILE, postgresql://HOST/DATABASE or env:NAME.",
        metavar="KIND:PLACE",
    ),
    Option(
        "join",
        "Columns that link events to rankings (shown=event if names differ); without the "
        "item, rewards are of the whole page.",
        _LIST,
        metavar="KEY[,KEY]",
    ),
    Option(
        "event",
        "A reward: an SQL aggregate over the events of one shown item; repeatable.",
        Kind.PAIRS,
        metavar="NAME=AGGREGATE",
    ),
    Option(
        "within",
        "Count only events up to this long after the impression (--time), e.g. '30 minutes'.",
        metavar="DURATION",
    ),
    Option("event_time", "Column with the time of an event.", metavar="COLUMN"),
    Option(
        "unique",
        "Columns that are the key of one event: copies are removed before anything is counted "
        "(default: exact copies of events with a time).",
        _LIST,
        metavar="NAME,...",
    ),
    Option(
        "scores_join",
        "Columns that link scores to candidates (log_name=scores_name if names differ; default: the "
        "request and the item, by their names).",
        _LIST,
        metavar="KEY[,KEY]",
    ),
    Option("json", "Write the result as JSON; - is stdout.", Kind.OUTPUT, metavar="FILE"),
    Option("html", "Write the report as one HTML file; - is stdout.", Kind.OUTPUT, metavar="FILE"),
    Option(
        "markdown",
        "Write the answer as Markdown, for a comment on a change; - is stdout.",
        Kind.OUTPUT,
        metavar="FILE",
    ),
    Option("out", "File for the result.", Kind.OUTPUT, metavar="FILE"),
    Option(
        "require",
        "Exit with 1 unless the decision is to ship, or the evidence is at least this good.",
        words=("ship", "reliable", "directional", "insufficient"),
    ),
    Option("quiet", "Print nothing but errors.", _SWITCH, default=False),
    Option("verbose", "Also print warnings, flags and skipped estimators.", _SWITCH, default=False),
    Option("all", "Also list checks that passed or were skipped.", _SWITCH, default=False),
    Option("reward_name", "Name of a reward in the report, e.g. clicks.", metavar="WORD"),
    Option("ranking_name", "Name of a ranking in the report, e.g. page.", metavar="WORD"),
)

#: Every option by name: the fields of a request, and what commands take beside them.
OPTIONS: Final[dict[str, Option]] = {
    entry.name: replace(entry.metadata["option"], name=entry.name)
    for entry in fields(Request)
    if "option" in entry.metadata
} | {option.name: option for option in _FURTHER}

#: The same by the name on the command line.
BY_FLAG: Final = {option.spelled: option for option in OPTIONS.values()}

#: How a log is read: keys of every command with a log.
READING: Final = (
    *(entry.name for entry in fields(Reading) if entry.name in OPTIONS),
    *"query connection join event within event_time unique scores_join".split(),
)

#: Tables of a job file whose keys have names of their own: table, key, and the option it stands for.
NESTED: Final[dict[str, dict[str, str]]] = {
    "events": {
        "path": "events",
        "join": "join",
        "within": "within",
        "time": "event_time",
        "rewards": "event",
        "unique": "unique",
    },
}


@dataclass
class Command:
    """Which options a command takes, and where they are listed."""

    #: On the command line, in --help; at most 15, and tables beside the log.
    shown: str
    #: On the command line, in --help-all.
    further: str = ""
    #: In job files and Python alone.
    keys: str = ""
    #: Without these it cannot start.
    required: tuple[str, ...] = ()
    #: What an option means here, where the table's words do not fit, and its default.
    words: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        #: The options of its command line; those of job files and Python alone, which had a place there
        #: and are read there until the next version; and all of them.
        self.on_line = [*self.shown.split(), *self.further.split()]
        keys = (*self.keys.split(), *READING)
        self.moved = list(dict.fromkeys(name for name in keys if name not in self.on_line))
        self.options = [*self.on_line, *self.moved]


COMMANDS: Final = {
    "evaluate": Command(
        "targets estimators rewards guardrails baseline segments level "
        "columns logger policies where config events join event within event_time unique scores scores_join "
        "json html require",
        "position_weights primary independent_rows target_is_fresh target_trained_until time accept "
        "position_curve behavior_candidates behavior_mse estimate_propensity seed markdown "
        "context propensity_kind unit weight items missing_reward format query connection engine quiet verbose",
        "sequential practical target_lists audit weights_out reward_name ranking_name",
    ),
    "check": Command(
        "targets segments time accept columns context unit propensity_kind logger policies where "
        "config json all",
        "format scores",
        "quiet rewards",
        words={
            "targets": "Target policy to check too; repeatable.",
            "segments": "Also check the mean weight in the groups of this column; repeatable.",
        },
    ),
    "validate": Command(
        "arm estimators rewards columns unit policies scores config json html markdown",
        keys="level primary seed quiet",
        required=("arm",),
        words={"estimators": "The estimator to check."},
        defaults={"estimators": "auto"},
    ),
    "abtest": Command(
        "arm rewards guardrails baseline segments sequential time columns policies scores config json html "
        "require",
        "markdown",
        keys="level unit primary practical seed quiet",
        required=("arm",),
        words={
            "arm": "Column that says which arm served a row; COLUMN:a=60,b=40 adds the planned shares.",
            "baseline": "The arm that others are compared with (default: the first by name).",
            "practical": "Smallest relative lift of the primary metric that matters.",
            "sequential": "Intervals that are valid at every look at a growing test; shortest at about "
            "ROWS rankings (10000).",
            "time": "Column of days or timestamps, from which the days that are left are counted.",
            "require": "Exit with 1 unless the decision is to ship an arm.",
        },
        defaults={"practical": SHARE},
    ),
    "curve": Command(
        "out columns logger config",
        keys="seed",
        required=("out",),
        words={"out": "JSON file for the curve; - is stdout."},
    ),
    "plan": Command(
        "detect budget rows_per_week columns logger policies scores config out json html quiet",
        "markdown",
        keys="items level seed",
        words={
            "out": "JSON file for the chosen policy, for serving and for --logger of the new log."
        },
    ),
    "learn": Command(
        "model grade rewards guardrails segments independent_rows columns logger unit where config "
        "out json html",
        "primary level items seed quiet markdown",
        "reward_range despite_audit",
        required=("out",),
        words={
            "out": "JSON file for the certified policy.",
            "level": "Confidence of the certificate.",
            "segments": "Also report lifts by the values of this column; repeatable.",
            "independent_rows": "Declare that no visitor has two rows; certificates need this or --unit.",
        },
    ),
}
