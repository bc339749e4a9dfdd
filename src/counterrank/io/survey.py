"""Before the first pass over files: what only a look at all rows can tell, and the parts to read.

The longest ranking and the vocabularies are those of all rows, so that pieces agree; surveys of
pieces add up. Parts are light descriptions that another process can read by itself.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from counterrank.common import stores
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.messages import say
from counterrank.data.events import JoinedEvents, JoinedScores
from counterrank.io import tables, values
from counterrank.io.event_join import with_events
from counterrank.io.files import DataFile, column_chunks, expand, guard
from counterrank.io.options import ReadOptions
from counterrank.io.prepare import Lists, rankings_of
from counterrank.io.schema import CandidateSpec, Field, LogSpec, resolve
from counterrank.io.score_join import with_scores
from counterrank.io.where import Where

#: More distinct names than this are ids or free text, not a vocabulary.
MOST_LABELS = 1_000_000


@dataclass(slots=True)
class Survey:
    """Collects, over pieces of the data, what a spec needs to know of all of it."""

    spec: LogSpec
    encode_actions: bool = False
    longest: int = 0
    labels: dict[str, set[str]] = field(default_factory=dict)
    has_names: bool = False
    #: Ids written as text that are whole numbers: names too, should another piece have a name.
    numbers: set[str] = field(default_factory=set)
    largest: int = -1

    @classmethod
    def begin(cls, spec: LogSpec, options: ReadOptions, sample: pa.Table) -> Self:
        """Return an empty survey; huge ids, hashes for instance, are encoded unless the user says otherwise."""
        survey = cls(spec, bool(options.encode_actions))
        for item in spec.shown if options.encode_actions is None else ():
            for _, array in _entries(sample, item):
                # Whole numbers that are too large to number the rows of a table with.
                if pa.types.is_integer(array.type) and len(array) > array.null_count:
                    survey.encode_actions |= pc.max(array).as_py() > values.LARGEST_ID
        return survey

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to look at."""
        fields = (*self.spec.shown, *self.spec.candidates.named)
        names = [name for item in fields for name in item.columns]
        return tuple(dict.fromkeys([*names, *self.spec.context]))

    def absorb(self, table: pa.Table) -> None:
        """Take note of a piece."""
        spec, action = self.spec, self.spec.fields["action"]
        longest = len(action.columns)
        if action.has_lists:
            lists = values.as_lists(table[action.name], action.name)
            longest = int(values.entry_counts(lists).max(initial=0))
        self.longest = max(self.longest, longest)
        for item in spec.shown:
            for name, array in _entries(table, item):
                self._items(array, name, item)
        for item in spec.candidates.named:
            for name, array in _entries(table, item):
                self._note(array, name, f"feature '{name}'")
        for name in spec.context:
            if values.is_text(table.schema.field(name).type):
                self._note(values.one_chunk(table[name]), name, f"context column '{name}'")

    def __add__(self, other: Self) -> Self:
        keys = self.labels.keys() | other.labels.keys()
        return replace(
            self,
            longest=max(self.longest, other.longest),
            labels={k: self.labels.get(k, set()) | other.labels.get(k, set()) for k in keys},
            has_names=self.has_names or other.has_names,
            numbers=self.numbers | other.numbers,
            largest=max(self.largest, other.largest),
        )

    def finish(self, sample: pa.Table) -> LogSpec:
        """Return the spec with K, vocabularies and the number of actions of whole distributions."""
        spec, names, lists = self.spec, None, {}
        if self.encode_actions or self.has_names:
            labels = self.labels.get("", set()) | (self.numbers if self.has_names else set())
            _refuse_many(labels, "", f"'{spec.fields['action'].name}'")
            names = _ordered(labels)
        for target, unread in spec.lists.items():
            lists[target], names = unread.read(names)
            self.largest = max(self.largest, lists[target].n_items - 1)
        if self.longest <= 0:
            raise LogError(
                f"no ranking shows an item: '{spec.fields['action'].name}' is empty in every row"
            )
        return replace(
            spec,
            K=self.longest,
            categories={n: _ordered(self.labels[n]) for n in spec.context if n in self.labels},
            action_names=names,
            dists={
                n: replace(item, size=_actions_of(sample, item)) for n, item in spec.dists.items()
            },
            lists=lists,
            candidates=self._candidates(names, sample) if spec.candidates else spec.candidates,
        )

    def _candidates(self, names: tuple[str, ...] | None, sample: pa.Table) -> CandidateSpec:
        parts, size = self.spec.candidates, self.largest + 1 if names is None else len(names)
        by_candidate = next(iter(parts.fields), None)
        counts = [0.0]
        if by_candidate is not None:
            lists = values.as_lists(sample[by_candidate.name], by_candidate.name)
            counts = [values.entry_counts(lists).mean() + 1.0]
        features = None
        if parts.item_file is not None:
            from counterrank.io.arrow_log import read_item_features

            features = read_item_features(
                parts.item_file, names, 0 if parts.items is None else size
            )
        return replace(
            parts,
            n_items=0 if parts.items is None else size,
            categories={name: _ordered(self.labels.get(name, set())) for name in parts.categories},
            count=int(counts[0]),
            item_features=features,
        )

    def _items(self, array: pa.Array, name: str, item: Field) -> None:
        if pa.types.is_integer(array.type):
            self.largest = max(self.largest, pc.max(array).as_py() or 0)
        of_numbers = item.form == "text" and values.is_text(array.type)
        if of_numbers:
            fits = pc.match_substring_regex(array, r"^\s*-?\d+(\.0*)?\s*$")
            of_numbers = pc.all(fits).as_py() is not False
        named = values.is_text(array.type) and not of_numbers
        self.has_names |= named
        if named or self.encode_actions:
            self._note(array, "", f"'{name}'")
        elif of_numbers and len(self.numbers) <= MOST_LABELS:  # beyond, they are no vocabulary
            self.numbers |= values.distinct(array)

    def _note(self, array: pa.Array, key: str, what: str) -> None:
        labels = self.labels.setdefault(key, set())
        labels |= values.distinct(array)
        _refuse_many(labels, key, what)


