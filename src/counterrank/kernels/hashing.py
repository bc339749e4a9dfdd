"""Deterministic hashes that do not depend on chunking or machine: folds, clusters and bootstrap buckets.

And 128-bit hashes of rows, built up array by array and added over rows.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit

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


def uniforms(numbers: Ints) -> Floats:
    """Return a number between 0 and 1 for each row by its number in the log (n,), apart from its bucket.

    >>> uniforms(np.arange(3)).round(3).tolist()
    [0.491, 0.164, 0.01]
    """
    words = mixed(mixed(numbers.astype(np.uint64)) ^ STEP)
    return (np.asarray(words) >> np.uint64(11)).astype(np.float64) * 2.0**-53


@jit
def integer_buckets(values: Ints, buckets: Ints) -> None:
    """Fill `buckets` (n,) with the bucket of each integer unit."""
    for i in range(values.shape[0]):
        buckets[i] = np.int64(mix(np.uint64(values[i])) % np.uint64(BUCKETS))


@jit
def string_buckets(offsets: Ints, data: NDArray[np.uint8], buckets: Ints) -> None:
    """Fill `buckets` (n,) with the bucket of each string; string i is data[offsets[i]:offsets[i+1]]."""
    for i in range(buckets.shape[0]):
        state = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        buckets[i] = np.int64(mix(state) % np.uint64(BUCKETS))


@jit
def row_buckets(rows: Ints, buckets: Ints) -> None:
    """Fill `buckets` (n,) for the numbers of rows: each stretch of 1024 rows meets every bucket once."""
    for i in range(buckets.shape[0]):
        row = rows[i]
        stretch = mix(np.uint64(row // BUCKETS))
        buckets[i] = np.int64(
            (stretch + np.uint64(row) * np.uint64(0x2545F491)) % np.uint64(BUCKETS)
        )


_ZERO, _LOW, _HALF = np.uint64(0), np.uint64(0xFFFFFFFF), np.uint64(32)
#: Bits of floats: the sign, infinity, and the one form of what is no number.
_SIGN, _INFINITE, _NAN = np.uint64(1 << 63), np.uint64(0x7FF << 52), np.uint64(0xFFF << 51)


@jit
def absorb(
    state: Words, words: Words, floats: bool, valid: Ints, keys: Words, places: Words
) -> None:
    """Take the first `valid[i]` words of each row of an array (n, W) into the state (2, n).

    A lane is the sum of hashes of the words, each with the key of its array (2,) and place (2, W). Of
    floats every NaN is the same, and so are 0 and -0.
    """
    for i in range(words.shape[0]):
        lower, upper = _ZERO, _ZERO
        for k in range(valid[i]):
            word = words[i, k]
            if floats and word & ~_SIGN > _INFINITE:
                word = _NAN
            elif floats and word == _SIGN:
                word = _ZERO
            first, second = word ^ keys[0] ^ places[0, k], word ^ keys[1] ^ places[1, k]
            # Half times half, as in UMAC's NH: a multiplication of 32 bits is one that vectorises.
            lower += (first & _LOW) * (first >> _HALF) + word
            upper += (second & _LOW) * (second >> _HALF) + word
        state[0, i] += lower
        state[1, i] += upper


@jit
def add_finished(state: Words, sums: Words) -> None:
    """Add the finished hashes of all rows, modulo 2^64, to sums (2,)."""
    for i in range(state.shape[1]):
        lower, upper = mix(state[0, i]), mix(state[1, i])
        # Each half depends on both lanes.
        sums[0] += mix(lower ^ upper)
        sums[1] += mix(lower + upper)


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

    def absorb(self, valid: Ints | None, *arrays: NDArray[Any]) -> None:
        """Take in the first `valid[i]` numbers (None: all) of each row of arrays (n, W)."""
        for array in arrays:
            n, width = array.shape
            numbers = np.array([2 * self._taken, 2 * self._taken + 1], dtype=np.uint64)
            places = np.asarray(mixed(~np.arange(2 * width, dtype=np.uint64))).reshape(-1, 2)
            absorb(
                self._state,
                np.ascontiguousarray(array).view(np.uint64),
                array.dtype.kind == "f",
                np.full(n, width) if valid is None else valid,
                np.asarray(mixed(numbers)),
                places.T.copy(),
            )
            self._taken += 1

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
