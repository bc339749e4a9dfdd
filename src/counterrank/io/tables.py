"""Arrow tables from files: Parquet is read as it is, any other format is written to Parquet first."""

import csv
import os
import re
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterrank.common import stores
from counterrank.common.errors import LogError
from counterrank.common.messages import say
from counterrank.io import sql, values
from counterrank.io.files import (
    DataFile,
    Unpacked,
    bounded,
    byte_stream,
    column_chunks,
    guard,
    not_utf8,
    refuse_bomb,
    refuse_endless,
    refuse_packed_text,
    steady,
)

#: Bytes of text parsed at a time.
BLOCK = 16 << 20
#: Rankings decoded at a time, and rows of a row group that is written.
BATCH = 65_536
#: The same where a row may be far larger than its file: what is decoded before its size is known.
TEXT_BATCH = 4096
#: A table with more columns is no log; each costs a parser kilobytes.
MOST_COLUMNS = 20_000
_LOOK = 1 << 20
#: Bytes in which ids with zeros before them are looked for.
_IDS = 1 << 16

Columns = Sequence[str] | None


class Room:
    """A temporary folder that goes with the last who uses it."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="counterrank-")
        self.close = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # On a worker nobody may remove it.
        return type(None), ()


def written(
    pieces: Iterable[tuple[pa.Table, str]], note: Callable[[pa.Table], None] | None = None
) -> list[DataFile]:
    """Return temporary Parquet files that hold all pieces, in their order; `note` takes each piece.

    With a piece stands what messages call its data. Where that or the types change, a new file begins.
    """
    room, open_file, last = Room(), None, ""
    files: list[DataFile] = []
    try:
        for piece, shown in pieces:
            if open_file is None or shown != last or piece.schema != open_file.schema:
                if open_file is not None:
                    open_file.close()
                path, last = str(Path(room.path) / f"{len(files):05}.parquet"), shown
                text = [item.name for item in piece.schema if values.is_text(item.type)]
                open_file = pq.ParquetWriter(
                    path,
                    piece.schema,
                    compression="lz4",
                    use_dictionary=text,
                    write_statistics=False,
                )
                files.append(DataFile(path, "parquet", shown=shown, room=room))
            open_file.write_table(piece, row_group_size=BATCH)
            if note is not None and piece.num_rows:
                note(piece)
            del piece
    except BaseException:
        room.close()
        raise
    finally:
        if open_file is not None:
            open_file.close()
    return [replace(file, stamp=stores.stamp(file.path)) for file in files]


def parquet(file: DataFile) -> DataFile:
    """Return a file as Parquet: itself, or what is made of it when it is asked for first."""
    if file.format == "parquet":
        return file
    if not file.as_parquet:
        with guard(file.path, prefix=True), steady(file):
            if file.compression is not None:
                # Before a parser sees it: an error from a Python file below Arrow's threads leaves
                # them waiting for ever when the process ends.
                refuse_endless(file)
            file.as_parquet.extend(_MADE[file.format](file))
    return replace(file.as_parquet[0], partitions=file.partitions, table=file.table)


def read_table(file: DataFile, columns: Columns = None) -> pa.Table:
    """Return a whole file, or some of its columns."""
    file = parquet(file)
    with opened_parquet(file) as opened:
        read_columns = present(opened.schema_arrow, columns, file)
        refuse_bomb(opened, file, read_columns)
        chunks = column_chunks(opened.metadata, read_columns)
        if all(chunk.physical_type != "BYTE_ARRAY" for chunk in chunks):
            return _completed(opened.read(columns=read_columns), file, columns)
        # A dictionary of long texts is small in the file and in its metadata, and huge once written
        # out.
        pieces = opened.iter_batches(batch_size=TEXT_BATCH, columns=read_columns)
        batches = list(bounded(map(as_table, pieces), file))
        table = pa.concat_tables(batches) if batches else opened.read(columns=read_columns)
        return _completed(table, file, columns)


def schema(file: DataFile) -> pa.Schema:
    """Return the names and types of a file's columns."""
    file_schema = metadata(file).schema.to_arrow_schema()
    refuse_twice(file_schema.names, f"{file.title}: ")
    return file_schema


def refuse_twice(names: Sequence[str], where: str) -> None:
    """Raise when two columns have one name."""
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise LogError(f"{where}there are two columns called '{name}'; names must differ")


