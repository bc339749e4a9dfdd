"""Parts of a log in files: light descriptions that another process can read by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import CounterrankError
from counterrank.log import RankingLog
from counterrank.readers import tables, values
from counterrank.readers.decode import decode
from counterrank.readers.guard import guard
from counterrank.readers.paths import DataFile
from counterrank.readers.spec import LogSpec

#: Rankings in a batch, and numbers in a batch where rankings are long.
BATCH_ROWS = 65_536
BATCH_NUMBERS = 8_000_000

#: Segment to read: the value or values a column must have.
Where = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a Parquet file, or a whole file; `start` is the global index of its first ranking."""

    file: DataFile
    start: int
    rows: int | None = None
    groups: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable content."""
        return {
            "file": self.file.to_dict(),
            "start": self.start,
            "rows": self.rows,
            "groups": list(self.groups),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the part written by `to_dict`."""
        groups = tuple(content["groups"])
        return cls(DataFile.from_dict(content["file"]), content["start"], content["rows"], groups)


def read_part(
    part: Part, spec: LogSpec, *, where: Where | None = None, rows: int | None = None
) -> Iterator[RankingLog]:
    """Yield the rankings of a part in batches; `where` keeps one segment. Memory is that of a batch or two."""
    rows = rows or batch_rows(spec)
    columns = tuple(dict.fromkeys([*spec.columns, *(where or ())]))
    if part.groups:
        pieces = tables.row_groups(part.file, part.groups, columns, rows=rows)
    else:
        pieces = tables.batches(part.file, columns, rows=rows, types=csv_types(spec))
    if spec.layout == "long":
        pieces = whole_rankings(pieces, spec.ranking or "")
    start, row = part.start, 0
    for table in pieces:
        with guard(part.file.path, prefix=True):
            log, count = _decoded(table, spec, (start, row), where)
        start, row = start + count, row + table.num_rows
        # A suspended generator keeps its variables alive: let go of each batch before the next is read.
        del table
        if log is not None:
            yield log
        del log


def allowed(wanted: Any) -> list[Any]:
    """Return the values that a segment's entry, one value or several, lets through."""
    return list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]


def batch_rows(spec: LogSpec) -> int:
    """Return how many rows a batch has: fewer where rankings are long or carry whole distributions."""
    policies = len(spec.fields) + len(spec.targets)
    width = spec.K * policies + len(spec.context) + sum(max(d.size, 1) * spec.K for d in spec.dists.values())
    rankings = min(BATCH_ROWS, max(1, BATCH_NUMBERS // max(width, 1)))
    return rankings * spec.K if spec.layout == "long" else rankings


def csv_types(spec: LogSpec) -> dict[str, pa.DataType]:
    """Return the types of CSV columns, so that later blocks are read like the first."""
    numbers = [*spec.fields.items(), *spec.targets.items(), *spec.dists.items()]
    types = {
        name: pa.float64()
        for role, field in numbers
        for name in field.columns
        if role != "action" and field.form in ("wide", "scalar")
    }
    if spec.action_names is not None or spec.fields["action"].form == "text":
        types |= {name: pa.string() for name in spec.fields["action"].columns}
    types |= {name: pa.string() for name in spec.categories}
    return types


def whole_rankings(pieces: Iterator[pa.Table], ranking: str) -> Iterator[pa.Table]:
    """Yield long-format pieces cut between rankings, never inside one."""
    rest: pa.Table | None = None
    for piece in pieces:
        table = piece if rest is None else pa.concat_tables([rest, piece], promote_options="permissive")
        cut = _last_ranking(values.plain(values.one_chunk(table[ranking])))
        rest = table.slice(cut)
        if cut:
            yield table.slice(0, cut)
    if rest is not None and rest.num_rows:
        yield rest


def _last_ranking(ids: pa.Array) -> int:
    """The row at which the last ranking starts."""
    differs = pc.fill_null(pc.not_equal(ids, ids[len(ids) - 1]), True).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(differs)
    return int(rows[-1]) + 1 if len(rows) else 0


def _decoded(table: pa.Table, spec: LogSpec, at: tuple[int, int], where: Where | None) -> tuple[RankingLog | None, int]:
    """The rankings of a piece that belong to the segment, and how many there are in all."""
    start, row = at
    if not where or spec.layout == "long":
        log = decode(table, spec, start=start, first_row=row)
        if not where:
            return log, log.n
        rows = np.flatnonzero(_matches({name: log.columns[name] for name in where}, where))
        return (log.take(rows) if len(rows) else None), log.n
    keep = _matches({name: values.objects(values.one_chunk(table[name])) for name in where}, where)
    if not keep.any():
        return None, table.num_rows
    bucket = _row_buckets(start, table.num_rows)[keep]
    try:
        log = decode(table.filter(pa.array(keep)), spec, start=start, bucket=bucket)
    except CounterrankError as problem:
        raise type(problem)(f"{problem} (row numbers count the selected rows, from {start})") from None
    object.__setattr__(log, "selected", start + np.flatnonzero(keep))
    return log, table.num_rows


def _matches(columns: Mapping[str, NDArray[Any]], where: Where) -> NDArray[np.bool_]:
    keep = np.ones(len(next(iter(columns.values()))), dtype=bool)
    for name, wanted in where.items():
        hit = np.zeros(len(keep), dtype=bool)
        for value in allowed(wanted):
            hit |= np.asarray(columns[name] == value, dtype=bool)
        keep &= hit
    return keep


def _row_buckets(start: int, n: int) -> NDArray[np.int64]:
    from counterrank.kernels import hashing

    result = np.empty(n, dtype=np.int64)
    hashing.row_buckets(start, result)
    return result
