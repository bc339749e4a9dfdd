"""Tables that other systems keep: answers to queries (DuckDB, what ADBC has drivers for) and Delta Lake.

A connection is named without secrets: they come from the environment (PGPASSWORD, a service file, a
profile), or the whole connection does (env:NAME). A query is one SELECT. It runs once, in one
transaction of its own, and its batches are read as they come. The files of a Delta table are read like
any others.
"""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from counterrank.common import stores
from counterrank.common.errors import ConfigError, LogError, MissingExtraError, require
from counterrank.common.texts import suggestion
from counterrank.io import sql
from counterrank.io.files import Partitions, plainly

#: Kinds of connections, and the ADBC driver of each; DuckDB has a client of its own.
DRIVERS = {
    "sqlite": "adbc_driver_sqlite.dbapi",
    "postgresql": "adbc_driver_postgresql.dbapi",
    "bigquery": "adbc_driver_bigquery.dbapi",
    "snowflake": "adbc_driver_snowflake.dbapi",
}
_ALIASES = {"postgres": "postgresql"}
_ENVIRONMENT = "env"
_FORMS = "duckdb:FILE, sqlite:FILE, postgresql://HOST/DATABASE, bigquery:PROJECT, snowflake:ACCOUNT or env:NAME"


@dataclass(frozen=True, slots=True)
class Query:
    """The rows that a query gives, as a log.

    Parameters
    ----------
    sql
        One statement that gives rows, with the columns of a log.
    connection
        ``duckdb:FILE``, ``sqlite:FILE``, ``postgresql://HOST/DATABASE``, or ``env:NAME`` for a
        connection in the environment variable NAME. ``bigquery:PROJECT`` and ``snowflake:ACCOUNT``
        go the same way through their ADBC drivers.

    Examples
    --------
    >>> Query("SELECT * FROM log", "duckdb:shop.db").connection
    'duckdb:shop.db'
    """

    sql: str
    connection: str

    def __post_init__(self) -> None:
        if not self.sql.strip():
            raise ConfigError("the query is empty; write SELECT ...")
        _split(self.connection)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the answer in batches; the connection is closed after the last."""
        kind, address = _split(self.connection)
        if kind == _ENVIRONMENT:
            connection = os.environ.get(address)
            if not connection:
                raise ConfigError(
                    f"there is no environment variable {address} with a connection in it"
                )
            kind, address = _split(connection, shown=False)
        with plainly(f"the query failed in {kind}"), ExitStack() as stack:
            reader = (_duckdb if kind == "duckdb" else _adbc)(stack, kind, address, self.sql)
            for batch in reader:
                yield pa.Table.from_batches([batch], reader.schema)


def _split(connection: str, *, shown: bool = True) -> tuple[str, str]:
    """Return the kind of a connection and the rest; raise on what would put a secret into results."""
    kind, sign, address = connection.partition(":")
    kind = _ALIASES.get(kind, kind)
    kinds = ["duckdb", *DRIVERS, _ENVIRONMENT]
    if not sign or kind not in kinds:
        named = f"'{kind}'" if shown and sign else "this connection"
        raise ConfigError(
            f"{named} is no kind of connection{suggestion(kind, kinds) if shown else ''}; use {_FORMS}"
        )
    if shown and (
        re.search(r"//[^/@]*:[^/@]+@", address)
        or re.search(r"(?i)(password|token|secret|key)=", address)
    ):
        raise ConfigError(
            "the connection holds a password or key; leave it out and give it by the environment "
            "(PGPASSWORD, a service file), or put the whole connection into a variable and say "
            "env:NAME"
        )
    return kind, address


def _duckdb(stack: ExitStack, kind: str, path: str, query: str) -> Any:
    sql.refuse_other_than_select(query)
    memory = path in ("", ":memory:")
    if not memory and not os.path.exists(os.path.expanduser(path)):
        # DuckDB would make one.
        raise LogError(f"there is no DuckDB file {path}")
    database = ":memory:" if memory else os.path.expanduser(path)
    # Without a file of its own, what it reads are files that the query names.
    opened = stack.enter_context(sql.connection(database=database, reads=memory))
    return sql.batches(opened, query)


def _adbc(stack: ExitStack, kind: str, address: str, query: str) -> Any:
    try:
        driver = require(DRIVERS[kind], extra="warehouse")
    except MissingExtraError:
        if kind in ("bigquery", "snowflake"):
            package = f"adbc-driver-{kind}"
            raise MissingExtraError(f"{kind} needs a driver; run: pip install {package}") from None
        raise
    _refuse_writing(query)
    opened = stack.enter_context(driver.connect(*_place(kind, address)))
    cursor = stack.enter_context(opened.cursor())
    if kind == "postgresql":
        # There a SELECT can delete rows on the way.
        cursor.execute("SET TRANSACTION READ ONLY")
    cursor.execute(query)
    return cursor.fetch_record_batch()


def _refuse_writing(query: str) -> None:
    """Raise unless a query in any dialect is one statement that begins as those do which read."""
    bare = re.sub(
        r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL
    )
    words = re.findall(r"[a-z]+", bare.lower())
    if (
        not words
        or words[0] not in ("select", "with", "values", "from", "table")
        or (";" in bare.strip().rstrip(";"))
    ):
        raise ConfigError(
            "the query must be one SELECT, which only reads; it begins with "
            f"{words[0].upper() if words else 'nothing'}"
        )


def _place(kind: str, address: str) -> tuple[Any, ...]:
    """Return what a driver's `connect` takes."""
    if kind == "sqlite":
        path = os.path.expanduser(address)
        if not os.path.exists(path):
            raise LogError(f"there is no SQLite file {address}")
        # Neither made nor written to.
        return (f"file:{path}?mode=ro",)
    if kind == "postgresql":
        return (f"postgresql:{address}",)
    if kind == "bigquery":
        return ({"adbc.bigquery.sql.project_id": address},)
    return (address,)


