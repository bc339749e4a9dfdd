"""Tables of any format and order, made into temporary Parquet with one row a ranking.

What is one row a ranking already is written down as it is read. Rows that are positions are sorted
by DuckDB, out of core, and cut into lists here; a table whose rankings stand together keeps its
order, any other has the order of the rankings' ids.
"""

import glob
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from counterrank import stores
from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.events import JoinedEvents
from counterrank.errors import CounterrankError, LogError
from counterrank.io import sql, tables, values
from counterrank.io.events import Events, Join, Shares
from counterrank.io.files import HARMLESS, DataFile, expand, unpacked_size
from counterrank.io.spec import Field, LogSpec

#: Where a row comes from: the number of its file, and its own in that file.
FILE, ROW = " file", " row"
#: How many events were joined to a row.
COUNT = " n"
#: Rankings of a row group.
GROUP = 65_536

#: Takes a piece that was written down.
Note = Callable[[pa.Table], None]
#: Where row i of a piece comes from, in words.
PlaceOf = Callable[[int], str]


class Room:
    """A temporary folder that goes with the last who uses it."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="counterrank-")
        self.close = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        # On a worker nobody may remove it.
        return type(None), ()


@dataclass(slots=True)
class _Writer:
    """Writes pieces to Parquet; where their types change, a new file begins."""

    room: Room
    note: Note
    files: list[DataFile] = field(default_factory=list)
    _open: Any = None
    _shown: str = ""

    def write(self, piece: pa.Table, shown: str) -> None:
        """Append a piece of the data that messages call `shown`."""
        if self._open is None or shown != self._shown or piece.schema != self._open.schema:
            self.finish()
            path = str(Path(self.room.path) / f"{len(self.files):05}.parquet")
            text = [item.name for item in piece.schema if values.is_text(item.type)]
            self._open = pq.ParquetWriter(
                path, piece.schema, compression="lz4", use_dictionary=text, write_statistics=False
            )
            self._shown = shown
            self.files.append(DataFile(path, "parquet", shown=shown))
        self._open.write_table(piece, row_group_size=GROUP)
        self.note(piece)

    def finish(self) -> None:
        """Close the file that is being written."""
        if self._open is not None:
            self._open.close()
            self._open = None
            self.files[-1] = replace(self.files[-1], stamp=stores.stamp(self.files[-1].path))


def written(pieces: Iterator[tuple[pa.Table, str]], note: Note) -> tuple[Room, list[DataFile]]:
    """Return a folder and the Parquet files in it that hold all pieces, in their order."""
    room = Room()
    writer = _Writer(room, note)
    try:
        for piece, shown in pieces:
            if piece.num_rows:
                writer.write(piece, shown)
            del piece
        writer.finish()
        return room, writer.files
    except BaseException:
        writer.finish()
        room.close()
        raise


def as_they_are(
    files: Sequence[DataFile], spec: LogSpec, events: Events | None = None
) -> Iterator[tuple[pa.Table, str]]:
    """Yield the pieces of files with one row a ranking, and the file of each."""
    for file in files:
        for piece in tables.batches(file, _physical(spec, events), types=_csv_types(spec)):
            yield piece, file.path


def _csv_types(spec: LogSpec) -> dict[str, pa.DataType]:
    """Return the types of CSV columns, so that later blocks are read like the first."""
    numbers = [*spec.fields.items(), *spec.targets.items(), *spec.dists.items()]
    numbers += [("reward", item) for item in spec.rewards.values()]
    types = {
        name: pa.float64()
        for role, item in numbers
        for name in item.columns
        if role != "action" and not item.has_lists
    }
    if spec.fields["action"].form == "text":
        types |= {name: pa.string() for name in spec.fields["action"].columns}
    return types


#: Takes what became of the events, once all is joined.
Report = Callable[[JoinedEvents], None]


def rankings_of(
    files: Sequence[DataFile], spec: LogSpec, events: Events | None = None, report: Report = print
) -> Iterator[pa.Table]:
    """Yield whole rankings as lists from files of one row a position, in any order."""
    paths = [file.path for file in files]
    one = len(paths) == 1

    def place(file: int, row: int) -> str:
        return f"row {row}" if one else f"{paths[file]}: row {row}"

    with _connected(files, _physical(spec, events), events, _csv_types(spec)) as opened:
        yield from _cut(opened, spec, place, _attached(opened, spec, events, report))


def rankings_in(
    table: pa.Table, spec: LogSpec, events: Events | None = None, report: Report = print
) -> pa.Table:
    """Return the rankings of a table of one row a position as lists, one row each."""
    columns = _physical(spec, events)
    tables.refuse_missing(columns, table.column_names)
    number = pa.array(np.arange(table.num_rows, dtype=np.int64))
    source = _plain(table.select(columns))
    source = source.append_column(FILE, pa.repeat(pa.scalar(0, pa.int32()), table.num_rows))
    with _connected(source.append_column(ROW, number), columns, events) as opened:
        joined = _attached(opened, spec, events, report)
        (made,) = _cut(opened, spec, lambda _, row: f"row {row}", joined, whole=True)
        return made


def _physical(spec: LogSpec, events: Events | None) -> list[str]:
    """Return the columns to read: those of the log, and those that events are joined by."""
    if events is None:
        return list(spec.columns)
    names = [name for name in spec.columns if name not in events.names]
    keys = [_column_of(spec, shown) for shown, _ in events.keys]
    return list(dict.fromkeys([*names, *keys, *([events.shown] if events.shown else [])]))


def columns_to_read(spec: LogSpec, events: Events | None, more: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a log that stand in its files, with the keys of a join."""
    return tuple(dict.fromkeys([*_physical(spec, events), *more]))


