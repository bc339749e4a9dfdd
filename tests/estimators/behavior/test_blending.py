"""The estimate between the tree's models and the pairs."""

from itertools import product

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.behavior.pairs import Blend, pair_weights, share_of
from counterrank.estimators.weights.ratios import ratios_of
from counterrank.research.simulate import published

LENGTH, ITEMS = 3, 2
RANKINGS = np.array(list(product(range(ITEMS), repeat=LENGTH)))
TARGET = np.array([[0.7, 0.3], [0.1, 0.9], [0.25, 0.75]])


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("triples", [0.0, 0.6])
def test_the_expectation_lies_between_the_two_by_the_share(share, triples):
    """All rankings of a uniform logger: expectations are means, whatever the centre."""
    rng = np.random.default_rng(1)
    reward = rng.normal(size=RANKINGS.shape)
    shown = np.take_along_axis(TARGET[None], RANKINGS[:, :, None], axis=2)[:, :, 0]
    log = cr.RankingLog(
        action=RANKINGS, reward=reward, propensity=np.full(RANKINGS.shape, 0.5),
        targets={"new": shown},
    )  # fmt: skip
    ratios = ratios_of(log, "new")
    own = ratios.prefix()
    blend = Blend(share, triples, tuple(rng.normal(size=LENGTH)))
    y, w = blend.contributions(ratios, own, reward)
    expected = (1 - share) * (own * reward).mean(axis=0)
    expected += share * (pair_weights(ratios, triples) * reward).mean(axis=0)
    np.testing.assert_allclose(y.mean(axis=0), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(w.mean(axis=0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("larger", [1, 5])
def test_the_share_is_the_minimum_of_the_stated_mse(seed, larger):
    """Against the MSE written out: its slope at the share is zero, or points out of [0, 1]."""
    rng = np.random.default_rng(seed)
    n, length = 50, 4
    own = rng.normal(size=(n, length))
    difference = rng.normal(size=(n, length)) - 0.4 * own + 0.15 * seed
    stretched = difference * 1.3
    alpha = np.array([1.0, 0.5, 0.0, 2.0])
    share = share_of(own, difference, stretched, alpha, larger * n)
    used = alpha != 0
    t = np.mean(difference.mean(axis=0)[used] ** 2 / (stretched.var(axis=0)[used] / n))
    u, d = own @ alpha, stretched @ alpha
    # Without effects the D_k / error are normal with these correlations.
    chance = np.sqrt(2 * (np.corrcoef(stretched[:, used].T) ** 2).sum()) / used.sum()
    bias = max(t - 1.0 - chance, 0.0) * d.var() / n  # B^2
    cov = np.cov(u, d, ddof=0)[0, 1]

    def slope(s):
        return (2 * cov + 2 * s * d.var()) / (larger * n) - 2 * (1 - s) * bias

    if share == 0.0:
        assert slope(0.0) >= 0
    elif share == 1.0:
        assert slope(1.0) <= 0
    else:
        assert slope(share) == pytest.approx(0.0, abs=1e-12)


def test_the_evidence_without_effects_has_the_stated_mean_and_deviation():
    """20,000 draws of four correlated D_k: the mean of t^2 is known within .014, s within 3 %."""
    rng = np.random.default_rng(4)
    mixing = rng.normal(size=(4, 4))
    drawn = rng.normal(size=(20_000, 4)) @ mixing
    error = np.sqrt((mixing**2).sum(axis=0))
    t = ((drawn / error) ** 2).mean(axis=1)
    correlation = mixing.T @ mixing / np.outer(error, error)
    assert t.mean() == pytest.approx(1.0, abs=0.04)  # four standard errors
    assert t.std() == pytest.approx(np.sqrt(2 * (correlation**2).sum()) / 4, rel=0.08)


def test_without_evidence_or_spread_the_models_stand_alone():
    rng = np.random.default_rng(2)
    own, alpha = rng.normal(size=(100, 3)), np.ones(3)
    noise = rng.normal(size=(100, 3))
    noise -= noise.mean(axis=0)
    # No distance at all, and a spread that the models' own does not lower.
    noise -= (
        np.outer(own @ alpha - (own @ alpha).mean(), (own @ alpha) @ noise / 100)
        / own.sum(axis=1).var()
    )
    assert share_of(own, noise, noise, alpha, 100) == pytest.approx(0.0, abs=1e-12)
    assert share_of(own, 0 * noise, 0 * noise, alpha, 100) == 0.0
    assert share_of(own[:1], noise[:1], noise[:1], alpha, 1) == 0.0
    assert share_of(own, noise, noise * np.inf, alpha, 100) == 0.0


def test_clear_effects_get_all_of_it():
    rng = np.random.default_rng(3)
    own = rng.normal(size=(5000, 3))
    difference = 1.0 + rng.normal(size=(5000, 3))
    assert share_of(own, difference, difference, np.ones(3), 5000) > 0.999


@pytest.mark.parametrize("mse", ["pairs", "pasif"])
def test_aips_weighs_by_the_tree_alone_and_aips_pairs_blends(mse):
    log = published(4).draw(3000, np.random.default_rng(1)).to_log()
    tree = cr.BehaviorTree(mse=mse).fit(log, "new")
    ratios = ratios_of(log, "new")
    w = tree.weights(log, ratios)
    pure = cr.AIPS(behavior=tree).estimate(log, "new")
    assert pure.value == pytest.approx((w * log.reward).sum(axis=1).mean(), rel=1e-12)
    assert pure.allowance == pytest.approx(tree.fitted.doubt.gap + tree.fitted.doubt.left_out)
    y, w = tree.fitted.blend.contributions(ratios, w, log.reward)
    both = cr.AIPSPairs(behavior=tree).estimate(log, "new")
    assert both.value == pytest.approx(y.sum(axis=1).mean(), rel=1e-12)
    left, doubt = tree.fitted.blend.gap, tree.fitted.doubt
    assert both.value != pure.value and left <= doubt.gap
    assert both.allowance == pytest.approx(left + doubt.left_out)
    assert w.mean() == pytest.approx(1.0, abs=0.2)


def test_both_names_in_one_run_use_one_tree():
    log = published(4).draw(3000, np.random.default_rng(1)).to_log()
    found = cr.evaluate(log, ["new"], estimators=["aips", "aips-pairs"], audit=False)
    tree = cr.BehaviorTree().fit(log, "new")
    for name, made in (("aips", cr.AIPS), ("aips-pairs", cr.AIPSPairs)):
        alone = made(behavior=tree).estimate(log, "new").value
        assert found.estimate("new", name).value == pytest.approx(alone, rel=1e-12)


def test_known_behaviors_cannot_be_blended():
    log = published(4).draw(50, np.random.default_rng(1)).to_log()
    with pytest.raises(cr.CounterrankError, match="use AIPS for behaviours that are known"):
        cr.AIPSPairs(behavior="log").estimate(log, "new")


def test_a_saved_tree_keeps_its_share(tmp_path):
    log = published(4).draw(3000, np.random.default_rng(1)).to_log()
    tree = cr.BehaviorTree().fit(log, "new")
    tree.save(tmp_path / "tree.json")
    again = cr.BehaviorTree.load(tmp_path / "tree.json")
    values = [cr.AIPSPairs(behavior=t).estimate(log, "new").value for t in (tree, again)]
    assert values[0] == values[1]
    text = (tmp_path / "tree.json").read_text()
    (tmp_path / "tree.json").write_text(text.replace('"share": 0.', '"share": 7.', 1))
    head, found, rest = text.partition('"pairs": {')
    broken = head + found + rest.replace('"triples": ', '"triples": 1', 1)
    assert broken != text
    (tmp_path / "tree.json").write_text(broken)
    with pytest.raises(cr.CounterrankError, match="numbers from 0 to 1"):
        cr.BehaviorTree.load(tmp_path / "tree.json")


def test_contributions_are_the_shares_of_both_estimates(monkeypatch):
    """share (m + w (r - m)) + (1 - share) own r, and the same mixture of the weights."""
    w, own, reward = np.array([[2.0, 0.5]]), np.array([[3.0, 4.0]]), np.array([[1.0, 6.0]])
    monkeypatch.setattr("counterrank.estimators.behavior.pairs.pair_weights", lambda *_: w.copy())
    y, weights = Blend(0.25, 0.0, (2.0, 5.0)).contributions(None, own, reward)
    centre = np.array([2.0, 5.0])
    np.testing.assert_allclose(y, 0.25 * (centre + w * (reward - centre)) + 0.75 * own * reward)
    np.testing.assert_allclose(weights, 0.25 * w + 0.75 * own)


def test_two_rows_are_enough_for_a_share():
    stretched, nothing = np.array([[1.0], [3.0]]), np.zeros((2, 1))
    found = share_of(nothing, np.full((2, 1), 10.0), stretched, np.ones(1), 2)
    beyond = 100.0 / 0.5 - 1.0 - np.sqrt(2.0)
    assert found == pytest.approx(beyond / (beyond + 1.0))
    assert share_of(nothing[:1], np.full((1, 1), 10.0), stretched[:1], np.ones(1), 2) == 0.0
