"""Which items matter to which reward: masks, candidate models, and trees that choose among them by context."""

from counterrank.behavior.candidates import Candidate, candidates
from counterrank.behavior.masks import Bools, as_mask, cascade, contains, draw, independent, mask, standard

__all__ = [
    "Bools",
    "Candidate",
    "as_mask",
    "candidates",
    "cascade",
    "contains",
    "draw",
    "independent",
    "mask",
    "standard",
]
