"""Tables with versions: Delta Lake, whose files are read like any others, and Iceberg, by its catalogue."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from counterrank import stores
from counterrank.errors import ConfigError, CounterrankError, LogError, require
from counterrank.io.files import Partitions
from counterrank.io.where import Where
from counterrank.messages import say
from counterrank.texts import first_line

#: How a log in an Iceberg catalogue is addressed: iceberg:[CATALOGUE/]NAMESPACE.TABLE.
ICEBERG = "iceberg:"
_LOG_OF_DELTA = "_delta_log"


def is_delta(path: str) -> bool:
    """Whether a folder is a Delta table: files in it may belong to other versions, or to none."""
    if stores.is_url(path):
        return (
            not stores.has_pattern(path)
            and stores.kind_of(path) == "folder"
            and stores.kind_of(stores.joined(path, _LOG_OF_DELTA)) == "folder"
        )
    return (Path(path) / _LOG_OF_DELTA).is_dir()


def delta_files(path: str, version: int | None) -> tuple[list[tuple[str, Partitions]], pa.Schema]:
    """Return the files of one version of a Delta table with what it says of each, and its columns."""
    deltalake = require("deltalake", extra="tables")
    with _plainly(f"the Delta table {path}", version):
        table = deltalake.DeltaTable(path, version=version, storage_options=_delta_options(path))
        content = table.to_pyarrow_dataset()
        keys = table.metadata().partition_columns
        found = [
            (one.path, _partitions(one, keys, content.schema)) for one in content.get_fragments()
        ]
    if not found:
        raise LogError(f"the Delta table {path} is empty: this version has no rows")
    join = stores.joined if stores.is_url(path) else os.path.join
    placed = [(join(path, name), said) for name, said in found]
    return sorted(placed, key=lambda one: one[0]), content.schema


def _delta_options(path: str) -> dict[str, str] | None:
    """Return what the table's own client of stores must be told: it knows the same variables."""
    if not path.startswith("s3://"):
        return None
    address = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    told = {"AWS_ENDPOINT_URL": address} if address else {}
    if address.startswith("http://"):
        told["AWS_ALLOW_HTTP"] = "true"
    if "AWS_REGION" not in os.environ and "AWS_DEFAULT_REGION" not in os.environ and address:
        told["AWS_REGION"] = "us-east-1"
    return told


def _partitions(fragment: Any, keys: list[str], schema: pa.Schema) -> Partitions:
    said = ds.get_partition_keys(fragment.partition_expression)
    return tuple((key, pa.scalar(said.get(key), type=schema.field(key).type)) for key in keys)


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """One snapshot of a table in a catalogue; it chooses columns and rows by itself.

    The catalogue is that of PyIceberg's configuration: ~/.pyiceberg.yaml, or variables like
    PYICEBERG_CATALOG__DEFAULT__URI.
    """

    table: Any
    name: str
    snapshot: int

    @classmethod
    def open(cls, address: str, version: int | None) -> "IcebergTable":
        """Return the table at iceberg:[CATALOGUE/]NAMESPACE.TABLE, its newest snapshot or another."""
        name = address.removeprefix(ICEBERG)
        catalogue, _, table = name.rpartition("/")
        if "." not in table:
            raise ConfigError(
                f"'{address}' names no table; write {ICEBERG}NAMESPACE.TABLE, or "
                f"{ICEBERG}CATALOGUE/NAMESPACE.TABLE"
            )
        catalogue = catalogue or "default"
        loading = require("pyiceberg.catalog", extra="tables")
        settings = require("pyiceberg.utils.config", extra="tables").Config()
        known = settings.get_catalog_config(catalogue)
        if known is None:
            raise ConfigError(
                f"there is no Iceberg catalogue '{catalogue}'; describe it in ~/.pyiceberg.yaml, or "
                f"by variables like PYICEBERG_CATALOG__{catalogue.upper()}__URI"
            )
        with _plainly(f"the Iceberg table {table}", version):
            opened = loading.load_catalog(catalogue, **known).load_table(table)
            snapshot = (
                opened.current_snapshot() if version is None else opened.snapshot_by_id(version)
            )
        if snapshot is None:
            what = "is empty" if version is None else f"has no snapshot {version}"
            raise LogError(f"the Iceberg table {table} {what}")
        return cls(opened, table, snapshot.snapshot_id)

    def head(self, rows: int) -> Any:
        """Return a reader of the first rows."""
        with _plainly(f"the Iceberg table {self.name}", None):
            return self.table.scan(snapshot_id=self.snapshot, limit=rows).to_arrow_batch_reader()

    def batches(self, columns: tuple[str, ...] | None, where: Where | None) -> Any:
        """Return a reader of the snapshot's batches; conditions are held against its own statistics."""
        with _plainly(f"the Iceberg table {self.name}", None):
            condition = None
            if where is not None:
                where.expression(self.table.schema().as_arrow())
                condition = where.condition
            scan = self.table.scan(
                snapshot_id=self.snapshot,
                selected_fields=columns or ("*",),
                **({} if condition is None else {"row_filter": condition.sql()}),
            )
            return scan.to_arrow_batch_reader()


def is_iceberg(path: object) -> bool:
    """Whether a log is addressed by an Iceberg catalogue."""
    return isinstance(path, str) and path.startswith(ICEBERG)


def refuse_folder(path: str) -> None:
    """Raise where a folder is an Iceberg table: only its catalogue knows which files are current."""
    folder = Path(path) / "metadata"
    if not stores.is_url(path) and any(folder.glob("*.metadata.json")):
        raise LogError(
            f"{path} is an Iceberg table, and only its catalogue says which of its files count; "
            f"name it as {ICEBERG}NAMESPACE.TABLE"
        )


def refuse_version(version: int | None) -> None:
    """Raise where a version is asked of what has none."""
    if version is not None:
        raise ConfigError(
            f"{say('--version', str(version), str(version))} is for Delta and Iceberg tables; "
            "this log has no versions"
        )


@contextmanager
def _plainly(what: str, version: int | None) -> Iterator[None]:
    """Turn what these libraries raise into one message."""
    try:
        yield
    except CounterrankError:
        raise
    except Exception as problem:
        asked = "" if version is None else f" in version {version}"
        raise LogError(
            f"{what} cannot be read{asked}: {stores.without_secrets(first_line(problem))}"
        ) from None
