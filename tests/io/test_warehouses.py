"""Queries as logs, and whatever hands over Arrow batches."""

import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, MissingExtraError
from counterrank.data.source import MemorySource
from counterrank.io import file_source
from counterrank.io.file_source import FileSource, open_source

IPS = {"estimators": "ips"}


def value(log, **options):
    return cr.evaluate(log, "new", **IPS, **options).estimate("new", "ips").value


@pytest.fixture
def columns(kit):
    return kit.make(n=200)


@pytest.fixture
def expected(kit, columns):
    return cr.evaluate(kit.log(columns), "new", **IPS).estimate("new", "ips").value


@pytest.fixture
def duck(columns, tmp_path):
    import duckdb

    path = tmp_path / "shop.db"
    with duckdb.connect(str(path)) as made:
        made.register("given", pa.table(columns))
        made.execute("CREATE TABLE log AS SELECT * FROM given")
    return path


def lite(columns, kit, path):
    wide = kit.lay_out(columns, "numbered")
    with sqlite3.connect(path) as made:
        names = ", ".join(f'"{name}"' for name in wide)
        marks = ", ".join("?" * len(wide))
        made.execute(f"CREATE TABLE log ({names})")
        made.executemany(f"INSERT INTO log VALUES ({marks})", zip(*wide.values(), strict=True))
    made.close()
    return path


def test_duckdb_and_sqlite(kit, columns, expected, duck, tmp_path):
    query = cr.Query("SELECT * FROM log", f"duckdb:{duck}")
    assert value(query) == pytest.approx(expected, rel=1e-12)
    keep = np.array(columns["country"]) == "AT"
    part = cr.evaluate(kit.log(columns).where(keep), "new", **IPS).estimate("new", "ips").value
    assert value(query, where="country = 'AT'") == pytest.approx(part, rel=1e-12)
    path = lite(columns, kit, tmp_path / "shop.sqlite")
    assert value(cr.Query("SELECT * FROM log", f"sqlite:{path}")) == pytest.approx(expected)
    assert cr.RankingLog.from_frame(query, targets="new").n == 200


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """A server of its own on loopback, where the machine has one."""
    if not all(map(shutil.which, ("initdb", "pg_ctl"))):
        pytest.skip("no PostgreSQL server here")
    folder = tmp_path_factory.mktemp("postgres")
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        folder = type(folder)(f"/tmp/counterrank-postgres-{os.getpid()}")
        folder.mkdir()
        shutil.chown(folder, "postgres")

    def run(*command):
        subprocess.run([*user, *command], check=True, capture_output=True, cwd="/")

    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    password = folder / "password"
    password.write_text("a-secret\n")
    password.chmod(0o644)
    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "reader", "-A", "scram-sha-256", f"--pwfile={password}")
    options = f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={folder}"
    run("pg_ctl", "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")
    try:
        yield f"postgresql://reader@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def test_postgres(columns, expected, postgres, monkeypatch):
    import adbc_driver_postgresql.dbapi as driver

    monkeypatch.setenv("PGPASSWORD", "a-secret")
    with driver.connect(postgres) as made, made.cursor() as cursor:
        cursor.adbc_ingest("log", pa.table(columns), mode="create")
        made.commit()
    query = cr.Query("SELECT * FROM log", postgres)
    assert value(query) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setenv("PGPASSWORD", "a-wrong-one")
    with pytest.raises(LogError, match="the query failed in postgresql") as problem:
        value(query)
    assert "a-wrong-one" not in str(problem.value)
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("WAREHOUSE", postgres.replace("reader@", "reader:a-secret@"))
    assert value(cr.Query("SELECT * FROM log", "env:WAREHOUSE")) == pytest.approx(expected)


def test_anything_with_arrow_batches(columns, expected, duck):
    import duckdb

    table = pa.table(columns)
    with duckdb.connect(str(duck), read_only=True) as made:
        assert value(made.sql("SELECT * FROM log")) == pytest.approx(expected, rel=1e-12)
    assert value(pl.LazyFrame(table)) == pytest.approx(expected, rel=1e-12)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=17))
    assert value(reader) == pytest.approx(expected, rel=1e-12)
    ibis = pytest.importorskip("ibis") if "ibis" in sys.modules else None
    if ibis is not None:
        assert value(ibis.memtable(table)) == pytest.approx(expected, rel=1e-12)


