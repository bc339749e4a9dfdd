"""How many users a log has: counted, not estimated from the buckets that errors are summed by."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.evaluation import sweep


@pytest.mark.parametrize("kind", [int, str])
def test_users_of_a_log_are_counted(kind):
    """Of 4,000 users in 1,024 buckets an estimate is off by several per cent."""
    rng = np.random.default_rng(0)
    n, users = 9000, 4000
    unit = np.r_[np.arange(users), rng.integers(0, users, n - users)]
    log = cr.RankingLog(action=rng.integers(0, 2, (n, 1)), reward=rng.integers(0, 2, (n, 1)),
                        propensity=np.full((n, 1), 0.5), unit=unit.astype(kind),
                        targets={"a": np.full((n, 1), 0.5)})  # fmt: skip
    result = cr.evaluate(log, ["a"], estimators=["ips"])
    assert result.log.units == users
    assert "4,000 users" in result.summary() and "at least" not in result.summary()


def test_no_more_than_so_many_are_kept(monkeypatch):
    monkeypatch.setattr(sweep, "COUNTED_UNITS", 5)
    few, many = (sweep.UnitSet(frozenset(range(n))) for n in (3, 9))
    assert (few + few).count == 3 and (few + many).count == 5
    assert (many + sweep.UnitSet(frozenset([-1]))).values == many.values
