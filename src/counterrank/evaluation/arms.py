"""Validation: predict each arm of a past A/B test from each other arm, and compare with what it earned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError, LogError, MissingColumnError
from counterrank.common.messages import MISSING_PROPENSITY, say
from counterrank.common.options import LEVEL, SEED
from counterrank.common.records import Record, RecordResult, optional
from counterrank.data.columns import as_texts
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.data.validation import no_weight, propensities
from counterrank.estimators import Estimate
from counterrank.evaluation.result import Evaluation, MetricResult
from counterrank.evaluation.run import evaluate
from counterrank.metrics import Metric, Metrics, PageFunction, measured
from counterrank.statistics import Quantity, check_level, critical_value, means_of

if TYPE_CHECKING:
    from counterrank.io import LogLike


#: Arms smaller than this say nothing about an interval's coverage.
FEWEST_ROWS = 100
#: Far more is a column of something else.
MOST_ARMS = 20


@dataclass(frozen=True, slots=True)
class Pair(Record):
    """One arm predicted from another's rows, beside what it earned on its own."""

    source: str = field(metadata={"key": "from"})
    to: str
    predicted: float
    stderr: float
    low: float
    high: float
    earned: float
    earned_stderr: float
    estimator: str = ""
    #: What the predicting arm earned itself: the sign of a lift is against it.
    base: float = math.nan
    #: None: a prediction without an interval can neither hold nor fail.
    covered: bool | None = None
    sign_right: bool | None = None
    #: The prediction claims "better", a lift whose interval lies above zero, and the arm earned less.
    false_better: bool = False
    verdict: str = ""

    @classmethod
    def compared(
        cls, source: str, estimate: Estimate, earned: Quantity, base: float, verdict: str
    ) -> Self:
        """Return an estimate of an arm beside what it earned.

        Both are noisy and rest on different rows, so their half-widths are added in quadrature: a
        right prediction is called covered as often as its level says.
        """
        (low, high), lift = estimate.interval(), estimate.lift
        reach = math.hypot((high - low) / 2, critical_value(estimate.level) * earned.stderr)
        bounded = math.isfinite(low) and math.isfinite(high)
        gain = earned.value - base
        return cls(
            source,
            estimate.target,
            estimate.value,
            estimate.stderr,
            low,
            high,
            earned.value,
            earned.stderr,
            estimate.estimator,
            base,
            covered=abs(earned.value - (low + high) / 2) <= reach if bounded else None,
            sign_right=bool(np.sign(lift.value) == np.sign(gain)) if estimate.estimable else None,
            false_better=lift.low > 0 and gain < 0,
            verdict=verdict,
        )


@dataclass(frozen=True, slots=True)
class ValidationSummary(Record):
    """How often intervals held and signs were right, and the mean error with its interval."""

    pairs: int
    level: float = 0.95
    coverage: float | None = None
    sign_agreement: float | None = None
    claimed_better: int = 0
    false_better: int = 0
    bias: float = math.nan
    bias_low: float = math.nan
    bias_high: float = math.nan
    relative_bias: float = math.nan

    @classmethod
    def from_pairs(
        cls, pairs: Sequence[Pair], claimed_better: int, bias_stderr: float, level: float
    ) -> Self:
        """Return the summary; `bias_stderr` is the error of the mean of predicted - earned."""
        covered = [pair.covered for pair in pairs if pair.covered is not None]
        signs = [pair.sign_right for pair in pairs if pair.sign_right is not None]
        bias = float(np.mean([pair.predicted - pair.earned for pair in pairs]))
        reach = critical_value(level) * bias_stderr
        scale = float(np.mean([pair.earned for pair in pairs]))
        return cls(
            pairs=len(pairs),
            level=level,
            coverage=float(np.mean(covered)) if covered else None,
            sign_agreement=float(np.mean(signs)) if signs else None,
            claimed_better=claimed_better,
            false_better=sum(pair.false_better for pair in pairs),
            bias=bias,
            bias_low=bias - reach,
            bias_high=bias + reach,
            relative_bias=bias / scale if scale else math.nan,
        )


