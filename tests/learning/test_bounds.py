"""The bound holds at every n, for every law it may meet; draws give unbiased weights and means."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import binom

from counterrank.learning.paths import DrawnValues, best_of_shares
from counterrank.statistics import betting_lower_bound
from counterrank.statistics.betting import refuted, tried

LAWS = {
    "rare": (lambda rng, n: (rng.random(n) < 0.02) * 1.0, 0.02, 0.0),
    "heavy": (lambda rng, n: rng.pareto(2.5, n), 1 / 1.5, 0.0),
    "two-sided": (lambda rng, n: rng.choice([-3.0, 0.2], n, p=[0.05, 0.95]), 0.04, -3.0),
    "even": (lambda rng, n: rng.random(n), 0.5, 0.0),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("misjudged", [0.2, 1.0, 5.0])
def test_the_bound_is_above_the_mean_at_most_as_often_as_it_says(law, n, misjudged):
    """400 runs at 10 %: more than 67 wrong ones would happen by chance once in 1e5 times."""
    make, mean, lowest = LAWS[law]
    rng = np.random.default_rng([n, len(law)])
    spread = misjudged * float(make(rng, 100_000).std())
    wrong = sum(
        betting_lower_bound(make(rng, n), lowest, 0.1, spread=spread, centre=mean) > mean
        for _ in range(400)
    )
    assert wrong <= binom.isf(1e-5, 400, 0.1)


def test_the_bound_comes_close_and_a_t_bound_would_fail():
    rng = np.random.default_rng(0)
    x = rng.random(20_000)
    bound = betting_lower_bound(x, 0.0, 0.05, spread=0.29, centre=0.5)
    assert x.mean() - 3.2 * 0.29 / np.sqrt(20_000) < bound < x.mean() - 1.5 * 0.29 / np.sqrt(20_000)
    rare = [(rng.random(20) < 0.98) * 1.0 for _ in range(400)]
    t_wrong = np.mean([s.mean() - 1.73 * s.std(ddof=1) / np.sqrt(20) > 0.98 for s in rare])
    ours = np.mean(
        [betting_lower_bound(s, 0.0, 0.05, spread=0.14, centre=0.98) > 0.98 for s in rare]
    )
    assert t_wrong > 0.5 and ours <= 0.05


@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("spread", [0.1, 0.5, 2.0])
def test_a_true_mean_is_refuted_with_at_most_the_stated_probability(p, spread):
    """Every sequence of 12 coins, each with its probability: no simulation, no tolerance."""
    for delta in (0.05, 0.2):
        total = sum(
            p ** sum(coins) * (1 - p) ** (12 - sum(coins))
            for coins in product((0, 1), repeat=12)
            if refuted(np.array(coins, dtype=float), p, 0.9 / p, delta, spread, 3.0)
        )
        assert total <= delta


def test_the_game_follows_its_rule():
    """The kernel against the same game written down plainly, win or lose."""

    def plainly(values, mu, most, delta, spread, trust):
        capital = 1.0
        for t, value in enumerate(values):
            before = values[:t] - mu
            moment = (trust * spread**2 + (before**2).sum()) / (trust + t)
            stake = math.sqrt(2 * math.log(1 / (delta * capital)) / (moment * (len(values) - t)))
            capital *= 1 + min(stake, most) * (value - mu)
            if capital >= 1 / delta:
                return True
        return False

    rng = np.random.default_rng(0)
    said = []
    for _ in range(300):
        x = rng.normal(0.15, 1.0, size=40).clip(-2.0)
        mu = rng.uniform(-0.5, 0.5)
        args = (mu, 0.9 / (mu + 2.0), 0.05, rng.uniform(0.3, 3.0), 10.0)
        said.append(refuted(x, *args))
        assert said[-1] == plainly(x, *args)
    assert 50 < sum(said) < 250


def test_the_means_to_try_do_not_look_at_the_rows():
    """Rising, close near what is expected, down to the lowest and up beyond every need."""
    means = tried(-3.0, 0.2, 0.01)
    assert (np.diff(means) > 0).all() and -3.0 < means[0] < -2.8 and means[-1] > 1000.0
    near = np.abs(means - 0.2) < 0.03
    assert np.diff(means[near]).max() < 0.0004 and 0.2 in means
    assert (tried(0.5, 0.0, 0.01) > 0.5).all()


def test_it_comes_closer_than_one_stake_for_all():
    """Within 2 standard errors, where units of differing size keep the plain 2.4 and more."""
    rng = np.random.default_rng(1)
    ours, plain = [], []
    for _ in range(40):
        x = rng.random(2000)
        error = x.std() / np.sqrt(2000)
        some = np.ones(2000)
        some[0], y = 2.0, x.copy()
        y[0] *= 2.0
        ours.append((x.mean() - betting_lower_bound(x, 0.0, 0.05, spread=0.29, centre=0.5)) / error)
        plain.append(
            (x.mean() - betting_lower_bound(y, 0.0, 0.05, spread=0.29, centre=0.5, counts=some))
            / error
        )
    assert np.mean(ours) < 2.0 < 2.4 < np.mean(plain)


def test_units_are_bet_on_whole():
    """Rows repeated inside units carry no more evidence than one of them."""
    rng = np.random.default_rng(3)
    x = rng.random(500)
    once = betting_lower_bound(x, 0.0, 0.05, spread=0.29, centre=0.5)
    repeated = betting_lower_bound(
        4 * x, 0.0, 0.05, spread=4 * 0.29, centre=0.5, counts=np.full(500, 4.0)
    )
    assert repeated == pytest.approx(once, abs=1e-9)


def test_no_values_and_constant_values():
    assert betting_lower_bound(np.empty(0), -1.0, 0.05, spread=1.0, centre=0.0) == -1.0
    assert betting_lower_bound(np.zeros(100), 0.0, 0.05, spread=0.0, centre=0.0) == 0.0
    assert -1.0 <= betting_lower_bound(np.full(100, 0.5), -1.0, 0.05, spread=0.1, centre=0.4) <= 0.5


@pytest.mark.parametrize(("draws", "m"), [(5, 1), (5, 3), (6, 6)])
def test_means_are_averages_over_every_set_of_m_draws(draws, m):
    values = np.sort(np.random.default_rng(draws).normal(size=draws))
    naive = np.mean([max(values[list(chosen)]) for chosen in combinations(range(draws), m)])
    drawn = DrawnValues(np.zeros(1), values[None], np.zeros(1, dtype=np.int64))
    assert drawn.mean(m, np.inf)[0] == pytest.approx(naive, abs=1e-12)
    assert best_of_shares(draws, m).sum() == pytest.approx(1.0, abs=1e-12)


def test_a_capped_mean_never_falls_with_m():
    ordered = np.sort(np.random.default_rng(1).normal(size=(40, 16)), axis=1)
    drawn = DrawnValues(np.zeros(40), ordered, np.zeros(40, dtype=np.int64))
    for cap in (-0.5, 0.3, np.inf):
        means = [drawn.mean(m, cap) for m in (1, 2, 4, 8)]
        assert all((b >= a - 1e-12).all() for a, b in zip(means, means[1:], strict=False))
