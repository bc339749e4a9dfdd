"""Rows of several rankers as rows of their mixture, with a weight for each ranker.

In a test a coin decides which ranker serves a row. Without the coin, the page L comes from the mixture
of all arms with their shares p of the rows. With

    w_a = P_a(L | x) / sum_b p_b P_b(L | x),    0 <= w_a <= 1 / p_a,

E[w_a y] is the value of arm a, y being the reward of the page (Agarwal, Basu, Schnabel & Joachims 2017).
w_a is the mean of 1{arm = a} / p_a given the page, so averaging over the coin reduces the variance and
adds no assumption about users (Rao & Blackwell). Given the counts of rows the mean is right for any
shares, so that counted shares do as well as known ones.

For any function q of row and page, E_mix[(w_a - w_b) q | x] - (w_a - w_b) q has mean zero. A reward
model makes such a control variate. A wrong model does no harm, because the covariance with the
estimate decides how much of the control is subtracted.
"""

from collections.abc import Sequence

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import PropensityError
from counterrank.data.log import RankingLog
from counterrank.estimators.crossfit import (
    DEFAULTS,
    draws_for,
    fit_pages,
    folds_of,
    logged_rankings,
    scores,
)
from counterrank.estimators.weights.ratios import refuse_impossible
from counterrank.models import Stream, page_policy, policy_draws, stream
from counterrank.policies import Policy


def page_log_probs(log: RankingLog, arms: Sequence[str]) -> Floats:
    """Return log P_a(page | x) of every arm's policy for every row (n, A).

    Raises
    ------
    PropensityError
        An arm does not say how likely a whole page is.
    """
    return np.stack([_log_prob(log, name) for name in arms], axis=1)


def _log_prob(log: RankingLog, name: str) -> Floats:
    """Return log P(page | x) of logged pages (n,)."""
    policy = log.target(name)
    if isinstance(policy, Policy):
        if "prefix" not in policy.capabilities:
            raise PropensityError(
                f"arm '{name}': {type(policy).__name__} does not say how likely a whole page is; "
                f"give its probabilities as a column '{name}' (kind 'joint')"
            )
        return policy.prefix_log_prob(log.action)[:, -1]
    if policy.kind == "position" and log.K > 1:
        raise PropensityError(
            f"arm '{name}' has marginal probabilities of single positions, which do not say how "
            "likely a whole page is; give its scores, or propensities of the kinds factored, "
            "prefix or joint"
        )
    with np.errstate(divide="ignore"):
        log_chances = np.log(policy.by_position(log.K))
    used = np.arange(log.K) < (1 if policy.kind == "joint" else log.lengths[:, None])
    out: Floats = np.where(used, log_chances, 0.0).sum(axis=1)
    return out


def refuse_unserved(log: RankingLog, name: str, rows: Ints, log_prob: Floats) -> None:
    """Raise where an arm's chance of a page that it served, (len(rows),), is zero."""
    served = log.take(rows)
    served = served.changed(propensity=served.target(name))
    chances = np.exp(log_prob)[:, None] * np.ones(log.K)
    try:
        refuse_impossible(served, chances, "joint")
    except PropensityError as problem:
        count = int(np.count_nonzero(np.isneginf(log_prob)))
        raise PropensityError(
            f"arm '{name}' gives {count:,} of the {len(rows):,} pages that it served probability "
            f"0; {problem}"
        ) from problem


def balance_weights(log_prob: Floats, shares: Floats) -> Floats:
    """Return w (n, A) from log P (n, A) and shares (A,) of the rows; zeros where no arm shows the page.

    >>> chances = np.array([[0.5, 0.5], [0.9, 0.1]])
    >>> balance_weights(np.log(chances), np.array([0.5, 0.5])).round(1).tolist()
    [[1.0, 1.0], [1.8, 0.2]]
    """
    top = log_prob.max(axis=1, keepdims=True)
    relative = np.exp(log_prob - np.where(np.isfinite(top), top, 0.0))
    mixed = np.broadcast_to((relative @ shares)[:, None], relative.shape)
    return np.divide(relative, mixed, out=np.zeros_like(relative), where=mixed > 0.0)


def can_model(log: RankingLog, arms: Sequence[str]) -> bool:
    """Return whether a reward model's mean under every arm can be formed: their pages can be drawn."""
    return log.K <= DEFAULTS.longest and all(page_policy(log, name) is not None for name in arms)


def model_control(
    log: RankingLog,
    arms: Sequence[str],
    pair: tuple[int, int],
    shares: Floats,
    *,
    seed: int,
) -> Floats:
    """Return E_mix[(w_a - w_b) q | x] - (w_a - w_b) q (n,) for the arms numbered `pair` = (a, b).

    q is the mean of cross-fitted click models, which read both arms' scores. The mean over the
    mixture is an average over drawn pages of each arm, whose noise has mean zero. The control is zero on
    rows that the models are not asked about.
    """
    first, second = (arms[index] for index in pair)
    # The models then read the scores of both rankers, whichever served a row.
    second_log = log.changed(propensity=log.target(second))
    rng = stream(seed, Stream.CROSS_FIT_ROWS)
    rows = _some(log.n, DEFAULTS.training_rows, rng)
    sample = second_log.take(rows)
    fitted = fit_pages(sample, logged_rankings(sample, first), seed=seed)

    drawn_rows = _some(log.n, DEFAULTS.draws_together, rng)
    batch = second_log.take(drawn_rows)
    logged = logged_rankings(batch, first)
    fold = folds_of(batch, DEFAULTS.folds)
    alpha = batch.position_weights
    policies = [policy for name in arms if (policy := page_policy(batch, name)) is not None]

    def change(pages: Ints) -> Floats:
        """Return w_a - w_b of pages (n, K), (n,)."""
        shown = np.ascontiguousarray(pages)
        log_probs = np.stack([policy.prefix_log_prob(shown)[:, -1] for policy in policies], axis=1)
        w = balance_weights(log_probs, shares)
        return np.asarray(w[:, pair[0]] - w[:, pair[1]])

    control = -change(batch.action) * (fitted.mean(logged, fold) @ alpha)
    for share, policy in zip(shares, policies, strict=True):
        size = 1 if policy.deterministic else draws_for(batch.n)
        # Every arm has the same random numbers: like rankers show like pages, and their noise cancels.
        drawn = policy_draws(batch, policy, size, [seed, Stream.ARM_RANKINGS])
        pages = logged.others(drawn, extra=scores(batch, first, drawn))
        q = (fitted.mean(pages, np.repeat(fold, size)) @ alpha).reshape(-1, size)
        for j in range(size):
            control += share / size * change(drawn[:, j]) * q[:, j]
    out = np.zeros(log.n)
    out[drawn_rows] = control
    return out


def _some(n: int, limit: int, rng: np.random.Generator) -> Ints:
    if n <= limit:
        return np.arange(n)
    return np.sort(rng.choice(n, limit, replace=False))