def _column_of(spec: LogSpec, key: str) -> str:
    """Return the column that a key of a join means: a role, or a column."""
    roles = {"ranking": spec.ranking, "unit": spec.unit, "action": spec.fields["action"].name}
    return roles.get(key) or key


@dataclass(frozen=True, slots=True)
class _Attached:
    """Rewards of events that were joined to rows, under the name of a view with both."""

    source: str
    joined: JoinedEvents
    shares: Shares
    report: Report

    def finish(self) -> None:
        """Hand over what became of the events."""
        found = (*self.joined.findings, self.shares.finding())
        self.report(replace(self.joined, findings=found))


def _attached(
    opened: Any, spec: LogSpec, events: Events | None, report: Report
) -> _Attached | None:
    """Join events to the rows of the view `log`, one row a position."""
    if events is None:
        return None
    ranking = sql.name(spec.ranking or "")
    keys = [_column_of(spec, shown) for shown, _ in events.keys]
    items = (*spec.fields["action"].columns, spec.position)
    row = f'(CAST("{FILE}" AS BIGINT) << 40) + "{ROW}"'
    join = Join(opened, events, events_table(opened, events))
    schema = sql.table(opened, "SELECT * FROM log LIMIT 0").schema
    join.refuse_types(
        {name: schema.field(key).type for (name, _), key in zip(events.keys, keys, strict=True)}
    )
    of_page = events.of_page([*spec.fields["action"].columns, spec.position or "", "action"])
    parts = [f"{sql.name(key)} AS k{i}" for i, key in enumerate(keys)]
    moment = join.moment("log", events.shown) if events.shown else ""
    chosen = [f'{row} AS " id"', *parts, *([f'{moment} AS " t"'] if moment else [])]
    # A candidate that was not shown is none that an event could be about.
    seen = sql.name(spec.position or "")
    rows = f"FROM log WHERE TRY_CAST({seen} AS DOUBLE) >= 0"
    shown, on = f"SELECT {', '.join(chosen)} {rows}", f'{row} = r." id"'
    if of_page:
        first = [f"any_value({sql.name(key)}) AS k{i}" for i, key in enumerate(keys)]
        chosen = [f'{ranking} AS " id"', *first, *([f'min({moment}) AS " t"'] if moment else [])]
        shown = f"SELECT {', '.join(chosen)} {rows} GROUP BY {ranking}"
        on = f'{ranking} = r." id"'
    pages = [i for i, key in enumerate(keys) if key not in items]
    joined = join.run(shown, timed=bool(moment), pages=pages)
    names = ", ".join(f"coalesce(r.{name}, 0) AS {name}" for name in map(sql.name, events.names))
    opened.execute(
        f'CREATE TEMP VIEW "log and events" AS SELECT log.*, {names}, coalesce(r." n", 0) AS "{COUNT}" '
        f"FROM log LEFT JOIN rewards r ON {on}"
    )
    return _Attached('"log and events"', joined, Shares(_grouped(spec), events.shown), report)


def _grouped(spec: LogSpec) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*spec.context, *spec.segments]))


