"""Behaviour models: K x K boolean matrices c, where c[k, l] says whether item l matters to the reward at k.

Names (Kiyohara et al. 2023, section 4.1; rows are rewards, columns items; the own item always matters):

====  =============================================================================
S     standard: every item (IPS)
C     cascade: the items above (RIPS)
I     independent: the own item only (IIPS)
Nh    neighbours: h items on either side
Ih    the same as Nh: the paper's independent model plus its h-neighbour perturbation
Ch    cascade plus h neighbours: the items above and the h items just below
Wh    window above: the h items just above
Ph    the first h items (P2 is the paper's c' of section 5; its c'' is the cascade)
Rh    random: h other items drawn without replacement, the same for all users
IC    inverse cascade: the items below
====  =============================================================================
"""

import re

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.errors import BehaviorError

Bools = NDArray[np.bool_]

#: The seed behind "R3" and "R6" when none is given: the same mask in every run.
RANDOM_SEED = 12345


def standard(length: int) -> Bools:
    """Return the all-ones mask (K, K).

    >>> standard(2).astype(int).tolist()
    [[1, 1], [1, 1]]
    """
    return np.ones((length, length), dtype=bool)


def cascade(length: int, below: int = 0) -> Bools:
    """Return c[k, l] = 1 for the own item, all above it, and the `below` items just under it.

    >>> cascade(3, 1).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    """
    return np.tri(length, length, below, dtype=bool)


def window_above(length: int, reach: int) -> Bools:
    """Return c[k, l] = 1 for the own item and the `reach` items just above it.

    >>> window_above(3, 1).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """
    return cascade(length) & neighbors(length, reach)


def inverse_cascade(length: int) -> Bools:
    """Return c[k, l] = 1 for the own item and those below it."""
    return cascade(length).T.copy()


def independent(length: int) -> Bools:
    """Return the identity mask."""
    return np.eye(length, dtype=bool)


def neighbors(length: int, reach: int) -> Bools:
    """Return c[k, l] = 1 when |k - l| <= reach.

    >>> neighbors(3, 1).astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    """
    rows, columns = np.indices((length, length))
    near: Bools = np.abs(rows - columns) <= reach
    return near


def first_items(length: int, count: int) -> Bools:
    """Return c[k, l] = 1 for the own item and the first `count` ones."""
    mask = independent(length)
    mask[:, :count] = True
    return mask


def random(length: int, count: int, rng: np.random.Generator) -> Bools:
    """Return c with the own item and `count` others, drawn without replacement at each position."""
    mask = independent(length)
    for k in range(length):
        others = np.delete(np.arange(length), k)
        mask[k, rng.choice(others, size=min(count, length - 1), replace=False)] = True
    return mask


_BUILDERS = {
    "N": lambda length, h, rng: neighbors(length, h),
    "I": lambda length, h, rng: neighbors(length, h),
    "C": lambda length, h, rng: cascade(length, h),
    "W": lambda length, h, rng: window_above(length, h),
    "P": lambda length, h, rng: first_items(length, h),
    "R": lambda length, h, rng: random(length, h, rng),
}
_ALIASES = {"standard": "S", "ips": "S", "cascade": "C", "rips": "C", "independent": "I", "iips": "I"}


def mask(name: str, length: int, *, rng: np.random.Generator | None = None) -> Bools:
    """Return the behaviour model called `name` for K = `length` positions.

    >>> mask("P2", 3).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """
    plain = _ALIASES.get(name.lower(), name)
    whole = {"S": standard, "C": cascade, "I": independent, "IC": inverse_cascade}
    if plain in whole:
        return whole[plain](length)
    found = re.fullmatch(r"([NICWPR])(\d+)", plain)
    if found is None:
        raise BehaviorError(
            f"behaviour model '{name}' is unknown; use S, C, I, IC, or N, I, C, W, P, R with a number, such as C2 or R3"
        )
    rng = np.random.default_rng(RANDOM_SEED) if rng is None else rng
    return _BUILDERS[found[1]](length, int(found[2]), rng)


def as_mask(given: "str | ArrayLike", length: int) -> Bools:
    """Return a (K, K) mask from a name or a 0/1 matrix."""
    if isinstance(given, str):
        return mask(given, length)
    array = np.asarray(given)
    if array.shape != (length, length):
        raise BehaviorError(f"a behaviour model for {length} positions is ({length}, {length}); got {array.shape}")
    if not np.isin(array, (0, 1)).all():
        raise BehaviorError("a behaviour model holds only 0 and 1 (item l matters to reward k, or not)")
    return np.ascontiguousarray(array, dtype=bool)


def contains(larger: Bools, smaller: Bools) -> bool:
    """Return whether every item that matters in `smaller` matters in `larger`: then no bias is added."""
    return bool((larger | ~smaller).all())


def draw(matrix: Bools) -> str:
    """Return the matrix as text, one line a position.

    >>> print(draw(cascade(3)))
    ■ · ·
    ■ ■ ·
    ■ ■ ■
    """
    return "\n".join(" ".join("■" if cell else "·" for cell in row) for row in matrix)
