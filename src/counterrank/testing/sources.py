"""Laws every source keeps, wherever its rows lie."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.estimators import IPS, View, Workspace


@dataclass(frozen=True)
class _RowSums:
    """Counts rows and sums what must not be lost or doubled."""

    n: int
    reward: float
    hashes: int

    def __add__(self, other: Self) -> Self:
        return type(self)(self.n + other.n, self.reward + other.reward, self.hashes + other.hashes)


def _count(batch: RankingLog) -> _RowSums:
    return _RowSums(batch.n, float(batch.reward.sum()), int(batch.action.sum()))


def check_source(source: Source, log: RankingLog, *, target: str = "new") -> None:
    """Raise AssertionError unless `source` holds exactly the rows of `log` and sums like it.

    Every row once; passes repeat to the last digit; moments equal those in memory to 1e-10; a
    sample is a sample.
    """
    from counterrank.data.source import MemorySource

    seen, expected = source.reduce(_count), _count(log)
    assert (seen.n, seen.hashes) == (expected.n, expected.hashes), f"rows {seen} against {expected}"
    assert np.isclose(seen.reward, expected.reward, rtol=1e-10)
    assert source.reduce(_count) == seen, "a second pass differs from the first"
    assert source.first.K == log.K and source.first.n <= log.n
    sample = source.sample(min(50, log.n), np.random.default_rng(0))
    assert 0 < sample.n <= log.n and sample.K == log.K
    mine, theirs = (_ips(s, target) for s in (source, MemorySource(log)))
    assert np.allclose(mine, theirs, rtol=1e-10), f"IPS {mine} against {theirs} in memory"


def _ips(source: Source, target: str) -> tuple[float, float]:
    plan = IPS().plan(Workspace(source, target))
    found = plan.finish(source.reduce(lambda batch: plan.partial(View(batch, target)).state))
    return found.value, found.stderr
