"""The first stage of an evaluation: estimators are fitted for every metric and target."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from counterrank.checks import CHECKS, OF_REWARDS, VITAL, Auditor, auditor_of
from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.common.findings import SKIPPED, Finding
from counterrank.data.log import RankingLog
from counterrank.data.source import (
    MappedSource,
    MemorySource,
    Reporter,
    Source,
    default_threads,
    innermost,
    map_in_order,
    reporter,
    reporting_to,
)
from counterrank.data.validation import refuse_scale
from counterrank.estimators import (
    Estimator,
    Fitted,
    Traits,
    Workspace,
    get_estimator,
)
from counterrank.evaluation.request import PANEL, PREFERENCE, Options, wanted
from counterrank.metrics import Measure, Metrics, constant, measured
from counterrank.statistics import Quantity, means_of

#: Rows looked at where all of them are not needed: cuts of segments, support, exploration,
#: sensitivity.
PROBE_ROWS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """An estimator fitted to a metric and a target."""

    metric: str
    target: str
    name: str
    fitted: Fitted
    #: Nobody named it: it judges the others, and has no line in the results.
    diagnostic_only: bool = False

    @property
    def traits(self) -> Traits:
        """What the estimator assumes of users."""
        return self.fitted.traits


@dataclass(frozen=True, eq=False)
class MetricFits:
    """The fits of one measure of an evaluation.

    ============  ==========================================================================
    `metric`      a name of the measure that no other of the evaluation has
    `source`      the log with this reward
    `probe`       a sample of rows, each with the same chance; the same for the same seed
    `skipped`     the reason for each estimator that cannot run
    `shared`      what was prepared for models and does not depend on the reward
    ============  ==========================================================================
    """

    metric: str
    measure: Measure
    primary: bool
    source: MeasuredSource
    probe: RankingLog
    fits: tuple[Fit, ...]
    skipped: tuple[Finding, ...]
    auditor: Auditor
    shared: dict[Hashable, Any]

    @cached_property
    def first(self) -> RankingLog:
        """A small batch of the log with this reward."""
        return self.source.first

    @cached_property
    def recommended(self) -> dict[str, Fit]:
        """The fit of the recommended estimator of each target."""
        by_target: dict[str, dict[str, Fit]] = {}
        for fit in self.fits:
            if not fit.diagnostic_only:
                by_target.setdefault(fit.target, {})[fit.name] = fit
        return {
            target: fits[next((name for name in PREFERENCE if name in fits), next(iter(fits)))]
            for target, fits in by_target.items()
        }


class MeasuredSource(MappedSource):
    """A log with a measure as its reward; rewards that cannot be squared are refused where they are met."""

    def __init__(self, source: Source, measure: Measure) -> None:
        super().__init__(source, partial(_squarable, measure=measure))

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample that models can be fitted on."""
        sample = super().sample(rows, rng)
        # A batch may hold small rewards only; so many rows of a log that also has others do not.
        refuse_scale(sample.reward)
        return sample


def _squarable(batch: RankingLog, measure: Measure) -> RankingLog:
    rewarded = measured(batch, measure)
    refuse_scale(rewarded.reward, small=False)
    return rewarded


def probe_of(source: Source, seed: int) -> RankingLog:
    """Return a sample of rows, each with the same chance; the same for the same seed."""
    return source.sample(PROBE_ROWS, np.random.default_rng(seed)).evenly_kept()


def sampled_rows(options: Options, estimators: Mapping[str, Estimator]) -> int:
    """Return the rows of the largest sample that a fit will draw, as far as estimators say so."""
    rows = 0
    for name in wanted(options):
        # Of a name that nobody knows, or a plug-in that does not load, the fit tells.
        with suppress(CounterrankError):
            rows = max(rows, _estimator(name, estimators).sampled_rows)
    return rows


def _estimator(name: str, estimators: Mapping[str, Estimator]) -> Estimator:
    return estimators[name] if name in estimators else get_estimator(name)


def fit_metrics(
    source: Source,
    options: Options,
    metrics: Metrics,
    estimators: Mapping[str, Estimator],
) -> list[MetricFits]:
    """Return the fits of every measure, the primary first.

    Parameters
    ----------
    source
        The log.
    options
        What was asked for.
    metrics
        What is estimated.
    estimators
        Estimators that are no names.
    """
    measures = metrics.measures
    if metrics.named and (source.n or PROBE_ROWS + 1) <= PROBE_ROWS:
        # A short log shows before anything is fitted that a metric does not vary, a long one in the pass.
        rows = source.sample(PROBE_ROWS, np.random.default_rng(options.seed))
        for measure in measures:
            sample = measured(rows, measure)
            (earned,) = means_of([sample.reward @ sample.position_weights], None)
            refuse_constant(measure, earned)
    fitted: list[MetricFits] = []
    texts = [measure.text for measure in measures]
    for index, (measure, text) in enumerate(zip(measures, texts, strict=True)):
        metric = text if texts.count(text) == 1 else f"{text} ({index})"
        primary = fitted[0] if fitted else None
        if isinstance(innermost(source), MemorySource):
            label = f"fitting {text}, {index + 1} of {len(measures)}"
            reporter().begin(label, len(options.targets))
        try:
            fitted.append(_fit_metric(metric, measure, source, options, estimators, primary))
        except CounterrankError as problem:
            raise problem if not index else problem.about(f"metric '{text}'") from None
    return fitted


