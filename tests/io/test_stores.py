"""Logs, items, policies, jobs and results in an object store: a real S3 server on loopback."""

import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.common import stores
from counterrank.common.atomic import write_text
from counterrank.common.errors import ConfigError, LogError, MissingExtraError, OutputError
from counterrank.io import check_outputs, concat, files, scan_log, tables


def run(*arguments):
    from counterrank.cli import main as command

    result = CliRunner().invoke(command.main, [str(one) for one in arguments])
    if result.exception is None or isinstance(result.exception, SystemExit):
        return result.exit_code, result.output
    text, code = command._told(result.exception)
    return code, text


@pytest.mark.parametrize(
    "name", ["log.parquet", "log.arrow", "log.csv", "log.csv.gz", "log.jsonl", "log.jsonl.gz"]
)
def test_every_format(kit, tmp_path, bucket, name):
    columns = kit.make(n=50, ragged=True, names=True)
    url = bucket.put(kit.write(columns, tmp_path / name), name)
    expected = kit.log(columns)
    kit.same(cr.read_log(url, targets="new", segments="country"), expected)
    source = scan_log(url, targets="new", segments="country")
    kit.same(concat(list(source.batches(rows=7))), expected)


@pytest.mark.slow
def test_folders_patterns_and_partitions(kit, tmp_path, bucket):
    columns = kit.make(n=60)
    for d in (1, 2, 3):
        folder = tmp_path / "log" / f"day=2026-10-0{d}"
        folder.mkdir(parents=True)
        rows = {name: values[20 * d - 20 : 20 * d] for name, values in columns.items()}
        kit.write(rows, folder / "part.parquet")
        (folder / "_SUCCESS").write_text("")
    (tmp_path / "log/_temporary").mkdir()
    kit.write(kit.make(n=5), tmp_path / "log/_temporary/part.parquet")
    url = bucket.put(tmp_path / "log", "a/log")
    # What is called alike is another folder.
    kit.write(kit.make(n=5), tmp_path / "other.parquet")
    bucket.put(tmp_path / "other.parquet", "a/logs/other.parquet")
    expected = kit.log(columns)
    for address in (url, f"{url}/", f"{url}/*/part.parquet", "s3://logs/**/day=*/*.parquet"):
        found = concat(list(scan_log(address, targets="new", segments="country").batches()))
        kit.same(found, expected)
    log = cr.read_log(url, where="day > '2026-10-01'")
    assert log.n == 40 and set(log.columns["day"]) == {"2026-10-02", "2026-10-03"}
    # A source travels to workers, without a key.
    source = scan_log(url, targets="new")
    packed = pickle.dumps(source)
    assert b"a-secret" not in packed and b"a-key" not in packed
    assert pickle.loads(packed).reduce(lambda log: log.n) == 60


def test_only_the_columns_that_are_used_are_fetched(tmp_path, bucket, object_store, monkeypatch):
    n = 20_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "action": [[0, 1]] * n,
            "reward": [[0.0, 1.0]] * n,
            "propensity": [[0.5, 0.5]] * n,
            "new": [[0.5, 0.5]] * n,
            "noise": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 50)), 50),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=5000)
    url = bucket.put(tmp_path / "log.parquet", "log.parquet")
    fetched = []
    opened = stores.opened

    def counted(path):
        return Counting(opened(path), fetched)

    monkeypatch.setattr(stores, "opened", counted)
    assert scan_log(url, targets="new").reduce(lambda log: log.n) == n
    size = (tmp_path / "log.parquet").stat().st_size
    assert 0 < sum(fetched) < size / 4


def test_a_pass_asks_a_store_once_a_part(tmp_path, bucket, monkeypatch):
    """Whether the object has changed; opening it again would ask as often once more."""
    n = 200_000
    columns = {"action": [[0]] * n, "reward": [[1.0]] * n, "propensity": [[0.5]] * n}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=65_536)
    source = scan_log(bucket.put(tmp_path / "log.parquet", "log.parquet"))
    assert source.first.n
    asked, opened = [], stores.opened
    monkeypatch.setattr(stores, "opened", lambda path: asked.append(path) or opened(path))
    assert source.reduce(lambda log: log.n) == n
    assert len(asked) == len(source.parts) == 4


