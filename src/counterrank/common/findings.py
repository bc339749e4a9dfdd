"""One type for everything a check can say: the audit, the verdict, the decision, notes and skipped estimators.

A check is a function `check(subject) -> Findings`. Verdict, decision and advice are functions
of findings. `TITLES` names every code; codes are stable, texts are not.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from counterrank.common.records import Json, Record, optional


class Outcome(StrEnum):
    """What a check came to. It also equals the shorter word that the verdict's JSON uses.

    >>> Outcome.FAILED == "failed", Outcome.FAILED == "fail", Outcome("warn")
    (True, True, <Outcome.WARNED: 'warned'>)
    """

    PASSED = "passed"
    WARNED = "warned"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def word(self) -> Literal["pass", "warn", "fail"]:
        """The imperative that the verdict's JSON uses.

        >>> Outcome.WARNED.word
        'warn'
        """
        return "fail" if self is Outcome.FAILED else "warn" if self is Outcome.WARNED else "pass"

    @classmethod
    def _missing_(cls, value: object) -> "Outcome | None":
        return {"pass": cls.PASSED, "warn": cls.WARNED, "fail": cls.FAILED}.get(str(value))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Outcome):
            return self is other
        return other == self.value or (other == self.word and self is not Outcome.SKIPPED)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


PASSED, WARNED, FAILED, SKIPPED = Outcome
#: From harmless to grave.
SEVERITY = (SKIPPED, PASSED, WARNED, FAILED)

#: A place in the log: the row, the position, the value seen.
Example = dict[str, object]

#: What a finding that did not pass does. "refuted": numbers of the log contradict each other or what was
#: declared; it takes the headline. "question": a pattern that a broken pipeline and a healthy service
#: share; it keeps the evidence at directional until somebody answers it (`accept`). "note": worth knowing.
Kind = Literal["refuted", "question", "note"]
#: What a finding speaks of; it chooses the headline.
About = Literal["propensities", "scores", "rewards", "events", "users", "rows", "targets", ""]


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """What a check says, and what would help: each remedy would do by itself.

    How a report reads a list of findings: those with `explained_by` are folded below the finding of that
    code, which names them in `explains`. `kind` says what the others do. A question has the line that
    answers it in `answer`; one that was answered has passed, and `accepted` holds the reason.

    >>> units = Finding("units", WARNED, "80 rows", ("more rows",), target="new")
    >>> units.blamed, units["code"], units.help, str(units)
    (True, 'units', 'more rows', 'units: 80 rows')
    >>> units.to_dict()["kind"], Finding.from_dict({"check": "units", "status": "warn", "found": "80 rows"}).text
    ('note', '80 rows')
    """

    code: str
    status: Outcome
    text: str
    remedies: tuple[str, ...] = ()
    #: The one target that it concerns; None where it concerns the log.
    target: str | None = optional()
    cause: str = ""
    examples: tuple[Example, ...] = ()
    kind: Kind = "note"
    about: About = ""
    #: Rows in all that would do, where more rows are a remedy.
    rows: int | None = optional()
    #: An estimate from such a log is worth nothing, whatever else is in order.
    fatal: bool = optional(default=False)
    #: The estimator, column or group that it is about.
    subject: str = optional(default="")
    #: The condition on rows that leaves out what is wrong.
    where: str = optional(default="")
    #: The pattern that was seen, as a condition: its rows, positions and size.
    pattern: str = optional(default="")
    #: The answer with its `reason`, where a question was answered.
    accepted: dict[str, str] | None = optional()
    #: Codes of the findings that it is the cause of; before the findings of a log are put together,
    #: patterns of codes.
    explains: tuple[str, ...] = optional(default=())
    #: The code of the finding that is its cause.
    explained_by: str = optional(default="")

    @property
    def blamed(self) -> bool:
        """The check did not pass."""
        return self.status in (WARNED, FAILED)

    @property
    def stands(self) -> bool:
        """The check did not pass, and nothing else in the list is the cause."""
        return self.blamed and not self.explained_by

    @property
    def answer(self) -> str:
        """The text for `accept` that answers a question; nothing where nobody is asked."""
        if self.kind != "question" or not (self.blamed or self.accepted):
            return ""
        return f"{self.code} where {self.pattern}" if self.pattern else self.code

    @property
    def title(self) -> str:
        """The name of the check for people."""
        return TITLES.get(self.code, self.code.replace("-", " ").replace("_", " "))

    @property
    def help(self) -> str:
        """The remedies in one text."""
        return ", or ".join(self.remedies)

    @property
    def advice(self) -> str:
        """The likely cause and the remedies."""
        return "; ".join(text for text in (self.cause, self.help) if text)

    def __getitem__(self, key: str) -> Any:
        return Record.__getitem__(self, key) if key in self.keys() else self._older(key, KeyError)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return self._older(name, AttributeError)

    def _older(self, name: str, error: type[Exception]) -> Any:
        if name not in _OLDER_NAMES:
            raise error(name)
        return getattr(self, _OLDER_NAMES[name])

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"

    def to_dict(self) -> Json:
        """Return the JSON form; a question has the text that answers it beside its fields."""
        answer = self.answer
        return {**Record.to_dict(self), **({"answer": answer} if answer else {})}

    @classmethod
    def updated(cls, record: Mapping[str, Any]) -> Json:
        """Return a finding of an older file under the names of today's fields."""
        named = {**record}
        for older, name in _OLDER_NAMES.items():
            if older in named:
                named.setdefault(name, named.pop(older))
        # A text of older files, which had no list of remedies.
        helping = named.pop("help", "")
        if helping and not named.get("remedies"):
            named["remedies"] = [helping]
        # Skipped estimators had no status.
        return {"code": "skipped", "status": SKIPPED.value, **named}


