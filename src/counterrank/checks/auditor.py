"""The audit of a log and its propensities: every check in one additive pass, on whatever holds the log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.checks import copies, items, propensities, rewards, rows, scores, weights
from counterrank.checks.answers import Accept, answers_of, concluded
from counterrank.checks.base import Audit, Check, Subject, Tallies, Tally, kind_of
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import (
    LogError,
    PolicyError,
    PropensityError,
)
from counterrank.common.findings import FAILED, SKIPPED, About, Finding
from counterrank.data.columns import column_of, segmentation
from counterrank.data.log import Probabilities, RankingLog
from counterrank.data.source import Source
from counterrank.estimators import View
from counterrank.io import (
    LogLike,
    opened,
)

#: Checks of one reward; what they find speaks of that reward, all else of the log.
OF_REWARDS: tuple[Check, ...] = (
    rewards.REWARD_RATES,
    items.ITEM_RATES,
    items.AMOUNTS,
    rewards.OTHER_PAGE,
)
#: Checks of weights, and of the numbers of the logger and of targets.
OF_WEIGHTS: tuple[Check, ...] = (weights.WEIGHTS, weights.GROUP_WEIGHTS, weights.LIFT_BY_HALVES)
OF_NUMBERS: tuple[Check, ...] = (
    propensities.EXPLORATION,
    propensities.MEANING,
    propensities.REPLACEMENT,
    propensities.ROUNDING,
    propensities.TARGETS,
    propensities.DISTRIBUTIONS,
    propensities.CALIBRATION,
)
REWARD_FINDINGS = (*rewards.FINDINGS, *items.FINDINGS)
#: Checks on which a verdict rests.
VITAL: tuple[Check, ...] = (
    rows.LOGGED,
    propensities.EXPLORATION,
    propensities.MEANING,
    propensities.REPLACEMENT,
    scores.SCORES,
    scores.DRAWS,
    weights.WEIGHTS,
    weights.GROUP_WEIGHTS,
    rows.ROBOTS,
    copies.DUPLICATES,
    rows.USER_COLUMN,
    scores.TARGET_SCORES,
    weights.LIFT_BY_HALVES,
    *OF_REWARDS,
)
#: Checks that say what else is strange.
FURTHER: tuple[Check, ...] = (
    propensities.ROUNDING,
    propensities.TARGETS,
    propensities.DISTRIBUTIONS,
    propensities.CALIBRATION,
    rows.DRIFT,
    rows.REWARDS,
    rows.UNITS,
    rows.CONTEXT,
)
#: A new check is a `Check` in one of the two.
CHECKS = (*VITAL, *FURTHER)
#: Rows from which quantiles of context columns are taken.
CUT_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Auditor:
    """The checks of one log: the results of `partial` add over batches, `finish` returns the findings."""

    subject: Subject
    checks: tuple[Check, ...]

    def partial(
        self,
        batch: RankingLog,
        lent: Mapping[str, View] | None = None,
        pages: NDArray[np.uint64] | None = None,
    ) -> Tallies:
        """Return the counts of a batch; `lent` and `pages` are what a pass has already formed of it."""
        if batch.weight is not None:
            # Rows kept with one probability look like the whole log, whatever the others depended on.
            batch, pages = batch.evenly_kept(), None
        subject = replace(self.subject, lent=lent or {}, pages=pages, formed={})
        # Checks of the same rows share what they form of them.
        stretches: dict[int | None, RankingLog | None] = {}
        tallies, rows = [], []
        # Weights whose squares are no numbers any more are a finding, not a warning.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for check in self.checks:
                limit = check.max_rows
                if limit not in stretches:
                    stretches[limit] = subject.sampled_stretch(batch, limit)
                looked = stretches[limit] if check.needs in subject.has else None
                tallies.append(Tally() if looked is None else check.count(looked, subject))
                rows.append(0 if looked is None else looked.n)
        return Tallies(tuple(tallies), tuple(rows))

    def finish(self, total: Tallies) -> list[Finding]:
        """Return the findings of every check, in a fixed order."""
        n, first = max(total.rows, default=0), self.subject.first
        joined: list[tuple[About, Any]] = [("scores", scores) for scores in first.scores]
        if first.events is not None:
            joined.insert(0, ("events", first.events))
        findings = [
            replace(finding, about=topic, kind=kind_of(finding.status))
            for topic, table in joined
            for finding in table.findings
        ]
        # Rewards whose squares are no numbers any more are no warning either.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for check, tally, looked in zip(self.checks, total.parts, total.rows, strict=True):
                for finding in check.findings(tally, self.subject):
                    # How many rankings it rests on, where these were not all.
                    if looked != n and finding.status is not SKIPPED:
                        text = f"{finding.text} (in {looked:,} of {n:,} rankings)"
                        finding = replace(finding, text=text)
                    findings.append(finding)
        return findings


def auditor_of(
    source: Source,
    sample: RankingLog,
    targets: Iterable[str] | None = None,
    *,
    segments: Sequence[str] | None = None,
    time: str | None = None,
    checks: Sequence[Check] = CHECKS,
    weighed: bool = True,
    template: Auditor | None = None,
) -> Auditor:
    """Return the auditor of a source; `sample` are rows of all of it, from which context columns are cut.

    Without `weighed` nothing is said about weights: no estimate will use any. `template` is an auditor of
    the same rows with another reward.
    """
    first, named = source.first, tuple(segments or ())
    if time is not None:
        column_of(first, time)
    chosen = tuple(first.targets) if targets is None else tuple(targets)
    for name in chosen:
        first.target(name)
    # Weights average 1 whatever is known before the ranking is shown; of other columns nobody says
    # whether they are that or an outcome (dwell time, any click).
    context = weights.context_cuts(sample) if template is None else template.subject.cuts
    subject = Subject(first, chosen, (), time or rows.time_column(first), source.n, context)
    if named:
        subject.segments = [segmentation(first, name) for name in named]
        # A segment that is a category of the models, too, is one column and has the name of the file's.
        of_segment = {f"x_{name}": name for name in named if f"x_{name}" not in first.columns}
        subject.cuts = [
            replace(cut, column=of_segment.get(cut.column, cut.column)) for cut in context
        ]
        if {*first.context_names} <= of_segment.keys():
            subject.has -= {"context"}
    unwanted: tuple[Check, ...] = () if weighed else OF_WEIGHTS
    if subject.without_propensities:
        unwanted = (*OF_WEIGHTS, *OF_NUMBERS)
    return Auditor(subject, tuple(check for check in checks if check not in unwanted))


def audit(
    source: Source,
    targets: Iterable[str] | None = None,
    *,
    segments: Sequence[str] | None = None,
    time: str | None = None,
    checks: Sequence[Check] = CHECKS,
) -> list[Finding]:
    r"""Return the findings of every check, in a fixed order.

    `segments` names columns whose groups are looked at beside those of the context; `time` None
    looks at a column whose name and values say time.

    >>> from counterrank.data.source import MemorySource
    >>> log = RankingLog(action=[[0], [1]] * 60, reward=[[1], [0]] * 60, propensity=[[.5]] * 120)
    >>> [f.text for f in audit(MemorySource(log)) if f.code == "exploration"]
    ['100.0\u202f% of shown items were a random choice']
    """
    chosen = tuple(source.first.targets) if targets is None else tuple(targets)
    source, coverages = scores.scored_rows(source, chosen)
    sample = source.first
    if sample.context is not None:
        sample = source.sample(CUT_ROWS, np.random.default_rng(0))
    auditor = auditor_of(source, sample, chosen, segments=segments, time=time, checks=checks)
    findings = auditor.finish(source.reduce(auditor.partial, label="auditing"))
    for coverage in coverages:
        findings += coverage.findings()
    return findings


@single_blas_thread
def audit_log(
    log: LogLike,
    targets: Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None = None,
    *,
    segments: Sequence[str] | str | None = None,
    time: str | None = None,
    accept: Accept = (),
    **reading: Any,
) -> Audit:
    """Return the findings about a log; targets may be left out.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
    targets
        The policies whose weights are looked at: names of columns, or names mapped to arrays or policies.
    segments
        A column or several whose groups are compared.
    time
        The column with the time of each ranking.
    accept
        Answers to questions: texts 'CODE where CONDITION', or mappings with `code`, `where` and `reason`.
    **reading
        Options of the reader, as in `counterrank.io.ReadOptions`, and `engine`, "local", "dask" or "spark".

    Returns
    -------
    Audit
        The findings, worst first, each with its likely cause and remedy.

    Raises
    ------
    CounterrankError
        The log cannot be read; `audit_file` says more about such a file.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> isinstance(audit_log(log), cr.checks.Audit)
    True
    """
    named = (segments,) if isinstance(segments, str) else tuple(segments or ())
    carried = (*named, time) if time else named
    with opened(log, targets or None, segments=carried, needs_targets=False, **reading) as (
        source,
        names,
    ):
        return Audit(concluded(audit(source, names, segments=named, time=time), answers_of(accept)))


def audit_file(
    path: str | os.PathLike[str],
    targets: Sequence[str] = (),
    *,
    segments: Sequence[str] | str | None = None,
    time: str | None = None,
    accept: Accept = (),
    **reading: Any,
) -> Audit:
    """Return the findings about a file; of one that cannot be read as a log, the reader's message.

    Parameters
    ----------
    path
        A file, a folder or a pattern.
    targets
        Names of columns of target policies.
    segments
        As in `audit_log`.
    time
        As in `audit_log`.
    accept
        As in `audit_log`.
    **reading
        As in `audit_log`.

    Returns
    -------
    Audit
        The findings, worst first, each with its likely cause and remedy.

    Raises
    ------
    CounterrankError
        There is no such file, or an option makes no sense.

    Examples
    --------
    >>> print(audit_file("log.parquet", ["new"]))  # doctest: +SKIP
    """
    try:
        return audit_log(
            path,
            tuple(targets),
            segments=segments,
            time=time,
            accept=accept,
            **{"require_propensity": False, **reading},
        )
    except (LogError, PolicyError, PropensityError) as problem:
        if not isinstance(path, (str, os.PathLike)):
            raise
        remedy = problem.remedy or "correct the file"
        unread = Finding("readable", FAILED, problem.said, (remedy,), kind="refuted", about="rows")
        return Audit([unread])
