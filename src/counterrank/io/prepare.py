"""Rows that are positions made into one row per ranking.

DuckDB sorts them, out of core, in Parquet files, and here they are cut into lists. A table whose rankings
stand together keeps its order, any other has the order of the rankings' ids.
"""

import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.common import stores
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import LogError
from counterrank.common.messages import say
from counterrank.io import sql, tables, values
from counterrank.io.files import DataFile
from counterrank.io.joined_tables import Events
from counterrank.io.schema import Field, LogSpec
from counterrank.io.tables import Room, written

#: Where a row comes from: the number of its file, and its own in that file.
FILE, ROW = " file", " row"

#: Where row i of a piece comes from, in words.
PlaceOf = Callable[[int], str]


def rankings_of(
    files: Sequence[DataFile], spec: LogSpec, events: Events | None = None
) -> Iterator[pa.Table]:
    """Yield whole rankings as lists from files of one row per position, in any order.

    Keys and times by which events are joined are lists of their own.
    """
    columns = spec.to_read(events)
    tables.refuse_twice([name.lower() for name in columns], "but for the case of letters, ")
    local = [readable(file, columns) for file in files]

    def place(file: int, row: int) -> str:
        return f"row {row}" if len(files) == 1 else f"{local[file].title}: row {row}"

    with connected(local) as opened:
        parts = [native_query(file, number, columns) for number, file in enumerate(local)]
        opened.execute(f"CREATE TEMP VIEW log AS {' UNION ALL '.join(parts)}")
        joined_columns = {} if events is None else spec.joined_by(events)
        yield from _cut(opened, spec, place, joined_columns)


def readable(file: DataFile, columns: Sequence[str] | None = None) -> DataFile:
    """Return a Parquet file that DuckDB reads as we would: of this machine, its columns told apart by name.

    Patterns in a name it would take for such, and letters are the same in both cases.
    """
    file = tables.parquet(file)
    names = tables.schema(file).names
    twins = len({name.lower() for name in names}) < len(names)
    if not (twins or stores.is_url(file.path) or glob.has_magic(file.path)):
        return file
    copies = written((piece, file.title) for piece in tables.batches(file, columns))
    if not copies:
        raise LogError(f"{file.title} is empty: it has columns but no rows")
    return copies[0]


@contextmanager
def connected(files: Sequence[DataFile]) -> Iterator[Any]:
    """Open a connection that reads files; what DuckDB raises becomes one message."""
    paths = [os.path.abspath(file.path) for file in files]
    with (
        closing(Room()) as room,
        sql.plainly("the rows cannot be put together", LogError),
        sql.connection(paths, folder=room.path) as opened,
    ):
        yield opened


def native_query(file: DataFile, number: int, columns: Sequence[str] | None = None) -> str:
    """Return a query of some columns of a Parquet file, or of all, with the place of each row."""
    schema, partitions = tables.schema(file), dict(file.partitions)
    stored = tables.present(schema, columns, file) or schema.names
    chosen = []
    for name in dict.fromkeys([*stored, *partitions]) if columns is None else columns:
        value_sql = sql.name(name)
        if name not in stored:
            value = partitions[name].as_py() if name in partitions else None
            value_sql = "NULL" if value is None else sql.literal(str(value))
            value_sql = str(value) if isinstance(value, int) else value_sql
        elif isinstance(schema.field(name).type, pa.UuidType):
            value_sql = f"CAST({value_sql} AS VARCHAR)"
        chosen.append(f"{value_sql} AS {sql.name(name)}")
    return (
        f"SELECT {', '.join(chosen)}, {number}::INTEGER AS {sql.name(FILE)}, file_row_number AS "
        f"{sql.name(ROW)} FROM read_parquet({sql.literal(os.path.abspath(file.path))}, "
        "file_row_number = true)"
    )


def _cut(
    opened: Any,
    spec: LogSpec,
    place: Callable[[int, int], str],
    renamed: dict[str, str],
) -> Iterator[pa.Table]:
    """Yield the rankings of the view `log` as lists; `renamed` are further columns and their names there."""
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
        first_missing = opened.execute(
            f'SELECT "{FILE}", "{ROW}" FROM log WHERE {ranking} IS NULL ORDER BY 1, 2 LIMIT 1'
        ).fetchall()[0]
        raise LogError(
            f"{place(*first_missing)}: '{spec.ranking}' is missing",
            remedy="every row needs the id of its ranking",
        )
    query = "SELECT * FROM log"
    if runs > distinct:
        query += f' ORDER BY {ranking}, {number} NULLS LAST, "{FILE}", "{ROW}"'
    lists = Lists(spec, min(int(1 if lowest is None or lowest != lowest else lowest), 1), renamed)
    reader = sql.batches(opened, query)
    for piece in _whole_rankings(map(tables.as_table, reader), spec.ranking or ""):
        files, rows = (piece[name].combine_chunks() for name in (FILE, ROW))

        def where(row: int, files: Any = files, rows: Any = rows) -> str:
            return place(files[row].as_py(), rows[row].as_py())

        yield lists.gathered(piece, where)
        del piece


