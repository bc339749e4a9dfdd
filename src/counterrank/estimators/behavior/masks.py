"""Behaviour models, K x K matrices c: c[k, l] says whether item l matters to the reward at k; and sets of them.

Names (Kiyohara et al. 2023, section 4.1; rows are rewards, columns items; the own item always
matters):

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

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Ints
from counterrank.common.errors import BehaviorError

#: The seed behind "R3" and "R6" when none is given: the same mask in every run.
RANDOM_SEED = 12345


#: Whether an item matters, by `l - k` (columns less rows), the columns l, and the number of a name.
_SHAPES: dict[str, Callable[[Ints, Ints, int], Bools]] = {
    "S": lambda below, item, h: item >= 0,
    "IC": lambda below, item, h: below >= 0,
    "I": lambda below, item, h: abs(below) <= h,
    "N": lambda below, item, h: abs(below) <= h,
    "C": lambda below, item, h: below <= h,
    "W": lambda below, item, h: (below <= 0) & (below >= -h),
    "P": lambda below, item, h: (below == 0) | (item < h),
}
_ALIASES = {
    "standard": "S",
    "ips": "S",
    "cascade": "C",
    "rips": "C",
    "independent": "I",
    "iips": "I",
}


def mask(name: str, length: int, *, rng: np.random.Generator | None = None) -> Bools:
    """Return the behaviour model called `name` for K = `length` positions.

    >>> mask("P2", 3).astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """
    plain = _ALIASES.get(name.lower(), name)
    match = re.fullmatch(r"(S|C|I|IC|[NICWPR](?=\d))(\d*)", plain)
    if match is None or (match[1] in ("S", "IC") and match[2]):
        raise BehaviorError(
            f"behaviour model '{name}' is unknown; use S, C, I, IC, or N, I, C, W, P, R with a "
            "number, such as C2 or R3"
        )
    kind, h = match[1], int(match[2] or 0)
    if kind == "R":
        return random(length, h, np.random.default_rng(RANDOM_SEED) if rng is None else rng)
    row, item = np.indices((length, length))
    return _SHAPES[kind](item - row, item, h)


def random(length: int, count: int, rng: np.random.Generator) -> Bools:
    """Return c with the own item and `count` others, drawn without replacement at each position."""
    drawn = np.eye(length, dtype=bool)
    for k in range(length):
        other_positions = np.delete(np.arange(length), k)
        drawn[k, rng.choice(other_positions, size=min(count, length - 1), replace=False)] = True
    return drawn


def as_mask(model: str | ArrayLike, length: int) -> Bools:
    """Return a (K, K) mask from a name or a 0/1 matrix."""
    if isinstance(model, str):
        return mask(model, length)
    array = np.asarray(model)
    if array.shape != (length, length):
        raise BehaviorError(
            f"a behaviour model for {length} positions is ({length}, {length}); got {array.shape}"
        )
    if not np.isin(array, (0, 1)).all():
        raise BehaviorError(
            "a behaviour model holds only 0 and 1 (item l matters to reward k, or not)"
        )
    return np.ascontiguousarray(array, dtype=bool)


def draw(matrix: Bools) -> str:
    """Return the matrix as text, one line per position.

    >>> print(draw(mask("C", 3)))
    ■ · ·
    ■ ■ ·
    ■ ■ ■
    """
    return "\n".join(" ".join("■" if cell else "·" for cell in row) for row in matrix)


def published_models(length: int) -> list[Candidate]:
    """Return the six models of the code behind the figures of Kiyohara et al. (2023); with K = 4 two are equal.

    C3 and C2 stand for C2 and C1 of the text.
    Its random models draw with replacement, so that fewer than 6 and 3 other items remain, from one
    legacy generator: at each position first the items of R6, then those of R3.

    >>> [(c.name, int(c.mask.sum())) for c in published_models(8)]
    [('S', 64), ('R6', 46), ('R3', 29), ('C3', 54), ('C2', 49), ('I1', 22)]
    """
    rng = np.random.RandomState(RANDOM_SEED)
    drawn = {name: mask("I", length) for name in ("R6", "R3")}
    for k in range(length if length > 1 else 0):
        other_positions = np.delete(np.arange(length), k)
        for name, matrix in drawn.items():
            matrix[k, rng.choice(other_positions, size=int(name[1]))] = True
    names = ("S", "R6", "R3", "C3", "C2", "I1")
    return [Candidate(n, drawn[n] if n in drawn else mask(n, length)) for n in names]


#: Sets by name, and the models in them for K positions. "paper": section 4.1 of Kiyohara et al. (2023);
#: "published": the code behind its figures; "real-world": section 5.
SETS: dict[str, Callable[[int], Sequence[str | Candidate]]] = {
    "default": lambda length: generated(length),
    "generated": lambda length: generated(length),
    "paper": lambda length: ("S", "R6", "R3", "C2", "C1", "I1"),
    "published": published_models,
    "real-world": lambda length: ("S", "C", "I", "P2"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A behaviour model: its name and mask (K, K).

    Parameters
    ----------
    name
        What trees and reports call it.
    mask
        (K, K), true at (k, l) where the item at position l matters to the reward at position k.

    Examples
    --------
    >>> Candidate("own item", np.eye(3, dtype=bool)).mask.shape
    (3, 3)
    """

    name: str
    mask: Bools


def candidates(
    K: int,
    kind: str | Sequence[str | ArrayLike | Candidate] = "default",
) -> list[Candidate]:
    """Return candidate behaviour models for K positions; those that coincide at this K appear once.

    Parameters
    ----------
    K
        Number of positions.
    kind
        "default" (or "generated") spans neighbours, cascades, windows and prefixes of several
        reaches beside S, C and I. "paper" and "real-world" are the paper's sets, "published" is that
        of the code behind its figures. Or a list of names, masks and candidates.

    Returns
    -------
    list of Candidate
        The models, each with a name and a mask.

    Raises
    ------
    BehaviorError
        A name is unknown, or a mask does not fit K.

    Examples
    --------
    >>> [c.name for c in candidates(4, "real-world")]
    ['S', 'C', 'I', 'P2']
    """
    if isinstance(kind, str) and kind not in SETS:
        raise BehaviorError(
            f"candidate set '{kind}' is unknown; use one of {', '.join(SETS)}, or give a list of "
            "names or masks"
        )
    requested = SETS[kind](K) if isinstance(kind, str) else kind
    distinct: dict[bytes, Candidate] = {}
    for model in requested:
        if isinstance(model, Candidate):
            candidate = Candidate(model.name, as_mask(model.mask, K))
        else:
            matrix = as_mask(model, K)
            number = zlib.crc32(matrix.tobytes()) % 10_000
            candidate = Candidate(model if isinstance(model, str) else f"mask {number:04d}", matrix)
        distinct.setdefault(candidate.mask.tobytes(), candidate)
    return list(distinct.values())


def generated(K: int) -> tuple[str, ...]:
    """Return names of standard, cascade, neighbour, window and prefix models with reaches 1, 2, 4, ... below K.

    >>> generated(4)
    ('S', 'C', 'I', 'N1', 'C1', 'W1', 'P1', 'N2', 'C2', 'W2', 'P2')
    """
    # Doubling: 4 log2 K models and not 4 K, since a search over more of them finds more by luck.
    reaches = [2**j for j in range(K) if 2**j < K - 1]
    return ("S", "C", "I", *(f"{letter}{h}" for h in reaches for letter in "NCWP"))
