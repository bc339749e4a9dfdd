"""The Music Off-Policy Evaluation Benchmark (Amazon, 2026): rankings of a home page, in Parquet.

A row has L candidates, known by their index and by a vector of 129 numbers each (`actions`); the
ranking that was shown and the target's (`logging_selected_actions`, `target_selected_actions`, at
most 50 places), a reward for each shown item in its order (`rewards`), and a matrix `propensities`
whose entry (i, j) is the chance of the i-th shown item at position j under the logger. Its diagonal
are propensities of kind `position`. The target shows one ranking, so its probability of a shown
item is 1 where both agree, else 0.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank.errors import ConfigError, LogError
from counterrank.log import RankingLog
from counterrank.policies import PolicySpec
from counterrank.readers import columns, tables, values
from counterrank.readers.adapters import common
from counterrank.readers.files import expand
from counterrank.readers.messages import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.reading import from_table
from counterrank.texts import BY_INDEX

Ints = NDArray[np.int64]

#: The target policy's name, and the column whose vectors are read only when they are asked for.
TARGET, VECTORS = "target", "actions"
_LISTS = ("logging_selected_actions", "target_selected_actions", "rewards", "propensities")
#: Rows converted at a time: a matrix has up to 2,500 numbers, vectors some ten thousand.
_ROWS = 1000


def read_amazon_music(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return the benchmark's rankings; the target policy is called "target".

    columns={"candidates": "actions"} reads the candidates with their vectors too, as features z_0,
    z_1 ...; they are some hundred times as large as the rest.
    """
    return load_amazon_music(path, ReadOptions.of(**options))


def load_amazon_music(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the log at `path`."""
    asked = dict(options.columns)
    listed = asked.pop("candidates", None)
    if asked or listed not in (None, VECTORS):
        raise ConfigError(
            "amazon-music has columns of its own; only candidates=actions may be said, which reads "
            "the vectors of candidates"
        )
    unknown = [name for name in options.targets or () if name != TARGET]
    if unknown:
        raise ConfigError(f"amazon-music has one target policy, '{TARGET}', no '{unknown[0]}'")
    wanted = (*_LISTS, *([VECTORS] if listed else []))
    with guard(os.fspath(path), prefix=True):
        pieces, start = [], 0
        for file in expand(path):
            names = tables.sample(file, 1).column_names
            common.refuse_missing(file, names, wanted, "the Music Off-Policy Evaluation Benchmark")
            for piece in tables.batches(file, wanted, rows=_ROWS):
                pieces.append(converted(piece, start, vectors=listed is not None))
                start += piece.num_rows
        if not pieces:
            raise LogError("the log is empty: there are no rows")
        policies: Mapping[str, PolicySpec] = {TARGET: PolicySpec("top")} if listed else {}
        own = replace(
            options, columns={}, propensity_kind="position", policies=policies, targets=(TARGET,)
        )
        log = from_table(pa.concat_tables(pieces), own)
    object.__setattr__(log, "notes", (*log.notes, BY_INDEX))
    return log


def converted(table: pa.Table, start: int, *, vectors: bool) -> pa.Table:
    """Return rows of the benchmark, the first of which is row `start`, in our own columns."""
    shown, shown_counts = _flat(table, "logging_selected_actions", start)
    target, target_counts = _flat(table, "target_selected_actions", start)
    found: dict[str, Any] = {
        "action": _lists(shown_counts, shown),
        "reward": table["rewards"],
        "propensity": _lists(shown_counts, _diagonal(table, shown_counts, start)),
    }
    if vectors:
        return pa.table({**found, **_candidates(table, target, target_counts, start)})
    same = np.zeros(len(shown))
    row, place = _places(shown_counts)
    there = place < target_counts[row]
    first = np.cumsum(target_counts) - target_counts
    same[there] = shown[there] == target[(first[row] + place)[there]]
    return pa.table({**found, TARGET: _lists(shown_counts, same)})


def _diagonal(table: pa.Table, counts: Ints, start: int) -> NDArray[np.float64]:
    """Return each shown item's chance at its own position: entry (k, k) of its row's matrix."""
    outer = values.one_chunk(table["propensities"])
    inner = outer.flatten()
    sizes = columns.entry_counts(outer)
    row, place = _places(counts)
    if (sizes < counts).any():
        bad = int(np.argmax(sizes < counts))
        raise LogError(
            f"row {start + bad}: 'propensities' has {sizes[bad]} rows for {counts[bad]} shown items; "
            "it needs one each"
        )
    at = (np.cumsum(sizes) - sizes)[row] + place
    widths = columns.entry_counts(inner)
    if (widths[at] <= place).any():
        bad = int(np.argmax(widths[at] <= place))
        raise LogError(
            f"row {start + row[bad]}: row {place[bad] + 1} of 'propensities' ends before position "
            f"{place[bad] + 1}; the matrix needs a column for each position"
        )
    flat = values.floats(inner.flatten(), "propensities", lambda index: f"entry {index}")
    diagonal: NDArray[np.float64] = flat[(np.cumsum(widths) - widths)[at] + place]
    return diagonal


def _candidates(table: pa.Table, target: Ints, counts: Ints, start: int) -> dict[str, Any]:
    """Return candidates by index, the target's order as scores, and a list a feature."""
    outer = values.one_chunk(table[VECTORS])
    sizes = columns.entry_counts(outer)
    inner = outer.flatten()
    widths = columns.entry_counts(inner)
    width = int(widths.max(initial=0))
    if (widths != width).any():
        bad = int(np.searchsorted(np.cumsum(sizes), int(np.argmax(widths != width)), side="right"))
        raise LogError(
            f"row {start + bad}: vectors of 'actions' have different lengths; they need one"
        )
    row, place = _places(counts)
    if (target >= sizes[row]).any() or (target < 0).any():
        bad = int(np.argmax((target >= sizes[row]) | (target < 0)))
        raise LogError(
            f"row {start + row[bad]}: 'target_selected_actions' names action {target[bad]}, but "
            f"there are {sizes[row[bad]]}; indices count from 0"
        )
    # What the target does not show it can never show: its order is all that is known of it.
    scores = np.full(int(sizes.sum()), -np.inf)
    scores[(np.cumsum(sizes) - sizes)[row] + target] = -place.astype(np.float64)
    flat = values.floats(inner.flatten(), VECTORS, lambda index: f"entry {index}")
    vectors = flat.reshape(-1, width).astype(np.float32)
    return {
        "candidates": _lists(sizes, _places(sizes)[1]),
        f"{TARGET}_scores": _lists(sizes, scores),
        **{f"z_{j}": _lists(sizes, vectors[:, j]) for j in range(width)},
    }


def _flat(table: pa.Table, name: str, start: int) -> tuple[Ints, Ints]:
    array = values.one_chunk(table[name])
    if not values.is_list(array.type):
        raise LogError(f"'{name}' holds {array.type}; lists of action indices are wanted")
    found = values.integers(array.flatten(), name, lambda index: f"entry {index}")
    return found, columns.entry_counts(array)


def _places(counts: Ints) -> tuple[Ints, Ints]:
    """Return row and place of each entry of ragged lists."""
    row = np.repeat(np.arange(len(counts)), counts)
    return row, np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


def _lists(counts: Ints, flat: NDArray[Any]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(flat)))
