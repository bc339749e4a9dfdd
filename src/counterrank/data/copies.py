"""Rows that are copies of others, perhaps except for one column: they would count as evidence twice.

Two rows of the same context show the same page by chance, as often as the logger's probabilities say.
Rows that agree far more often were delivered twice, or multiplied by a join. A join may change one
column, so each column of the context is left out in turn.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.data.log import LOGGING, RankingLog
from counterrank.data.propensity import Propensity
from counterrank.kernels import hashing
from counterrank.policies import Policy, Scored

Words = NDArray[np.uint64]

#: Copies are reported from this share of the rows on, if it is this many times the share by chance.
_SHARE, _TIMES = 0.05, 3.0
#: Rows looked at for each column that is left out; copies stay together.
_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class Copies:
    """The share of rows that equal an earlier one, except for `column` (None: in every column)."""

    share: float
    column: str | None


@dataclass(frozen=True, slots=True)
class RowHashes:
    """Hashes of rows (n,), blind to ids: what was shown and earned, whose row it is, what was known before.

    Numbers are rounded first: copies that went through another format differ in their last digits.
    """

    shown: Words
    owner: Words
    #: How likely each row's page was, or 1 where that is not known.
    chance: Floats
    #: By the column that is left out; "" for none.
    keys: dict[str, Words]

    @classmethod
    def of(cls, log: RankingLog, shown: Words) -> "RowHashes":
        """Return the hashes of a log, or of a batch of it, given those of its pages (n,)."""
        unit: NDArray[np.generic] = np.arange(log.start, log.start + log.n)
        if log.unit is not None:
            unit = as_numbers(log.unit)
        owner = np.asarray(hashing.mixed(unit.astype(np.int64).astype(np.uint64)))
        keys = {column or "": key for column, key in _keys(log)}
        return cls(shown, owner, _chances(log), keys)

    def worst(self, least: float = _SHARE) -> Copies | None:
        """Return the worst case of copies, None where rows repeat no more than chance lets them.

        With units, rows of one unit may be equal: they count as one piece of evidence anyway.
        """
        found = None
        for column, key in self.keys.items():
            share = _repeated(np.asarray(hashing.mixed(key + self.shown)), self.owner)
            most = max(least, found.share if found else 0.0)
            if share > most and share > _TIMES * by_chance(key, self.chance):
                found = Copies(share, column or None)
        return found


def copies_of(log: RankingLog) -> Copies | None:
    """Return the worst case of copies in a log, None where rows repeat no more than chance lets them."""
    return RowHashes.of(log, page_hashes(log)).worst()


def page_hashes(log: RankingLog) -> Words:
    """Return a hash of what each row showed and earned (n,): equal for copies."""
    return _hash(log.lengths, log.action, log.reward)


def as_numbers(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return numbers and moments as they are, and a number for each text."""
    if values.dtype.kind in "iufbmM":
        return values.astype(np.int64) if values.dtype.kind in "mM" else values
    # Labels recur: each is looked at once.
    texts = [str(value) for value in values.tolist()]
    known = {text: zlib.crc32(text.encode()) for text in set(texts)}
    return np.array([known[text] for text in texts], dtype=np.int64)


def _rounded(values: Floats) -> Floats:
    """Return values rounded to about four digits, and to no less than 1e-5.

    >>> _rounded(np.array([1.2345678, 1.2345679, 1.24])).round(4).tolist()
    [1.2346, 1.2346, 1.24]
    """
    step = np.maximum(np.exp2(np.frexp(values)[1] - 14.0), 1e-5)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), np.rint(values / step) * step, values)


def _repeated(whole: Words, owner: Words) -> float:
    """Return the share of rows that equal one of another unit."""
    kept = np.flatnonzero(whole % np.uint64(max(1, len(whole) // _ROWS)) == 0)
    pairs = distinct(np.asarray(hashing.mixed(whole[kept] + owner[kept])))
    return (pairs - distinct(whole[kept])) / max(len(kept), 1)


def distinct(values: Words) -> int:
    """Return how many different values there are."""
    # Numbers sort faster than numpy.unique hashes them.
    ordered = np.sort(values)
    return len(ordered) - int((ordered[1:] == ordered[:-1]).sum())


def by_chance(key: Words, chance: Floats) -> float:
    """Return an upper bound of the share of rows that repeat by chance.

    Each of the g - 1 other rows of the same context shows this page with its probability.
    """
    _, group, counts = np.unique(key, return_inverse=True, return_counts=True)
    others = counts[np.asarray(group).reshape(-1)] - 1.0
    return float(np.minimum(others * chance, 1.0).mean())


def _keys(log: RankingLog) -> Iterator[tuple[str | None, Words]]:
    """Yield each column that is left out, and hashes of the rows without it.

    Hashes cover what is known of a row before its page is drawn.
    """
    parts: dict[str, Words] = {}
    if log.context is not None:
        for j, name in enumerate(log.context_names):
            parts[name] = _hash(None, _rounded(np.ascontiguousarray(log.context[:, j : j + 1])))
    scores = _scores(log)
    if scores is not None:
        parts["the logger's scores"] = scores
    # Mixed with its place, so that equal numbers in two columns do not cancel.
    mixed = {
        name: np.asarray(hashing.mixed(part + np.uint64(k)))
        for k, (name, part) in enumerate(parts.items())
    }
    total = sum(mixed.values(), start=np.zeros(log.n, np.uint64))
    yield None, total
    for name, part in mixed.items():
        yield name, total - part


def _scores(log: RankingLog) -> Words | None:
    """Return hashes of the logger's scores or distribution of each row, where it has them for all items."""
    logger = log.propensity
    if isinstance(logger, Scored):
        sets = logger.candidates
        if sets.n != log.n:
            return None
        parts = [sets.dense(values, 0.0) for values in (sets.items, _rounded(logger.scores))]
        return _hash(sets.counts, *parts)
    table = getattr(logger, "scores", None) if isinstance(logger, Policy) else None
    table = log.dists.get(LOGGING) if table is None else table
    if not isinstance(table, np.ndarray) or len(table) != log.n:
        return None
    flat = table.reshape(len(table), int(np.prod(table.shape[1:])))
    return _hash(None, _rounded(np.ascontiguousarray(flat, dtype=np.float64)))


def _chances(log: RankingLog) -> Floats:
    """Return how likely each row's page was (n,), or 1 where that is not known."""
    logger = log.propensity
    if isinstance(logger, Propensity):
        if logger.kind == "joint":
            return np.asarray(logger.values, dtype=np.float64)
        if logger.kind in ("factored", "prefix"):
            chance = np.ones(log.n)
            for k in range(log.K):
                chance *= np.where(k < log.lengths, logger.values[:, k], 1.0)
            return chance
    elif "prefix" in logger.capabilities and (log.lengths == log.K).all():
        found: Floats = np.exp(logger.prefix_log_prob(log.action)[:, -1])
        return found
    return np.ones(log.n)


def _hash(valid: Ints | None, *arrays: NDArray[np.generic]) -> Words:
    hashes = hashing.RowHashes(len(arrays[0]))
    hashes.absorb(valid, *arrays)
    return hashes.values
