"""Groups of requests: the context column that best tells apart users on whom other items act differently."""

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.models import settings
from counterrank.models.columns import Grouping, Layout
from counterrank.models.ridge import solve


def grouping_of(log: RankingLog, layout: Layout) -> Grouping | None:
    """Return the groups, by terciles of one context column, that best explain the residuals of a common fit.

    For own action u and neighbour v the score of a ranking is its residual at u times the number of v
    elsewhere. Its sum over a group has mean zero where the common fit is right for the group, so that
    squared sums by their variances add up to a chi-square.
    """
    if not layout.d or layout.K < 2:
        return None
    scores, x = residual_scores(log, layout)
    best, chosen = 0.0, None
    for column in range(layout.d):
        grouping = Grouping(column, cuts_of(x[:, 1 + column]))
        if grouping.count > 1:
            member = (np.arange(grouping.count)[:, None] == grouping.assign(x)).astype(np.float64)
            total = float(((member @ scores) ** 2 / np.maximum(member @ scores**2, 1e-300)).sum())
            if total > best:
                best, chosen = total, grouping
    return chosen


def cuts_of(values: Floats) -> Floats:
    """Return the terciles of a column with enough rows on both sides and in between.

    >>> cuts_of(np.repeat([0.0, 1.0], 200)).tolist()
    [0.0]
    """
    cuts: list[float] = []
    for cut in np.quantile(values, np.arange(1, settings.GROUPS) / settings.GROUPS):
        below = (values > cuts[-1]) if cuts else np.ones(len(values), dtype=bool)
        sizes = (below & (values <= cut)).sum(), (values > cut).sum()
        if min(sizes) >= settings.GROUP_ROWS:
            cuts.append(float(cut))
    return np.array(cuts)


def residual_scores(log: RankingLog, layout: Layout) -> tuple[Floats, Floats]:
    """Return residuals by own action times counts of the other items (n, A A), and the requests' columns.

    The common fit has one ridge an own action for all positions: requests, position, counts.
    """
    (n, K), A = log.action.shape, layout.A
    x = layout.requests(context_columns(log))
    shown = (log.action[..., None] == np.arange(A)).astype(np.float64)
    counts = shown.sum(axis=1)
    scores = np.zeros((n, A, A))
    for u in range(A):
        row, k = np.nonzero(shown[:, :, u])
        other_counts = counts[row]
        other_counts[:, u] -= 1.0
        z = np.concatenate([x[row], np.eye(K)[k], other_counts], axis=1)
        r = log.reward[row, k]
        beta = solve(z.T @ z, (z.T @ r)[:, None], np.ones(z.shape[1]))[:, 0]
        np.add.at(scores[:, u], row, (r - z @ beta)[:, None] * other_counts)
    return scores.reshape(n, A * A), x
