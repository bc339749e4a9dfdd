"""Sums of named columns against the rows themselves: means, lifts and positions, in all and by unit."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from counterrank.statistics import ColumnSums, PositionSums, sums_of

N, K = 60, 3
RNG = np.random.default_rng(4)
TOTALS = {
    "earned": RNG.gamma(2.0, 1.0, N),
    "total": RNG.gamma(2.0, 1.0, N),
    "control": RNG.normal(size=N),
}
PLACES = {
    "r": RNG.gamma(1.0, 1.0, (K, N)),
    "y": RNG.gamma(2.0, 1.0, (K, N)),
    "w": RNG.uniform(0.5, 2, (K, N)),
}
UNITS = RNG.integers(0, 9, N)


def sums(rows=slice(None), *, units=False, beside=()):
    bucket = UNITS[rows] if units else None
    totals = {key: column[rows] for key, column in TOTALS.items()}
    places = np.stack([column[:, rows] for column in PLACES.values()], axis=1)
    chosen = {key: totals[key] for key in beside}
    block = PositionSums.from_columns(tuple(PLACES), places, bucket, chosen)
    return ColumnSums(tuple(totals), sums_of([*totals.values()], bucket), (block,))


def error(influence, *, units):
    """The standard error of a mean of these influences of rows, or of units (Liang & Zeger)."""
    centred = influence - influence.mean()
    if not units:
        return np.sqrt(centred @ centred / (N - 1) / N)
    scores = np.bincount(UNITS, centred)
    U = len(np.unique(UNITS))
    return np.sqrt(U / (U - 1) * (scores @ scores)) / N


@pytest.mark.parametrize("units", [False, True])
def test_quantities_of_a_page_have_the_error_of_their_influence_on_rows(units):
    table = sums(units=units)
    total, earned = table.mean("total"), table.mean("earned")
    y, r = TOTALS["total"], TOTALS["earned"]
    ratio = y.mean() / r.mean()
    for quantity, value, influence in (
        (total, y.mean(), y),
        (total - earned, (y - r).mean(), y - r),
        (total + earned, (y + r).mean(), y + r),
        (total * -3.0, -3 * y.mean(), -3 * y),
        (total.relative_to(earned), ratio - 1, (y - ratio * r) / r.mean()),
    ):
        assert quantity.value == pytest.approx(value, rel=1e-12)
        assert quantity.stderr == pytest.approx(error(influence, units=units), rel=1e-9)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("k", range(K))
def test_quantities_of_a_position_have_the_error_of_their_influence_on_rows(units, k):
    """The lift of a ratio of means over what the logger earned there: the three columns vary together."""
    table = sums(units=units)
    r, y, w = (PLACES[key][k] for key in "ryw")
    ratio = table.position("y", k) / table.position("w", k)
    lift = ratio - table.position("r", k)
    value = y.mean() / w.mean()
    assert lift.value == pytest.approx(value - r.mean(), rel=1e-12)
    influence = (y - value * w) / w.mean() - r
    assert lift.stderr == pytest.approx(error(influence, units=units), rel=1e-9)


@pytest.mark.parametrize("units", [False, True])
def test_row_totals_beside_a_position_vary_with_its_columns(units):
    table = sums(units=units, beside=("control",))
    place = table.position("y", 1)
    gradient = place.gradient.copy()
    gradient[len(PLACES)] = -0.7
    covariance = place.sample.covariance(gradient[None])[0, 0]
    influence = PLACES["y"][1] - 0.7 * TOTALS["control"]
    assert np.sqrt(covariance) == pytest.approx(error(influence, units=units), rel=1e-9)


def test_a_quantity_without_a_column_has_the_error_of_the_others():
    table = sums(beside=("control",))
    page = table.mean("total") - table.mean("control")
    assert table.without(page, {"control"}).stderr == pytest.approx(table.mean("total").stderr)
    place = table.position("y", 1)
    gradient = place.gradient.copy()
    gradient[len(PLACES)] = -0.7
    wider = table.without(replace(place, gradient=gradient), {"control"})
    assert wider.stderr == pytest.approx(place.stderr, rel=1e-12)


def test_what_a_position_takes_from_the_page_adds_its_own_error():
    table = sums()
    place = table.position("y", 0)
    gradient = place.gradient.copy()
    gradient[len(PLACES) + table.column["total"]] = 0.5
    covariance = place.sample.covariance(gradient[None])[0, 0]
    parts = error(PLACES["y"][0], units=False) ** 2, error(0.5 * TOTALS["total"], units=False) ** 2
    assert covariance == pytest.approx(sum(parts), rel=1e-9)


@pytest.mark.parametrize("units", [False, True])
def test_parts_that_were_pickled_add_up_to_the_whole(units):
    beside = ("control",)
    cuts = (slice(0, 7), slice(7, 40), slice(40, N))
    parts = [pickle.loads(pickle.dumps(sums(cut, units=units, beside=beside))) for cut in cuts]
    both, whole = parts[0] + parts[1] + parts[2], sums(units=units, beside=beside)
    assert both.mean("total").stderr == pytest.approx(whole.mean("total").stderr, rel=1e-12)
    for k in range(K):
        one, other = both.position("y", k), whole.position("y", k)
        assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr), rel=1e-12)
    np.testing.assert_allclose(both.blocks[0].cross, whole.blocks[0].cross, rtol=1e-12)


def test_sums_of_other_columns_are_not_added():
    other = ColumnSums(("earned",), sums_of([TOTALS["earned"]]))
    with pytest.raises(ValueError, match="different columns"):
        _ = sums() + other


def test_of_two_blocks_with_a_column_the_one_with_more_beside_it_counts():
    plain, wide = sums(), sums(beside=("control",))
    for blocks in ((*plain.blocks, *wide.blocks), (*wide.blocks, *plain.blocks)):
        table = ColumnSums(plain.keys, plain.rows, blocks)
        assert table.block_of["y"] is wide.blocks[0]
    assert "nothing" not in plain.block_of


def test_absolute_sums_are_those_of_numpy():
    table = RNG.normal(size=(5, 1_003))
    np.testing.assert_allclose(sums_of([*table]).absolute, np.abs(table).sum(axis=1), rtol=1e-13)
