"""Items that stand for their group."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.data.grouping import NOTE, Grouping, grouping_of
from counterrank.errors import ConfigError, PropensityError
from counterrank.estimators import Marginalised
from counterrank.policies import ItemFeatures
from counterrank.weights.ratios import ratios_of

GROUPS = ["a", "b", "b", "a", "c"]


def make_log(n=400, *, by_position=False, dists=True):
    rng = np.random.default_rng(0)
    shape = (n, 3, 5) if by_position else (n, 5)
    old, new = rng.dirichlet(np.ones(5), shape[:-1]), rng.dirichlet(np.ones(5), shape[:-1])
    every = (np.broadcast_to(p if by_position else p[:, None], (n, 3, 5)) for p in (old, new))
    action = rng.integers(5, size=(n, 3))
    action[:50, 2] = -1
    shown = [
        np.where(
            action >= 0, np.take_along_axis(p, np.maximum(action, 0)[..., None], 2)[..., 0], 1.0
        )
        for p in every
    ]
    reward = np.where(action >= 0, rng.random((n, 3)), 0.0)
    return cr.RankingLog(
        action=action, reward=reward, propensity=shown[0], targets={"new": shown[1]},
        context=rng.normal(size=(n, 2)), dists={"propensity": old, "new": new} if dists else {},
    )  # fmt: skip


@pytest.mark.parametrize("by_position", [False, True])
def test_ratios_are_those_of_the_marginalised_estimator(by_position):
    log = make_log(by_position=by_position)
    grouped = Grouping(GROUPS)(log)
    assert grouped.action_names == ("a", "b", "c") and grouped.n_actions == 3
    for name in ("propensity", "new"):
        table, sums = log.distribution(name), grouped.distribution(name)
        assert sums[..., 0] == pytest.approx(table[..., 0] + table[..., 3])
    for weights in ("iips", "rips", "ips"):
        known = Marginalised(groups=GROUPS, weights=weights).estimate(log, "new").value
        assert cr.estimators.get_estimator(weights).estimate(grouped, "new").value == pytest.approx(
            known, rel=1e-12
        )


def test_a_tree_grows_on_groups():
    grouped = Grouping(GROUPS)(make_log())
    tree = cr.BehaviorTree(candidates="generated").fit(grouped, "new")
    assert tree.weights(grouped, ratios_of(grouped, "new")).shape == (400, 3)
    assert np.isfinite(cr.AIPS().estimate(grouped, "new").value)
    assert grouped.notes == (NOTE,)


def test_every_item_its_own_group_changes_nothing():
    log = make_log()
    same = Grouping(list("vwxyz"))(log)
    np.testing.assert_array_equal(same.action, log.action)
    np.testing.assert_allclose(ratios_of(same, "new").rho, ratios_of(log, "new").rho, rtol=1e-12)


def test_groups_from_columns_of_the_items():
    table = ItemFeatures(
        [[0, 1.5], [1, 1.5], [1, 2], [0, 1.5], [1, 2]], ("brand", "size"), {"brand": ("x", "y")}
    )
    made = grouping_of(table, ["brand", "size"])
    assert made.names == ("x, 1.5", "y, 1.5", "y, 2") and made.group.tolist() == [0, 1, 2, 0, 2]


def test_what_is_missing_is_named():
    table = ItemFeatures([[0.0], [np.nan]], ("brand",))
    with pytest.raises(ConfigError, match="item 1 has no value of brand"):
        grouping_of(table, ["brand"])
    with pytest.raises(ConfigError, match="no column 'colour'.*they have brand"):
        grouping_of(table, ["colour"])
    with pytest.raises(ConfigError, match="--items FILE"):
        grouping_of(None, ["brand"])
    with pytest.raises(ConfigError, match="groups of 2 items are known, but the log has 5"):
        Grouping(["a", "b"])(make_log())
    with pytest.raises(PropensityError, match="'propensity' has none: add a column"):
        Grouping(GROUPS)(make_log(dists=False))