def is_delta(path: str) -> bool:
    """Whether a folder is a Delta table: files in it may belong to other versions, or to none."""
    return stores.kind_of(stores.joined(path, "_delta_log")) == "folder"


def delta_files(path: str, version: int | None) -> tuple[list[tuple[str, Partitions]], pa.Schema]:
    """Return the files of one version of a Delta table with what it says of each, and its columns."""
    deltalake = require("deltalake", extra="tables")
    of_version = "" if version is None else f" in version {version}"
    with plainly(f"the Delta table {path} cannot be read{of_version}"):
        table = deltalake.DeltaTable(path, version=version, storage_options=_delta_options(path))
        content = table.to_pyarrow_dataset()
        keys = table.metadata().partition_columns
        entries = [
            (fragment.path, _partitions(fragment, keys, content.schema))
            for fragment in content.get_fragments()
        ]
    if not entries:
        raise LogError(f"the Delta table {path} is empty: this version has no rows")
    placed = [(stores.joined(path, name), partitions) for name, partitions in entries]
    return sorted(placed, key=lambda entry: entry[0]), content.schema


def _delta_options(path: str) -> dict[str, str] | None:
    """Return what the table's own client of stores must be told: it knows the same variables."""
    if not path.startswith("s3://"):
        return None
    address = stores.s3_endpoint()
    told = {"AWS_ENDPOINT_URL": address} if address else {}
    if address.startswith("http://"):
        told["AWS_ALLOW_HTTP"] = "true"
    if "AWS_REGION" not in os.environ and "AWS_DEFAULT_REGION" not in os.environ and address:
        told["AWS_REGION"] = "us-east-1"
    return told


def _partitions(fragment: Any, keys: list[str], schema: pa.Schema) -> Partitions:
    import pyarrow.dataset as ds  # it brings pandas

    by_key = ds.get_partition_keys(fragment.partition_expression)
    return tuple((key, pa.scalar(by_key.get(key), type=schema.field(key).type)) for key in keys)


def refuse_iceberg(path: str) -> None:
    """Raise where a folder is an Iceberg table: only its catalogue knows which files are current."""
    folder = Path(path) / "metadata"
    if not stores.is_url(path) and any(folder.glob("*.metadata.json")):
        raise LogError(
            f"{path} is an Iceberg table, and only its catalogue says which of its files count; "
            "pass catalogue.load_table(NAME).scan().to_arrow_batch_reader() of PyIceberg as the log"
        )
