"""Targets that score some of the candidates: the rankings that are scored in full, and how many they are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from counterrank.arrays import Bools
from counterrank.audit.target_scores import TARGET_SCORES
from counterrank.data.log import RankingLog
from counterrank.data.source import FilteredSource, MemorySource, Source
from counterrank.errors import CounterrankError, LogError
from counterrank.findings import PASSED, WARNED, Finding
from counterrank.policies import Scored
from counterrank.texts import in_percent

#: With a smaller share of rankings the answer is about another population than the log's.
LEAST = 0.5
#: With a smaller share the evidence is directional at best.
NEARLY_ALL = 0.99


@dataclass
class Coverage:
    """How many rankings a target scores in full; known after a pass."""

    target: str
    rows: int = 0
    kept: int = 0

    def counted(self, rows: int, kept: int) -> None:
        """Take the counts of a pass; too small a share is refused."""
        self.rows, self.kept = rows, kept
        if kept < LEAST * rows:
            raise self.refusal()

    def refusal(self) -> CounterrankError:
        """Return the error for a target that scores too few rankings."""
        return LogError(
            f"'{self.target}' scores all candidates in {self.kept:,} of {self.rows:,} rankings; at "
            f"least {in_percent(LEAST, 0)} must be scored in full",
            remedy="score every candidate, also those that were not shown; -inf stands for a "
            "candidate that the target never shows",
        )

    def findings(self) -> Iterator[Finding]:
        """Yield what was left out, where anything was."""
        left = self.rows - self.kept
        if not left:
            return
        yield Finding(
            TARGET_SCORES.name,
            PASSED if self.kept >= NEARLY_ALL * self.rows else WARNED,
            f"'{self.target}' scores all candidates in {in_percent(self.kept / self.rows)} of the "
            f"rankings; the other {left:,} of {self.rows:,} are left out",
            ("score every candidate, also those that were not shown",),
            cause="the value is that of the rankings scored in full, which may differ from the others",
            target=self.target,
        )


def _scored(batch: RankingLog, target: str) -> Bools:
    """Return in which rows (n,) the target scores every candidate."""
    policy = batch.targets[target]
    if not isinstance(policy, Scored) or policy.n_rows != batch.n:
        return np.ones(batch.n, dtype=bool)
    return ~policy.unscored


def scored_rows(source: Source, targets: Iterable[str]) -> tuple[Source, list[Coverage]]:
    """Return the source of the rankings that the targets score in full, and the coverage of each target."""
    found = []
    for target in targets:
        if not isinstance(source.first.targets.get(target), Scored):
            continue
        one = Coverage(target)
        found.append(one)
        if isinstance(source, MemorySource):
            keep = _scored(source.log, target)
            one.counted(len(keep), int(keep.sum()))
            if not keep.all():
                source = MemorySource(source.log.where(keep), threads=source.threads)
        else:
            chosen = partial(_scored, target=target)
            source = FilteredSource(source, chosen, one.refusal, one.counted, source.n)
    return source, found
