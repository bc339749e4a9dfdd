"""Every engine gives what memory gives, whatever happens to its workers."""

import os
from dataclasses import replace

import numpy as np
import pytest

import counterrank as cr
from counterrank.common.errors import CounterrankError, EngineError
from counterrank.data.source import MemorySource
from counterrank.kernels import hashing
from counterrank.testing import check_source

pytestmark = [
    pytest.mark.cluster,
    # Dask's own call of pandas.
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index"),
]
PARTS, ROWS = 4, 500
CLUSTERS = ["dask-files", "dask-frame", "spark-files", "spark-frame"]
ENGINES = ["files", *CLUSTERS]
FIXED = ["ips", "snips", "rips", "iips", "cv-rips", "order-2"]


def numbers(result):
    """Everything an evaluation says about its targets, in one array."""
    rows = [
        (e.value, e.stderr, e.low, e.high, e.ess, e.lift.value, e.lift.stderr)
        for e in result.estimates
    ]
    positions = [(p.value, p.stderr) for e in result.estimates for p in e.by_position]
    return np.concatenate([np.ravel(rows), np.ravel(positions)])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("log", ["unit", "plain"])
def test_fixed_estimators_and_clustered_errors_equal_those_in_memory(make, in_memory, engine, log):
    expected = in_memory(log, estimators=FIXED)
    found = cr.evaluate(make(engine, log), ["new"], estimators=FIXED)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-10)
    assert found.log["n"] == PARTS * ROWS
    assert found.log["fingerprint"] == expected.log["fingerprint"]


def without(metric, name):
    """A metric without one estimator."""
    left = tuple(estimate for estimate in metric.estimates if estimate.estimator != name)
    return replace(metric, estimates=left)


METRICS = {
    "estimators": ["ips", "rips"],
    "rewards": {"all": "reward", "any": "any(reward)", "each": "reward / impressions"},
    "guardrails": ["any >= -0.1", "all by device >= -0.5"],
}


@pytest.mark.parametrize("engine", ENGINES)
def test_several_metrics_equal_those_in_memory(make, in_memory, engine):
    expected = in_memory("unit", {"segments": ["device"]}, **METRICS)
    found = cr.evaluate(make(engine, "unit", segments=["device"]), ["new"], **METRICS)
    for metric in expected.metrics:
        mine, theirs = (one.metric(metric.name).estimate("new") for one in (found, expected))
        assert mine.value == pytest.approx(theirs.value, rel=1e-10)
        assert mine.lift.stderr == pytest.approx(theirs.lift.stderr, rel=1e-9)
        assert mine.lift.adjusted_low == pytest.approx(theirs.lift.adjusted_low, rel=1e-9)
    assert [row.status for row in found.guardrails] == [row.status for row in expected.guardrails]


SCORED = {"logger": "plackett-luce:temperature=0.7", "policies": {"new": "plackett-luce"}}
UNKNOWN = {"require_propensity": False, "policies": {"new": "plackett-luce"}}
TIED = {"logger": "swap:probability=0.3", "policies": {"new": "plackett-luce"}, "drop_ties": True}


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_of_candidates_equal_those_in_memory(make, in_memory, engine):
    wanted = ["ips", "snips", "rips", "iips"]
    expected = in_memory("scored", SCORED, estimators=wanted)
    found = cr.evaluate(make(engine, "scored", **SCORED), ["new"], estimators=wanted)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-10)
    assert found.log["fingerprint"] == expected.log["fingerprint"]


@pytest.mark.parametrize("engine", ["files", "dask-frame", "spark-frame"])
def test_rows_in_which_ties_decide_are_left_out_as_in_memory(make, in_memory, engine):
    """Of one part nothing is left."""
    expected = in_memory("tied", TIED, estimators=["ips", "rips"])
    assert expected.log["n"] == (PARTS - 1) * ROWS * 9 // 10
    found = cr.evaluate(make(engine, "tied", **TIED), ["new"], estimators=["ips", "rips"])
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-10)
    assert found.log["fingerprint"] == expected.log["fingerprint"]


@pytest.mark.parametrize("engine", ENGINES)
def test_propensities_learnt_from_scores_equal_those_in_memory(make, in_memory, engine):
    """Rows come in another order, so the fit agrees as far as its own stopping rule goes."""
    asked = {"estimators": ["iips"], "estimate_propensity": "plackett-luce", "audit": False}
    expected = in_memory("scored", UNKNOWN, **asked)
    found = cr.evaluate(make(engine, "scored", **UNKNOWN), ["new"], **asked)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_laws_of_sources_hold(make, engine):
    check_source(make(engine), make("memory"))