def events_table(opened: Any, events: Events) -> dict[str, pa.DataType]:
    """Make a table `events` of all events, numbered, and return its columns."""
    if isinstance(events.path, str):
        files = expand(events.path)
        _refuse_lacking(files, events)
        found = [_events_of(opened, file, i) for i, file in enumerate(files)]
        opened.execute(f'CREATE TEMP VIEW "events rows" AS {" UNION ALL BY NAME ".join(found)}')
        answer = opened.execute('SELECT * FROM "events rows" LIMIT 0')
        columns = [one[0] for one in answer.description if one[0] not in (FILE, ROW)]
        number, source = f'(CAST("{FILE}" AS BIGINT) << 40) + "{ROW}"', '"events rows"'
    else:
        from counterrank.io.reading import as_table

        table = _plain(as_table(events.path))
        columns, number, source = table.column_names, "row_number() OVER ()", "given"
        opened.register("given", table)
    chosen = ", ".join(map(sql.name, columns))
    opened.execute(
        f'CREATE TEMP TABLE events AS SELECT {chosen}, {number} AS " number" FROM {source}'
    )
    schema = sql.table(opened, f"SELECT {chosen} FROM events LIMIT 0").schema
    return dict(zip(schema.names, schema.types, strict=True))


def _refuse_lacking(files: Sequence[DataFile], events: Events) -> None:
    """Raise when a file lacks a column that is used and others have: its events would count as none."""
    known = [
        {item.name for item in tables.schema(file)} | {*dict(file.partitions)} for file in files
    ]
    for name in sorted(events.used & set().union(*known)):
        for file, names in zip(files, known, strict=True):
            if name not in names:
                raise LogError(
                    f"{file.path} has no column '{name}', which other files of the events have",
                    remedy="write it there too, with nulls where it is not known",
                )


def _events_of(opened: Any, file: DataFile, number: int) -> str:
    """Return a query of a file of events, all of its columns; the types are those of the whole file."""
    where = f'{number}::INTEGER AS "{FILE}", row_number() OVER () AS "{ROW}"'
    said = "".join(f", {_scalar(value)} AS {sql.name(key)}" for key, value in file.partitions)
    reader = _reader(file) if _is_local(file) else ""
    if reader:
        return f"SELECT *, {where}{said} FROM {reader}"
    stored = sql.name(f"events {number}")
    with _stream(tables.batches(file)) as stream:
        opened.register("reader", stream)
        opened.execute(f"CREATE TEMP TABLE {stored} AS FROM reader")
        opened.unregister("reader")
    return f"SELECT *, {where} FROM {stored}"


def _reader(file: DataFile) -> str:
    """Return DuckDB's own reader of a file, where it has one."""
    path = sql.literal(os.path.abspath(file.path))
    if file.format == "parquet":
        return f"read_parquet({path})"
    # Refuses what unpacks without end.
    unpacked_size(file, HARMLESS)
    if file.format == "csv":
        between, point = sql.literal(tables.delimiter(file)), sql.literal(file.decimal)
        return (
            f"read_csv({path}, delim = {between}, header = true, sample_size = -1, "
            f"decimal_separator = {point})"
        )
    if file.format == "jsonl":
        return (
            f"read_json({path}, format = 'newline_delimited', sample_size = -1, "
            "maximum_object_size = 4194304)"
        )
    return ""


#: Takes a call to read all pieces again, from the first.
Read = Callable[[], Iterator[tuple[pa.Table, str]]]


def with_events(
    read: Read, spec: LogSpec, events: Events, report: Report
) -> Iterator[tuple[pa.Table, str]]:
    """Yield pieces of one row a ranking with the rewards that events give them."""
    item = {*spec.fields["action"].columns, spec.fields["action"].name, "action"}
    pages = [i for i, (shown, _) in enumerate(events.keys) if shown not in item]
    of_page = len(pages) == len(events.keys)
    with _connected((), (), events) as opened:
        join = Join(opened, events, events_table(opened, events))
        whole = [own for shown, own in events.keys if shown in item and own in join.columns]
        as_number = bool(whole) and not values.is_text(join.columns[whole[0]])
        with _stream(_flat(read(), spec, events, item, as_number)) as reader:
            types = dict(zip(reader.schema.names, reader.schema.types, strict=True))
            join.refuse_types({shown: types[f"k{i}"] for i, (shown, _) in enumerate(events.keys)})
            opened.register("reader", reader)
            opened.execute("CREATE TEMP TABLE log AS FROM reader")
            opened.unregister("reader")
        timed = events.shown is not None
        moment = f', {join.moment("log", " t")} AS " t"' if timed else ""
        keys = ", ".join(f"k{i}" for i in range(len(events.keys)))
        joined = join.run(f'SELECT " id", {keys}{moment} FROM log', timed=timed, pages=pages)
        names = ", ".join(
            f"coalesce(r.{name}, 0) AS {name}" for name in map(sql.name, events.names)
        )
        query = (
            f'SELECT coalesce(r." n", 0) AS "{COUNT}", {names} FROM log l LEFT JOIN rewards r '
            'ON l." id" = r." id" ORDER BY l." id"'
        )
        attached = _Attached("", joined, Shares(_grouped(spec), events.shown), report)
        flat = _Taking(sql.batches(opened, query))
        for piece, shown in read():
            counts = np.ones(piece.num_rows, dtype=np.int64)
            if not of_page:
                counts = values.entry_counts(_item_lists(piece, spec))
            found = flat.take(int(counts.sum()))
            _count_shares(attached, piece, found[COUNT], counts)
            for name in events.names:
                column = found[name].combine_chunks()
                if not of_page:
                    column = _listed(found[name], np.arange(len(column)), counts)
                piece = piece.append_column(name, column)
            yield piece, shown
        attached.finish()


