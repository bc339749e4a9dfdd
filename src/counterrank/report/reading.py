"""What reports ask of an evaluation: the recommended estimate of a target, its evidence, how it looks."""

from typing import Any

from counterrank.estimators import Estimate, Form, Lift, parse
from counterrank.evaluation import Evaluation
from counterrank.findings import Finding
from counterrank.report.document import Mark
from counterrank.report.numbers import known, percent

#: Colours of the style sheet; further targets start again and differ by their shape.
LOOKS = 6


def column_name(name: Any) -> str:
    """Return a column as people call it; a bare number keeps its prefix.

    >>> column_name("x_tenure_days"), column_name("x_3")
    ('tenure days', 'x_3')
    """
    text = str(name)
    short = text.removeprefix("x_")
    return text if not short or short.isdigit() else short.replace("_", " ")


class Reading:
    """An evaluation as a report reads it."""

    def __init__(self, result: Evaluation) -> None:
        self.result, self.log = result, result.log
        #: Checks of the log that failed: nothing else is to be believed before these are mended.
        self.failed = [one for one in result.audit if one.status.value == "failed"]
        #: All estimates that have a value, and the recommended one of each target, also without a value.
        self.estimates = [e for e in result.estimates if known(e.value)]
        chosen = result.recommended
        self.best = {e.target: e for e in result.estimates if e.estimator == chosen[e.target]}
        #: The target policies in the order they were given, and those that are compared with the baseline.
        self.targets = list(dict.fromkeys(e.target for e in result.estimates))
        self.candidates = [name for name in self.targets if name != result.baseline]
        #: Whether lifts are against the policy that served the log; what it and the baseline are called.
        self.over_logger = result.baseline == "logger"
        self.baseline = "today's policy" if self.over_logger else result.baseline
        self.logger = "today's policy" if self.over_logger else "the logging policy"
        #: The confidence level, which all estimates of a run share, and as text.
        self.level = self.estimates[0].level if self.estimates else 0.95
        whole = round(self.level * 100, 6) % 1 == 0
        self.level_words = percent(self.level, digits=0 if whole else 1)
        #: What a reward and a ranking are called.
        self.reward = result.log.words.get("reward") or "reward"
        self.ranking = result.log.words.get("ranking") or "ranking"
        self.unit = f"{self.reward} per {self.ranking}"

    def mark(self, target: str) -> Mark:
        """Return how a target looks: by its place among all, so that it looks the same in every chart."""
        index = self.targets.index(target) if target in self.targets else 0
        return Mark(target, f"t{index % LOOKS}", index)

    def action(self, target: str) -> str:
        """Return what the decision says of a target: "ship", "test" or "hold"."""
        return self.result.decision.targets.get(target, self.result.decision.action)

    def of(self, target: str) -> list[Estimate]:
        """Return the estimates of a target that have a value, the recommended one first."""
        found = [e for e in self.estimates if e.target == target]
        return sorted(found, key=lambda e: e is not self.best[target])

    def lift(self, target: str) -> Lift:
        """Return the lift of a target by the recommended estimator."""
        return self.best[target].lift

    def evidence(self, target: str) -> str:
        """Return the evidence level of a target; empty where no verdict was made."""
        level = self.result.verdict.of(target)
        return "" if level == "none" else level

    def doubtful(self, target: str) -> bool:
        """Return whether the evidence on a target is insufficient."""
        return self.evidence(target) == "insufficient"

    def reasons(self, target: str) -> list[Finding]:
        """Return the reasons behind the evidence level of a target."""
        return [one for one in self.result.verdict.reasons if one.target == target]


def family(name: str) -> str:
    """Return "weights", "model" or "biased": the group an estimator is shown in.

    >>> family("ips"), family("dr-order-2"), family("iips")
    ('weights', 'model', 'biased')
    """
    return "biased" if known_bias(name) else "model" if parse(name).uses_model else "weights"


def known_bias(name: str) -> str:
    """Return why an estimator is off as soon as items act on each other, nothing where it is not.

    >>> known_bias("sniips"), known_bias("dr-iips")
    ('ignores every other item', '')
    """
    parsed = parse(name)
    if parsed.weights == "iips" and parsed.form in (Form.PLAIN, Form.RATIO, Form.CONTROL):
        return "ignores every other item"
    return "trusts its reward model alone" if name == "dm" else ""
