"""Future rankers: production's scores with noise, so that a known share of the places changes.

Nobody knows next quarter's ranker. It will be near today's, because it learns from the same items and
users, and it will move some of what is shown. A family of such rankers is what exploration has to
serve: each adds normal noise to production's scores, on every candidate of every page by itself. The
noise is as large as it takes for a given share of the shown places to hold another item. Each serves
as production does: a list where production serves lists, drawn at production's temperature where it
draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Ints
from counterrank.exploration import settings
from counterrank.policies import Scored, parse_policy


@dataclass(frozen=True, slots=True)
class Family:
    """Rankers of which `share` of the shown places differ from production; `noise` does it."""

    share: float
    noise: float

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"future {round(100 * self.share)} %"

    def draw(self, logger: Scored, rng: np.random.Generator) -> Scored:
        """Return one ranker of the family."""
        scores = logger.scores + self.noise * rng.normal(size=logger.scores.shape)
        return Scored(logger.candidates, scores, logger.spec)


def families(logger: Scored, length: int, seed: int) -> list[Family]:
    """Return the family of each share, those that noise of some size reaches."""
    noise = np.random.default_rng([seed, 11]).normal(size=logger.scores.shape)
    top = parse_policy("top")

    def listed(size: float) -> Ints:
        best = Scored(logger.candidates, logger.scores + size * noise, top)
        return best.sample(length, np.random.default_rng(0))[:, 0]

    today = listed(0.0)
    shown = today >= 0

    def changed(size: float) -> float:
        return float(((listed(size) != today) & shown).sum() / max(shown.sum(), 1))

    spread = spread_of(logger)
    sizes = spread * np.geomspace(1e-3, 30.0, 25)
    changed_shares = np.maximum.accumulate([changed(size) for size in sizes])
    ranker_families = [
        Family(share, float(np.exp(np.interp(share, changed_shares, np.log(sizes)))))
        for share in settings.CHANGES
        if changed_shares[0] < share < changed_shares[-1]
    ]
    # Where many scores are equal any noise changes much: what little noise changes is the family.
    smallest = Family(round(float(changed_shares[0]), 2), float(sizes[0]))
    return ranker_families or ([smallest] if smallest.share > 0 else [])


def spread_of(logger: Scored) -> float:
    """Return the standard deviation of scores within a page, over all pages; 1 where scores are equal."""
    counts = logger.candidates.counts
    row = np.repeat(np.arange(logger.n_rows), counts)
    eligible = np.isfinite(logger.scores)
    row, scores = row[eligible], logger.scores[eligible]
    number = np.maximum(np.bincount(row, minlength=logger.n_rows), 1)
    centre = np.bincount(row, scores, minlength=logger.n_rows) / number
    spread = float(np.sqrt(np.mean((scores - centre[row]) ** 2)))
    return spread if spread > 0 else 1.0


def coldest_of(logger: Scored) -> float:
    """Return the temperature below which scores of a page lie too far apart to be exponentiated."""
    starts = logger.candidates.offsets[:-1]
    eligible = np.isfinite(logger.scores)
    top = np.maximum.reduceat(np.where(eligible, logger.scores, -np.inf), starts)
    low = np.minimum.reduceat(np.where(eligible, logger.scores, np.inf), starts)
    return float((top - low).max()) / WIDEST


#: Scores on a page this far apart, in units of the temperature, still have probabilities that are
#: numbers.
WIDEST = 600.0
