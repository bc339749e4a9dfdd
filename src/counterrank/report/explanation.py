"""What a result says and does not say, to paste into a message; and what a report of a fault needs, without data."""

import platform
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import Any

from counterrank._version import __version__
from counterrank.common.findings import TITLES
from counterrank.common.options import BY_FLAG, COMMANDS, OPTIONS, Kind
from counterrank.common.records import Json, Result

MOST_LINES = 10
#: What no result of a kind can say, by schema.
LIMITS = {
    "counterrank/evaluation/2": "It does not say how users change once they are used to a policy, what "
    "other seasons bring, or what rankings earn that today's policy never shows.",
    "counterrank/audit/2": "It does not say that the log is right: only that these checks found no more.",
    "counterrank/abtest/2": "It does not say what the policies earn later or for other users than those of "
    "the test.",
    "counterrank/validation/1": "It does not say that predictions of other policies, or of other times, are "
    "as good.",
    "counterrank/plan/1": "It does not say what rankers will earn: costs and detectable lifts are predictions "
    "from this log.",
    "counterrank/learning/1": "It does not say what the policy earns once users or items have changed.",
}


#: What to do after a result of a kind; evaluations have commands of their own.
NEXT = {
    "audit": "counterrank evaluate LOG --target NAME",
    "A/B test": "counterrank outcome RUN.json --lift LIFT --stderr STDERR",
    "validation": "counterrank evaluate LOG --target NAME",
    "plan": "counterrank evaluate NEW_LOG --logger SPEC.json, once rankings are served by the chosen option",
    "learned policy": "counterrank abtest LOG --arm COLUMN, once the policy has served a part of the traffic",
}


def explained(result: Result, path: str = "RESULT.json") -> list[str]:
    """Return at most ten lines: what the result says, what it does not say, and the next command.

    `path` is the file of the result.
    """
    lines = [line for line in result.summary().splitlines() if line.strip()]
    if len(lines) > MOST_LINES - 2:
        # The last line may be the decision.
        unshown = len(lines) - MOST_LINES + 3
        remainder = f"{unshown} more lines are in the report."
        lines = [*lines[: MOST_LINES - 4], remainder, lines[-1]]
    return [*lines, LIMITS[result.SCHEMA], f"Next: {next_command(result, path)}"]


def next_command(result: Result, path: str) -> str:
    """Return the command that takes a result further."""
    content = result.to_dict()
    decision = content.get("decision") or {}
    if "targets" not in decision or result.NAME in NEXT:
        return NEXT.get(result.NAME, "counterrank history FOLDER --out history.html")
    failed = any(finding.get("status") == "failed" for finding in content.get("audit") or ())
    if failed or content["verdict"]["level"] == "insufficient":
        command = "check" if failed else "plan"
        return _called_again(command, (content.get("provenance") or {}).get("command") or "")
    if decision["action"] == "hold":
        return (
            "counterrank learn LOG --out policy.json, to look for a better policy in the same log"
        )
    chosen = decision.get("target") or next(iter(decision["targets"]), "NAME")
    return (
        f"test {chosen} on users and read it with counterrank abtest LOG --arm COLUMN; then "
        f"{shlex.join(['counterrank', 'outcome', path, '--target', chosen])} --lift LIFT --stderr STDERR"
    )


def _called_again(command: str, line: str) -> str:
    """Return another command for the log of a command line, with the options that it takes too.

    >>> _called_again("check", "counterrank evaluate log.csv --target=new --level .9 --logger top")
    'counterrank check log.csv --target=new --logger top'
    >>> _called_again("plan", "counterrank run job.toml")
    'counterrank plan --config job.toml'
    """
    words = shlex.split(line)[1:]
    if words[:1] == ["run"]:
        return shlex.join(["counterrank", command, "--config", *words[1:2]])
    chosen = ["counterrank", command]
    words = words[1:]
    while words:
        word, words = words[0], words[1:]
        flag, equals, _ = word.partition("=")
        option = BY_FLAG.get(flag)
        size = 0 if option is None or equals or option.kind is Kind.SWITCH else 1
        if word[:2] != "--" or (
            option and option.name in COMMANDS[command].on_line and option.kind is not Kind.OUTPUT
        ):
            chosen += [word, *words[:size]]
        words = words[size:]
    return shlex.join(chosen if len(chosen) > 2 else [*chosen, "LOG"])


def repro(result: Result) -> Json:
    """Return versions, options, shapes and codes of findings: nothing that stands in the log, no names, no paths."""
    content = result.to_dict()
    provenance = content.get("provenance") or {}
    log = content.get("log") or {}
    return {
        "schema": result.SCHEMA,
        "counterrank": provenance.get("counterrank", __version__),
        "python": provenance.get("python", platform.python_version()),
        "platform": platform.platform(),
        "libraries": provenance.get("libraries", {}),
        "options": {
            name: _harmless(name, value) for name, value in provenance.get("options", {}).items()
        },
        "estimators": provenance.get("estimators", []),
        "log": {name: log[name] for name in ("n", "K", "units") if name in log},
        "rows": {
            name: len(value) for name, value in content.items() if isinstance(value, (list, dict))
        },
        "findings": dict(sorted(Counter(_codes(content)).items())),
    }


def _harmless(name: str, value: Any) -> Any:
    """Return a number or a word of ours; of what the user wrote only that, and how much."""
    words = OPTIONS[name].words if name in OPTIONS else ()
    if value is None or isinstance(value, (bool, int, float)) or value in words:
        return value
    return "given" if isinstance(value, str) else f"{len(value)} given"


def _codes(content: Any) -> Iterator[str]:
    """Yield the code and status of every finding, wherever it stands."""
    if isinstance(content, dict):
        code = content.get("code")
        if isinstance(code, str) and "status" in content:
            # Checks by a column carry its name in their code.
            public_code = code if code in TITLES else f"{code.partition('-by-')[0]}-by-a-column"
            yield f"{public_code}: {content['status']}"
        yield from map(str, content.get("flag_codes") or ())
        for value in content.values():
            yield from _codes(value)
    elif isinstance(content, list):
        for value in content:
            yield from _codes(value)
