"""evaluate(): fit what must be fitted, pass over the log once for everything, finish."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.diagnostics import refuse_deterministic
from counterrank.estimators import Estimate, Estimator, parse
from counterrank.evaluation.assembling import assemble
from counterrank.evaluation.jobs import Job, Skipped, grouped, make_jobs, named, recommended
from counterrank.evaluation.options import TREE, Options
from counterrank.evaluation.passing import PassState, make_partial
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.segments import Cut, cuts_of
from counterrank.log import Probabilities, RankingLog
from counterrank.readers import explain
from counterrank.source import Source

#: Rows looked at where all of them are not needed: cuts of segments, support, exploration, sensitivity.
PROBE_ROWS = 20_000
#: Logs known to have at most this many rankings are audited along the way.
AUDITED_ROWS = 500_000


def evaluate(  # noqa: PLR0913
    log: Any,
    targets: "Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None" = None,
    *,
    estimators: "Sequence[str | Estimator] | str | None" = None,
    position_weights: "str | ArrayLike | None" = None,
    level: float = 0.95,
    segments: Sequence[str] = (),
    seed: int = 0,
    practical: float | None = None,
    estimate_propensity: bool | str = False,
    audit: bool | None = None,
    time: str | None = None,
    command: str | None = None,
    **reading: Any,
) -> Evaluation:
    """Return what each target policy would have earned on this log, and how far that can be believed.

    `log` is a RankingLog, a frame, a path to files, a Spark or Dask frame, or a Source; `targets` maps names to
    arrays, `Propensity` or `Policy`, or names columns of the log. `estimators` that are named must be able to run;
    of "all" and of the defaults, those that cannot are listed under `skipped`. `segments` names columns, or "tree"
    for the groups of the fitted behaviour tree. `practical` is the smallest relative lift that matters.
    `estimate_propensity` (True, or how: "logistic", "boosting", "frequency:COLUMNS", "by-list:COLUMNS") is for logs
    without propensities. `audit` adds the findings of `counterrank check`, `time` names its time column; `command`
    is recorded. Further options go to the reader.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> result = cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    >>> result.estimate("new", "ips").value
    1.0
    """
    from counterrank.sources import opened

    method = _method(estimate_propensity)
    carried = tuple(dict.fromkeys([*(s for s in segments if s != TREE), *_columns(method), *([time] if time else [])]))
    if method is not None:
        reading = {"require_propensity": False, **reading}
    wanted, custom = named(estimators)
    with opened(log, targets, position_weights=position_weights, segments=carried, **reading) as (source, names):
        options = Options(names, wanted, level, tuple(segments), seed, practical, method, audit, time)
        return evaluate_source(source, options, custom, command=command)


def evaluate_source(
    source: Source, options: Options, custom: Mapping[str, Estimator] | None = None, *, command: str | None = None
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
    refuse_deterministic(run.first, lambda: run.probe, options.targets, by_model=by_model)
    run.prepare(custom or {})
    total = run.sums(source)
    estimates = run.estimates(total)
    if replicas:
        from counterrank.evaluation.bootstrapped import inflated

        sums = (run.sums(replica, label="bootstrap", segments=False) for replica in replicas)
        estimates = inflated(estimates, [run.estimates(one) for one in sums])
    return assemble(run, total, estimates, command=command)


@dataclass
class Run:
    """One evaluation under way: the source, what will run on it, and a sample of rows to look at."""

    source: Source
    options: Options
    jobs: Sequence[Job] = ()
    skipped: tuple[Skipped, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
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
        return [group for group in self.groups.values() if any(self.recommended[j.target] == j.name for j in group)]

    def prepare(self, custom: Mapping[str, Estimator]) -> None:
        """Fit what needs fitting, and audit the log."""
        self.jobs, self.skipped = make_jobs(self.source, self.options, custom)
        self.cuts = cuts_of(self.options.segments, lambda: self.probe, [job.plan for job in self.jobs])
        wanted = self.options.audit
        if wanted or wanted is None and self.source.n is not None and self.source.n <= AUDITED_ROWS:
            self.findings = self.audited()

    def audited(self) -> tuple[dict[str, Any], ...]:
        """Return the findings of the audit."""
        from counterrank.audit import audit

        columns = [name for name in self.options.segments if name != TREE]
        found = audit(self.source, self.options.targets, segments=columns or None, time=self.options.time)
        return tuple(finding.to_dict() for finding in found)

    def sums(self, source: Source, *, label: str = "estimating", segments: bool = True) -> PassState:
        """Return the sums over all rows of a source."""
        by_unit = self.first.unit is not None
        cuts = self.cuts if segments else ()
        partial = make_partial(list(self.groups.values()), self.main, cuts, by_unit=by_unit)
        return source.reduce(partial, label=label)

    def states(self, total: PassState) -> dict[Hashable, Any]:
        """Return the state of each plan key."""
        return dict(zip(self.groups, total.states, strict=True))

    def estimates(self, total: PassState) -> tuple[Estimate, ...]:
        """Return the estimate of each job."""
        states = self.states(total)
        notes = tuple(explain(note) for note in self.first.notes)
        return tuple(_finished(job, states[job.plan.key], notes) for job in self.jobs)


def _finished(job: Job, state: Any, notes: tuple[str, ...]) -> Estimate:
    estimate = job.plan.estimate(state)
    return replace(estimate, estimator=job.name, flags=(*notes, *estimate.flags))


def _method(given: bool | str) -> str | None:
    if isinstance(given, bool):
        return "auto" if given else None
    return given


def _columns(method: str | None) -> list[str]:
    return [part for part in (method or "").partition(":")[2].split(",") if part]
