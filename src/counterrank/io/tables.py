"""Arrow tables from files of any format: whole, or in batches."""

import contextlib
import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank import stores
from counterrank.errors import LogError
from counterrank.io import values
from counterrank.io.files import (
    DataFile,
    Unpacked,
    arrow_stream,
    bounded,
    guard,
    not_utf8,
    refuse_bomb,
    steady,
    unpacked_size,
)
from counterrank.messages import say
from counterrank.texts import listed, suggestion

#: Bytes of text parsed at a time.
BLOCK = 16 << 20
#: Rankings decoded at a time.
BATCH = 65_536
#: The same where a row may be far larger than its file: what is decoded before its size is known.
TEXT_BATCH = 4096
#: A JSON object longer than this is no ranking.
MOST_LINE = 256 << 20
#: A table with more columns is no log; each costs a parser kilobytes.
MOST_COLUMNS = 20_000
#: No log nests its JSON deeper.
MOST_LEVELS = 64
_LOOK = 1 << 20

Columns = Sequence[str] | None
Types = dict[str, pa.DataType] | None


def read_table(file: DataFile, columns: Columns = None) -> pa.Table:
    """Return a whole file, or some of its columns."""
    with guard(file.path, prefix=True), steady(file):
        table = _READ[file.format](file, _stored(file, columns))
        return _completed(_decoded(_checked(table, file), file), file, columns)


def schema(file: DataFile) -> pa.Schema:
    """Return the names and types of a file's columns; of CSV the names alone, and the type is null."""
    if file.format == "parquet":
        return metadata(file).schema.to_arrow_schema()
    with guard(file.path, prefix=True), steady(file):
        if file.format == "csv":
            return pa.schema([(name, pa.null()) for name in _header(file)[1]])
        return next(_pieces(file, None, 1, None), pa.table({})).schema


def sample(file: DataFile, rows: int = 1000) -> pa.Table:
    """Return about the first `rows` rows of a file, all columns."""
    with guard(file.path, prefix=True):
        file.refuse_change()
        for table in _pieces(file, None, rows, None):
            if table.num_rows:
                # Columns of bytes that are no text matter only once they are asked for.
                return _completed(
                    with_points(_checked(table, file), file.decimal), file, None
                ).slice(0, rows)
    return read_table(file)


def batches(
    file: DataFile, columns: Columns = None, *, rows: int = BATCH, types: Types = None
) -> Iterator[pa.Table]:
    """Yield consecutive pieces of a file; only a few batches are held at a time.

    `types` are those of CSV columns, which would else be guessed from the first block alone.
    """
    with guard(file.path, prefix=True), steady(file):
        for table in _pieces(file, _stored(file, columns), rows, types):
            if table.num_rows:
                yield _completed(_decoded(_checked(table, file), file), file, columns)


def _pieces(file: DataFile, wanted: Columns, rows: int, types: Types) -> Iterator[pa.Table]:
    if file.format == "parquet":
        blocks = _parquet_blocks(file, wanted, rows)
    elif file.format == "csv":
        blocks = _csv_blocks(file, wanted, types)
    else:
        blocks = (_jsonl_blocks if file.format == "jsonl" else _arrow_blocks)(file, wanted)
    for block in blocks:
        for first in range(0, block.num_rows, rows):
            yield block.slice(first, rows)


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
        wanted = _present(opened.schema_arrow.names, _stored(file, columns), file)
        # Workers have a part each. Arrow's own threads, shared by all, would be a queue between them.
        found = opened.iter_batches(
            batch_size=rows, row_groups=list(groups), columns=wanted, use_threads=False
        )
        # A chain of `map` and `filter` holds no batch while the caller works on it.
        pieces = map(_as_table, filter(_has_rows, found))
        complete = not file.partitions and (wanted is None or len(wanted) == len(columns or ()))
        yield from (pieces if complete else (_completed(piece, file, columns) for piece in pieces))


def _as_table(batch: Any) -> pa.Table:
    return pa.Table.from_batches([batch])


def _has_rows(batch: Any) -> bool:
    return bool(batch.num_rows)


def open_parquet(file: DataFile, *, ahead: bool = False) -> Any:
    """Return the open Parquet file.

    Reading ahead is off for files of this machine, which keeps memory flat. A store answers few
    large questions sooner than many small ones: there `ahead` fetches all that was asked for at
    once, and else pages come as they are needed.
    """
    import pyarrow.parquet as pq

    away, key = stores.is_url(file.path), (file.path, file.stamp)
    opened = pq.ParquetFile(
        stores.kept_open(file.path, file.stamp) if away else file.path,
        metadata=_FOOTERS.get(key),
        pre_buffer=away and ahead,
        buffer_size=_PAGES if away and not ahead else 0,
        thrift_container_size_limit=_MOST_THRIFT,
    )
    if file.stamp is not None and key not in _FOOTERS:
        if len(_FOOTERS) == _MOST_FOOTERS:
            _FOOTERS.clear()
        _FOOTERS[key] = opened.metadata
    return opened


