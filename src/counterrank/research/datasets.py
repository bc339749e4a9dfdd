"""Public data sets of logged rankings, each in the columns it was published with."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.arrays import Ints
from counterrank.errors import ConfigError, LogError, PropensityError
from counterrank.io import tables, values
from counterrank.io.files import DataFile, Unpacked, arrow_stream, expand, guard
from counterrank.io.options import UNIFORM, ReadOptions
from counterrank.io.reading import Converted, Path, adapter
from counterrank.messages import BY_INDEX, SINGLE_POSITION, STANDARD_DROPPED, say
from counterrank.policies import PolicySpec
from counterrank.texts import listed


def wanted(options: ReadOptions, known: Sequence[str]) -> list[str]:
    """Return the columns to read: those of the format and those the user names."""
    named = [
        name
        for value in options.columns.values()
        for name in ([value] if isinstance(value, str) else value)
    ]
    extra = [
        *(options.context or ()),
        *(options.segments or ()),
        *options.keep,
        *(options.targets or ()),
    ]
    return list(dict.fromkeys([*known, *named, *extra]))


def read_columns(
    files: Sequence[DataFile], columns: Sequence[str], needed: Sequence[str], what: str
) -> pa.Table:
    """Return the files' rows, the columns that are there of those asked for; `needed` must be."""
    pieces = []
    for file in files:
        names = tables.sample(file, 1).column_names
        refuse_missing(file, names, needed, what)
        pieces.append(tables.read_table(file, [name for name in columns if name in names]))
    return pa.concat_tables(pieces, promote_options="permissive")


def refuse_missing(file: DataFile, names: Sequence[str], needed: Sequence[str], what: str) -> None:
    """Raise unless a file has every column of its format."""
    missing = [name for name in needed if name not in names]
    if missing:
        raise LogError(
            f"{file.path} is not {what}: there is no column '{missing[0]}'; columns are "
            f"{listed(names)}"
        )


# The Music Off-Policy Evaluation Benchmark (Amazon, 2026): rankings of a home page, in Parquet.
#
# A row has L candidates, known by their index and by a vector of 129 numbers each (`actions`); the
# ranking that was shown and the target's (`logging_selected_actions`, `target_selected_actions`, at
# most 50 places), a reward for each shown item in its order (`rewards`), and a matrix `propensities`
# whose entry (i, j) is the chance of the i-th shown item at position j under the logger. Its diagonal
# are propensities of kind `position`. The target shows one ranking, so its probability of a shown
# item is 1 where both agree, else 0.

#: The target policy's name, and the column whose vectors are read only when they are asked for.
_TARGET, _VECTORS = "target", "actions"
_MUSIC = ("logging_selected_actions", "target_selected_actions", "rewards", "propensities")
#: Rows converted at a time: a matrix has up to 2,500 numbers, vectors some ten thousand.
MUSIC_ROWS = 1000


@adapter
def read_amazon_music(path: Path, options: ReadOptions) -> Converted:
    """Return the benchmark's rankings; the target policy is called "target".

    columns={"candidates": "actions"} reads the candidates with their vectors too, as features z_0,
    z_1 ...; they are some hundred times as large as the rest.
    """
    vectors = _asks_for_vectors(options)
    with guard(os.fspath(path), prefix=True):
        pieces = list(_converted_pieces(path, vectors))
        if not pieces:
            raise LogError("the log is empty: there are no rows")
        policies: Mapping[str, PolicySpec] = {_TARGET: PolicySpec("top")} if vectors else {}
        own = replace(
            options, columns={}, propensity_kind="position", policies=policies, targets=(_TARGET,)
        )
    return pa.concat_tables(pieces), own, (BY_INDEX,)