class Counting(pa.PythonFile):
    """A file that counts the bytes it hands out."""

    def __new__(cls, file, fetched):
        class Inner:
            closed = False

            def read(self, count=-1):
                data = file.read() if count is None or count < 0 else file.read(count)
                fetched.append(len(data))
                return data

            def seek(self, at, whence=0):
                return file.seek(at, whence)

            def tell(self):
                return file.tell()

            def size(self):
                return file.size()

            def close(self):
                file.close()
                self.closed = True

            def readable(self):
                return True

            def seekable(self):
                return True

            def writable(self):
                return False

        made = pa.PythonFile.__new__(cls, Inner(), mode="r")
        made.told = file.metadata()
        return made

    def __init__(self, file, fetched):
        pass

    def metadata(self):
        return self.told


def test_a_replaced_object_is_noticed(kit, tmp_path, bucket):
    url = bucket.put(kit.write(kit.make(n=60), tmp_path / "log.parquet"), "log.parquet")
    source = scan_log(url, targets="new")
    assert source.reduce(lambda log: log.n) == 60
    # Of the same size, within the same second: its tag alone tells.
    data = bytearray((tmp_path / "log.parquet").read_bytes())
    data[20] ^= 1
    (tmp_path / "log.parquet").write_bytes(data)
    bucket.put(tmp_path / "log.parquet", "log.parquet")
    with pytest.raises(LogError, match="was changed while it was being read"):
        source.reduce(lambda log: log.n)


@pytest.mark.slow
def test_a_whole_job_lives_there(kit, tmp_path, bucket):
    bucket.put(kit.write(kit.make(n=300), tmp_path / "log.parquet"), "night/log.parquet")
    job = tmp_path / "job.toml"
    job.write_text(
        'log = "log.parquet"\ntarget = ["new"]\nestimators = "ips"\nwhere = "country = \'AT\'"\n'
        'json = "s3://logs/out/report.json"\nhtml = "s3://logs/out/report.html"\n'
    )
    url = bucket.put(job, "night/job.toml")
    code, text = run("run", url)
    assert code == 0, text
    report = json.loads(bucket.get("out/report.json"))
    expected = cr.evaluate(
        tmp_path / "log.parquet", "new", estimators="ips", where="country = 'AT'"
    ).to_dict()
    assert report["estimates"][0]["value"] == expected["estimates"][0]["value"]
    assert b"<html" in bucket.get("out/report.html")
    for key in ("out/report.json", "out/report.html"):
        assert b"a-secret" not in bucket.get(key) and b"a-key" not in bucket.get(key)


def test_policies_items_and_curves(tmp_path, bucket):
    cr.save_policy(cr.Uniform(4), tmp_path / "uniform.npz")
    url = bucket.put(tmp_path / "uniform.npz", "uniform.npz")
    assert type(cr.load_policy(url)).__name__ == "Uniform"
    cr.save_policy(cr.Uniform(5), "s3://logs/again.npz")
    assert cr.load_policy("s3://logs/again.npz").n_actions == 5
    write_text("s3://logs/curve.json", "[1, 0.5]")
    from counterrank.estimators.examination import read_position_curve

    assert read_position_curve("s3://logs/curve.json").tolist() == [1.0, 0.5]
    pq.write_table(pa.table({"item": [0, 1], "price": [1.0, 2.0]}), tmp_path / "items.parquet")
    items = bucket.put(tmp_path / "items.parquet", "items.parquet")
    assert tables.read_table(files.expand(items)[0]).num_rows == 2


