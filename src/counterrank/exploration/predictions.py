"""Prediction of the standard error of a lift under a logger that has not served yet.

With pages drawn from the option (the logger to be, E_0) and from the target (E_t) and rewards from the
models, the lift of a ranking is X = sum_k alpha_k (w_k - 1) r_k and its standard error from n rankings
is sqrt(E_0[X^2] - E_0[X]^2) / sqrt(n).

`ips` weighs whole pages, w = P_t(page) / P_0(page). With Y the page's reward,

    E_0[X^2] = E_0[(w - 1)^2 Y^2; w small] + E_t[(w - 1)^2 / w Y^2; w large],

because E_0[w f] = E_t[f]: pages of large weight are rare under the option, so they are drawn from the
target instead. The result is exact up to the number of drawn pages and the models.

`iips` weighs an item at its own position, w_k = P_t(a_k at k) / P_0(a_k at k). Its squares are split in
the same way, with the second term E_t[(w_k - 1)^2 / w_k E_0[r_k^2 | a_k at k]]. The inner mean is taken
over pages of the option in which a_k is exchanged with the item at k. This is exact if the option swaps
or shuffles positions, and otherwise an approximation. Products of two positions are means over the
option's pages.

The allowance is the part of the error that more rows do not reduce: for `ips` the rewards of pages that
the option never shows, for `iips` the effects of the other items on the page according to the models.

Expected rewards are those of several reward models, as fitted by `auto`. The second moments of rewards
are estimated from the log: E[r_k^2] = own_k q_k and E[r_k r_l] = pair_kl q_k q_l with the expected
rewards q. This covers pages with at most one click (pair = 0), independent clicks (pair = 1) and users
who differ in how much they click (pair > 1).

Formulas for weights promise more than `auto` keeps: its interval has room for the errors of its models and
for the choice of its members. So rankings are drawn from the option for requests of the log, rewards from
the reward models, and `auto` estimates the targets on them. Its standard error and its allowance both fall
with the root of the rows (`plan_for` says how far), which leads from the drawn rows to any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import CounterrankError
from counterrank.data.log import RankingLog
from counterrank.estimators import ModelAverage, fit_pages, folds_of, get_estimator
from counterrank.evaluation import detectable
from counterrank.models import Rankings, rankings_of
from counterrank.policies import Policy, PolicySpec, Scored, cut


@dataclass(frozen=True, slots=True)
class PredictedError:
    """The predicted error of an estimator of a target's lift.

    `spread` / sqrt(n) is the standard error from n rankings, and `allowance` the possible bias.
    `share` is the number of effective rows per row, and `missing` the share of the target's pages (or
    items) that the option never shows.
    """

    estimator: str
    spread: float
    allowance: float
    share: float
    missing: float


@dataclass(frozen=True, eq=False)
class DrawnPages:
    """Pages (n, S, K) drawn from a policy, and their expected rewards."""

    policy: Policy
    pages: Ints
    q: Floats

    @cached_property
    def log_prob(self) -> Floats:
        """Log-probability (n, S) of each page under its policy."""
        return page_log_prob(self.policy, self.pages)

    @cached_property
    def item_log_prob(self) -> Floats:
        """Log-probability (n, S, K) of each item at its position under its policy."""
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
    """Return the predicted error of `ips`."""
    weight = ratio(target.log_prob, page_log_prob(option.policy, target.pages))
    reached = np.isfinite(weight)
    mean = target.q @ alpha
    light = np.minimum(ratio(page_log_prob(target.policy, option.pages), option.log_prob), RAREST)
    second = _second(light, squared_reward(option.q, models, alpha)) + _second_of_target(
        weight, squared_reward(target.q, models, alpha)
    )
    lift = float(np.where(reached, mean, 0.0).mean() - (option.q @ alpha).mean())
    missing = float(np.where(reached, 0.0, mean).mean())
    variance = float(second) - lift**2
    return _predicted("ips", variance, missing, weight[reached], reached.size)


def _predicted(
    estimator: str, variance: float, bias: float, weights: Floats, size: int
) -> PredictedError:
    """Return the error of an estimator whose weights are these at what is reached, of `size` in all."""
    reached, total = len(weights) / size, float(weights.sum()) / size
    return PredictedError(
        estimator,
        math.sqrt(max(variance, 0.0)),
        abs(bias),
        reached**2 / total if total > 0 else 0.0,
        1.0 - reached,
    )


def single_positions(
    option: DrawnPages, target: DrawnPages, models: PageRewards, alpha: Floats
) -> PredictedError:
    """Return the predicted error of `iips`."""
    shown = target.pages >= 0
    weight = ratio(target.item_log_prob, item_log_prob(option.policy, target.pages))
    reached = np.isfinite(weight) & shown
    # The expected reward of the target's item on pages of the option. The other items of such a page
    # depend on the component that drew it, so components are weighted by their posterior probability.
    inner = np.zeros(target.pages.shape)
    for chance, pages in _components_by_chance(option, target.pages, models):
        inner += chance * _rewards_on_pages(pages, target.pages, models)
    inner = np.where(reached, inner, 0.0)
    light = np.minimum(
        ratio(item_log_prob(target.policy, option.pages), option.item_log_prob), RAREST
    )
    light = np.where(option.pages >= 0, light, 1.0)
    squares = _second(light, option.q) + _second_of_target(np.where(reached, weight, np.inf), inner)
    squares = alpha**2 * models.square * squares
    moved = (light - 1.0) * option.q * alpha
    products = np.einsum("nsk,nsl->kl", moved, moved) / moved[..., 0].size
    second = float(squares.sum() + (products * models.pair).sum())
    today = float((option.q @ alpha).mean())
    lift = float((inner @ alpha).mean()) - today
    true = float((target.q @ alpha).mean()) - today
    places = max(int(shown.sum()), 1)
    return _predicted("iips", second - lift**2, lift - true, weight[reached], places)


#: Larger weights belong to pages that no log will contain.
RAREST = 1e12


def ratio(above: Floats, below: Floats) -> Floats:
    """Return exp(above - below): infinite if the option never shows it, 0 if the target does not."""
    with np.errstate(invalid="ignore", over="ignore"):
        weights = np.exp(above - below)
    # Weights above the limit count as infinite.
    weights = np.where(weights > RAREST, np.inf, weights)
    return np.where(above == -np.inf, 0.0, weights)


#: Means over smaller weights use the option's pages, means over larger ones the target's.
LIGHT = 2.0


def _second(weight: Floats, square: Floats) -> Floats:
    """Return the part of E_0[(w - 1)^2 r^2] (...) of small weights, over pages of the option (n, S, ...)."""
    out: Floats = (np.where(weight <= LIGHT, (weight - 1.0) ** 2, 0.0) * square).mean(axis=(0, 1))
    return out


def _second_of_target(weight: Floats, square: Floats) -> Floats:
    """Return that of large weights, over pages of the target (n, S, ...), by E_0[f] = E_t[f / w]."""
    heavy = np.isfinite(weight) & (weight > LIGHT)
    heavy_weight = np.where(heavy, weight, 1.0)
    out: Floats = ((heavy_weight - 1.0) ** 2 / heavy_weight * square).mean(axis=(0, 1))
    return out


def squared_reward(q: Floats, rewards: PageRewards, alpha: Floats) -> Floats:
    """Return E[Y^2] (n, S) of pages with expected rewards q (n, S, K)."""
    weighed = q * alpha
    products = np.einsum("nsk,kl,nsl->ns", weighed, rewards.pair, weighed)
    total: Floats = q @ (alpha**2 * rewards.square) + products
    return total


def _components_by_chance(
    option: DrawnPages, items: Ints, models: PageRewards
) -> Iterator[tuple[Floats, Ints]]:
    """Yield posterior probabilities (n, S, K) and pages (n, D, K) of each component of an option.

    The probability is that of the component, given the item at its position.
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


