"""Similar items above: learned from clicks where there is evidence, and read off the features where
there are any.

How much an item suffers below another is a table of items x items, far too many numbers for its
rows. If items are alike in a few ways (hidden categories, brands), the table has low rank: the
leading eigenvectors of standardised residuals of pairs find them. They are kept only beyond what
the same residuals give with random signs, and shrunk by what noise of that size adds to an
eigenvalue and turns its vector (Benaych-Georges & Nadakuditi 2011).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.models.clicks.base import by_row
from counterrank.models.clicks.kernels.recursion import cosines_above, pair_evidence, similar_above
from counterrank.models.clicks.settings import SETTINGS, STREAMS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """Places of items (F + 1, I + 1, r) by fold left out; the effect of a pair on the logit is u_a'
    diag(sign) u_b.
    """

    place: Floats
    sign: Floats

    def above(self, numbers: Ints, lengths: Ints, fold: int | Ints) -> Floats:
        """Return the effect of all items above each slot (m, K)."""
        out = np.zeros(numbers.shape)
        folds = by_row(fold, len(self.place) - 1, len(numbers))
        similar_above(self.place, self.sign, numbers, lengths, folds, out)
        return out


def learned(
    attraction: Floats,
    odds: Floats,
    after: Floats,
    numbers: Ints,
    lengths: Ints,
    fold: Ints,
    click: Floats,
) -> Similarity | None:
    """Return the similarity that residuals of pairs show, or None where they show none beyond
    noise.

    attraction (m, K), odds and after are those of a click model, each ranking read by the fit that
    left its fold out.
    """
    folds, size = odds.shape[0] - 1, after.shape[1]
    if not 3 < size <= SETTINGS["similar_items"].value:
        return None
    slope, bend = np.zeros((folds, size, size)), np.zeros((folds, size, size))
    pair_evidence(attraction, odds, after, numbers, lengths, fold, click, slope, bend)
    # Being alike has no direction.
    slope, bend = slope + slope.transpose(0, 2, 1), bend + bend.transpose(0, 2, 1)
    # How many directions is decided once, on all rows: folds of different rank would be different
    # models. The places themselves leave each fold out.
    rank, noise = _ranked(_standard(slope.sum(axis=0), bend.sum(axis=0)))
    if rank == 0:
        return None
    places, signs = np.zeros((folds + 1, size, rank)), np.zeros((folds + 1, rank))
    for f in range(folds + 1):
        kept = np.arange(folds) != f
        places[f], signs[f] = _placed(slope[kept].sum(axis=0), bend[kept].sum(axis=0), noise, rank)
    return Similarity(places, signs)


def _standard(slope: Floats, bend: Floats) -> Floats:
    """Return residuals of pairs in standard errors; pairs with little evidence are drawn to zero."""
    out: Floats = slope / np.sqrt(bend + SETTINGS["pair_weight"].value)
    return out


def _leading(table: Floats) -> tuple[Floats, Floats]:
    """Return the eigenvalues that are largest in size, and their vectors."""
    values, vectors = np.linalg.eigh(table)
    order = np.argsort(-np.abs(values), kind="stable")[: int(SETTINGS["similar_rank"].value)]
    return values[order], vectors[:, order]


def _ranked(table: Floats) -> tuple[int, float]:
    """Return how many eigenvalues are beyond noise, and its size.

    What was found is taken out before noise is measured again: likeness itself makes residuals
    large.
    """
    values, vectors = _leading(table)
    rank = 0
    while True:
        noise = _noise(table - (vectors[:, :rank] * values[:rank]) @ vectors[:, :rank].T)
        found = int((np.abs(values) > SETTINGS["evidence"].value * noise).sum())
        if found <= rank:
            return rank, noise
        rank = found


def _noise(table: Floats) -> float:
    """Return the largest eigenvalue of the same residuals with random signs: the mean of a few
    draws.
    """
    rng = np.random.default_rng(STREAMS["random signs"])
    found = []
    for _ in range(3):
        flip = np.triu(rng.choice((-1.0, 1.0), table.shape), 1)
        found.append(np.abs(np.linalg.eigvalsh(table * (flip + flip.T))).max())
    return float(np.mean(found))


def _placed(slope: Floats, bend: Floats, noise: float, rank: int) -> tuple[Floats, Floats]:
    """Return places (I + 1, rank) and signs of one set of rows.

    Residuals are z = effect x root of the pair's evidence, which is about s_a s_b: dividing by it
    gives effects.
    """
    values, vectors = _leading(_standard(slope, bend))
    values, vectors = values[:rank], vectors[:, :rank]
    # Of a symmetric noise matrix with entries of variance s^2 the largest eigenvalue is 2 s
    # sqrt(I): `level` is s^2 I. A true eigenvalue t shows as t + level / t, and its vector keeps
    # the share 1 - level / t^2 of itself: solve for t, then shrink.
    level = (noise / 2) ** 2
    inside = np.maximum(values**2 - 4 * level, 0.0)
    plain = (np.abs(values) + np.sqrt(inside)) / 2
    kept = np.where(
        inside > 0, plain * np.maximum(1 - level / np.maximum(plain**2, 1e-300), 0.0), 0.0
    )
    row = bend.sum(axis=1)
    evidence = np.sqrt(
        row / np.sqrt(max(row.sum(), 1e-300)) + np.sqrt(SETTINGS["pair_weight"].value)
    )
    return vectors * np.sqrt(kept) / evidence[:, None], np.sign(values)


def alike_above(features: Floats, shown: NDArray[np.bool_]) -> Floats:
    """Return the sum of cosines between each slot's features and those above (m, K); features
    standardised.

    >>> z = np.array([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]])
    >>> alike_above(z, np.ones((1, 3), dtype=bool)).tolist()
    [[0.0, 1.0, 0.0]]
    """
    out = np.zeros(shown.shape)
    cosines_above(np.ascontiguousarray(features), shown, out)
    return out
