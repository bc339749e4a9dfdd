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
from counterrank.data.events import JoinedEvents
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
        encode = options.encode_actions
        if encode is None:
            # Whole numbers that are too large to number the rows of a table with.
            names = (name for item in cls(spec)._shown for name in item.columns)
            arrays = [values.one_chunk(sample[name]) for name in names]
            flat = [array.flatten() if values.is_list(array.type) else array for array in arrays]
            ids = [array for array in flat if pa.types.is_integer(array.type)]
            encode = any((pc.max(array).as_py() or 0) > values.LARGEST_ID for array in ids)
        return cls(spec, encode)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to look at."""
        fields = (*self._shown, *self.spec.candidates.named)
        names = [name for item in fields for name in item.columns]
        return tuple(dict.fromkeys([*names, *self.spec.context]))

    @property
    def _shown(self) -> list[Field]:
        """The fields that hold items: what was shown and, where they are listed, the candidates."""
        listed = self.spec.candidates.items
        return [self.spec.fields["action"], *([listed] if listed else [])]

    def absorb(self, table: pa.Table) -> None:
        """Take note of a piece."""
        action = self.spec.fields["action"]
        if not action.has_lists:
            self.longest = len(action.columns)
        for item in self._shown:
            for name in item.columns:
                array = values.one_chunk(table[name])
                if item.has_lists:
                    lists = values.as_lists(table[name], name)
                    longest = int(values.entry_counts(lists).max(initial=0))
                    self.longest = max(self.longest, longest if item is action else 0)
                    array = lists.flatten()
                self._items(array, name, item)
        for item in self.spec.candidates.named:
            array = values.one_chunk(table[item.name])
            if item.has_lists:
                array = values.as_lists(table[item.name], item.name).flatten()
            self._note(array, item.name, f"feature '{item.name}'")
        for name in self.spec.context:
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
        spec = self.spec
        categories = {
            name: _ordered(self.labels[name]) for name in spec.context if name in self.labels
        }
        names, lists = self._names(), {}
        for target, unread in spec.lists.items():
            lists[target], names = unread.read(names)
            self.largest = max(self.largest, lists[target].n_items - 1)
        dists = {
            key: replace(item, size=_actions_of(sample, item)) for key, item in spec.dists.items()
        }
        if self.longest <= 0:
            raise LogError(
                f"no ranking shows an item: '{spec.fields['action'].name}' is empty in every row"
            )
        return replace(
            spec,
            K=self.longest,
            categories=categories,
            action_names=names,
            dists=dists,
            lists=lists,
            candidates=self._candidates(spec.candidates, names, sample),
        )

    def _names(self) -> tuple[str, ...] | None:
        if not (self.encode_actions or self.has_names):
            return None
        names = self.labels.get("", set()) | (self.numbers if self.has_names else set())
        _refuse_many(names, "", f"'{self.spec.fields['action'].name}'")
        return _ordered(names)

    def _candidates(
        self, parts: CandidateSpec, names: tuple[str, ...] | None, sample: pa.Table
    ) -> CandidateSpec:
        if not parts:
            return parts
        size = self.largest + 1 if names is None else len(names)
        size = 0 if parts.items is None else size
        categories = {name: _ordered(self.labels.get(name, set())) for name in parts.categories}
        spec = replace(parts, n_items=size, categories=categories, count=self._count(parts, sample))
        if parts.item_file is None:
            return spec
        from counterrank.io.arrow_log import read_item_features

        return replace(spec, item_features=read_item_features(parts.item_file, names, size))

    def _count(self, parts: CandidateSpec, sample: pa.Table) -> int:
        """Return how many candidates a row has, about."""
        field = parts.items or next(iter(parts.scores.values()), None)
        return (
            0
            if field is None
            else int(values.entry_counts(values.as_lists(sample[field.name], field.name)).mean())
            + 1
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
    entries, options, joined = with_scores(in_folders(entries, options.where), options)
    files, sample, spec, options = examined(entries, options, in_memory=False)
    spec = replace(spec, scores=joined)
    survey = Survey.begin(spec, options, sample)
    files = [tables.parquet(file) for file in files]
    if spec.layout != "long" and options.events is None:
        return _planned(files, survey, sample, options)
    prepared = _prepared(files, survey, shown, options)
    return _planned(prepared, survey, tables.sample(prepared[0]), options, surveyed=True)


def examined(
    files: list[DataFile], options: ReadOptions, *, in_memory: bool
) -> tuple[list[DataFile], pa.Table, LogSpec, ReadOptions]:
    """Return the files that are read, their first rows, and how these and the options are understood."""
    files, sample = opening(in_folders(files, options.where))
    with guard(files[0].title, prefix=True):
        options = selecting(options, sample)
        spec = resolve(sample, options, in_memory=in_memory)
        refuse_folders(spec, files)
        refuse_disagreement(spec, files, sample)
    return files, sample, spec, options


def _prepared(
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


def _planned(
    files: list[DataFile],
    survey: Survey,
    sample: pa.Table,
    options: ReadOptions,
    *,
    surveyed: bool = False,
) -> ReadPlan:
    with guard(files[0].title, prefix=True):
        survey.absorb(sample)
    if not surveyed and not _settled(files, survey, sample):
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


def selecting(options: ReadOptions, table: pa.Table) -> ReadOptions:
    """Return options that carry what a condition looks at where a row is a position.

    There it is held against whole rankings.
    """
    where = options.where
    if where is None:
        return options
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


def in_folders(files: list[DataFile], where: Where | None) -> list[DataFile]:
    """Return the files that can hold rows of a condition, by what the folders above them say."""
    if where is None or not any(file.partitions for file in files):
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