def test_what_is_not_there_or_not_allowed(kit, tmp_path, bucket, object_store, monkeypatch):
    log = kit.write(kit.make(n=30), tmp_path / "log.parquet")
    url = bucket.put(log, "log.parquet")
    evaluate = ("evaluate", "--target", "new", "--estimators", "ips", "--quiet")
    for address, message in (
        ("s3://logs/none.parquet", "cannot read s3://logs/none.parquet: there is nothing of that name"),
        ("s3://logs/none-*.parquet", "there is no file s3://logs/none-*.parquet that matches"),
        ("s3://no-such-bucket/log.parquet", "cannot read s3://no-such-bucket/log.parquet: there is no such bucket"),
        ("s4://logs/log.parquet", "s4:// is no store that is known; use s3, gs"),
        ("s3://k:hidden@logs/log.parquet", "the s3:// address holds credentials"),
        ("s3://logs/log.parquet?access_key=hidden", "parameters behind a question mark, which may hold secrets"),
    ):  # fmt: skip
        code, text = run(*evaluate, address)
        assert code == 2 and message in text and len(text.strip().splitlines()) == 1, text
        assert "hidden" not in text
    for out, message in (
        ("s3://no-such-bucket/r.json", "cannot write s3://no-such-bucket/r.json: there is no such bucket"),
        ("s3://logs/log.parquet", "--json s3://logs/log.parquet is the input"),
        ("s3://logs", "cannot write s3://logs: name an object in a bucket"),
    ):  # fmt: skip
        code, text = run(*evaluate, url, "--json", out)
        assert code == 2 and message in text, text
    assert bucket.keys() == ["log.parquet"]
    with pytest.raises(OutputError, match="would be read as part of it"):
        check_outputs(["s3://logs/folder"], {"--json": "s3://logs/folder/r.json"})
    with pytest.raises(OutputError, match="would both write"):
        check_outputs([], {"--json": "s3://logs/r", "--html": "s3://logs/r"})


def test_denied_access_is_said_without_the_key(kit, tmp_path, bucket, object_store, monkeypatch):
    """The server checks signatures and permissions from its first such request on."""
    import urllib.request

    url = bucket.put(kit.write(kit.make(n=30), tmp_path / "log.parquet"), "log.parquet")
    address = object_store[0]

    def check_after(count):
        request = urllib.request.Request(
            f"{address}/moto-api/reset-auth",
            data=str(count).encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.urlopen(request).read()

    check_after(0)
    try:
        stores._native.cache_clear()
        for arguments in ((url,), ("s3://logs/",), ("s3://logs/*.parquet",)):
            code, text = run("evaluate", "--target", "new", *arguments)
            assert code == 2 and "access is denied; check the credentials" in text, text
            assert "a-key" not in text and "a-secret" not in text
        with pytest.raises(OutputError, match="access is denied"):
            write_text("s3://logs/r.json", "{}")
    finally:
        check_after(1_000_000_000)
    assert bucket.keys() == ["log.parquet"]


@pytest.mark.slow
def test_a_store_that_does_not_answer(monkeypatch):
    for name, value in (("URL", "http://127.0.0.1:9"), ("URL_S3", "")):
        monkeypatch.setenv(f"AWS_ENDPOINT_{name}", value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    with pytest.raises(
        LogError, match=r"cannot read s3://elsewhere/log.parquet: the store does not"
    ):
        cr.read_log("s3://elsewhere/log.parquet")


def test_any_file_system_of_fsspec(kit, tmp_path):
    import fsspec

    columns = kit.make(n=40)
    kit.write(columns, tmp_path / "log.parquet")
    memory = fsspec.filesystem("memory")
    for k in range(2):
        memory.pipe(f"/logs/part={k}/log.parquet", (tmp_path / "log.parquet").read_bytes())
    log = cr.read_log("memory://logs", targets="new")
    assert log.n == 80 and set(log.columns["part"]) == {0, 1}
    kit.same(
        cr.read_log("memory://logs/part=0/log.parquet", targets="new", segments="country"),
        kit.log(columns),
    )
    write_text("memory://out/report.json", "{}")
    assert memory.cat("/out/report.json") == b"{}"
    with pytest.raises(ConfigError, match="parameters behind a question mark"):
        cr.read_log("memory://logs?token=hidden")


def test_the_missing_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'counterrank\[stores\]'"):
        cr.read_log("memory://logs")


def test_arrows_own_file_systems_serve_the_other_clouds(monkeypatch):
    """No server here speaks for Google or Azure: what is tested is whom an address leads to."""
    from pyarrow import fs

    system, path = stores.store_of("gs://logs/day/log.parquet?anonymous=true")
    assert isinstance(system, fs.GcsFileSystem) and path == "logs/day/log.parquet"
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "account")
    system, path = stores.store_of("abfs://box@account.dfs.core.windows.net/day/log.parquet")
    assert isinstance(system, fs.AzureFileSystem) and path == "box/day/log.parquet"
    with pytest.raises(ConfigError, match="the abfs:// address holds credentials"):
        stores.store_of("abfs://box:hidden@account.dfs.core.windows.net/x")