def _count_shares(
    attached: _Attached, piece: pa.Table, number: pa.ChunkedArray, counts: Ints
) -> None:
    """Note which rankings of a piece have any event."""
    total = np.concatenate([[0], np.cumsum(number.to_numpy())])
    ends = np.cumsum(counts)
    attached.shares.note(piece, pa.array(total[ends] > total[ends - counts]))


class _Taking:
    """Takes rows from a stream of batches, so many at a time."""

    def __init__(self, reader: Any) -> None:
        self.reader = reader
        self.rest = pa.Table.from_batches([], reader.schema)

    def take(self, rows: int) -> pa.Table:
        """Return the next rows."""
        pieces = [self.rest]
        missing = rows - self.rest.num_rows
        while missing > 0:
            pieces.append(_as_table(self.reader.read_next_batch()))
            missing -= pieces[-1].num_rows
        table = pa.concat_tables(pieces)
        self.rest = table.slice(rows)
        return table.slice(0, rows)


def _item_lists(piece: pa.Table, spec: LogSpec) -> pa.Array:
    """Return the items of rankings as lists, however they are written."""
    action = spec.fields["action"]
    if action.has_lists:
        return values.as_lists(piece[action.name], action.name)
    n, width = piece.num_rows, len(action.columns)
    entries = pa.concat_arrays([values.plain(values.one_chunk(piece[c])) for c in action.columns])
    order = np.arange(n * width).reshape(width, n).T.ravel()
    return pa.LargeListArray.from_arrays(
        pa.array(np.arange(n + 1) * width), entries.take(pa.array(order))
    )


def _flat(
    pieces: Iterator[tuple[pa.Table, str]], spec: LogSpec, events: Events, item: set[str], number: bool
) -> Iterator[pa.Table]:  # fmt: skip
    """Yield the keys of what was shown, one row an item, or one row a ranking where no key is the item."""
    start, by_item = 0, any(shown in item for shown, _ in events.keys)
    for piece, _ in pieces:
        lists = _item_lists(piece, spec) if by_item else None
        counts = np.ones(piece.num_rows, dtype=np.int64)
        if lists is not None:
            counts = values.entry_counts(lists)
        row, place = values.places(counts)
        columns = {" id": pa.array(((start + row) << 20) + place)}
        for i, (shown, _) in enumerate(events.keys):
            if shown in item and lists is not None:
                entries = lists.flatten()
                text = number and values.is_text(entries.type)
                columns[f"k{i}"] = entries.cast(pa.int64()) if text else entries
            else:
                columns[f"k{i}"] = _column(piece, _column_of(spec, shown)).take(pa.array(row))
        if events.shown is not None:
            columns[" t"] = _column(piece, events.shown).take(pa.array(row))
        start += piece.num_rows
        yield _plain(pa.table(columns))


