"""Before the first pass: which parts a log has, where each starts, and what its columns are."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.errors import LogError
from counterrank.readers import matrices, tables, values
from counterrank.readers.guard import guard
from counterrank.readers.options import ReadOptions
from counterrank.readers.parts import BATCH_ROWS, Part, Where, allowed
from counterrank.readers.paths import DataFile, expand
from counterrank.readers.resolve import resolve
from counterrank.readers.spec import LogSpec
from counterrank.readers.survey import Survey


@dataclass(frozen=True, slots=True)
class Plan:
    """A spec for all files, the parts to read and the number of rankings, where known."""

    spec: LogSpec
    parts: tuple[Part, ...]
    n: int | None


def plan(path: str | os.PathLike[str], options: ReadOptions, *, format: str | None = None) -> Plan:
    """Return how to read the files at `path` in parts."""
    files = expand(path, format)
    sample = tables.sample(files[0])
    with guard(files[0].path, prefix=True):
        if sample.num_rows == 0:
            raise LogError(f"{files[0].path} is empty: it has columns but no rows")
        survey = Survey(resolve(sample, options, in_memory=False), options.encode_actions)
        survey.absorb(sample.slice(0, sample.num_rows))
    counts = _counts(files, survey, sample)
    with guard(files[0].path, prefix=True):
        spec = survey.finish(sample)
    parts, n = _parts(files, spec, counts)
    return Plan(spec, parts, n)


def pruned(parts: tuple[Part, ...], where: Where) -> tuple[Part, ...]:
    """Return the parts that can hold rows of the segment, by folder names and Parquet's column statistics."""
    wanted = {name: allowed(value) for name, value in where.items()}
    ranges: dict[str, list[dict[str, tuple[Any, Any]]]] = {}
    for part in parts:
        if part.groups and part.file.path not in ranges:
            ranges[part.file.path] = _ranges(part.file, wanted)
    return tuple(part for part in parts if _may_match(part, wanted, ranges.get(part.file.path, [])))


def _may_match(part: Part, wanted: Mapping[str, list[Any]], ranges: list[dict[str, tuple[Any, Any]]]) -> bool:
    if any(value not in wanted.get(key, [value]) for key, value in part.file.partitions):
        return False
    return not part.groups or any(_overlaps(ranges[group], wanted) for group in part.groups)


def _overlaps(known: Mapping[str, tuple[Any, Any]], wanted: Mapping[str, list[Any]]) -> bool:
    try:
        return all(any(low <= value <= high for value in wanted[name]) for name, (low, high) in known.items())
    except TypeError:  # a text compared with a number: the statistics cannot tell
        return True


def _ranges(file: DataFile, names: Iterable[str]) -> list[dict[str, tuple[Any, Any]]]:
    """Smallest and largest value of the named columns in each row group, where the file keeps them."""
    found = []
    with guard(file.path, prefix=True), tables.open_parquet(file) as opened:
        meta = opened.metadata
        for g in range(meta.num_row_groups):
            chunks = [meta.row_group(g).column(j) for j in range(meta.num_columns)]
            kept = [(c.path_in_schema, c.statistics) for c in chunks if c.path_in_schema in names]
            found.append({name: (s.min, s.max) for name, s in kept if s is not None and s.has_min_max})
    return found


def _counts(files: list[DataFile], survey: Survey, sample: pa.Table) -> list[int | None]:
    """Rankings in each file; a pass over the surveyed columns where the schema does not tell enough."""
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
    columns = tuple(dict.fromkeys([*survey.columns, *([survey.spec.ranking] if survey.spec.ranking else [])]))
    count, last = 0, None
    for table in tables.batches(file, columns, types=_text_types(survey, file)):
        with guard(file.path, prefix=True):
            survey.absorb(table)
            if survey.spec.ranking is None:
                count += table.num_rows
            else:
                changes, last = _changes(values.plain(values.one_chunk(table[survey.spec.ranking])), last)
                count += changes
    if count == 0:
        raise LogError(f"{file.path} is empty: it has columns but no rows")
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
        return True
    if action.form == "text":
        return False
    counts = matrices.entry_counts(values.one_chunk(sample[action.name]))
    return bool((counts == counts[0]).all()) and all(_entries(f, action.name) == counts[0] for f in files)


def _entries(file: DataFile, name: str) -> float:
    """Entries of a list column a row, over a whole Parquet file."""
    with guard(file.path, prefix=True), tables.open_parquet(file) as opened:
        meta = opened.metadata
        total = sum(
            meta.row_group(g).column(j).num_values
            for g in range(meta.num_row_groups)
            for j in range(meta.num_columns)
            if meta.row_group(g).column(j).path_in_schema.partition(".")[0] == name
        )
        return total / meta.num_rows if meta.num_rows else np.nan


def _stored_rows(file: DataFile) -> int:
    with guard(file.path, prefix=True), tables.open_parquet(file) as opened:
        return int(opened.metadata.num_rows)


def _parts(files: list[DataFile], spec: LogSpec, counts: list[int | None]) -> tuple[tuple[Part, ...], int | None]:
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
    with guard(file.path, prefix=True), tables.open_parquet(file) as opened:
        sizes = [opened.metadata.row_group(g).num_rows for g in range(opened.metadata.num_row_groups)]
    group: list[int] = []
    rows = 0
    for g, size in enumerate(sizes):
        group.append(g)
        rows += size
        if rows and (rows >= BATCH_ROWS or g == len(sizes) - 1):
            yield Part(file, start, rows, tuple(group))
            start, group, rows = start + rows, [], 0