#: Footers of files opened lately, by path and stamp: every part of a file opens it anew, in each pass.
_FOOTERS: dict[tuple[str, stores.Stamp | None], Any] = {}
_MOST_FOOTERS = 128
#: Entries of a list in a Parquet footer; more only in one that is made to harm.
_MOST_THRIFT = 10_000_000
#: Bytes asked of a store at a time for the first rows of a column.
_PAGES = 256 << 10


def metadata(file: DataFile) -> Any:
    """Return what a Parquet file says of itself."""
    known = _FOOTERS.get((file.path, file.stamp))
    if known is not None:
        return known
    with guard(file.path, prefix=True), steady(file), open_parquet(file) as opened:
        return opened.metadata


def _stored(file: DataFile, columns: Columns) -> list[str] | None:
    above = {key for key, _ in file.partitions}
    return None if columns is None else [name for name in columns if name not in above]


def _completed(table: pa.Table, file: DataFile, columns: Columns) -> pa.Table:
    """Return a piece with what the folders above its file say, and nulls for columns that its table got later."""
    beside = dict(file.partitions)
    for item in file.table or ():
        beside.setdefault(item.name, pa.scalar(None, item.type))
    known = set(table.column_names)
    for name, value in beside.items():
        if (columns is None or name in columns) and name not in known:
            table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


def _checked(table: pa.Table, file: DataFile) -> pa.Table:
    names = table.column_names
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise LogError(f"{file.path}: there are two columns called '{twice}'; names must differ")
    return table


def _decoded(table: pa.Table, file: DataFile) -> pa.Table:
    """Return text as it was meant: decimal commas become points, bytes that are no text are named."""
    if file.format == "csv":
        for item in table.schema:
            if pa.types.is_binary(item.type):
                raise not_utf8(f"{file.path}: column '{item.name}'")
    return with_points(table, file.decimal)


def with_points(table: pa.Table, decimal: str) -> pa.Table:
    """Return the table with decimal points in text that holds numbers, where `decimal` is a comma."""
    if decimal == ".":
        return table
    for j, item in enumerate(table.schema):
        if values.is_text(item.type):
            text = values.plain(values.one_chunk(table.column(j)))
            cells = [cell for cell in text.slice(0, 1000).to_pylist() if cell]
            if cells and all(_COMMA_NUMBERS.match(cell) for cell in cells):
                table = table.set_column(
                    j, item.name, pc.replace_substring_regex(text, r"(\d),(\d)", r"\1.\2")
                )
    return table


#: One number or several, in brackets or not, separated by anything but a comma alone.
_COMMA_NUMBERS = re.compile(r"^\s*[\[(]?[-+\d,.eE\s;|]*[\])]?\s*$")


def refuse_missing(columns: Sequence[str], known: Sequence[str]) -> None:
    """Raise when a table lacks a column that events are joined by, or another."""
    for name in columns:
        if name not in known:
            raise LogError(
                f"there is no column '{name}'{suggestion(name, known)}",
                remedy=f"columns are {listed(known)}",
            )


def refuse_absent(file: DataFile, columns: Columns) -> None:
    """Raise when a Parquet file lacks a column that is read."""
    _present(metadata(file).schema.to_arrow_schema().names, columns, file)


def _present(available: Sequence[str], columns: Columns, file: DataFile) -> list[str] | None:
    if columns is None:
        return None
    known = set(available)
    later = set() if file.table is None else set(file.table.names)
    missing = [name for name in columns if name not in known and name not in later]
    if missing:
        raise LogError(
            f"{file.path} has no column '{missing[0]}', which other files of this log have",
            remedy="write it there too, with nulls where it is not known, or leave that file out"
            + ("; or name the context " + say("--context") if missing[0][:2] == "x_" else ""),
        )
    return [name for name in columns if name in known]


def _parquet(file: DataFile, columns: Columns) -> pa.Table:
    with open_parquet(file) as opened:
        wanted = _present(opened.schema_arrow.names, columns, file)
        refuse_bomb(opened, file, wanted)
        if not _holds_text(opened, wanted):
            return opened.read(columns=wanted)
        # A dictionary of long texts is small in the file and in its metadata, and huge once written
        # out.
        pieces = opened.iter_batches(batch_size=TEXT_BATCH, columns=wanted)
        found = list(bounded(map(_as_table, pieces), file))
        return pa.concat_tables(found) if found else opened.read(columns=wanted)


def _holds_text(opened: Any, columns: Columns) -> bool:
    leaves = (opened.metadata.schema.column(j) for j in range(opened.metadata.num_columns))
    return any(
        leaf.physical_type == "BYTE_ARRAY"
        and (columns is None or leaf.path.partition(".")[0] in columns)
        for leaf in leaves
    )