def _asks_for_vectors(options: ReadOptions) -> bool:
    """Whether candidates are read with their vectors; raise on what the benchmark has no place for."""
    asked = dict(options.columns)
    listed = asked.pop("candidates", None)
    if asked or listed not in (None, _VECTORS):
        raise ConfigError(
            "amazon-music has columns of its own; only candidates=actions may be said, which reads "
            "the vectors of candidates"
        )
    unknown = [name for name in options.targets or () if name != _TARGET]
    if unknown:
        raise ConfigError(f"amazon-music has one target policy, '{_TARGET}', no '{unknown[0]}'")
    return listed is not None


def _converted_pieces(path: Path, vectors: bool) -> Iterator[pa.Table]:
    wanted = (*_MUSIC, _VECTORS) if vectors else _MUSIC
    start = 0
    for file in expand(path):
        names = tables.sample(file, 1).column_names
        refuse_missing(file, names, wanted, "the Music Off-Policy Evaluation Benchmark")
        for piece in tables.batches(file, wanted, rows=MUSIC_ROWS):
            yield converted(piece, start, vectors=vectors)
            start += piece.num_rows


def converted(table: pa.Table, start: int, *, vectors: bool) -> pa.Table:
    """Return rows of the benchmark, the first of which is row `start`, in our own columns."""
    shown, shown_counts = _flat(table, "logging_selected_actions", start)
    target, target_counts = _flat(table, "target_selected_actions", start)
    found: dict[str, object] = {
        "action": _lists(shown_counts, shown),
        "reward": table["rewards"],
        "propensity": _lists(shown_counts, _diagonal(table, shown_counts, start)),
    }
    if vectors:
        return pa.table({**found, **_music_candidates(table, target, target_counts, start)})
    same = np.zeros(len(shown))
    row, place = values.places(shown_counts)
    there = place < target_counts[row]
    first = np.cumsum(target_counts) - target_counts
    same[there] = shown[there] == target[(first[row] + place)[there]]
    return pa.table({**found, _TARGET: _lists(shown_counts, same)})


def _diagonal(table: pa.Table, counts: Ints, start: int) -> NDArray[np.float64]:
    """Return each shown item's chance at its own position: entry (k, k) of its row's matrix."""
    outer = values.one_chunk(table["propensities"])
    inner = outer.flatten()
    sizes = values.entry_counts(outer)
    row, place = values.places(counts)
    if (sizes < counts).any():
        bad = int(np.argmax(sizes < counts))
        raise LogError(
            f"row {start + bad}: 'propensities' has {sizes[bad]} rows for {counts[bad]} shown items; "
            "it needs one each"
        )
    at = (np.cumsum(sizes) - sizes)[row] + place
    widths = values.entry_counts(inner)
    if (widths[at] <= place).any():
        bad = int(np.argmax(widths[at] <= place))
        raise LogError(
            f"row {start + row[bad]}: row {place[bad] + 1} of 'propensities' ends before position "
            f"{place[bad] + 1}; the matrix needs a column for each position"
        )
    flat = values.floats(inner.flatten(), "propensities", lambda index: f"entry {index}")
    diagonal: NDArray[np.float64] = flat[(np.cumsum(widths) - widths)[at] + place]
    return diagonal


def _music_candidates(table: pa.Table, target: Ints, counts: Ints, start: int) -> dict[str, object]:
    """Return candidates by index, the target's order as scores, and a list a feature."""
    outer = values.one_chunk(table[_VECTORS])
    sizes = values.entry_counts(outer)
    inner = outer.flatten()
    widths = values.entry_counts(inner)
    width = int(widths.max(initial=0))
    if (widths != width).any():
        bad = int(np.searchsorted(np.cumsum(sizes), int(np.argmax(widths != width)), side="right"))
        raise LogError(
            f"row {start + bad}: vectors of 'actions' have different lengths; they need one"
        )
    row, place = values.places(counts)
    if (target >= sizes[row]).any() or (target < 0).any():
        bad = int(np.argmax((target >= sizes[row]) | (target < 0)))
        raise LogError(
            f"row {start + row[bad]}: 'target_selected_actions' names action {target[bad]}, but "
            f"there are {sizes[row[bad]]}; indices count from 0"
        )
    # What the target does not show it can never show: its order is all that is known of it.
    scores = np.full(int(sizes.sum()), -np.inf)
    scores[(np.cumsum(sizes) - sizes)[row] + target] = -place.astype(np.float64)
    flat = values.floats(inner.flatten(), _VECTORS, lambda index: f"entry {index}")
    vectors = flat.reshape(-1, width).astype(np.float32)
    return {
        "candidates": _lists(sizes, values.places(sizes)[1]),
        f"{_TARGET}_scores": _lists(sizes, scores),
        **{f"z_{j}": _lists(sizes, vectors[:, j]) for j in range(width)},
    }


