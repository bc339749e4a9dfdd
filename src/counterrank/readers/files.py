"""read_log: a log in files, whole in memory."""

import os
from typing import Unpack

import pyarrow as pa

from counterrank.errors import LogError
from counterrank.log import RankingLog
from counterrank.readers import registry, tables
from counterrank.readers.frames import from_table
from counterrank.readers.guard import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.paths import DataFile, expand
from counterrank.readers.resolve import resolve


def read_log(path: str | os.PathLike[str], *, format: str | None = None, **options: Unpack[Options]) -> RankingLog:
    """Return the log in a file, folder or pattern of Parquet, Arrow, CSV or JSON Lines files.

    `format` names one of these or an adapter (`counterrank.readers.registry`); options as in `ReadOptions`.
    """
    return load(path, ReadOptions.of(**options), format=format)


def load(path: str | os.PathLike[str], options: ReadOptions, *, format: str | None = None) -> RankingLog:
    """Return the log at `path`; the form of `read_log` for ready-made options."""
    if format is not None and (reader := registry.adapter(format)) is not None:
        return reader(path, options)
    files = expand(path, format)
    with guard(os.fspath(path), prefix=True):
        return from_table(_everything(files, options), options)


def _everything(files: list[DataFile], options: ReadOptions) -> pa.Table:
    found = tables.sample(files[0])
    if found.num_rows == 0:
        raise LogError(f"{files[0].path} is empty: it has columns but no rows")
    columns = resolve(found, options, in_memory=True).columns
    pieces = [tables.read_table(file, columns) for file in files]
    try:
        return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces, promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid) as problem:
        raise LogError(f"the files disagree about the types of their columns: {problem}") from None
