"""counterrank: the command line."""

import difflib
import errno
import importlib
import io
import os
import signal
import sys
import threading
import traceback
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import Any

import click

from counterrank._version import __version__
from counterrank.cli.console import TRANSLITERATED
from counterrank.common.errors import CounterrankError, out_of_memory
from counterrank.common.messages import for_command
from counterrank.common.plugins import COMMANDS, load, plugins_of
from counterrank.report.words import visible

#: Commands in the order of a first day's work, where they live and what they do; a module is loaded
#: when its command is used, so that --help stays quick.
_COMMANDS = {
    "evaluate": ("evaluate", "Estimate what target policies would earn, from a log."),
    "init": ("init", "Look at your tables and write a job file."),
    "check": ("evaluate", "Audit a log and its propensities."),
    "abtest": (
        "abtest",
        "Read an A/B test with its log: a shorter interval from the same traffic.",
    ),
    "plan": ("plan", "Recommend what to randomise so that future rankers can be evaluated."),
    "learn": ("learn", "Learn a better policy from a log, with a certificate."),
    "run": ("run", "Run what a job file describes: an evaluation, a test, learning, or a plan."),
    "validate": (
        "evaluate",
        "Predict each arm of a past A/B test, and compare with what it earned.",
    ),
    "explain": ("tools", "Explain a result in at most ten lines."),
    "history": ("tools", "Write pages of past results, predictions beside outcomes."),
    "outcome": ("tools", "Record what a policy earned once it was shown."),
    "curve": ("evaluate", "Estimate how often users look at each position."),
    "estimators": ("tools", "List the estimators and what each does."),
    "skill": ("tools", "Print what an assistant should know before it runs counterrank."),
}
#: Listed below the others.
RESEARCH = ("curve", "estimators", "skill", "simulate", "reproduce", "warmup")


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return our names in the order of a first day's work, then those of plug-ins."""
        return [*_COMMANDS, *self.others]

    @cached_property
    def others(self) -> dict[str, EntryPoint]:
        """Commands of other packages and of our laboratory, not loaded yet."""
        return plugins_of(COMMANDS, _COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import and return a command."""
        command: click.Command | None = None
        if name in _COMMANDS:
            module = importlib.import_module(f"counterrank.cli.{_COMMANDS[name][0]}")
            command = getattr(module, name)
        elif name in self.others:
            command = load(self.others[name], CounterrankError)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, ours without importing any; those for research come last."""
        ours = [(name, text) for name, (_, text) in _COMMANDS.items()]
        listed = [*ours, *((name, self.summary(name)) for name in self.others)]
        for title, research in (("Commands", False), ("Research and maintenance", True)):
            with formatter.section(title):
                formatter.write_dl([row for row in listed if (row[0] in RESEARCH) is research])

    def summary(self, name: str) -> str:
        """Return a line about a plug-in's command; a broken one is listed with what is wrong."""
        try:
            command: click.Command = load(self.others[name], CounterrankError)
        except CounterrankError as problem:
            return str(problem)
        return command.get_short_help_str(limit=100)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Suggest a near name when a command is unknown."""
        name = args[0]
        # Plug-ins are looked for only where the name is none of ours: that reads every installed package.
        if not (name in _COMMANDS or name in self.others or name.startswith("-")):
            commands = self.list_commands(ctx)
            near = difflib.get_close_matches(name, commands, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Known: {', '.join(commands)}."
            raise click.UsageError(f"There is no command '{name}'.{hint}")
        return super().resolve_command(ctx, args)


_EPILOG = """Start with:

\b
  counterrank demo
  counterrank evaluate log.parquet --target new --html report.html

`counterrank COMMAND --help` explains a command.
"""


@click.group(
    cls=LazyGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="counterrank")
def main() -> None:
    """What would a new ranking policy earn? Answers from the logs of the old one."""
    context = click.get_current_context()
    context.with_resource(for_command(context.invoked_subcommand or ""))


class _Terminated(BaseException):
    """SIGTERM, on its way up through whatever has to be cleaned up."""


def _end_cleanly_when_told() -> None:
    def stop(number: int, frame: object) -> None:
        raise _Terminated

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, stop)


def _fault(problem: Exception) -> str:
    """Return a short report of an unexpected exception: what, where, and how to see the rest."""
    if os.environ.get("COUNTERRANK_TRACEBACK"):
        return "".join(traceback.format_exception(problem))
    # The last frame of ours: where a library raised says less about what we did to it.
    home = os.path.dirname(os.path.dirname(__file__)) + os.sep
    ours = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if frame.filename.startswith(home)
    ]
    where = f" at {ours[-1].filename.removeprefix(home)}:{ours[-1].lineno}" if ours else ""
    text = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
    return (
        f"counterrank: this should not have happened ({text}{where}, version {__version__}). "
        "Please report it; COUNTERRANK_TRACEBACK=1 shows more"
    )


class _Closed(io.TextIOBase):
    """Stands for a stdout that was closed: what is printed there is refused, in words."""

    def write(self, text: str) -> int:
        """Refuse."""
        raise OSError(errno.EBADF, "stdout is closed; give it a file, or use --quiet with --json")


def run() -> None:
    """Run the command line.

    Exit 0 when done, 1 when --require was not met, 2 on bad usage or bad input, 70 on a fault of
    ours, 130 and 143 when interrupted or terminated.
    """
    # Fits solve many small systems, in which several BLAS threads only wait for each other; our own
    # share the rows.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _end_cleanly_when_told()
    # A daemon may have closed it: Python then has no stdout at all, and --quiet needs none.
    sys.stdout = sys.stdout or _Closed()
    # Also so that no file that is written takes the number of stderr.
    sys.stderr = sys.stderr or open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=TRANSLITERATED)
    try:
        code = main.main(standalone_mode=False, prog_name="counterrank")
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as problem:
        shown = io.StringIO()
        problem.show(file=shown)
        click.echo(visible(shown.getvalue()), err=True, nl=False)
        code = 2
    except click.Abort:
        click.echo("interrupted; nothing was written", err=True)
        code = 130
    except BrokenPipeError:
        # `| head` has read enough. Python would complain once more when it flushes at exit.
        code = 0
        sys.stderr.close()
    except _Terminated:
        # 128 + 15, as a shell reports SIGTERM; schedulers tell it from a failure.
        click.echo("terminated; nothing was written", err=True)
        code = 143
    except Exception as problem:
        text, code = _told(problem)
        # Names in a log must not command a terminal.
        click.echo(visible(text), err=True)
    sys.exit(code if isinstance(code, int) else 0)


def _told(problem: Exception) -> tuple[str, int]:
    """Return what to say about an exception, and the exit code: 2 where the user can do something."""
    if isinstance(problem, CounterrankError):
        return f"counterrank: {problem}", 2
    if out_of_memory(problem):
        return (
            "counterrank: out of memory; allow more, or give the log as Parquet files, which are "
            "streamed",
            2,
        )
    if isinstance(problem, OSError):
        file = f"{problem.filename}: " if problem.filename else ""
        return f"counterrank: {file}{problem.strerror or problem}", 2
    return _fault(problem), 70
