"""The first stage of an evaluation: estimators are fitted for every metric and target."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from counterrank.checks import CHECKS, OF_REWARDS, VITAL, Auditor, auditor_of
from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.common.findings import SKIPPED, Finding
from counterrank.data.columns import shared_contexts, units_are_rows
from counterrank.data.log import RankingLog
from counterrank.data.source import (
    Change,
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
from counterrank.estimators import Estimator, Fitted, Traits, Workspace, get_estimator
from counterrank.evaluation.request import PANEL, PREFERENCE, Options, wanted
from counterrank.metrics import Measure, Metrics, constant, measured
from counterrank.statistics import Key, Quantity, means_of

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
    def key(self) -> Key:
        """Metric, target and name."""
        return self.metric, self.target, self.name

    @property
    def traits(self) -> Traits:
        """What the estimator assumes of users."""
        return self.fitted.traits


@dataclass(frozen=True, eq=False)
class MetricFits:
    """The fits of one measure of an evaluation.

    ===================  ==========================================================================
    `metric`             a name of the measure that no other of the evaluation has
    `source`, `first`    the log with this reward, and a small batch of it
    `probe`              a sample of rows, each with the same chance; the same for the same seed
    `change`             gives a batch of the log this reward
    `named`              whether the reward has a name, or is the only one
    `skipped`            the reason for each estimator that cannot run
    `shared_contexts`    how many contexts rows share although nearly each has a unit of its own
    `shared`             what was prepared for models and does not depend on the reward
    ===================  ==========================================================================
    """

    metric: str
    measure: Measure
    primary: bool
    named: bool
    source: Source
    change: Change
    first: RankingLog
    probe: RankingLog
    fits: tuple[Fit, ...]
    skipped: tuple[Finding, ...]
    auditor: Auditor
    shared_contexts: int | None = None
    shared: dict[Hashable, Any] = field(default_factory=dict)

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

    def refuse_constant(self, earned: Quantity) -> None:
        """Raise where the logger earned the same in every ranking: nothing could be learned of it."""
        if self.named and earned.stderr == 0.0:
            raise constant(self.measure.text, earned.value)


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
            _refuse_constant(measure, measured(rows, measure=measure))
    if isinstance(innermost(source), MemorySource):
        reporter().begin("fitting models", len(measures) * len(options.targets))
    fitted: list[MetricFits] = []
    texts = [measure.text for measure in measures]
    for index, measure in enumerate(measures):
        text = measure.text
        metric = text if texts.count(text) == 1 else f"{text} ({index})"
        try:
            primary = fitted[0] if fitted else None
            fitted.append(
                _fit_metric(
                    metric, measure, source, options, estimators, primary, named=metrics.named
                )
            )
        except CounterrankError as problem:
            raise problem if not index else problem.about(f"metric '{text}'") from None
    return fitted


def _unchanged(batch: RankingLog) -> RankingLog:
    return batch


def _refuse_constant(measure: Measure, sample: RankingLog) -> None:
    (earned,) = means_of([sample.reward @ sample.position_weights], None)
    if earned.stderr == 0.0:
        raise constant(measure.text, earned.value)


def probe_of(source: Source, seed: int) -> RankingLog:
    """Return a sample of rows, each with the same chance; the same for the same seed."""
    return source.sample(PROBE_ROWS, np.random.default_rng(seed)).evenly_kept()


def _fit_metric(
    metric: str,
    measure: Measure,
    source: Source,
    options: Options,
    estimators: Mapping[str, Estimator],
    primary: MetricFits | None,
    *,
    named: bool,
) -> MetricFits:
    """Return the fits of one measure; `primary` are those of the first."""
    change = partial(measured, measure=measure) if named else _unchanged
    source = MappedSource(source, change) if named else source
    probe = None
    if isinstance(source, MemorySource):
        probe = probe_of(source, options.seed)
        refuse_scale(probe.reward)
    else:
        # A sample of a file is a pass over it: no look of our own before the larger one that a tree
        # or a model is fitted on, of which it is then a part.
        source = _SquarableSource(source, _squarable)
    shared: dict[Hashable, Any] = {} if primary is None else primary.shared
    fits, skipped = fit_targets(
        source, options, estimators, metric=metric, required=primary is None, shared=shared
    )
    first = source.first
    probe = probe_of(source, options.seed) if probe is None else probe
    auditor = auditor_of(
        source,
        probe,
        options.targets,
        segments=options.segments or None,
        time=options.time,
        checks=_checks(measure, options, primary=primary is None),
        weighed=not all(fit.traits.user_model for fit in fits),
        like=None if primary is None else primary.auditor,
    )
    return MetricFits(
        metric,
        measure,
        primary is None,
        named,
        source,
        change,
        first,
        probe,
        fits,
        skipped,
        auditor,
        shared_contexts(probe) if units_are_rows(first) else None,
        shared,
    )


def _checks(measure: Measure, options: Options, *, primary: bool) -> tuple[Any, ...]:
    """Return what is checked of the log: of a further reward, only that reward."""
    if not primary:
        # Numbers of a column are checked, those of a function of one are not.
        return () if measure.function else OF_REWARDS
    return VITAL if options.audit is False else CHECKS


def fit_targets(
    source: Source,
    options: Options,
    estimators: Mapping[str, Estimator],
    *,
    metric: str = "reward",
    required: bool = True,
    shared: dict[Hashable, Any] | None = None,
) -> tuple[tuple[Fit, ...], tuple[Finding, ...]]:
    """Return a fit for each target and estimator that can run, and the reason for each that cannot.

    Parameters
    ----------
    source
        The log with the rewards of a metric.
    options
        What was asked for.
    estimators
        Estimators that are no names.
    metric
        The name of the metric.
    required
        Whether the estimators that were named must run; not so for further metrics.
    shared
        Keeps what does not depend on rewards, for further metrics of the same rows.
    """
    must_run, first = wanted(options, required=required), source.first
    for name, must in must_run.items():
        if must and name not in estimators:
            # A name that nobody knows is an error by itself, whatever the target.
            get_estimator(name)

    def fit_target(target: str) -> tuple[list[Fit], list[Finding]]:
        workspace = Workspace(
            source,
            target,
            level=options.level,
            seed=options.seed,
            metric=metric,
            looks=options.looks,
            by_unit=first.summed_by_unit,
            tree=options.tree,
            shared={} if shared is None else shared,
        )
        if not in_memory:
            return _fit_target(workspace, must_run, estimators)
        # Passes over a log in memory are part of this stage.
        with reporting_to(Reporter()):
            fits = _fit_target(workspace, must_run, estimators)
        stage.advance(1)
        return fits

    # A log in memory is sampled at no cost: targets are fitted side by side, with the same results.
    in_memory, stage = isinstance(innermost(source), MemorySource), reporter()
    threads = min(default_threads(), len(options.targets)) if in_memory else 1
    by_target = list(map_in_order(options.targets, fit_target, threads=threads))
    fits, skipped = (tuple(chain.from_iterable(lists)) for lists in zip(*by_target, strict=True))
    return fits, skipped


def _fit_target(
    workspace: Workspace, requested: Mapping[str, bool], estimators: Mapping[str, Estimator]
) -> tuple[list[Fit], list[Finding]]:
    """Return the fits of a target's estimators that can run, and the reason for each that cannot."""
    metric, target, first = workspace.metric, workspace.target, workspace.first
    fitted: dict[str, Fit] = {}
    skipped: list[Finding] = []
    for name in dict.fromkeys([*requested, *PANEL]):
        diagnostic_only = name not in requested
        if diagnostic_only and all(fit.traits.user_model for fit in fitted.values()):
            break
        try:
            estimator = estimators[name] if name in estimators else get_estimator(name)
            estimator.refuse_weight(first)
            fitted_columns = estimator.fit(workspace)
            fitted[name] = Fit(metric, target, estimator.name, fitted_columns, diagnostic_only)
        except CounterrankError as problem:
            if requested.get(name):
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


def _squarable(batch: RankingLog) -> RankingLog:
    refuse_scale(batch.reward, small=False)
    return batch


class _SquarableSource(MappedSource):
    """A source that refuses rewards which cannot be squared as soon as it meets them."""

    def sample(self, rows: int, rng: np.random.Generator) -> RankingLog:
        """Return a sample that models can be fitted on."""
        sample = super().sample(rows, rng)
        # A batch may hold small rewards only; so many rows of a log that also has others do not.
        refuse_scale(sample.reward)
        return sample


def names_of(fits: Collection[Fit]) -> list[str]:
    """Return the estimators that were asked for, in order."""
    return list(dict.fromkeys(fit.name for fit in fits if not fit.diagnostic_only))
