"""Deterministic hashes that do not depend on chunking or machine: folds, clusters and bootstrap buckets.

And 128-bit hashes of rows, built up array by array and added over rows.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import helper, jit

Words = NDArray[np.uint64]

#: Number of buckets into which units (or rows) fall. Variances over buckets have a relative error
#: of about 1/sqrt(2*1024) = 2 %, and a bucket table stays small enough to be added over machines.
BUCKETS = 1024


#: The step of the counters of SplitMix64 (Steele, Lea & Flood 2014).
STEP = np.uint64(0x9E3779B97F4A7C15)


def mixed(value: np.uint64 | Words) -> np.uint64 | Words:
    """Return well-scrambled 64-bit values (the finaliser of SplitMix64) of a number or an array."""
    value = value + STEP
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


#: The same of a number inside kernels.
mix = cast(Callable[[np.uint64], np.uint64], jit(mixed))


def uniforms(numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a number between 0 and 1 for each row by its number in the log (n,), apart from its bucket.

    >>> uniforms(np.arange(3)).round(3).tolist()
    [0.491, 0.164, 0.01]
    """
    words = mixed(mixed(numbers.astype(np.uint64)) ^ STEP)
    return (np.asarray(words) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@jit
def integer_buckets(values: NDArray[np.int64], buckets: NDArray[np.int64]) -> None:
    """Fill `buckets` (n,) with the bucket of each integer unit."""
    for i in range(values.shape[0]):
        buckets[i] = np.int64(mix(np.uint64(values[i])) % np.uint64(BUCKETS))


@jit
def string_buckets(
    offsets: NDArray[np.int64], data: NDArray[np.uint8], buckets: NDArray[np.int64]
) -> None:
    """Fill `buckets` (n,) with the bucket of each string; string i is data[offsets[i]:offsets[i+1]]."""
    for i in range(buckets.shape[0]):
        state = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        buckets[i] = np.int64(mix(state) % np.uint64(BUCKETS))


@jit
def row_buckets(rows: NDArray[np.int64], buckets: NDArray[np.int64]) -> None:
    """Fill `buckets` (n,) for the numbers of rows: each stretch of 1024 rows meets every bucket once."""
    for i in range(buckets.shape[0]):
        row = rows[i]
        stretch = mix(np.uint64(row // BUCKETS))
        buckets[i] = np.int64(
            (stretch + np.uint64(row) * np.uint64(0x2545F491)) % np.uint64(BUCKETS)
        )


#: Words of a block of rows, in scratch that stays in the first-level cache.
_BLOCK = 512
_ZERO, _LOW, _HALF = np.uint64(0), np.uint64(0xFFFFFFFF), np.uint64(32)


@helper
def _one_form(values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill `out` with the values; every NaN is the same, and so are 0 and -0."""
    for j in range(out.shape[0]):
        out[j] = values[j] + 0.0 if values[j] == values[j] else np.nan


@helper
def _absorb_words(
    words: Words, key: np.uint64, other_key: np.uint64, places: Words, other_places: Words, out: Words, other: Words
) -> None:  # fmt: skip
    """Add both hashes of each word to `out` and `other`."""
    for j in range(out.shape[0]):
        # Half times half, as in UMAC's NH: a multiplication of 32 bits is one that vectorises.
        word = words[j]
        one, two = word ^ key ^ places[j], word ^ other_key ^ other_places[j]
        out[j] += (one & _LOW) * (one >> _HALF) + word
        other[j] += (two & _LOW) * (two >> _HALF) + word


@helper
def _add_pairs(words: Words, out: Words) -> None:
    for j in range(out.shape[0]):
        out[j] = words[2 * j] + words[2 * j + 1]


@helper
def _add_rows(words: Words, spare: Words, width: int, out: Words) -> None:
    """Add the sum of each row of flat words (n * width) to out (n,); both rooms are used up."""
    n = out.shape[0]
    # Neighbours first, as long as they come in pairs: that has no strides.
    while width % 2 == 0:
        width //= 2
        _add_pairs(words, spare[: n * width])
        words, spare = spare, words
    for k in range(width):
        for i in range(n):
            out[i] += words[i * width + k]


@jit
def absorb(
    state: Words, one: Words, two: Words, three: Words, integers: int, valid: NDArray[np.int64], keys: Words,
    places: Words,
) -> None:  # fmt: skip
    """Take the first `valid[i]` words of each row of up to three arrays (n, W) into the state (2, n).

    There are as many arrays as keys (arrays, 2). The first `integers` of them hold integers, the others
    floats. A lane is the sum of hashes of the words, each with the keys of its array and place (2, W).
    """
    n, width = one.shape
    flat_one, flat_two, flat_three = one.reshape(-1), two.reshape(-1), three.reshape(-1)
    rows = max(1, _BLOCK // width)
    clean = np.empty(rows * width)
    room = np.empty((5, rows * width), np.uint64)
    for j in range(rows * width):
        room[2, j], room[3, j] = places[0, j % width], places[1, j % width]
    for top in range(0, n, rows):
        used = min(rows, n - top)
        start, size = top * width, used * width
        first, second = room[0, :size], room[1, :size]
        for j in range(size):
            first[j], second[j] = _ZERO, _ZERO
        for a in range(keys.shape[0]):
            flat = flat_one if a == 0 else flat_two if a == 1 else flat_three
            words = flat[start : start + size]
            if a >= integers:
                _one_form(words.view(np.float64), clean[:size])
                words = clean[:size].view(np.uint64)
            _absorb_words(words, keys[a, 0], keys[a, 1], room[2], room[3], first, second)
        shortest = width
        for i in range(used):
            shortest = min(shortest, valid[top + i])
        # Most logs have no padding at all.
        for i in range(used if shortest < width else 0):
            for k in range(valid[top + i], width):
                first[i * width + k], second[i * width + k] = _ZERO, _ZERO
        for lane in range(2):
            _add_rows(room[lane], room[4], width, state[lane, top : top + used])


@jit
def add_finished(state: Words, sums: Words) -> None:
    """Add the finished hashes of all rows, modulo 2^64, to sums (2,)."""
    for i in range(state.shape[1]):
        one, two = mix(state[0, i]), mix(state[1, i])
        # Each half depends on both lanes.
        sums[0] += mix(one ^ two)
        sums[1] += mix(one + two)


@jit
def finish(state: Words, out: Words) -> None:
    """Fill `out` (n,) with 64 bits of each finished hash."""
    for i in range(state.shape[1]):
        out[i] = mix(mix(state[0, i]) ^ mix(state[1, i]))


class RowHashes:
    """A hash of 128 bits for each of n rows, built up array by array; it depends on every word and its place."""

    def __init__(self, n: int) -> None:
        self._state = np.zeros((2, n), np.uint64)
        self._taken = 0

    def absorb(self, valid: NDArray[np.int64] | None, *arrays: NDArray[Any]) -> None:
        """Take in the first `valid[i]` numbers (None: all) of each row of up to three arrays (n, W).

        Arrays have one width, integers come before floats. Several at once are faster, because adding
        up each row is the larger part of the work.
        """
        words = [np.ascontiguousarray(one).view(np.uint64) for one in arrays]
        n, width = arrays[0].shape
        used = np.full(n, width) if valid is None else valid
        integers = sum(one.dtype.kind == "i" for one in arrays)
        one, two, three = words[0], words[min(1, len(words) - 1)], words[-1]
        numbers = np.arange(2 * self._taken, 2 * (self._taken + len(words)), dtype=np.uint64)
        keys = np.asarray(mixed(numbers)).reshape(-1, 2)
        places = np.asarray(mixed(~np.arange(2 * width, dtype=np.uint64))).reshape(-1, 2).T.copy()
        absorb(self._state, one, two, three, integers, used, keys, places)
        self._taken += len(words)

    @property
    def values(self) -> Words:
        """64 bits of each finished hash (n,)."""
        out = np.empty(self._state.shape[1], np.uint64)
        finish(self._state, out)
        return out

    def total(self) -> tuple[int, int]:
        """Return the sums of the finished hashes, modulo 2^64."""
        sums = np.zeros(2, np.uint64)
        add_finished(self._state, sums)
        return int(sums[0]), int(sums[1])
