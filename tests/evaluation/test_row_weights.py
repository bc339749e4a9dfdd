"""Logs of which a part was kept: weights of rows make estimates those of the whole log."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.cli.main import main
from counterrank.common.errors import CounterrankError
from counterrank.estimators import get_estimator
from counterrank.io import scan_log

NAMES = ("ips", "snips", "iips", "sniips", "rips", "order-2")
OPTIONS = {"estimators": list(NAMES), "independent_rows": True, "target_is_fresh": True}


def world(n, seed=0, K=2, A=4):
    """A log with a factored logger and a target that prefers items with more clicks, as arrays."""
    rng = np.random.default_rng(seed)
    logging, new = np.full(A, 1 / A), np.array([0.15, 0.2, 0.25, 0.4])
    action = rng.integers(A, size=(n, K))
    reward = (rng.random((n, K)) < 0.04 + 0.03 * action).astype(float)
    return {"action": action, "reward": reward, "propensity": logging[action], "new": new[action],
            "device": np.where(rng.random(n) < 0.4, "mobile", "desktop")}  # fmt: skip


def log_of(rows, keep=None, weight=None, unit=None):
    keep = np.arange(len(rows["action"])) if keep is None else keep
    return cr.RankingLog(
        action=rows["action"][keep], reward=rows["reward"][keep], propensity=rows["propensity"][keep],
        targets={"new": rows["new"][keep]}, columns={"device": rows["device"][keep]},
        weight=None if weight is None else weight[keep], unit=unit,
    )  # fmt: skip


def thinned(rows, share, rng):
    """Which rows stay, all with a click and a share of the others, and their weights (n,)."""
    clicked = rows["reward"].any(axis=1)
    keep = np.flatnonzero(clicked | (rng.random(len(clicked)) < share))
    return keep, np.where(clicked, 1.0, 1.0 / share)


def test_a_weight_of_two_is_the_row_twice():
    rows = world(300)
    weight = np.random.default_rng(1).integers(1, 4, size=300).astype(float)
    twice = np.repeat(np.arange(300), weight.astype(int))
    found = cr.evaluate(log_of(rows, weight=weight), **OPTIONS, segments="device", audit=False)
    other = cr.evaluate(log_of(rows, twice), **OPTIONS, segments="device", audit=False)
    assert found.log.n == 300 and found.log.value == pytest.approx(other.log.value, rel=1e-12)
    for name in NAMES:
        one, two = (result.estimate("new", name) for result in (found, other))
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.lift.value == pytest.approx(two.lift.value, rel=1e-9)
        assert one.lift.relative == pytest.approx(two.lift.relative, rel=1e-9)
        for mine, its in zip(one.by_position, two.by_position, strict=True):
            assert mine.value == pytest.approx(its.value, rel=1e-12)
    assert {(s.label, round(s.value, 12)) for s in found.segments} == {
        (s.label, round(s.value, 12)) for s in other.segments
    }


def test_the_error_is_that_of_a_ratio_of_sums():
    """Twin in NumPy: one unit a row, residuals v (t - value) over the sum of v."""
    rows = world(400)
    weight = np.random.default_rng(1).uniform(1, 9, size=400)
    found = cr.evaluate(log_of(rows, weight=weight), **OPTIONS, audit=False)
    w, r = rows["new"] / rows["propensity"], rows["reward"]
    total, base = (w * r).sum(axis=1), r.sum(axis=1)
    one = found.estimate("new", "iips")
    value = weight @ total / weight.sum()
    assert one.value == pytest.approx(value, rel=1e-12)

    def error(t):
        psi = weight * (t - weight @ t / weight.sum())
        return np.sqrt(400 / 399 * (psi**2).sum()) / weight.sum()

    # 400 rows have a bucket each.
    assert one.stderr == pytest.approx(error(total), rel=1e-9)
    assert one.lift.stderr == pytest.approx(error(total - base), rel=1e-9)
    assert found.log.stderr == pytest.approx(error(base), rel=1e-9)
    mean = weight @ w / weight.sum()
    kish = (weight @ w.mean(axis=1)) ** 2 / ((weight * w.mean(axis=1)) ** 2).sum()
    assert one.ess == pytest.approx(kish, rel=1e-9)
    ratio = (weight @ (w * r) / weight.sum() / mean).sum()
    assert found.estimate("new", "sniips").value == pytest.approx(ratio, rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_equal_weights_change_no_value(scale):
    rows = world(2000)
    found = cr.evaluate(log_of(rows, weight=np.full(2000, scale)), **OPTIONS)
    other = cr.evaluate(log_of(rows), **OPTIONS)
    for name in NAMES:
        one, two = (result.estimate("new", name) for result in (found, other))
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.ess == pytest.approx(two.ess, rel=1e-9)
        # Sums over 1,024 buckets instead of rows have an error of 2 %.
        assert one.lift.stderr == pytest.approx(two.lift.stderr, rel=0.1)


def test_a_thinned_log_with_units_clusters_them():
    rows = world(3000)
    unit = np.repeat(np.arange(300), 10)
    one = cr.evaluate(log_of(rows, weight=np.full(3000, 5.0), unit=unit), **OPTIONS, audit=False)
    two = cr.evaluate(log_of(rows, unit=unit), **OPTIONS, audit=False)
    for name in NAMES:
        mine, its = (result.estimate("new", name).lift for result in (one, two))
        assert mine.stderr == pytest.approx(its.stderr, rel=1e-9)


def test_thinned_logs_give_the_estimates_of_the_whole():
    """80 thinnings of fresh logs. A mean beyond 4 standard errors happens by chance once in 16,000.

    The spread of 80 estimates has a relative error of 8 %: 32 % off is four of them.
    """
    share, runs = 0.2, 80
    lifts, errors, whole, naive = [], [], [], []
    for seed in range(runs):
        rows = world(2000, seed)
        keep, weight = thinned(rows, share, np.random.default_rng([seed, 1]))
        name = "iips"
        estimator = get_estimator(name)
        one = estimator.estimate(log_of(rows, keep, weight), "new")
        lifts.append(one.lift.value)
        errors.append(one.lift.stderr)
        whole.append(estimator.estimate(log_of(rows), "new").lift.value)
        naive.append(estimator.estimate(log_of(rows, keep), "new").lift.value)
    gap = np.array(lifts) - np.array(whole)
    assert abs(gap.mean()) < 4 * gap.std(ddof=1) / np.sqrt(runs)
    spread = np.std(lifts, ddof=1)
    assert 0.68 * spread < np.mean(errors) < 1.32 * spread
    # Without weights the thinned log gives another answer: the test could fail.
    bias = np.array(naive) - np.array(whole)
    assert abs(bias.mean()) > 6 * bias.std(ddof=1) / np.sqrt(runs)


def test_the_audit_looks_at_evenly_kept_rows():
    rows = world(40_000)
    keep, weight = thinned(rows, 0.2, np.random.default_rng(5))
    log = log_of(rows, keep, weight)
    even = log.evenly_kept()
    clicked = rows["reward"].any(axis=1).mean()
    # The share of pages with a click among about 8,000 rows, five standard errors wide.
    assert even.reward.any(axis=1).mean() == pytest.approx(clicked, abs=5 * np.sqrt(0.25 / even.n))
    assert 0.18 * 40_000 < even.n < 0.22 * 40_000 and even.weight is None
    found, whole, without = (
        {(one.code, one.status) for one in [*result.audit, *result.verdict.reasons] if one.blamed}
        for result in (
            cr.evaluate(one, **OPTIONS) for one in (log, log_of(rows), log_of(rows, keep))
        )
    )
    # The verdict is that of the whole log; without weights, clicks choose the rows and weights do not
    # average one.
    assert found == whole and ("mean-weight", "warned") in without


def test_what_fits_to_rows_is_refused():
    log = log_of(world(500), weight=np.full(500, 2.0))
    for name in ("auto", "dm", "dr-iips", "clip-ips", "cv-ips"):
        with pytest.raises(CounterrankError, match=r"these have weights .*use ips, iips"):
            cr.evaluate(log, estimators=[name])
    found = cr.evaluate(log)  # of the defaults, what cannot run is skipped
    assert "auto" in {one.subject for one in found.skipped}
    assert found.recommended["new"] == "order-2"
    for call in (
        lambda: cr.validate(log, "device"),
        lambda: cr.learn(log),
        lambda: cr.evaluate(log, estimators=["ips"], estimate_propensity="by-list:device"),
    ):
        with pytest.raises(CounterrankError, match="weights of rows"):
            call()


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_weights_are_refused_with_the_row(bad):
    weight = np.ones(50)
    weight[7] = bad
    with pytest.raises(CounterrankError, match=f"the weight is {bad} at row 7; give one over"):
        log_of(world(50), weight=weight)


def test_files_and_the_command_line(tmp_path):
    rows = world(4000)
    keep, weight = thinned(rows, 0.25, np.random.default_rng(2))
    table = {
        **{name: rows[name][keep].tolist() for name in ("action", "reward", "propensity", "new")},
        "kept": weight[keep], "weight": np.zeros(len(keep)),
    }  # fmt: skip
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path, row_group_size=300)
    wanted = cr.evaluate(log_of(rows, keep, weight), **OPTIONS)
    found = cr.evaluate(path, ["new"], weight="kept", **OPTIONS)
    streamed = cr.evaluate(scan_log(path, targets=("new",), weight="kept"), ["new"], **OPTIONS)
    out = tmp_path / "result.json"
    ran = CliRunner().invoke(
        main, ["evaluate", str(path), "--target", "new", "--weight", "kept", "--estimators",
               "iips,ips", "--json", str(out)],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    said = {one["estimator"]: one for one in json.loads(out.read_text())["estimates"]}
    for name in ("iips", "ips"):
        value = wanted.estimate("new", name).value
        for result in (found, streamed):
            assert result.estimate("new", name).value == pytest.approx(value, rel=1e-12)
            assert result.estimate("new", name).stderr == pytest.approx(
                wanted.estimate("new", name).stderr, rel=1e-9
            )
        assert said[name]["value"] == pytest.approx(value, rel=1e-12)
    k, n = 2, len(keep)
    long = {
        "ranking": np.repeat(np.arange(n), k), "position": np.tile(np.arange(1, k + 1), n),
        **{name: rows[name][keep].reshape(-1) for name in ("action", "reward", "propensity", "new")},
        "kept": np.repeat(weight[keep], k),
    }  # fmt: skip
    by_position = cr.evaluate(pa.table(long), ["new"], weight="kept", **OPTIONS)
    assert by_position.estimate("new", "iips").value == pytest.approx(
        wanted.estimate("new", "iips").value, rel=1e-12
    )
    # A column that is only called so is no weight.
    assert cr.read_log(path).weight is None
    with pytest.raises(CounterrankError, match="no column 'absent'"):
        cr.evaluate(path, ["new"], weight="absent", **OPTIONS)
    with pytest.raises(CounterrankError, match="the weight is 0.0"):
        cr.evaluate(path, ["new"], weight="weight", **OPTIONS)