def sample(file: DataFile, rows: int = 1000) -> pa.Table:
    """Return about the first `rows` rows of a file, all columns."""
    file = parquet(file)
    with opened_parquet(file) as opened:
        # With its metadata, which say what its propensities are.
        file_schema = opened.schema_arrow
        refuse_twice(file_schema.names, f"{file.title}: ")
        first = next((batch for batch in opened.iter_batches(rows) if batch.num_rows), None)
        table = pa.Table.from_batches([first] if first else [], file_schema)
        return _completed(table.replace_schema_metadata(file_schema.metadata), file, None)


def batches(file: DataFile, columns: Columns = None) -> Iterator[pa.Table]:
    """Yield consecutive pieces of a file; only a few batches are held at a time."""
    file = parquet(file)
    return row_groups(file, range(metadata(file).num_row_groups), columns, rows=BATCH)


def row_groups(
    file: DataFile, groups: Sequence[int], columns: Columns, *, rows: int
) -> Iterator[pa.Table]:
    """Yield consecutive pieces of some row groups of a Parquet file."""
    where = f", row group {groups[0]}" + (f" to {groups[-1]}" if len(groups) > 1 else "")
    with (
        guard(file.title + ("" if file.shown else where)),
        steady(file),
        open_parquet(file, ahead=True) as opened,
    ):
        read_columns = present(opened.schema_arrow, columns, file)
        # Workers have a part each. Arrow's own threads, shared by all, would be a queue between them.
        batches = opened.iter_batches(
            batch_size=rows, row_groups=list(groups), columns=read_columns, use_threads=False
        )
        # A chain of `map` and `filter` holds no batch while the caller works on it.
        pieces = map(as_table, filter(attrgetter("num_rows"), batches))
        complete = not file.partitions and (
            read_columns is None or len(read_columns) == len(columns or ())
        )
        yield from (pieces if complete else (_completed(piece, file, columns) for piece in pieces))


def as_table(batch: Any) -> pa.Table:
    """Return a batch as a table."""
    return pa.Table.from_batches([batch])


def open_parquet(file: DataFile, *, ahead: bool = False) -> Any:
    """Return the open Parquet file.

    Reading ahead is off for files of this machine, which keeps memory flat. A store answers few
    large questions sooner than many small ones: there `ahead` fetches all that was asked for at
    once, and else pages come as they are needed.
    """
    remote, key = stores.is_url(file.path), (file.path, file.stamp)
    opened = pq.ParquetFile(
        stores.kept_open(file.path, file.stamp) if remote else file.path,
        metadata=_FOOTERS.get(key),
        pre_buffer=remote and ahead,
        buffer_size=_PAGES if remote and not ahead else 0,
        thrift_container_size_limit=_MOST_THRIFT,
    )
    if file.stamp is not None and key not in _FOOTERS:
        refuse_packed_text(opened, file)
        if len(_FOOTERS) == _MOST_FOOTERS:
            _FOOTERS.clear()
        _FOOTERS[key] = opened.metadata
    return opened


@contextmanager
def opened_parquet(file: DataFile) -> Iterator[Any]:
    """Open a Parquet file; messages name it, and it must stay the file that was found."""
    with guard(file.title, prefix=True), steady(file), open_parquet(file) as opened:
        yield opened


#: Footers of files opened lately, by path and stamp: every part of a file opens it anew, in each pass.
_FOOTERS: dict[tuple[str, stores.Stamp | None], Any] = {}
_MOST_FOOTERS = 128
#: Entries of a list in a Parquet footer; more only in one that is made to harm.
_MOST_THRIFT = 10_000_000
#: Bytes asked of a store at a time for the first rows of a column.
_PAGES = 256 << 10


def metadata(file: DataFile) -> Any:
    """Return what a Parquet file says of itself."""
    file = parquet(file)
    footer = _FOOTERS.get((file.path, file.stamp))
    if footer is not None:
        return footer
    with opened_parquet(file) as opened:
        return opened.metadata


def _completed(table: pa.Table, file: DataFile, columns: Columns) -> pa.Table:
    """Return a piece with what the folders above its file say, and nulls for columns that its table got later."""
    added = dict(file.partitions)
    for item in file.table or ():
        added.setdefault(item.name, pa.scalar(None, item.type))
    names = set(table.column_names)
    for name, value in added.items():
        if (columns is None or name in columns) and name not in names:
            table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


