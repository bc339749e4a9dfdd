"""Laws every source keeps, wherever its rows lie."""

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource, Source
from counterrank.estimators import IPS, View, Workspace


def _sums(batch: RankingLog) -> Floats:
    """Return what must not be lost or doubled: the number of rows, and sums of actions and rewards."""
    return np.array([batch.n, batch.action.sum(), batch.reward.sum()], dtype=np.float64)


def check_source(source: Source, log: RankingLog, *, target: str = "new") -> None:
    """Raise AssertionError unless `source` holds exactly the rows of `log` and sums like it.

    Every row once; passes repeat to the last digit; moments equal those in memory to 1e-10; a
    sample is a sample.
    """
    seen, expected = source.reduce(_sums), _sums(log)
    assert (seen[:2] == expected[:2]).all(), f"rows {seen} against {expected}"
    assert np.isclose(seen[2], expected[2], rtol=1e-10)
    assert (source.reduce(_sums) == seen).all(), "a second pass differs from the first"
    assert source.first.K == log.K and source.first.n <= log.n
    sample = source.sample(min(50, log.n), np.random.default_rng(0))
    assert 0 < sample.n <= log.n and sample.K == log.K
    mine, theirs = (_ips(s, target) for s in (source, MemorySource(log)))
    assert np.allclose(mine, theirs, rtol=1e-10), f"IPS {mine} against {theirs} in memory"


def _ips(source: Source, target: str) -> tuple[float, float]:
    plan = IPS().plan(Workspace(source, target))
    found = plan.finish(source.reduce(lambda batch: plan.partial(View(batch, target)).state))
    return found.value, found.stderr
