"""Deterministic hashes that do not depend on chunking or machine: folds, clusters and bootstrap
buckets; and 128-bit hashes of rows, built up array by array and added over rows.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import helper, jit

Words = NDArray[np.uint64]

#: Number of buckets into which units (or rows) fall. Variances over buckets have a relative error
#: of about 1/sqrt(2*1024) = 2 %, and a bucket table stays small enough to be added over machines.
BUCKETS = 1024


def mixed(value: np.uint64 | Words) -> np.uint64 | Words:
    """Return well-scrambled 64-bit values (the finaliser of SplitMix64) of a number or an array."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


#: The same of a number inside kernels.
mix = cast(Callable[[np.uint64], np.uint64], jit(mixed))


@jit
def integer_buckets(values: NDArray[np.int64], buckets: NDArray[np.int64]) -> None:
    """Fill `buckets` (n,) with the bucket of each integer unit."""
    for i in range(values.shape[0]):
        buckets[i] = np.int64(mix(np.uint64(values[i])) % np.uint64(BUCKETS))


@jit
def string_buckets(
    offsets: NDArray[np.int64], data: NDArray[np.uint8], buckets: NDArray[np.int64]
) -> None:
    """Fill `buckets` (n,) with the bucket of each string; string i is
    data[offsets[i]:offsets[i+1]].
    """
    for i in range(buckets.shape[0]):
        state = np.uint64(0xCBF29CE484222325)
        for j in range(offsets[i], offsets[i + 1]):
            state = (state ^ np.uint64(data[j])) * np.uint64(0x100000001B3)
        buckets[i] = np.int64(mix(state) % np.uint64(BUCKETS))


@jit
def row_buckets(start: int, buckets: NDArray[np.int64]) -> None:
    """Fill `buckets` (n,) for rows start, start+1, ...: each stretch of 1024 rows meets every
    bucket once.
    """
    for i in range(buckets.shape[0]):
        row = start + i
        stretch = mix(np.uint64(row // BUCKETS))
        buckets[i] = np.int64(
            (stretch + np.uint64(row) * np.uint64(0x2545F491)) % np.uint64(BUCKETS)
        )


def start(state: Words) -> None:
    """Give the two lanes of `state` (n, 2) different beginnings."""
    state[:] = 0x243F6A8885A308D3, 0x13198A2E03707344


@helper
def _first(lane: np.uint64, word: np.uint64) -> np.uint64:
    return mix(lane ^ word)


@helper
def _second(lane: np.uint64, word: np.uint64) -> np.uint64:
    lane = (lane ^ (word + np.uint64(0xA4093822299F31D0))) * np.uint64(0x9FB21C651E98DF25)
    return lane ^ (lane >> np.uint64(32))


@jit
def absorb_integers(state: Words, values: NDArray[np.int64]) -> None:
    """Take the integers of each row of `values` (n, K) into the state of that row."""
    for i in range(values.shape[0]):
        first, second = state[i, 0], state[i, 1]
        for k in range(values.shape[1]):
            word = np.uint64(values[i, k])
            first, second = _first(first, word), _second(second, word)
        state[i, 0], state[i, 1] = first, second


@helper
def _word(value: np.float64, bits: np.uint64) -> np.uint64:
    # Choices instead of branches: zeros among rewards cannot be foreseen.
    word = np.uint64(0) if value == 0.0 else bits
    return np.uint64(0x7FF8000000000000) if value != value else word


@helper
def _absorb_row(
    first: np.uint64, second: np.uint64, values: NDArray[np.float64], bits: Words
) -> tuple[np.uint64, np.uint64]:
    for k in range(values.shape[0]):
        word = _word(values[k], bits[k])
        first, second = _first(first, word), _second(second, word)
    return first, second


@jit
def absorb_floats(state: Words, values: NDArray[np.float64], valid: NDArray[np.int64]) -> None:
    """Take the first `valid[i]` floats of each row; every NaN is the same, and so are 0 and -0."""
    bits, i, n = values.view(np.uint64), 0, values.shape[0]
    while i < n:
        count = valid[i]
        if i + 2 < n and valid[i + 1] == count and valid[i + 2] == count:
            # Each word waits for the one before it: three rows at a time wait together.
            a, b, c = state[i, 0], state[i + 1, 0], state[i + 2, 0]
            d, e, f = state[i, 1], state[i + 1, 1], state[i + 2, 1]
            for k in range(count):
                x = _word(values[i, k], bits[i, k])
                y = _word(values[i + 1, k], bits[i + 1, k])
                z = _word(values[i + 2, k], bits[i + 2, k])
                a, b, c = _first(a, x), _first(b, y), _first(c, z)
                d, e, f = _second(d, x), _second(e, y), _second(f, z)
            state[i, 0], state[i + 1, 0], state[i + 2, 0] = a, b, c
            state[i, 1], state[i + 1, 1], state[i + 2, 1] = d, e, f
            i += 3
        else:
            row = values[i, :count], bits[i, :count]
            state[i, 0], state[i, 1] = _absorb_row(state[i, 0], state[i, 1], row[0], row[1])
            i += 1


def total(state: Words) -> Words:
    """Return the sums (2,) of the finished hashes, modulo 2^64."""
    one, two = state.T
    finished = mixed(one ^ two), mixed(two + np.uint64(0x082EFA98EC4E6C89))
    return np.array([np.sum(part) for part in finished])
