"""A piece of Arrow data, whose spec is known, as a RankingLog."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank import validation
from counterrank.errors import LogError
from counterrank.log import LOGGING, Probabilities, RankingLog
from counterrank.propensity import Propensity
from counterrank.readers import columns, long_format, values
from counterrank.readers.candidates import Listed, with_saved_policies
from counterrank.readers.messages import naming_rankings
from counterrank.readers.spec import Field, LogSpec
from counterrank.texts import MISSING_PROPENSITY, MISSING_REWARD_ZERO, REWARD_PER_RANKING, listed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def decode(
    table: pa.Table,
    spec: LogSpec,
    *,
    start: int = 0,
    bucket: Ints | None = None,
    first_row: int = 0,
) -> RankingLog:
    """Return the rankings of `table`, the first of which is ranking `start` of the whole data set.

    `bucket` (n,) are the buckets of rows without units where rows were left out; `first_row` is the
    number of the first row of a long-format piece in its file.
    """
    present = set(table.column_names)
    missing = [name for name in spec.columns if name not in present]
    if missing:
        raise LogError(
            f"column '{missing[0]}' is missing here; columns are {listed(table.column_names)}"
        )
    if table.num_rows == 0:
        raise LogError("the log is empty: it has columns but no rows")
    if spec.layout == "long":
        table, spec, ids = long_format.to_lists(table, spec, first_row)
        with naming_rankings(ids, start):
            return _from_lists(table, spec, start, bucket)
    return _from_lists(table, spec, start, bucket)


def _from_lists(table: pa.Table, spec: LogSpec, start: int, bucket: Ints | None) -> RankingLog:
    """Return the rankings of a table with one row each."""
    action, raw = columns.action_ids(table, spec, start)
    used = (action >= 0).sum(axis=1) if raw is not None or int(action.min()) < 0 else None  # (n,)
    shape = _Shape(spec, start, raw, used)
    if spec.renumber and used is not None:
        action = shape.close_gaps(action)
    reward, notes = _rewards(table, spec, shape)
    unit, bucket = columns.units(table, spec.unit, start, bucket)
    parts = spec.candidates
    beside = (
        Listed(table, spec, start) if parts is not None and (parts.items or parts.scores) else None
    )
    log = RankingLog(
        action=action,
        reward=reward,
        propensity=_propensity(table, spec, shape, beside),
        candidates=None if beside is None else beside.candidates,
        item_features=None if parts is None else parts.item_features,
        context=columns.context(table, spec, start),
        context_names=spec.context,
        categories=spec.categories,
        action_names=spec.action_names,
        unit=unit,
        behavior=values.objects(values.one_chunk(table[spec.behavior])) if spec.behavior else None,
        targets=_targets(table, spec, shape, beside),
        dists=_dists(table, spec, shape),
        columns={name: values.objects(values.one_chunk(table[name])) for name in spec.segments},
        position_weights=validation.position_weights(spec.position_weights, spec.K),
        bucket=np.empty(0, dtype=np.int64) if bucket is None else bucket,
        start=start,
        notes=(*spec.notes, *notes),
    )
    return log if parts is None else with_saved_policies(log, parts)


class _Shape:
    """How long each ranking is, and whether another field agrees."""

    def __init__(self, spec: LogSpec, start: int, raw: Ints | None, used: Ints | None) -> None:
        self.spec, self.start, self.raw, self.used = spec, start, raw, used
        self.order: Ints | None = None

    def close_gaps(self, action: Ints) -> Ints:
        """Return the items moved up over empty positions; other fields follow through `moved`."""
        self.order = np.argsort(action < 0, axis=1, kind="stable")  # (n, K)
        return np.take_along_axis(action, self.order, axis=1)

    def moved(self, found: Floats) -> Floats:
        """Return numbers by position, (n, K) or (n, K, A), in the order of the items."""
        if self.order is None:
            return found
        order = self.order if found.ndim == 2 else self.order[:, :, None]
        return np.take_along_axis(found, order, axis=1)

    def check(self, lengths: Ints | None, name: str) -> None:
        if lengths is None and self.raw is None:
            return
        full = np.int64(self.spec.K)
        mine = full if lengths is None else lengths
        action = full if self.raw is None else self.raw
        items = full if self.used is None else self.used
        wrong = np.broadcast_to((mine != action) & (mine != items), (self._n(lengths),))
        if wrong.any():
            row = int(np.argmax(wrong))
            have, want = (int(np.broadcast_to(x, wrong.shape)[row]) for x in (mine, action))
            raise LogError(
                f"row {self.start + row}: '{name}' has {have} entries, "
                f"'{self.spec.fields['action'].name}' has {want}; they must have one each per "
                "position"
            )

    def padded(self, found: Floats, fill: float) -> Floats:
        """Return the numbers with `fill` behind shorter rankings."""
        if self.used is not None:
            found[np.arange(found.shape[1]) >= self.used[:, None]] = fill
        return found

    def _n(self, lengths: Ints | None) -> int:
        some = lengths if lengths is not None else self.raw
        return 0 if some is None else len(some)


def _matrix(table: pa.Table, field: Field, spec: LogSpec, shape: _Shape) -> Floats:
    found, lengths = columns.numbers(table, field, spec, shape.start)
    shape.check(lengths, field.name)
    if found.shape[1] != spec.K:
        raise LogError(
            f"'{field.name}' has {found.shape[1]} columns, but rankings have {spec.K} positions "
            f"('{spec.fields['action'].name}')"
        )
    return shape.moved(found)


def _rewards(table: pa.Table, spec: LogSpec, shape: _Shape) -> tuple[Floats, list[str]]:
    field = spec.fields["reward"]
    if REWARD_PER_RANKING in spec.notes:
        # The reward of a whole ranking may depend on every item: the last position sees all of
        # them.
        found = np.zeros((table.num_rows, spec.K))
        last = np.full(table.num_rows, spec.K) if shape.used is None else shape.used
        found[np.arange(table.num_rows), last - 1] = columns.column_numbers(
            table, field.name, shape.start
        )
    else:
        found = _matrix(table, field, spec, shape)
    found = shape.padded(found, 0.0)
    if spec.missing_reward == "zero":
        missing = np.isnan(found)
        if missing.any():
            found[missing] = 0.0
            return found, [MISSING_REWARD_ZERO]
    return found, []


def _propensity(
    table: pa.Table, spec: LogSpec, shape: _Shape, beside: Listed | None
) -> Probabilities:
    if beside is not None and LOGGING in beside.parts.scores:
        return beside.policy(LOGGING)
    if MISSING_PROPENSITY in spec.notes:
        return Propensity("factored", np.ones((table.num_rows, spec.K)))
    return _policy(table, spec.fields["propensity"], spec, shape)


def _policy(table: pa.Table, field: Field, spec: LogSpec, shape: _Shape) -> Propensity:
    if spec.kind == "joint" and field.form == "scalar":
        return Propensity("joint", columns.column_numbers(table, field.name, shape.start).copy())
    found = _matrix(table, field, spec, shape)
    if spec.kind == "joint":
        return Propensity("joint", _repeated(shape.padded(found, np.nan)))
    return Propensity(spec.kind, shape.padded(found, 1.0))


def _repeated(found: Floats) -> Floats:
    """A joint given at every position: the padding repeats the first."""
    return np.where(np.isnan(found), found[:, :1], found)


def _targets(
    table: pa.Table, spec: LogSpec, shape: _Shape, beside: Listed | None
) -> dict[str, Probabilities]:
    result: dict[str, Probabilities] = {}
    if beside is not None:
        result = {name: beside.policy(name) for name in beside.parts.scores if name != LOGGING}
    for name, field in spec.targets.items():
        if name not in spec.guessed:
            result[name] = _policy(table, field, spec, shape)
        elif (guess := _guessed(table, field, spec, shape)) is not None:
            result[name] = guess
    return result


def _dists(table: pa.Table, spec: LogSpec, shape: _Shape) -> dict[str, Floats]:
    found = columns.distributions(
        table, spec, None if shape.order is not None else shape.used, shape.start
    )
    return {name: shape.moved(dist) if dist.ndim == 3 else dist for name, dist in found.items()}


def _guessed(table: pa.Table, field: Field, spec: LogSpec, shape: _Shape) -> Propensity | None:
    """A column nobody named is a target policy only if every number in it could be a probability."""
    try:
        found = _policy(table, field, spec, shape)
    except LogError:
        return None
    inside = (found.values >= 0) & (found.values <= 1)
    return found if bool(inside.all()) else None
