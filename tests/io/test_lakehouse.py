"""Delta Lake and Iceberg tables: versions, conditions, and what is said when something is not there."""

import datetime
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, MissingExtraError
from counterrank.io import concat, file_source, scan_log

DAYS = [datetime.date(2026, 10, d) for d in (1, 2, 3)]


@pytest.fixture
def written(kit, tmp_path, monkeypatch):
    """Three days of a log, in two versions, as a Delta table and in a catalogue of Iceberg."""
    columns = kit.make(n=60)
    columns["day"] = [day for day in DAYS for _ in range(20)]
    table = pa.table(columns)
    return Written(table, tmp_path, monkeypatch)


class Written:
    def __init__(self, table, folder, monkeypatch):
        self.table, self.folder, self.monkeypatch = table, folder, monkeypatch

    def delta(self, place=None, **options):
        from deltalake import write_deltalake

        place = str(place or self.folder / "delta")
        write_deltalake(place, self.table.slice(0, 40), partition_by=["day"], **options)
        write_deltalake(place, self.table.slice(40), mode="append", **options)
        return place

    def iceberg(self):
        from pyiceberg.catalog.sql import SqlCatalog

        self.settings = {
            "uri": f"sqlite:///{self.folder}/catalogue.db",
            "warehouse": f"file://{self.folder}/warehouse",
        }
        for key, value in self.settings.items():
            self.monkeypatch.setenv(f"PYICEBERG_CATALOG__DEFAULT__{key.upper()}", value)
        catalogue = SqlCatalog("default", **self.settings)
        catalogue.create_namespace("shop")
        made = catalogue.create_table("shop.log", schema=self.table.schema)
        made.append(self.table.slice(0, 40))
        made.append(self.table.slice(40))
        catalogue.close()


def sorted_rows(log):
    order = np.lexsort([log.context[:, 0]])
    return log.reward[order]


def test_a_delta_table(written):
    place = written.delta()
    expected = cr.RankingLog.from_frame(written.table, targets="new")
    log = cr.read_log(place, targets="new")
    np.testing.assert_array_equal(sorted_rows(log), sorted_rows(expected))
    assert set(log.columns["day"].astype(str)) == set(map(str, DAYS))
    scanned = concat(list(scan_log(place, targets="new", segments="day").batches(rows=7)))
    np.testing.assert_array_equal(scanned.reward, log.reward)
    older = cr.read_log(place, targets="new", version=0)
    assert older.n == 40 and set(older.columns["day"].astype(str)) == set(map(str, DAYS[:2]))
    some = cr.read_log(place, targets="new", where="day >= '2026-10-02' and country = 'AT'")
    keep = [
        i for i, row in enumerate(written.table.to_pylist())
        if row["day"] >= DAYS[1] and row["country"] == "AT"
    ]  # fmt: skip
    np.testing.assert_array_equal(sorted_rows(some), sorted_rows(expected.take(np.array(keep))))


def test_files_that_a_table_has_let_go_of_are_not_read(written):
    """They lie in the folder until somebody cleans up: read as plain files they would count twice."""
    from deltalake import write_deltalake

    place = written.delta()
    write_deltalake(place, written.table.slice(0, 20), mode="overwrite")
    assert cr.read_log(place, targets="new").n == 20
    assert cr.read_log(place, targets="new", version=1).n == 60


def widened(written):
    """The log in two parts, of which only the second knows the country."""
    return written.table.slice(0, 40).drop_columns(["country"]), written.table.slice(40)


@pytest.mark.parametrize("read", [cr.read_log, scan_log])
def test_a_column_that_a_delta_table_got_later_is_null_before(written, read):
    from deltalake import write_deltalake

    place = str(written.folder / "delta")
    old, new = widened(written)
    write_deltalake(place, old)
    write_deltalake(place, new, mode="append", schema_mode="merge")
    log = read(place, targets="new", segments="country")
    log = log if isinstance(log, cr.RankingLog) else concat(list(log.batches()))
    after = new["country"].to_pylist()
    assert sorted(map(str, log.columns["country"])) == sorted(["None"] * 40 + after)
    found = cr.evaluate(place, "new", estimators="ips", segments="country")
    assert {one.label for one in found.segments} == {"missing", *after}
    some = read(place, targets="new", where="country = 'AT'")
    some = some if isinstance(some, cr.RankingLog) else concat(list(some.batches()))
    assert some.n == after.count("AT")


