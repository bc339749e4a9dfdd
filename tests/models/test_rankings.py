"""Random numbers follow the seed; what policies say of a batch."""

from pathlib import Path

import numpy as np
import pytest

import counterrank as cr
import counterrank.models
from counterrank.data.source import MemorySource, at_most
from counterrank.models.rankings import Stream, factored_draws, stream, whole_distribution
from counterrank.testing import random_log

ROOM = Path(counterrank.models.__file__).parent


@pytest.mark.parametrize("use", Stream)
def test_a_stream_follows_the_seed_and_is_its_own(use):
    first = stream(1, use).random(4)
    np.testing.assert_array_equal(first, stream(1, use).random(4))
    others = [stream(2, use), *(stream(1, other) for other in Stream if other is not use)]
    assert all((other.random(4) != first).all() for other in others)


def test_no_other_random_numbers_are_made():
    made = [
        path.name
        for path in ROOM.rglob("*.py")
        if "default_rng" in path.read_text() and "clicks" not in path.parts
    ]
    assert made == ["rankings.py"]


def test_newton_rows_follow_the_seed():
    source = MemorySource(random_log(np.random.default_rng(0)))
    taken = [at_most(source, 50, stream(seed, Stream.NEWTON_ROWS)).first.unit for seed in (0, 0, 1)]
    assert at_most(source, source.n, stream(0, Stream.NEWTON_ROWS)) is source
    np.testing.assert_array_equal(taken[0], taken[1])
    assert set(taken[0]) != set(taken[2])


def test_one_distribution_stands_for_positions_that_have_the_same():
    rng, (n, K, A) = np.random.default_rng(2), (50, 3, 4)
    alike = rng.dirichlet(np.ones(A), (n, 1)).repeat(K, axis=1)
    other = alike.copy()
    other[-1, -1] = other[-1, -1, ::-1]
    log = cr.RankingLog(
        action=np.zeros((n, K), dtype=int), reward=np.ones((n, K)), propensity=np.ones((n, K)),
        dists={"alike": alike, "other": other, "row": alike[:, 0]},
    )  # fmt: skip
    for name in ("alike", "row"):
        np.testing.assert_array_equal(whole_distribution(log, name), alike[:, :1])
    np.testing.assert_array_equal(whole_distribution(log, "other"), other)
    drawn = [factored_draws(log, table, 5, seed=1) for table in (alike, alike[:, :1])]
    np.testing.assert_array_equal(*drawn)
