"""Future rankers: production's scores with noise that changes a given share of the shown items.

The next ranker is unknown, but it will resemble today's, because it learns from the same items and
users. It is represented by families of rankers that add independent normal noise to the score of every
candidate. The size of the noise is such that a given share of the shown positions has another item.
Scores become rankings in the same way as those of production.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Ints
from counterrank.exploration import settings
from counterrank.policies import Scored, parse_policy


@dataclass(frozen=True, slots=True)
class Family:
    """Rankers with `noise` in their scores, so that a `share` of shown positions differs from production."""

    share: float
    noise: float

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"future {round(100 * self.share)} %"

    def draw(self, logger: Scored, rng: np.random.Generator) -> Scored:
        """Return one ranker of the family."""
        scores = logger.scores + self.noise * rng.normal(size=logger.scores.shape)
        return Scored(logger.candidates, scores, logger.spec)


def families(logger: Scored, length: int, seed: int) -> list[Family]:
    """Return the family of each share that can be reached by noise."""
    noise = np.random.default_rng([seed, 11]).normal(size=logger.scores.shape)
    top = parse_policy("top")

    def top_items(size: float) -> Ints:
        best = Scored(logger.candidates, logger.scores + size * noise, top)
        return best.sample(length, np.random.default_rng(0))[:, 0]

    today = top_items(0.0)
    shown = today >= 0

    def changed(size: float) -> float:
        return float(((top_items(size) != today) & shown).sum() / max(shown.sum(), 1))

    spread = spread_of(logger)
    sizes = spread * np.geomspace(1e-3, 30.0, 25)
    changed_shares = np.maximum.accumulate([changed(size) for size in sizes])
    ranker_families = [
        Family(share, float(np.exp(np.interp(share, changed_shares, np.log(sizes)))))
        for share in settings.CHANGES
        if changed_shares[0] < share < changed_shares[-1]
    ]
    # With many equal scores the smallest noise changes more than all shares; it is then the family.
    smallest = Family(round(float(changed_shares[0]), 2), float(sizes[0]))
    return ranker_families or ([smallest] if smallest.share > 0 else [])


def spread_of(logger: Scored) -> float:
    """Return the standard deviation of scores within pages, or 1 if they are equal."""
    counts = logger.candidates.counts
    row = np.repeat(np.arange(logger.n_rows), counts)
    eligible = np.isfinite(logger.scores)
    row, scores = row[eligible], logger.scores[eligible]
    number = np.maximum(np.bincount(row, minlength=logger.n_rows), 1)
    centre = np.bincount(row, scores, minlength=logger.n_rows) / number
    spread = float(np.sqrt(np.mean((scores - centre[row]) ** 2)))
    return spread if spread > 0 else 1.0


def coldest_of(logger: Scored) -> float:
    """Return the temperature below which the exponentials of a page's scores underflow."""
    starts = logger.candidates.offsets[:-1]
    eligible = np.isfinite(logger.scores)
    top = np.maximum.reduceat(np.where(eligible, logger.scores, -np.inf), starts)
    low = np.minimum.reduceat(np.where(eligible, logger.scores, np.inf), starts)
    return float((top - low).max()) / WIDEST


#: Largest range of scores on a page, in units of the temperature, without underflow.
WIDEST = 600.0