def refuse_constant(measure: Measure, earned: Quantity) -> None:
    """Raise where the logger earned the same in every ranking: nothing could be learned of it."""
    if earned.stderr == 0.0:
        raise constant(measure.text, earned.value)


def _fit_metric(
    metric: str,
    measure: Measure,
    source: Source,
    options: Options,
    estimators: Mapping[str, Estimator],
    primary: MetricFits | None,
) -> MetricFits:
    """Return the fits of one measure; `primary` are those of the first."""
    rewarded = MeasuredSource(source, measure)
    workspace = Workspace(
        rewarded,
        "",
        level=options.level,
        seed=options.seed,
        metric=metric,
        looks=options.looks,
        by_unit=rewarded.first.summed_by_unit,
        tree=options.tree,
        shared={} if primary is None else primary.shared,
    )
    required = wanted(options, required=primary is None)
    fits, skipped = _fit_targets(workspace, options.targets, required, estimators)
    # Not before: a sample of a file is a pass over it, unless a tree or a model has drawn a larger one.
    probe = probe_of(rewarded, options.seed)
    checks = VITAL if options.audit is False else CHECKS
    if primary is not None:
        # Numbers of a column are checked, those of a function of one are not.
        checks = () if measure.function else OF_REWARDS
    auditor = auditor_of(
        rewarded,
        probe,
        options.targets,
        segments=options.segments or None,
        time=options.time,
        checks=checks,
        weighed=not all(fit.traits.user_model for fit in fits),
        template=None if primary is None else primary.auditor,
    )
    return MetricFits(
        metric,
        measure,
        primary is None,
        rewarded,
        probe,
        fits,
        skipped,
        auditor,
        workspace.shared,
    )


def _fit_targets(
    workspace: Workspace,
    targets: Collection[str],
    required: Mapping[str, bool],
    estimators: Mapping[str, Estimator],
) -> tuple[tuple[Fit, ...], tuple[Finding, ...]]:
    """Return a fit for each target and estimator that can run, and the reason for each that cannot.

    Parameters
    ----------
    workspace
        The log with the rewards of a metric.
    targets
        The targets.
    required
        The names of estimators, and whether each must run.
    estimators
        Estimators that are no names.
    """
    for name, must_run in required.items():
        if must_run and name not in estimators:
            # A name that nobody knows is an error by itself, whatever the target.
            get_estimator(name)
    # A log in memory is sampled at no cost: targets are fitted side by side, with the same results,
    # and passes over it are part of this stage.
    in_memory, stage = isinstance(innermost(workspace.source), MemorySource), reporter()
    threads = min(default_threads(), len(targets)) if in_memory else 1
    fits: list[Fit] = []
    skipped: list[Finding] = []
    fit = partial(_fit_target, required=required, estimators=estimators)
    spaces = (replace(workspace, target=target, memo={}) for target in targets)
    inside = Reporter()
    inside.stage = stage
    with reporting_to(inside if in_memory else stage):
        made = map_in_order(spaces, fit, threads=threads)
        for number, (fits_of, reasons) in enumerate(made, start=1):
            fits += fits_of
            skipped += reasons
            if in_memory:
                # Not every fit says how far it is.
                inside.step(max(number - inside.done, 0.0))
    return tuple(fits), tuple(skipped)


def _fit_target(
    workspace: Workspace, required: Mapping[str, bool], estimators: Mapping[str, Estimator]
) -> tuple[list[Fit], list[Finding]]:
    """Return the fits of a target's estimators that can run, and the reason for each that cannot."""
    metric, target, first = workspace.metric, workspace.target, workspace.first
    fitted: dict[str, Fit] = {}
    skipped: list[Finding] = []
    for name in dict.fromkeys([*required, *PANEL]):
        diagnostic_only = name not in required
        if diagnostic_only and all(fit.traits.user_model for fit in fitted.values()):
            break
        try:
            estimator = _estimator(name, estimators)
            estimator.refuse_weight(first)
            fitted_columns = estimator.fit(workspace)
            fitted[name] = Fit(metric, target, estimator.name, fitted_columns, diagnostic_only)
        except CounterrankError as problem:
            if required.get(name):
                raise type(problem)(
                    f"'{name}' cannot run for target '{target}': {problem}"
                ) from problem
            if not diagnostic_only:
                skipped.append(
                    Finding("skipped", SKIPPED, str(problem), target=target, subject=name)
                )
    if not fitted:
        raise ConfigError(f"no estimator can run for target '{target}': {skipped[-1].text}")
    return list(fitted.values()), skipped
