"""Tables with versions: Delta Lake, whose files are read like any others."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from counterrank import stores
from counterrank.errors import ConfigError, LogError, require
from counterrank.io.files import Partitions, plainly
from counterrank.messages import say

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
    asked = "" if version is None else f" in version {version}"
    with plainly(f"the Delta table {path} cannot be read{asked}"):
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


def refuse_folder(path: str) -> None:
    """Raise where a folder is an Iceberg table: only its catalogue knows which files are current."""
    folder = Path(path) / "metadata"
    if not stores.is_url(path) and any(folder.glob("*.metadata.json")):
        raise LogError(
            f"{path} is an Iceberg table, and only its catalogue says which of its files count; "
            "pass catalogue.load_table(NAME).scan().to_arrow_batch_reader() of PyIceberg as the log"
        )


def refuse_version(version: int | None) -> None:
    """Raise where a version is asked of what has none."""
    if version is not None:
        raise ConfigError(
            f"{say('--version', str(version), str(version))} is for Delta tables; "
            "this log has no versions"
        )