def with_points(table: pa.Table) -> pa.Table:
    """Return the table with decimal points in text that holds numbers with commas."""
    for j, item in enumerate(table.schema):
        if values.is_text(item.type):
            text = values.plain(values.one_chunk(table.column(j)))
            cells = [cell for cell in text.slice(0, 1000).to_pylist() if cell]
            if cells and all(_COMMA_NUMBERS.match(cell) for cell in cells):
                table = table.set_column(
                    j, item.name, pc.replace_substring_regex(text, r"(\d),(\d)", r"\1.\2")
                )
    return table


def has_commas(table: pa.Table) -> bool:
    """Whether a column holds single numbers with decimal commas: 0,5."""
    for column, item in zip(table.columns, table.schema, strict=True):
        cells = (
            [c for c in column.slice(0, 1000).to_pylist() if c] if values.is_text(item.type) else []
        )
        if cells and all(map(_WITH_COMMA.fullmatch, cells)) and any("," in c for c in cells):
            return True
    return False


#: A number, with a decimal comma where it has decimals.
_WITH_COMMA = re.compile(r"\s*[-+]?\d+(,\d+)?\s*")
#: One number or several, in brackets or not, separated by anything but a comma alone.
_COMMA_NUMBERS = re.compile(r"^\s*[\[(]?[-+\d,.eE\s;|]*[\])]?\s*$")


def present(schema: pa.Schema, columns: Columns, file: DataFile) -> list[str] | None:
    """Return the columns of those asked for that the file itself holds; raise where one is nowhere."""
    if columns is None:
        return None
    kinds = dict(zip(schema.names, schema.types, strict=True))
    elsewhere = {*dict(file.partitions), *(file.table.names if file.table else ())}
    for name in columns:
        if name not in kinds and name not in elsewhere:
            raise LogError(
                f"{file.title} has no column '{name}', which other files beside it have",
                remedy="write it there too, with nulls where it is not known, or leave that file out"
                + ("; or name the context " + say("--context") if name[:2] == "x_" else ""),
            )
        # Arrow's parser of CSV keeps text that it cannot decode as bytes.
        if file.shown and name in kinds and pa.types.is_binary(kinds[name]):
            raise not_utf8(f"{file.title}: column '{name}'")
    return [name for name in columns if name in kinds]


def _from_arrow(file: DataFile) -> list[DataFile]:
    import pyarrow.ipc as ipc

    def pieces() -> Iterator[tuple[pa.Table, str]]:
        remote = stores.is_url(file.path)
        with stores.opened(file.path) if remote else pa.memory_map(file.path) as source:
            stream = file.format == "arrow-stream"
            reader = ipc.open_stream(source) if stream else ipc.open_file(source)
            yield reader.schema.empty_table(), file.path
            batches = reader if stream else map(reader.get_batch, range(reader.num_record_batches))
            for batch in batches:
                # Arrow trusts offsets in a file; a damaged one would be read out of bounds.
                batch.validate(full=True)
                yield as_table(batch), file.path

    return written(pieces())


def _from_csv(file: DataFile) -> list[DataFile]:
    """Return the Parquet file made of a CSV file.

    Types are guessed from the first block; numbers with zeros before them, 00012, are ids. Where a later
    value does not fit, all is read again with a wider type for that column and those that are numbered
    like it.
    """
    from pyarrow import csv as arrow_csv

    delimiter, names, padded = _header(file)
    types: dict[str, pa.DataType] = dict.fromkeys(padded, pa.string())

    def pieces() -> Iterator[tuple[pa.Table, str]]:
        with byte_stream(file) as stream:
            reader = arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(block_size=BLOCK),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter),
                convert_options=arrow_csv.ConvertOptions(
                    strings_can_be_null=True, decimal_point=file.decimal, column_types=types
                ),
            )
            types.update(zip(reader.schema.names, reader.schema.types, strict=True))
            yield reader.schema.empty_table(), file.path
            for batch in reader:
                piece = as_table(batch)
                yield with_points(piece) if file.decimal == "," else piece, file.path

    while True:
        try:
            return written(pieces())
        except pa.ArrowInvalid as problem:
            failure = re.match(r"In CSV column #(\d+): .*conversion error", str(problem))
            if failure is None:
                raise
            stem, kind = names[int(failure[1])].rstrip("0123456789"), types[names[int(failure[1])]]
            wider = _WIDER.get(kind, pa.string())
            types |= {
                name: wider for name in names if name.startswith(stem) and types[name] == kind
            }


