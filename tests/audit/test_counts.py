"""Counts the checks share, against counting one by one."""

from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.audit.distributions import by_position, repeated, shown
from counterrank.audit.findings import Subject
from counterrank.audit.groups import Cut


def padded(actions: int, seed: int = 0) -> cr.RankingLog:
    rng = np.random.default_rng(seed)
    action = rng.integers(0, actions, (60, 4))
    action[np.arange(4) >= rng.integers(1, 5, 60)[:, None]] = -1
    return cr.RankingLog(
        action=action,
        reward=np.zeros((60, 4)),
        propensity=np.full((60, 4), 0.5),
        context=np.where(rng.random((60, 1)) < 0.2, np.nan, rng.integers(0, 4, (60, 1))),
        dists={"propensity": rng.dirichlet(np.ones(actions), (60, 4))},
    )


@pytest.mark.parametrize("actions", [1, 3, 63, 64, 90])
def test_items_by_position_and_repeats(actions: int) -> None:
    log = padded(actions)
    rows = [[a for a in row if a >= 0] for row in log.action.tolist()]
    for k, counts in enumerate(by_position(log, actions).tolist()):
        items = [row[k] for row in rows if k < len(row)]
        assert counts == [items.count(a) for a in range(actions)]
    assert repeated(log, actions).tolist() == [len(set(row)) < len(row) for row in rows]
    assert Subject(log).items(log).tolist() == [sum(k < len(row) for row in rows) for k in range(4)]


@pytest.mark.parametrize("alike", [False, True])
def test_the_distribution_s_entry_of_what_was_shown(alike: bool) -> None:
    log = padded(5)
    table = log.dists["propensity"]
    table = table[:, 0] if alike else table
    found = shown(replace(log, dists={"propensity": table}), "propensity")
    assert found is not None
    for i, row in enumerate(log.action.tolist()):
        for k, a in enumerate(row):
            if a >= 0:
                assert found[0][i, k] == (table[i, a] if alike else table[i, k, a])


def test_cells_are_those_of_the_batch_at_hand() -> None:
    log = padded(3)
    subject = Subject(log, seen=[])
    for batch in (log, log.take(slice(10, 30)), log, log.take(slice(30, 50))):
        expected = [[k < length for k in range(4)] for length in batch.lengths.tolist()]
        assert subject.used(batch).tolist() == expected


def test_groups_of_a_number_are_closed_below() -> None:
    log = padded(3)
    cut = Cut("x", 0, edges=(1.0, 2.5))
    values = log.context[:, 0].tolist()  # type: ignore[index]
    expected = [3 if v != v else 0 if v < 1.0 else 1 if v < 2.5 else 2 for v in values]
    assert cut.codes(log).tolist() == expected
