"""Write docs/reference from the table of options and the types of results, and llms.txt: `python docs/reference.py`."""

import json
import re
import types
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from counterrank.cli.calls import TableCommand, help_of
from counterrank.cli.main import RESEARCH, main
from counterrank.common.findings import TITLES, Finding
from counterrank.common.options import BESIDE, COMMANDS, NESTED, OPTIONS, READING, Group, Kind
from counterrank.common.records import Record
from counterrank.common.texts import packaged
from counterrank.estimators import Estimate, Lift
from counterrank.evaluation import ABTest, ArmMetric, Evaluation, MetricResult
from counterrank.evaluation.result import ABOVE
from counterrank.report.stored_results import KINDS

HERE = Path(__file__).parent / "reference"


_COMMAND_LINE = """\
# Command line and job files

`counterrank COMMAND --help` shows the common options, `--help-all` all of them. Exit codes: 0 done; 1 done, but
`--require` was not met, or nothing could be certified; 2 bad usage, bad input or a failed check, with one message and
no partial files."""

_RESEARCH = """
## Research and maintenance

`counterrank COMMAND --help` lists the options of these commands.

| command | |
|---|---|"""

_JOB_FILE = """
## Job files

A job is a TOML file. `counterrank run JOB.toml` runs it, and every command reads it with `--config JOB.toml`; options
on the command line override its keys. A file describes a run of `evaluate`, or of the command whose table it has
(`[learn]`, `[abtest]`, `[plan]`, `[validate]`, `[check]`, `[curve]`); keys about reading the log stand outside that
table. With `--config`, keys of other commands are ignored, and output files of the job are written only by the command
that the file describes.

`log` names the log. Paths are relative to the file. `{today}` (or `{date}`), `{yesterday}` and `{today-7}` in paths
and in `where` become days such as 2026-01-31 (UTC). Every option above is a key, with `-` or `_`. These keys have no
option; on the command line give them as `--config KEY=VALUE`:
"""


def command_line() -> str:
    """Return the page of the command line."""
    lines, research = [_COMMAND_LINE], []
    context = click.Context(main, info_name="counterrank")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        inside = click.Context(command, info_name=name, parent=context)
        usage = " ".join([f"counterrank {name}", *command.collect_usage_pieces(inside)])
        first = (command.help or "").strip().split("\n\n")[0].replace("\n", " ")
        first = " ".join(first.split())
        if name in RESEARCH:
            research.append(f"| `{usage}` | {first} |")
            continue
        lines += ["", f"## `{name}`", "", f"`{usage}`", "", first]
        table = isinstance(command, TableCommand)
        rows, same = _of_table(command) if table else (_of_click(command, inside), [])
        if rows:
            lines += ["", "| option | |", "|---|---|", *rows]
        if same:
            lines += ["", f"As for `evaluate`: {', '.join(same)}."]
    lines += [_RESEARCH, *research]
    return "\n".join([*lines, *job_file()]) + "\n"


def _of_table(command: TableCommand) -> tuple[list[str], list[str]]:
    """Return the rows of a command's options, and the options that mean what `evaluate` says."""
    spec, first = command.spec, COMMANDS["evaluate"]
    ordered = [name for group in Group for name in spec.on_line if OPTIONS[name].group is group]
    beside = [name for name in BESIDE if name not in ordered]
    same = [
        name
        for name in [*ordered, *beside]
        if spec is not first
        and name in first.on_line
        and help_of(spec, name) == help_of(first, name)
    ]
    rows = [
        f"| `{_cell(OPTIONS[name].spelled + _value(name))}` | {_cell(help_of(spec, name))} |"
        for name in ordered
        if name not in same
    ]
    return rows, [f"`{OPTIONS[name].spelled}`" for name in same]


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


def job_file() -> list[str]:
    """Return the lines about job files: keys that are no options, and how values of options are written."""
    lines = [_JOB_FILE, "| key | value | commands | |", "|---|---|---|---|"]
    options: dict[str, list[str]] = {}
    for name, option in OPTIONS.items():
        if name == "config":
            continue
        takers = [command for command, spec in COMMANDS.items() if name in spec.options]
        keys = " or ".join(f"`{key}`" for key in option.keys)
        kind = (
            ", ".join(f"`{word}`" for word in option.words) if option.words else option.kind.value
        )
        if option.bare is not None:
            kind = f"true, or {kind}"
        if any(name in spec.on_line for spec in COMMANDS.values()):
            if len(option.keys) > 1 or option.kind in _TABLES:
                options.setdefault(kind, []).append(keys)
            continue
        commands = "all" if name in READING else ", ".join(takers)
        text = help_of(COMMANDS[takers[0]], name)
        lines.append(f"| {keys} | {_cell(kind)} | {commands} | {_cell(text)} |")
    lines += ["", "Options that are repeated or have parts are lists or tables:", ""]
    lines += ["| value | keys |", "|---|---|"]
    lines += [f"| {_cell(kind)} | {', '.join(keys)} |" for kind, keys in options.items()]
    for table, keys in NESTED.items():
        rows = ", ".join(f"`{key}` (`{OPTIONS[name].spelled}`)" for key, name in keys.items())
        lines += ["", f"Keys of `[{table}]`: {rows}."]
    return lines


