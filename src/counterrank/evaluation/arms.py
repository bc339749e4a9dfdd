"""Validation: predict each arm of a past A/B test from each other arm, and compare with what it earned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from counterrank.data.columns import as_texts
from counterrank.data.log import RankingLog
from counterrank.data.validation import no_weight
from counterrank.errors import ConfigError, LogError, MissingColumnError
from counterrank.estimators import Estimate
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.run import evaluate, is_read, metrics_of
from counterrank.evaluation.tables import MetricResult
from counterrank.metrics import Metric, PageFunction, Ratio, measured
from counterrank.options import LEVEL, SEED
from counterrank.records import Json, Record, RecordResult, Result, optional
from counterrank.statistics import Number, Quantity, check_level, critical_value, means_of

if TYPE_CHECKING:
    from counterrank.io import LogLike, OpenOptions
    from counterrank.report.document import Document


#: Arms smaller than this say nothing about an interval's coverage.
FEWEST_ROWS = 100
#: Far more is a column of something else.
MOST_ARMS = 20


@dataclass(frozen=True, slots=True)
class PairRow(Record):
    """A prediction beside what was earned, as it is written down."""

    source: str = field(metadata={"key": "from"})
    to: str
    predicted: float
    stderr: float
    low: float
    high: float
    earned: float
    earned_stderr: float
    estimator: str = ""
    base: float = float("nan")
    #: None: a prediction without an interval can neither hold nor fail.
    covered: bool | None = None
    sign_right: bool | None = None
    false_better: bool = False
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class ValidationSummary(Record):
    """How often intervals held and signs were right, and the mean error with its interval."""

    pairs: int
    level: float = 0.95
    coverage: float | None = None
    sign_agreement: float | None = None
    claimed_better: int = 0
    false_better: int = 0
    bias: float = float("nan")
    bias_low: float = float("nan")
    bias_high: float = float("nan")
    relative_bias: float = float("nan")


@dataclass(frozen=True, slots=True)
class ValidationReport(RecordResult):
    """A validation as its JSON file has it."""

    SCHEMA, NAME, ROWS = "counterrank/validation/1", "validation", "pairs"

    pairs: tuple[PairRow, ...]
    agreement: ValidationSummary = field(metadata={"key": "summary"})
    #: The metric, and of the primary the reports of all metrics where there are several.
    name: str = optional(default="")
    metrics: tuple[ValidationReport, ...] = optional(default=())

    def document(self) -> Document:
        """Return what the comparison says, as blocks."""
        from counterrank.report import validating

        return validating.document(self)


@dataclass(frozen=True, slots=True)
class Pair:
    """One arm predicted from another's rows, beside what it earned on its own."""

    source: str
    arm: str
    estimate: Estimate
    earned: Number
    #: What the predicting arm earned itself: the sign of a lift is against it.
    base: Number
    verdict: str

    @property
    def error(self) -> float:
        """Predicted - earned."""
        return self.estimate.value - self.earned.value

    @property
    def covered(self) -> bool | None:
        """Whether prediction and outcome agree at the level of the interval; None without one.

        Both are noisy and rest on different rows, so their half-widths are added in quadrature: a
        right prediction is called covered as often as its level says.
        """
        low, high = self.estimate.interval()
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        reach = math.hypot(
            (high - low) / 2, critical_value(self.estimate.level) * self.earned.stderr
        )
        return abs(self.earned.value - (low + high) / 2) <= reach

    @property
    def sign_right(self) -> bool | None:
        """Whether the predicted lift has the sign of the test's; None where nothing was predicted."""
        if not self.estimate.estimable:
            return None
        return bool(
            np.sign(self.estimate.lift.value) == np.sign(self.earned.value - self.base.value)
        )

    @property
    def false_better(self) -> bool:
        """Whether the prediction claims "better" and the A/B test earned less.

        "Better" is an interval of the lift that lies above zero.
        """
        return self.estimate.lift.low > 0 and self.earned.value < self.base.value

    def row(self) -> PairRow:
        """Return what is written down of the pair."""
        low, high = self.estimate.interval()
        return PairRow(
            source=self.source,
            to=self.arm,
            estimator=self.estimate.estimator,
            predicted=self.estimate.value,
            stderr=self.estimate.stderr,
            low=low,
            high=high,
            earned=self.earned.value,
            earned_stderr=self.earned.stderr,
            base=self.base.value,
            covered=self.covered,
            sign_right=self.sign_right,
            false_better=self.false_better,
            verdict=self.verdict,
        )

    def to_dict(self) -> Json:
        """Return plain data."""
        return self.row().to_dict()


