"""What reports ask of an evaluation: the recommended estimate of a target, its evidence, its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from counterrank.errors import ConfigError
from counterrank.estimators import Estimate, Form, Lift, parse
from counterrank.report.document import Mark
from counterrank.report.numbers import known
from counterrank.statistics import Number

if TYPE_CHECKING:
    from counterrank.evaluation import Evaluation, LogSummary, OrderPoint
    from counterrank.findings import Finding
    from counterrank.weights.diagnostics import Support, WeightReport


#: A value with its error and interval: an estimate, a lift, a comparison, the lift of a segment.
Interval = Estimate | Number

#: Colours of the style sheet; further targets start again and differ by their shape.
LOOKS = 6


def ends(low: float, high: float) -> tuple[float, float] | None:
    """Return both ends of an interval, None where one is missing."""
    return (low, high) if known(low) and known(high) else None


def table(value: Any) -> Mapping[str, Any]:
    """Return a mapping of an estimator's details, empty when it is something else."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list, none when it is something else."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def whole_matrix(value: Any) -> list[list[float]]:
    """Return a square list of lists of finite numbers, empty when it is something else.

    >>> whole_matrix([[0, 1], [2, 0]]), whole_matrix([[0, 1], [2]]), whole_matrix([[0, 1], None])
    ([[0.0, 1.0], [2.0, 0.0]], [], [])
    """
    if not (_is_list(value) and all(map(_is_list, value))):
        return []
    # A line that lost an entry is too short below: a matrix with a hole is none.
    square = [[float(item) for item in line if known(item)] for line in value]
    return square if all(len(line) == len(value) for line in square) else []


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def column_name(name: Any) -> str:
    """Return a column as people call it; a bare number keeps its prefix.

    >>> column_name("x_tenure_days"), column_name("x_3")
    ('tenure days', 'x_3')
    """
    text = str(name)
    short = text.removeprefix("x_")
    return text if not short or short.isdigit() else short.replace("_", " ")


def texts(value: Any) -> list[str]:
    """Return the entries of a list as texts."""
    return [str(item) for item in value if item is not None] if _is_list(value) else []


