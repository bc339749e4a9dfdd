"""Rankings as lists made into one row per candidate, so that one look serves all layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.common.arrays import Ints
from counterrank.io import prepare, tables, values
from counterrank.io.files import DataFile
from counterrank.io.roles import named

#: Rankings that are looked at.
_RANKINGS = 20_000
#: Share of rankings in which an item stands once, or that show nothing but candidates.
_NEARLY = 0.99


@dataclass(frozen=True, slots=True)
class Exploded:
    """Files of one row per candidate, and what their columns were: the number of the ranking, the place, the item."""

    files: list[DataFile]
    page: str
    place: str
    item: str
    #: The roles of the lists of items.
    columns: dict[str, str]
    #: Columns with an entry for each candidate.
    by_candidate: frozenset[str]
    #: Columns with an entry for each shown item or candidate.
    entries: frozenset[str]


def exploded(files: Sequence[DataFile], stated: Mapping[str, str]) -> Exploded | None:
    """Return rankings in lists or numbered columns as rows, or nothing where cells hold single values."""
    table = tables.sample(files[0], _RANKINGS)
    lists = _lists(table)
    shown, candidates = _items(lists, stated)
    if not shown:
        return None
    base = lists[candidates or shown]
    row, _ = values.places(values.entry_counts(base))
    place = _places(lists[shown], base)
    columns: dict[str, Any] = {
        " request": pa.array(row),
        " position": pa.array(place, mask=place < 0),
    }
    by_candidate = set()
    counts, shown_counts = values.entry_counts(base), values.entry_counts(lists[shown])
    starts = np.cumsum(shown_counts) - shown_counts
    for name, column in lists.items():
        lengths = values.entry_counts(column)
        if np.array_equal(lengths, counts):
            columns[name] = values.plain(column.flatten())
            by_candidate.add(name)
        elif np.array_equal(lengths, shown_counts) and name != shown:
            index = pa.array(starts[row] + place - 1, mask=place < 0)
            columns[name] = values.plain(column.flatten()).take(index)
    entries = frozenset(columns)
    numbered = {f"{name}_{k}" for name in lists for k in range(1001)}
    for name in table.column_names:
        if name not in lists and name not in numbered:
            columns[name] = values.plain(values.one_chunk(table[name])).take(pa.array(row))
    roles = {"action": shown} | ({"candidates": candidates} if candidates else {})
    written_files = tables.written([(prepare.plain_types(pa.table(columns)), "the log")])
    return Exploded(
        written_files,
        " request",
        " position",
        candidates or shown,
        roles,
        frozenset(by_candidate),
        entries,
    )


def _lists(table: pa.Table) -> dict[str, Any]:
    """Return the columns of lists, also those written as text and those that are numbered."""
    lists: dict[str, Any] = {}
    stems: dict[str, list[str]] = {}
    for name in table.column_names:
        kind = table.schema.field(name).type
        cells = table[name].slice(0, 100).to_pylist() if values.is_text(kind) else []
        if (
            values.is_list(kind)
            and not values.is_list(kind.value_type)
            and not pa.types.is_struct(kind.value_type)
        ):
            lists[name] = values.as_lists(table[name], name)
        elif any(cell and values.looks_like_list(cell) for cell in cells):
            lists[name] = values.as_lists(table[name], name)
        elif number := re.fullmatch(r"(.+)_(\d+)", name):
            stems.setdefault(number[1], []).append(name)
    # A single numbered column is a list where the items are one.
    fewest = 1 if "action_1" in table.column_names else 2
    for stem, names in stems.items():
        run = [name for k in range(len(names) + 1) if (name := f"{stem}_{k}") in names]
        kinds = {table.schema.field(name).type for name in run}
        if (
            len(run) == len(names) >= fewest
            and len(kinds) == 1
            and stem not in lists
            and stem != "x"
        ):
            entries = [values.plain(values.one_chunk(table[name])) for name in run]
            order = np.arange(len(run) * table.num_rows).reshape(len(run), -1).T.ravel()
            widths = np.full(table.num_rows, len(run))
            lists[stem] = prepare.as_listed(pa.chunked_array(entries), order, widths)
    return lists


def _items(lists: Mapping[str, Any], stated: Mapping[str, str]) -> tuple[str, str]:
    """Return the lists of shown items and of candidates, empty where there is none."""
    fits = [name for name, column in lists.items() if _never_twice(column)]
    hinted = [name for name in (stated.get("action", ""), *named(lists, "action")) if name in lists]
    longer = [name for name in (stated.get("candidates", ""), "candidates") if name in lists]
    if hinted:
        shown = hinted[0]
    else:
        fits = [name for name in fits if name not in longer]
        fits.sort(key=lambda name: values.entry_counts(lists[name]).sum())
        shown = fits[0] if fits else ""
    if not shown or longer:
        return shown, longer[0] if longer and shown else ""
    containing = [name for name in fits if name != shown and _contains(lists[name], lists[shown])]
    return shown, containing[0] if containing else ""


def _codes(*columns: Any) -> list[Ints]:
    """Return the entries of lists as whole numbers, equal where they are."""
    texts = [values.plain(column.flatten()).cast(pa.large_string()) for column in columns]
    codes = np.asarray(pa.concat_arrays(texts).dictionary_encode().indices.fill_null(-1))
    return np.split(codes, np.cumsum([len(text) for text in texts])[:-1])


def _never_twice(column: Any) -> bool:
    """Whether lists hold ids that stand once in a list and return in others."""
    kind = column.type.value_type
    if not (values.is_text(kind) or pa.types.is_integer(kind)):
        return False
    (codes,), (row, _) = _codes(column), values.places(values.entry_counts(column))
    pairs = len(np.unique(np.stack([row, codes]), axis=1).T)
    return len(codes) > 0 and pairs >= _NEARLY * len(codes) and len(np.unique(codes)) < len(codes)


def _places(shown: Any, base: Any) -> Ints:
    """Return the place at which each entry of `base` was shown, from 1; -1 where it was not."""
    codes, base_codes = _codes(shown, base)
    row, place = values.places(values.entry_counts(shown))
    width = int(max(codes.max(initial=0), base_codes.max(initial=0))) + 2
    keys = row * width + codes
    order = np.argsort(keys, kind="stable")
    mine = values.places(values.entry_counts(base))[0] * width + base_codes
    index = np.minimum(np.searchsorted(keys[order], mine), max(len(keys) - 1, 0))
    hit = keys[order][index] == mine if len(keys) else np.zeros(len(mine), bool)
    return np.where(hit & (base_codes >= 0), place[order][index] + 1, -1)


def _contains(longer: Any, shown: Any) -> bool:
    """Whether lists hold all that others show, and more."""
    if values.entry_counts(longer).sum() <= values.entry_counts(shown).sum():
        return False
    hits = int((_places(shown, longer) > 0).sum())
    return hits >= _NEARLY * int(values.entry_counts(shown).sum())
