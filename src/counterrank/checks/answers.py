"""Findings put together: questions that were answered, and findings that another one is the cause of."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from counterrank.common.errors import ConfigError
from counterrank.common.findings import PASSED, SEVERITY, TITLES, Finding
from counterrank.common.records import Record, optional
from counterrank.common.texts import suggestion

#: A size in an answer holds for sizes within this factor. Without one, sizes up to the second factor are
#: accepted: whoever says that a country differs has not said that it earns nothing.
SAME_SIZE, ANY_SIZE = 1.5, 10.0
#: One part of a pattern: a column, a comparison, and a text, a number or a list.
_CLAUSE = re.compile(
    r"\s*([\w.]+)\s*(=|!=|>=|<=|<|>|\bin\b)\s*('(?:[^']|'')*'|\([^)]*\)|[^\s'()]+)\s*"
)
_AND = re.compile(r"and\b", re.IGNORECASE)
#: The part of a pattern that says how large it is, in relation to other rows.
SIZE = "ratio"


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """An answer to questions: a code, the pattern that is accepted, and why.

    >>> pattern = "device = 'mobile' and ratio = 0.6"
    >>> asked = Finding("rewards-by-level", "warned", "...", kind="question", pattern=pattern)
    >>> Answer.parse("rewards-by-level where device = 'mobile'").fits(asked)
    True
    >>> known = "rewards-by-level where device = 'mobile' and ratio = "
    >>> [Answer.parse(f"{known}{ratio}").fits(asked) for ratio in (0.5, 0.2)]
    [True, False]
    """

    code: str
    where: str = optional(default="")
    reason: str = optional(default="")

    @classmethod
    def parse(cls, answer: "str | Mapping[str, str] | Answer") -> "Answer":
        """Return an answer from 'CODE where CONDITION', or from a mapping with `code`, `where` and `reason`.

        Raises
        ------
        ConfigError
            There is no such code, or the condition cannot be read.
        """
        if isinstance(answer, Answer):
            return answer
        if isinstance(answer, Mapping):
            if unknown := sorted({*map(str, answer)} - {"code", "where", "reason"}):
                raise ConfigError(
                    f"accept has the unknown key '{unknown[0]}'{suggestion(unknown[0], ['code', 'where', 'reason'])}; "
                    "its keys are code, where and reason"
                )
            parts: list[object] = [answer.get(name) or "" for name in ("code", "where", "reason")]
        else:
            # Whatever a script or a file gives is looked at below.
            parts = [*re.split(r"\s+where\s+", str(answer), maxsplit=1)]
        texts = [text.strip() for text in parts if isinstance(text, str)]
        if len(texts) < len(parts) or not texts[0]:
            raise ConfigError(f"accept is 'CODE' or 'CODE where CONDITION', got {answer!r}")
        parsed = cls(*texts)
        if not any(
            title_code == parsed.code or _of_column(title_code, parsed.code)
            for title_code in TITLES
        ):
            raise ConfigError(
                f"accept: there is no check '{parsed.code}'{suggestion(parsed.code, list(TITLES))}"
            )
        clauses(parsed.where)
        return parsed

    def __str__(self) -> str:
        return f"{self.code} where {self.where}" if self.where else self.code

    def fits(self, finding: Finding) -> bool:
        """Return whether a finding asks what is answered here."""
        if finding.code != self.code:
            return False
        accepted, pattern = clauses(self.where), clauses(finding.pattern)
        declared, size = (
            _number(clauses_of.pop((SIZE, "="), None)) for clauses_of in (accepted, pattern)
        )
        if size is not None:
            factor = SAME_SIZE if declared is not None else ANY_SIZE
            if size <= 0 or abs(math.log(size / (declared or 1.0))) > math.log(factor):
                return False
        return accepted.items() <= pattern.items()


#: What `accept` may be: texts 'CODE where CONDITION', or mappings with `code`, `where` and `reason`.
Accept = Iterable[str | Mapping[str, str] | Answer] | str | Mapping[str, str]


def answers_of(accept: Accept | None) -> tuple[Answer, ...]:
    """Return the answers that `accept` gives: one or several."""
    answers = [accept] if isinstance(accept, (str, Mapping, Answer)) else accept
    return tuple(map(Answer.parse, answers or ()))


def _of_column(title_code: str, code: str) -> bool:
    """Return whether a code is that of a check by some column of the log."""
    return title_code.endswith("-by-group") and code.startswith(title_code.removesuffix("group"))


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise ConfigError(f"accept: {SIZE} is a number, got '{text}'") from None


def clauses(where: str) -> dict[tuple[str, str], str]:
    """Return the parts of a condition: the value by column and comparison.

    >>> clauses("x_device = 'mobile' AND position >= 5")
    {('device', '='): 'mobile', ('position', '>='): '5'}
    """
    compared: dict[tuple[str, str], str] = {}
    place = 0
    while place < len(where):
        match = _CLAUSE.match(where, place)
        if match is None:
            raise ConfigError(
                f"accept: cannot read '{where[place:].strip()}'; write a condition such as "
                "device = 'mobile' and position >= 5"
            )
        column, sign, value = match.groups()
        # A context column is called with and without its prefix.
        compared[column.removeprefix("x_"), sign] = (
            value[1:-1].replace("''", "'") if value[0] == "'" else value
        )
        place = match.end()
        if place < len(where):
            joined = _AND.match(where, place)
            if joined is None:
                raise ConfigError(f"accept: parts of '{where}' are joined by and")
            place = joined.end()
            if not where[place:].strip():
                raise ConfigError(f"accept: '{where}' ends with and")
    return compared


def condition(column: str, labels: Sequence[str], size: float | None = None) -> str:
    """Return the pattern of groups of rows.

    >>> condition("x_device", ["mobile"], 0.6123)
    "x_device = 'mobile' and ratio = 0.61"
    """
    quoted = ["'{}'".format(label.replace("'", "''")) for label in labels]
    told = (
        f"{column} = {quoted[0]}"
        if len(quoted) == 1
        else f"{column} in ({', '.join(sorted(quoted))})"
    )
    return told if size is None else f"{told} and {SIZE} = {max(size, 0.001):.2g}"


def concluded(findings: Iterable[Finding], accept: Iterable[Answer] = ()) -> list[Finding]:
    """Return the findings of a log as people see them: answered, and each with its cause.

    A finding is the cause of those whose codes its `explains` has patterns of, and of what these explain
    in turn, unless they are graver, of another target, or about rows that stand apart while it is not.
    """
    told, accept, causes = [*findings], tuple(accept), dict[int, int]()
    if accept:
        told = [_answered(finding, accept) for finding in told]
    places = [place for place, finding in enumerate(told) if finding.blamed and finding.explains]
    # What nothing explains is a cause; of those that explain each other, the first one.
    covered = {
        place
        for place in places
        if any(_explains(told[rival], told[place]) for rival in places if rival != place)
    }
    for root in sorted(places, key=lambda place: (place in covered, *_first(told[place]))):
        waiting = [] if root in causes else [root]
        while waiting:
            cause = told[waiting.pop()]
            for place, finding in enumerate(told):
                if place != root and place not in causes and _explains(cause, finding):
                    causes[place] = root
                    waiting.append(place)
    explained: dict[int, list[str]] = {}
    for place, root in causes.items():
        explained.setdefault(root, []).append(told[place].code)
    return [
        replace(
            finding,
            explains=tuple(dict.fromkeys(explained.get(place, ()))),
            explained_by=told[causes[place]].code if place in causes else "",
        )
        for place, finding in enumerate(told)
    ]


def _first(finding: Finding) -> tuple[int, bool, bool]:
    # What can be left out is more of a cause than what is off on the whole; a stretch of rows says least.
    return (
        -SEVERITY.index(finding.status),
        not finding.where,
        finding.code.endswith(("-by-block", "-by-stretch")),
    )


def _explains(cause: Finding, explained: Finding) -> bool:
    graver = SEVERITY.index(explained.status) > SEVERITY.index(cause.status)
    if not explained.blamed or graver or (explained.where and not cause.where):
        return False
    if cause.target is not None and explained.target not in (None, cause.target):
        return False
    return any(fnmatchcase(explained.code, pattern) for pattern in cause.explains)


def _answered(finding: Finding, accept: Sequence[Answer]) -> Finding:
    """Return a question that was answered as passed, with the reason; all else as it is."""
    if finding.kind != "question" or not finding.blamed:
        return finding
    fitting = next((answer for answer in accept if answer.fits(finding)), None)
    if fitting is None:
        return finding
    return replace(finding, status=PASSED, accepted={"reason": fitting.reason})
