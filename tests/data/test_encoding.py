"""Columns as models read them, by hand: labels, scales, gaps, logarithms."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.encoding import (
    FAR,
    GOLDEN,
    MOST_LABELS,
    ContextMoments,
    GapScales,
    Scaling,
    _orders,
    context_columns,
    encoded_context,
    encoded_features,
    mean_and_spread,
    one_hot,
)
from counterrank.models.columns import Layout

NAN = np.nan


def test_few_labels_have_an_indicator_each_but_the_first_and_many_share_hashed_ones():
    for labels, width in ((2, 1), (MOST_LABELS, MOST_LABELS - 1), (MOST_LABELS + 1, MOST_LABELS)):
        names = {"shop": [str(j) for j in range(labels)]}
        assert encoded_features(np.zeros((1, 1)), ("shop",), names).shape == (1, width)
    assert one_hot(np.array([2.0, 1.0, NAN]), 1, 3).tolist() == [[0, 1], [1, 0], [0, 0]]
    labels = [str(j) for j in range(500)]
    codes = (2, 7, 8)
    found = encoded_features(np.array(codes)[:, None] * 1.0, ("shop",), {"shop": labels})
    assert found.shape == (3, MOST_LABELS) and found.sum(axis=1).tolist() == [1, 1, 1]
    for row, code in zip(found, codes, strict=True):
        assert int(row.argmax()) == int((code * GOLDEN) % 1.0 * MOST_LABELS)
    assert encoded_features(np.empty((3, 4, 0)), (), {}).shape == (3, 4, 0)
    pages = np.array([[[2.0, 1.0], [3.0, 2.0]]])
    found = encoded_features(pages, ("price", "shop"), {"shop": "abc"})
    assert found.tolist() == [[[2, 1, 0], [3, 0, 1]]]


@pytest.mark.parametrize(("labels", "width"), [(1, 1), (2, 1), (20, 19), (21, 1)])
def test_a_context_keeps_the_codes_of_one_label_and_of_many(labels, width):
    names = {"c": [str(j) for j in range(labels)]}
    assert encoded_context(np.zeros((2, 1)), ("c",), names).shape == (2, width)


def test_a_log_without_context_has_no_columns():
    half = np.full((3, 1), 0.5)
    log = cr.RankingLog(action=np.zeros((3, 1), int), reward=half, propensity=half)
    assert context_columns(log).shape == (3, 0)


def test_the_loggers_distributions_of_few_items_stand_for_a_missing_context():
    even = cr.Propensity("factored", np.full((2, 1), 0.5))
    whole = np.array([[0.5, 0.25, 0.25], [0.2, 0.8, 0.0]])
    log = cr.RankingLog(
        action=np.zeros((2, 1), int), reward=np.ones((2, 1)), propensity=even, dists={"propensity": whole}
    )  # fmt: skip
    expected = [np.log([0.5, 0.5]), np.log([4.0, 1e-6 / 0.2])]
    np.testing.assert_allclose(context_columns(log), expected)
    by_position = log.changed(dists={"propensity": np.stack([whole, whole[:, [0, 2, 1]]], axis=1)})
    assert context_columns(by_position)[1].tolist() == [np.log(2.0), np.log(2.0)]
    many = np.full((2, MOST_LABELS + 1), 1 / (MOST_LABELS + 1))
    assert context_columns(log.changed(dists={"propensity": many})).shape == (2, 0)
    known = log.changed(context=np.zeros((2, 1)), context_names=("x",))
    assert context_columns(known).tolist() == [[0.0], [0.0]]


def test_moments_of_a_context_add_and_a_missing_value_is_the_mean():
    def log(x):
        half = np.full((len(x), 1), 0.5)
        return cr.RankingLog(
            action=np.zeros((len(x), 1), int), reward=half, propensity=half, context=x
        )

    x = np.array([[1.0, 5.0], [3.0, 5.0], [NAN, 5.0]])
    whole = ContextMoments.from_batch(log(x))
    both = ContextMoments.from_batch(log(x[:1])) + ContextMoments.from_batch(log(x[1:]))
    for name in ("count", "first", "second"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(both, name))
    assert whole.count.tolist() == [2, 3] and whole.first.tolist() == [4, 15]
    assert whole.second.tolist() == [10, 75]
    layout = Layout(1, 1, 1, np.zeros((1, 1), int), *whole.mean_and_spread)
    found = layout.standardised(x + np.array([0.0, 1.0]))
    np.testing.assert_allclose(found, [[1, -1, 1], [1, 1, 1], [1, 0, 1]])
    nothing = ContextMoments(*np.zeros((3, 1)))
    assert [one.tolist() for one in nothing.mean_and_spread] == [[0.0], [1.0]]


def test_scales_are_of_known_values_and_outliers_are_moved_in():
    mean, spread = mean_and_spread(np.array([[1.0, NAN], [3.0, NAN], [NAN, NAN]]))
    assert mean.tolist() == [2.0, 0.0] and spread.tolist() == [1.0, 0.0]
    assert mean_and_spread(np.array([[5.0], [NAN]]))[0].tolist() == [5.0]
    assert np.isfinite(Scaling.fitted(np.array([[1.5e-9], [-1.5e-9]])).spread).all()
    scaling = Scaling.fitted(np.array([[1.0, 7.0], [3.0, 7.0]]))
    given = np.array([[[2.0, 9.0], [5.0, 7.0]], [[NAN, 7.0], [99.0, 7.0]]])
    assert scaling.apply(given).tolist() == [[[0, 0], [3, 0]], [[0, 0], [FAR, 0]]]
    assert scaling.apply(np.array([[-99.0, 7.0]])).tolist() == [[-FAR, 0]]
    assert Scaling.fitted(np.empty((3, 0))).apply(np.empty((2, 4, 0))).shape == (2, 4, 0)
    # Rounding is no spread, of small and of large numbers.
    for level in (1.0, 1e6):
        column = level + level * np.array([[0.0], [1e-12]])
        assert np.isinf(Scaling.fitted(column).spread).all()
        assert np.isfinite(Scaling.fitted(level + level * np.array([[0.0], [1e-6]])).spread).all()


def test_prices_are_read_as_logarithms():
    skew = np.array([1.0, 2.0, 3.0, 40.0])
    columns = [skew, skew - 1.0, -skew, np.array([4.0, 38, 39, 40]), np.array([5.0, 6, 7, 50])]
    found = _orders(np.stack(columns, axis=1))
    np.testing.assert_array_equal(found, [1.0, NAN, NAN, NAN, NAN])
    assert _orders(np.array([[NAN], [1.0], [2.0], [3.0], [40.0]])).tolist() == [1.0]
    assert np.isnan(_orders(np.full((2, 1), NAN))).all()
    # A decade and little more; prices in another unit; a span that does not lean to the right.
    more = [[1.0, 1.2, 1.3, 10.5], [0.01, 0.02, 0.03, 0.4], [1.0, 2.0, 9.0, 12.0]]
    np.testing.assert_array_equal(_orders(np.array(more).T), [1.0, 0.01, NAN])
    scaling = Scaling.fitted(skew[:, None], logs=True)
    logs = np.log(skew)
    np.testing.assert_allclose(scaling.mean, logs.mean())
    np.testing.assert_allclose(scaling.spread, logs.std())
    found = scaling.apply(np.array([[0.1], [40.0]]))
    np.testing.assert_allclose(found[:, 0], (logs[[0, 3]] - logs.mean()) / logs.std())
    assert Scaling.fitted(skew[:, None]).mean.tolist() == [skew.mean()]


def test_gaps_are_facts_of_their_own():
    scales = GapScales(np.array([1.0, 0.0]), np.array([2.0, 1.0]), ((1, 3),), (0, 1))
    raw = np.array([[3.0, 0.0], [NAN, 9.0], [1.0, NAN], [np.inf, 2.0]])
    wanted = [
        [1.0, 1, 0, 0, 0, 0],
        [0.0, 0, 0, 1, 1, 0],
        [0.0, 0, 0, 0, 0, 1],
        [0.0, 0, 0, 1, 0, 0],
    ]
    assert scales.encode(raw).tolist() == wanted
