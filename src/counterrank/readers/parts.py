"""A log in files as parts: where each starts and what its columns are, found out before the first
pass.

Parts are light descriptions that another process can read by itself.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import CounterrankError, LogError
from counterrank.log import RankingLog
from counterrank.readers import columns, tables, values
from counterrank.readers.decoding import decode
from counterrank.readers.files import DataFile, expand, steady
from counterrank.readers.messages import guard
from counterrank.readers.options import ReadOptions
from counterrank.readers.schema import resolve
from counterrank.readers.spec import LogSpec
from counterrank.readers.survey import Survey

#: Rankings in a batch, and numbers in a batch where rankings are long.
BATCH_ROWS = 65_536
BATCH_NUMBERS = 8_000_000
#: Numbers held by a sample of a log that is too large for memory: half a gigabyte at most.
SAMPLE_NUMBERS = 64_000_000

#: Segment to read: the value or values a column must have.
Where = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Some row groups of a Parquet file, or a whole file; `start` is the global index of its first
    ranking.
    """

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
    """Yield the rankings of a part in batches; `where` keeps one segment. Memory is that of a batch
    or two.
    """
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
        # A suspended generator keeps its variables alive: let go of each batch before the next is
        # read.
        del table
        if log is not None:
            yield log
        del log


def allowed(wanted: Any) -> list[Any]:
    """Return the values that a segment's entry, one value or several, lets through."""
    return list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]