def plain_types(table: pa.Table) -> pa.Table:
    """Return a table without types that DuckDB does not know."""
    replacements = {pa.null(): pa.float64(), pa.float16(): pa.float32()}
    kinds = [(item.name, replacements.get(item.type, item.type)) for item in table.schema]
    return table.cast(pa.schema(kinds))


def _whole_rankings(pieces: Iterator[pa.Table], ranking: str) -> Iterator[pa.Table]:
    """Yield pieces cut between rankings, never inside one."""
    open_rows: pa.Table | None = None
    for piece in pieces:
        table = piece if open_rows is None else pa.concat_tables([open_rows, piece])
        ids = values.plain(values.one_chunk(table[ranking]))
        starts = np.flatnonzero(_differs(ids, ids.slice(len(ids) - 1)))
        cut = int(starts[-1]) + 1 if len(starts) else 0
        open_rows = table.slice(cut)
        if cut:
            yield table.slice(0, cut)
    if open_rows is not None and open_rows.num_rows:
        yield open_rows


def _differs(values_: pa.Array, compared: pa.Array) -> Bools:
    """Return where values differ from others, or from the one other."""
    compared = compared[0] if len(compared) == 1 and len(values_) != 1 else compared
    differs = pc.not_equal(values_, compared)
    return np.asarray(differs.to_numpy(zero_copy_only=False))