@dataclass(frozen=True)
class Reading:
    """An evaluation as a report reads it."""

    result: Evaluation

    @property
    def log(self) -> LogSummary:
        """What is known of the log."""
        return self.result.log

    @property
    def estimates(self) -> list[Estimate]:
        """All estimates that have a value."""
        return [e for e in self.result.estimates if known(e.value)]

    def silent(self, target: str) -> list[str]:
        """Return the estimators that have no value for a target and say why."""
        return [e.estimator for e in self._all_of(target) if not e.estimable]

    def _all_of(self, target: str) -> list[Estimate]:
        """Return the estimates of a target, with and without a value."""
        return [e for e in self.result.estimates if e.target == target]

    @property
    def regressions(self) -> list[Mapping[str, Any]]:
        """What each estimate tells of its reward model, empty where it has none."""
        return [table(e.details.get("regression")) for e in self.estimates]

    @property
    def targets(self) -> list[str]:
        """The target policies in the order they were given."""
        return list(dict.fromkeys(e.target for e in self.result.estimates))

    def mark(self, target: str) -> Mark:
        """Return how a target looks: by its place among all, so that it looks the same in every chart."""
        index = self.targets.index(target) if target in self.targets else 0
        return Mark(target, f"t{index % LOOKS}", index)

    def action(self, target: str) -> str:
        """Return what the decision says of a target: "ship", "test" or "hold"."""
        return self.result.decision.targets.get(target, self.result.decision.action)

    @property
    def lower_is_better(self) -> bool:
        """Whether less of the primary metric is better."""
        return any(one.lower_is_better for one in self.result.metrics if one.primary)

    @property
    def several(self) -> bool:
        """Whether more was asked than one metric over the logging policy."""
        result = self.result
        return len(result.metrics) > 1 or bool(result.guardrails) or not self.over_logger

    @property
    def over_logger(self) -> bool:
        """Whether lifts are against the policy that served the log."""
        return self.result.baseline == "logger"

    @property
    def candidates(self) -> list[str]:
        """The targets that are compared with the baseline: all that are not the baseline."""
        return [name for name in self.targets if name != self.result.baseline]

    @property
    def baseline_words(self) -> str:
        """What lifts are against, in words."""
        return "today's policy" if self.over_logger else self.result.baseline

    @property
    def logger_words(self) -> str:
        """What the policy that served the log is called: today's only where nothing else is."""
        return "today's policy" if self.over_logger else "the logging policy"

    def not_estimable(self, target: str) -> str:
        """Return why the recommended estimate of a target has no value; nothing where it has one."""
        best = self.best(target)
        return "" if known(best.value) else best.not_estimable or "the log has no evidence on it"

    @property
    def level(self) -> float:
        """The confidence level."""
        # All estimates of a run have one level.
        return self.estimates[0].level if self.estimates else 0.95

    def reach(self, error: float) -> float:
        """Return half the width of a normal interval of a standard error."""
        return NormalDist().inv_cdf(0.5 + self.level / 2) * error

    @property
    def practical(self) -> float | None:
        """The smallest relative lift that matters, if the user gave one."""
        return self.result.provenance.options.practical

    def of(self, target: str) -> list[Estimate]:
        """Return the estimates of a target that have a value, the recommended one first."""
        best = self.recommended(target)
        found = [e for e in self._all_of(target) if known(e.value)]
        return sorted(found, key=lambda e: e.estimator != best)

    def recommended(self, target: str) -> str:
        """Return the name of the recommended estimator of a target."""
        return self.result.recommended[target]

    def best(self, target: str) -> Estimate:
        """Return the recommended estimate of a target; one without a value stays recommended."""
        return self.result.estimate(target)

    def error(self, target: str, e: Estimate) -> float:
        """Return the error whose digits a column of estimates has: the recommended one's."""
        best = self.best(target).stderr
        return best if known(best) and best else e.stderr

    def lift(self, target: str) -> Lift:
        """Return the lift of a target by the recommended estimator."""
        return self.best(target).lift

    def diagnostics(self, target: str, estimator: str) -> WeightReport | None:
        """Return the diagnostics of the weights of one estimate."""
        return self.result.diagnostics.of(target, estimator)

    def support(self, target: str) -> Support | None:
        """Return what the logger rarely or never shows of a target."""
        return self.result.diagnostics.support.get(target)

    def evidence(self, target: str | None = None) -> str:
        """Return the evidence level of a target, or of all; empty where no verdict was made."""
        verdict = self.result.verdict
        level = verdict.level if target is None else verdict.of(target)
        return "" if level == "none" else level

    def reasons(self, target: str) -> list[Finding]:
        """Return the reasons behind the evidence level of a target."""
        return [one for one in self.result.verdict.reasons if one.target == target]

    def words(self) -> tuple[str, str]:
        """Return what a reward and a ranking are called: ("reward", "ranking") unless the log says."""
        words = self.log.words
        return words.get("reward") or "reward", words.get("ranking") or "ranking"

    def order_path(self, target: str) -> list[OrderPoint]:
        """Return the estimates of the weights alone from IIPS to IPS, none where there is one only."""
        recorded = self.result.diagnostics.order_path.get(target, ())
        path = [point for point in recorded if known(point.value)]
        return path if len(path) > 1 else []

    def model_path(self, target: str) -> list[OrderPoint]:
        """Return the same around a reward model, where an estimator has recorded it."""
        from counterrank.evaluation import OrderPoint

        for found in self.of(target):
            # Details are free: what an estimator of somebody's own calls by this name may be anything.
            with suppress(ConfigError):
                path = [OrderPoint.from_dict(row) for row in rows(found.details.get("order_path"))]
                if len(path) > 1:
                    return [self._with_interval(point) for point in path if known(point.value)]
        return []

    def _with_interval(self, point: OrderPoint) -> OrderPoint:
        if known(point.low) or not known(point.stderr):
            return point
        reach = self.reach(point.stderr)
        return replace(point, low=point.value - reach, high=point.value + reach)


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