@pytest.mark.parametrize("engine", ENGINES)
def test_tree_and_automatic_choice_equal_those_in_memory(make, in_memory, engine):
    """Rows of a distributed frame have no numbers, so what `auto` draws for them is other draws:
    then it agrees within a fiftieth of its standard error, and everything else to the last digits.
    """
    wanted = ["aips", "dr-order-2", "auto"]
    expected = in_memory(estimators=wanted)
    found = cr.evaluate(make(engine), ["new"], estimators=wanted)
    if engine.endswith("-frame"):
        mine, theirs = (result.estimate("new", "auto") for result in (found, expected))
        assert abs(mine.value - theirs.value) < theirs.stderr / 50
        assert mine.stderr == pytest.approx(theirs.stderr, rel=0.05)
        found, expected = (
            replace(result, metrics=(without(result.metric(), "auto"),))
            for result in (found, expected)
        )
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_segments_equal_those_in_memory(make, in_memory, engine):
    options = {"estimators": ["rips"], "segments": ["device", "x_0"]}
    expected = in_memory(**options)
    found = cr.evaluate(make(engine, segments=["device"]), ["new"], **options)
    keys = ("column", "label", "n")
    assert [[s[k] for k in keys] for s in found.segments] == [
        [s[k] for k in keys] for s in expected.segments
    ]
    for mine, theirs in zip(found.segments, expected.segments, strict=True):
        assert mine["value"] == pytest.approx(theirs["value"], rel=1e-10)
        assert mine["stderr"] == pytest.approx(theirs["stderr"], rel=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_predicate_keeps_one_segment(make, engine):
    log = make("memory")
    expected = cr.evaluate(
        log.where(log.columns["device"] == "mobile"), ["new"], estimators=["rips"]
    )
    found = cr.evaluate(make(engine, where="device = 'mobile'"), ["new"], estimators=["rips"])
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_parts_are_added_in_the_order_of_the_rows(make, engine):
    starts = make(engine).reduce(lambda batch: (int(batch.start),))
    assert list(starts) == sorted(starts) and len(starts) >= PARTS


@pytest.mark.parametrize("engine", ["dask-frame", "spark-frame"])
def test_rows_without_units_fall_into_buckets_by_partition_and_row(make, engine):
    expected = np.empty((PARTS, ROWS), dtype=np.int64)
    for part in range(PARTS):
        hashing.row_buckets(part * 2**32 + np.arange(ROWS), expected[part])
    found = make(engine, "plain").reduce(lambda batch: tuple(batch.bucket.tolist()))
    assert np.array_equal(np.array(found), expected.ravel())


@pytest.mark.parametrize("engine", CLUSTERS)
def test_many_partitions_are_added_by_neighbours_in_order(make, engine, monkeypatch):
    source = make(engine)
    one_by_one = source.reduce(lambda batch: tuple(batch.reward[:, 0].tolist()))
    monkeypatch.setattr(f"counterrank.io.{engine.partition('-')[0]}.RESULTS", 2)
    by_neighbours = source.reduce(lambda batch: tuple(batch.reward[:, 0].tolist()))
    assert by_neighbours == one_by_one and len(one_by_one) == PARTS * ROWS


@pytest.mark.parametrize("engine", CLUSTERS)
def test_a_worker_killed_in_the_middle_changes_nothing(make, engine, tmp_path):
    marker = str(tmp_path / "killed")

    def moments(batch):
        return np.array([batch.n, batch.reward.sum(), (batch.reward**2).sum()])

    def killing(batch):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return moments(batch)
        os._exit(1)

    source = make(engine)
    undisturbed = source.reduce(moments)
    found = source.reduce(killing)
    assert os.path.exists(marker)
    assert np.array_equal(found, undisturbed)


@pytest.mark.parametrize("engine", CLUSTERS)
def test_a_poisoned_partition_is_named(make, engine):
    with pytest.raises(
        EngineError, match=r"^partition 3\b.*reward.*row \d*17, position 3"
    ) as caught:
        cr.evaluate(make(engine, "poisoned"), ["new"], estimators=["ips"])
    assert "\n" not in str(caught.value)


def test_a_poisoned_file_is_named(make):
    with pytest.raises(CounterrankError, match=r"part-3\.parquet.*row 1517, position 3"):
        cr.evaluate(make("files", "poisoned"), ["new"], estimators=["ips"])


@pytest.mark.parametrize("engine", CLUSTERS)
def test_an_error_in_our_code_names_the_partition(make, engine):
    def fails(batch):
        return 1 / (batch.n - batch.n)

    with pytest.raises(EngineError, match=r"^partition 0\b.*ZeroDivisionError: division by zero"):
        make(engine).reduce(fails)


@pytest.mark.parametrize("engine", ENGINES)
def test_samples_are_uniform_and_repeatable(make, engine):
    source = make(engine, "plain")
    first = source.sample(600, np.random.default_rng(5))
    again = source.sample(600, np.random.default_rng(5))
    assert first.n == 600
    assert np.array_equal(first.context, again.context)
    rows = np.searchsorted(
        np.sort(make("memory", "plain").context[:, 0]), np.sort(first.context[:, 0])
    )
    # Ranks of a uniform sample: the mean of 600 has a standard deviation below 2000/sqrt(12*600) =
    # 24; 5 sigma.
    assert len(np.unique(rows)) == 600
    assert abs(rows.mean() - PARTS * ROWS / 2) < 5 * 24


def test_threads_do_not_change_the_last_digit(make, folders):
    from counterrank.io import scan_log

    log = make("memory")
    one, three = (
        cr.evaluate(MemorySource(log, threads=t), ["new"], estimators=FIXED) for t in (1, 3)
    )
    assert np.array_equal(numbers(one), numbers(three))
    files = (scan_log(folders["unit"], targets="new", workers=w) for w in (1, 3))
    one, three = (cr.evaluate(f, ["new"], estimators=FIXED) for f in files)
    assert np.array_equal(numbers(one), numbers(three))
