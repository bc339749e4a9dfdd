"""The check of duplicates: rows that equal others, perhaps except for one column, would count as evidence twice.

Two rows of the same context show the same page by chance, as often as the logger's probabilities say.
Rows that agree far more often were delivered twice, or multiplied by a join. A join may change one
column, so each column of the context is left out in turn.
"""

import zlib

import numpy as np
from numpy.typing import NDArray

from counterrank.checks.base import Check, Subject, Tally
from counterrank.common.arrays import Floats, Ints
from counterrank.common.findings import FAILED, PASSED, SKIPPED, WARNED, Example, Finding, Findings
from counterrank.common.texts import in_percent
from counterrank.data.columns import column_of
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.kernels import hashing
from counterrank.policies import Policy, Scored

Words = NDArray[np.uint64]

#: Copies are reported from this share of the rows on, if it is this many times the share by chance.
_SHARE, _TIMES = 0.01, 3.0
#: Rows looked at for each column that is left out; copies stay together.
_ROWS = 131_072
#: Rows whose hashes are compared; copies are kept together.
HASHED_ROWS = 32_768
#: Of a log of unknown length every sixteenth hash is kept: duplicates have equal hashes, so none is
#: split.
_THIN = np.uint64(16)
#: In fewer rows a column may have different values by chance.
FEW = 100


