"""A stream is the same log: same sums, same buckets, parts that another process can read."""

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, CounterrankError, LogError
from counterrank.data.log import concat
from counterrank.data.source import MemorySource
from counterrank.io import read_log, scan_log, tables
from counterrank.io import survey as parts_module
from counterrank.io.cluster import survey_of
from counterrank.io.readers import read_part
from counterrank.io.schema import CandidateSpec, Field, LogSpec
from counterrank.io.survey import Survey, batch_rows, sample_rows


@pytest.fixture
def many_parts(kit, tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.io.survey.BATCH_ROWS", 50)
    path = kit.write(kit.make(n=1000, ragged=True), tmp_path / "log.parquet", row_group_size=25)
    return scan_log(path, targets="new", segments="country"), kit.log(kit.make(n=1000, ragged=True))


def sums(log):
    return np.array(
        [
            log.n,
            log.reward.sum(),
            (log.targets["new"].values / log.propensity.values).sum(),
            log.bucket.sum(),
        ]
    )


def test_small_row_groups_are_read_together(many_parts):
    source, _ = many_parts
    assert len(source.parts) == 20
    assert [part.groups for part in source.parts[:2]] == [(0, 1), (2, 3)]
    assert [part.start for part in source.parts[:3]] == [0, 50, 100]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_reduce_adds_everything_once_in_order(many_parts, workers):
    from dataclasses import replace

    source, log = many_parts
    np.testing.assert_allclose(replace(source, workers=workers).reduce(sums), sums(log), rtol=1e-12)
    order = replace(source, workers=workers).reduce(lambda batch: [batch.start])
    assert order == sorted(order) and len(order) == 20


def test_reduce_over_one_part(kit, tmp_path):
    path = kit.write(kit.make(n=300), tmp_path / "log.jsonl")
    source = scan_log(path, targets="new")
    np.testing.assert_allclose(source.reduce(sums), sums(kit.log(kit.make(n=300))), rtol=1e-12)


def test_a_failing_step_is_raised(many_parts):
    source, _ = many_parts

    def fail(log):
        raise LogError(f"at {log.start}") if log.start >= 100 else LookupError("never")

    with pytest.raises((LogError, LookupError)):
        source.reduce(fail)


def test_parts_can_be_read_elsewhere(many_parts):
    source, log = many_parts
    spec = pickle.loads(pickle.dumps(source.spec))
    assert spec == source.spec
    for part in source.parts[::7]:
        again = pickle.loads(pickle.dumps(part))
        assert again == part
        found = concat(list(read_part(again, spec)))
        rows = slice(part.start, part.start + part.rows)
        np.testing.assert_array_equal(found.action, log.action[rows])
        np.testing.assert_array_equal(found.bucket, log.bucket[rows])


@pytest.mark.parametrize("unit", ["text", "integer", "fraction", "none"])
@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.jsonl"])
def test_buckets_do_not_depend_on_how_a_log_is_read(kit, tmp_path, unit, name):
    columns = kit.lay_out(kit.make(n=200), "numbered")
    rng = np.random.default_rng(0)
    units = {
        "text": columns["unit"],
        "integer": rng.integers(-9, 9, 200).tolist(),
        "fraction": rng.random(200).tolist(),
    }
    del columns["unit"]
    if unit in units:
        columns["unit"] = units[unit]
    path = kit.write(columns, tmp_path / name)
    log = read_log(path)
    np.testing.assert_array_equal(concat(list(scan_log(path).batches(rows=13))).bucket, log.bucket)
    if unit != "none":
        from counterrank.data.validation import buckets

        np.testing.assert_array_equal(buckets(np.array(units[unit]), np.arange(200)), log.bucket)


@pytest.mark.parametrize("late", [True, False])
def test_ids_written_as_text_are_names_in_every_piece_once_one_is_no_number(tmp_path, late):
    numbers, names = '"[7, 8]","[0, 1]","[0.5, 0.5]"', '"[7, hat]","[1, 0]","[0.5, 0.5]"'
    texts = [numbers, names] if late else [names, numbers]
    for name, rows in zip("ab", texts, strict=True):
        (tmp_path / f"{name}.csv").write_text(f"action,reward,propensity\n{rows}\n")
    found = concat(list(scan_log(tmp_path).batches()))
    assert found.action_names == ("7", "8", "hat")
    assert sorted(found.action.tolist()) == [[0, 1], [0, 2]]


def test_surveys_of_partitions_share_the_names_of_both():
    pieces = [pa.table({"action": [text]}) for text in ("[7, 8]", "[7, hat]")]
    spec = LogSpec(layout="list", K=0, fields={"action": Field(("action",), "text")})
    one, two = (survey_of(Survey(spec), i, iter([piece]))[0] for i, piece in enumerate(pieces))
    for both in (one + two, two + one):
        assert both.finish(pieces[0]).action_names == ("7", "8", "hat")
    assert one.finish(pieces[0]).action_names is None


def test_too_many_numbers_beside_a_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.io.survey.MOST_LABELS", 2)
    rows = '"[7, 8, 9]","[0, 1, 0]","[0.5, 0.5, 0.5]"'
    (tmp_path / "a.csv").write_text(f"action,reward,propensity\n{rows}\n")
    assert scan_log(tmp_path).first.action.tolist() == [[7, 8, 9]]
    (tmp_path / "b.csv").write_text(f"action,reward,propensity\n{rows.replace('7', 'hat')}\n")
    with pytest.raises(LogError, match="'action' has more than 2 different names"):
        scan_log(tmp_path)


@pytest.mark.parametrize("layout", ["list", "long"])
def test_segments_keep_the_buckets_of_the_whole(kit, tmp_path, layout):
    columns = kit.make(n=120)
    del columns["unit"]
    path = kit.write(kit.lay_out(columns, layout), tmp_path / "log.parquet")
    whole = read_log(path)
    chosen = whole.where(whole.columns["country"] == "AT")
    source = scan_log(path, targets="new", where="country = 'AT'")
    found = concat(list(source.batches(rows=9)))
    assert source.n is None
    np.testing.assert_array_equal(found.action, chosen.action)
    np.testing.assert_array_equal(found.bucket, chosen.bucket)
    np.testing.assert_array_equal(found.rows, np.flatnonzero(whole.columns["country"] == "AT"))
    with pytest.raises(LogError, match="no ranking matches"):
        scan_log(path, where="country = 'XX'").reduce(lambda log: log.n)


def test_only_what_is_asked_for_is_read(kit, tmp_path):
    source = scan_log(kit.write(kit.make(), tmp_path / "log.parquet"))
    assert not source.first.targets and not source.first.columns
    assert "country" not in source.spec.columns and "new" not in source.spec.columns
    assert source.first.n <= 4096


def test_samples_are_uniform(many_parts):
    source, whole = many_parts
    rng = np.random.default_rng(1)
    one = source.sample(30, rng)
    np.testing.assert_array_equal(one.action, whole.action[one.rows])
    rows = [source.sample(200, rng) for _ in range(30)]
    assert all(sample.n == 200 for sample in rows)
    ages = np.concatenate([sample.context[:, 0] for sample in rows])
    values, counts = np.unique(ages, return_counts=True)
    # 6000 draws over 1000 rows: a row is drawn Binomial(30, 0.2) times; beyond 22 has chance 4e-11
    # a row.
    assert len(values) > 980 and counts.max() <= 22
    assert source.sample(5000, rng).n == 1000


@pytest.mark.parametrize("rows", [1, 7, 60, 400, 1000])
def test_a_sample_of_files_is_that_of_the_log_in_memory(many_parts, rows):
    source, whole = many_parts
    drawn = source.sample(rows, np.random.default_rng(5))
    chosen = np.sort(np.random.default_rng(5).choice(1000, rows, replace=False))
    np.testing.assert_array_equal(drawn.action, whole.action[chosen])
    np.testing.assert_array_equal(drawn.bucket, whole.bucket[chosen])
    np.testing.assert_array_equal(np.arange(1000)[drawn.rows], chosen)
    memory = MemorySource(whole).sample(rows, np.random.default_rng(5))
    np.testing.assert_array_equal(drawn.action, memory.action)


@pytest.mark.parametrize("rows", [7, 400])
def test_a_sample_does_not_depend_on_the_number_of_workers(many_parts, rows):
    source, _ = many_parts
    one, four = (
        replace(source, workers=count).sample(rows, np.random.default_rng(5)) for count in (1, 4)
    )
    np.testing.assert_array_equal(one.action, four.action)
    np.testing.assert_array_equal(one.numbers, four.numbers)


def test_a_tree_and_the_look_at_a_file_share_a_sample(kit, tmp_path, monkeypatch):
    """Every row group is decoded twice: once for the sample, once for the sums."""
    path = kit.write(kit.make(n=400), tmp_path / "log.parquet")
    monkeypatch.setattr("counterrank.evaluation.fit.PROBE_ROWS", 100)
    source = scan_log(path, targets="new")
    assert source.first.n
    read = []
    whole = tables.row_groups
    monkeypatch.setattr(
        tables, "row_groups", lambda *a, **more: read.append(a[1]) or whole(*a, **more)
    )
    cr.evaluate(source, ["new"], estimators=["ips", "aips"])
    assert len(read) == 2 * len(source.parts)


def test_a_file_that_was_replaced_is_not_read_by_the_footer_of_the_old_one(kit, tmp_path):
    path = tmp_path / "log.parquet"
    for n in (50, 80):
        kit.write(kit.make(n=n), path)
        source = scan_log(path, targets="new")
        assert sum(log.n for log in source.batches()) == source.n == n


@pytest.mark.parametrize("rows", [5, 40, 1000])
def test_a_sample_of_a_condition_is_that_of_the_log_in_memory(kit, tmp_path, rows):
    columns = kit.make(n=300)
    path = kit.write(columns, tmp_path / "log.parquet", row_group_size=50)
    text = "country = 'AT'"
    source = scan_log(path, targets="new", where=text, segments="country")
    found = source.sample(rows, np.random.default_rng(4))
    whole = cr.read_log(path, targets="new", where=text)
    expected = MemorySource(whole).sample(rows, np.random.default_rng(4))
    assert found.n == min(rows, columns["country"].count("AT"))
    np.testing.assert_array_equal(found.action, expected.action)
    np.testing.assert_array_equal(found.bucket, expected.bucket)


def test_a_bad_row_in_a_sample_has_its_own_number(kit, tmp_path):
    columns = kit.make(n=400)
    columns["propensity"][317][1] = 1.5
    path = kit.write(columns, tmp_path / "log.parquet")
    with pytest.raises(CounterrankError, match="row 317, position 2"):
        scan_log(path, targets="new").reduce(sums)
    # Drawn often enough to hold the row: 0.5 ** 40 that it never is.
    with pytest.raises(CounterrankError, match="row 317, position 2"):
        for seed in range(40):
            scan_log(path, targets="new").sample(200, np.random.default_rng(seed))


def test_samples_of_many_parts_open_few_of_them(many_parts, monkeypatch):
    monkeypatch.setattr("counterrank.io.file_source._SAMPLED_PARTS", 3)
    source, _ = many_parts
    sample = source.sample(1000, np.random.default_rng(0))
    assert sample.n == 150


def test_samples_to_look_at_come_from_parts_that_lie_evenly_in_a_long_log(many_parts, monkeypatch):
    """20 parts of 50: about 250 rankings are read for a small sample, all for a larger one."""
    monkeypatch.setattr("counterrank.io.file_source._READ_ROWS", 250)
    monkeypatch.setattr("counterrank.io.file_source._LOOK_ROWS", 100)
    source, whole = many_parts
    starts = set()
    for seed in range(40):
        sample = source.sample(100, np.random.default_rng(seed))
        assert sample.n == len(np.unique(sample.rows)) == 100
        np.testing.assert_array_equal(sample.action, whole.action[sample.rows])
        # A part with none of 100 of 250: chance below 5 * 0.8 ** 100 a sample.
        parts = np.unique(sample.rows // 50)
        assert len(parts) == 5 and set(np.diff(parts)) == {4}
        starts.add(int(parts[0]))
    # Each of four starts is missed with chance 0.75 ** 40 = 1e-5.
    assert starts == {0, 1, 2, 3}
    assert len(np.unique(source.sample(400, np.random.default_rng(0)).rows // 50)) == 20


def test_long_rankings_make_small_batches(kit, tmp_path):
    source = scan_log(kit.write(kit.make(), tmp_path / "log.parquet"))
    from dataclasses import replace

    assert batch_rows(source.spec) == parts_module.BATCH_ROWS
    assert batch_rows(replace(source.spec, K=10_000)) == 8_000_000 // 30_002


def test_position_weights(kit, tmp_path):
    source = scan_log(kit.write(kit.make(), tmp_path / "log.parquet"), position_weights="dcg")
    assert source.first.position_weights[0] == 1.0


def test_position_weights_of_an_evaluation_hold_for_an_open_source(kit, tmp_path):
    path = kit.write(kit.make(), tmp_path / "log.csv")
    source = scan_log(path, targets="new")
    for weights in ([1, 0, 0], "dcg"):
        found, whole = (
            cr.evaluate(
                log, ["new"], estimators=["ips"], position_weights=weights, independent_rows=True
            ).estimate("new", "ips")
            for log in (source, read_log(path, targets="new"))
        )
        assert found.value == pytest.approx(whole.value)


def test_adapters_do_not_stream(tmp_path):
    with pytest.raises(ConfigError, match="read whole"):
        scan_log(tmp_path / "x", format="ubi")


def test_few_batches_are_alive_at_a_time(many_parts):
    import threading
    import weakref
    from dataclasses import replace

    source, _ = many_parts
    alive, most, one_at_a_time = {}, 0, threading.Lock()

    def look(log):
        nonlocal most
        whole = log.action if log.action.base is None else log.action.base
        with one_at_a_time:
            alive[id(whole)] = weakref.ref(whole)
            most = max(most, sum(ref() is not None for ref in alive.values()))
        return log.n

    for workers in (1, 2):
        alive.clear()
        assert replace(source, workers=workers).reduce(look) == 1000
        assert 1 <= most <= 2 * workers


def test_parts_without_the_segment_are_not_opened(kit, tmp_path, monkeypatch):
    monkeypatch.setattr("counterrank.io.survey.BATCH_ROWS", 20)
    columns = kit.make(n=100)
    columns["day"] = [i // 10 for i in range(100)]
    path = kit.write(columns, tmp_path / "log.parquet", row_group_size=20)
    source = scan_log(path, where="day in (2, 9)")
    assert [part.start for part in source.parts] == [20, 80]
    whole = read_log(path)
    found = concat(list(source.batches()))
    np.testing.assert_array_equal(found.action, whole.action[[*range(20, 30), *range(90, 100)]])
    with pytest.raises(ConfigError, match="column 'day' holds int64, and 'monday' is none"):
        scan_log(path, where="day = 'monday'")


def test_samples_of_wide_rankings_are_bounded():
    """129 features of 200 candidates are 26,000 numbers per ranking: 2,400 of them are half a GB."""
    features = tuple(Field((f"z_{j}",), "list") for j in range(129))
    wide = CandidateSpec(items=Field(("candidates",), "list"), features=features, count=200)
    narrow = LogSpec(layout="list", fields={"action": Field(("action",), "list")}, K=10)
    assert sample_rows(narrow, 200_000) == 200_000
    assert 2_000 < sample_rows(replace(narrow, candidates=wide), 200_000) < 3_000
    assert batch_rows(replace(narrow, candidates=wide)) < 400