def _flat(table: pa.Table, name: str, start: int) -> tuple[Ints, Ints]:
    array = values.one_chunk(table[name])
    if not values.is_list(array.type):
        raise LogError(f"'{name}' holds {array.type}; lists of action indices are wanted")
    found = values.integers(array.flatten(), name, lambda index: f"entry {index}")
    return found, values.entry_counts(array)


def _lists(counts: Ints, flat: NDArray[Any]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.ascontiguousarray(flat)))


# The Open Bandit Dataset (Saito et al. 2021, arXiv:2008.07146): one CSV row a position of one
# impression.
#
# The three positions of an impression cannot be put together again, and the propensity is that of the
# item at its own position. So each row is one decision: a ranking with one position. Values are per
# shown item, and the position on the page is context and a segment. Features of users are context;
# those of items stand in `item_context.csv` beside the log, which `items` names. Logs of the same
# columns from elsewhere are read too, whatever the number of features.

_BANDIT = {"action": "item_id", "reward": "click"}
_BANDIT_COLUMNS = (*_BANDIT.values(), "position")
#: The files say propensity_score, their description action_prob.
_PROPENSITY = ("propensity_score", "action_prob")
_USER = "user_feature_"


@adapter
def read_open_bandit(path: Path, options: ReadOptions) -> Converted:
    """Return an Open Bandit log as rankings of one position.

    Targets are columns of the file or "uniform", `items` is the path of its item_context.csv.
    """
    files = expand(path)
    with guard(os.fspath(path), prefix=True):
        names = tables.sample(files[0], 1).column_names
        users = [name for name in names if name.startswith(_USER)]
        propensity = next((name for name in _PROPENSITY if name in names), _PROPENSITY[0])
        needed = (*_BANDIT_COLUMNS, *([propensity] if options.require_propensity else []))
        columns = wanted(options, [*needed, propensity, "timestamp", *users])
        table = read_columns(files, columns, needed, "an Open Bandit log")
        roles = {**_BANDIT, **({"propensity": propensity} if propensity in names else {})}
    own = options.over(roles, ["position", *users], "factored")
    return _with_uniform(table, own), own, (SINGLE_POSITION,)


def _with_uniform(table: pa.Table, options: ReadOptions) -> pa.Table:
    if UNIFORM not in (options.targets or ()) or UNIFORM in table.column_names:
        return table
    items = pc.max(table["item_id"]).as_py() + 1
    return table.append_column(UNIFORM, pa.array(np.full(table.num_rows, 1.0 / items)))


# KuaiRand (Gao et al. 2022, arXiv:2208.08696): short videos, some of them inserted at random.
#
# In the random log each video was drawn uniformly from a pool of 7,583, so its propensity is known;
# each row is one decision, a ranking with one position. The standard logs have no propensities.

#: Videos in the pool of the random intervention, as the data set's own description says.
POOL = 7583
_VIDEO = {"action": "video_id", "reward": "is_click", "unit": "user_id"}
_VIDEO_COLUMNS = ("user_id", "video_id", "is_click", "is_rand", "tab")
_CARRIED = (
    "date",
    "hourmin",
    "is_like",
    "is_follow",
    "is_comment",
    "is_forward",
    "is_hate",
    "long_view",
)


