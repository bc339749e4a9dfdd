"""What commands share: options that say how to read a log, progress, and where results go."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from counterrank.progress import reporting_to

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

Function = TypeVar("Function", bound=Callable[..., Any])
#: What click makes of a command line or a job file, and what a function is called with.
Options = dict[str, Any]


def log_argument(function: Function) -> Function:
    """Add to a command the log it reads: a path or an address, or a query and its database."""

    @click.argument("log", type=click.Path(), required=False)
    @click.option(
        "--query", metavar="SQL", help="Instead of LOG: the query whose rows are the log."
    )
    @click.option(
        "--connection",
        metavar="KIND:PLACE",
        help="Where --query is asked: duckdb:FILE, sqlite:FILE, postgresql://HOST/DATABASE or "
        "env:NAME.",
    )
    @wraps(function)
    def command(log: str | None, query: str | None, connection: str | None, **rest: Any) -> Any:
        return function(_log_of(log, query, connection), **rest)

    # Which click has made of the function, with its parameters.
    return command  # type: ignore[return-value]


def _log_of(log: str | None, query: str | None, connection: str | None) -> Any:
    if log is not None and query is None and connection is None:
        return log
    if log is None and query is not None and connection is not None:
        from counterrank.io import Query

        return Query(query, connection)
    raise click.UsageError("Give a LOG, or --query and --connection, and not both.")


seed_option = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of everything random.",
)
json_option = click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False),
    help="Write the result as JSON; - is stdout.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Print nothing but errors.")


html_option = click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False),
    help="Write the report as one HTML file; - is stdout.",
)


def level_option(of: str) -> Callable[[Function], Function]:
    """Return the option of a confidence level."""
    return click.option("--level", default=0.95, show_default=True, help=f"Confidence {of}.")


def sequential_option(of: str) -> Callable[[Function], Function]:
    """Return the option of intervals that hold at every look at a growing log or test."""
    return click.option(
        "--sequential",
        is_flag=False,
        flag_value=10_000,
        type=click.IntRange(min=1),
        metavar="[ROWS]",
        help=f"Intervals that hold at every look at a growing {of}; shortest at about ROWS "
        "rankings (10000).",
    )


arm_option = click.option(
    "--arm", required=True, metavar="COLUMN", help="Column that says which arm served a row."
)


def segment_option(help_: str) -> Callable[[Function], Function]:
    """Return the option that names columns of segments."""
    return click.option("--segment", "segments", multiple=True, metavar="COLUMN", help=help_)


reward_option = click.option(
    "--reward",
    "rewards",
    multiple=True,
    metavar="NAME=COLUMN",
    help="A metric: a column, any(COLUMN), mrr(COLUMN), first(COLUMN), ndcg(COLUMN), count(COLUMN) "
    "or A / B; repeat for more. The first decides.",
)
primary_option = click.option(
    "--primary", metavar="NAME", help="The metric that decides (default: the first)."
)
guardrail_option = click.option(
    "--guardrail",
    "guardrails",
    multiple=True,
    metavar="'NAME >= -0.01'",
    help="What must not happen to a metric, as a relative lift (with a unit: absolute); "
    "'NAME by COLUMN >= -0.02' in every group; repeatable.",
)


def named_rewards(given: Sequence[str]) -> dict[str, str]:
    """Return the metrics of --reward by name.

    >>> named_rewards(["clicks=click", "any=any(click)", "revenue"])
    {'clicks': 'click', 'any': 'any(click)', 'revenue': 'revenue'}
    """
    found: dict[str, str] = {}
    for text in given:
        name, sign, written = text.partition("=")
        name, written = name.strip(), (written if sign else name).strip()
        if not name or not written:
            raise click.UsageError(f"--reward is '{text}'; write NAME=COLUMN or NAME='any(COLUMN)'")
        if name in found:
            raise click.UsageError(f"--reward gives '{name}' twice")
        found[name] = written
    return found


def picked(options: Options, *names: str) -> Options:
    """Return some of the options."""
    return {name: options[name] for name in names}


time_option = click.option("--time", metavar="COLUMN", help="Column of days or timestamps.")


#: How a log is read: each option has the name of the reader's argument, but for the file that has them all.
_READING = [
    click.option(
        "--columns",
        metavar="ROLE=NAME,...",
        help="What columns are called here, e.g. action=items,reward=clicks.",
    ),
    click.option(
        "--config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="A TOML file with the options on columns.",
    ),
    click.option(
        "--context", metavar="NAME,...", help="Context columns (default: names starting with x_)."
    ),
    click.option(
        "--propensity-kind",
        type=click.Choice(["factored", "prefix", "position", "joint"]),
        help="What the numbers are: P(a_k|x) of each item (factored, the default); given the "
        "items above (prefix); "
        "of this item at this position (position); one for the whole ranking (joint).",
    ),
    click.option(
        "--unit", metavar="NAME", help="Column of users or sessions whose rows belong together."
    ),
    click.option(
        "--logger",
        metavar="KIND[:OPTION=VALUE,...]",
        help="How the logger ranked by the scores in `propensity_scores`: plackett-luce, softmax "
        "(temperature), top, epsilon (epsilon), rand-top-n (n) or swap (probability).",
    ),
    click.option(
        "--policy",
        "policies",
        multiple=True,
        metavar="NAME=KIND[:...]",
        help="The same for a target policy with scores in NAME_scores, or a file of a saved "
        "policy; repeatable.",
    ),
    click.option(
        "--items",
        type=click.Path(),
        metavar="FILE",
        help="Features of items: a file with a column `item` (or `item_id`) and one column a feature.",
    ),
    click.option(
        "--where",
        metavar="CONDITION",
        help="Read only rows that fit, e.g. \"day >= '2026-10-01' and country in ('DE', 'AT')\".",
    ),
    click.option(
        "--version",
        type=click.IntRange(min=0),
        metavar="N",
        help="Version of a Delta table, or snapshot of an Iceberg one (default: the newest).",
    ),
    click.option(
        "--missing-reward",
        type=click.Choice(["error", "zero"]),
        help="What a missing reward is: an error (the default), or zero.",
    ),
    click.option(
        "--decimal",
        type=click.Choice([".", ","]),
        help="The decimal sign of numbers in text (default: .).",
    ),
    click.option(
        "--renumber",
        is_flag=True,
        default=None,
        help="Close gaps in positions (slots of ads, filtered items): what stands below moves up.",
    ),
    click.option(
        "--drop-ties",
        is_flag=True,
        default=None,
        help="Leave out rows in which equal scores decide what the logger would show.",
    ),
    click.option(
        "--encode-actions/--no-encode-actions",
        default=None,
        help="Number the items anew, as is done for names (default: where ids are huge).",
    ),
    click.option(
        "--format",
        metavar="NAME",
        help="parquet, arrow, csv or jsonl (default: found out), or vw-ccb, vw-slates, "
        "ubi, open-bandit, amazon-music, kuairand, seznam.",
    ),
]


def reading_options(function: Function) -> Function:
    """Add the reading options to a command."""
    # Decorators apply from the last up: the help lists them as above.
    for option in reversed(_READING):
        function = option(function)
    return function


def result_options(function: Function) -> Function:
    """Add what commands with a result have: a seed, where it goes, and how the log is read."""
    for option in (reading_options, quiet_option, html_option, json_option, seed_option):
        function = option(function)
    return function


@click.command()
@reading_options
def _reader() -> None:
    """Hold the options of the reader, to know their names."""


_ARGUMENTS = [str(one.name) for one in _reader.params if one.name != "config"]


def reading(options: Options, in_file: Options | None = None) -> Options:
    """Return the reader's keyword arguments from a command's options.

    What is said on the command line goes before the configuration file, whose [log] table (or the
    whole file) has the same names.
    """
    said = _from_file(options.get("config")) if in_file is None else in_file
    given = {name: options.get(name) for name in _ARGUMENTS}
    return {
        # What is measured is no matter of reading.
        **{name: value for name, value in said.items() if name not in _MEASURED},
        # An option that was not given must not hide what the file says.
        **{name: value for name, value in given.items() if value not in (None, ())},
    }


def inputs(log: Any, options: Options) -> list[str | None]:
    """Return the files a command reads: no result may be written there."""
    policies = [text.partition("=")[2] for text in options.get("policies") or ()]
    files = [
        options.get(name) for name in ("config", "items", "position_curve", "behavior_candidates")
    ]
    lists = [text.rpartition("=")[2] for text in options.get("target_lists") or ()]
    # A query reads a database, which no result is written into.
    return [log if isinstance(log, str) else None, *files, *policies, *lists]


def policy_names(given: Any) -> tuple[str, ...]:
    """Return the names of target policies given as NAME=KIND texts or as a table.

    >>> policy_names(("new=top", "old=softmax:temperature=2")), policy_names({"new": {"kind": "top"}})
    (('new', 'old'), ('new',))
    """
    from counterrank.policies import parse_named_policy

    names = (
        given
        if isinstance(given, Mapping)
        else [parse_named_policy(text)[0] for text in given or ()]
    )
    return tuple(names)


#: Keys of a configuration file that say what is measured and what it is compared with.
_MEASURED = ("rewards", "primary", "guardrails", "baseline")


def _from_file(path: str | None) -> Options:
    if path is None:
        return {}
    from counterrank.io import log_table

    return log_table(path)


def _plain(text: str) -> str:
    """Return text without control characters.

    Numbers keep the narrow space before their unit, which counts as one.
    """
    spaced = text.replace("\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}")
    return "".join(c for c in spaced if c.isprintable() or c in "\n\N{NO-BREAK SPACE}")


def results_console() -> "Console":
    """Return a console on stdout; wide enough for the tables when stdout is a file."""
    from rich.console import Console
    from rich.segment import Segment

    class PlainNames(Console):
        """A console on which text from a log cannot command the terminal."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield (
                    segment
                    if segment.control or segment.text.isprintable()
                    else Segment(_plain(segment.text), segment.style)
                )

    # Rich takes a file for 80 columns, too few for the table of estimates.
    return PlainNames(width=None if sys.stdout.isatty() else 110, highlight=False)