def _entries(table: pa.Table, item: Field) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns of a field, their lists as one array."""
    for name in item.columns:
        column = table[name]
        if item.has_lists:
            yield name, values.as_lists(column, name).flatten()
        else:
            yield name, values.one_chunk(column)


def _refuse_many(labels: set[str], key: str, what: str) -> None:
    if len(labels) > MOST_LABELS:
        raise LogError(
            f"{what} has more than {MOST_LABELS:,} different names (such as "
            f"'{min(labels)[:40]}'); "
            + (
                "use integer ids"
                if key == ""
                else f"choose other context columns with {say('--context', python='context=')}"
            )
        )


def _ordered(labels: set[str]) -> tuple[str, ...]:
    """Sorted, so that codes do not depend on the order of rows; whole numbers by value."""
    if labels and all(label.lstrip("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _actions_of(sample: pa.Table, item: Field) -> int:
    if not item.has_lists:
        return len(item.columns)
    array = values.as_lists(sample[item.name], item.name).drop_null()
    while values.is_list(array.type):
        size = int(values.entry_counts(array).max(initial=0))
        array = array.flatten()
    return size


#: Rankings in a batch, and numbers in a batch where rankings are long.
BATCH_ROWS = 65_536
BATCH_NUMBERS = 8_000_000
#: Numbers held by a sample of a log that is too large for memory: half a gigabyte at most.
SAMPLE_NUMBERS = 64_000_000


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a Parquet file; `start` is the global index of their first ranking."""

    file: DataFile
    start: int
    rows: int
    groups: tuple[int, ...]


