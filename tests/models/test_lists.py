"""Means of repeated lists: a plain twin, and what they leave unknown."""

import numpy as np
import pytest

from counterrank.models import Rankings, fit_lists
from counterrank.models.lists import POWERS, RATIOS, hashed


def log(n=400, seed=0, lists=6, d=1):
    rng = np.random.default_rng(seed)
    table = np.array([rng.permutation(9)[:3] for _ in range(lists)])
    which = rng.integers(lists, size=n)
    x = rng.integers(2, size=(n, d)).astype(float)
    effect = rng.normal(size=(2, lists))
    y = np.stack(
        [effect[x[:, 0].astype(int), which] / 3 + rng.normal(size=n) for _ in range(3)], axis=1
    )
    return Rankings(table[which], x), y, np.arange(n) % 5


def shrunk(y, group, prior):
    """The same as the code, group by group."""
    names = sorted(set(group))
    count = np.array([(group == g).sum() for g in names])
    away = y - prior
    mean = np.array([away[group == g].mean(axis=0) for g in names])
    total = away.sum(axis=1)
    noise = (
        sum(((total[group == g] - total[group == g].mean()) ** 2).sum() for g in names)
        / (count - 1).sum()
    )
    fits = []
    for r in RATIOS:
        for power in POWERS:
            tau = r * (count.mean() / count) ** power
            loss = sum(
                np.log(t + 1 / c) + m.sum() ** 2 / noise / (t + 1 / c)
                for t, c, m in zip(tau, count, mean, strict=True)
            )
            fits.append((loss, tuple(tau)))
    tau = min(fits)[1]
    return {g: m * c * t / (1 + c * t) for g, c, m, t in zip(names, count, mean, tau, strict=True)}


def test_a_plain_twin_says_the_same():
    rankings, y, fold = log()
    model = fit_lists(rankings, y, fold, 5)
    context, lists = hashed(rankings, told_apart=True)
    for left_out in (0, 3):
        rows = fold != left_out
        level = y[rows].mean(axis=0)
        above = shrunk(y[rows], context[rows], level)
        prior = np.array([level + above[c] for c in context[rows]])
        below = shrunk(y[rows], lists[rows], prior)
        wanted = np.array(
            [level + above[c] + below[one] for c, one in zip(context, lists, strict=True)]
        )
        np.testing.assert_allclose(model.expected(rankings, left_out), wanted, rtol=1e-9)
    past = model.history(rankings, y, fold)
    np.testing.assert_allclose(past.delta.sum(axis=1), (y - past.q).sum(axis=1), rtol=1e-9)


def test_lists_that_are_not_known_have_the_mean_of_their_context():
    rankings, y, fold = log()
    model = fit_lists(rankings, y, fold, 5)
    others = rankings.others(np.tile([[0, 8, 1]], (rankings.m, 1)))
    known = {tuple(one) for one in rankings.item}
    assert (0, 8, 1) not in known
    found = model.expected(others, 2)
    for value in (0.0, 1.0):
        rows = rankings.x[:, 0] == value
        assert np.ptp(found[rows], axis=0).max() == 0.0


def test_without_repeats_there_is_no_such_model():
    rng = np.random.default_rng(0)
    items = np.array([rng.permutation(50)[:4] for _ in range(200)])
    rankings = Rankings(items, np.zeros((200, 0)))
    assert fit_lists(rankings, rng.normal(size=(200, 4)), np.arange(200) % 5, 5) is None


def test_a_single_item_is_a_list_only_where_several_contexts_show_it():
    item, fold = np.arange(400)[:, None] % 4, np.arange(400) % 5
    y = np.random.default_rng(1).normal(size=(400, 1))
    own, shared = (item // 2 * 1.0, np.arange(400)[:, None] // 200 * 1.0)
    assert fit_lists(Rankings(item, own), y, fold, 5) is None
    assert fit_lists(Rankings(item, np.zeros((400, 0))), y, fold, 5) is None
    assert fit_lists(Rankings(item, shared), y, fold, 5).details["lists"] == 8


def test_contexts_that_never_repeat_do_not_hide_lists_that_do():
    rankings, y, fold = log()
    apart = Rankings(rankings.item, np.arange(400.0)[:, None])
    model = fit_lists(apart, y, fold, 5)
    assert model is not None and not model.told_apart
    assert model.details["lists"] == 6


def test_what_is_unknown_is_the_spread_of_lists_that_were_hardly_seen():
    rankings, y, fold = log()
    model = fit_lists(rankings, y, fold, 5)
    same = rankings.others(rankings.item)
    assert model.unknown(rankings, same) == pytest.approx(0.0, abs=1e-15)
    never = rankings.others(np.tile([[0, 8, 1]], (rankings.m, 1)))
    share = np.mean(rankings.x[:, 0])
    _, lists = hashed(rankings, told_apart=True)
    count = np.array([(lists == one).sum() for one in model.lists])
    wanted = model.spread[-1] * ((1 - share) ** 2 + share**2)
    wanted += ((count / 400) ** 2 * model.spread[:-1] * (1 - model.shrinkage)).sum()
    assert model.unknown(rankings, never) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_rare_lists_may_differ_more_than_frequent_ones(power):
    """The variance between lists follows their number of rows as it was drawn."""
    rng = np.random.default_rng(3)
    count = np.repeat([5, 50, 500], 60)
    effect = rng.normal(size=180) * np.sqrt(2.0 / count**power)
    which = np.repeat(np.arange(180), count)
    rankings = Rankings(np.stack([which, which + 180], axis=1), np.zeros((len(which), 0)))
    y = np.stack([effect[which] + 0.3 * rng.normal(size=len(which)), np.zeros(len(which))], axis=1)
    model = fit_lists(rankings, y, np.arange(len(which)) % 5, 5)
    _, lists = hashed(rankings, told_apart=True)
    number = np.searchsorted(model.lists, lists)
    spread = np.array([model.spread[number[which == one][0]] for one in (0, 60, 120)])
    np.testing.assert_allclose(spread, 2.0 / np.array([5, 50, 500]) ** power, rtol=0.4)
