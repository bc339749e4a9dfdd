"""A table beside a log: how its keys find what was shown or could have been, out of core.

The keys of the log are written to files that DuckDB joins to the table; the log itself is read piece by
piece, and its rows keep their order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.common.errors import LogError
from counterrank.common.findings import PASSED, WARNED, Finding
from counterrank.common.texts import comma_separated, in_percent
from counterrank.io import prepare, sql, tables, values
from counterrank.io.files import DataFile, expand
from counterrank.io.joined_tables import JoinedTable
from counterrank.io.roles import no_column

#: Pieces of a log with what messages call their data.
Pieces = Iterator[tuple[pa.Table, str]]
#: The items of the rows of a piece as lists; None where keys are those of whole rows.
Lists = Callable[[pa.Table], pa.Array | None]
#: A column of keys by its name, and whether it has a value for each item rather than for each row.
KeyColumns = Iterable[tuple[str, Any, bool]]
#: Share of rows from which on a finding warns.
NOTED = 0.01


def key_name(i: int) -> str:
    """Return the name of a key in both tables, which no column of a user has."""
    return f'" k{i}"'


def table_files(source: Any, decimal: str = ".") -> list[DataFile]:
    """Return a table as Parquet files: those of a path, or what a table in memory is written to."""
    if isinstance(source, str):
        return [prepare.readable(file) for file in expand(source, decimal=decimal)]
    from counterrank.io.readers import as_table

    table = as_table(source) if decimal == "." else tables.with_points(as_table(source))
    return tables.written([(prepare.plain_types(table), "")])


def refuse_uneven(files: Sequence[DataFile], used: set[str]) -> None:
    """Raise where a file lacks a column that is used and others have: its rows would count as none."""
    columns = {
        name for file in files for name in (*tables.schema(file).names, *dict(file.partitions))
    }
    for file in files:
        tables.present(tables.schema(file), sorted(used & columns), file)


def key_files(
    pieces: Pieces, lists: Lists, columns: Callable[[pa.Table, pa.Array | None], KeyColumns]
) -> list[DataFile]:
    """Write the keys of a log: one row for each item of its rows, or for each row, by the number " id"."""

    def rows() -> Iterator[tuple[pa.Table, str]]:
        start = 0
        for piece, _ in pieces:
            items = lists(piece)
            row, place = values.places(_entries(piece, items))
            keys: dict[str, Any] = {" id": pa.array(((start + row) << 20) + place)}
            for name, column, by_item in columns(piece, items):
                keys[name] = column if by_item or items is None else column.take(pa.array(row))
            start += piece.num_rows
            yield prepare.plain_types(pa.table(keys)), ""

    return tables.written(rows())


def _entries(piece: pa.Table, items: pa.Array | None) -> Any:
    return np.ones(piece.num_rows, np.int64) if items is None else values.entry_counts(items)


def key_column(piece: pa.Table, name: str) -> pa.Array:
    """Return a column of a piece that is a key of its rows."""
    if name not in piece.column_names:
        raise no_column("the log", name, "to join by", piece.column_names)
    return values.plain(values.one_chunk(piece[name]))


def taking(reader: Any) -> Callable[[int], pa.Table]:
    """Return a function that takes the next so many rows from a stream of batches."""
    waiting = pa.Table.from_batches([], reader.schema)

    def take(rows: int) -> pa.Table:
        nonlocal waiting
        while waiting.num_rows < rows:
            waiting = pa.concat_tables([waiting, tables.as_table(reader.read_next_batch())])
        rows_taken, waiting = waiting.slice(0, rows), waiting.slice(rows)
        return rows_taken

    return take


def with_columns(pieces: Pieces, reader: Any, names: Sequence[str], lists: Lists) -> Pieces:
    """Yield a log with the columns of a stream that has a row for each row of its keys."""
    take = taking(reader)
    for piece, shown in pieces:
        items = lists(piece)
        counts = _entries(piece, items)
        joined = take(int(counts.sum()))
        for name, column in zip(names, joined.columns, strict=True):
            array: Any = column.combine_chunks()
            if items is not None:
                array = prepare.as_listed(column, np.arange(len(column)), counts)
            piece = piece.append_column(name, array)
        yield piece, shown


class TableJoin:
    """A table in a connection with the keys of a log.

    `log` has " id", the keys " k0", " k1", ... and what else was written; `beside` is the table, and has the keys
    in the same form. What is text in one of both and not in the other is compared as text, whatever
    zeros stand before it.
    """

    def __init__(
        self,
        opened: Any,
        table: JoinedTable,
        keys: Sequence[tuple[str, str]],
        files: Sequence[DataFile],
        log_files: Sequence[DataFile],
    ) -> None:
        self.opened, self.table, self.keys = opened, table, keys
        self.title = table.title
        parts = [prepare.native_query(file, number) for number, file in enumerate(files)]
        opened.execute(f"CREATE TEMP VIEW given AS {' UNION ALL BY NAME '.join(parts)}")
        # A file without rows has no types: their message would mislead.
        if not opened.execute("SELECT 1 FROM given LIMIT 1").fetchall():
            raise LogError(f"{table.title} is empty: there are no rows to join")
        schema = sql.table(opened, "SELECT * FROM given LIMIT 0").schema
        self.columns = {
            item.name: item.type for item in schema if item.name not in (prepare.FILE, prepare.ROW)
        }
        forms = [self._forms(i, tables.schema(log_files[0])) for i in range(len(keys))]
        paths = ", ".join(sql.literal(os.path.abspath(file.path)) for file in log_files)
        mine, theirs = (
            ", ".join(f"{pair[side]} AS {key_name(i)}" for i, pair in enumerate(forms))
            for side in (0, 1)
        )
        opened.execute(
            f"CREATE TEMP TABLE log AS SELECT * REPLACE ({mine}) FROM "
            f"read_parquet([{paths}], union_by_name = true)"
        )
        opened.execute(f"CREATE TEMP VIEW beside AS SELECT *, {theirs} FROM given")

    def _forms(self, i: int, logged: pa.Schema) -> tuple[str, str]:
        """Return SQL of a key in the log and in the table."""
        _, theirs = self.keys[i]
        self.refuse_absent(theirs, "to join by")
        kinds = logged.field(f" k{i}").type, self.columns[theirs]
        if any(map(pa.types.is_nested, kinds)):
            raise LogError(
                f"the key '{theirs}' of {self.title} holds {kinds[1]}, and a key is one value",
                remedy="name a column of single ids",
            )
        forms = key_name(i), sql.name(theirs)
        # Items in lists that are text may be numbers, and CSV has no types: 7, '7' and '007' are one.
        alike = values.is_text(kinds[0]) == values.is_text(kinds[1])
        return forms if alike else (_as_text(forms[0]), _as_text(forms[1]))

    def row(self, query: str) -> tuple[Any, ...]:
        """Return the first row of an answer."""
        first: tuple[Any, ...] = self.opened.execute(query).fetchall()[0]
        return first

    def refuse_absent(self, column: str, use: str) -> None:
        """Raise where the table lacks a column."""
        if column not in self.columns:
            raise no_column(self.title, column, use, self.columns)

    def by(self, alias: str, keys: Sequence[int] | None = None) -> str:
        """Return the keys of a table, or some of them, as SQL lists columns."""
        return ", ".join(f"{alias}{key_name(i)}" for i in self._chosen(keys))

    def same(self, left: str, right: str, keys: Sequence[int] | None = None) -> str:
        """Return the condition that keys of two tables are equal."""
        return " AND ".join(
            f"{left}.{key} = {right}.{key}" for key in map(key_name, self._chosen(keys))
        )

    def _chosen(self, keys: Sequence[int] | None) -> Sequence[int]:
        return range(len(self.keys)) if keys is None else keys

    def none_joined(self, rows: int, what: str) -> LogError:
        """Return the error of a table of which no row finds what it names."""
        return LogError(
            f"{self.title}: none of the {rows:,} {what}{self.difference()}",
            remedy=f"join by columns that mean the same in both ({comma_separated([k for k, _ in self.keys])})",
        )

    def difference(self) -> str:
        """Show keys of both tables where they have none in common."""
        for i, (mine, theirs) in enumerate(self.keys):
            logged, named = (
                {
                    key
                    for (key,) in self.opened.execute(
                        f"SELECT DISTINCT CAST({key_name(i)} AS VARCHAR) FROM {table} "
                        f"WHERE {key_name(i)} IS NOT NULL ORDER BY 1 LIMIT 20000"
                    ).fetchall()
                }
                for table in ("log", "beside")
            )
            if logged and named and not logged & named:
                return (
                    f"; '{mine}' in the log is like '{min(logged)[:30]}', '{theirs}' in {self.table.named} like "
                    f"'{min(named)[:30]}'"
                )
        return ""


def _as_text(column: str) -> str:
    return f"ltrim(CAST({column} AS VARCHAR), '0')"


def counted(
    code: str,
    count: int,
    total: int,
    what: str,
    cause: str,
    remedy: str = "",
    warned: float = NOTED,
) -> list[Finding]:
    """Return what the audit says of so many rows, nothing where there are none; `what` begins with their name."""
    if not count:
        return []
    status = WARNED if count >= warned * total else PASSED
    noun, _, happens = what.rpartition(": ")
    text = f"{count:,} of {total:,} {noun} ({in_percent(count / total)}) {happens}"
    return [Finding(code, status, text, (remedy,) if status is WARNED else (), cause=cause)]
