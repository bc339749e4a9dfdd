"""The one table of options: names, meaning, kind of value, default, and which command takes which.

Options of the command line, keys of job files (`counterrank run JOB.toml` and `--config`), defaults of
the Python functions and the page `docs/reference/command-line.md` come from it.

To add an option:

1. Add an `Option` to `OPTIONS`. Its name is the keyword in Python and the key in a job file; `flag` is
   its name on the command line where that differs. `kind` says which values it takes.
2. Name it in `COMMANDS`: under `shown` (in `--help`), `more` (in `--help-all`) or `keys` (job file and
   Python only, or `--config KEY=VALUE`). How a log is read (`READING`) is a key of every command
   already.
3. The function of the command gets it as a keyword under its name. What the command itself handles,
   such as files to write, stands in `WRITING` or `_LOCAL` and is found in `Call.values` (`cli/calls.py`). An option of
   the reader is a field of `ReadOptions` (`io/options.py`) as well.
4. `python docs/reference.py` writes the page; a test compares them.

A table in a job file whose keys have names of their own is a line of `NESTED`.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

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
    OUTPUT = "Output"


#: How a log is read: keys of every command with a log.
READING: Final = (
    "columns context propensity_kind unit weight logger policies items where missing_reward format version "
    "behavior dists decimal renumber drop_ties encode_actions engine query connection "
    "events join event within event_time unique scores scores_join"
).split()

#: Tables beside the log: every command that reads a log takes them on its line, listed or not.
BESIDE: Final = "events join event within event_time unique scores scores_join".split()

#: What becomes of the result: the command handles it, and some others.
WRITING: Final = "json html out require quiet verbose all reward_name ranking_name".split()
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

    def __post_init__(self) -> None:
        written, read = self.name in WRITING, self.name in (*READING, "config")
        #: Where the help lists it.
        self.group = Group.OUTPUT if written else Group.LOG if read else Group.WHAT
        #: Whether the command handles it: the Python function has no such keyword.
        self.local = written or self.name in _LOCAL
        word = self.flag or self.name
        #: The option on the command line, with its dashes, and what a job file may call it.
        self.spelled = "--" + word.replace("_", "-")
        self.keys = tuple(dict.fromkeys((self.name, word)))


_MANY, _LIST, _FILE, _SWITCH = Kind.MANY, Kind.LIST, Kind.FILE, Kind.SWITCH

_TABLE = (
    Option(
        "targets",
        "Target policy: a column with its probabilities of the shown items, or a --policy "
        "(default: every --policy); repeatable.",
        _MANY,
        flag="target",
        metavar="COLUMN",
    ),
    Option(
        "target_lists",
        "Target that shows fixed lists: a file with the columns query, rank and document.",
        _MANY,
        metavar="[NAME=]FILE",
    ),
    Option(
        "arm",
        "Column that says which arm served a row.",
        metavar="COLUMN",
    ),
    Option(
        "estimators",
        "Estimators (default: a recommended set); `counterrank estimators` lists them.",
        _LIST,
        metavar="NAME,...|all",
    ),
    Option(
        "rewards",
        "Metric: a column, any(COLUMN), mrr(COLUMN), first(COLUMN), ndcg(COLUMN), "
        "count(COLUMN) or A / B; repeatable.",
        Kind.METRICS,
        flag="reward",
        metavar="NAME=COLUMN",
    ),
    Option("primary", "The metric that decides (default: the first).", metavar="NAME"),
    Option(
        "guardrails",
        "Limit for the relative lift of a metric, also 'NAME by COLUMN >= -0.02' (in every "
        "group) or 'NAME where COLUMN = VALUE >= -0.02'; repeatable.",
        _MANY,
        flag="guardrail",
        metavar="'NAME >= -0.01'",
    ),
    Option(
        "baseline",
        "The policy that lifts are relative to (default: logger, the policy that served the log).",
        metavar="NAME|logger",
    ),
    Option(
        "segments",
        "Report lifts by the values of a column; repeatable.",
        _MANY,
        flag="segment",
        metavar="COLUMN",
    ),
    Option(
        "position_weights",
        "Weight of each position (default: uniform).",
        _LIST,
        metavar="uniform|dcg|W1,W2,..",
    ),
    Option("level", "Confidence level of the intervals.", Kind.NUMBER, default=LEVEL),
    Option("seed", "Seed of all random numbers.", Kind.WHOLE, default=SEED),
    Option(
        "practical",
        "Smallest relative lift that matters, e.g. 0.01.",
        Kind.NUMBER,
        metavar="SHARE",
    ),
    Option(
        "position_curve",
        "How often users look at each position, for pbm and click-model: numbers in a file, "
        "or estimated.",
        _FILE,
        metavar="FILE|estimate",
        words=("estimate",),
    ),
    Option(
        "behavior_candidates",
        "Behaviour models that the tree of aips may choose from: a set, or a JSON file "
        "(default: generated).",
        _FILE,
        metavar="FILE|paper|published|real-world|generated",
        words=("paper", "published", "real-world", "generated"),
    ),
    Option(
        "behavior_mse", "What that tree minimises (default: pairs).", metavar="pairs|pasif|slope"
    ),
    Option(
        "estimate_propensity",
        "Estimate missing propensities: plackett-luce, logistic or by-list:COLUMNS (default: "
        "what fits the log).",
        metavar="[METHOD]",
        bare="auto",
    ),
    Option(
        "independent_rows",
        "Declare that no visitor has two rows, so that no unit column is needed.",
        _SWITCH,
        default=False,
    ),
    Option(
        "target_is_fresh",
        "Declare that no target was trained on these rows.",
        _SWITCH,
        default=False,
    ),
    Option(
        "target_trained_until",
        "Declare when the training of the targets ended: only later rows, by --time, are used.",
        metavar="DATE",
    ),
    Option("time", "Column of days or timestamps.", metavar="COLUMN"),
    Option(
        "sequential",
        "Intervals that are valid at every look at a growing log; shortest at about ROWS "
        "rankings (10000).",
        Kind.WHOLE,
        metavar="[ROWS]",
        least=1,
        bare=10_000,
    ),
    Option(
        "accept",
        "Answer to a question of the audit, as the question gives it; repeatable.",
        Kind.ANSWERS,
        metavar="'CODE [where CONDITION]'",
    ),
    Option(
        "audit",
        "false: run only the checks that the verdict uses.",
        _SWITCH,
    ),
    Option(
        "engine",
        "Where the sums over files are computed.",
        default="local",
        words=("local", "dask", "spark"),
    ),
    Option(
        "weights_out",
        "Write the weights of every ranking as Parquet.",
        Kind.OUTPUT,
        metavar="FILE",
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
        "despite_audit",
        "Continue although the audit of the log failed.",
        _SWITCH,
        default=False,
    ),
    # How a log is read.
    Option(
        "columns",
        "Names of columns, e.g. action=items,reward=clicks; adds to [columns] of --config.",
        Kind.COLUMNS,
        metavar="ROLE=NAME,...",
    ),
    Option(
        "config",
        "Job file with options, or one of its keys; repeatable. Options on the command line "
        "take precedence.",
        _MANY,
        metavar="FILE|KEY=VALUE",
    ),
    Option(
        "query",
        "SQL query whose rows are the log, instead of LOG.",
        metavar="SQL",
    ),
    Option(
        "connection",
        "Where --query runs: duckdb:FILE, sqlite:FILE, postgresql://HOST/DATABASE or env:NAME.",
        metavar="KIND:PLACE",
    ),
    Option(
        "context",
        "Context columns (default: names starting with x_).",
        _LIST,
        metavar="NAME,...",
    ),
    Option(
        "propensity_kind",
        "Meaning of propensities: of each item (factored, the default); given the items above "
        "(prefix); of this item at this position (position); of the whole ranking (joint).",
        words=("factored", "prefix", "position", "joint"),
    ),
    Option(
        "unit",
        "Column of users or sessions; their rows are not independent.",
        metavar="NAME",
    ),
    Option(
        "weight",
        "Column with one over the probability that the row was kept, for thinned logs.",
        metavar="COLUMN",
    ),
    Option(
        "logger",
        "How the logger ranked by the scores in `propensity_scores`: plackett-luce, softmax "
        "(temperature), top, epsilon (epsilon), rand-top-n (n), swap (probability) or a "
        "policy file.",
        Kind.POLICY,
        metavar="KIND[:OPTION=VALUE,...]",
    ),
    Option(
        "policies",
        "How policy NAME ranks by the scores in NAME_scores (kinds as for a logger: "
        "plackett-luce, top, ...), or a policy file; repeatable.",
        Kind.POLICIES,
        flag="policy",
        metavar="NAME=KIND[:...]",
    ),
    Option(
        "items",
        "Features of items: a file with a column `item` (or `item_id`) and one column per feature.",
        _FILE,
        metavar="FILE",
    ),
    Option(
        "where",
        "Condition on rows, e.g. \"day >= '2026-10-01' and country in ('DE', 'AT')\".",
        Kind.CONDITION,
        metavar="CONDITION",
    ),
    Option(
        "events",
        "Table of events, for rewards: a file, folder or pattern.",
        _FILE,
        metavar="FILE",
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
    Option(
        "event_time",
        "Column with the time of an event.",
        metavar="COLUMN",
    ),
    Option(
        "unique",
        "Columns that are the key of one event: copies are removed before anything is counted "
        "(default: nothing is removed).",
        _LIST,
        metavar="NAME,...",
    ),
    Option(
        "scores",
        "Table of rankers' scores, one row per request and item, one column per target; repeatable.",
        Kind.TABLES,
        metavar="FILE",
    ),
    Option(
        "scores_join",
        "Columns that link scores to candidates (log_name=scores_name if names differ; default: the "
        "request and the item, by their names).",
        _LIST,
        metavar="KEY[,KEY]",
    ),
    Option(
        "missing_reward",
        "Treat a missing reward as an error (the default) or as zero.",
        words=("error", "zero"),
    ),
    Option(
        "format",
        "parquet, arrow, csv or jsonl (default: detected), or ubi, ga4, metarank, "
        "open-bandit, kuairand.",
        metavar="NAME",
    ),
    Option(
        "version",
        "Version of a Delta table (default: the newest).",
        Kind.WHOLE,
        metavar="N",
    ),
    Option(
        "behavior",
        "Column with the name of the known behaviour model of each row.",
        metavar="NAME",
    ),
    Option(
        "dists",
        "Read whole distributions (NAME_dist).",
        _SWITCH,
        default=True,
    ),
    Option("decimal", "Decimal sign of numbers in text.", default=".", words=(".", ",")),
    Option(
        "renumber",
        "Close gaps in positions (slots of ads, filtered items).",
        _SWITCH,
        default=False,
    ),
    Option(
        "drop_ties",
        "Leave out rows in which the logger's order depends on equal scores.",
        _SWITCH,
        default=False,
    ),
    Option(
        "encode_actions",
        "Renumber the items (default: only if ids are huge).",
        _SWITCH,
    ),
    # What becomes of the result.
    Option(
        "json",
        "Write the result as JSON; - is stdout.",
        Kind.OUTPUT,
        metavar="FILE",
    ),
    Option(
        "html",
        "Write the report as one HTML file; - is stdout.",
        Kind.OUTPUT,
        metavar="FILE",
    ),
    Option(
        "out",
        "File for the result.",
        Kind.OUTPUT,
        metavar="FILE",
    ),
    Option(
        "require",
        "Exit with 1 unless the decision is to ship, or the evidence is at least this good.",
        words=("ship", "reliable", "directional", "insufficient"),
    ),
    Option(
        "quiet",
        "Print nothing but errors.",
        _SWITCH,
        default=False,
    ),
    Option(
        "verbose",
        "Also print warnings, flags and skipped estimators.",
        _SWITCH,
        default=False,
    ),
    Option(
        "all",
        "Also list checks that passed or were skipped.",
        _SWITCH,
        default=False,
    ),
    Option(
        "reward_name",
        "Name of a reward in the report, e.g. clicks.",
        metavar="WORD",
    ),
    Option(
        "ranking_name",
        "Name of a ranking in the report, e.g. page.",
        metavar="WORD",
    ),
)

OPTIONS: Final = {one.name: one for one in _TABLE}

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

    #: On the command line, in --help; at most 15.
    shown: str
    #: On the command line, in --help-all.
    more: str = ""
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
        self.on_line = [*self.shown.split(), *self.more.split()]
        keys = (*self.keys.split(), *READING)
        self.moved = list(dict.fromkeys(name for name in keys if name not in self.on_line))
        self.options = [*self.on_line, *self.moved]


COMMANDS: Final = {
    "evaluate": Command(
        "targets estimators rewards guardrails baseline segments level "
        "columns logger policies where config json html require",
        "position_weights primary independent_rows target_is_fresh target_trained_until time accept "
        "position_curve behavior_candidates behavior_mse estimate_propensity seed "
        "context propensity_kind unit weight items missing_reward format query connection engine quiet verbose "
        "events join event within event_time scores scores_join",
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
        "arm estimators rewards level columns unit policies scores config json html quiet",
        keys="primary seed",
        required=("arm",),
        words={"estimators": "The estimator to check."},
        defaults={"estimators": "auto"},
    ),
    "abtest": Command(
        "arm baseline level sequential columns unit policies scores config json html quiet",
        keys="seed",
        required=("arm",),
        words={
            "arm": "Column that says which arm served a row; COLUMN:a=60,b=40 adds the planned shares.",
            "baseline": "The arm that others are compared with (default: the first by name).",
            "sequential": "Intervals that are valid at every look at a growing test; shortest at about "
            "ROWS rankings (10000).",
        },
    ),
    "curve": Command(
        "out columns logger config",
        keys="seed",
        required=("out",),
        words={"out": "JSON file for the curve; - is stdout."},
    ),
    "plan": Command(
        "detect budget rows_per_week columns logger policies items scores config out json html quiet",
        keys="level seed",
        words={
            "out": "JSON file for the chosen policy, for serving and for --logger of the new log."
        },
    ),
    "learn": Command(
        "model grade rewards guardrails segments independent_rows columns logger unit where config "
        "out json html",
        "primary level items seed quiet scores",
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