def write(path: str, text: str) -> None:
    """Write to a file, whole or not at all; `-` is stdout."""
    from counterrank import atomic

    if path == "-":
        # A file's bytes, whatever the terminal's encoding is.
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    else:
        atomic.write_text(path, text)


@dataclass(frozen=True, slots=True)
class Opened:
    """A command whose options were checked: how its log is read, and where its result goes."""

    options: Options
    #: The reader's arguments.
    reading: Options
    #: What the configuration file says of metrics and the baseline.
    measured: Options
    #: A result goes to stdout, which then holds nothing else.
    piped: bool

    @property
    def quiet(self) -> bool:
        """Nothing but errors is printed."""
        return bool(self.options.get("quiet"))

    def metrics(self, *names: str) -> Options:
        """Return the metrics and what goes with them, as given here or in the configuration file."""
        found = {name: self.options.get(name) or self.measured.get(name) for name in names}
        found["rewards"] = named_rewards(self.options["rewards"]) or self.measured.get("rewards")
        return {name: given for name, given in found.items() if given}

    def hand_over(self, result: Any, to_json: Callable[[], str] | None = None) -> None:
        """Write a result to its files, and print it where stdout is free."""
        if path := self.options["json_path"]:
            write(path, (to_json or result.to_json)())
        if path := self.options.get("html_path"):
            write(path, result.to_html())
        if not (self.quiet or self.piped):
            results_console().print(result)


