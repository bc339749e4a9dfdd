"""evaluate(): fit what must be fitted, pass over the log once for everything, finish."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.audit import CHECKS, VITAL, Auditor, Finding, auditor_of
from counterrank.diagnostics import refuse_deterministic
from counterrank.errors import CounterrankError
from counterrank.estimators import Estimate, Estimator, nothing_known, parse
from counterrank.evaluation.assembling import assemble
from counterrank.evaluation.jobs import (
    Job,
    Skipped,
    grouped,
    make_jobs,
    named,
    recommended,
    weightless,
)
from counterrank.evaluation.options import TREE, Options
from counterrank.evaluation.passing import PassState, make_partial
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.segments import Cut, cuts_of
from counterrank.evaluation.widening import at_any_time, inflated
from counterrank.log import Probabilities, RankingLog
from counterrank.source import Source
from counterrank.texts import explain

#: Rows looked at where all of them are not needed: cuts of segments, support, exploration,
#: sensitivity.
PROBE_ROWS = 20_000
#: Rows at which sequential intervals are shortest when no number is given.
SEQUENTIAL_ROWS = 10_000


def evaluate(  # noqa: PLR0913
    log: Any,
    targets: "Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None" = None,
    *,
    estimators: "Sequence[str | Estimator] | str | None" = None,
    position_weights: "str | ArrayLike | None" = None,
    level: float = 0.95,
    segments: Sequence[str] | str = (),
    seed: int = 0,
    practical: float | None = None,
    estimate_propensity: bool | str = False,
    audit: bool | None = None,
    time: str | None = None,
    independent_rows: bool = False,
    sequential: bool | int = False,
    command: str | None = None,
    **reading: Any,
) -> Evaluation:
    """Return what each target policy would have earned on this log, and how far that can be
    believed.

    `log` is a RankingLog, a frame, a path to files, a Spark or Dask frame, or a Source; `targets`
    maps names to arrays, `Propensity` or `Policy`, or names columns of the log. `estimators` that
    are named must be able to run; of "all" and of the defaults, those that cannot are listed under
    `skipped`. `segments` names a column or several, or "tree" for the groups of the fitted
    behaviour tree. `practical` is the smallest relative lift that matters. `estimate_propensity`
    (True, or how: "plackett-luce", "logistic", "boosting", "frequency:COLUMNS", "by-list:COLUMNS")
    is for logs without propensities. `audit=False` leaves out the checks of `counterrank check` on which the
    verdict does not rest; `time` names its time column. `independent_rows` declares that no two
    rows belong to one visitor: without that and without units the evidence is directional at best.
    `sequential` (True, or the number of rows at which intervals should be shortest, the same at
    every look) gives intervals that hold at every look at a growing log. `command` is recorded.
    Further options go to the reader.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> result = cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    >>> result.estimate("new", "ips").value
    1.0
    """
    from counterrank.sources import opened

    segments = (segments,) if isinstance(segments, str) else tuple(segments)
    method = _method(estimate_propensity)
    carried = tuple(
        dict.fromkeys(
            [*(s for s in segments if s != TREE), *_columns(method), *([time] if time else [])]
        )
    )
    if method is not None:
        reading = {"require_propensity": False, **reading}
    wanted, custom = named(estimators)
    with opened(log, targets, position_weights=position_weights, segments=carried, **reading) as (
        source,
        names,
    ):
        options = Options(
            names,
            wanted,
            level,
            segments,
            seed,
            practical,
            method,
            audit,
            time,
            independent_rows,
            _looks(sequential),
        )
        return evaluate_source(source, options, custom, command=command)


def evaluate_source(
    source: Source,
    options: Options,
    custom: Mapping[str, Estimator] | None = None,
    *,
    command: str | None = None,
) -> Evaluation:
    """Return the evaluation of a source that knows its targets by name."""
    replicas: Sequence[Source] = ()
    if options.estimate_propensity is not None:
        from counterrank.propensity_models import estimated_source

        source, replicas = estimated_source(
            source, options.estimate_propensity, targets=options.targets, seed=options.seed
        )
    run = Run(source, options)
    asked = [parse(name) for name in options.estimators]
    by_model = bool(asked) and all(name.model_alone for name in asked)
    # Before anything is fitted: without any exploration there are no weights, and no pass would
    # help.
    refuse_deterministic(run.first, lambda: run.probe, options.targets, by_model=by_model)
    run.prepare(custom or {})
    total = run.sums(source)
    estimates = run.estimates(total)
    if replicas:
        # The same plans on resampled units whose propensities were estimated anew.
        sums = (run.sums(replica, label="bootstrap", segments=False) for replica in replicas)
        estimates = inflated(estimates, [run.estimates(one) for one in sums])
    estimates = tuple(at_any_time(one, options.looks) for one in estimates)
    return assemble(run, total, estimates, command=command)


@dataclass
class Run:
    """One evaluation under way: the source, what will run on it, and a sample of rows to look at."""

    source: Source
    options: Options
    jobs: Sequence[Job] = ()
    skipped: tuple[Skipped, ...] = ()
    auditor: Auditor | None = None
    cuts: Sequence[Cut] = ()

    @cached_property
    def first(self) -> RankingLog:
        """A small batch."""
        return self.source.first

    @cached_property
    def probe(self) -> RankingLog:
        """A sample of rows; the same for the same seed."""
        return self.source.sample(PROBE_ROWS, np.random.default_rng(self.options.seed))

    @cached_property
    def groups(self) -> dict[Hashable, list[Job]]:
        """The jobs by shared state."""
        return grouped(self.jobs)

    @cached_property
    def recommended(self) -> dict[str, str]:
        """The recommended estimator of each target."""
        return recommended(self.jobs)

    @cached_property
    def main(self) -> list[list[Job]]:
        """The groups with a recommended estimator, for which segments are summed."""
        return [
            group
            for group in self.groups.values()
            if any(self.recommended[j.target] == j.name for j in group)
        ]

    def prepare(self, custom: Mapping[str, Estimator]) -> None:
        """Fit what needs fitting, and get the audit ready for the pass."""
        self.jobs, self.skipped = make_jobs(self.source, self.options, custom)
        self.cuts = cuts_of(
            self.options.segments, lambda: self.probe, [job.plan for job in self.jobs]
        )
        columns = [name for name in self.options.segments if name != TREE]
        self.auditor = auditor_of(
            self.source, self.probe, self.options.targets, segments=columns or None, time=self.options.time,
            checks=VITAL if self.options.audit is False else CHECKS,
            weighed=not weightless(job.name for job in self.jobs),
        )  # fmt: skip

    def findings(self, total: PassState) -> list[Finding]:
        """Return what the audit found in the same pass."""
        assert self.auditor is not None
        return self.auditor.finish(total.audit)

    def sums(
        self, source: Source, *, label: str = "estimating", segments: bool = True
    ) -> PassState:
        """Return the sums over all rows of a source."""
        by_unit = self.first.unit is not None
        cuts, auditor = (self.cuts, self.auditor) if segments else ((), None)
        partial = make_partial(
            list(self.groups.values()), self.main, cuts, by_unit=by_unit, auditor=auditor
        )
        return source.reduce(partial, label=label)

    def states(self, total: PassState) -> dict[Hashable, Any]:
        """Return the state of each plan key."""
        return dict(zip(self.groups, total.states, strict=True))

    def estimates(self, total: PassState) -> tuple[Estimate, ...]:
        """Return the estimate of each job, silent ones too; what was not asked for cannot stop the
        evaluation.
        """
        states = self.states(total)
        notes = tuple(explain(note) for note in self.first.notes)
        return tuple(
            _finished(job, states[job.plan.key], notes, total.totals.n) for job in self.jobs
        )


def _finished(job: Job, state: Any, notes: tuple[str, ...], n: int) -> Estimate:
    try:
        estimate = job.plan.estimate(state)
    except CounterrankError as problem:
        if not job.silent:
            raise
        return nothing_known(job.target, job.name, n, str(problem))
    return replace(estimate, estimator=job.name, flags=(*notes, *estimate.flags))


def _looks(given: bool | int) -> int | None:
    if isinstance(given, bool):
        return SEQUENTIAL_ROWS if given else None
    return given


def _method(given: bool | str) -> str | None:
    if isinstance(given, bool):
        return "auto" if given else None
    return given


def _columns(method: str | None) -> list[str]:
    return [part for part in (method or "").partition(":")[2].split(",") if part]