def batch_rows(spec: LogSpec) -> int:
    """Return how many rows a batch has: fewer where rankings are long or carry whole distributions."""
    return min(BATCH_ROWS, max(1, BATCH_NUMBERS // _width(spec))) * rows_each(spec)


def sample_rows(spec: LogSpec, rows: int) -> int:
    """Return how many of `rows` rankings a sample may hold: fewer where a ranking has tens of
    thousands of numbers.
    """
    return min(rows, max(1, SAMPLE_NUMBERS // _width(spec)))


def _width(spec: LogSpec) -> int:
    """Return how many numbers a ranking has, about."""
    policies = len(spec.fields) + len(spec.targets)
    width = (
        spec.K * policies
        + len(spec.context)
        + sum(max(d.size, 1) * spec.K for d in spec.dists.values())
    )
    if spec.candidates is not None:
        width += spec.candidates.count * (1 + len(spec.candidates.fields))
    return max(width, 1)


def rows_each(spec: LogSpec) -> int:
    """Return how many rows of a file a ranking takes, about."""
    if spec.layout != "long":
        return 1
    return max(spec.K, spec.candidates.count if spec.candidates is not None else 0)


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
        table = (
            piece if rest is None else pa.concat_tables([rest, piece], promote_options="permissive")
        )
        cut = _last_ranking(values.plain(values.one_chunk(table[ranking])))
        rest = table.slice(cut)
        if cut:
            yield table.slice(0, cut)
    if rest is not None and rest.num_rows:
        yield rest


def _last_ranking(ids: pa.Array) -> int:
    """The row at which the last ranking starts."""
    differs = pc.fill_null(pc.not_equal(ids, ids[len(ids) - 1]), True).to_numpy(
        zero_copy_only=False
    )
    rows = np.flatnonzero(differs)
    return int(rows[-1]) + 1 if len(rows) else 0


def _decoded(
    table: pa.Table, spec: LogSpec, at: tuple[int, int], where: Where | None
) -> tuple[RankingLog | None, int]:
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
        raise type(problem)(
            f"{problem} (row numbers count the selected rows, from {start})"
        ) from None
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


@dataclass(frozen=True, slots=True)
class Plan:
    """A spec for all files, the parts to read and the number of rankings, where known."""

    spec: LogSpec
    parts: tuple[Part, ...]
    n: int | None


def plan(path: str | os.PathLike[str], options: ReadOptions, *, format: str | None = None) -> Plan:
    """Return how to read the files at `path` in parts."""
    files, sample = opening(expand(path, format, decimal=options.decimal))
    with guard(files[0].path, prefix=True):
        survey = Survey.of(resolve(sample, options, in_memory=False), options, sample)
        refuse_folders(survey.spec, files)
        survey.absorb(sample.slice(0, sample.num_rows))
    counts = _counts(files, survey, sample)
    if not any(count != 0 for count in counts):
        raise LogError(f"{files[0].path} is empty: it has columns but no rows")
    with guard(files[0].path, prefix=True):
        spec = survey.finish(sample)
    parts, n = _parts(files, spec, counts)
    return Plan(spec, parts, n)


def opening(files: list[DataFile]) -> tuple[list[DataFile], pa.Table]:
    """Return the files from the first that has rows, and its first rows; Spark writes part files
    without any.
    """
    for index, file in enumerate(files):
        sample = tables.sample(file)
        if sample.num_rows:
            return files[index:], sample
    raise LogError(f"{files[0].path} is empty: it has columns but no rows")


def refuse_folders(spec: LogSpec, files: list[DataFile]) -> None:
    """Raise when the name of a folder would say what only the rows can: an item, a reward, a
    probability.
    """
    fields = (*spec.fields.values(), *spec.targets.values(), *spec.dists.values())
    taken = {name for field in fields for name in field.columns} | {spec.ranking, spec.position}
    for file in files:
        for key, value in file.partitions:
            if key in taken:
                raise LogError(
                    f"{file.path}: the folder '{key}={value}' gives every row the same '{key}', "
                    "which each ranking has its own of; put it into the file and rename the folder"
                )


def pruned(parts: tuple[Part, ...], where: Where) -> tuple[Part, ...]:
    """Return the parts that can hold rows of the segment, by folder names and Parquet's column
    statistics.
    """
    wanted = {name: allowed(value) for name, value in where.items()}
    ranges: dict[str, list[dict[str, tuple[Any, Any]]]] = {}
    for part in parts:
        if part.groups and part.file.path not in ranges:
            ranges[part.file.path] = _ranges(part.file, wanted)
    return tuple(part for part in parts if _may_match(part, wanted, ranges.get(part.file.path, [])))


def _may_match(
    part: Part, wanted: Mapping[str, list[Any]], ranges: list[dict[str, tuple[Any, Any]]]
) -> bool:
    if any(value not in wanted.get(key, [value]) for key, value in part.file.partitions):
        return False
    return not part.groups or any(_overlaps(ranges[group], wanted) for group in part.groups)


def _overlaps(known: Mapping[str, tuple[Any, Any]], wanted: Mapping[str, list[Any]]) -> bool:
    try:
        return all(
            any(low <= value <= high for value in wanted[name])
            for name, (low, high) in known.items()
        )
    except TypeError:  # a text compared with a number: the statistics cannot tell
        return True


def _ranges(file: DataFile, names: Iterable[str]) -> list[dict[str, tuple[Any, Any]]]:
    """Smallest and largest value of the named columns in each row group, where the file keeps them."""
    found = []
    with guard(file.path, prefix=True), steady(file), tables.open_parquet(file) as opened:
        meta = opened.metadata
        for g in range(meta.num_row_groups):
            chunks = [meta.row_group(g).column(j) for j in range(meta.num_columns)]
            kept = [(c.path_in_schema, c.statistics) for c in chunks if c.path_in_schema in names]
            found.append(
                {name: (s.min, s.max) for name, s in kept if s is not None and s.has_min_max}
            )
    return found


def _counts(files: list[DataFile], survey: Survey, sample: pa.Table) -> list[int | None]:
    """Rankings in each file; a pass over the surveyed columns where the schema does not tell
    enough.
    """
    parquet = all(file.format == "parquet" for file in files)
    if parquet and survey.spec.layout != "long":
        if not _settled(files, survey, sample):
            for file in files:
                _look(file, survey)
        return [_stored_rows(file) for file in files]
    simple = survey.spec.layout == "numbered" and not survey.labels and not survey.encode_actions
    if len(files) == 1 and simple:
        return [None]
    return [_look(file, survey) for file in files]


def _look(file: DataFile, survey: Survey) -> int:
    """Survey one file; return its number of rankings."""
    columns = tuple(
        dict.fromkeys([*survey.columns, *([survey.spec.ranking] if survey.spec.ranking else [])])
    )
    count, last = 0, None
    pieces = tables.batches(file, columns, types=_text_types(survey, file))
    if survey.spec.ranking is not None:
        pieces = whole_rankings(pieces, survey.spec.ranking)
    for table in pieces:
        with guard(file.path, prefix=True):
            survey.absorb(table)
            if survey.spec.ranking is None:
                count += table.num_rows
            else:
                changes, last = _changes(
                    values.plain(values.one_chunk(table[survey.spec.ranking])), last
                )
                count += changes
    return count


def _text_types(survey: Survey, file: DataFile) -> dict[str, pa.DataType]:
    """CSV columns known to hold names stay text in every block."""
    types = {name: pa.string() for name in survey.labels if name}
    if survey.has_names or survey.spec.fields["action"].form == "text":
        types |= {name: pa.string() for name in survey.spec.fields["action"].columns}
    return types


def _changes(ids: pa.Array, last: object) -> tuple[int, object]:
    inside = pc.sum(pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1))).as_py() or 0
    first, final = ids[0].as_py(), ids[len(ids) - 1].as_py()
    return inside + (first != last), final


def _settled(files: list[DataFile], survey: Survey, sample: pa.Table) -> bool:
    """Whether the start and the metadata tell K and no vocabulary is open."""
    action = survey.spec.fields["action"]
    if survey.labels or survey.encode_actions:
        return False
    if action.form in ("wide", "scalar"):
        return _largest_known(files, survey)
    if action.form == "text" or not _largest_known(files, survey):
        return False
    counts = columns.entry_counts(values.one_chunk(sample[action.name]))
    return bool((counts == counts[0]).all()) and all(
        _entries(f, action.name) in (counts[0], None) for f in files
    )


def _largest_known(files: list[DataFile], survey: Survey) -> bool:
    """Whether metadata tell the largest id among the candidates, which the survey then knows."""
    parts = survey.spec.candidates
    if parts is None or parts.items is None:
        return True
    for file in files:
        with guard(file.path, prefix=True), steady(file), tables.open_parquet(file) as opened:
            meta = opened.metadata
            for g in range(meta.num_row_groups):
                for j in range(meta.num_columns):
                    chunk = meta.row_group(g).column(j)
                    if chunk.path_in_schema.partition(".")[0] == parts.items.name:
                        told = chunk.statistics
                        if told is None or not told.has_min_max or not isinstance(told.max, int):
                            return False
                        survey.largest = max(survey.largest, told.max)
    return True


def _entries(file: DataFile, name: str) -> float | None:
    """Entries of a list column a row, over a whole Parquet file; None where there are no rows."""
    with guard(file.path, prefix=True), steady(file), tables.open_parquet(file) as opened:
        meta = opened.metadata
        total = sum(
            meta.row_group(g).column(j).num_values
            for g in range(meta.num_row_groups)
            for j in range(meta.num_columns)
            if meta.row_group(g).column(j).path_in_schema.partition(".")[0] == name
        )
        return float(total / meta.num_rows) if meta.num_rows else None


def _stored_rows(file: DataFile) -> int:
    with guard(file.path, prefix=True), steady(file), tables.open_parquet(file) as opened:
        return int(opened.metadata.num_rows)


def _parts(
    files: list[DataFile], spec: LogSpec, counts: list[int | None]
) -> tuple[tuple[Part, ...], int | None]:
    parts: list[Part] = []
    start = 0
    for file, count in zip(files, counts, strict=True):
        if file.format == "parquet" and spec.layout != "long":
            parts += _groups(file, start)
        elif count != 0:
            parts.append(Part(file, start, count))
        start += count or 0
    return tuple(parts), None if None in counts else start


def _groups(file: DataFile, start: int) -> Iterator[Part]:
    """Row groups, small neighbours together."""
    with guard(file.path, prefix=True), steady(file), tables.open_parquet(file) as opened:
        sizes = [
            opened.metadata.row_group(g).num_rows for g in range(opened.metadata.num_row_groups)
        ]
    group: list[int] = []
    rows = 0
    for g, size in enumerate(sizes):
        group.append(g)
        rows += size
        if rows and (rows >= BATCH_ROWS or g == len(sizes) - 1):
            yield Part(file, start, rows, tuple(group))
            start, group, rows = start + rows, [], 0