#: Number of the option's pages in which an item of the target is placed.
BESIDE = 2


def _rewards_on_pages(pages: Ints, items: Ints, models: PageRewards) -> Floats:
    """Return the expected reward (n, S, K) of `items` (n, S, K) when each replaces an item of `pages`.

    Item k of a page is exchanged with the item at position k of pages (n, D, K).
    """
    n, size, K = items.shape
    draws = np.linspace(0, pages.shape[1] - 1, min(BESIDE, pages.shape[1])).astype(np.int64)
    place, out = np.arange(K), np.zeros(items.shape)
    for d in draws:
        changed_pages = np.broadcast_to(
            pages[:, None, None, d], (n, size, K, K)
        ).copy()  # one page per place
        # If the page already contains the item, the displaced item moves to its former position.
        changed_pages = np.where(
            changed_pages == items[..., None],
            changed_pages[:, :, place, place, None],
            changed_pages,
        )
        changed_pages[:, :, place, place] = items
        q = models.mean(changed_pages.reshape(n, size * K, K)).reshape(n, size, K, K)
        out += q[:, :, place, place] / len(draws)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class PageRewards:
    """Reward models on n requests, with the second moments `square` (K,) and `pair` (K, K) of rewards."""

    models: ModelAverage
    square: Floats
    pair: Floats
    requests: RankingLog
    logged: Rankings
    logger: Scored
    fold: Ints

    def policy(self, spec: PolicySpec) -> Scored:
        """Return another policy over the logger's scores."""
        return Scored(self.logger.candidates, self.logger.scores, spec)

    def pages(self, policy: Policy, size: int, rng: np.random.Generator) -> Ints:
        """Return `size` pages (n, S, K) for each request (one if deterministic), cut at the logged lengths."""
        size = 1 if policy.deterministic else size
        return cut(policy.sample(self.requests.K, rng, size=size), self.requests.lengths)

    def mean(self, pages: Ints) -> Floats:
        """Return the expected rewards (n, S, K) of pages (n, S, K), zero for padding."""
        return np.tensordot(self.models.shares, self.by_model(pages), axes=1)

    def by_model(self, pages: Ints, fold: int | None = None) -> Floats:
        """Return the expected rewards by model (M, n, S, K).

        They come from the fits without the request's fold, or from the fit without `fold`.
        """
        n, size, K = pages.shape
        shown = self.logged.others(pages, extra=self.logger.attraction(pages))
        folds = np.repeat(self.fold if fold is None else np.full(n, fold), size)
        return self.models.by_model(shown, folds).reshape(-1, n, size, K)

    def take(self, rows: Ints) -> PageRewards:
        """Return the same models on some of the requests."""
        requests, logger = self.requests.take(rows), self.logger.take(rows)
        logged = rankings_by(requests, logger)
        return replace(self, requests=requests, logged=logged, logger=logger, fold=self.fold[rows])