def opened(log: Any, options: Options, **more: str | None) -> Opened:
    """Return the options of a command, once it is sure that its result can be written.

    No result may be written over an input, nor two into one place. This is found out before the work,
    not after it.
    """
    from counterrank.io import check_outputs

    outputs = {"--json": options.get("json_path"), "--html": options.get("html_path")}
    piped = list(outputs.values()).count("-")
    if piped > 1:
        raise click.UsageError("only one result can go to stdout (-); give the other a file")
    in_file = _from_file(options.get("config"))
    check_outputs(inputs(log, options), {**more, **outputs})
    measured = {name: in_file[name] for name in _MEASURED if name in in_file}
    return Opened(options, reading(options, in_file), measured, piped == 1)


class _Bar:
    """Shows each pass as a bar with the time left."""

    def __init__(self, progress: "Progress") -> None:
        self.progress = progress
        self.task: TaskID | None = None

    def begin(self, label: str, total: int | None) -> None:
        """Start a new bar in place of the last."""
        if self.task is not None:
            self.progress.remove_task(self.task)
        self.task = self.progress.add_task(label or "working", total=total)

    def advance(self, rows: int) -> None:
        """Move the bar."""
        if self.task is not None:
            self.progress.advance(self.task, rows)


@contextmanager
def showing_progress(*, enabled: bool = True) -> Iterator[None]:
    """Show the passes made inside the block, when stderr is a terminal."""
    if not enabled or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, transient=True) as progress,
        reporting_to(_Bar(progress)),
    ):
        yield
