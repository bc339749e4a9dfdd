"""Weights of pooled arms and their controls, by enumeration of all pages."""

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import PropensityError
from counterrank.data.log import Propensity
from counterrank.estimators import (
    balance_weights,
    can_model,
    model_control,
    page_log_probs,
    pooled,
)

ITEMS, K = 4, 2
PAGES = np.array(list(itertools.permutations(range(ITEMS), K)))
SCORES = {"a": np.array([[0.3, -1.0, 2.0, 0.0]]), "b": np.array([[0.0, 1.0, 1.5, -0.5]])}
SHARES = np.array([0.3, 0.7])


def every_page(**policies) -> cr.RankingLog:
    n = len(PAGES)
    return cr.RankingLog(
        action=PAGES, reward=np.zeros((n, K)), propensity=np.ones((n, K)), targets=policies
    )


def plackett_luce(name: str) -> cr.PlackettLuce:
    return cr.PlackettLuce(np.repeat(SCORES[name], len(PAGES), axis=0))


def by_hand(name: str, page) -> float:
    left, value = list(range(ITEMS)), 1.0
    for item in page:
        odds = np.exp(SCORES[name][0, left])
        value *= np.exp(SCORES[name][0, item]) / odds.sum()
        left.remove(item)
    return value


def test_weighted_means_over_the_mixture_are_those_of_each_arm():
    log = every_page(a=plackett_luce("a"), b=plackett_luce("b"))
    log_prob = page_log_probs(log, ["a", "b"])
    chances = np.array([[by_hand(name, page) for name in "ab"] for page in PAGES])
    assert np.allclose(np.exp(log_prob), chances, atol=1e-14)
    w = balance_weights(log_prob, SHARES)
    mixed = chances @ SHARES
    f = np.random.default_rng(0).normal(size=len(PAGES))
    assert (w * (mixed * f)[:, None]).sum(axis=0) == pytest.approx(f @ chances, abs=1e-12)
    assert (w <= 1 / SHARES + 1e-12).all() and w @ SHARES == pytest.approx(np.ones(len(PAGES)))


def test_probabilities_of_every_kind_are_those_of_the_page():
    factors = np.random.default_rng(1).random((len(PAGES), K))
    joint = factors.prod(axis=1)
    given = {
        "factored": Propensity("factored", factors),
        "prefix": Propensity("prefix", factors),
        "joint": Propensity("joint", joint),
    }
    log = every_page(**given)
    found = page_log_probs(log, list(given))
    assert np.exp(found) == pytest.approx(np.column_stack([joint] * 3), rel=1e-12)
    with pytest.raises(PropensityError, match="arm 'p' has marginal probabilities"):
        page_log_probs(every_page(p=Propensity("position", factors)), ["p"])


def test_padding_counts_for_nothing():
    log = cr.RankingLog(
        action=[[0, -1], [1, 2]],
        reward=np.zeros((2, 2)),
        propensity=np.ones((2, 2)),
        targets={"a": np.array([[0.5, np.nan], [0.5, 0.5]])},
    )
    assert np.exp(page_log_probs(log, ["a"]))[:, 0] == pytest.approx([0.5, 0.25])


def test_pages_that_no_arm_shows_weigh_nothing():
    never = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    assert balance_weights(never, SHARES).tolist() == [[0.0, 0.0], [1 / 0.3, 0.0]]


class Stub:
    """A model that is wrong, but known: of a page the sum of (k + 1) times the item."""

    def mean(self, rankings, fold):
        return (rankings.item * np.arange(1, rankings.K + 1)).astype(float)


@pytest.mark.parametrize("pair", [(1, 0), (0, 1)])
def test_a_models_control_has_mean_zero_whatever_the_model(monkeypatch, pair):
    """Fixed orders are drawn exactly: over the arms, with their shares, the control is zero."""
    monkeypatch.setattr(pooled, "fit_pages", lambda *given, **options: Stub())
    rng = np.random.default_rng(2)
    n = 40
    orders = [rng.permuted(np.tile(np.arange(ITEMS), (n, 1)), axis=1)[:, :K] for _ in range(2)]
    orders[1][:15] = orders[0][:15]  # pages on which both agree
    policies = {
        name: cr.Deterministic(order, ITEMS) for name, order in zip("ab", orders, strict=True)
    }
    controls = []
    for shown in orders:
        log = cr.RankingLog(
            action=shown, reward=np.zeros((n, K)), propensity=np.ones((n, K)), targets=policies
        )
        assert can_model(log, ["a", "b"])
        controls.append(model_control(log, ["a", "b"], pair, SHARES, seed=0))
    assert SHARES @ np.array(controls) == pytest.approx(np.zeros(n), abs=1e-12)
    assert np.abs(controls[0][15:]).max() > 0.1 and np.abs(controls[0][:15]).max() < 1e-12


def test_drawn_pages_leave_a_mean_of_zero(monkeypatch):
    """|z| < 4.5 of the mean over 4,000 rows: a false alarm in 7 of a million."""
    monkeypatch.setattr(pooled, "fit_pages", lambda *given, **options: Stub())
    rng = np.random.default_rng(3)
    n = 4000
    policies = {name: cr.PlackettLuce(np.repeat(SCORES[name], n, axis=0)) for name in "ab"}
    arm = rng.random(n) < SHARES[1]
    drawn = {name: policies[name].sample(K, rng)[:, 0] for name in "ab"}
    log = cr.RankingLog(
        action=np.where(arm[:, None], drawn["b"], drawn["a"]),
        reward=np.zeros((n, K)),
        propensity=np.ones((n, K)),
        targets=policies,
    )
    found = model_control(log, ["a", "b"], (1, 0), SHARES, seed=0)
    assert abs(found.mean()) < 4.5 * found.std() / np.sqrt(n) and found.std() > 0.1


def test_no_pages_can_be_drawn_from_numbers_alone():
    assert not can_model(every_page(a=np.full(PAGES.shape, 0.5), b=plackett_luce("b")), ["a", "b"])