@adapter
def read_kuairand(path: Path, options: ReadOptions) -> Converted:
    """Return the randomly exposed rows as rankings of one position.

    The reward is `is_click`, or another signal with columns={"reward": "long_view"}. Rows of the
    standard policy are left out, and a note says so; with require_propensity=False every row is
    read and none has a propensity.
    """
    files = expand(path)
    with guard(os.fspath(path), prefix=True):
        table = read_columns(
            files, wanted(options, [*_VIDEO_COLUMNS, *_CARRIED]), _VIDEO_COLUMNS, "a KuaiRand log"
        )
        notes: tuple[str, ...] = ()
        if options.require_propensity:
            table, notes = _random_rows(table)
    own = options.over(_VIDEO, ("tab",), "factored")
    return table, replace(own, encode_actions=True), notes


def _random_rows(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    random = table.filter(pc.equal(table["is_rand"], 1))
    if random.num_rows == 0:
        raise PropensityError(
            "no row has is_rand = 1: these are videos of the standard policy, whose propensities "
            "were not logged. "
            "Use the log_random file, or "
            + say("--estimate-propensity", python="estimate_propensity=True")
        )
    if "propensity" not in random.column_names:
        random = random.append_column("propensity", pa.array(np.full(random.num_rows, 1.0 / POOL)))
    return random, ((STANDARD_DROPPED,) if random.num_rows < table.num_rows else ())


# Seznam's vertical-blending data (SIGIR 2019, doi:10.1145/3331184.3331345): 63 tab-separated
# columns, no header.
#
# serp_id, query, num_tokens, num_skips, timestamp, alternative_actions, hardware, then for each of 14
# positions click, propensity, action, domain. A position is filled after those above it, so the
# propensities are read as conditional on the items above ("prefix"): IPS and RIPS can use them; say
# propensity_kind="factored" to assume more.

POSITIONS = 14
HEAD = (
    "serp_id",
    "query",
    "num_tokens",
    "num_skips",
    "timestamp",
    "alternative_actions",
    "hardware",
)
NAMES = (
    *HEAD,
    *(
        f"{what}_{k}"
        for k in range(1, POSITIONS + 1)
        for what in ("click", "propensity", "action", "domain")
    ),
)
_SEZNAM_TYPES: dict[str, object] = {
    **{name: pa.string() for name in ("serp_id", "query", "alternative_actions", "hardware")},
    **{name: pa.float64() for name in NAMES if name.startswith(("click_", "propensity_"))},
    **{name: pa.string() for name in NAMES if name.startswith(("action_", "domain_"))},
}


@adapter
def read_seznam(path: Path, options: ReadOptions) -> Converted:
    """Return search pages of up to 14 positions; context is tokens, skips and hardware."""
    files = expand(path, "csv")
    with guard(os.fspath(path), prefix=True):
        table = pa.concat_tables([_seznam_table(file) for file in files])
    context = ("num_tokens", "num_skips", "hardware")
    own = options.over({"action": "action", "reward": "click"}, context, "prefix")
    if own.segments is None:
        own = replace(own, segments=("query", *context, "timestamp"))
    return table, replace(own, targets=own.targets or ()), ()


def _seznam_table(file: DataFile) -> pa.Table:
    from pyarrow import csv

    with Unpacked(file) as stream:
        first = (
            stream.read(1 << 16)
            .partition(b"\n")[0]
            .decode("utf-8", "replace")
            .rstrip("\r")
            .split("\t")
        )
    if len(first) != len(NAMES):
        raise LogError(
            f"{file.path} has {len(first)} tab-separated columns, Seznam's format has {len(NAMES)}"
        )
    with arrow_stream(file) as stream:
        return csv.read_csv(
            stream,
            read_options=csv.ReadOptions(column_names=NAMES, skip_rows=int(first[0] == "serp_id")),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=_SEZNAM_TYPES, strings_can_be_null=True
            ),
        )
