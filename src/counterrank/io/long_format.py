"""One row a (ranking, position) turned into one row a ranking."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.arrays import Ints
from counterrank.errors import LogError
from counterrank.io import values
from counterrank.io.spec import CandidateSpec, Field, LogSpec
from counterrank.messages import naming_rows

#: The number of a row in its file.
RowOf = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class _Grouping:
    """`order` (m,) sorts rows by ranking and position; rankings stand in order of first appearance."""

    row_of: RowOf
    ids: pa.Array
    order: Ints
    sizes: Ints
    first: Ints


def to_lists(
    table: pa.Table, spec: LogSpec, first_row: int = 0
) -> tuple[pa.Table, LogSpec, pa.Array]:
    """Return the same rankings as lists, one row each, the spec that describes them, and their ids.

    `first_row` is the number of the first row in its file, for messages.
    """
    if spec.candidates.items is not None:
        return _with_candidates(table, spec, first_row)
    return _to_lists(table, spec, lambda row: first_row + row)


def _to_lists(table: pa.Table, spec: LogSpec, row_of: RowOf) -> tuple[pa.Table, LogSpec, pa.Array]:
    groups = _group(table, spec, row_of)
    columns: dict[str, pa.Array] = {}
    per_position = _per_position(spec)
    offsets = pa.array(np.concatenate([[0], np.cumsum(groups.sizes)]), type=pa.int64())
    for name in per_position:
        ordered = values.plain(values.one_chunk(table[name])).take(pa.array(groups.order))
        columns[name] = pa.LargeListArray.from_arrays(offsets, ordered)
    dropped = []
    # The ranking's id may be the unit too, or a segment.
    known = (*spec.context, *spec.segments, spec.unit, spec.behavior)
    for name in spec.columns:
        if name not in per_position and (
            name in known or name not in (spec.ranking, spec.position)
        ):
            found = _constant(table, name, spec, groups)
            if found is None:
                dropped.append(name)
            else:
                columns[name] = found
    segments = tuple(name for name in spec.segments if name not in dropped)
    return pa.table(columns), replace(_as_lists(spec), segments=segments), groups.ids


def _with_candidates(
    table: pa.Table, spec: LogSpec, first_row: int
) -> tuple[pa.Table, LogSpec, pa.Array]:
    """One row a candidate: those with a position were shown, all of them could have been."""
    assert spec.ranking is not None and spec.position is not None
    parts, items = spec.candidates, spec.candidates.items
    assert items is not None
    place = values.floats(
        values.one_chunk(table[spec.position]), spec.position, lambda i: f"row {first_row + i}"
    )
    # Rows of what was not shown would count as positions: they join as candidates only.
    rows = np.flatnonzero(place >= 0)
    lists, found, ids = _to_lists(
        table.take(pa.array(rows)),
        replace(spec, candidates=CandidateSpec()),
        lambda row: first_row + int(rows[row]),
    )
    ranking = values.plain(values.one_chunk(table[spec.ranking]))
    code = pc.index_in(ranking, value_set=ids)
    if code.null_count:
        row = pc.index(pc.is_null(code), True).as_py()
        raise LogError(
            f"row {first_row + row}: ranking {ranking[row].as_py()!r} shows no item: all its rows "
            f"lack '{spec.position}'",
            remedy="give the position of what was shown, or drop the ranking",
        )
    codes = code.to_numpy(zero_copy_only=False).astype(np.int64)
    order = pa.array(np.argsort(codes, kind="stable"))
    offsets = pa.array(
        np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(ids)))]), type=pa.int64()
    )
    # A column may have several roles: logger and target rank by one score, a feature is shown too.
    taken, named = set(lists.column_names), {}
    for column in dict.fromkeys(field.name for field in parts.fields):
        # What holds the entries of shown items stands under its own name already.
        named[column] = f" {column}" if column in taken else column
        entries = values.plain(values.one_chunk(table[column])).take(order)
        lists = lists.append_column(named[column], pa.LargeListArray.from_arrays(offsets, entries))

    def as_lists(field: Field) -> Field:
        return replace(field, columns=(named[field.name],), form="list", title=field.label)

    beside = replace(
        parts,
        items=as_lists(items),
        scores={name: as_lists(field) for name, field in parts.scores.items()},
        features=tuple(as_lists(field) for field in parts.features),
        categories={named[name]: labels for name, labels in parts.categories.items()},
    )
    return lists, replace(found, candidates=beside), ids


def _group(table: pa.Table, spec: LogSpec, row_of: RowOf) -> _Grouping:
    assert spec.ranking is not None and spec.position is not None
    ranking = values.plain(values.one_chunk(table[spec.ranking]))
    if ranking.null_count:
        row = pc.index(pc.is_null(ranking), True).as_py()
        raise LogError(
            f"row {row_of(row)}: '{spec.ranking}' is missing",
            remedy="every row needs the id of its ranking",
        )
    encoded = ranking.dictionary_encode()
    code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    position = _positions(table, spec, row_of)
    order = _order(code, position)
    sizes = np.bincount(code, minlength=len(encoded.dictionary))
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    groups = _Grouping(row_of, encoded.dictionary, order, sizes, first)
    _check_positions(code[order], position[order], groups, spec)
    return groups


def _order(code: Ints, position: Ints) -> Ints:
    """Rows by ranking and position; most logs are in that order already, and then nothing is sorted."""
    step = np.diff(code)
    if ((step > 0) | ((step == 0) & (np.diff(position) >= 0))).all():
        return np.arange(len(code))
    return np.lexsort((position, code))


def _positions(table: pa.Table, spec: LogSpec, row_of: RowOf) -> Ints:
    name = spec.position or ""
    found = values.floats(values.one_chunk(table[name]), name, lambda index: f"row {row_of(index)}")
    # "Not whole" rather than "broken": a missing position is NaN, which equals nothing.
    bad = ~(found == np.rint(found))
    if bad.any():
        row = int(np.argmax(bad))
        raise LogError(
            f"row {row_of(row)}: '{name}' is {found[row]}",
            remedy="positions are the whole numbers 1, 2, ...",
        )
    return found.astype(np.int64) - spec.first_position


def _check_positions(code: Ints, position: Ints, groups: _Grouping, spec: LogSpec) -> None:
    expected = np.arange(len(code)) - groups.first[code]
    bad = position != expected
    if spec.renumber:
        # Gaps are closed by the order of the rows; a position taken twice has no order.
        bad = np.concatenate([[False], (np.diff(code) == 0) & (np.diff(position) == 0)])
    if not bad.any():
        return
    at = int(np.argmax(bad))
    row = groups.row_of(int(groups.order[at]))
    label, base = groups.ids[int(code[at])].as_py(), spec.first_position
    if spec.renumber or (position[at] < expected[at] and position[at] >= 0):
        rows = sorted((groups.row_of(int(groups.order[at - 1])), row))
        raise LogError(
            f"ranking {label!r} has position {position[at] + base} twice (rows {rows[0]} and "
            f"{rows[1]})",
            remedy="keep one row for each position",
        )
    if position[at] < 0:
        raise LogError(
            f"row {row}: '{spec.position}' is {position[at] + base} in ranking {label!r}",
            remedy=f"positions start at {base}",
        )
    raise LogError(
        f"ranking {label!r} has position {position[at] + base} but not {expected[at] + base} (row "
        f"{row})",
        remedy=f"positions run from {base} without gaps, and the rows of a ranking stand together",
    )


def _per_position(spec: LogSpec) -> tuple[str, ...]:
    # A joint propensity is one number a ranking, repeated in each of its rows.
    single = spec.kind == "joint"
    groups = [spec.fields["action"], spec.fields["reward"], *spec.rewards.values()]
    if not single:
        groups += [
            *([spec.fields["propensity"]] if "propensity" in spec.fields else []),
            *spec.targets.values(),
        ]
    groups += list(spec.dists.values())
    return tuple(dict.fromkeys(name for group in groups for name in group.columns))


def _constant(table: pa.Table, name: str, spec: LogSpec, groups: _Grouping) -> pa.Array | None:
    """The one value a ranking has in this column; None for a guessed segment whose values differ."""
    array = values.plain(values.one_chunk(table[name]))
    ordered = array.take(pa.array(groups.order))
    result = ordered.take(pa.array(groups.first))
    spread = result.take(pa.array(np.repeat(np.arange(len(groups.sizes)), groups.sizes)))
    # Missing in all rows of a ranking is one value too, though Arrow holds neither null nor NaN equal
    # to itself.
    same = pc.or_kleene(pc.equal(ordered, spread), pc.and_(pc.is_null(ordered), pc.is_null(spread)))
    if pa.types.is_floating(array.type):
        same = pc.or_(
            pc.fill_null(same, False),
            pc.fill_null(pc.and_(pc.is_nan(ordered), pc.is_nan(spread)), False),
        )
    at = pc.index(pc.fill_null(same, False), False).as_py()
    if at < 0:
        return result
    if name in spec.guessed and name not in (*spec.context, spec.unit, spec.behavior):
        return None
    raise LogError(
        f"row {groups.row_of(int(groups.order[at]))}: '{name}' is {ordered[at].as_py()!r}, but "
        f"{spread[at].as_py()!r} elsewhere in the same ranking",
        remedy="it must be one value a ranking",
    )


def _as_lists(spec: LogSpec) -> LogSpec:
    def listed(field: Field) -> Field:
        return replace(field, form="list")

    single = spec.kind == "joint"
    fields = {
        role: field if single and role == "propensity" else listed(field)
        for role, field in spec.fields.items()
    }
    targets = {name: field if single else listed(field) for name, field in spec.targets.items()}
    dists = {name: listed(field) for name, field in spec.dists.items()}
    rewards = {name: listed(field) for name, field in spec.rewards.items()}
    return replace(
        spec, layout="list", fields=fields, targets=targets, dists=dists, rewards=rewards
    )


def whole_rankings(pieces: Iterator[pa.Table], ranking: str) -> Iterator[pa.Table]:
    """Yield long-format pieces cut between rankings, never inside one."""
    rest: pa.Table | None = None
    for piece in pieces:
        table = (
            piece if rest is None else pa.concat_tables([rest, piece], promote_options="permissive")
        )
        # The last ranking may go on in the next piece.
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


def naming_rankings(ids: pa.Array, start: int) -> AbstractContextManager[None]:
    """Say "ranking 'r7'" where an error would say "row 7": its rows stand elsewhere in the file."""

    def name(row: int) -> str:
        index = row - start
        return f"ranking {ids[index].as_py()!r}" if 0 <= index < len(ids) else f"row {row}"

    return naming_rows(name)
