"""Commands made from the table of options, and one call of a command: its log, values and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import click

from counterrank.cli.console import results_console, showing_progress, write
from counterrank.cli.jobs import READERS, Job, Values
from counterrank.common.errors import ConfigError
from counterrank.common.messages import for_command, say
from counterrank.common.options import BESIDE, COMMANDS, OPTIONS, Command, Group, Kind

_REPEATED = (
    Kind.MANY,
    Kind.ANSWERS,
    Kind.TABLES,
    Kind.PAIRS,
    Kind.METRICS,
    Kind.POLICIES,
)
#: Kinds whose values on the command line are read as those of a job file.
_READ_ON_LINE = (Kind.OUTPUT, Kind.TABLES, Kind.PAIRS, Kind.METRICS, Kind.POLICY, Kind.POLICIES)
#: What is said of --events.
_OF_EVENTS = ("join", "event", "within", "event_time", "unique")
_TYPES: dict[Kind, Any] = {
    Kind.NUMBER: float,
    Kind.OUTPUT: click.Path(dir_okay=False),
}


@dataclass
class Call:
    """One call of a command: what the command line and job files say."""

    command: str
    log: Any
    #: Values of options by name; what nobody gave is left out.
    values: Values
    #: The files that said so: no result may be written there.
    files: list[str] = field(default_factory=list)

    @classmethod
    def of_line(cls, command: str, log: str | None, options: Values) -> Call:
        """Return the call of a command line; it goes before the files of --config."""
        values: Values = {}
        files = []
        for text in options.pop("config", ()):
            job = Job.parse(text)
            _join(values, job.values(command))
            named_log = job.log
            log = named_log if log is None else log
            files += [job.name] if job.folder else []
        line = {
            name: _of_line(name, value)
            for name, value in options.items()
            if value not in (None, ())
        }
        _join(values, line)
        return cls(command, log, values, files)

    @classmethod
    def of_job(cls, path: str) -> Call:
        """Return the call that a job file stands for."""
        job = Job.read(path)
        if job.log is None and "query" not in job.content:
            raise ConfigError(f"{path}: 'log' must name the log, like log = \"log.parquet\"")
        with for_command(job.command, job=True):
            return cls(job.command, job.log, job.values(job.command, alone=True), [path])

    def __post_init__(self) -> None:
        query, connection = self.values.pop("query", None), self.values.pop("connection", None)
        if query is not None and connection is not None and self.log is None:
            from counterrank.io import Query

            self.log = Query(query, connection)
        elif query is not None or connection is not None or self.log is None:
            raise click.UsageError("Give a LOG, or --query and --connection, and not both.")
        self._join_events()
        self._join_scores()
        for name in COMMANDS[self.command].required:
            if name not in self.values:
                raise missing_option(name)
        self.check_outputs()

    def _join_events(self) -> None:
        """Make one value of the options that describe events."""
        described = {name: self.values.pop(name, None) for name in _OF_EVENTS}
        time = self.values.get("time")
        if "time" not in COMMANDS[self.command].on_line:
            # Its function does not look at the time; only the join of events does.
            self.values.pop("time", None)
        path = self.values.get("events")
        if path is None:
            if unused := [name for name, value in described.items() if value]:
                raise click.UsageError(f"{OPTIONS[unused[0]].spelled} goes with --events FILE.")
            return
        from counterrank.io import Events

        self.values["events"] = Events(
            path,
            on=described["join"] or (),
            rewards=described["event"] or {},
            within=described["within"],
            time=described["event_time"],
            shown=time,
            unique=described["unique"] or (),
        )

    def _join_scores(self) -> None:
        """Make tables of scores of their paths and keys."""
        join, tables = self.values.pop("scores_join", None), self.values.get("scores", ())
        if not tables:
            if join:
                raise click.UsageError("--scores-join goes with --scores FILE.")
            return
        from counterrank.io import Scores

        self.values["scores"] = tuple(
            Scores(table["path"], on=table.get("join") or join, columns=table.get("columns"))
            for table in tables
        )

    def check_outputs(self) -> None:
        """Raise where a result would be written over an input, or two into one place.

        This is found out before the work, not after it.
        """
        outputs = {OPTIONS[name].spelled: path for name, path in self.outputs.items()}
        if not outputs:
            return
        if [*outputs.values()].count("-") > 1:
            raise click.UsageError("only one result can go to stdout (-); give the other a file")
        # A query reads a database, which no result is written into.
        inputs = [*self.files, self.log if isinstance(self.log, str) else None, *self.inputs]
        from counterrank.io import check_outputs

        check_outputs(inputs, outputs)

    @property
    def outputs(self) -> dict[str, str]:
        """The files that the call writes, by option."""
        return {
            name: value for name, value in self.values.items() if OPTIONS[name].kind is Kind.OUTPUT
        }

    @property
    def inputs(self) -> Iterable[str | None]:
        """The files that the call reads beside its log."""
        for name, value in self.values.items():
            if OPTIONS[name].kind is Kind.FILE:
                yield value
            elif OPTIONS[name].kind is Kind.TABLES:
                yield from (table.path for table in value)
            elif name == "target_lists":
                yield from (text.rpartition("=")[2] for text in value)
        specs = [self.get("logger"), *self.values.get("policies", {}).values()]
        yield from (spec.path for spec in specs if spec is not None)

    @property
    def settings(self) -> Values:
        """What the Python function of the command is given beside its log."""
        return {name: value for name, value in self.values.items() if not OPTIONS[name].local}

    def get(self, name: str) -> Any:
        """Return the value of an option; None where nobody gave it."""
        return self.values.get(name)

    def run(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return what a function makes of the log; on a terminal its passes are shown."""
        with showing_progress(enabled=not self.get("quiet")):
            return work(self.log, *arguments, **options)

    def json_file(self, name: str) -> str | None:
        """Return the path of an output that is JSON."""
        path: str | None = self.get(name)
        if path is not None and not path.endswith(".json"):
            raise click.UsageError(
                f"{OPTIONS[name].spelled} is a JSON file; '{path}' does not end in .json"
            )
        return path

    def deliver(self, result: Any, to_json: Callable[[], str] | None = None) -> None:
        """Write a result to its files, and print it where stdout is free."""
        from counterrank.common.records import BRIEF, VERBOSE
        from counterrank.report.terminal import renderables

        if path := self.get("json"):
            write(path, (to_json or result.to_json)())
        if path := self.get("html"):
            write(path, _dated(result).to_html())
        if path := self.get("markdown"):
            write(path, result.to_markdown())
        # A result that goes to stdout is the only thing there.
        if not (self.get("quiet") or "-" in map(self.get, ("json", "html", "markdown"))):
            console = results_console()
            detail = VERBOSE if self.get("verbose") or self.get("all") else BRIEF
            for block in renderables(result.document(detail), detail):
                console.print(block)


