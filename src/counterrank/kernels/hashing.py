"""Deterministic hashes: folds, clusters and bootstrap buckets that do not depend on chunking or
machine.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from counterrank.kernels.jit import jit

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
