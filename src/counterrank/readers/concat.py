"""Several pieces of one log as one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.log import Probabilities, RankingLog
from counterrank.propensity import Propensity


def concat(pieces: Sequence[RankingLog]) -> RankingLog:
    """Return one log of all rows, in order; the pieces come from the same source and keep their buckets."""
    if not pieces:
        raise LogError("there is no ranking to put together")
    first = pieces[0]
    if len(pieces) == 1:
        return first
    return replace(
        first,
        action=np.concatenate([piece.action for piece in pieces]),
        reward=np.concatenate([piece.reward for piece in pieces]),
        propensity=_joined([piece.propensity for piece in pieces]),
        context=_arrays([piece.context for piece in pieces]),
        unit=_arrays([piece.unit for piece in pieces]),
        behavior=_arrays([piece.behavior for piece in pieces]),
        targets={name: _joined([piece.targets[name] for piece in pieces]) for name in first.targets},
        dists={name: _arrays([piece.dists[name] for piece in pieces]) for name in first.dists},
        columns={name: _arrays([piece.columns[name] for piece in pieces]) for name in first.columns},
        bucket=np.concatenate([piece.bucket for piece in pieces]),
        selected=_places(pieces),
        notes=tuple(dict.fromkeys(note for piece in pieces for note in piece.notes)),
    )


def _places(pieces: Sequence[RankingLog]) -> NDArray[np.int64] | None:
    """Where the rows stand in the whole log; None when they are one stretch of it."""
    places = np.concatenate([_place(piece) for piece in pieces])
    stretch = np.arange(pieces[0].start, pieces[0].start + len(places))
    return None if np.array_equal(places, stretch) else places


def _place(piece: RankingLog) -> NDArray[np.int64]:
    rows = piece.rows
    return np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows


def _arrays(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)


def _joined(parts: Sequence[Probabilities]) -> Propensity:
    values = [part.values for part in parts if isinstance(part, Propensity)]
    if len(values) != len(parts):
        raise LogError("policies given as objects cannot be put together; use their probabilities")
    kind = parts[0].kind if isinstance(parts[0], Propensity) else "factored"
    return Propensity(kind, np.concatenate(values))