def test_a_large_answer_is_kept_on_disk_while_it_is_needed(columns, duck, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    query = cr.Query("SELECT *, 'x' AS ballast FROM log", f"duckdb:{duck}")
    small, _ = open_source(query, "new")
    assert isinstance(small, MemorySource)
    names = ("auto", "ips", "rips")
    whole = cr.evaluate(query, "new", estimators=names, segments="country").to_dict()
    monkeypatch.setattr(file_source, "IN_MEMORY_BYTES", 1000)
    source, _ = open_source(query, "new", where="country = 'AT'")
    assert isinstance(source, FileSource)
    found = list(tmp_path.glob("counterrank-*/*.parquet"))
    import pyarrow.parquet as pq

    assert len(found) == 1 and "ballast" not in pq.read_schema(found[0]).names
    assert source.reduce(lambda log: log.n) == columns["country"].count("AT")
    source.close()
    assert not list(tmp_path.glob("counterrank-*"))
    again = cr.evaluate(query, "new", estimators=names, segments="country").to_dict()
    for one, other in zip(whole["estimates"], again["estimates"], strict=True):
        assert one["value"] == pytest.approx(other["value"], rel=1e-10)
    assert not list(tmp_path.glob("counterrank-*"))


@pytest.mark.parametrize(
    ("sql", "connection", "message"),
    [
        ("SELECT nothing FROM log", "duckdb:{duck}", "the query failed in duckdb: .*nothing"),
        ("DELETE FROM log", "duckdb:{duck}", "must be one SELECT.*it holds DELETE"),
        ("COPY log TO 'x.csv'", "duckdb:{duck}", "must be one SELECT.*it holds COPY"),
        ("EXPORT DATABASE 'x'", "duckdb:", "must be one SELECT.*it holds EXPORT"),
        ("ATTACH 'x.db'", "duckdb:", "must be one SELECT.*it holds ATTACH"),
        ("SELECT 1; COPY log TO 'x.csv'", "duckdb:", "must be one SELECT.*it holds SELECT, COPY"),
        ("SELEC 1", "duckdb:", "the query is no SQL"),
        ("SELECT * FROM read_text('/etc/hosts')", "duckdb:{duck}", "failed in duckdb: .*disabled"),
        ("ATTACH 'x.db' AS x", "sqlite:{duck}", "must be one SELECT.*begins with ATTACH"),
        ("SELECT 1; VACUUM INTO 'x'", "sqlite:{duck}", "must be one SELECT"),
        ("SELECT * FROM log WHERE 1 = 0", "duckdb:{duck}", "the log is empty"),
        ("SELECT 1 AS x", "duckdb:{duck}", "there is no column 'action'"),
        ("SELECT 1", "duckdb:none.db", "there is no DuckDB file none.db"),
        ("SELECT 1", "sqlite:none.db", "there is no SQLite file none.db"),
        ("SELECT 1", "sqlite:{duck}", "the query failed in sqlite"),
        ("SELECT 1", "postgresql://127.0.0.1:9/x", "the query failed in postgresql"),
        ("SELECT 1", "oracle:shop", "'oracle' is no kind of connection"),
        ("SELECT 1", "shop.db", "this connection is no kind of connection"),
        ("SELECT 1", "postgresql://me:hidden@host/db", "the connection holds a password"),
        ("SELECT 1", "postgresql://host/db?password=hidden", "the connection holds a password"),
        ("SELECT 1", "env:NO_SUCH_NAME", "no environment variable NO_SUCH_NAME"),
        (" ", "duckdb:{duck}", "the query is empty"),
        ("SELECT 1", "snowflake:account", "pip install adbc-driver-snowflake"),
    ],
)
def test_queries_that_fail(duck, sql, connection, message):
    from counterrank.cli import main as command

    arguments = ["evaluate", "--target", "new", "--query", sql, "--connection"]
    arguments.append(connection.format(duck=duck))
    result = CliRunner().invoke(command.main, arguments)
    text, code = command._told(result.exception)
    assert code == 2 and len(text.splitlines()) == 1, text
    assert "hidden" not in text
    import re

    assert re.search(message, text), text


def test_the_commands(duck, columns, expected, tmp_path):
    from counterrank.cli.main import main

    query = ["--query", "SELECT * FROM log", "--connection", f"duckdb:{duck}"]
    out = tmp_path / "out.json"
    options = ["--target", "new", "--estimators", "ips", "--json", str(out), "--quiet"]
    result = CliRunner().invoke(main, ["evaluate", *query, *options])
    assert result.exit_code == 0, result.output
    import json

    found = json.loads(out.read_text())["estimates"][0]["value"]
    assert found == pytest.approx(expected, rel=1e-12)
    result = CliRunner().invoke(main, ["check", *query, "--target", "new"])
    assert "no visitor" not in result.output and result.exit_code in (0, 2), result.output
    for wrong in (["log.parquet", *query], query[:2], query[2:], []):
        result = CliRunner().invoke(main, ["evaluate", "--target", "new", *wrong])
        assert result.exit_code == 2 and "--connection" in result.output, result.output
    job = tmp_path / "job.toml"
    job.write_text(
        'query = "SELECT * FROM log"\nconnection = "duckdb:shop.db"\ntarget = ["new"]\n'
        'estimators = "ips"\njson = "job.json"\n'
    )
    result = CliRunner().invoke(main, ["run", str(job)])
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "job.json").read_text())["estimates"][0]["value"] == found


def test_the_missing_extra_is_named(duck, monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite.dbapi", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'counterrank\[warehouse\]'"):
        value(cr.Query("SELECT 1", f"sqlite:{duck}"))
    with pytest.raises(ConfigError):
        cr.Query("SELECT 1", "nothing")