def _column(piece: pa.Table, name: str) -> pa.Array:
    tables.refuse_missing([name], piece.column_names)
    return values.plain(values.one_chunk(piece[name]))


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without types that DuckDB does not know."""
    for j, item in enumerate(table.schema):
        if pa.types.is_float16(item.type):
            table = table.set_column(j, item.name, table.column(j).cast(pa.float32()))
        elif pa.types.is_null(item.type):
            table = table.set_column(j, item.name, table.column(j).cast(pa.float64()))
    return table


@contextmanager
def _connected(
    source: Sequence[DataFile] | pa.Table, columns: Sequence[str], events: Events | None = None,
    types: tables.Types = None,
) -> Iterator[Any]:  # fmt: skip
    """Open a connection with a view `log` of the rows; what DuckDB raises becomes one message."""
    import duckdb

    room = Room()
    files = [] if isinstance(source, pa.Table) else list(source)
    beside = expand(events.path) if events is not None and isinstance(events.path, str) else []
    native = [os.path.abspath(f.path) for f in (*files, *beside) if _is_local(f)]
    try:
        with sql.connection(native, folder=room.path) as opened:
            if isinstance(source, pa.Table):
                opened.register("log", source)
            elif files:
                view(opened, "log", files, columns, types)
            yield opened
    except duckdb.Error as problem:
        raise LogError(f"the rows cannot be put together: {sql.reason(problem)}") from None
    finally:
        room.close()


def _is_local(file: DataFile) -> bool:
    """Whether DuckDB can reach a file; patterns in a name it would take for such."""
    return not stores.is_url(file.path) and not glob.has_magic(file.path)


def _is_native(file: DataFile) -> bool:
    """Whether DuckDB reads a file by itself, as we would."""
    return file.format == "parquet" and _is_local(file)


def view(
    opened: Any, name: str, files: Sequence[DataFile], columns: Sequence[str],
    types: tables.Types = None,
) -> None:  # fmt: skip
    """Make a view of some columns of files, with the place of each row.

    What DuckDB does not read by itself it gets from our own reader, and keeps in its folder. `types` are
    those of columns that hold numbers.
    """
    lower = [column.lower() for column in columns]
    for column in columns:
        if lower.count(column.lower()) > 1:
            raise LogError(f"there are two columns called '{column}' but for the case of letters")
    parts = []
    for number, file in enumerate(files):
        if _is_native(file) and not _has_twins(file):
            parts.append(_native(file, number, columns))
        else:
            stored = sql.name(f"{name} {number}")
            with _stream(_numbered(file, number, columns, types)) as reader:
                opened.register("reader", reader)
                opened.execute(f"CREATE TEMP TABLE {stored} AS FROM reader")
                opened.unregister("reader")
            parts.append(f"SELECT * FROM {stored}")
    opened.execute(f"CREATE TEMP VIEW {sql.name(name)} AS {' UNION ALL '.join(parts)}")


def _has_twins(file: DataFile) -> bool:
    """Whether a file has columns that differ by the case of letters alone."""
    names = tables.metadata(file).schema.to_arrow_schema().names
    return len({name.lower() for name in names}) < len(names)


def _native(file: DataFile, number: int, columns: Sequence[str]) -> str:
    stored = set(tables.metadata(file).schema.to_arrow_schema().names)
    said = dict(file.partitions)
    tables.refuse_absent(file, [name for name in columns if name not in said])
    chosen = [
        f"{_scalar(said[name]) if name in said and name not in stored else sql.name(name)}"
        f" AS {sql.name(name)}"
        if name in stored or name in said
        else f"NULL AS {sql.name(name)}"
        for name in columns
    ]
    path = sql.literal(os.path.abspath(file.path))
    return (
        f"SELECT {', '.join(chosen)}, {number}::INTEGER AS {sql.name(FILE)}, "
        f"file_row_number AS {sql.name(ROW)} FROM read_parquet({path}, file_row_number = true)"
    )


def _scalar(value: pa.Scalar) -> str:
    found = value.as_py()
    return "NULL" if found is None else str(found) if isinstance(found, int) else sql.literal(found)


@contextmanager
def _stream(pieces: Iterator[pa.Table]) -> Iterator[Any]:
    """Give pieces to DuckDB as a stream; what goes wrong with them in between comes out as it was."""
    problems: list[CounterrankError] = []
    first = next(pieces)

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from first.to_batches()
            for piece in pieces:
                yield from piece.cast(first.schema).to_batches()
        except CounterrankError as problem:
            problems.append(problem)
            raise
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as problem:
            problems.append(LogError(f"later rows hold other types than the first: {problem}"))
            raise

    try:
        yield pa.RecordBatchReader.from_batches(first.schema, batches())
    except Exception:
        if problems:
            raise problems[0] from None
        raise


def _numbered(
    file: DataFile, number: int, columns: Sequence[str], types: tables.Types = None
) -> Iterator[pa.Table]:
    row = 0
    for piece in tables.batches(file, columns, types=types):
        place = pa.array(np.arange(row, row + piece.num_rows, dtype=np.int64))
        row += piece.num_rows
        source = pa.repeat(pa.scalar(number, pa.int32()), piece.num_rows)
        yield _plain(_cast(piece, types)).append_column(FILE, source).append_column(ROW, place)
    if not row:
        raise LogError(f"{file.path} is empty: it has columns but no rows")


def _cast(piece: pa.Table, types: tables.Types) -> pa.Table:
    """Return a piece whose whole numbers are fractions where later pieces may have some."""
    for j, item in enumerate(piece.schema):
        if pa.types.is_integer(item.type) and item.name in (types or {}):
            piece = piece.set_column(j, item.name, piece.column(j).cast(pa.float64()))
    return piece


def _cut(
    opened: Any, spec: LogSpec, place: Callable[[int, int], str], joined: _Attached | None = None,
    *, whole: bool = False,
) -> Iterator[pa.Table]:  # fmt: skip
    """Yield the rankings of the view `log` as lists."""
    ranking, position = sql.name(spec.ranking or ""), sql.name(spec.position or "")
    number = f"TRY_CAST({position} AS DOUBLE)"
    # Candidates that were not shown have no position, or a negative one.
    counted = "p >= 0" if spec.candidates.items is not None else "true"
    facts = (
        "SELECT count(*) FILTER (id IS DISTINCT FROM before), count(DISTINCT id), "
        f"min(p) FILTER ({counted}), count(*) - count(id) FROM (SELECT {ranking} AS id, "
        f"{number} AS p, lag({ranking}) OVER () AS before FROM log)"
    )
    runs, distinct, lowest, missing = opened.execute(facts).fetchall()[0]
    if missing:
        at = opened.execute(
            f'SELECT "{FILE}", "{ROW}" FROM log WHERE {ranking} IS NULL ORDER BY 1, 2 LIMIT 1'
        ).fetchall()[0]
        raise LogError(
            f"{place(*at)}: '{spec.ranking}' is missing",
            remedy="every row needs the id of its ranking",
        )
    query = f"SELECT * FROM {joined.source if joined else 'log'}"
    if runs > distinct:
        query += f' ORDER BY {ranking}, {number} NULLS LAST, "{FILE}", "{ROW}"'
    elif joined:
        query += f' ORDER BY "{FILE}", "{ROW}"'
    lists = _Lists(spec, min(int(1 if lowest is None or lowest != lowest else lowest), 1))
    reader = sql.batches(opened, query)
    if whole:
        pieces = iter([pa.Table.from_batches(reader, reader.schema)])
    else:
        pieces = _whole_rankings(map(_as_table, reader), spec.ranking or "")
    for piece in pieces:
        files, rows = (piece[name].combine_chunks() for name in (FILE, ROW))

        def where(row: int, files: Any = files, rows: Any = rows) -> str:
            return place(files[row].as_py(), rows[row].as_py())

        made = lists.of(piece, where)
        if joined is not None:
            ids = values.plain(values.one_chunk(piece[spec.ranking]))
            _count_shares(joined, made, piece[COUNT], np.diff(np.append(_starts(ids), len(ids))))
        yield made
        del piece, made
    if joined is not None:
        joined.finish()


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _whole_rankings(pieces: Iterator[pa.Table], ranking: str) -> Iterator[pa.Table]:
    """Yield pieces cut between rankings, never inside one."""
    rest: pa.Table | None = None
    for piece in pieces:
        table = piece if rest is None else pa.concat_tables([rest, piece])
        ids = values.plain(values.one_chunk(table[ranking]))
        others = np.flatnonzero(_differs(ids, ids.slice(len(ids) - 1)))
        cut = int(others[-1]) + 1 if len(others) else 0
        rest = table.slice(cut)
        if cut:
            yield table.slice(0, cut)
    if rest is not None and rest.num_rows:
        yield rest


def _differs(one: pa.Array, other: pa.Array) -> Bools:
    """Return where values differ from others, or from the one other."""
    other = other[0] if len(other) == 1 and len(one) != 1 else other
    found = pc.not_equal(one, other)
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _starts(ids: pa.Array) -> Ints:
    """Return the rows at which a ranking starts."""
    changes = _differs(ids.slice(1), ids.slice(0, len(ids) - 1))
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


class _Lists:
    """How rows that are positions become lists, one row a ranking."""

    def __init__(self, spec: LogSpec, first: int) -> None:
        self.spec, self.first = spec, first
        self.lists = _per_position(spec)
        # The ranking's id is carried, by which messages name it; it may be the unit too.
        beside = (spec.position, *(item.name for item in spec.candidates.fields))
        known = (*spec.context, *spec.segments, spec.unit, spec.behavior, spec.weight, spec.ranking)
        self.single = tuple(
            name
            for name in spec.columns
            if name not in self.lists and (name in known or name not in beside)
        )

    def of(self, table: pa.Table, place: PlaceOf) -> pa.Table:
        """Return the rankings of rows that stand together; `place` says where a row comes from."""
        spec = self.spec
        ids = values.plain(values.one_chunk(table[spec.ranking]))
        starts = _starts(ids)
        code = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ids))))
        found = values.floats(values.one_chunk(table[spec.position]), spec.position or "", place)
        n, rows = int(code[-1]) + 1, np.arange(len(code))
        if spec.candidates.items is not None:
            # Rows of what was not shown would count as positions: they join as candidates only.
            rows = np.flatnonzero(found >= 0)
            self._refuse_unshown(ids, code, rows, n, place)
        position = self._positions(found[rows], rows, place)
        order = _order(code[rows], position)
        rows, position = rows[order], position[order]
        sizes = np.bincount(code[rows], minlength=n)
        self._check(ids, code[rows], position, rows, place)
        columns = {name: _listed(table[name], rows, sizes) for name in self.lists}
        for name in self.single:
            column = self._constant(table[name], name, rows, sizes, place)
            if column is not None:
                columns[name] = column
        for column, own in _beside(spec, self.lists, self.single).items():
            columns[own] = _listed(table[column], np.arange(len(code)), np.bincount(code))
        return pa.table(columns)

    def _refuse_unshown(
        self, ids: pa.Array, code: Ints, rows: Ints, n: int, place: PlaceOf
    ) -> None:
        missing = np.flatnonzero(np.bincount(code[rows], minlength=n) == 0)
        if len(missing):
            row = int(np.argmax(code == missing[0]))
            raise LogError(
                f"{place(row)}: ranking {ids[row].as_py()!r} shows no item: all its rows lack "
                f"'{self.spec.position}'",
                remedy="give the position of what was shown, or drop the ranking",
            )

    def _positions(self, found: Floats, rows: Ints, place: PlaceOf) -> Ints:
        # "Not whole" rather than "broken": a missing position is NaN, which equals nothing.
        bad = ~(found == np.rint(found))
        if bad.any():
            index = int(np.argmax(bad))
            raise LogError(
                f"{place(int(rows[index]))}: '{self.spec.position}' is {found[index]}",
                remedy="positions are the whole numbers 1, 2, ...",
            )
        return found.astype(np.int64) - self.first

    def _check(self, ids: pa.Array, code: Ints, position: Ints, rows: Ints, place: PlaceOf) -> None:
        spec, base = self.spec, self.first
        starts = np.concatenate([[True], np.diff(code) != 0])
        first = np.maximum.accumulate(np.where(starts, np.arange(len(code)), 0))
        expected = np.arange(len(code)) - first
        twice = np.concatenate([[False], (np.diff(code) == 0) & (np.diff(position) == 0)])
        # Gaps are closed by the order of the rows; a position taken twice has no order.
        bad = twice if spec.renumber else (position != expected)
        if not bad.any():
            return
        at = int(np.argmax(twice)) if twice.any() else int(np.argmax(bad))
        label, row = ids[int(rows[at])].as_py(), int(rows[at])
        if twice.any():
            both = " and ".join(_shorter(place(int(rows[at - 1])), place(row)))
            raise LogError(
                f"ranking {label!r} has position {position[at] + base} twice ({both})",
                remedy="keep one row for each position",
            )
        if position[at] < 0:
            raise LogError(
                f"{place(row)}: '{spec.position}' is {position[at] + base} in ranking {label!r}",
                remedy=f"positions start at {base}",
            )
        raise LogError(
            f"ranking {label!r} has position {position[at] + base} but not {expected[at] + base} "
            f"({place(row)})",
            remedy=f"positions run from {base} without gaps",
        )

    def _constant(
        self, column: pa.ChunkedArray, name: str, rows: Ints, sizes: Ints, place: PlaceOf
    ) -> pa.Array | None:
        """The one value a ranking has; None for a guessed segment whose values differ."""
        ordered = _taken(values.plain(values.one_chunk(column)), rows)
        first = pa.array(np.cumsum(sizes) - sizes)
        result = ordered.take(first)
        if name == self.spec.ranking:
            return result
        spread = result.take(pa.array(np.repeat(np.arange(len(sizes)), sizes)))
        # Missing in all rows of a ranking is one value too, though neither null nor NaN equals itself.
        same = pc.fill_null(pc.equal(ordered, spread), False)
        same = pc.or_(same, pc.and_(pc.is_null(ordered), pc.is_null(spread)))
        if pa.types.is_floating(ordered.type):
            nan = pc.and_(pc.is_nan(ordered), pc.is_nan(spread))
            same = pc.or_(same, pc.fill_null(nan, False))
        at = pc.index(same, False).as_py()
        if at < 0:
            return result
        spec = self.spec
        if name in spec.guessed and name not in (
            *spec.context,
            spec.unit,
            spec.behavior,
            spec.weight,
        ):
            return None
        raise LogError(
            f"{place(int(rows[at]))}: '{name}' is {ordered[at].as_py()!r}, but "
            f"{spread[at].as_py()!r} elsewhere in the same ranking",
            remedy="it must be one value a ranking",
        )


def _shorter(one: str, other: str) -> list[str]:
    """Return two places, the first with a plural where both are rows of one file."""
    (head, _, a), (tail, _, b) = one.rpartition("row "), other.rpartition("row ")
    if head != tail:
        return [one, other]
    low, high = sorted((int(a), int(b)))
    return [f"{head}rows {low}", str(high)] if low < high else [one, other]


def _order(code: Ints, position: Ints) -> Ints:
    """Rows by ranking and position; most are in that order already, and then nothing is sorted."""
    step = np.diff(code)
    if ((step > 0) | ((step == 0) & (np.diff(position) >= 0))).all():
        return np.arange(len(code))
    return np.lexsort((position, code))


def _taken(array: pa.Array, rows: Ints) -> pa.Array:
    same = len(rows) == len(array) and bool((np.diff(rows) == 1).all())
    return array if same else array.take(pa.array(rows))


def _listed(column: pa.ChunkedArray, rows: Ints, sizes: Ints) -> pa.Array:
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), type=pa.int64())
    entries = _taken(values.plain(values.one_chunk(column)), rows)
    return pa.LargeListArray.from_arrays(offsets, entries)


def _per_position(spec: LogSpec) -> tuple[str, ...]:
    """Return the columns with one entry a position."""
    rewards = [spec.fields["reward"], *spec.rewards.values()]
    groups = [spec.fields["action"], *(one for one in rewards if one.name not in spec.of_page)]
    # A joint propensity is one number a ranking, repeated in each of its rows.
    if spec.kind != "joint":
        groups += [spec.fields["propensity"]] if "propensity" in spec.fields else []
        groups += list(spec.targets.values())
    groups += list(spec.dists.values())
    return tuple(dict.fromkeys(name for group in groups for name in group.columns))


def _beside(spec: LogSpec, lists: Sequence[str], single: Sequence[str]) -> dict[str, str]:
    """Return the columns with one entry a candidate, and what each is called among the lists.

    A column may have several roles: logger and target rank by one score, a feature is shown too.
    """
    if spec.candidates.items is None:
        return {}
    taken = {*lists, *single}
    names = dict.fromkeys(item.name for item in spec.candidates.fields)
    return {name: f" {name}" if name in taken else name for name in names}


def of_lists(spec: LogSpec) -> LogSpec:
    """Return the spec of what rows that are positions become."""
    shape = _Lists(spec, 1)
    own = _beside(spec, shape.lists, shape.single)

    def listed(item: Field) -> Field:
        return replace(item, form="list")

    def renamed(item: Field) -> Field:
        return replace(item, columns=(own[item.name],), form="list", title=item.label)

    parts, single = spec.candidates, spec.kind == "joint"
    if parts.items is not None:
        parts = replace(
            parts,
            items=renamed(parts.items),
            scores={name: renamed(item) for name, item in parts.scores.items()},
            features=tuple(map(renamed, parts.features)),
            categories={own[name]: labels for name, labels in parts.categories.items()},
        )

    def by_place(item: Field) -> Field:
        return item if item.name in spec.of_page else listed(item)

    fields = {
        role: item if single and role == "propensity" else by_place(item)
        for role, item in spec.fields.items()
    }
    return replace(
        spec,
        layout="list",
        fields=fields,
        targets={name: item if single else listed(item) for name, item in spec.targets.items()},
        dists={name: listed(item) for name, item in spec.dists.items()},
        rewards={name: by_place(item) for name, item in spec.rewards.items()},
        candidates=parts,
        position=None,
        renumber=False,
    )


def without_dropped(spec: LogSpec, table: pa.Table) -> LogSpec:
    """Return the spec without guessed segments that turned out to differ within a ranking."""
    known = set(table.column_names)
    return replace(spec, segments=tuple(name for name in spec.segments if name in known))