def as_numbers(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return numbers and moments as they are, and a number for each text."""
    if values.dtype.kind in "iufbmM":
        return values.astype(np.int64) if values.dtype.kind in "mM" else values
    # Labels recur: each is looked at once.
    texts = [str(value) for value in values.tolist()]
    checksums = {text: zlib.crc32(text.encode()) for text in set(texts)}
    return np.array([checksums[text] for text in texts], dtype=np.int64)


def _rounded(values: Floats) -> Floats:
    """Return values rounded to about four digits, and to no less than 1e-5.

    >>> _rounded(np.array([1.2345678, 1.2345679, 1.24])).round(4).tolist()
    [1.2346, 1.2346, 1.24]
    """
    step = np.maximum(np.exp2(np.frexp(values)[1] - 14.0), 1e-5)
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(values), np.rint(values / step) * step, values)


def _repeated(pages: Words, owner: Words) -> float:
    """Return the share of rows that equal one of another unit."""
    sampled = np.flatnonzero(pages % np.uint64(max(1, len(pages) // _ROWS)) == 0)
    pairs = distinct(np.asarray(hashing.mixed(pages[sampled] + owner[sampled])))
    return (pairs - distinct(pages[sampled])) / max(len(sampled), 1)


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
    companions = counts[np.asarray(group).reshape(-1)] - 1.0
    return float(np.minimum(companions * chance, 1.0).mean())


def _keys(log: RankingLog) -> dict[str, Words]:
    """Return hashes of what is known of a row before its page is drawn, by the column left out; "" for none.

    Numbers are rounded first: copies that went through another format differ in their last digits.
    """
    parts: dict[str, Words] = {}
    if log.context is not None:
        for j, name in enumerate(log.context_names):
            column = np.ascontiguousarray(log.context[:, j : j + 1])
            parts[name] = hashed(log.n, None, _rounded(column))
    scores = _scores(log)
    if scores is not None:
        parts["the logger's scores"] = scores
    # Mixed with its place, so that equal numbers in two columns do not cancel.
    for place, name in enumerate(parts):
        parts[name] = np.asarray(hashing.mixed(parts[name] + np.uint64(place)))
    total = sum(parts.values(), start=np.zeros(log.n, np.uint64))
    for name in parts:
        parts[name] = total - parts[name]
    return {"": total, **parts}


def _scores(log: RankingLog) -> Words | None:
    """Return hashes of the logger's scores or distribution of each row, where it has them for all items."""
    logger = log.propensity
    if isinstance(logger, Scored):
        sets = logger.candidates
        if sets.n != log.n:
            return None
        parts = [sets.dense(values, 0.0) for values in (sets.items, _rounded(logger.scores))]
        return hashed(log.n, sets.counts, *parts)
    table = getattr(logger, "scores", None) if isinstance(logger, Policy) else None
    table = log.dists.get(LOGGING) if table is None else table
    if not isinstance(table, np.ndarray) or len(table) != log.n:
        return None
    flat = table.reshape(len(table), int(np.prod(table.shape[1:])))
    return hashed(log.n, None, _rounded(np.ascontiguousarray(flat, dtype=np.float64)))


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
        return np.exp(logger.prefix_log_prob(log.action)[:, -1])
    return np.ones(log.n)


def hashed(n: int, valid: Ints | None, *arrays: NDArray[np.generic]) -> Words:
    """Return a hash of each of n rows: of the first `valid[i]` numbers (None: all) of each array (n, W)."""
    hashes = hashing.RowHashes(n)
    hashes.absorb(valid, *arrays)
    return hashes.values


def _count_duplicates(batch: RankingLog, subject: Subject) -> Tally:
    """Collect hashes of some rows; those that show and earned the same are kept together."""
    page = subject.pages
    if page is None:
        page = hashed(batch.n, batch.lengths, batch.action, batch.reward)
    thin = _THIN if subject.n is None else np.uint64(max(1, subject.n // HASHED_ROWS))
    # A quotient by one number vectorises, a remainder does not.
    rows = np.flatnonzero(page // thin * thin == page)
    # What was earned is in the hash of the page, and rows are picked one by one.
    sampled = batch.changed(targets={}, reward=batch.reward[:, :0], rewards={}).take(rows)
    shown, identity = page[rows], _identity(sampled, subject.time)
    key = hashed(sampled.n, None, *identity)
    unit = rows + batch.start if sampled.unit is None else as_numbers(sampled.unit)
    owner = np.asarray(hashing.mixed(unit.astype(np.int64).astype(np.uint64)))
    return Tally(
        sums={"identified": np.array([len(identity)])},
        lists={
            "whole": np.asarray(hashing.mixed(key + shown)),
            "key": key,
            "row": rows + batch.start,
            "shown": shown,
            "owner": owner,
            "chance": _chances(sampled),
            **{f"without {name}": words for name, words in _keys(sampled).items()},
        },
    )


def _judge_duplicates(tally: Tally, subject: Subject) -> Findings:
    """Warn from 1 in 200 with the same ids, or 1 in 100 with others; fail from 1 in 20."""
    shown = tally.lists["shown"]
    if not len(shown):
        yield DUPLICATES.says(SKIPPED, "too few rankings to look for duplicates")
        return
    largest, but = 0.0, ""
    for name, key in tally.lists.items():
        if name.startswith("without "):
            # Rows of one unit may be equal: they count as one piece of evidence anyway.
            share = _repeated(np.asarray(hashing.mixed(key + shown)), tally.lists["owner"])
            chance = _TIMES * by_chance(key, tally.lists["chance"]) if share > _SHARE else 0.0
            if share > max(_SHARE, largest, chance):
                largest, column = share, name.removeprefix("without ")
                but = f" in all but {column}" if column else ""
    if not largest:
        yield _same_ids(tally)
        return
    yield DUPLICATES.says(
        FAILED if largest > 0.05 else WARNED,
        f"{in_percent(largest)} of rankings equal another one{but}, far more than the logger's "
        "probabilities allow",
        "rows were delivered twice or multiplied by a join, under new ids",
        REMEDY,
    )


REMEDY = "drop repeated rows: they make intervals too short"


def _same_ids(tally: Tally) -> Finding:
    hashes, keys, rows = tally.lists["whole"], tally.lists["key"], tally.lists["row"]
    # The first row of each hash, so that examples are the first repeats.
    _, where, back = np.unique(hashes, return_index=True, return_inverse=True)
    repeats = np.flatnonzero(where[back] != np.arange(len(hashes)))
    share = len(repeats) / len(hashes)
    # A context of a few categories repeats by nature: equal rows are evidence only where keys
    # differ.
    if not tally.count("identified") or distinct(keys) < 0.2 * len(keys):
        return DUPLICATES.says(
            SKIPPED,
            f"{in_percent(share)} of rankings equal another one, but nothing (context, unit, time) "
            "tells rankings apart, so they need not be duplicates",
        )
    # Rows with the same ids and context may show the same page by chance.
    if share < max(0.005, 3 * by_chance(keys, tally.lists["chance"])):
        return DUPLICATES.says(
            PASSED, f"{len(repeats):,} of {len(hashes):,} rankings equal another one"
        )
    examples: tuple[Example, ...] = tuple(
        {"row": int(rows[i]), "equals": int(rows[where[back[i]]])} for i in repeats[:3]
    )
    return DUPLICATES.says(
        FAILED if share > 0.05 else WARNED,
        f"{in_percent(share)} of rankings equal an earlier one, context and all",
        "events delivered twice, or a join that multiplied rows",
        REMEDY,
        examples=examples,
    )


#: Rankings that occur twice: with the same ids, or with new ones.
DUPLICATES = Check(
    "duplicates",
    "rows",
    "",
    _count_duplicates,
    _judge_duplicates,
    explains=("robots", "units", "user-column", "rewards-by-visit", "mean-weight-by-*"),
)


def _identity(batch: RankingLog, time: str | None) -> list[Floats]:
    """Return context, carried columns, time and unit (n, W), which tell rows apart.

    Ids of rows, which are all different, would tell copies under new ids from their originals.
    """
    carried = [
        as_numbers(batch.columns[n])
        for n in sorted({*batch.columns} - {*batch.context_names, time})
    ]
    telling = [values for values in carried if len(np.unique(values)) < batch.n or batch.n < FEW]
    telling += [] if time is None else [as_numbers(column_of(batch, time))]
    telling += [] if batch.unit is None else [as_numbers(batch.unit)]
    parts = [] if batch.context is None else [batch.context]
    return parts + [np.ascontiguousarray(values, dtype=np.float64)[:, None] for values in telling]
