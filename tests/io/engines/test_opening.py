"""What `evaluate` takes, and what it says when it cannot."""

import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, MissingExtraError
from counterrank.io.file_source import open_source, opened

NEW = {"estimators": ["rips"]}
# Dask's own call of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")


@pytest.fixture(scope="module")
def expected(folders):
    return cr.evaluate(cr.read_log(folders["unit"], targets="new"), ["new"], **NEW).estimate(
        "new", "rips"
    )


def value(*args, **options):
    return cr.evaluate(*args, **NEW, **options).estimate("new", "rips").value


def test_folders_patterns_and_files_are_streamed_or_read(folders, expected):
    folder = folders["unit"]
    for path in (folder, str(folder), str(folder / "*.parquet"), folder.parent / "unit.parquet"):
        assert value(path, ["new"]) == pytest.approx(expected.value, rel=1e-10)


def test_frames_in_memory(folders, expected):
    table = pq.read_table(folders["unit"])
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (table, polars.from_arrow(table), table.to_pandas()):
        assert value(frame, ["new"]) == pytest.approx(expected.value, rel=1e-10)
    assert isinstance(table.to_pandas(), pandas.DataFrame)


def test_targets_may_be_columns_arrays_or_both(folders, expected):
    log = cr.read_log(folders["unit"], targets="new")
    array = log.target("new").values
    assert value(log, {"new": array}) == expected.value
    assert value(folders["unit"], {"new": array}) == pytest.approx(expected.value, rel=1e-10)
    both = cr.evaluate(folders["unit"], {"new": "new", "old": "propensity"}, **NEW)
    assert both.estimate("new", "rips").value == pytest.approx(expected.value, rel=1e-10)
    # The logging policy against itself: every weight is one.
    assert both.estimate("old", "rips").value == pytest.approx(both.log["value"], rel=1e-10)


def test_a_predicate_on_memory_files_and_frames(folders):
    log = cr.read_log(folders["unit"], targets="new")
    wanted = log.where(np.isin(log.columns["device"], ["mobile", "tv"]))
    expected = cr.evaluate(wanted, ["new"], **NEW).estimate("new", "rips").value
    where = "device in ('mobile', 'tv')"
    for source in (log, folders["unit"], pq.read_table(folders["unit"])):
        assert value(source, ["new"], where=where) == pytest.approx(expected, rel=1e-10)
    with pytest.raises(ConfigError, match="no column 'planet' to select by; columns are .*device"):
        value(log, ["new"], where="planet = 'mars'")
    with pytest.raises(LogError, match="no ranking matches"):
        value(folders["unit"], ["new"], where="device = 'fridge'")


def test_engines_that_do_not_fit_are_refused(folders):
    log = cr.read_log(folders["unit"], targets="new")
    with pytest.raises(ConfigError, match="there is no engine 'ray'; use local, dask, spark"):
        value(folders["unit"], ["new"], engine="ray")
    with pytest.raises(ConfigError, match="an engine is chosen for logs in files"):
        value(log, ["new"], engine="dask")
    with pytest.raises(ConfigError, match="name at least one target"):
        cr.evaluate(folders["unit"])


@pytest.mark.parametrize(("engine", "module"), [("dask", "distributed"), ("spark", "pyspark.sql")])
def test_a_missing_extra_is_named(folders, engine, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"counterrank\[{engine}\]"):
        value(folders["unit"], ["new"], engine=engine)


def test_passes_report_progress(folders):
    from counterrank.data.source import Reporter, reporting_to

    class Listener(Reporter):
        def __init__(self):
            self.passes = []

        def begin(self, label, total):
            self.passes.append([label, total, 0])

        def advance(self, rows):
            self.passes[-1][2] += rows

    for log in (folders["unit"], cr.read_log(folders["unit"], targets="new")):
        listener = Listener()
        with reporting_to(listener):
            value(log, ["new"])
        assert ["estimating", 2000, 2000] in listener.passes
        assert listener.passes[0] == ["reading", None, 0]
        assert listener.passes[-1] == ["judging", None, 0]
        assert all(done == total for _, total, done in listener.passes[1:-1])


def test_sources_given_by_the_user_stay_open(folders):
    class Closing:
        closed = False

        def __init__(self, inner):
            self.inner = inner

        first = property(lambda self: self.inner.first)
        n = property(lambda self: self.inner.n)

        def reduce(self, partial, *, label=""):
            return self.inner.reduce(partial, label=label)

        def close(self):
            self.closed = True

    source = Closing(open_source(folders["unit"], ["new"])[0])
    with opened(source, ["new"]):
        pass
    assert not source.closed


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_cluster_started_for_a_path_is_stopped(folders, expected):
    import psutil

    before = {child.pid for child in psutil.Process().children(recursive=True)}
    assert value(folders["unit"], ["new"], engine="dask") == pytest.approx(
        expected.value, rel=1e-10
    )
    left = [c for c in psutil.Process().children(recursive=True) if c.pid not in before]
    # Python's own helper for shared memory may outlive the cluster.
    assert not [c for c in left if "resource_tracker" not in " ".join(c.cmdline())]


@pytest.mark.cluster
def test_frames_of_clusters_just_work(folders, expected, dask_client, spark_session):
    import dask.dataframe as dd

    frame = dd.read_parquet(str(folders["unit"]))
    assert value(frame, ["new"]) == pytest.approx(expected.value, rel=1e-10)
    table = spark_session.read.parquet(str(folders["unit"]))
    assert value(table, ["new"]) == pytest.approx(expected.value, rel=1e-10)
    assert value(table, {"new": "new"}, position_weights="dcg") < expected.value


@pytest.mark.cluster
def test_lists_that_dask_has_turned_into_text_are_refused(folders):
    import dask.dataframe as dd

    frame = dd.from_pandas(pq.read_table(folders["plain"]).slice(0, 50).to_pandas(), npartitions=2)
    with pytest.raises(LogError, match="Dask has turned the arrays in column 'action' into text"):
        cr.evaluate(frame, ["new"], **NEW)


def test_a_sample_of_a_file_of_known_length_is_that_of_the_log_in_memory(tmp_path):
    from counterrank.data.source import MemorySource
    from counterrank.io import scan_log
    from counterrank.research import simulate

    path = tmp_path / "log.parquet"
    simulate.write_log(simulate.random(0, K=3, actions=3), 3000, path, seed=0)
    source, log = scan_log(path, targets="new"), cr.read_log(path, targets="new")
    assert source.n == 3000
    for rows in (700, 3000, 5000):
        mine = source.sample(rows, np.random.default_rng(4))
        theirs = MemorySource(log).sample(rows, np.random.default_rng(4))
        assert np.array_equal(mine.context, theirs.context)
        assert np.array_equal(mine.bucket, theirs.bucket)
