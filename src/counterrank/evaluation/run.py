"""evaluate(): fit what must be fitted, pass over the log once for everything, finish."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import ConfigError, CounterrankError
from counterrank.estimators import registry
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.estimate import Estimate
from counterrank.evaluation.comparison import compare
from counterrank.evaluation.options import DEFAULT_ESTIMATORS, Options
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.segments import Segmentation, segmentation
from counterrank.evaluation.state import PassState, totals_of
from counterrank.log import Probabilities, RankingLog
from counterrank.policies.base import Policy
from counterrank.source import Source


@dataclass(frozen=True, slots=True)
class Job:
    """One estimator for one target, made ready."""

    target: str
    name: str
    plan: Plan[Any]


def evaluate(
    log: Any,
    targets: "Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None" = None,
    *,
    estimators: Sequence[str | Estimator] | None = None,
    position_weights: "str | ArrayLike | None" = None,
    level: float = 0.95,
    segments: Sequence[str] = (),
    seed: int = 0,
    practical: float | None = None,
    **reading: Any,
) -> Evaluation:
    """Return what each target policy would have earned on this log, and how far that can be believed.

    `log` is a RankingLog, a frame, a path to files, a Spark or Dask frame, or a Source; `targets` maps names to
    arrays, `Propensity` or `Policy`, or names columns of the log. `practical` is the smallest relative lift that
    matters. Further options go to the reader.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> result = cr.evaluate(log, {"new": [[.5, .5]] * 100}, estimators=["ips"])
    >>> result.estimate("new", "ips").value
    1.0
    """
    from counterrank.engines.opening import opened

    wanted, custom = _named(estimators)
    with opened(log, targets, position_weights=position_weights, segments=tuple(segments), **reading) as found:
        source, names = found
        options = Options(names, wanted, level, tuple(segments), seed, practical)
        return evaluate_source(source, options, custom)


def evaluate_source(source: Source, options: Options, custom: Mapping[str, Estimator] | None = None) -> Evaluation:
    """Return the evaluation of a source that knows its targets by name."""
    jobs, skipped = _jobs(source, options, custom or {})
    groups = _groups(jobs)
    cuts = _segmentations(source, options)
    chosen = _recommended(jobs)
    by_unit = source.first.unit is not None
    main = [group for group in groups.values() if any(chosen[job.target] == job.name for job in group)]

    def partial(batch: RankingLog) -> PassState:
        return _partial(batch, list(groups.values()), main, cuts, by_unit=by_unit)

    total = source.reduce(partial, label="estimating")
    states = dict(zip(groups, total.states, strict=True))
    estimates = tuple(_finished(job, states[job.plan.key], source.first.notes) for job in jobs)
    from counterrank.evaluation.assemble import assemble

    return assemble(
        source, options, estimates, total,
        recommended=chosen, jobs=jobs, groups=list(groups), main=main, skipped=tuple(skipped),
        comparisons=compare(jobs, estimates, states, list(groups), total.totals, chosen, options.level),
    )  # fmt: skip


def _named(given: Sequence[str | Estimator] | None) -> tuple[tuple[str, ...], dict[str, Estimator]]:
    if given is None:
        return (), {}
    if isinstance(given, str):
        given = [part for part in given.split(",") if part.strip()]
    names, custom = [], {}
    for item in given:
        name = item.strip().lower() if isinstance(item, str) else item.name
        names.append(name)
        if not isinstance(item, str):
            custom[name] = item
    return tuple(dict.fromkeys(_expanded(names))), custom


def _expanded(names: Sequence[str]) -> list[str]:
    return [name for item in names for name in (registry.names() if item == "all" else [item])]


def _jobs(source: Source, options: Options, custom: Mapping[str, Estimator]) -> tuple[list[Job], list[dict[str, str]]]:
    jobs: list[Job] = []
    skipped: list[dict[str, str]] = []
    names = options.estimators or DEFAULT_ESTIMATORS
    for target in options.targets:
        workspace = Workspace(
            source, target, level=options.level, seed=options.seed, by_unit=source.first.unit is not None
        )
        for name in names:
            try:
                estimator = custom[name] if name in custom else registry.get(name)
                jobs.append(Job(target, estimator.name, estimator.plan(workspace)))
            except CounterrankError as problem:
                if options.explicit and "all" not in options.estimators and len(names) == 1:
                    raise
                if options.explicit and not _is_unsupported(problem):
                    raise
                skipped.append({"target": target, "estimator": name, "reason": str(problem)})
        if not any(job.target == target for job in jobs):
            raise ConfigError(f"no estimator can run for target '{target}': {skipped[-1]['reason']}")
    return jobs, skipped


def _is_unsupported(problem: CounterrankError) -> bool:
    return False


def _groups(jobs: Sequence[Job]) -> dict[Hashable, list[Job]]:
    groups: dict[Hashable, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.plan.key, []).append(job)
    # The most detailed plan of a group makes the state that all of them finish from.
    return {key: sorted(group, key=lambda job: -job.plan.detail) for key, group in groups.items()}


def _recommended(jobs: Sequence[Job]) -> dict[str, str]:
    preference = ("auto", "dr-order-2", "order-2", "aips", "rips", "ips")
    chosen: dict[str, str] = {}
    for job in jobs:
        names = [other.name for other in jobs if other.target == job.target]
        chosen[job.target] = next((name for name in preference if name in names), names[0])
    return chosen


def _segmentations(source: Source, options: Options) -> list[Segmentation]:
    if not options.segments:
        return []
    sample = source.sample(10_000, np.random.default_rng(options.seed))
    return [segmentation(sample, name) for name in options.segments]


def _partial(
    batch: RankingLog, groups: list[list[Job]], main: list[list[Job]], cuts: list[Segmentation], *, by_unit: bool
) -> PassState:
    views: dict[str, View] = {}
    columns = [batch.reward @ batch.position_weights]
    states = []
    for group in groups:
        view = views.setdefault(group[0].target, View(batch, group[0].target))
        part = group[0].plan.partial(view)
        states.append(part.state)
        columns.extend(part.totals.T)
    segments = {}
    for cut in cuts:
        for label, rows in cut.groups(batch):
            piece = batch.take(rows)
            segments[(cut.column, label)] = tuple(
                group[0].plan.partial(View(piece, group[0].target)).state for group in main
            )
    totals = totals_of(np.stack(columns, axis=1), batch.bucket if by_unit else None)
    return PassState(tuple(states), totals, segments, _fingerprint(batch))


def _fingerprint(batch: RankingLog) -> int:
    from counterrank.kernels.fingerprint import sum_of_row_hashes

    logging = batch.propensity
    numbers = np.empty((batch.n, 0)) if isinstance(logging, Policy) else logging.values.reshape(batch.n, -1)
    return int(sum_of_row_hashes(batch.action, batch.reward, np.ascontiguousarray(numbers)))


def _finished(job: Job, state: Any, notes: tuple[str, ...]) -> Estimate:
    estimate = job.plan.finish(state)
    return replace(estimate, estimator=job.name, flags=(*notes, *estimate.flags))