#: The types to try where one does not hold for a whole column; text for all others.
_WIDER = {
    pa.null(): pa.int64(),
    pa.int64(): pa.float64(),
    pa.string(): pa.binary(),
}


def _header(file: DataFile) -> tuple[str, list[str], list[str]]:
    """The delimiter of a CSV file, the names in its first line, and those of ids of digits with zeros before them."""
    with Unpacked(file) as stream:
        start = stream.read(_LOOK)
    # Old spreadsheets end lines with a carriage return alone, which Arrow's reader knows too.
    line = re.split(rb"\r\n|\n|\r", start, maxsplit=1)[0]
    if len(line) == _LOOK:
        raise LogError(
            f"{file.path}: the first line has more than {_LOOK >> 20} MB, so it is no list of "
            "columns; is it CSV?"
        )
    # Spreadsheets put a mark before UTF-8, and semicolons where decimals have commas.
    text = line.decode("utf-8-sig")
    if "\0" in text:
        raise LogError(f"{file.path} is not text: its first line holds zero bytes")
    delimiter = max(",\t;|", key=text.count)
    names = next(csv.reader([text], delimiter=delimiter), [])
    if len(names) > MOST_COLUMNS:
        raise LogError(
            f"{file.path} has {len(names):,} columns, more than any log ({MOST_COLUMNS:,}): is it "
            "turned around, or without its line ends?"
        )
    rows = csv.reader(start[:_IDS].decode("utf-8-sig", "replace").splitlines(), delimiter=delimiter)
    cells = ((name, cell) for row in rows for name, cell in zip(names, row, strict=False))
    padded = [name for name, cell in cells if re.fullmatch(r"0\d{2,}", cell)]
    return delimiter, names, list(dict.fromkeys(padded))


def _from_json(file: DataFile) -> list[DataFile]:
    """Return the Parquet file made of a file with one JSON object a line; types are those of all lines."""
    import duckdb

    with Unpacked(file) as stream:
        if stream.read(_LOOK).lstrip()[:1] == b"[":
            raise LogError(f"{file.path} is one JSON array; write one object a line (JSON Lines)")
    room = Room()
    try:
        # A name of its own: DuckDB would take brackets in a name for a pattern.
        path = os.path.join(room.path, "lines")
        if stores.is_url(file.path):
            with stores.opened(file.path) as source, open(path, "wb") as copy:
                shutil.copyfileobj(source, copy)
        else:
            os.symlink(os.path.abspath(file.path), path)
        packed = f"{sql.literal(path)}, compression = '{file.compression or 'uncompressed'}'"
        with sql.connection([path], folder=room.path) as opened:
            keys = f"SELECT unnest(json_keys(json)) AS key FROM read_ndjson_objects({packed})"
            (count,) = opened.execute(f"SELECT count(DISTINCT key) FROM ({keys})").fetchall()[0]
            if count > MOST_COLUMNS:
                raise LogError(
                    f"{file.path}: its objects have more than {MOST_COLUMNS:,} different keys",
                    remedy='write ids as values, {"id": 7, "clicks": 1}, not as keys, {"7": 1}',
                )
            reader = sql.batches(
                opened,
                f"SELECT * FROM read_json({packed}, format = 'newline_delimited', records = true, "
                "sample_size = -1, field_appearance_threshold = 0, dateformat = '%Y-%m-%d')",
            )
            kinds = pa.schema([(item.name, _whole_numbers(item.type)) for item in reader.schema])
            pieces = chain([reader.schema.empty_table()], map(as_table, reader))
            return written((piece.cast(kinds), file.path) for piece in pieces)
    except duckdb.Error as problem:
        message = sql.reason(problem)
        if "UTF-8" in message:
            raise not_utf8(file.path) from None
        raise LogError(f"{file.path} is not valid JSON Lines: {message}") from None
    finally:
        room.close()


def _whole_numbers(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column with 64-bit integers where DuckDB has wider ones, as for 3 and -1 together."""
    if values.is_list(kind):
        return pa.list_(_whole_numbers(kind.value_type))
    return pa.int64() if pa.types.is_decimal(kind) else kind


_MADE = {
    "arrow": _from_arrow,
    "arrow-stream": _from_arrow,
    "csv": _from_csv,
    "jsonl": _from_json,
}