_TABLES = {
    Kind.COLUMNS,
    Kind.PAIRS,
    Kind.METRICS,
    Kind.POLICY,
    Kind.POLICIES,
    Kind.CONDITION,
    Kind.LIST,
}

_RESULTS = """\
# Results and messages

Every command writes its result with `--json FILE`, and in Python `result.save(path)` does. `counterrank.load(path)`
reads any of them back. All results have `summary()` (text), `table` (a pandas data frame), `plot()` (a matplotlib
figure), `to_html(path)` (one page),
`to_markdown(path)` and `save(path)` (JSON); `learn` and `plan` save the policy with the result inside.
`counterrank explain FILE` prints in at most ten lines what a result says and does not say.
`counterrank explain --repro FILE` prints what a bug report needs, without names, paths or values of the log.

The schemas are made from the types of the results. Keys may be added; existing keys stay. Unknown numbers are null.

| schema | result | file | rows of `table` |
|---|---|---|---|"""

_MESSAGES = """
## Errors

Every error is a `cr.CounterrankError` and a `ValueError`. `error.said` says what is wrong and where, `error.remedy`
what to do; `str(error)` contains both.

## Flags and notes

Flags of an estimate and notes of a log begin with a code. Codes are stable and texts may change, so scripts should
compare codes: `flag.code` in Python, `flag_codes` beside `flags` in the JSON result.

| code | when |
|---|---|"""

_FLAGS = """\
| `amount-unknown` | no item feature predicts what a click earns |
| `bias-allowance` | the bias that the interval of `auto` allows for, and its parts |
| `biased` | weights were clipped, shrunk or replaced by a model; the flag says how much weight was removed |
| `click-model` | the estimate rests on a model of clicks that the log cannot check |
| `drawn-mean` | predictions of reward models are averages over drawn rankings |
| `estimated-propensity` | propensities were not logged but estimated |
| `heavy-tail` | rare rows with large weights can move the estimate |
| `low-ess` | few effective rows |
| `missing-reward-zero` | missing rewards were read as 0, as asked |
| `model-only` | only a reward model; the interval does not include its error |
| `no-support` | the target shows items that the logger never shows there |
| `not-estimable` | there is a value but no evidence for it; the flag says why |
| `one-row` | a single ranking has much of the weight |
| `one-unit` | a single ranking or unit has no standard error |
| `pbm` | the estimate rests on a model of examination that the log cannot check |
| `propensity-missing` | the log has no propensities |
| `queries-without-hits` | queries without hits were left out |
| `reward-per-ranking` | there is one reward per ranking, so there are no results by position |
| `sampled` | probabilities of sets of positions are estimated by sampling |
| `sampled-rows` | models were evaluated on a random part of the rows; the standard error accounts for it |
| `single-position-rows` | each row is one item at one position |
| `standard-rows-dropped` | rows without propensities were left out |
| `superset` | the log lacks the needed probabilities, so more items were weighted |
| `tied-rows-dropped` | rows with ties in the scores were left out, as asked |"""

_CHECKS = """
## Checks

Findings of the [audit](../explanation/audit.md), the [verdict](../explanation/verdict.md), the decision and A/B tests
have a code, a status (passed, warned, failed, skipped), a text and remedies. The table says what is true if the check
passed.

| code | what is checked |
|---|---|"""


def results() -> str:
    """Return the page of results and messages."""
    rows = [
        f"| `{schema}` | {kind.NAME} | [{_file(schema)}](schemas/{_file(schema)}) | `{kind.ROWS}` |"
        for schema, kind in KINDS.items()
    ]
    checks = [f"| `{code}` | {title} |" for code, title in TITLES.items()]
    return "\n".join([_RESULTS, *rows, _MESSAGES, _FLAGS, _CHECKS, *checks]) + "\n"


def _file(schema: str) -> str:
    return "-".join(schema.split("/")[1:]) + ".json"


