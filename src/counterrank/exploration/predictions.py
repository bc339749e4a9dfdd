"""The standard error that a lift will have, from a logger that has not served a page yet.

With pages drawn from the option (the logger to be, E_0) and from the target (E_t) and rewards from the
models, the lift of a ranking is X = sum_k alpha_k (w_k - 1) r_k and its standard error from n rankings
is sqrt(E_0[X^2] - E_0[X]^2) / sqrt(n).

`ips` weighs whole pages, w = P_t(page) / P_0(page). With Y the page's reward,

    E_0[X^2] = E_0[(w - 1)^2 Y^2; w small] + E_t[(w - 1)^2 / w Y^2; w large],

because E_0[w f] = E_t[f]: the rare pages of large weight are drawn from the target, where they are not
rare, and nothing cancels. Exact, but for the number of drawn pages and the models.

`iips` weighs an item at its own place, w_k = P_t(a_k at k) / P_0(a_k at k). Its squares are taken in the
same two parts, the second as E_t[(w_k - 1)^2 / w_k E_0[r_k^2 | a_k at k]]. Its inner mean is that of a page
of the option which holds a_k at k by exchanging it with what stood there, which is the option's own law
where places are swapped or shuffled and near it elsewhere. Products of two places are means over the option's pages.

What no number of rows takes away is the allowance: rewards of pages that the option never shows
(`ips`), and what `iips` misses by looking at one item when the models look at all of the page.

Expected rewards come from several reward models, as `auto` fits them. How rewards of a page vary together is
measured on the log: E[r_k^2] = own_k q_k and E[r_k r_l] = pair_kl q_k q_l with q the expected rewards, so
that pages with one click at most (pair = 0), independent clicks (pair = 1) and users who click much or
little (pair > 1) are all told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.estimators import ModelAverage, fit_pages, folds_of
from counterrank.models import Rankings, rankings_of
from counterrank.policies import Policy, PolicySpec, Scored, attraction, cut


@dataclass(frozen=True, slots=True)
class PredictedError:
    """The error that an estimator will have in a target's lift.

    `spread` / sqrt(n) is the standard error from n rankings, `allowance` a bias that no number of
    them removes.

    `share` is the share of the rows that count (effective rows of all), `missing` that of what the
    target shows and the option never does.
    """

    estimator: str
    spread: float
    allowance: float
    share: float
    missing: float


@dataclass(frozen=True, eq=False)
class DrawnPages:
    """Pages (n, S, K) that a policy shows on some requests, and the models' rewards of them."""

    policy: Policy
    pages: Ints
    q: Floats

    @cached_property
    def log_prob(self) -> Floats:
        """Log-probability (n, S) of each page under the policy that drew it."""
        return page_log_prob(self.policy, self.pages)

    @cached_property
    def item_log_prob(self) -> Floats:
        """Log-probability (n, S, K) of each item at its place under that policy."""
        return item_log_prob(self.policy, self.pages)


def drawn(policy: Policy, models: PageRewards, size: int, rng: np.random.Generator) -> DrawnPages:
    """Return `size` pages of each request."""
    pages = models.pages(policy, size, rng)
    return DrawnPages(policy, pages, models.mean(pages))


def page_log_prob(policy: Policy, pages: Ints) -> Floats:
    """Return log P(page) (n, S) of pages (n, S, K)."""
    return policy.prefix_log_probs(pages)[..., -1]


def item_log_prob(policy: Policy, pages: Ints) -> Floats:
    """Return log P(a_k at k) (n, S, K) of pages (n, S, K)."""
    return np.stack([policy.position_log_prob(pages[:, s]) for s in range(pages.shape[1])], axis=1)


def full_pages(
    option: DrawnPages, target: DrawnPages, models: PageRewards, alpha: Floats
) -> PredictedError:
    """Return what `ips` will know."""
    weight = ratio(target.log_prob, page_log_prob(option.policy, target.pages))
    reached = np.isfinite(weight)
    mean = target.q @ alpha
    light = np.minimum(ratio(page_log_prob(target.policy, option.pages), option.log_prob), RAREST)
    second = (
        _second(light, squared_reward(option.q, models, alpha)).mean()
        + _second_of_target(weight, squared_reward(target.q, models, alpha)).mean()
    )
    lift = float(np.where(reached, mean, 0.0).mean() - (option.q @ alpha).mean())
    missing = float(np.where(reached, 0.0, mean).mean())
    heavy = float(np.where(reached, weight, 0.0).mean())
    return PredictedError(
        "ips",
        math.sqrt(max(float(second) - lift**2, 0.0)),
        abs(missing),
        float(reached.mean()) ** 2 / heavy if heavy > 0 else 0.0,
        1.0 - float(reached.mean()),
    )


def single_positions(
    option: DrawnPages, target: DrawnPages, models: PageRewards, alpha: Floats
) -> PredictedError:
    """Return what `iips` will know."""
    square, shown = models.own, target.pages >= 0
    weight = ratio(target.item_log_prob, item_log_prob(option.policy, target.pages))
    reached = np.isfinite(weight) & shown
    # The target's item on a page of the option's. What else stands on a page that holds a rare item
    # depends on who drew it: of a mixture, the part that shows the item there counts by its chance to
    # have done so.
    inner = np.zeros(target.pages.shape)
    for chance, pages in _components_by_chance(option, target.pages, models):
        inner += chance * _rewards_on_pages(pages, target.pages, models)
    inner = np.where(reached, inner, 0.0)
    light = np.minimum(
        ratio(item_log_prob(target.policy, option.pages), option.item_log_prob), RAREST
    )
    light = np.where(option.pages >= 0, light, 1.0)
    squares = _second(light, option.q).mean(axis=(0, 1)) + _second_of_target(
        np.where(reached, weight, np.inf), inner
    ).mean(axis=(0, 1))
    squares = alpha**2 * square * squares
    moved = (light - 1.0) * option.q * alpha
    products = np.einsum("nsk,nsl->kl", moved, moved) / moved[..., 0].size
    second = float(squares.sum() + (products * models.pair).sum())
    today = float((option.q @ alpha).mean())
    lift = float((inner @ alpha).mean()) - today
    true = float((target.q @ alpha).mean()) - today
    places = max(int(shown.sum()), 1)
    heavy = float(np.where(reached, weight, 0.0).sum()) / places
    return PredictedError(
        "iips",
        math.sqrt(max(second - lift**2, 0.0)),
        abs(lift - true),
        (float(reached.sum()) / places) ** 2 / heavy if heavy > 0 else 0.0,
        1.0 - float(reached.sum()) / places,
    )


