"""What a log hardly shows of a target: the posterior variance of the change that the ridge expects.

The change is c'beta, where c is the mean of the columns under the target less their logged mean and beta are
the coefficients of all levels (`ridge.py`). With the prior of a level, Var(c'beta) = noise c' (Z'Z + penalty)^-1 c.
In directions of c with many rows it is the error of the fit; in directions that the target needs and the
log hardly shows it is what effects of the usual size would do there.
"""

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.data.log import RankingLog
from counterrank.models.columns import Layout, blocks_of, columns_of, expected, indicators
from counterrank.models.rankings import whole_distribution
from counterrank.models.ridge import Posterior


def doubt(layout: Layout, posteriors: tuple[Posterior, ...], log: RankingLog, target: str) -> float:
    """Return the posterior variance of a target's change from the logged reward."""
    change = column_change(layout, log, target) * log.position_weights[:, None, None]
    # Levels are independent under the prior.
    return sum(posterior.variance(layout, change) for posterior in posteriors)


def column_change(layout: Layout, log: RankingLog, target: str) -> Floats:
    """Return the mean columns under the target less the logged ones (B, K, A, D), by group and own action."""
    arrays, distribution = layout.arrays(log), whole_distribution(log, target)
    assert distribution is not None
    out = np.zeros((layout.B, layout.K, layout.A, layout.width))
    for f, rows in blocks_of(arrays.fit):
        group, columns = arrays.take(rows), np.empty((layout.width, len(rows)))
        by_target = expected(distribution[rows], group.lengths, layout.K)
        for sign, shown in ((1.0, by_target), (-1.0, indicators(group.action, layout.A))):
            for k in columns_of(layout, group, shown, range(layout.K), columns):
                # The own position is independent of the others.
                out[f % layout.B, k] += sign * (shown[min(k, len(shown) - 1)] @ columns.T)
    return out / log.n
