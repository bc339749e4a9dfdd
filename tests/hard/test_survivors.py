"""Small exact cases that kill mutants of the core formulas (`make mutation`): twins in plain NumPy,
edges by hand.
"""

import itertools

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators.base import View
from counterrank.estimators.contribution import AGGREGATES, lift_of
from counterrank.estimators.marginal import Marginalised, group_ratios
from counterrank.inference.intervals import degrees_of_freedom, variance
from counterrank.weights.kernels import weights
from counterrank.weights.kernels.accumulate import BINS
from counterrank.weights.moments import moments_of, moments_of_weights, rewards_of, spread
from counterrank.weights.ratios import numbers, ratios_of

ALPHA = np.array([1.0, 0.5])


def arrays(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(1, 1, (n, 2)), rng.uniform(0.2, 2, (n, 2)), rng.random((n, 2))


def made(n=40, *, full=True, units=None, seed=0):
    y, w, r = arrays(n, seed)
    return moments_of(y, w, r, ALPHA, full=full, bucket=units)[0]


def test_total_and_base_of_two_rows():
    y, w, r = (
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.ones((2, 2)),
        np.array([[1.0, 1.0], [2.0, 0.0]]),
    )
    moments, totals = moments_of(y, w, r, ALPHA)
    assert totals.tolist() == [2.0, 5.0]
    assert (
        moments.row_mean("base") == 1.75 and moments.row_mean("total_base") == (2 * 1.5 + 5 * 2) / 2
    )


def test_parts_add_up_to_the_whole():
    y, w, r = arrays()
    units = np.arange(40) % 7
    whole = moments_of(y, w, r, ALPHA, full=True, bucket=units)[0]
    first, second = (
        moments_of(y[rows], w[rows], r[rows], ALPHA, full=True, bucket=units[rows])[0]
        for rows in (slice(0, 13), slice(13, 40))
    )
    both = first + second
    assert both.n == 40
    for name in ("y", "w", "r", "yy", "ww", "rr", "yw", "yr"):
        np.testing.assert_allclose(both.mean(name), whole.mean(name), rtol=1e-12)
    for name in ("total", "base", "weight", "total2", "base2", "weight2", "total_base"):
        assert both.row_mean(name) == pytest.approx(whole.row_mean(name), rel=1e-12)
    np.testing.assert_allclose(both.gram, whole.gram, rtol=1e-12)
    np.testing.assert_allclose(both.buckets, whole.buckets, rtol=1e-12)
    np.testing.assert_array_equal(both.peaks, whole.peaks)
    np.testing.assert_allclose(both.histogram, whole.histogram, rtol=1e-12)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_what_one_part_lacks_the_sum_lacks(missing):
    parts = [made(full=missing in (1, 2) if i == 0 else missing in (0, 2)) for i in range(2)]
    assert (parts[0] + parts[1]).gram is None or missing == 2
    units = np.zeros(40, dtype=np.int64)
    parts = [
        made(units=units if (i == 0) == (missing == 1) or missing == 2 else None) for i in range(2)
    ]
    assert ((parts[0] + parts[1]).buckets is None) == (missing != 2)


def columns():
    y, w, r = arrays()
    return np.column_stack([y, w, r @ ALPHA])


@pytest.mark.parametrize(
    "gradient", [[1, 0, 0, 0, 0], [0, 0.7, 0, -0.4, 0], [2, 0, 3, 0, 0], [0, 0, 0, 1.5, 0]]
)
def test_the_lean_variance_of_one_position_equals_the_full_one(gradient):
    gradient = np.array(gradient, dtype=float)
    expected = gradient @ np.cov(columns().T) @ gradient / 40
    assert variance(made(full=True), gradient) == pytest.approx(expected, rel=1e-10)
    assert variance(made(full=False), gradient) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("on_base", [0.0, -1.0, 0.6])
def test_the_lean_variance_of_the_total_equals_the_full_one(on_base):
    gradient = np.array([*(2 * ALPHA), 0, 0, on_base])
    expected = gradient @ np.cov(columns().T) @ gradient / 40
    assert variance(made(full=False), gradient) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("gradient", [[1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [1, 0, 0, 1, 0]])
def test_what_lean_sums_cannot_know_is_refused(gradient):
    with pytest.raises(ValueError, match="needs the Gram matrix"):
        variance(made(full=False), np.array(gradient, dtype=float))


def test_the_clustered_variance_by_hand():
    units = np.arange(40) // 8  # five units
    gradient = np.array([1.0, 0.5, 0, 0, -1.0])
    scores = (columns() - columns().mean(axis=0)) @ gradient
    sums = np.array([scores[units == u].sum() for u in range(5)])
    expected = 5 / 4 * (sums**2).sum() / 40**2
    assert variance(made(units=units), gradient) == pytest.approx(expected, rel=1e-10)
    assert (
        degrees_of_freedom(made(units=np.arange(40))) == 39
    )  # also where a unit's sums are negative
    assert degrees_of_freedom(made(units=units)) == 4 and degrees_of_freedom(made()) == 39


def test_spread_needs_two_rows_or_two_units():
    gradient = np.array([1.0, 0.5, 0, 0, 0])
    assert np.isnan(variance(made(1), gradient)) and np.isfinite(variance(made(2), gradient))
    assert np.isnan(variance(made(units=np.zeros(40, dtype=np.int64)), gradient))
    two = made(2, units=np.array([3, 5]))
    assert variance(two, gradient) == pytest.approx(variance(made(2), gradient), rel=1e-10)
    assert degrees_of_freedom(made(1)) == 1 and degrees_of_freedom(two) == 1


@pytest.mark.parametrize("name", AGGREGATES)
def test_slopes_are_derivatives(name):
    moments, aggregate, step = made(), AGGREGATES[name], 1e-6
    y, w = moments.mean("y"), moments.mean("w")
    on_y, on_w = aggregate.slope(moments)
    for k in range(2):
        move = step * np.eye(2)[k]
        by_y = aggregate.at(moments, (y + move)[None], w[None]) - aggregate.at(
            moments, (y - move)[None], w[None]
        )
        by_w = aggregate.at(moments, y[None], (w + move)[None]) - aggregate.at(
            moments, y[None], (w - move)[None]
        )
        np.testing.assert_allclose(on_y[:, k], by_y[0] / (2 * step), atol=1e-6)
        np.testing.assert_allclose(on_w[:, k], by_w[0] / (2 * step), atol=1e-6)


def test_the_control_variate_is_the_regression_on_weights():
    y, w, _ = arrays()
    fitted = np.linalg.lstsq(np.column_stack([np.ones(40), w - 1]), y, rcond=None)[0]
    # The fit's value where weights are one is its constant.
    np.testing.assert_allclose(AGGREGATES["control"].positions(made()), fitted[0], rtol=1e-9)


def test_self_normalised_values_without_weight_are_zero():
    y, w, r = arrays()
    w[:, 1] = 0.0
    moments = moments_of(y, w, r, ALPHA, full=True)[0]
    values, (on_y, on_w) = (
        AGGREGATES["ratio"].positions(moments),
        AGGREGATES["ratio"].slope(moments),
    )
    assert values[1] == 0.0 and values[0] == pytest.approx(y[:, 0].mean() / w[:, 0].mean())
    assert (
        on_y[1].tolist() == [0.0, 0.0]
        and np.abs(on_w[1]).max() == 0.0
        and on_y[0, 0] == pytest.approx(1 / w[:, 0].mean())
    )


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("own", [True, False])
def test_ordered_weights_with_and_without_the_own_item(order, own):
    rng = np.random.default_rng(3)
    rho = rng.uniform(0.3, 2.5, (4, 6))
    mask = rng.random((4, 4)) < 0.7
    np.fill_diagonal(mask, own)
    out = np.empty_like(rho)
    weights.ordered(rho, mask, order, out)
    for k in range(4):
        others = [m for m in range(4) if m != k and mask[k, m]]
        subsets = [s for size in range(order) for s in itertools.combinations(others, size)]
        total = sum(np.prod([rho[m] - 1 for m in s], axis=0) for s in subsets)
        np.testing.assert_allclose(out[k], (rho[k] if own else 1.0) * total, rtol=1e-10)


SCORES = np.random.default_rng(5).normal(size=(30, 4))
ITEMS = np.array([np.random.default_rng(i).permutation(4)[:3] for i in range(30)])


def ratios(logging, target):
    log = cr.RankingLog(
        action=ITEMS, reward=np.ones((30, 3)), propensity=logging, targets={"new": target}
    )
    return ratios_of(log, "new")


@pytest.mark.parametrize("kind", [cr.Softmax, cr.PlackettLuce])
def test_a_choice_among_masks_takes_each_rows_own(kind):
    found = ratios(kind(SCORES), kind(-SCORES))
    masks = np.stack([np.eye(3, dtype=bool), np.tri(3, dtype=bool), np.ones((3, 3), dtype=bool)])
    single = np.stack([found.masked(mask) for mask in masks])  # (3, n, K)
    for used in (2, 3):
        choice = np.random.default_rng(6).integers(0, used, (30, 3))
        expected = np.take_along_axis(single, choice[None], axis=0)[0]
        np.testing.assert_allclose(found.by_choice(masks[:used], choice), expected, rtol=1e-10)


def test_one_policy_with_and_one_without_replacement():
    soft, luce = cr.Softmax(SCORES), cr.PlackettLuce(SCORES)
    for logging, target in ((luce, soft), (soft, luce)):
        found = ratios(logging, target)
        assert found.kind == "policy"
        expected = np.exp(target.prefix_log_prob(ITEMS) - logging.prefix_log_prob(ITEMS))
        np.testing.assert_allclose(found.prefix(), expected, rtol=1e-10)
        np.testing.assert_allclose(found.full(), np.repeat(expected[:, -1:], 3, axis=1), rtol=1e-10)


def test_a_policy_against_logged_numbers_of_every_kind():
    soft, luce, even = cr.Softmax(SCORES), cr.PlackettLuce(SCORES), np.full((30, 3), 0.5)
    joint = ratios(cr.Propensity("joint", np.full(30, 0.25)), luce).full()
    np.testing.assert_allclose(
        joint[:, 0], np.exp(luce.prefix_log_prob(ITEMS)[:, -1]) / 0.25, rtol=1e-10
    )
    prefix = ratios(cr.Propensity("prefix", even), luce).prefix()
    np.testing.assert_allclose(
        prefix, np.exp(luce.prefix_log_prob(ITEMS)) / 0.5 ** np.arange(1, 4), rtol=1e-10
    )
    own = ratios(cr.Propensity("factored", even), soft).position()
    np.testing.assert_allclose(own, np.exp(soft.position_log_prob(ITEMS)) / 0.5, rtol=1e-10)
    with pytest.raises(cr.CounterrankError, match="ranks without replacement"):
        ratios(cr.Propensity("factored", even), luce)


def test_units_whose_sums_are_negative_count_like_others():
    units = np.arange(40) // 8
    y, w, r = arrays()
    moments = moments_of(-y, w, -r, ALPHA, bucket=units)[0]
    gradient = np.array([1.0, 0.5, 0, 0, -1.0])
    scores = np.column_stack([-y, w, -r @ ALPHA]) @ gradient
    scores -= scores.mean()
    sums = np.array([scores[units == u].sum() for u in range(5)])
    assert variance(moments, gradient) == pytest.approx(5 / 4 * (sums**2).sum() / 40**2, rel=1e-10)
    assert degrees_of_freedom(moments) == 4


def test_a_spread_is_zero_only_where_it_is_rounding():
    assert spread(np.array(2e-20), np.array(1e-20), 11) == pytest.approx(1.1e-20, rel=1e-12, abs=0)
    assert spread(np.array(3e20), np.array(1e20), 11) == pytest.approx(2.2e20, rel=1e-12)
    assert spread(np.array(1.0), np.array(1.0 + 2.3e-16), 5) == 0.0


def test_weights_know_how_many_rows_they_are():
    _, w, r = arrays(7)
    assert moments_of_weights(w, rewards_of(r, ALPHA), ALPHA)[0].n == 7


@pytest.mark.parametrize("kind", [cr.Softmax, cr.PlackettLuce])
def test_exact_probabilities_have_no_sampling_error(kind):
    found = ratios(kind(SCORES), kind(-SCORES))
    assert found.sampling_error == 0.0
    found.masked(np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool))
    assert found.sampling_error == 0.0


def test_after_an_impossible_item_all_factors_are_zero():
    class Never:
        factored = False

        def prefix_log_prob(self, actions):
            return np.array([[np.log(0.5), -np.inf, -np.inf]])

    log = cr.RankingLog(action=[[0, 1, 2]], reward=np.ones((1, 3)), propensity=np.full((1, 3), 0.5))
    assert numbers(Never(), log, "prefix").tolist() == [[0.5, 0.0, 0.0]]


def test_no_relative_lift_over_nothing_and_none_from_one_row():
    one = np.ones((4, 2))
    moments = moments_of(one, one, 0 * one, np.ones(2), full=True)[0]
    lift = lift_of(moments, np.ones(2), np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 0.95)
    assert (
        lift.value == 2.0 and np.isnan([lift.relative, lift.relative_low, lift.relative_high]).all()
    )
    little = lift_of(
        moments_of(one, one, 0.25 * one, np.ones(2), full=True)[0],
        np.ones(2),
        np.array([1.0, 1.0, 0, 0, 0]),
        0.95,
    )
    assert (little.value, little.relative) == (1.5, 3.0)
    y = np.array([[1.0, 4.0], [2.0, 1.0]])
    two = lift_of(
        moments_of(y, one[:2], one[:2], np.ones(2))[0],
        y.mean(0),
        np.array([1.0, 1.0, 0, 0, 0]),
        0.95,
    )
    assert [(p.value, p.stderr) for p in two.by_position] == [(0.5, 0.5), (1.5, 1.5)]
    single = moments_of(one[:1], one[:1], one[:1], np.ones(2), full=True)[0]
    lift = lift_of(single, np.ones(2), np.array([1.0, 1.0, 0.0, 0.0, 0.0]), 0.95)
    assert lift.value == 0.0 and [p.stderr for p in lift.by_position] == [0.0, 0.0]


def test_weights_too_large_for_a_number_are_said_where_they_are():
    """Single propensities below 1e-100 are refused at the door; products of smaller ones overflow
    here.
    """
    p0 = np.full((3, 3), 0.5)
    p0[1, 1:] = 1e-99

    def log_of(values):
        return cr.RankingLog(
            action=np.zeros((3, 3), int), reward=np.ones((3, 3)), propensity=values
        )

    target = np.full((3, 3), 0.5)
    with pytest.raises(
        cr.CounterrankError,
        match=r"'rips' overflows: the largest weight at position 3 is 2.5e\+197",
    ):
        cr.RIPS().estimate(log_of(p0), target)
    with pytest.raises(cr.CounterrankError, match="position 2"):
        cr.RIPS().estimate(log_of(p0[:, [1, 2, 0]]), target)
    # At a position that does not count the sums over rows are numbers, those of the position are
    # not.
    with pytest.raises(cr.CounterrankError, match="position 3"):
        cr.RIPS().estimate(log_of(p0).with_position_weights(np.array([1.0, 1.0, 0.0])), target)


def test_groups_in_rankings_that_end_early_and_groups_the_logger_never_shows():
    action = np.array([[0, -1], [1, 0]])
    p0, p1 = np.array([[0.5, 0.5, 0.0]] * 2), np.array([[0.2, 0.3, 0.5]] * 2)
    log = cr.RankingLog(
        action=action, reward=[[1.0, 0.0], [1.0, 2.0]], propensity=[[0.5, 1.0], [0.5, 0.5]],
        targets={"new": cr.Propensity("factored", [[0.2, 1.0], [0.3, 0.2]])}, dists={"propensity": p0, "new": p1},
    )  # fmt: skip
    ratios = group_ratios(View(log, "new"), np.array([0, 1, 2]))
    np.testing.assert_allclose(ratios.rho, [[0.4, 1.0], [0.6, 0.4]], rtol=1e-12)
    assert ratios.kind == "factored" and ratios.rho.flags.f_contiguous
    unseen = cr.RankingLog(
        action=[[0, 2]], reward=[[1.0, 1.0]], propensity=[[0.5, 0.5]],
        targets={"new": cr.Propensity("factored", [[0.2, 0.5]])}, dists={"propensity": p0[:1], "new": p1[:1]},
    )  # fmt: skip
    for known in ("propensity", "new"):
        half = cr.RankingLog(
            action=action, reward=np.ones((2, 2)), propensity=log.propensity, targets=log.targets,
            dists={known: log.dists[known]},
        )  # fmt: skip
        with pytest.raises(cr.CounterrankError, match="needs whole distributions"):
            Marginalised(groups=[0, 1, 2]).estimate(half, "new")
    # A group without any probability under the logger has no ratio: its weight is the target's
    # probability.
    np.testing.assert_allclose(
        group_ratios(View(unseen, "new"), np.array([0, 1, 2])).rho, [[0.4, 0.5]], rtol=1e-12
    )


def test_weights_are_counted_by_eighths_of_octaves_from_2_to_the_minus_40_to_2_to_the_64():
    assert BINS == 104 * 8 + 1
    for weight, place in ((0.0, 0), (0.999 * 2.0**-40, 0), (2.0**-40, 1), (1.0, 321), (1.124, 321), (1.126, 322),
                          (0.999 * 2.0**64, 832), (2.0**64, 832), (2.0**70, 832)):  # fmt: skip
        one = np.full((1, 1), weight)
        moments = moments_of(one, one, one, np.ones(1))[0]
        assert np.flatnonzero(moments.histogram[0]).tolist() == [place]
        assert moments.histogram[1, place] == weight