@dataclass(frozen=True, slots=True, repr=False)
class Validation(RecordResult):
    """How far predictions from each arm agree with what the other arms earned.

    Examples
    --------
    >>> import counterrank as cr
    >>> half = [[.5, .5]] * 200
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 100, reward=[[1, 0], [0, 0]] * 100, propensity=half,
    ...                     columns={"arm": ["a", "a", "b", "b"] * 50}, targets={"a": half, "b": half})
    >>> cr.validate(log, "arm").agreement.pairs
    2
    """

    SCHEMA, NAME, ROWS = "counterrank/validation/1", "validation", "pairs"
    REPORT = "counterrank.report.validation"

    pairs: tuple[Pair, ...]
    agreement: ValidationSummary = field(metadata={"key": "summary"})
    #: The metric, and of the primary every metric where there are several, the primary first.
    name: str = optional(default="")
    metrics: tuple[Validation, ...] = optional(default=())

    def __repr__(self) -> str:
        """Return the summary in a line."""
        summary = self.agreement
        bias = f"{summary.bias:.4g}" if math.isfinite(summary.bias) else "unknown"
        return f"Validation(pairs={summary.pairs}, coverage={summary.coverage}, bias={bias})"


@single_blas_thread
def validate(
    log: LogLike,
    arm: str,
    *,
    estimators: Sequence[str] | str | None = "auto",
    level: float = LEVEL,
    seed: int = SEED,
    rewards: Mapping[str, str | tuple[PageFunction, str]] | Sequence[str] | None = None,
    primary: str | None = None,
    **reading: Any,
) -> Validation:
    """Return how well every arm of a past A/B test is predicted from each other arm's rows.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
        Each arm has a column (or a target) of its own name: its probabilities of the shown items in all
        rows. `propensity` is that of the arm that served a row; without it, its own column says so.
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
    >>> [(pair.source, pair.to) for pair in cr.validate(log, "arm", estimators="ips").pairs]
    [('a', 'b'), ('b', 'a')]
    """
    check_level(level)
    metrics = Metrics.requested(log, reading, rewards, primary)
    test_log, arms = with_arms(log, arm, {"require_propensity": False, **reading})
    logs = {name: test_log.where(labels_of(test_log, arm) == name) for name in arms}
    if MISSING_PROPENSITY in test_log.notes:
        logs = {name: _served_by(name, arm_log) for name, arm_log in logs.items()}
    common: Any = {"estimators": estimators, "level": level, "seed": seed}
    if metrics.named:
        common |= {"rewards": rewards, "primary": primary}
    evaluations = {
        name: evaluate(arm_log, [target for target in arms if target != name], **common)
        for name, arm_log in logs.items()
    }
    ordered = sorted(metrics.all_metrics, key=lambda metric: metric.name != metrics.primary)
    validations = tuple(_validated(metric, evaluations, logs, level) for metric in ordered)
    first = validations[0]
    return replace(first, metrics=validations) if metrics.named else replace(first, name="")


def _served_by(name: str, arm_log: RankingLog) -> RankingLog:
    """Return the rows of an arm with its own policy as the logger, where no propensities were logged."""
    policy, dists = arm_log.targets[name], arm_log.dists
    if isinstance(policy, Propensity):
        lengths, shape = arm_log.lengths, arm_log.action.shape
        propensities(policy.values, lengths, shape, name=name, positive=True, start=0)
    return arm_log.changed(
        propensity=policy,
        dists={**dists, **({LOGGING: dists[name]} if name in dists else {})},
        notes=tuple(note for note in arm_log.notes if note != MISSING_PROPENSITY),
    )


def _validated(
    metric: Metric,
    evaluations: Mapping[str, Evaluation],
    logs: Mapping[str, RankingLog],
    level: float,
) -> Validation:
    """Return the validation of one metric."""
    results = {name: evaluation.metric(metric.name) for name, evaluation in evaluations.items()}
    earned = {name: earned_by(arm_log, metric) for name, arm_log in logs.items()}
    estimates = {
        (name, target): results[name].estimate(target)
        for name in results
        for target in results
        if target != name
    }
    pairs = tuple(
        Pair.compared(
            name,
            estimate,
            earned[target],
            earned[name].value,
            results[name].verdict.level_of(target),
        )
        for (name, target), estimate in estimates.items()
    )
    claims = sum(estimate.lift.low > 0 for estimate in estimates.values())
    error = math.sqrt(_bias_variance(estimates, results))
    return Validation(pairs, ValidationSummary.from_pairs(pairs, claims, error, level), metric.name)


