"""The audit of a log and its propensities: every check in one additive pass."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from counterrank.audit import distributions, groups, rows, values
from counterrank.audit.findings import Finding, Subject, Tallies, Tally
from counterrank.diagnostics import MAX_GROUPS, column_of, segmentation
from counterrank.log import RankingLog
from counterrank.source import Source


class Check(Protocol):
    """One check: counts that add, and what they mean."""

    name: str

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Return the counts of a batch."""

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Return what the counts of the whole log mean."""


#: A new check is a class and its name here.
CHECKS: tuple[Check, ...] = (
    rows.Logged(),
    values.Range(),
    values.Rounding(),
    values.Deterministic(),
    values.Meaning(),
    values.SameAsLogger(),
    distributions.Candidates(),
    distributions.Consistency(),
    distributions.Calibration(),
    distributions.Replacement(),
    groups.InversePropensity(),
    groups.MeanWeight(),
    groups.MeanWeightByGroup(),
    rows.Drift(),
    rows.Duplicates(),
    rows.Rewards(),
    rows.Units(),
)


def audit(
    source: Source, targets: Iterable[str] | None = None, *, segments: Sequence[str] | None = None,
    time: str | None = None, checks: Sequence[Check] = CHECKS,
) -> list[Finding]:  # fmt: skip
    """Return the findings of every check, in a fixed order.

    `segments` None looks at up to five columns with few values; `time` None at a column whose name says time.

    >>> from counterrank.sources import MemorySource
    >>> log = RankingLog(action=[[0], [1]] * 60, reward=[[1], [0]] * 60, propensity=[[.5]] * 120)
    >>> [f.found for f in audit(MemorySource(log)) if f.check == "exploration"]
    ['100.0% of shown items were a random choice']
    """
    first = source.first
    if time is not None:
        column_of(first, time)
    when = time or rows.time_column(first)
    names = _few_valued(first, when) if segments is None else list(segments)
    chosen = tuple(targets) if targets is not None else tuple(first.targets)
    for name in chosen:
        first.target(name)
    when_missing = (rows.Logged, rows.Drift, rows.Duplicates, rows.Rewards, rows.Units)
    subject = Subject(first, chosen, [segmentation(first, name) for name in names], when, source.n)
    if subject.without_propensities:
        checks = [check for check in checks if isinstance(check, when_missing)]

    def partial(batch: RankingLog) -> Tallies:
        # Weights whose squares are no numbers any more are a finding, not a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            return Tallies(tuple(check.partial(batch, subject) for check in checks))

    total = source.reduce(partial, label="auditing")
    return [found for check, tally in zip(checks, total.parts, strict=True) for found in check.finish(tally, subject)]


def _few_valued(first: RankingLog, time: str | None) -> list[str]:
    names = [name for name in (*first.columns, *first.categories) if name != time]
    return [name for name in names if 2 <= _distinct(column_of(first, name)) <= min(20, MAX_GROUPS)][:5]


def _distinct(values: Any) -> int:
    return len(np.unique(values.astype(str)))
