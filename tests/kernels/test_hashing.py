"""Hash buckets: the same on every machine, spread evenly, and blind to chunking."""

import numpy as np
from scipy import stats

from counterrank.data.validation import buckets
from counterrank.kernels import hashing

MASK = (1 << 64) - 1


def mix(value):
    """SplitMix64's finaliser in Python integers."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def fnv(text):
    state = 0xCBF29CE484222325
    for byte in text.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
    return state


def test_integers_and_strings_match_python_twins():
    units = np.array([0, 1, -1, 7, 2**62, -(2**63)])
    assert buckets(units, np.arange(6)).tolist() == [mix(int(u) & MASK) % 1024 for u in units]
    names = np.array(["", "a", "user-17", "žluť"])
    assert buckets(names, np.arange(4)).tolist() == [mix(fnv(str(u))) % 1024 for u in names]


def test_rows_meet_every_bucket_once_a_stretch_and_ignore_chunks():
    whole = buckets(None, np.arange(5000))
    for first in range(0, 4096, 1024):
        assert sorted(whole[first : first + 1024]) == list(range(1024))
    parts = [
        buckets(None, np.arange(start, start + size))
        for start, size in ((0, 1), (1, 1023), (1024, 3000), (4024, 976))
    ]
    assert (np.concatenate(parts) == whole).all()


def test_units_are_spread_evenly():
    # chi-square of 200,000 consecutive ids over 1024 buckets; false alarm 1e-6 (seedless: the hash
    # is fixed)
    counts = np.bincount(buckets(np.arange(200_000), np.arange(200_000)), minlength=hashing.BUCKETS)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_small_and_large_integer_types_agree():
    ids = np.arange(50)
    assert (buckets(ids.astype(np.int16), np.arange(50)) == buckets(ids, np.arange(50))).all()