def earned_by(arm_log: RankingLog, metric: Metric) -> Quantity:
    """Return what an arm earned of a metric; errors count units, of a ratio both its parts."""
    unit = None if arm_log.unit is None else arm_log.bucket
    logs = [measured(arm_log, measure) for measure in metric.measures]
    above, *below = means_of([log.reward @ log.position_weights for log in logs], unit)
    return above / below[0] if below else above


def with_arms(
    log: LogLike, arm: str, reading: Mapping[str, Any], segments: Iterable[str] = ()
) -> tuple[RankingLog, list[str]]:
    """Return the log with a target for each arm, and the arms in order of their names."""
    carried = [arm, *segments]
    test_log = _opened(log, carried, reading)
    no_weight(test_log, "comparisons of arms")
    if arm not in test_log.columns:
        columns = ", ".join(test_log.columns) or "none"
        raise ConfigError(
            f"there is no column '{arm}' that says which arm served a row; other columns here: "
            f"{columns}"
        )
    names, counts = np.unique(labels_of(test_log, arm), return_counts=True)
    arms: list[str] = names.tolist()
    if len(arms) < 2:
        raise LogError(f"column '{arm}' has one value, {arms[0]!r}: two arms or more are compared")
    if len(arms) > MOST_ARMS:
        raise LogError(
            f"column '{arm}' has {len(arms):,} values: is it the arm? At most {MOST_ARMS} are "
            "compared"
        )
    missing = [name for name in arms if name not in test_log.targets]
    if missing and not isinstance(log, RankingLog):
        # Columns whose form does not set them apart have to be named.
        try:
            test_log = _opened(log, carried, {**reading, "targets": arms})
        except LogError as problem:
            way = say("--policy", f"{missing[0]}=plackett-luce:temperature=T")
            raise LogError(
                f"{problem.said}: each arm needs what its ranker would have done in every row",
                remedy=f"give the scores of each arm ({say('--scores', 'FILE')}) and how it ranks by them ({way}); "
                f"{problem.remedy}",
            ) from problem
        missing = []
    if missing:
        raise LogError(
            f"arm '{missing[0]}' has no target of its name; each arm needs its probabilities of "
            "the shown items in every row, also those that another arm served"
        )
    for name, rows in zip(arms, counts, strict=True):
        if rows < FEWEST_ROWS:
            raise LogError(
                f"arm '{name}' served {rows} rows; with fewer than {FEWEST_ROWS} nothing can be "
                "said"
            )
    return test_log, arms


def _opened(log: LogLike, carried: Sequence[str], reading: Mapping[str, Any]) -> RankingLog:
    from counterrank.io import in_memory

    try:
        return in_memory(log, carried, reading)
    except MissingColumnError as problem:
        # The reader calls the column a segment; the user named an arm.
        text = problem.said
        if f"'{carried[0]}'" in text:
            text = text.replace(" for segment", " for the arm")
        raise MissingColumnError(text, remedy=problem.remedy) from problem


def labels_of(log: RankingLog, arm: str) -> NDArray[np.str_]:
    """Return the name of the arm that served each row (n,)."""
    return as_texts(np.asarray(log.columns[arm]))


def _bias_variance(
    estimates: Mapping[tuple[str, str], Estimate], results: Mapping[str, MetricResult]
) -> float:
    """Return the variance of the mean of predicted - earned; estimates by source and arm.

    The rows of one arm enter through its predictions V_j of the m others and, m times, through its
    own mean M; arms are independent. An evaluation knows variances of differences on the same rows,
    from which covariances follow: Cov(V, M) = (Var V + Var M - Var(V - M)) / 2, and the same for
    two predictions. In Var(sum_j V_j - m M) Var M then cancels.
    """
    total = 0.0
    for name, result in results.items():
        of_arm = {to: estimate for (source, to), estimate in estimates.items() if source == name}
        m = len(of_arm)
        if m > 1 and not result.comparisons:
            # How ratios of several targets vary together is not kept.
            return math.nan
        spread = sum(
            m * estimate.lift.stderr**2 - (m - 1) * estimate.stderr**2
            for estimate in of_arm.values()
        )
        spread += sum(
            of_arm[row.better].stderr ** 2 + of_arm[row.than].stderr ** 2 - row.stderr**2
            for row in result.comparisons
        )
        total += max(spread, 0.0)
    return total / len(estimates) ** 2