def rankings_by(log: RankingLog, logger: Scored) -> Rankings:
    """Return the logged rankings with the logger's scores as a feature."""
    return rankings_of(log, extra=logger.attraction(log.action[:, None, :])[:, 0])


def fit_rewards(log: RankingLog, logger: Scored, seed: int) -> PageRewards:
    """Return the models of a log, cross-fitted by unit, with the second moments of its rewards."""
    rankings = rankings_by(log, logger)
    models = fit_pages(log, rankings, seed=seed).supported()
    fold = folds_of(log, models.folds)
    square, pair = second_moments(log.reward, models.mean(rankings, fold))
    return PageRewards(models, square, pair, log, rankings, logger, fold)


def second_moments(reward: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return `square` (K,) and `pair` (K, K) from rewards (n, K) and their expectations.

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


@dataclass(frozen=True, slots=True)
class SimulatedError:
    """The standard error and the allowance of a relative lift by `auto`, from `rows` drawn rankings."""

    rows: int
    stderr: float
    allowance: float

    def detectable(self, rows: float, level: float) -> float:
        """Return the smallest relative lift that is seen from so many rankings with a chance of 80 %."""
        shrunk = math.sqrt(self.rows / rows)
        return detectable(self.stderr * shrunk, allowance=self.allowance * shrunk, level=level)


def simulated_error(
    models: PageRewards, spec: PolicySpec, target: Policy, level: float, seed: int
) -> SimulatedError | None:
    """Return the error of `auto` for a target on a log that an option wrote; None where it cannot run.

    Parameters
    ----------
    models
        Reward models on the requests that are served.
    spec
        The option.
    target
        The policy that is evaluated, over the same requests.
    level
        Confidence of the interval.
    seed
        Seed of pages, rewards and of `auto`.
    """
    log = simulated_log(models, spec, np.random.default_rng([seed, 18]))
    earned = float((log.reward @ log.position_weights).mean())
    try:
        estimate = get_estimator("auto").estimate(log, target, level=level, seed=seed)
    except CounterrankError:
        return None
    if not (estimate.estimable and earned > 0):
        return None
    stderr, allowance = estimate.lift.stderr / earned, estimate.allowance / earned
    measured = stderr > 0 and math.isfinite(stderr + allowance)
    return SimulatedError(log.n, stderr, allowance) if measured else None


def simulated_log(models: PageRewards, spec: PolicySpec, rng: np.random.Generator) -> RankingLog:
    """Return the requests with pages that an option draws, and rewards that the models draw."""
    served = models.policy(spec)
    pages = models.pages(served, 1, rng)
    return models.requests.changed(
        action=pages[:, 0],
        reward=drawn_rewards(models.mean(pages)[:, 0], models.square, rng),
        propensity=served,
        rewards={},
        dists={},
        unit=None,
        targets={},
        notes=(),
    )


def drawn_rewards(q: Floats, amounts: Floats, rng: np.random.Generator) -> Floats:
    """Return rewards (n, K) with means q and second moments amounts * q: amounts[k], or nothing.

    >>> rewards = drawn_rewards(np.full((100_000, 1), 0.5), np.array([2.0]), np.random.default_rng(0))
    >>> rewards.mean().round(2), (rewards**2).mean().round(1), np.unique(rewards).tolist()
    (np.float64(0.5), np.float64(1.0), [0.0, 2.0])
    """
    amount = np.where(amounts > 0, amounts, 1.0)
    chance = np.clip(q / amount, 0.0, 1.0)
    return np.where(rng.random(q.shape) < chance, amount, 0.0)