class Lists:
    """How rows that are positions become lists, one row per ranking."""

    def __init__(
        self, spec: LogSpec, first: int = 1, further: Mapping[str, str] | None = None
    ) -> None:
        self.spec, self.first, self.further = spec, first, further or {}
        # One number per ranking, repeated in each of its rows: page rewards, joint probabilities.
        repeated = [*spec.of_page]
        if spec.kind == "joint":
            policies = (*spec.targets.values(), spec.fields.get("propensity"))
            repeated += [name for item in policies if item for name in item.columns]
        groups = (spec.fields, spec.rewards, spec.targets, spec.dists)
        columns = (name for group in groups for item in group.values() for name in item.columns)
        self.lists = tuple(dict.fromkeys(name for name in columns if name not in repeated))
        # The ranking's id is carried, by which messages name it; it may be the unit too.
        columns_of_pages = (spec.unit, spec.behavior, spec.weight, spec.ranking)
        single = dict.fromkeys([*repeated, *spec.context, *spec.segments, *columns_of_pages])
        self.single = tuple(name for name in single if name and name not in self.lists)
        #: The columns with one entry per candidate, and what each is called among the lists. A column
        #: may have several roles: logger and target rank by one score, a feature is shown too.
        used = {*self.lists, *self.single}
        named = spec.candidates.fields if spec.candidates.items else ()
        self.beside = {
            item.name: f" {item.name}" if item.name in used else item.name for item in named
        }

    def list_spec(self) -> LogSpec:
        """Return the spec of what rows that are positions become."""
        spec, renamed_to = self.spec, self.beside

        def as_list(item: Field) -> Field:
            return replace(item, form="list") if item.columns[0] in self.lists else item

        def renamed(item: Field) -> Field:
            return replace(item, columns=(renamed_to[item.name],), form="list", title=item.label)

        parts = spec.candidates
        if parts.items is not None:
            parts = replace(
                parts,
                items=renamed(parts.items),
                scores={name: renamed(item) for name, item in parts.scores.items()},
                features=tuple(map(renamed, parts.features)),
                categories={renamed_to[name]: labels for name, labels in parts.categories.items()},
            )
        groups: dict[str, Any] = {
            group: {name: as_list(item) for name, item in getattr(spec, group).items()}
            for group in ("fields", "targets", "dists", "rewards")
        }
        return replace(
            spec, layout="list", candidates=parts, position=None, renumber=False, **groups
        )

    def gathered(self, table: pa.Table, place: PlaceOf) -> pa.Table:
        """Return the rankings of rows that stand together; `place` says where a row comes from."""
        spec = self.spec
        ids = values.plain(values.one_chunk(table[spec.ranking]))
        changes = _differs(ids.slice(1), ids.slice(0, len(ids) - 1))
        starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
        code = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(ids))))
        positions = values.floats(
            values.one_chunk(table[spec.position]), spec.position or "", place
        )
        n, rows = int(code[-1]) + 1, np.arange(len(code))
        if spec.candidates.items is not None:
            # Rows of what was not shown would count as positions: they join as candidates only.
            rows = np.flatnonzero(positions >= 0)
            missing = np.flatnonzero(np.bincount(code[rows], minlength=n) == 0)
            if len(missing):
                row = int(np.argmax(code == missing[0]))
                raise LogError(
                    f"{place(row)}: ranking {ids[row].as_py()!r} shows no item: all its rows lack "
                    f"'{spec.position}'",
                    remedy="give the position of what was shown, or drop the ranking",
                )
        position = self._positions(positions[rows], rows, place)
        order = _order(code[rows], position)
        rows, position = rows[order], position[order]
        sizes = np.bincount(code[rows], minlength=n)
        self._check(ids, sizes, position, rows, place)
        # Rewards that events give are not there yet.
        present = set(table.column_names)
        columns = {
            key: as_listed(table[name], rows, sizes)
            for key, name in {**{name: name for name in self.lists}, **self.further}.items()
            if name in present
        }
        for name in (name for name in self.single if name in present):
            column = self._constant(table[name], name, rows, sizes, place)
            if column is not None:
                columns[name] = column
        for column, list_name in self.beside.items():
            columns[list_name] = as_listed(table[column], np.arange(len(code)), np.bincount(code))
        return pa.table(columns)

    def _positions(self, positions: Floats, rows: Ints, place: PlaceOf) -> Ints:
        # "Not whole" rather than "broken": a missing position is NaN, which equals nothing.
        bad = ~(positions == np.rint(positions))
        if bad.any():
            index = int(np.argmax(bad))
            raise LogError(
                f"{place(int(rows[index]))}: '{self.spec.position}' is {positions[index]}",
                remedy="positions are the whole numbers 1, 2, ...",
            )
        return positions.astype(np.int64) - self.first

    def _check(
        self, ids: pa.Array, sizes: Ints, position: Ints, rows: Ints, place: PlaceOf
    ) -> None:
        spec, base = self.spec, self.first
        _, expected = values.places(sizes)
        twice = (expected > 0) & (np.diff(position, prepend=0) == 0)
        # Gaps are closed by the order of the rows; a position taken twice has no order.
        bad = twice if spec.renumber else (position != expected)
        if not bad.any():
            return
        index = int(np.argmax(twice if twice.any() else bad))
        label, row = ids[int(rows[index])].as_py(), int(rows[index])
        if twice[index]:
            rows_named = " and ".join(_shorter(place(int(rows[index - 1])), place(row)))
            raise LogError(
                f"ranking {label!r} has position {position[index] + base} twice ({rows_named})",
                remedy="keep one row for each position",
            )
        if position[index] < 0:
            raise LogError(
                f"{place(row)}: '{spec.position}' is {position[index] + base} in ranking {label!r}",
                remedy=f"positions start at {base}",
            )
        raise LogError(
            f"ranking {label!r} has position {position[index] + base} but not {expected[index] + base} "
            f"({place(row)})",
            remedy=f"positions run from {base} without gaps; "
            f"{say('--renumber', python='renumber=True')} closes them",
        )

    def _constant(
        self, column: pa.ChunkedArray, name: str, rows: Ints, sizes: Ints, place: PlaceOf
    ) -> pa.Array | None:
        """The one value per ranking has; None for a guessed segment whose values differ."""
        ordered = _rows_of(values.plain(values.one_chunk(column)), rows)
        first = np.cumsum(sizes) - sizes
        result = ordered.take(pa.array(first))
        if name == self.spec.ranking or pa.types.is_null(ordered.type):
            return result
        # Missing in all rows of a ranking is one value too, though neither null nor NaN equals itself.
        codes = np.asarray(ordered.dictionary_encode(null_encoding="encode").indices)
        differs = codes != np.repeat(codes[first], sizes)
        if not differs.any():
            return result
        index = int(np.argmax(differs))
        spec = self.spec
        if name in spec.guessed and name not in (
            *spec.context,
            spec.unit,
            spec.behavior,
            spec.weight,
        ):
            return None
        elsewhere = ordered[int(np.repeat(first, sizes)[index])].as_py()
        raise LogError(
            f"{place(int(rows[index]))}: '{name}' is {ordered[index].as_py()!r}, but "
            f"{elsewhere!r} elsewhere in the same ranking",
            remedy="it must be one value per ranking",
        )


def _shorter(first: str, second: str) -> list[str]:
    """Return two places, the first with a plural where both are rows of one file."""
    (head, _, a), (tail, _, b) = first.rpartition("row "), second.rpartition("row ")
    if head != tail:
        return [first, second]
    low, high = sorted((int(a), int(b)))
    return [f"{head}rows {low}", str(high)] if low < high else [first, second]


def _order(code: Ints, position: Ints) -> Ints:
    """Rows by ranking and position; most are in that order already, and then nothing is sorted."""
    step = np.diff(code)
    if ((step > 0) | ((step == 0) & (np.diff(position) >= 0))).all():
        return np.arange(len(code))
    return np.lexsort((position, code))


def _rows_of(array: pa.Array, rows: Ints) -> pa.Array:
    unchanged = len(rows) == len(array) and bool((np.diff(rows) == 1).all())
    return array if unchanged else array.take(pa.array(rows))


def as_listed(column: pa.ChunkedArray, rows: Ints, sizes: Ints) -> pa.Array:
    """Return chosen rows of a column as consecutive lists of `sizes` entries."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), type=pa.int64())
    entries = _rows_of(values.plain(values.one_chunk(column)), rows)
    return pa.LargeListArray.from_arrays(offsets, entries)