def test_a_reward_that_a_delta_table_got_later_is_missing_before(written):
    from deltalake import write_deltalake

    place = str(written.folder / "delta")
    old = written.table.slice(0, 40)
    new = written.table.slice(40)
    write_deltalake(place, old)
    new = new.append_column("revenue", new["reward"])
    write_deltalake(place, new, mode="append", schema_mode="merge")
    for read in (cr.read_log, lambda *args, **kept: list(scan_log(*args, **kept).batches())):
        with pytest.raises(LogError, match=r"delta.*: row \d+: 'revenue' has 0 entries"):
            read(place, targets="new", rewards={"revenue": "revenue"})


def test_rows_deleted_by_vectors_are_not_read_as_if_they_were_there(written):
    """The library does not apply deletion vectors; a table that has some is refused."""
    place = Path(written.delta())
    entry = max((place / "_delta_log").glob("*.json"))
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    entry.write_text(entry.read_text().rstrip("\n") + "\n" + json.dumps(protocol) + "\n")
    for read in (cr.read_log, scan_log):
        with pytest.raises(LogError, match="cannot be read: .*deletionVectors"):
            read(str(place), targets="new")


def test_a_delta_table_in_a_store(written, bucket, object_store):
    options = {
        "AWS_ENDPOINT_URL": object_store[0],
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    place = written.delta("s3://logs/delta", storage_options=options)
    assert cr.read_log(place, targets="new", where="day = '2026-10-03'").n == 20
    assert scan_log(place, targets="new", version=0).reduce(lambda log: log.n) == 40


def test_an_iceberg_table_is_passed_as_a_reader(written, monkeypatch):
    from pyiceberg.catalog.sql import SqlCatalog

    written.iceberg()
    catalogue = SqlCatalog("default", **written.settings)
    scan = catalogue.load_table("shop.log").scan
    expected = cr.RankingLog.from_frame(written.table, targets="new")
    whole = cr.evaluate(expected, "new", estimators="ips").estimate("new", "ips").value
    for most in (file_source.IN_MEMORY_BYTES, 100):
        # Too large for memory, it is kept on disk for as long as it is needed.
        monkeypatch.setattr(file_source, "IN_MEMORY_BYTES", most)
        found = cr.evaluate(
            scan().to_arrow_batch_reader(), "new", estimators="ips", segments="country"
        )
        assert found.estimate("new", "ips").value == pytest.approx(whole, rel=1e-12)
    some = scan(row_filter="day >= '2026-10-02'").to_arrow_batch_reader()
    assert cr.RankingLog.from_frame(some, targets="new").n == 40
    catalogue.close()


def test_what_is_not_there(written, kit, tmp_path):
    place = written.delta()
    written.iceberg()
    with pytest.raises(LogError, match="the Delta table .* cannot be read in version 7: "):
        cr.read_log(place, targets="new", version=7)
    with pytest.raises(LogError, match="is an Iceberg table, and only its catalogue says"):
        cr.read_log(next((tmp_path / "warehouse").glob("*/log")), targets="new")
    for log, version, message in (
        (kit.write(kit.make(n=5), tmp_path / "log.parquet"), 3, "this log has no versions"),
        (place, "yesterday", "version must be a whole number"),
    ):
        with pytest.raises(ConfigError, match=message):
            cr.read_log(log, targets="new", version=version)


def test_the_missing_extra_is_named(written, monkeypatch):
    place = written.delta()
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'counterrank\[tables\]'"):
        cr.read_log(place, targets="new")