def _parquet_blocks(file: DataFile, columns: Columns, rows: int) -> Iterator[pa.Table]:
    with open_parquet(file) as opened:
        wanted = _present(opened.schema_arrow.names, columns, file)
        yield from map(_as_table, opened.iter_batches(batch_size=rows, columns=wanted))


def _arrow(file: DataFile, columns: Columns) -> pa.Table:
    found = list(filter(_has_rows, bounded(_arrow_blocks(file, columns), file)))
    if not found:
        raise LogError(f"{file.path} is empty: it has columns but no rows")
    return pa.concat_tables(found)


def _arrow_blocks(file: DataFile, columns: Columns) -> Iterator[pa.Table]:
    import pyarrow.ipc as ipc

    away = stores.is_url(file.path)
    with stores.opened(file.path) if away else pa.memory_map(file.path) as source:
        every: Any
        if file.format == "arrow-stream":
            reader = every = ipc.open_stream(source)
        else:
            reader = ipc.open_file(source)
            every = map(reader.get_batch, range(reader.num_record_batches))
        wanted = _present(reader.schema.names, columns, file)
        for batch in every:
            # Arrow trusts offsets in a file; a damaged one would be read out of bounds.
            batch.validate(full=True)
            table = pa.Table.from_batches([batch])
            yield table if wanted is None else table.select(wanted)


def _csv_options(
    file: DataFile, columns: Columns, types: dict[str, pa.DataType] | None = None
) -> dict[str, object]:
    from pyarrow import csv as arrow_csv

    delimiter, names = _header(file)
    return {
        "read_options": arrow_csv.ReadOptions(block_size=BLOCK),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter),
        "convert_options": arrow_csv.ConvertOptions(
            strings_can_be_null=True,
            include_columns=_present(names, columns, file),
            column_types=types,
            decimal_point=file.decimal,
        ),
    }


def _header(file: DataFile) -> tuple[str, list[str]]:
    """The delimiter and the names in the first line of a CSV file."""
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
    _refuse_wide(file, len(names))
    return delimiter, names


def delimiter(file: DataFile) -> str:
    """Return what stands between the columns of a CSV file."""
    return _header(file)[0]


