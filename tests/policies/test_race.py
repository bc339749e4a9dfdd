"""The race of clocks behind Plackett-Luce marginals: its times, its exponentials, and its sums."""

import numpy as np
import pytest

from counterrank.policies import PlackettLuce
from counterrank.policies.kernels import plackett_luce_singles
from counterrank.policies.kernels.plackett_luce import rung
from counterrank.policies.kernels.plackett_luce_singles import singles, times
from counterrank.policies.without_replacement import SIZES, clock_rules


def race(scores, items):
    return PlackettLuce(scores).position_log_prob(items)


def plain_race(scores, items, k):
    """P(b at k+1) of every item of one row, by a fine trapezoid and no short cut."""
    mass = np.exp(scores - scores.max())
    least = np.sort(mass[mass > 0])[: max(1, int((mass > 0).sum()) - k)].sum()
    step = 1 / 16
    t = np.exp(np.arange(-30 - np.log(mass.sum()), np.log(120 / least), step))
    found = []
    for b in items:
        counts = np.zeros((k + 1, len(t)))
        counts[0] = 1
        for a in np.flatnonzero(mass):
            if a != b:
                p, q = -np.expm1(-mass[a] * t), np.exp(-mass[a] * t)
                counts[1:], counts[0] = counts[1:] * q + counts[:-1] * p, counts[0] * q
        found.append((mass[b] * np.exp(-mass[b] * t) * counts[k] * t).sum() * step)
    return np.array(found)