@dataclass(frozen=True, slots=True, eq=False)
class Validation(Result):
    """How far predictions from each arm agree with what the other arms earned."""

    SCHEMA, NAME, ROWS = ValidationReport.SCHEMA, ValidationReport.NAME, ValidationReport.ROWS

    pairs: tuple[Pair, ...]
    level: float
    #: Mean of predicted - earned over the pairs, and its standard error.
    bias: float
    bias_stderr: float
    #: The metric, and every metric by name where there are several, the primary first.
    name: str = ""
    metrics: Mapping[str, Validation] = field(default_factory=dict)

    @property
    def agreement(self) -> ValidationSummary:
        """Return coverage, agreement of signs, false claims, and the mean error with its interval."""
        judged = [pair for pair in self.pairs if pair.covered is not None]
        signs = [pair.sign_right for pair in self.pairs if pair.sign_right is not None]
        claims = [pair for pair in self.pairs if pair.estimate.lift.low > 0]
        reach = critical_value(self.level) * self.bias_stderr
        return ValidationSummary(
            pairs=len(self.pairs),
            level=self.level,
            coverage=_share([bool(pair.covered) for pair in judged]),
            sign_agreement=_share(signs),
            claimed_better=len(claims),
            false_better=sum(pair.false_better for pair in claims),
            bias=self.bias,
            bias_low=self.bias - reach,
            bias_high=self.bias + reach,
            relative_bias=self.bias / self._scale if self._scale else math.nan,
        )

    @property
    def report(self) -> ValidationReport:
        """What is written down and shown."""
        rows = tuple(pair.row() for pair in self.pairs)
        others = tuple(one.report for one in self.metrics.values())
        return ValidationReport(rows, self.agreement, self.name, others)

    @property
    def _scale(self) -> float:
        return float(np.mean([pair.earned.value for pair in self.pairs]))

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return self.report.to_dict()

    def document(self) -> Document:
        """Return what the comparison says, as blocks."""
        return self.report.document()

    def __repr__(self) -> str:
        """Return the summary in a line."""
        found = self.agreement
        bias = f"{self.bias:.4g}" if math.isfinite(self.bias) else "unknown"
        return f"Validation(pairs={found.pairs}, coverage={found.coverage}, bias={bias})"


def validate(
    log: LogLike,
    arm: str,
    *,
    estimators: Sequence[str] | str | None = "auto",
    level: float = LEVEL,
    seed: int = SEED,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    **reading: Unpack[OpenOptions],
) -> Validation:
    """Return how well every arm of a past A/B test is predicted from each other arm's rows.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
        `propensity` is that of the arm that served a row; each arm has a column (or a target) of its
        own name: its probabilities of the shown items in all rows.
    arm
        The column that says which arm served a row.
    estimators
        The one estimator to judge.
    level
        Confidence of the intervals.
    seed
        Every random stream follows it.
    rewards
        Several metrics by name, as in `evaluate`.
    primary
        The metric that comes first: the first by default.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `logger`, `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`, "local",
        "dask" or "spark"; `where`, a mapping that keeps some rows, {"device": "mobile"}.

    Returns
    -------
    Validation
        A prediction and what was earned for each pair of arms, and how often the intervals held; of
        several metrics each under `metrics`.

    Raises
    ------
    CounterrankError
        An arm has no column, too few rows, or the log cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> import counterrank as cr
    >>> half = np.full((400, 1), 0.5)
    >>> rng = np.random.default_rng(0)
    >>> action, reward = rng.integers(2, size=(2, 400, 1))
    >>> log = cr.RankingLog(
    ...     action=action, reward=reward, propensity=half, targets={"a": half, "b": half},
    ...     columns={"arm": np.repeat(["a", "b"], 200)},
    ... )
    >>> [(pair.source, pair.arm) for pair in cr.validate(log, "arm", estimators="ips").pairs]
    [('a', 'b'), ('b', 'a')]
    """
    check_level(level)
    metrics = metrics_of(log, rewards, primary, ())
    beside: Any = {} if metrics is None or is_read(log) else {"rewards": metrics.operands}
    whole, arms = with_arms(log, arm, {**reading, **beside})
    parts = {name: whole.where(labels_of(whole, arm) == name) for name in arms}
    common: Any = {"estimators": estimators, "level": level, "seed": seed}
    if metrics is not None:
        common |= {"rewards": rewards, "primary": primary}
    found = {
        name: evaluate(part, [other for other in arms if other != name], **common)
        for name, part in parts.items()
    }
    if metrics is None:
        return _validated("", found, {name: earned_by(part) for name, part in parts.items()}, level)
    every = {
        metric.name: _validated(
            metric.name,
            found,
            {name: _earned_of(part, metric) for name, part in parts.items()},
            level,
        )
        for metric in sorted(metrics.every, key=lambda one: one.name != metrics.primary)
    }
    return replace(every[metrics.primary], metrics=every)


