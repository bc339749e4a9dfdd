"""What users would do on pages that were never shown: several reward models, as `auto` fits them.

A plan needs expected rewards of pages, and how rewards of a page vary together. The first come from
the models; the second is measured on the log: E[r_k^2] = own_k q_k and E[r_k r_l] = pair_kl q_k q_l
with q the expected rewards, so that pages with one click at most (pair = 0), independent clicks
(pair = 1) and users who click much or little (pair > 1) are all told apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.estimators import ModelAverage, fit_pages, folds_of
from counterrank.models import Rankings, rankings_of
from counterrank.policies import Policy, PolicySpec, Scored, attraction, cut


@dataclass(frozen=True, slots=True, eq=False)
class PageRewards:
    """Models on n requests; `own` (K,) and `pair` (K, K) are the second moments of their rewards."""

    models: ModelAverage
    own: Floats
    pair: Floats
    requests: RankingLog
    logged: Rankings
    logger: Scored
    fold: Ints

    def policy(self, spec: PolicySpec) -> Scored:
        """Return another policy by the logger's scores."""
        return Scored(self.logger.candidates, self.logger.scores, spec)

    def pages(self, policy: Policy, size: int, rng: np.random.Generator) -> Ints:
        """Return `size` pages (n, S, K) of each request, one of a list, which end where the logged ones do."""
        size = 1 if policy.deterministic else size
        return cut(policy.sample(self.requests.K, rng, size=size), self.requests.lengths)

    def mean(self, pages: Ints) -> Floats:
        """Return the expected rewards (n, S, K) of pages (n, S, K), zero in the padding."""
        return np.tensordot(self.models.shares, self.each(pages), axes=1)

    def each(self, pages: Ints, fold: int | None = None) -> Floats:
        """Return those of each model (M, n, S, K).

        By the fits that have not seen the request, or all by the fit `fold`.
        """
        n, size, K = pages.shape
        shown = self.logged.others(pages, extra=attraction(self.logger, pages))
        folds = np.repeat(self.fold if fold is None else np.full(n, fold), size)
        return self.models.each(shown, folds).reshape(-1, n, size, K)


def rankings_by(log: RankingLog, logger: Scored) -> Rankings:
    """Return logged rankings with the logger's scores."""
    extra = attraction(logger, log.action[:, None, :])
    return rankings_of(log, extra=None if extra is None else extra[:, 0])


def fit_rewards(log: RankingLog, logger: Scored, chosen: Ints, seed: int) -> PageRewards:
    """Return the models of a log on some of its rows, cross-fitted by unit.

    How rewards of a page vary together is measured on all rows.
    """
    rankings = rankings_by(log, logger)
    models = fit_pages(log, rankings, seed=seed).counted()
    fold = folds_of(log, models.folds)
    own, pair = second_moments(log.reward, models.mean(rankings, fold))
    rows, few = log.take(chosen), logger.take(chosen)
    return PageRewards(models, own, pair, rows, rankings_by(rows, few), few, fold[chosen])


def second_moments(reward: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return own (K,) and pair (K, K) from rewards (n, K) and their expectations.

    >>> own, pair = second_moments(np.eye(2), np.full((2, 2), 0.5))
    >>> own.tolist(), pair.tolist()
    ([1.0, 1.0], [[0.0, 0.0], [0.0, 0.0]])
    """
    total = q.sum(axis=0)
    everywhere = float((reward**2).sum()) / max(float(total.sum()), 1e-300)
    own = np.divide(
        (reward**2).sum(axis=0), total, out=np.full(len(total), everywhere), where=total > 0
    )
    both, expected = reward.T @ reward, q.T @ q
    pair = np.divide(both, expected, out=np.ones_like(both), where=expected > 0)
    np.fill_diagonal(pair, 0.0)
    return own, pair