#: What a check yields.
Findings = Iterator[Finding]


#: Names that lines of the audit, reasons of a verdict and skipped estimators had, and have in JSON.
_OLDER_NAMES = {
    "check": "code",
    "found": "text",
    "reason": "text",
    "remedy": "help",
    "help": "help",
    "ways": "remedies",
    "estimator": "subject",
}


def worst(statuses: Iterable[Outcome]) -> Outcome:
    """Return the gravest of several outcomes; passed where there is none.

    >>> worst([PASSED, FAILED, WARNED]), worst([])
    (<Outcome.FAILED: 'failed'>, <Outcome.PASSED: 'passed'>)
    """
    return max(statuses, key=SEVERITY.index, default=PASSED)


#: The headline where something that a finding speaks of is refuted.
WRONG: dict[str, str] = {
    "propensities": "The propensities look wrong",
    "scores": "The logger's scores look wrong",
    "rewards": "The rewards look wrong",
    "events": "The events look wrong",
    "users": "The users look wrong",
    "targets": "The target looks wrong",
    "rows": "The log looks wrong",
}
#: What each code is called. Codes of the audit come first, then those of the verdict, of the decision
#: and of A/B tests.
TITLES: dict[str, str] = {
    "readable": "The file can be read",
    "logged-propensities": "Propensities are logged",
    "exploration": "The logger explores",
    "propensity-kind": "The kind of propensities fits their values",
    "scores": "Shown items fit the logger's scores",
    "scores-by-group": "Scores are followed equally in every group",
    "scores-by-target": "The target knows nothing of what was shown",
    "mean-weight": "Weights average 1",
    "mean-weight-by-group": "Weights average 1 in every group",
    "robots": "No unit looks like a robot",
    "probabilities": "Probabilities lie between 0 and 1",
    "rounding": "Propensities have enough digits",
    "target-differs": "The target differs from the logger",
    "candidates": "Shown items were candidates",
    "calibration": "Propensities fit what was shown",
    "drift": "Rewards do not drift over time",
    "duplicates": "No row is repeated",
    "rewards-events-join": "Events join with what was shown",
    "rewards-events-orphans": "Events belong to rankings of the log",
    "rewards-events-unshown": "Events are about items that were shown",
    "rewards-events-doubled": "No event is repeated",
    "rewards-events-early": "Events come after the impression",
    "rewards-events-several": "Each event counts once",
    "rewards-events-late": "Events come within the window",
    "scores-join": "Scores join with the candidates",
    "scores-orphans": "Scores belong to candidates of the log",
    "scores-doubled": "No row of scores is repeated",
    "scores-contradictory": "Scores of one candidate agree",
    "scores-missing": "Candidates have scores",
    "rewards": "Rewards vary",
    "units": "Enough independent rows or units",
    "context": "No value of the context is missing",
    "inverse-propensity": "Propensities are not too small",
    "propensity-vs-distribution": "Propensities and distributions agree",
    "repeated-items": "Items repeat as independent draws do",
    "rewards-by-position": "No position lost its rewards",
    "rewards-by-stretch": "No run of consecutive rows lost its rewards",
    "rewards-by-item": "No items lost their rewards",
    "rewards-by-neighbour": "Rewards are recorded at the right item",
    "rewards-by-magnitude": "Amounts of an item have one order of magnitude",
    "rewards-by-page": "Pages without rewards were not dropped",
    "rewards-by-count": "Pages with many rewards were not dropped",
    "rewards-by-level": "No group of rows lost its rewards",
    "rewards-by-day": "No day lost its rewards",
    "rewards-by-level-and-day": "No group lost its rewards after some day",
    "rewards-by-category": "No category of items lost its rewards",
    "rewards-by-popularity": "Popular items have their rewards",
    "rewards-counted-twice": "Rewards are counted once",
    "rewards-capped": "Amounts are not capped",
    "rewards-in-other-units": "Amounts are in one unit",
    "rewards-by-visit": "Rewards are recorded at the right page",
    "lift-by-halves": "The lift is the same in both halves of the log",
    "target-scores": "The target's scores belong to their rows",
    "user-column": "Rows of one user are grouped by a unit column",
    "denominator-near-zero": "The denominator of a ratio is known precisely",
    "estimable": "There is an estimate",
    "model-alone": "The estimate can be checked by weights",
    "ess": "Enough effective rows",
    "outcomes": "Enough rows with an outcome",
    "tail": "The largest weights are not too large",
    "concentration": "No single row has much of the weight",
    "support": "The logger shows what the target would show",
    "agreement": "Estimators that assume less agree",
    "precision": "The interval is narrow enough",
    "propensities": "Propensities were logged, not estimated",
    "fresh-target": "The target was not trained on this log",
    "auto": "The interval allows for bias",
    "baseline-evidence": "The evidence on the baseline is as good",
    "primary-better": "The primary metric is better",
    "primary-worse": "The primary metric is worse",
    "primary-open": "The primary metric is undecided",
    "primary-same": "The primary metric is the same",
    "primary-enough": "The test would have seen a lift that matters",
    "primary-evidence": "The evidence on the primary metric is weak",
    "guardrail-safe": "A guardrail is safe",
    "guardrail-broken": "A guardrail is broken",
    "guardrail-open": "A guardrail is undecided",
    "guardrail-evidence": "The evidence on a guardrail is weak",
    "skipped": "An estimator was not run",
    "arm-weights": "The weights of an arm average 1",
    "arms-contradict": "Plain and pooled lift agree",
    "sample-ratio": "The arms have the planned shares of the rows",
    "sample-ratio-by-group": "The arms have the same shares in every group",
    "units-in-several-arms": "Each unit is in one arm",
    "visits-differ": "Units of all arms return equally often",
    "weights-only": "Pages of the arms can be drawn",
    "no-common-pages": "The arms have pages in common",
}
