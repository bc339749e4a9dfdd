"""What fresh draws of the logger say about a list value q: weights of best-of-m policies and their
means of q.

With L draws of a row, B of them below the logged ranking, m C(B, m-1) / C(L, m-1) is the weight of
best-of-m, and sum_j C(j-1, m-1) / C(L, m) q_(j) over the sorted draws its mean of q: both are
averages over all sets of m draws, so both are unbiased, for every m from the same draws.
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterrank._version import __version__
from counterrank.atomic import write_bytes
from counterrank.fingerprint import fingerprint_of
from counterrank.log import RankingLog
from counterrank.policies import Policy, drawn_weight, settled
from counterrank.progress import reporter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Takes rows of the log (b,) and rankings of them (b, D, K), returns list values (b, D).
ListValue = Callable[[Ints, Ints], Floats]

#: Rankings that are drawn and scored at a time. Memory stays bounded whatever the log's size, and
#: arrays of their features small enough to be used again instead of asked for anew.
_BLOCK = 8_192
#: Blocks that are stored together: about a million rankings, some seconds of work.
_GROUP = 128


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """List values of the logged rankings `own` (n,) and of drawn ones (n, L), sorted, and how many
    lie below.
    """

    own: Floats
    ordered: Floats
    below: Ints

    @property
    def draws(self) -> int:
        """Number of reference draws a row."""
        return int(self.ordered.shape[1])

    def weight(self, m: int) -> Floats:
        """Return unbiased weights (n,) of best-of-m against the logger, each in [0, m]."""
        return drawn_weight(self.below, self.draws, m)

    def mean(self, m: int, cap: float) -> Floats:
        """Return unbiased means (n,) of min(q, cap) under best-of-m."""
        values: Floats = np.minimum(self.ordered, cap) @ best_of_shares(self.draws, m)
        return values


def best_of_shares(draws: int, m: int) -> Floats:
    """Return how often each of L sorted draws is the best of m of them: C(j-1, m-1) / C(L, m).

    >>> best_of_shares(3, 2).round(4).tolist()
    [0.0, 0.3333, 0.6667]
    """
    whole = comb(draws, m)
    return np.array([comb(j, m - 1) / whole for j in range(draws)])


def draw(
    log: RankingLog,
    logger: Policy,
    value: ListValue,
    draws: int,
    seeds: tuple[int, ...],
    keep: Path | None = None,
) -> Drawn:
    """Return list values of the logged rankings and of `draws` fresh ones of each row.

    Blocks of rows have streams of their own, a function of `seeds` and their number. With `keep`,
    every few blocks are stored in that folder, and found again by a run that was interrupted.
    """
    told = reporter()
    told.begin("drawing rankings", log.n)
    size = max(1, _BLOCK // draws)
    key = f"{__version__} {seeds} {draws} {fingerprint_of(log).of_rows}" if keep else ""
    groups = []
    for number, first in enumerate(range(0, log.n, size * _GROUP)):
        rows = np.arange(first, min(first + size * _GROUP, log.n))
        path = None if keep is None else keep / f"{'-'.join(map(str, seeds))}-{number}.npz"
        own = settled(value(rows, log.action[rows][:, None, :])[:, 0])
        found = None if path is None else _found(path, key, own, draws)
        if found is None:
            parts = [
                _drawn(log.K, logger, value, rows[at : at + size], own[at : at + size], draws,
                       np.random.default_rng([*seeds, number, at]))
                for at in range(0, len(rows), size)
            ]  # fmt: skip
            found = _joined(parts)
            if path is not None:
                _stored(path, key, found)
        groups.append(found)
        told.advance(len(rows))
    return _joined(groups)


def _drawn(
    K: int,
    logger: Policy,
    value: ListValue,
    rows: Ints,
    own: Floats,
    draws: int,
    rng: np.random.Generator,
) -> Drawn:
    count = len(rows)
    if logger.n_rows == 1:
        rankings = logger.sample(K, rng, size=count * draws).reshape(count, draws, K)
    else:
        rankings = logger.take(rows).sample(K, rng, size=draws)
    drawn = settled(value(rows, rankings))
    # Ties are broken by random keys: then ranks are uniform under the logger, whatever q is.
    keys, mine = rng.random(drawn.shape), rng.random(count)
    ties = drawn == own[:, None]
    below = ((drawn < own[:, None]) | (ties & (keys < mine[:, None]))).sum(axis=1)
    return Drawn(own, np.sort(drawn, axis=1), below)


def _joined(parts: Sequence[Drawn]) -> Drawn:
    return Drawn(
        np.concatenate([part.own for part in parts]),
        np.concatenate([part.ordered for part in parts]),
        np.concatenate([part.below for part in parts]),
    )


def _stored(path: Path, key: str, drawn: Drawn) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, key=np.array(key), own=drawn.own, ordered=drawn.ordered, below=drawn.below)
    write_bytes(path, buffer.getvalue())


def _found(path: Path, key: str, own: Floats, draws: int) -> Drawn | None:
    """Return what was stored for these very rows under this very model; else None, and it is drawn
    again.
    """
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as data:
            found = Drawn(data["own"], data["ordered"], data["below"])
            same = str(data["key"]) == key
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    # The list values of the logged rankings tell another model, and another order of the rows.
    whole = found.ordered.shape == (len(own), draws) and found.below.shape == own.shape
    return found if same and whole and np.array_equal(found.own, own) else None