def batch_rows(spec: LogSpec) -> int:
    """Return how many rows per batch has: fewer where rankings are long or carry whole distributions."""
    return min(BATCH_ROWS, max(1, BATCH_NUMBERS // _width(spec)))


def sample_rows(spec: LogSpec, rows: int) -> int:
    """Return how many of `rows` rankings a sample may hold.

    Fewer where a ranking has tens of thousands of numbers.
    """
    return min(rows, max(1, SAMPLE_NUMBERS // _width(spec)))


def _width(spec: LogSpec) -> int:
    """Return how many numbers per ranking has, about."""
    policies = len(spec.fields) + len(spec.targets)
    width = (
        spec.K * policies
        + len(spec.context)
        + sum(max(d.size, 1) * spec.K for d in spec.dists.values())
    )
    width += spec.candidates.count * (1 + len(spec.candidates.fields))
    return max(width, 1)


#: A spec for all files, the parts to read and the number of rankings, where known.
ReadPlan = tuple[LogSpec, tuple[FilePart, ...], int | None]


def plan(
    path: str | os.PathLike[str] | list[DataFile],
    options: ReadOptions,
    *,
    format: str | None = None,
) -> ReadPlan:
    """Return how to read files in parts; what is not Parquet with one row per ranking is made so."""
    if isinstance(path, list):
        entries, shown = path, path[0].title
    else:
        entries = expand(path, format, decimal=options.decimal, version=options.version)
        shown = os.fspath(path)
    files, sample, spec, options = examined(entries, options, in_memory=False)
    survey = Survey.begin(spec, options, sample)
    files = [tables.parquet(file) for file in files]
    # Rows are positions, or rewards are in another table.
    is_prepared = spec.layout == "long" or options.events is not None
    if is_prepared:
        files = prepared(files, survey, shown, options)
        sample = tables.sample(files[0])
    with guard(files[0].title, prefix=True):
        survey.absorb(sample)
    if not is_prepared and not _settled(files, survey, sample):
        for file in files:
            for table in tables.batches(file, survey.columns):
                with guard(file.title, prefix=True):
                    survey.absorb(table)
    with guard(files[0].title, prefix=True):
        spec = survey.finish(sample)
    parts, n = _parts(files)
    if options.where is None:
        return spec, parts, n
    parts = pruned(parts, options.where)
    if not parts:
        raise no_match(options.where)
    return spec, parts, None


def examined(
    files: list[DataFile], options: ReadOptions, *, in_memory: bool
) -> tuple[list[DataFile], pa.Table, LogSpec, ReadOptions]:
    """Return the files that are read, their first rows, and how these and the options are understood."""
    joined: tuple[JoinedScores, ...] = ()
    if options.where is not None:
        files = in_folders(files, options.where)
    if options.scores or (options.logger and options.logger.teams):
        files, options, joined = with_scores(files, options)
    files, sample = opening(files)
    with guard(files[0].title, prefix=True):
        if options.where is not None:
            options = selecting(options, options.where, sample)
        spec = resolve(sample, options, in_memory=in_memory)
        if len(files) > 1 or files[0].partitions:
            refuse_folders(spec, files)
            refuse_disagreement(spec, files, sample)
    return files, sample, replace(spec, scores=joined) if joined else spec, options


def prepared(
    files: list[DataFile], survey: Survey, path: str, options: ReadOptions
) -> list[DataFile]:
    """Return Parquet files with one row per ranking and its rewards; the survey knows all of them then."""
    spec, events = survey.spec, options.events
    columns: tuple[str, ...] | None = spec.to_read(events, options.where)
    with guard(path, prefix=spec.layout == "long"):
        if spec.layout == "long":
            survey.spec, columns = Lists(spec).list_spec(), None
            shown = files[0].title if len(files) == 1 else path
            pieces = ((piece, shown) for piece in rankings_of(files, spec, events))
            files = tables.written(pieces, survey.absorb if events is None else None)
        if events is None:
            return files

        def report(joined: JoinedEvents) -> None:
            survey.spec = replace(survey.spec, events=joined)

        def read() -> Iterator[tuple[pa.Table, str]]:
            return (
                (piece, file.title) for file in files for piece in tables.batches(file, columns)
            )

        joined = with_events(read, survey.spec, events, report, spec.position, options.decimal)
        return tables.written(joined, survey.absorb)


def selecting(options: ReadOptions, where: Where, table: pa.Table) -> ReadOptions:
    """Return options that carry what a condition looks at where a row is a position.

    There it is held against whole rankings.
    """
    where.expression(table.schema)
    spec = resolve(table, options, in_memory=False)
    if spec.layout != "long":
        return options
    fields = (*spec.fields.values(), *spec.targets.values(), *spec.candidates.fields)
    inside = {spec.position, *(name for field in fields for name in field.columns)}
    if split := [name for name in where.columns if name in inside]:
        raise ConfigError(
            f"'{split[0]}' differs within a ranking, and a condition selects whole rankings; use "
            "columns with one value per ranking"
        )
    return options.carrying(where.columns)


def opening(files: list[DataFile], *, complete: bool = True) -> tuple[list[DataFile], pa.Table]:
    """Return the files from the first that has rows, and its first rows; Spark writes part files without any.

    With `complete`, columns that only later files have are null there: a log is what all of its files
    say.
    """
    index, sample = 0, tables.sample(files[0])
    while not sample.num_rows:
        index += 1
        if index == len(files):
            raise LogError(f"{files[0].title} is empty: it has columns but no rows")
        sample = tables.sample(files[index])
    names = set(sample.column_names)
    for file in files[index + 1 :] if complete else ():
        # A table knows its columns, and the first file was completed by them.
        for item in tables.schema(file) if file.table is None else ():
            if item.name not in names:
                names.add(item.name)
                sample = sample.append_column(item, pa.nulls(sample.num_rows, item.type))
    return files[index:], sample


def refuse_disagreement(spec: LogSpec, files: list[DataFile], sample: pa.Table) -> None:
    """Raise when a column that is read holds text in one file and numbers in another, say."""
    columns = set(spec.columns) - spec.unasked
    types = {
        item.name: (item.type, files[0].title) for item in sample.schema if item.name in columns
    }
    for file in files[1:] if files[0].table is None else ():
        for item in tables.schema(file):
            if item.name not in types:
                continue
            kind, path = types[item.name]
            if pa.types.is_null(kind):
                types[item.name] = item.type, file.title
            elif not pa.types.is_null(item.type) and _sort(kind) != _sort(item.type):
                raise LogError(
                    f"{file.title}: '{item.name}' holds {item.type}, but {kind} in {path}; the files "
                    "disagree about the types of their columns",
                    remedy="write one type in all of them",
                )


def _sort(kind: pa.DataType) -> str:
    """Return what kind of values per column holds, in or out of lists: text, times, numbers."""
    while values.is_list(kind):
        kind = kind.value_type
    if values.is_text(kind):
        return "text"
    if pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return str(kind.id)
    return "number"


def refuse_folders(spec: LogSpec, files: list[DataFile]) -> None:
    """Raise when the name of a folder would say what only the rows can: an item, a reward, a probability."""
    fields = (*spec.fields.values(), *spec.targets.values(), *spec.dists.values())
    columns = {name for field in fields for name in field.columns} | {spec.ranking, spec.position}
    for file in files:
        for key, value in file.partitions:
            if key in columns:
                raise LogError(
                    f"{file.path}: the folder '{key}={value}' gives every row the same '{key}', "
                    "which each ranking has its own of; put it into the file and rename the folder"
                )


def in_folders(files: list[DataFile], where: Where) -> list[DataFile]:
    """Return the files that can hold rows of a condition, by what the folders above them say."""
    if not any(file.partitions for file in files):
        return files
    schema = opening(files, complete=False)[1].schema
    if not set(where.columns) <= set(schema.names):
        # Only then are files opened that the folders' names might leave out.
        schema = opening(files)[1].schema
    import pyarrow.dataset as ds  # it brings pandas

    may = ds.FileSystemDataset(
        [_fragment(file) for file in files], schema, ds.ParquetFileFormat(), fs.LocalFileSystem()
    ).get_fragments(filter=where.expression(schema))
    paths = {fragment.path for fragment in may}
    matching = [file for file in files if file.path in paths]
    if not matching:
        raise no_match(where)
    return matching


def no_match(where: Where | None) -> LogError:
    """Return the error about a condition that no ranking fits."""
    if where is None:
        return LogError("equal scores decide in every row: without them nothing is left")
    return LogError(f"no ranking matches {where}")


def pruned(parts: tuple[FilePart, ...], where: Where) -> tuple[FilePart, ...]:
    """Return the parts that can hold rows of the condition, by Parquet's column statistics."""
    matching = []
    for file_part in parts:
        file = file_part.file
        with guard(file.title, prefix=True), tables.open_parquet(file) as opened:
            schema = opened.schema_arrow
            partitions = [pa.field(key, value.type) for key, value in file.partitions]
            for item in (*partitions, *(file.table or ())):
                schema = schema if item.name in schema.names else schema.append(item)
            fragment = _fragment(file, file_part.groups)
            if fragment.subset(filter=where.expression(schema), schema=schema).row_groups:
                matching.append(file_part)
    return tuple(matching)


def _fragment(file: DataFile, groups: tuple[int, ...] | None = None) -> Any:
    """Return Arrow's own description of a file, which it holds against conditions."""
    import pyarrow.dataset as ds

    conditions = [
        pc.field(key) == value if value.is_valid else pc.field(key).is_null()
        for key, value in file.partitions
    ]
    system, path = (
        stores.store_of(file.path)
        if groups and stores.is_url(file.path)
        else (fs.LocalFileSystem(), file.path)
    )
    partitioned = reduce(and_, conditions, pc.scalar(True))
    return ds.ParquetFileFormat().make_fragment(
        path, filesystem=system, partition_expression=partitioned, row_groups=groups
    )


def _settled(files: list[DataFile], survey: Survey, sample: pa.Table) -> bool:
    """Whether the start and the metadata tell K and no vocabulary is open."""
    action = survey.spec.fields["action"]
    if survey.labels or survey.encode_actions or action.form == "text":
        return False
    if not _largest_known(files, survey):
        return False
    if not action.has_lists:
        return True
    counts = values.entry_counts(values.one_chunk(sample[action.name]))
    footers = [tables.metadata(file) for file in files]
    entries = [
        sum(chunk.num_values for chunk in column_chunks(footer, (action.name,)))
        for footer in footers
    ]
    return set(counts) == {counts[0]} and entries == [
        counts[0] * footer.num_rows for footer in footers
    ]


def _largest_known(files: list[DataFile], survey: Survey) -> bool:
    """Whether metadata tell the largest id among the candidates, which the survey then knows."""
    items = survey.spec.candidates.items
    if items is None:
        return True
    for file in files:
        for chunk in column_chunks(tables.metadata(file), items.columns):
            told = chunk.statistics
            if told is None or not told.has_min_max or not isinstance(told.max, int):
                return False
            survey.largest = max(survey.largest, told.max)
    return True


def _parts(files: list[DataFile]) -> tuple[tuple[FilePart, ...], int]:
    """Return the row groups of all files, small neighbours together, and the number of their rows."""
    parts: list[FilePart] = []
    start = 0
    for file in files:
        meta = tables.metadata(file)
        groups: list[int] = []
        rows = 0
        for group in range(meta.num_row_groups):
            groups.append(group)
            rows += meta.row_group(group).num_rows
            if rows and (rows >= BATCH_ROWS or group == meta.num_row_groups - 1):
                parts.append(FilePart(file, start, rows, tuple(groups)))
                start, groups, rows = start + rows, [], 0
    return tuple(parts), start
