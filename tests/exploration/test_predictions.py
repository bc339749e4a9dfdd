"""Predicted errors against all pages, listed: exact where the formula is."""

import itertools

import numpy as np
import pytest

from counterrank.exploration.predictions import (
    DrawnPages,
    full_pages,
    second_moments,
    single_positions,
)
from counterrank.policies import parse_policy

ITEMS = 3
SCORES = np.array([[0.3, 0.2, 0.1]])
#: Every page equally often: means over them are exact.
ALL = np.array(list(itertools.permutations(range(ITEMS))))[None]


class Clicks:
    """Users whose click at a place depends on its item and, for `touched`, on the one above."""

    def __init__(self, pair=1.0, touched=0.0):
        self.touched = touched
        off = np.full((ITEMS, ITEMS), pair)
        np.fill_diagonal(off, 0.0)
        self.square, self.pair = np.ones(ITEMS), off

    def mean(self, pages):
        appeal = np.array([0.6, 0.3, 0.1])[pages] * np.array([1.0, 0.7, 0.4])
        above = np.roll(pages, 1, axis=-1) == 2
        above[..., 0] = False
        return appeal * (1 - self.touched * above)


def shown(spec, pages, users):
    return DrawnPages(parse_policy(spec).bind(scores=SCORES), pages, users.mean(pages))


def exact(users, option, target, weights, alpha):
    """E[X] and E[X^2] over all pages and clicks, X = sum_k alpha_k (w_k - 1) r_k."""
    mean = second = 0.0
    for page in ALL[0]:
        items = page[None]
        chance = np.exp(option.prefix_log_prob(items)[0, -1])
        q = users.mean(items)[0]
        x = alpha * (weights(page) - 1)
        mean += chance * x @ q
        square = np.outer(q, q) * users.pair
        np.fill_diagonal(square, q)
        second += chance * x @ square @ x
    return mean, second


@pytest.mark.parametrize("pair", [0.0, 1.0, 1.5])
@pytest.mark.parametrize("target", ["top", "rand-top-n:n=2"])
def test_full_pages_are_exact(pair, target):
    users, alpha = Clicks(pair, touched=0.5), np.array([1.0, 0.6, 0.3])
    option = shown("shuffle", ALL, users)
    listed = ALL[:, [0]] if target == "top" else ALL[:, [0, 2]]
    wanted = shown(target, listed, users)
    found = full_pages(option, wanted, users, alpha)

    def weights(page):
        both = [
            np.exp(p.prefix_log_prob(page[None])[0, -1]) for p in (wanted.policy, option.policy)
        ]
        return np.full(ITEMS, both[0] / both[1])

    mean, second = exact(users, option.policy, wanted.policy, weights, alpha)
    assert found.spread == pytest.approx(np.sqrt(second - mean**2), abs=1e-12)
    assert found.allowance == 0.0


def test_single_positions_are_exact_where_items_matter_alone():
    users, alpha = Clicks(1.3), np.array([1.0, 0.6, 0.3])
    option, wanted = shown("shuffle", ALL, users), shown("top", ALL[:, [0]], users)
    found = single_positions(option, wanted, users, alpha)

    def weights(page):
        both = [np.exp(p.position_log_prob(page[None])[0]) for p in (wanted.policy, option.policy)]
        return both[0] / both[1]

    mean, second = exact(users, option.policy, wanted.policy, weights, alpha)
    assert found.spread == pytest.approx(np.sqrt(second - mean**2), abs=1e-12)
    assert found.allowance == pytest.approx(0.0, abs=1e-12)


def test_single_positions_allow_for_what_they_do_not_see():
    users, alpha = Clicks(touched=0.9), np.ones(ITEMS)
    option, wanted = shown("shuffle", ALL, users), shown("top", ALL[:, [0]], users)
    # In the best order nothing stands below item 2; on shuffled pages much does.
    assert single_positions(option, wanted, users, alpha).allowance > 0.05


def test_pages_that_are_never_shown_are_in_the_allowance():
    users, alpha = Clicks(), np.ones(ITEMS)
    option = shown("swap:probability=0.5,places=2", ALL[:, [0, 2]], users)
    reverse = DrawnPages(
        parse_policy("top").bind(scores=-SCORES), ALL[:, [5]], users.mean(ALL[:, [5]])
    )
    found = full_pages(option, reverse, users, alpha)
    assert found.allowance == pytest.approx(users.mean(ALL[:, [5]]).sum())
    assert found.share == 0.0


def test_second_moments_tell_one_click_from_many():
    rng = np.random.default_rng(0)
    q = np.full((40_000, 2), 0.3)
    together = (rng.random((40_000, 1)) < 0.3).repeat(2, axis=1).astype(float)
    single = rng.random((40_000, 2)) < q
    # Errors of these ratios are about 1 %: six of them are allowed.
    assert second_moments(together, q)[1][0, 1] == pytest.approx(1 / 0.3, rel=0.06)
    assert second_moments(single.astype(float), q)[1][0, 1] == pytest.approx(1.0, rel=0.06)