class Schema:
    """The JSON schema of one kind of result, from the annotations of its fields."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.parts: dict[str, Any] = {}

    def made(self) -> dict[str, Any]:
        """Return the whole schema."""
        if self.kind is Evaluation:
            body = self.evaluation()
        elif issubclass(self.kind, Record):
            body = self.record(self.kind)
        else:
            body = _object({"audit": _array(self.of(Finding))})
        if self.kind is ABTest:
            # Those of the primary metric stand at the top, too.
            primary = self.record(ArmMetric)["properties"]
            body["properties"] |= {name: primary[name] for name in ("arms", "lifts")}
            body["required"] += ["arms", "lifts"]
        body["properties"] = {"schema": {"const": self.kind.SCHEMA}, **body["properties"]}
        body["required"] = ["schema", *body["required"]]
        head = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.kind.SCHEMA,
        }
        return {**head, **body, "$defs": dict(sorted(self.parts.items()))}

    def record(self, kind: Any) -> dict[str, Any]:
        """Return the object of a record."""
        hints = get_type_hints(kind)
        properties, left_out = {}, set()
        for one in fields(kind):
            key = one.metadata.get("key", one.name)
            properties[key] = self.of(hints[one.name])
            if one.metadata.get("optional"):
                left_out.add(key)
        # A record that writes itself may leave keys out.
        return _object(
            properties,
            left_out if kind.to_dict is Record.to_dict or kind is self.kind else {*properties},
        )

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of an annotation."""
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in (Union, types.UnionType):
            known = [self.of(one) for one in inner if one is not types.NoneType]
            return (
                {"anyOf": [*known, {"type": "null"}]}
                if types.NoneType in inner
                else {"anyOf": known}
            )
        if origin is tuple:
            return _array(self.of(inner[0]))
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        if isinstance(hint, type) and issubclass(hint, Record):
            if hint.__name__ not in self.parts:
                self.parts[hint.__name__] = {}
                self.parts[hint.__name__] = self.record(hint)
            return {"$ref": f"#/$defs/{hint.__name__}"}
        if isinstance(hint, type) and issubclass(hint, Enum):
            return {"enum": [one.value for one in hint]}
        plain = {float: ["number", "null"], int: "integer", bool: "boolean", str: "string"}
        return {"type": plain[hint]} if hint in plain else {}

    def evaluation(self) -> dict[str, Any]:
        """Return the object of an evaluation, whose estimates and lifts stand in two lists."""
        hints = get_type_hints(Evaluation)
        of_primary = get_type_hints(MetricResult)
        names = get_type_hints(Estimate)
        estimate = {
            name: self.of(names.get(name, float))
            for name in (
                "target", "estimator", "value", "stderr", "low", "high", "level", "by_position", "ess", "flags",
            )
        }  # fmt: skip
        both = {name: self.of(str) for name in ("target", "estimator")}
        own = self.record(Lift)
        lift = _object(
            {**both, **own["properties"]},
            set(own["properties"]) - {"value", "stderr", "low", "high"},
        )
        rows = {"estimates": _array(_object(estimate)), "lift": _array(lift)}
        metric = {
            "name": self.of(str),
            "primary": self.of(bool),
            **rows,
            "verdict": self.of(of_primary["verdict"]),
        }
        special = {
            **rows,
            # Those of the primary metric stand at the top, too.
            **{name: self.of(of_primary[name]) for name in ABOVE},
            "audit": _array(self.of(Finding)),
            "metrics": _array(_object(metric)),
        }
        plain = {
            one.name: self.of(hints[one.name])
            for one in fields(Evaluation)
            if one.name not in special
        }
        return _object({**plain, **special})


def _object(properties: dict[str, Any], left_out: set[str] = frozenset()) -> dict[str, Any]:
    required = [key for key in properties if key not in left_out]
    return {"type": "object", "properties": properties, "required": required}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


SITE = "https://counterrank.github.io/counterrank"


def llms() -> str:
    """Return llms.txt: what `counterrank skill` prints, and the pages of the site in the order of its menu."""
    lines = [packaged("counterrank.cli", "skill.md"), "## Documentation", "", *_listed("index.md")]
    return "\n".join(lines) + "\n"


def _listed(page: str) -> list[str]:
    """Return a line for every page under a page of the menu."""
    folder, lines = (HERE.parent / page).parent, []
    for entry in _MENU.findall((HERE.parent / page).read_text(encoding="utf-8")):
        path = (folder / entry).resolve()
        name = path.relative_to(HERE.parent.resolve()).with_suffix("").as_posix()
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines += [f"- [{title}]({SITE}/{name}.html)", *_listed(f"{name}.md")]
    return lines


#: An entry of a toctree, with a title or without.
_MENU = re.compile(r"^(?:[^`\n]+ <)?([\w./-]+\.md)>?$", flags=re.M)

PAGES = {"command-line.md": command_line, "results.md": results, "../../llms.txt": llms}
PAGES |= {
    f"schemas/{_file(schema)}": lambda kind=kind: json.dumps(Schema(kind).made(), indent=1) + "\n"
    for schema, kind in KINDS.items()
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (HERE / page).parent.mkdir(parents=True, exist_ok=True)
        (HERE / page).write_text(make(), encoding="utf-8")