def _refuse_wide(file: DataFile, columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise LogError(
            f"{file.path} has {columns:,} columns, more than any log ({MOST_COLUMNS:,}): is it "
            "turned around, or without its line ends?"
        )


def _csv(file: DataFile, columns: Columns) -> pa.Table:
    from pyarrow import csv as arrow_csv

    options = _csv_options(file, columns)
    growth = 0.0
    if unpacked_size(file, BLOCK) == BLOCK:
        # Types are guessed from the whole file, which is parsed in one go: what it will take is
        # told by its start.
        with arrow_stream(file) as stream:
            growth = next(iter(arrow_csv.open_csv(stream, **options))).nbytes / BLOCK
    with arrow_stream(file, growth=growth) as stream:
        return arrow_csv.read_csv(stream, **options)


def _csv_blocks(file: DataFile, columns: Columns, types: Types) -> Iterator[pa.Table]:
    from pyarrow import csv as arrow_csv

    with arrow_stream(file) as stream:
        reader = arrow_csv.open_csv(stream, **_csv_options(file, columns, types))
        yield from map(_as_table, reader)


def _jsonl(file: DataFile, columns: Columns) -> pa.Table:
    found = list(bounded(_jsonl_blocks(file, columns), file))
    if not found:
        raise LogError(f"{file.path} is empty: there are no rows")
    return pa.concat_tables(found, promote_options="permissive")


def _jsonl_blocks(file: DataFile, columns: Columns) -> Iterator[pa.Table]:
    from pyarrow import json as arrow_json

    first_line, known = 0, None
    for block in _line_blocks(file):
        if first_line == 0 and block.lstrip()[:1] == b"[":
            raise LogError(f"{file.path} is one JSON array; write one object a line (JSON Lines)")
        _refuse_deep(block, file, first_line)
        for piece in _with_few_cells(block, _count_keys(block, file)):
            size = max(len(piece) + 1, 1024)
            options = arrow_json.ReadOptions(block_size=size, use_threads=False)
            try:
                table = arrow_json.read_json(pa.BufferReader(piece), read_options=options)
            except pa.ArrowInvalid as problem:
                where = f"in the block that starts at line {first_line + 1}"
                raise LogError(f"{file.path} is not valid JSON Lines {where}: {problem}") from None
            known = table.column_names if known is None else known
            if columns is not None and file.guesses_context:
                place = f"{file.path}, in the block that starts at line {first_line + 1}"
                _refuse_late({*table.column_names}.difference(known, columns), place)
            first_line += piece.count(b"\n")
            yield table if columns is None else _selected(table, columns)


def _refuse_late(names: Iterable[str], where: str) -> None:
    """Raise for columns of context that the first lines, which tell the columns, do not have."""
    late = sorted(name for name in names if name.startswith("x_"))
    if late:
        raise LogError(
            f"{where}: objects have a key '{late[0]}', which those in the first lines do not have",
            remedy="write it in the first line too, as null where it is not known, or name the "
            f"columns of context with {say('--context', 'NAME')}",
        )


def _refuse_deep(block: bytes, file: DataFile, first_line: int) -> None:
    """Raise for objects nested so deeply that Arrow's parser, which recurses, would crash."""
    depth = 0
    for first in range(0, len(block), _LOOK):
        letters = np.frombuffer(
            block, dtype=np.uint8, count=min(_LOOK, len(block) - first), offset=first
        )
        steps = np.isin(letters, (91, 123)).astype(np.int32) - np.isin(letters, (93, 125))
        levels = np.cumsum(steps, dtype=np.int32)
        if depth + int(levels.max(initial=0)) > MOST_LEVELS:
            break
        depth = max(0, depth + int(levels[-1]))
    else:
        return
    # Brackets inside texts do not count; looking at them closely takes time, so only where there is
    # doubt.
    for number, line in enumerate(block.split(b"\n"), first_line + 1):
        bare = np.frombuffer(re.sub(rb'"(?:\\.|[^"\\])*"?', b"", line), dtype=np.uint8)
        steps = np.isin(bare, (91, 123)).astype(np.int32) - np.isin(bare, (93, 125))
        if len(bare) and int(np.cumsum(steps).max()) > MOST_LEVELS:
            raise LogError(
                f"{file.path}, line {number}: lists and objects are nested more than "
                f"{MOST_LEVELS} deep"
            )


def _count_keys(block: bytes, file: DataFile) -> int:
    """Return how many different keys the objects of a block have, at most; raise for more than a log has columns."""
    count = len(set(_KEYS.findall(block)))
    if count <= MOST_COLUMNS:
        return count
    # Texts may hold what looks like keys; looking closely takes time, so only where there is doubt.
    keys: set[tuple[str, ...]] = set()
    for line in block.split(b"\n"):
        with contextlib.suppress(ValueError):  # Arrow's parser says where it is no JSON.
            _note_keys(json.loads(line or b"0"), (), keys)
        if len(keys) > MOST_COLUMNS:
            raise LogError(
                f"{file.path}: its objects have more than {MOST_COLUMNS:,} different keys",
                remedy='write ids as values, {"id": 7, "clicks": 1}, not as keys, {"7": 1}',
            )
    return len(keys)


def _note_keys(value: object, above: tuple[str, ...], keys: set[tuple[str, ...]]) -> None:
    """Add the keys of objects in a value; the same key in other places is another one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            keys.add((*above, key))
            _note_keys(inner, (*above, key), keys)
    elif isinstance(value, list):
        for inner in value:
            _note_keys(inner, above, keys)


def _with_few_cells(block: bytes, keys: int) -> Iterator[bytes]:
    """Yield the lines of a block, fewer at a time where they have many keys.

    Arrow's parser takes a tenth of a microsecond for each key that a line does not have.
    """
    rows = max(_FEWEST_LINES, _MOST_CELLS // max(keys, 1))
    if block.count(b"\n") <= rows:
        yield block
        return
    lines = block.rstrip(b"\n").split(b"\n")
    for first in range(0, len(lines), rows):
        yield b"\n".join([*lines[first : first + rows], b""])


#: What looks like a key; in a text, quotes are escaped but look the same.
_KEYS = re.compile(rb'"([^"]*)"\s*:')
#: Lines times keys that go to Arrow's parser together, but no fewer lines than tell columns apart.
_MOST_CELLS, _FEWEST_LINES = 10_000_000, 1000


def _selected(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """JSON objects may leave keys out; a block without a key has nulls there."""
    found = [
        table[name] if name in table.column_names else pa.chunked_array([pa.nulls(table.num_rows)])
        for name in columns
    ]
    return pa.table(found, names=list(columns))


def _line_blocks(file: DataFile) -> Iterator[bytes]:
    with Unpacked(file) as stream:
        rest = b""
        while chunk := stream.read(BLOCK):
            whole, newline, tail = (rest + chunk).rpartition(b"\n")
            if newline and whole.strip():
                yield whole + newline
            rest = tail
            if len(rest) > MOST_LINE:
                raise LogError(
                    f"{file.path} has a line of more than {MOST_LINE >> 20} MB; write one object "
                    "a line"
                )
        if rest.strip():
            yield rest + b"\n"


_READ = {"parquet": _parquet, "arrow": _arrow, "arrow-stream": _arrow, "csv": _csv, "jsonl": _jsonl}
