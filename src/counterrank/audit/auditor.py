"""The audit of a log and its propensities: every check in one additive pass."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.audit import (
    amounts,
    groups,
    halves,
    item_rates,
    propensities,
    reward_rates,
    rows,
    scores,
    target_scores,
    visitors,
    visits,
)
from counterrank.audit.findings import Check, Lent, Subject, Tallies, Tally
from counterrank.data.columns import column_of, segmentation
from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.findings import SKIPPED, Finding

#: Checks of one reward; what they find speaks of that reward, all else of the log.
OF_REWARDS: tuple[Check, ...] = (
    reward_rates.REWARD_RATES,
    item_rates.ITEM_RATES,
    amounts.AMOUNTS,
    visits.OTHER_PAGE,
)
REWARD_FINDINGS = (
    *reward_rates.FINDINGS,
    *item_rates.FINDINGS,
    *amounts.FINDINGS,
    *visits.FINDINGS,
)
#: Checks on which a verdict rests.
VITAL: tuple[Check, ...] = (
    rows.LOGGED,
    propensities.EXPLORATION,
    propensities.MEANING,
    propensities.REPLACEMENT,
    scores.SCORES,
    scores.DRAWS,
    groups.WEIGHTS,
    groups.GROUP_WEIGHTS,
    rows.ROBOTS,
    rows.DUPLICATES,
    visitors.USER_COLUMN,
    target_scores.TARGET_SCORES,
    halves.LIFT_BY_HALVES,
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
#: What can be said of a log without propensities, and what is said of weights alone; names of checks.
_WITHOUT_PROPENSITIES = {
    one.name
    for one in (
        rows.LOGGED, rows.DRIFT, rows.DUPLICATES, rows.REWARDS, rows.UNITS, rows.ROBOTS, rows.CONTEXT,
        scores.SCORES, visitors.USER_COLUMN, target_scores.TARGET_SCORES, *OF_REWARDS,
    )
}  # fmt: skip
_OF_WEIGHTS = {one.name for one in (groups.WEIGHTS, groups.GROUP_WEIGHTS, halves.LIFT_BY_HALVES)}


@dataclass(frozen=True, slots=True)
class Auditor:
    """The checks of one log: the results of `partial` add over batches, `finish` returns the findings."""

    subject: Subject
    checks: tuple[Check, ...]

    def partial(
        self,
        batch: RankingLog,
        lent: Mapping[str, Lent] | None = None,
        pages: NDArray[np.uint64] | None = None,
    ) -> Tallies:
        """Return the counts of a batch; `lent` and `pages` are what a pass has already formed of it."""
        if batch.weight is not None:
            # Rows kept with one probability look like the whole log, whatever the others depended on.
            batch, pages = batch.evenly_kept(), None
        subject = replace(self.subject, lent=lent or {}, pages=pages, seen={})
        parts = {most: subject.stretch(batch, most) for most in {c.most for c in self.checks}}
        looked = [parts[check.most] for check in self.checks]
        # Weights whose squares are no numbers any more are a finding, not a warning.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            tallies = tuple(
                Tally() if part is None else check.partial(part, subject)
                for check, part in zip(self.checks, looked, strict=True)
            )
        return Tallies(tallies, tuple(0 if part is None else part.n for part in looked))

    def finish(self, total: Tallies) -> list[Finding]:
        """Return the findings of every check, in a fixed order."""
        n, events = max(total.rows, default=0), self.subject.first.events
        findings = [] if events is None else [*events.findings]
        for check, tally, looked in zip(self.checks, total.parts, total.rows, strict=True):
            for one in check.finish(tally, self.subject):
                # How many rankings it rests on, where these were not all.
                partly = looked != n and one.status is not SKIPPED
                text = f"{one.text} (in {looked:,} of {n:,} rankings)" if partly else one.text
                findings.append(replace(one, text=text))
        return findings


def auditor_of(
    source: Source, sample: RankingLog, targets: Iterable[str] | None = None, *, segments: Sequence[str] | None = None,
    time: str | None = None, checks: Sequence[Check] = CHECKS, weighed: bool = True, like: Auditor | None = None,
) -> Auditor:  # fmt: skip
    """Return the auditor of a source; `sample` are rows of all of it, from which context columns are cut.

    Without `weighed` nothing is said about weights: no estimate will use any. `like` is an auditor of
    the same rows with another reward.
    """
    first = source.first
    if time is not None:
        column_of(first, time)
    when = time or rows.time_column(first)
    # Weights average 1 whatever is known before the ranking is shown; of other columns nobody says
    # whether they are that or an outcome (dwell time, any click).
    names = list(segments or ())
    chosen = tuple(targets) if targets is not None else tuple(first.targets)
    for name in chosen:
        first.target(name)
    cuts = [segmentation(first, name) for name in names]
    context = groups.context_cuts(sample) if like is None else like.subject.cuts
    subject = Subject(first, chosen, cuts, when, source.n, context)
    # By name: a check that was sent to another process is no longer the same object.
    unwanted = set[str]() if weighed else {*_OF_WEIGHTS}
    if subject.without_propensities:
        unwanted |= {check.name for check in checks} - _WITHOUT_PROPENSITIES
    return Auditor(subject, tuple(check for check in checks if check.name not in unwanted))


def audit(
    source: Source, targets: Iterable[str] | None = None, *, segments: Sequence[str] | None = None,
    time: str | None = None, checks: Sequence[Check] = CHECKS,
) -> list[Finding]:  # fmt: skip
    r"""Return the findings of every check, in a fixed order.

    `segments` names columns whose groups are looked at beside those of the context; `time` None
    looks at a column whose name and values say time.

    >>> from counterrank.data.source import MemorySource
    >>> log = RankingLog(action=[[0], [1]] * 60, reward=[[1], [0]] * 60, propensity=[[.5]] * 120)
    >>> [f.text for f in audit(MemorySource(log)) if f.code == "exploration"]
    ['100.0\u202f% of shown items were a random choice']
    """
    chosen = tuple(source.first.targets) if targets is None else tuple(targets)
    source, coverages = target_scores.scored_rows(source, chosen)
    sample = (
        source.sample(CUT_ROWS, np.random.default_rng(0))
        if source.first.context is not None
        else source.first
    )
    auditor = auditor_of(source, sample, chosen, segments=segments, time=time, checks=checks)
    found = auditor.finish(source.reduce(auditor.partial, label="auditing"))
    return [*found, *(finding for one in coverages for finding in one.findings())]
