"""A policy in one file: items in proportion to their counts, the same for everybody, positions
independent.
"""

import numpy as np

from counterrank.policies.factored import Factored


class Popularity(Factored):
    """pi(a) = counts[a] / sum of counts."""

    def __init__(self, counts):
        counts = np.asarray(counts, dtype=np.float64)
        super().__init__(counts[None] / counts.sum())