#: Weights beyond this are those of pages that no log will hold.
RAREST = 1e12


def ratio(above: Floats, below: Floats) -> Floats:
    """Return exp(above - below); infinite where the logger cannot show it, 0 where the target does not."""
    with np.errstate(invalid="ignore", over="ignore"):
        weights = np.exp(above - below)
    # What is shown once in more pages than anybody serves is never shown.
    weights = np.where(weights > RAREST, np.inf, weights)
    out: Floats = np.where(above == -np.inf, 0.0, weights)
    return out


#: Weights up to this are looked at on the option's pages, larger ones on the target's.
LIGHT = 2.0


def _second(weight: Floats, square: Floats) -> Floats:
    """Return what pages of the option add to E_0[(w - 1)^2 r^2]: those of small weights."""
    out: Floats = np.where(weight <= LIGHT, (np.minimum(weight, LIGHT) - 1.0) ** 2, 0.0) * square
    return out


def _second_of_target(weight: Floats, square: Floats) -> Floats:
    """Return what pages of the target add to it: E_0[f] = E_t[f / w] where weights are large."""
    heavy = np.isfinite(weight) & (weight > LIGHT)
    heavy_weight = np.where(heavy, weight, 1.0)
    out: Floats = (heavy_weight - 1.0) ** 2 / heavy_weight * square
    return out


def squared_reward(q: Floats, rewards: PageRewards, alpha: Floats) -> Floats:
    """Return E[Y^2] (n, S) of pages with expected rewards q (n, S, K)."""
    weighed = q * alpha
    products = np.einsum("nsk,kl,nsl->ns", weighed, rewards.pair, weighed)
    total: Floats = q @ (alpha**2 * rewards.own) + products
    return total


def _components_by_chance(
    option: DrawnPages, items: Ints, models: PageRewards
) -> Iterator[tuple[Floats, Ints]]:
    """Yield the parts of an option: chances (n, S, K) and pages (n, D, K).

    The chance is that of the part having shown each item at its place, given that it stands there.
    """
    policy = option.policy
    if not (isinstance(policy, Scored) and policy.spec.parts):
        yield np.ones(items.shape), option.pages
        return
    log_prob = item_log_prob(policy, items)
    for share, spec in policy.spec.parts:
        component = models.policy(spec)
        chance = share * ratio(item_log_prob(component, items), log_prob)
        chance = np.where(np.isfinite(chance), chance, 0.0)
        if chance.max() > 1e-6:
            yield chance, models.pages(component, BESIDE, np.random.default_rng(17))


#: Pages of the option whose other items stand beside an item of the target.
BESIDE = 2


def _rewards_on_pages(pages: Ints, items: Ints, models: PageRewards) -> Floats:
    """Return the expected reward (n, S, K) of each wanted item at its place.

    On the pages (n, D, K) it takes the place of what stood there.
    """
    n, size, K = items.shape
    draws = np.linspace(0, pages.shape[1] - 1, min(BESIDE, pages.shape[1])).astype(np.int64)
    place, out = np.arange(K), np.zeros(items.shape)
    for d in draws:
        changed_pages = np.broadcast_to(
            pages[:, None, None, d], (n, size, K, K)
        ).copy()  # one page per place
        displaced = changed_pages[:, :, place, place]
        # Where the wanted item stands already, what is at the place moves there.
        changed_pages = np.where(
            changed_pages == items[..., None], displaced[..., None], changed_pages
        )
        changed_pages[:, :, place, place] = items
        q = models.mean(changed_pages.reshape(n, size * K, K)).reshape(n, size, K, K)
        out += q[:, :, place, place] / len(draws)
    return out


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
        return np.tensordot(self.models.shares, self.by_model(pages), axes=1)

    def by_model(self, pages: Ints, fold: int | None = None) -> Floats:
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
    square, pair = second_moments(log.reward, models.mean(rankings, fold))
    rows, chosen_logger = log.take(chosen), logger.take(chosen)
    return PageRewards(
        models, square, pair, rows, rankings_by(rows, chosen_logger), chosen_logger, fold[chosen]
    )


def second_moments(reward: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return own (K,) and pair (K, K) from rewards (n, K) and their expectations.

    >>> own, pair = second_moments(np.eye(2), np.full((2, 2), 0.5))
    >>> own.tolist(), pair.tolist()
    ([1.0, 1.0], [[0.0, 0.0], [0.0, 0.0]])
    """
    total = q.sum(axis=0)
    everywhere = float((reward**2).sum()) / max(float(total.sum()), 1e-300)
    square = np.divide(
        (reward**2).sum(axis=0), total, out=np.full(len(total), everywhere), where=total > 0
    )
    products, expected = reward.T @ reward, q.T @ q
    pair = np.divide(products, expected, out=np.ones_like(products), where=expected > 0)
    np.fill_diagonal(pair, 0.0)
    return square, pair