def _dated(result: Any) -> Any:
    """Return the result with the time of its run, for people: its JSON is the same whenever it is made."""
    provenance = getattr(result, "provenance", None)
    if provenance is None or getattr(provenance, "created", "none") is not None:
        return result
    now = datetime.now().astimezone().isoformat(timespec="minutes")
    return replace(result, provenance=replace(provenance, created=now))


def not_shipped(decision: Any) -> str:
    """Return why a decision is not to ship; nothing where it is."""
    if decision.action == "ship":
        return ""
    why = "; ".join(finding.text for finding in decision.reasons)
    return f"the decision is {decision.action}, ship was required: {why}"


def exit_if(unmet: str) -> None:
    """End the command with exit code 1 where something was not met, and say what."""
    if unmet:
        click.echo(unmet, err=True)
        raise click.exceptions.Exit(1)


def missing_option(name: str) -> click.UsageError:
    """Return the error of an option that is needed, as the command line or the job has it."""
    option = OPTIONS[name]
    return click.UsageError(f"What is missing: {say(option.spelled, option.metavar or 'VALUE')}")


def _join(values: Values, added: Values) -> None:
    """Add values to earlier ones; columns add to columns, anything else takes the place."""
    if "columns" in values and "columns" in added:
        from counterrank.io import columns_of

        added = {
            **added,
            "columns": {**columns_of(values["columns"]), **columns_of(added["columns"])},
        }
    values |= added


