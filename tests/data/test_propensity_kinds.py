"""Each kind of propensity allows just what it can support, and says what would help."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.estimators import registry
from counterrank.estimators.weights.ratios import capability_of

N, K = 400, 3
#: Which estimators each kind supports.
ALLOWED = {
    "factored": {"ips", "rips", "iips", "aips", "order-2"},
    "prefix": {"ips", "rips"},
    "position": {"iips"},
    "joint": {"ips"},
}


def numbers(kind, seed):
    values = np.random.default_rng(seed).uniform(0.2, 1, (N, K))
    return cr.Propensity(kind, values[:, 0] if kind == "joint" else values)


def log_of(kind):
    rng = np.random.default_rng(0)
    return cr.RankingLog(
        action=rng.integers(0, 3, (N, K)), reward=rng.random((N, K)), propensity=numbers(kind, 1),
        targets={"new": numbers(kind, 2)}, behavior=np.full(N, "N1"),
    )  # fmt: skip


def make(name):
    return cr.AIPS(behavior="log") if name == "aips" else registry.get(name)


@pytest.mark.parametrize("kind", sorted(ALLOWED))
@pytest.mark.parametrize("name", ["ips", "rips", "iips", "aips", "order-2"])
def test_kinds_allow_what_they_support(kind, name):
    log = log_of(kind)
    if name in ALLOWED[kind]:
        assert np.isfinite(make(name).estimate(log, "new").value)
    else:
        with pytest.raises(cr.CounterrankError, match=f"'{kind}'"):
            make(name).estimate(log, "new")


@pytest.mark.parametrize("kind", ["prefix", "joint"])
def test_values_by_kind(kind):
    log = log_of(kind)
    p0, p1 = log.propensity.values, log.targets["new"].values
    ratio = p1 / p0
    w = ratio.prod(1) if kind == "prefix" else ratio
    assert cr.IPS().estimate(log, "new").value == pytest.approx(
        (w * log.reward.sum(1)).mean(), rel=1e-12
    )
    if kind == "prefix":
        expected = (np.cumprod(ratio, 1) * log.reward).sum(1).mean()
        assert cr.RIPS().estimate(log, "new").value == pytest.approx(expected, rel=1e-12)


def test_superset_is_used_only_when_asked_and_flagged():
    log = log_of("prefix")
    with pytest.raises(cr.CounterrankError, match="on_missing='superset'"):
        cr.IIPS().estimate(log, "new")
    enlarged = cr.IIPS(on_missing="superset").estimate(log, "new")
    assert enlarged.value == cr.RIPS().estimate(log, "new").value
    assert any(flag.startswith("superset") for flag in enlarged.flags)
    with pytest.raises(cr.CounterrankError, match="only IIPS"):
        cr.IPS(on_missing="superset").estimate(log_of("position"), "new")
    with pytest.raises(cr.CounterrankError, match="use 'error' or 'superset'"):
        cr.IPS(on_missing="ignore").estimate(log_of("position"), "new")


@pytest.mark.parametrize("kind", sorted(ALLOWED))
def test_with_one_position_every_kind_is_the_same(kind):
    p0, p1 = np.full(4, 0.5), np.full(4, 0.25)
    shape = (4,) if kind == "joint" else (4, 1)
    log = cr.RankingLog(
        action=[[0]] * 4, reward=[[1.0]] * 4, propensity=cr.Propensity(kind, p0.reshape(shape)),
        targets={"new": cr.Propensity(kind, p1.reshape(shape))},
    )  # fmt: skip
    for name in ("ips", "rips", "iips"):
        assert registry.get(name).estimate(log, "new").value == 0.5


def test_kinds_must_match():
    log = log_of("factored").with_targets({"other": numbers("prefix", 3)})
    with pytest.raises(cr.CounterrankError, match="both must be of one kind"):
        cr.IPS().estimate(log, "other")


def test_joint_columns_must_agree():
    with pytest.raises(cr.CounterrankError, match="row 1 has different ones"):
        cr.Propensity("joint", [[0.5, 0.5], [0.5, 0.4]])
    assert cr.Propensity("joint", [[0.5, 0.5], [0.4, 0.4]]).values.tolist() == [0.5, 0.4]
    with pytest.raises(
        cr.CounterrankError, match="kind 'marginal' is unknown; use one of factored, prefix"
    ):
        cr.Propensity("marginal", [[0.5]])
    with pytest.raises(cr.CounterrankError, match=r"must have shape \(n, K\)"):
        cr.Propensity("prefix", [0.5])


def test_capabilities_of_masks():
    from counterrank.estimators.behavior import mask

    found = {
        name: capability_of(mask(name, 4)) for name in ("S", "C", "I", "C1", "N1", "IC", "P2", "R2")
    }
    assert found == {
        "S": "joint", "C": "prefix", "I": "position", "C1": "prefix", "N1": "subset", "IC": "subset", "P2": "subset",
        "R2": "subset",
    }  # fmt: skip