def hard_terms(k, ratio, rng):
    """Rates of k items of a set, and of what is not in it: the total is one, the rest `ratio` or
    more.
    """
    for j in range(1, k + 1):
        for m in sorted({1, (j + 1) // 2, j}):
            for share in (1.0, 0.3):
                rates = np.full(j, 1e-9)
                rates[:m] = (1 - ratio) * share / m
                yield rates
        yield rng.dirichlet(np.full(j, 0.3)) * (1 - ratio) * 0.999 + 1e-9


@pytest.mark.parametrize("k", [1, 4, 9, 19])
def test_every_term_of_the_integral_is_right_to_1e12(k):
    rng = np.random.default_rng(k)
    fine = np.exp(np.arange(-35, 12, 1 / 64)), 1 / 64
    kinds = set()
    for ratio in (0.999, 0.9, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 1e-4):
        t, weight = times((1.0, ratio), k, clock_rules(k + 1))
        kinds.add(len(t))
        for rates in hard_terms(k, ratio, rng):
            rest = 1 - rates.sum()

            def term(s, rates=rates, rest=rest):
                return np.prod(
                    -np.expm1(-np.outer(rates / rates.max(), s * rates.max())), axis=0
                ) * (np.exp(-rest * s))

            late = fine[0] / min(1.0, ratio * 4)
            truth = (term(late) * late).sum() * fine[1]
            assert (weight * term(t)).sum() == pytest.approx(truth, rel=1e-12), (ratio, rates)
    assert kinds - set(SIZES) and len(kinds) > 3, "both the trapezoid and several Gauss rules"


def test_fewer_times_would_not_do():
    """The rules are not larger than needed by much: half as many points lose most digits."""
    t, weight = (table[1, : SIZES[1]] for table in clock_rules(10)[1:3])
    assert len(times((1.0, 0.2), 9, clock_rules(10))[0]) > SIZES[1]
    rate, rates = np.sqrt(0.2), np.array([0.8, *[1e-3] * 8])
    s = t / rate
    found = (
        weight / rate * np.prod(-np.expm1(-np.outer(rates, s)), axis=0) * np.exp(-0.2 * s)
    ).sum()
    fine = np.exp(np.arange(-35, 12, 1 / 64))
    truth = (np.prod(-np.expm1(-np.outer(rates, fine)), axis=0) * np.exp(-0.2 * fine) * fine).sum()
    assert abs(found / (truth / 64) - 1) > 1e-9


def test_exponentials_keep_their_last_digits():
    rng = np.random.default_rng(0)
    x = -np.concatenate([10.0 ** rng.uniform(-18, 2.8, 5000), [0.0, 1e-300, 0.34, 0.35, 699.0]])
    p, q, power = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    rung(x, 1.0, p, q, power, power.view(np.int64))
    np.testing.assert_allclose(q, np.exp(x), rtol=5e-16)
    np.testing.assert_allclose(p, -np.expm1(x), rtol=5e-16)
    rung(np.array([-1e4, -np.inf]), 1.0, p[:2], q[:2], power[:2], power[:2].view(np.int64))
    assert (q[:2] < 1e-303).all() and (p[:2] == 1).all()


@pytest.mark.parametrize(("n", "sd", "k"), [(400, 1.0, 9), (3000, 1.5, 19), (200, 0.1, 4)])
def test_light_clocks_together_are_light_clocks_one_by_one(n, sd, k):
    rng = np.random.default_rng(n)
    mass, slot = np.exp(rng.normal(size=n) * sd), np.full(n, -1)
    slot[::7] = 0  # asked items are never among them
    latest = 25.0 / mass.sum()
    limit = plackett_luce_singles.light_limit(mass, slot, latest, k)
    rates = mass[(slot < 0) & (mass <= limit)]
    assert len(rates) >= plackett_luce_singles.MANY
    t = np.linspace(0.02, 1, 24) * latest
    counts = np.zeros((k + 1, 24))
    plackett_luce_singles.add_light(rates, t, clock_rules(k + 1)[4], counts)
    naive = np.zeros((k + 1, 24))
    naive[0] = 1
    for rate in rates:
        p, q = -np.expm1(-rate * t), np.exp(-rate * t)
        naive[1:], naive[0] = naive[1:] * q + naive[:-1] * p, naive[0] * q
    np.testing.assert_allclose(counts, naive, rtol=3e-13)


def test_few_clocks_that_matter_are_never_called_light():
    """Ten of a thousand hold most of what is left: Newton's signs would cancel."""
    mass, slot = np.concatenate([np.full(10, 1.0), np.full(990, 1e-6)]), np.full(1000, -1)
    assert 1e-6 <= plackett_luce_singles.light_limit(mass, slot, 1e-3, 9) < 1.0
    assert plackett_luce_singles.light_limit(mass[:50], slot[:50], 1e-3, 9) == 0


@pytest.mark.parametrize(
    ("A", "K", "sd"), [(50, 10, 1.0), (30, 8, 3.0), (400, 10, 1.0), (120, 20, 0.0), (40, 5, 8.0)]
)
def test_race_agrees_with_a_plain_one(A, K, sd):
    rng = np.random.default_rng(A)
    scores = rng.normal(size=(2, A)) * sd
    scores[:, rng.integers(0, A, 3)] = -np.inf
    items = np.array([rng.permutation(np.flatnonzero(row > -np.inf))[:K] for row in scores])
    found = np.exp(race(scores, items))
    for k in (0, 1, K // 2, K - 1):
        truth = [plain_race(scores[i], items[i, [k]], k)[0] for i in range(2)]
        np.testing.assert_allclose(found[:, k], truth, rtol=1e-12)


@pytest.mark.parametrize("sd", [0.5, 2.0, 6.0])
def test_items_and_places_each_sum_to_one(sd):
    A = 14
    scores = np.random.default_rng(3).normal(size=A) * sd
    turned = np.array([np.roll(np.arange(A), j) for j in range(A)])
    table = np.zeros((A, A))
    found = np.exp(race(np.tile(scores, (A, 1)), turned))
    table[turned, np.arange(A)] = found
    np.testing.assert_allclose(table.sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(table.sum(axis=1), 1, rtol=1e-12)


def test_names_of_items_do_not_matter():
    rng = np.random.default_rng(4)
    scores, items = rng.normal(size=(1, 300)), rng.permutation(300)[None, :10]
    names = rng.permutation(300)
    renamed = np.empty_like(scores)
    renamed[0, names] = scores[0]
    np.testing.assert_allclose(
        np.exp(race(renamed, names[items])), np.exp(race(scores, items)), rtol=1e-13
    )
    np.testing.assert_allclose(race(scores + 300.0, items), race(scores, items), rtol=1e-11)


def test_equal_scores_make_every_item_as_likely():
    for A, K in ((20, 10), (300, 20), (30, 30)):
        found = race(np.full((1, A), -3.0), np.arange(K)[None])
        np.testing.assert_allclose(np.exp(found), 1 / A, rtol=1e-12)


def test_extreme_scores_and_what_is_not_there():
    """An item far below everything stands at place k by its mass times what the others do to it:
    P = mass x E[1 / (mass left after k draws)], which all other items being equal say exactly.
    """
    A, K = 40, 8
    scores = np.zeros((2, A))
    scores[0, 7], scores[1, 7] = -700.0, -np.inf
    items = np.arange(K)[None].repeat(2, axis=0)
    found = PlackettLuce(scores).position_log_prob(items)
    assert found[0, 7] == pytest.approx(-700 - np.log(A - 1 - 7), rel=1e-12)
    assert found[1, 7] == -np.inf
    np.testing.assert_allclose(np.exp(np.delete(found, 7, axis=1)), 1 / (A - 1), rtol=1e-12)
    scores[0, 7] = 250.0  # surely first, so never eighth, and all others one place later
    found = PlackettLuce(scores[:1]).position_log_prob(np.array([[7, 0, 1, 2, 3, 4, 5, 6]]))
    assert found[0, 0] == 0
    np.testing.assert_allclose(np.exp(found[0, 1:]), 1 / (A - 1), rtol=1e-12)


def test_only_what_is_asked_for_and_what_came_first():
    rng = np.random.default_rng(6)
    scores, items = rng.normal(size=(3, 40)), np.array([rng.permutation(40)[:9] for _ in range(3)])
    whole = race(scores, items)
    want = np.zeros((3, 9), bool)
    want[:, [3, 4]] = True
    some = singles(scores, items, want, clock_rules(9))
    np.testing.assert_allclose(some[:, [3, 4]], whole[:, [3, 4]], rtol=1e-12)
    assert not some[:, [0, 1, 2, 5, 6, 7, 8]].any()
    # What came first is gone: the rest race as if it had never been there.
    after = np.tri(9, k=1, dtype=bool)[[1]] | np.eye(9, dtype=bool)[4:]
    after[:, 2] = False
    given = PlackettLuce(scores).subset_log_prob(items, after).log_prob
    first = PlackettLuce(scores).prefix_log_prob(items)[:, [1]]
    gone = scores.copy()
    np.put_along_axis(gone, items[:, :2], -np.inf, axis=1)
    np.testing.assert_allclose(given - first, race(gone, items[:, 2:])[:, 2:], rtol=1e-12)
    twice = np.array([[5, 5, 5, 1]])
    np.testing.assert_allclose(
        np.exp(race(scores[:1], twice))[0, 2], plain_race(scores[0], [5], 2)[0], rtol=1e-12
    )
    short = np.array([[5, 3, -1, -1]])
    np.testing.assert_array_equal(race(scores[:1], short)[0, 2:], 0)