def _of_line(name: str, value: Any) -> Any:
    """Return a value of the command line as a job file would give it."""
    option = OPTIONS[name]
    if option.kind not in _READ_ON_LINE:
        return value
    return READERS[option.kind](Job("", {}), option, value if isinstance(value, str) else [*value])


class TableCommand(click.Command):
    """A command whose options come from the table."""

    def __init__(self, name: str, body: Callable[[Call], None], epilog: str) -> None:
        self.spec: Command = COMMANDS[name]
        self.body = body
        params = [click.Argument(["log"], type=click.Path(), required=False)]
        super().__init__(
            name,
            params=[*params, *map(self.option, self.spec.on_line)],
            callback=self.call,
            help=body.__doc__,
            epilog=epilog,
        )

    def call(self, log: str | None, **values: Any) -> None:
        """Run the command with what the command line says."""
        moved = [
            name
            for name in self.spec.moved
            if values[name] not in (None, ()) and name not in BESIDE
        ]
        if moved and not values.get("quiet"):
            told = ", ".join(OPTIONS[name].spelled for name in moved)
            click.echo(
                f"{told} will move to the job file (or --config {moved[0]}=...) in the next version",
                err=True,
            )
        self.body(Call.of_line(str(self.name), log, values))

    def option(self, name: str) -> click.Option:
        """Return an option of the command line."""
        entry, told = OPTIONS[name], help_of(self.spec, name)
        if entry.kind is Kind.SWITCH:
            off = f"/--no-{entry.spelled[2:]}" if name in self.spec.moved else ""
            return click.Option([entry.spelled + off, name], help=told, default=None, is_flag=True)
        kind: Any = _TYPES.get(entry.kind, str)
        if entry.kind is Kind.WHOLE:
            kind = click.IntRange(min=entry.least)
        if entry.words and entry.kind is Kind.TEXT:
            kind = click.Choice(entry.words)
        bare: Values = {} if entry.bare is None else {"is_flag": False, "flag_value": entry.bare}
        return click.Option(
            [entry.spelled, name],
            help=told,
            default=None,
            type=kind,
            metavar=entry.metavar or None,
            multiple=entry.kind in _REPEATED,
            **bare,
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters with --help, --help-all and the options that have moved to job files."""

        def show(context: click.Context, _: click.Parameter, requested: bool) -> None:
            if requested:
                context.meta["everything"] = True
                click.echo(self.get_help(context))
                context.exit()

        everything = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=show,
            help="Show every option and exit.",
        )
        return [*super().get_params(ctx), everything, *map(self.option, self.spec.moved)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options in groups: those for every day, or all of them."""
        everything = ctx.meta.get("everything", False)
        names = self.spec.on_line if everything else self.spec.shown.split()
        by_name = {parameter.name: parameter for parameter in self.params}
        for group in Group:
            rows = [
                record
                for name in names
                if OPTIONS[name].group is group
                and (record := by_name[name].get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(group.value):
                    formatter.write_dl(rows)
        formatter.write_paragraph()
        keys = len(self.spec.options) - len(self.spec.on_line)
        hidden = len(self.spec.on_line) - len(names)
        hint = f"{hidden} more options: --help-all. " if hidden else ""
        if unlisted := [OPTIONS[name].spelled for name in BESIDE if name not in self.spec.on_line]:
            # Lines of their own: a name would be broken at its dashes.
            formatter.write_text(f"\b\nAlso, as for evaluate:\n{' '.join(unlisted)}\n")
        formatter.write_text(
            f"{hint}{keys} more can be given as --config KEY=VALUE or in a job file."
        )


def help_of(spec: Command, name: str) -> str:
    """Return what an option means to a command, with its default."""
    text = spec.words.get(name, OPTIONS[name].help)
    default = spec.defaults.get(name, OPTIONS[name].default)
    if default in (None, False):
        return text
    told = str(default).lower() if isinstance(default, bool) else default
    return f"{text[:-1]} (default: {told})."


def command(name: str, epilog: str) -> Callable[[Callable[[Call], None]], TableCommand]:
    """Make a command of the table from the function that runs it."""
    return lambda body: TableCommand(name, body, epilog)