def _validated(
    metric: str, found: Mapping[str, Evaluation], earned: Mapping[str, Number], level: float
) -> Validation:
    """Return the validation of one metric; of the only one where it has no name."""
    own: dict[str, Evaluation | MetricResult] = {
        name: one.metric(metric) if metric else one for name, one in found.items()
    }
    pairs = tuple(
        Pair(
            name,
            other,
            own[name].estimate(other),
            earned[other],
            earned[name],
            own[name].verdict.of(other),
        )
        for name in found
        for other in found
        if other != name
    )
    bias = float(np.mean([pair.error for pair in pairs]))
    return Validation(pairs, level, bias, math.sqrt(_bias_variance(pairs, own)), metric)


def _earned_of(part: RankingLog, metric: Metric) -> Number:
    """Return what an arm earned of a metric; a ratio's error is that of both its parts."""
    made = [measured(part, measure) for measure in metric.measures]
    if not isinstance(metric.expression, Ratio):
        return earned_by(made[0])
    above, below = _means(part, *made)
    return _earned(above / below)


def _means(part: RankingLog, *measures: RankingLog) -> list[Quantity]:
    """Return the mean totals of measures of the same rows; their errors count units."""
    unit = None if part.unit is None else part.bucket
    return means_of([one.reward @ one.position_weights for one in measures], unit)


def _earned(value: Quantity) -> Number:
    return Number(value.value, value.stderr)


def with_arms(log: LogLike, arm: str, reading: OpenOptions) -> tuple[RankingLog, list[str]]:
    """Return the log with a target for each arm, and the arms in order of their names."""
    whole = _opened(log, arm, reading)
    no_weight(whole, "comparisons of arms")
    if arm not in whole.columns:
        known = ", ".join(whole.columns) or "none"
        raise ConfigError(
            f"there is no column '{arm}' that says which arm served a row; other columns here: "
            f"{known}"
        )
    arms = sorted(set(labels_of(whole, arm).tolist()))
    if len(arms) < 2:
        raise LogError(f"column '{arm}' has one value, {arms[0]!r}: two arms or more are compared")
    if len(arms) > MOST_ARMS:
        raise LogError(
            f"column '{arm}' has {len(arms):,} values: is it the arm? At most {MOST_ARMS} are "
            "compared"
        )
    missing = [name for name in arms if name not in whole.targets]
    if missing and not isinstance(log, RankingLog):
        # Columns whose form does not set them apart have to be named.
        whole = _opened(log, arm, {**reading, "targets": arms})
        missing = []
    if missing:
        raise LogError(
            f"arm '{missing[0]}' has no target of its name; each arm needs its probabilities of "
            "the shown items in every row, also those that another arm served"
        )
    for name in arms:
        rows = int(np.count_nonzero(labels_of(whole, arm) == name))
        if rows < FEWEST_ROWS:
            raise LogError(
                f"arm '{name}' served {rows} rows; with fewer than {FEWEST_ROWS} nothing can be "
                "said"
            )
    return whole, arms


def _opened(log: LogLike, arm: str, reading: Mapping[str, Any]) -> RankingLog:
    from counterrank.io import in_memory

    try:
        return in_memory(log, [arm], reading)
    except MissingColumnError as problem:
        # The reader calls the column a segment; the user named an arm.
        raise problem.about("the column of arms") from problem


def labels_of(log: RankingLog, arm: str) -> NDArray[np.str_]:
    """Return the name of the arm that served each row (n,)."""
    return as_texts(np.asarray(log.columns[arm]))


def earned_by(part: RankingLog) -> Number:
    """Return the mean total reward of a ranking; its error counts units where there are any."""
    return _earned(*_means(part, part))


def _bias_variance(pairs: Sequence[Pair], found: Mapping[str, Evaluation | MetricResult]) -> float:
    """Return the variance of the mean of predicted - earned.

    The rows of one arm enter through its predictions V_j of the m others and, m times, through its
    own mean M; arms are independent. An evaluation knows variances of differences on the same rows,
    from which covariances follow: Cov(V, M) = (Var V + Var M - Var(V - M)) / 2, and the same for
    two predictions. In Var(sum_j V_j - m M) Var M then cancels.
    """
    total = 0.0
    for name, evaluation in found.items():
        own = [pair.estimate for pair in pairs if pair.source == name]
        m = len(own)
        if m > 1 and not evaluation.comparisons:
            # How ratios of several targets vary together is not kept.
            return math.nan
        spread = sum(m * one.lift.stderr**2 - (m - 1) * one.stderr**2 for one in own)
        for row in evaluation.comparisons:
            left, right = (
                next(e for e in own if e.target == side) for side in (row.better, row.than)
            )
            spread += left.stderr**2 + right.stderr**2 - row.stderr**2
        total += max(spread, 0.0)
    return total / len(pairs) ** 2


def _share(found: Sequence[bool]) -> float | None:
    return float(np.mean(found)) if found else None
