"""Write docs/reference from the table of options: `python docs/reference.py`."""

from pathlib import Path

import click

from counterrank.cli.calls import TableCommand
from counterrank.cli.main import main
from counterrank.options import COMMANDS, NESTED, OPTIONS, READING, Group, Kind

HERE = Path(__file__).parent / "reference"


_COMMAND_LINE = """\
# Command line

`counterrank COMMAND --help` shows the options for every day, `--help-all` all of them. Exit codes: 0 done; 1 done, but
`--require` was not met, or nothing could be certified; 2 bad usage or bad input, with one message and nothing
half-written, or a check that failed.

Every other key of a [job file](job-file.md) can be given as `--config KEY=VALUE`."""

_JOB_FILE = """\
# Job files

A job is a TOML file: `counterrank run JOB.toml` runs it, and every command reads it with `--config JOB.toml`; what is
said on the command line goes before it, and `--columns` adds to `[columns]`. A file stands for `evaluate`, or for the
command whose table it has (`[learn]`, `[abtest]`, `[plan]`, `[validate]`, `[check]`, `[curve]`); how the log is read is
said outside of that table. With `--config`, keys of other commands are left aside, and files are written only for the
command that the file stands for.

`log` names the log. Paths are relative to the file. `{today}`, `{yesterday}` and `{today-7}` in paths and in `where`
are days like 2026-01-31 (UTC). Keys may be written with `-` or `_`.
"""


def command_line() -> str:
    """Return the page of the command line."""
    lines = [_COMMAND_LINE]
    context = click.Context(main, info_name="counterrank")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        inside = click.Context(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(inside))
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        lines += ["", f"## `{name}`", "", " ".join(first.split()), "", "```text"]
        lines += [f"counterrank {name} {usage}", "```"]
        rows = (
            _of_table(command) if isinstance(command, TableCommand) else _of_click(command, inside)
        )
        if rows:
            lines += ["", "| option | |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _of_table(command: TableCommand) -> list[str]:
    names = command.spec.on_line
    ordered = [name for group in Group for name in names if OPTIONS[name].group is group]
    return [
        f"| `{_cell(OPTIONS[name].spelled + _value(name))}` | {_cell(command.spec.help_of(name))} |"
        for name in ordered
    ]


def _of_click(command: click.Command, context: click.Context) -> list[str]:
    records = [
        one.get_help_record(context) for one in command.params if isinstance(one, click.Option)
    ]
    return [f"| `{_cell(left)}` | {_cell(right)} |" for left, right in filter(None, records)]


def _value(name: str) -> str:
    option = OPTIONS[name]
    if option.kind is Kind.SWITCH:
        return ""
    text = option.metavar or "|".join(option.words) or option.kind.name
    return f" {text}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def job_file() -> str:
    """Return the page of job files."""
    lines = [_JOB_FILE, "| key | value | commands | |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        if name == "config":
            continue
        takers = [command for command, spec in COMMANDS.items() if name in spec.options]
        keys = " or ".join(f"`{key}`" for key in option.keys)
        kind = (
            ", ".join(f"`{word}`" for word in option.words) if option.words else option.kind.value
        )
        if option.words and option.kind is Kind.FILE:
            kind = f"a path, or {kind}"
        if option.bare is not None:
            kind = f"true, or {kind}"
        told = "all" if name in READING else ", ".join(takers)
        spec = COMMANDS[takers[0]]
        lines.append(f"| {keys} | {_cell(kind)} | {told} | {_cell(spec.help_of(name))} |")
    for table, keys in NESTED.items():
        rows = ", ".join(f"`{key}` (`{OPTIONS[name].spelled}`)" for key, name in keys.items())
        lines += ["", f"Keys of `[{table}]`: {rows}."]
    return "\n".join(lines) + "\n"


PAGES = {"command-line.md": command_line, "job-file.md": job_file}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).write_text(make(), encoding="utf-8")
