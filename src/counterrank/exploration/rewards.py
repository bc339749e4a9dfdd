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
from counterrank.estimators import shares_of
from counterrank.models import (
    Rankings,
    RewardModel,
    fit_list_models,
    fit_lists,
    rankings_of,
    squared_loss,
)
from counterrank.policies import Scored, attraction

#: Five fits, each without a fifth of the rows, and the power of the likelihood by which models
#: count: as in `auto`.
FOLDS, POWER = 5, 0.125


@dataclass(frozen=True, slots=True, eq=False)
class PageRewards:
    """Fitted models (M,) with their `shares`; `own` (K,) and `pair` (K, K) are the second moments."""

    models: tuple[RewardModel, ...]
    shares: Floats
    own: Floats
    pair: Floats

    def on(self, rows: RankingLog, logger: Scored) -> Pages:
        """Return the models on some rows of the log."""
        extra = attraction(logger, rows.action[:, None, :])
        logged = rankings_of(rows, extra=None if extra is None else extra[:, 0])
        return Pages(self, logged, logger, np.asarray(rows.bucket % FOLDS, dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Pages:
    """The models on n requests: expected rewards of any pages (n, S, K) of theirs."""

    rewards: PageRewards
    logged: Rankings
    logger: Scored
    fold: Ints

    def mean(self, pages: Ints) -> Floats:
        """Return the expected rewards (n, S, K) of pages (n, S, K), zero in the padding."""
        return np.tensordot(self.rewards.shares, self.each(pages), axes=1)

    def each(self, pages: Ints, fold: int | None = None) -> Floats:
        """Return those of each model (M, n, S, K).

        By the fits that have not seen the request, or all by the fit `fold`.
        """
        n, size, K = pages.shape
        shown = self.logged.others(pages, extra=attraction(self.logger, pages))
        folds = np.repeat(self.fold if fold is None else np.full(n, fold), size)
        out = np.empty((len(self.rewards.models), n * size, K))
        for rows, part in shown.parts():
            for j, model in enumerate(self.rewards.models):
                out[j, rows] = model.expected(part, folds[rows])
        return out.reshape(-1, n, size, K)


def fit_rewards(log: RankingLog, logger: Scored, seed: int) -> PageRewards:
    """Return the models of a log, cross-fitted by unit, and how rewards of a page vary together."""
    extra = attraction(logger, log.action[:, None, :])
    rankings = rankings_of(log, extra=None if extra is None else extra[:, 0])
    fold = np.asarray(log.bucket % FOLDS, dtype=np.int64)
    found: list[RewardModel] = [
        *fit_list_models(rankings, log.reward, fold, folds=FOLDS, seed=seed, page=log.page_reward)
    ]
    lists = fit_lists(rankings, log.reward, fold, FOLDS)
    if lists is not None:
        found.append(lists)
    losses = np.array([squared_loss(model, rankings, log.reward, fold) for model in found])
    slots = log.n if log.page_reward else int(log.lengths.sum())
    unit = log.bucket if log.unit is not None else None
    shares = shares_of(losses, slots, unit, power=POWER)
    kept = np.flatnonzero(shares >= 1e-3)
    shares = shares[kept] / shares[kept].sum()
    models = tuple(found[j] for j in kept)
    q = np.tensordot(shares, np.array([m.expected(rankings, fold) for m in models]), axes=1)
    return PageRewards(models, shares, *second_moments(log.reward, q))


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
