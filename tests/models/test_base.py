"""What every reward model has: means under a target, surprises, losses, folds."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.models import ALL, Rankings, RewardModel, base, by_row, squared_loss


class Marked(RewardModel):
    """The reward at a slot is its item, plus ten times the fold, plus a hundred times the context."""

    folds, details, draws = 3, {}, 2

    def expected(self, rankings, fold):
        value = rankings.item + 10.0 * by_row(fold, 3, rankings.m)[:, None]
        value = value + 100.0 * rankings.x[rankings.row]
        return np.where(rankings.item >= 0, value, 0.0)


@pytest.fixture
def log():
    """Seven rows whose target always shows item i % 3 at the first place and 2 at the second."""
    n = 7
    sure = np.zeros((n, 2, 3))
    sure[np.arange(n), 0, np.arange(n) % 3] = sure[:, 1, 2] = 1.0
    action = np.array([[0, 1]] * 6 + [[0, -1]])
    return cr.RankingLog(
        action=action,
        reward=np.ones((n, 2)) * (action >= 0),
        propensity=np.full((n, 2), 1 / 3),
        context=np.arange(n, dtype=float)[:, None],
        targets={"new": cr.Propensity("factored", np.full((n, 2), 0.5))},
        dists={"propensity": np.full((n, 3), 1 / 3), "new": sure},
    )


@pytest.mark.parametrize("size", [3, 4096])
def test_the_mean_under_a_target_asks_each_row_of_its_fold(log, size, monkeypatch):
    monkeypatch.setattr(base, "PART", size)
    fold, row = np.array([0, 1, 2, 0, 1, 2, 1]), np.arange(7)
    first = row % 3 + 10.0 * fold + 100.0 * row
    second = np.where(row < 6, 2 + 10.0 * fold + 100.0 * row, 0.0)
    found = Marked().mean_under(log, "new", fold)
    np.testing.assert_array_equal(found, np.stack([first, second], axis=1))
    one = Marked().mean_under(log, "new", 2)
    np.testing.assert_array_equal(one[:, 0], row % 3 + 20.0 + 100.0 * row)


def test_draws_of_a_row_are_averaged(log):
    """Both rankings of a fair coin at each place, by their share among the draws."""
    coin = cr.RankingLog(
        action=log.action,
        reward=log.reward,
        propensity=np.full((7, 2), 0.5),
        context=np.zeros((7, 1)),
        targets={"new": cr.Propensity("factored", np.full((7, 2), 0.5))},
        dists={"propensity": np.full((7, 2), 0.5), "new": np.full((7, 2), 0.5)},
    )
    found = Marked().mean_under(coin, "new", 0)
    drawn = base.target_draws(coin, "new", 2, 0)
    np.testing.assert_array_equal(found, np.where(drawn >= 0, drawn, 0).mean(axis=1))
    assert {0.0, 0.5, 1.0} == set(found.ravel())


def test_surprises_without_clicks_above_are_weighted_residuals():
    rankings = Rankings([[1, 2, 0], [2, 1, -1]], np.zeros((2, 1)))
    reward, alpha = np.array([[3.0, 1.0, 4.0], [1.0, 5.0, 9.0]]), np.array([1.0, 0.5, 2.0])
    past = Marked().history(rankings, reward, 0, alpha)
    np.testing.assert_array_equal(past.q, [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0]])
    np.testing.assert_array_equal(past.delta, [[2.0, -0.5, 8.0], [-1.0, 2.0, 0.0]])
    plain = Marked().history(rankings, reward, 0)
    np.testing.assert_array_equal(plain.delta, [[2.0, -1.0, 4.0], [-1.0, 4.0, 0.0]])
    np.testing.assert_array_equal(squared_loss(Marked(), rankings, reward, 0), [21.0, 17.0])


def test_a_fold_is_one_number_or_one_a_ranking_and_all_rows_come_last():
    assert by_row(1, 3, 2).tolist() == [1, 1]
    assert by_row(ALL, 3, 2).tolist() == [3, 3]
    assert by_row(np.array([2, ALL]), 3, 2).tolist() == [2, 3]
    assert by_row(np.array([2, 0]), 3, 2).tolist() == [2, 0]
