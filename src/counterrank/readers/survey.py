"""What only a look at all rows can tell: the longest ranking, the vocabularies. Surveys of pieces
add up.
"""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.errors import LogError
from counterrank.readers import columns, values
from counterrank.readers.options import ReadOptions
from counterrank.readers.spec import CandidateSpec, Field, LogSpec

#: More distinct names than this are ids or free text, not a vocabulary.
MOST_LABELS = 1_000_000


@dataclass(slots=True)
class Survey:
    """Collects, over pieces of the data, what a spec needs to know of all of it."""

    spec: LogSpec
    encode_actions: bool = False
    longest: int = 0
    lowest: int = 1
    labels: dict[str, set[str]] = field(default_factory=dict)
    has_names: bool = False
    largest: int = -1

    @classmethod
    def of(cls, spec: LogSpec, options: ReadOptions, sample: pa.Table) -> Self:
        """Return an empty survey; huge ids, hashes for instance, are encoded unless the user says
        otherwise.
        """
        encode = options.encode_actions
        if encode is None:
            listed = spec.candidates.items if spec.candidates is not None else None
            names = (
                *spec.fields["action"].columns,
                *(listed.columns if listed is not None else ()),
            )
            encode = any(_is_huge(sample[name]) for name in names)
        return cls(spec, encode)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to look at."""
        names = list(self.spec.fields["action"].columns)
        names += [name for name in (self.spec.position, self.spec.ranking) if name]
        parts = self.spec.candidates
        if parts is not None:
            names += [] if parts.items is None else list(parts.items.columns)
            names += [field.name for field in parts.features if field.name in parts.categories]
        return tuple(dict.fromkeys([*names, *self.spec.context]))

    def absorb(self, table: pa.Table) -> None:
        """Take note of a piece."""
        self._length(table)
        for name in self.spec.fields["action"].columns:
            self._items(values.one_chunk(table[name]), name, self.spec.fields["action"])
        parts = self.spec.candidates
        if parts is not None and parts.items is not None and not self.spec.position:
            self._items(values.one_chunk(table[parts.items.name]), parts.items.name, parts.items)
        if parts is not None:
            for item in parts.features:
                if item.name in parts.categories:
                    self._note(
                        _entries(table[item.name], item), item.name, f"feature '{item.name}'"
                    )
        for name in self.spec.context:
            if values.is_text(table.schema.field(name).type):
                self._note(values.one_chunk(table[name]), name, f"context column '{name}'")

    def finish(self, sample: pa.Table) -> LogSpec:
        """Return the spec with K, vocabularies and the number of actions of whole distributions."""
        spec = self.spec
        categories = {
            name: _ordered(self.labels[name]) for name in spec.context if name in self.labels
        }
        names = (
            _ordered(self.labels.get("", set())) if self.encode_actions or self.has_names else None
        )
        dists = {
            key: replace(item, size=_actions_of(sample, item)) for key, item in spec.dists.items()
        }
        first = min(self.lowest, 1)
        if self.longest <= 0:
            raise LogError(
                f"no ranking shows an item: '{spec.fields['action'].name}' is empty in every row"
            )
        return replace(
            spec,
            K=self.longest - first + 1 if spec.position and not spec.renumber else self.longest,
            categories=categories,
            action_names=names,
            dists=dists,
            first_position=first,
            candidates=None
            if spec.candidates is None
            else self._candidates(spec.candidates, names, sample),
        )

    def _candidates(
        self, parts: CandidateSpec, names: tuple[str, ...] | None, sample: pa.Table
    ) -> CandidateSpec:
        listed = parts.items is not None
        size = (self.largest + 1 if names is None else len(names)) if listed else 0
        categories = {name: _ordered(self.labels.get(name, set())) for name in parts.categories}
        found = replace(
            parts, n_items=size, categories=categories, count=self._count(parts, sample)
        )
        if parts.item_file is None:
            return found
        from counterrank.readers.candidates import read_item_features

        return replace(found, item_features=read_item_features(parts.item_file, names, size))

    def _count(self, parts: CandidateSpec, sample: pa.Table) -> int:
        """Return how many candidates a row has, about."""
        if self.spec.ranking is not None:
            return -(
                -int(sample.num_rows)
                // max(1, int(pc.count_distinct(sample[self.spec.ranking]).as_py()))
            )
        some = parts.items or next(iter(parts.scores.values()), None)
        return (
            0
            if some is None
            else int(columns.entry_counts(_lists(sample[some.name], some)).mean()) + 1
        )

    def _length(self, table: pa.Table) -> None:
        action = self.spec.fields["action"]
        if self.spec.position and self.spec.renumber:
            rankings = values.plain(values.one_chunk(table[self.spec.ranking or ""]))
            counts = pc.max(pc.value_counts(rankings).field("counts")).as_py()
            self.longest = max(self.longest, counts or 0)
        elif self.spec.position:
            place = values.one_chunk(table[self.spec.position])
            found = values.floats(place, self.spec.position, lambda index: f"row {index}")
            if self.spec.candidates is not None:
                # Candidates that were not shown have no position, or a negative one.
                found = found[found >= 0]
            if len(found):
                self.longest = max(self.longest, int(np.nanmax(found, initial=0)))
                self.lowest = min(self.lowest, int(np.nanmin(found, initial=1)))
        elif action.form in ("wide", "scalar"):
            self.longest = len(action.columns)
        else:
            array = _lists(table[action.name], action)
            self.longest = max(self.longest, int(columns.entry_counts(array).max(initial=0)))

    def _items(self, array: pa.Array, name: str, item: Field) -> None:
        if item.form in ("list", "text"):
            array = _lists(pa.chunked_array([array]), item).flatten()
        if pa.types.is_integer(array.type):
            self.largest = max(self.largest, pc.max(array).as_py() or 0)
        named = values.is_text(array.type) and not (item.form == "text" and _all_whole(array))
        self.has_names = self.has_names or named
        if named or self.encode_actions or (item.form == "text" and self.has_names):
            self._note(array, "", f"'{name}'")

    def _note(self, array: pa.Array, key: str, what: str) -> None:
        known = self.labels.setdefault(key, set())
        known.update(values.as_text(pc.unique(values.plain(array))).drop_null().to_pylist())
        if len(known) > MOST_LABELS:
            raise LogError(
                f"{what} has more than {MOST_LABELS:,} different names (such as "
                f"'{min(known)[:40]}'); "
                + (
                    "use integer ids"
                    if key == ""
                    else "choose other context columns with --context (context= in Python)"
                )
            )


def _is_huge(column: pa.ChunkedArray) -> bool:
    """Whether whole numbers are too large to number rows of a table with."""
    array = values.one_chunk(column)
    array = array.flatten() if values.is_list(array.type) else array
    return (
        bool(pa.types.is_integer(array.type)) and (pc.max(array).as_py() or 0) > values.LARGEST_ID
    )


def _ordered(labels: set[str]) -> tuple[str, ...]:
    """Sorted, so that codes do not depend on the order of rows; whole numbers by value."""
    if labels and all(label.lstrip("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=lambda label: (int(label), label)))
    return tuple(sorted(labels))


def _lists(column: pa.ChunkedArray, item: Field) -> pa.Array:
    array = values.one_chunk(column)
    return array if values.is_list(array.type) else values.parse_lists(array, item.name, 0)


def _entries(column: pa.ChunkedArray, item: Field) -> pa.Array:
    """Return the single values of a column, of lists or not."""
    return values.one_chunk(column) if item.form == "scalar" else _lists(column, item).flatten()


def _all_whole(array: pa.Array) -> bool:
    return bool(
        pc.all(pc.match_substring_regex(array, r"^\s*-?\d+(\.0*)?\s*$")).as_py() is not False
    )


def _actions_of(sample: pa.Table, item: Field) -> int:
    if item.form not in ("list", "text"):
        return len(item.columns)
    array = _lists(sample[item.name], item).drop_null()
    while values.is_list(array.type):
        size = int(columns.entry_counts(array).max(initial=0))
        array = array.flatten()
    return size
