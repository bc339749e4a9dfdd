"""The nuisance models of `auto`: which of the cross-fitted models a log allows, and their aimed step.

The aimed step is a correction of the models in the direction of the target.

Models shrink effects towards a common mean. People choose a target because it prefers items that did
well, so shrinkage removes just what the target gains, and all models err in the same direction. That
direction is known: h = log P_target(page) / P_logger(page). One slope of the page's residual e on h is
fitted without shrinkage. With t = h - E_logger[h | x], which has mean zero in every context,

    slope = mean(t e) / mean(t h),    correction = slope x mean(E_target[h | x] - h).

This is the targeting step of targeted learning (van der Laan & Rubin 2006), with one covariate of low
variance in place of the weight, so that its noise does not grow with the length of the ranking. h is cut
to the range of the logged pages, because a line would extrapolate beyond it.

The step needs three sums, so it works on streams. Its error follows from the covariance of the sums by
the delta method, by unit where there are units.
"""

from dataclasses import replace

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.messages import Message, say
from counterrank.common.texts import in_percent
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.crossfit import (
    NO_MODELS,
    Predictions,
    close_models,
    drawn_once,
    draws_for,
    fit_drawn,
    logger_draws,
    scores,
    shares_of,
    trained,
    training_pages,
)
from counterrank.estimators.weights.ratios import ratios_of
from counterrank.kernels.jit import helper, jit
from counterrank.models import (
    Close,
    RepeatedLists,
    RewardModel,
    Stream,
    Training,
    can_average,
    page_policy,
    stream,
    target_draws,
    whole_distribution,
)
from counterrank.policies import Policy

#: Number of sums of the aimed step: mean(t e), mean(t h), mean(E_target h - h).
SUMS = 3
#: Variance of log ratios that is rounding: policies with probabilities alike to a millionth.
FLAT = 1e-12
#: Least and largest of the log ratios that were logged, without their tails.
Span = tuple[float, float]


def span_of(logged: Floats) -> Span:
    """Return the range of logged log ratios; ratios of zero count as the lowest.

    >>> span_of(np.arange(101.0))
    (5.0, 95.0)
    """
    finite = logged[np.isfinite(logged)]
    if not len(finite):
        return 0.0, 0.0
    low, high = np.quantile(finite, [DEFAULTS.tail, 1.0 - DEFAULTS.tail])
    return float(low), float(high)


def cut(values: Floats, span: Span) -> Floats:
    """Return the values, cut to the range."""
    return np.clip(np.nan_to_num(values, nan=0.0), *span)


@helper
def cut_log(ratio: float, low: float, high: float) -> float:
    """Return a log ratio, cut to the range; zero where it is no number."""
    value = np.log(ratio)
    return min(max(0.0 if np.isnan(value) else value, low), high)


def aim_sums(h: Floats, by_logger: Floats, by_target: Floats, residual: Floats) -> Floats:
    """Return the three sums' terms of each row (3, n) from h and its means under both policies."""
    t = h - by_logger
    return np.stack([t * residual, t * h, by_target - h])


def correction(sums: Floats) -> Floats:
    """Return the coefficients (3,) that make the correction of the sums' means.

    correction = g d / v for g = mean(t e), v = mean(t h), d = mean(E_target h - h). The coefficients
    are its derivatives, and sum to the correction itself because it is of degree one.

    Log ratios that do not vary tell nothing, and there is no correction.

    >>> float(correction(np.array([0.5, 2.0, 4.0])) @ [0.5, 2.0, 4.0])
    1.0
    """
    g, v, d = sums
    if not v > FLAT:
        return np.zeros(SUMS)
    return np.array([d / v, -g * d / v**2, g / v])


def log_ratios(target: Policy, logger: Policy, rankings: Ints) -> Floats:
    """Return log P_target / P_logger of whole rankings (n, S, K): (n, S).

    A ranking that only one of the two shows has an infinite ratio, which the range cuts.
    """
    with np.errstate(invalid="ignore"):
        logs = (policy.prefix_log_probs(rankings)[:, :, -1] for policy in (target, logger))
        return np.subtract(*logs)


def ratio_sums(span: Span, new: Floats, old: Floats, logged: Floats, action: Ints) -> Floats:
    """Return h and its exact means under logger and target (3, n); see `add_ratios`."""
    sums, room = np.zeros((3, len(action))), np.empty((2, old.shape[2]))
    add_ratios(span, new, old, logged, action, room, sums)
    return sums


@jit
def add_ratios(
    span: Span,
    new: Floats,
    old: Floats,
    logged: Floats,
    action: Ints,
    room: Floats,
    sums: Floats,
) -> None:
    """Add h and its exact means under logger and target to sums (3, n) where positions are independent.

    h sums the cut log ratios of the shown items `action` (n, K), whose ratios are `logged` (n, K); `new` and
    `old` (n, 1 or K, A) are the distributions. What is not a number counts as zero. `room` (2, A) is to
    work with.
    """
    (n, K), A, (low, high) = action.shape, old.shape[2], span
    h, by_logger, by_target = sums[0], sums[1], sums[2]
    ratios, logs = room[0], room[1]
    for i in range(n):
        of_old, of_new, old_mean, new_mean = -1, -1, 0.0, 0.0
        for k in range(K):
            if action[i, k] < 0:
                continue
            # One distribution may stand for all positions.
            at_old, at_new = min(k, old.shape[1] - 1), min(k, new.shape[1] - 1)
            if at_old != of_old or at_new != of_new:
                of_old, of_new = at_old, at_new
                old_mean, new_mean = 0.0, 0.0
                for a in range(A):
                    ratios[a] = new[i, of_new, a] / old[i, of_old, a]
                    logs[a] = cut_log(ratios[a], low, high)
                    old_mean += old[i, of_old, a] * logs[a]
                    new_mean += new[i, of_new, a] * logs[a]
            by_logger[i] += old_mean
            by_target[i] += new_mean
            # Logarithms are most of the work: that of the shown item is mostly known.
            u = action[i, k]
            same_ratio = logged[i, k] == ratios[u]
            h[i] += logs[u] if same_ratio else cut_log(logged[i, k], low, high)


def aim(models: Predictions, view: View, residual: Floats) -> Floats:
    """Return the terms of the aimed step (3, n) from the pages' residuals; (0, n) without one."""
    batch, span = view.batch, models.span
    if span is None:
        return np.empty((0, batch.n))
    if not models.draws:
        # Positions are independent, and means exact.
        old, new = (whole_distribution(batch, name) for name in (LOGGING, view.target))
        assert old is not None and new is not None
        h, *means = ratio_sums(span, new, old, view.ratios.rho, batch.action)
        return aim_sums(h, means[0], means[1], residual)
    target, logger = (page_policy(batch, name) for name in (view.target, LOGGING))
    if target is None or logger is None or batch.n == 0:
        return np.empty((SUMS, batch.n))

    def steps() -> list[Floats]:
        logged, drawn = batch.action[:, None, :], drawn_once(view, models.draws, models.seed)
        by_logger = logger_draws(view, logger, models.draws, models.seed)
        pages = np.concatenate([logged, by_logger, drawn], axis=1)
        ratios = cut(log_ratios(target, logger, pages), span)
        parts = np.split(ratios, [1, 1 + by_logger.shape[1]], axis=1)
        return [piece.mean(axis=1) for piece in parts]

    # It does not depend on rewards, so views of other rewards share it.
    h, by_logger, by_target = view.draws_of.cached(("aim", models.draws, models.seed, span), steps)
    return aim_sums(h, by_logger, by_target, residual)


def fit_aimed(workspace: Workspace) -> Predictions:
    """Return the click models of a log, with what the aimed step and the rule need beside them."""
    (sample, rankings), target = training_pages(workspace), workspace.target
    models, unknown, span = fit_drawn(workspace, sample, rankings), 0.0, None
    new, old = (page_policy(sample, name) for name in (target, LOGGING))
    if new is not None and old is not None:
        span = span_of(log_ratios(new, old, sample.action[:, None, :])[:, 0])
    lists = models.models[-1]
    if isinstance(lists, RepeatedLists):
        drawn = target_draws(sample, target, draws_for(sample.n), workspace.seed)
        pages = rankings.others(drawn, extra=scores(sample, target, drawn))
        unknown = lists.unknown(rankings, pages)
    return replace(models, paired=True, span=span, unknown=unknown)


def doubt_of(model: RewardModel, log: RankingLog, target: str) -> float:
    """Return what the log leaves unknown of the change that a closed-form model expects, as a variance."""
    return model.doubt(log.take(np.arange(0, log.n, -(-log.n // DEFAULTS.doubt_rows))), target)


def _of_close_models(workspace: Workspace, close: Close, training: Training) -> Predictions:
    """Return what the closed-form models near the best say, with their shares and their doubt."""
    first, target = workspace.first, workspace.target
    shares = shares_of(close.losses, close.slots, close.unit)
    rows = training.source.sample(
        DEFAULTS.training_rows, stream(workspace.seed, Stream.CROSS_FIT_ROWS)
    )
    span = None
    if first.distribution(LOGGING) is not None:
        with np.errstate(divide="ignore"):
            span = span_of(np.log(ratios_of(rows, target).rho[rows.action >= 0]))
    unknown = doubt_of(close.models[0], rows, target)
    details = close.models[0].details | {"doubt": unknown**0.5}
    return Predictions(
        close.models,
        shares,
        close=close.counted,
        details=details,
        span=span,
        unknown=unknown,
        doubted=unknown > 0.0,
    )


def nuisances_for(workspace: Workspace) -> tuple[Predictions, tuple[str, ...]]:
    """Return the models that this log allows, and flags about them."""
    kind, first, target = workspace.ratios.kind, workspace.first, workspace.target
    # The closed-form models are models of rewards by position. They need the target's distribution, the
    # aimed step needs the logger's too.
    close = close_models(workspace)
    if close is not None and (training := trained(workspace)) is not None:
        return _of_close_models(workspace, close, training), ()
    if first.K > DEFAULTS.longest:
        text = (
            f"{first.K} positions are too many for a reward model (at most {DEFAULTS.longest}), so "
            "auto uses weights and mean-zero controls; shorter rankings would do better"
        )
        return NO_MODELS, (Message("weights-only", text),)
    if can_average(first, target):
        aimed = workspace.cached("click models", lambda: fit_aimed(workspace))
        text = (
            f"what the reward models expect ('{kind}' propensities) is an average over "
            f"{aimed.draws} drawn rankings a row, whose error is inside the standard error"
        )
        messages = [Message("drawn-mean", text)]
        if aimed.rate < 1.0:
            text = (
                f"what the models and own-position weights say is asked of {in_percent(aimed.rate)} of "
                f"the {workspace.source.n or 0:,} rankings, drawn at random, and added to what all of "
                "them earned; the standard error includes it"
            )
            messages.append(Message("sampled-rows", text))
        return aimed, (*messages, *aimed.flags)
    if kind == "factored":
        text = (
            "the log has only the shown items' probabilities, so auto uses weights "
            f"and mean-zero controls; with 'propensity_dist' and '{target}_dist' columns (or "
            "policies) it could use reward models and would usually be several times more exact"
        )
        return NO_MODELS, (Message("weights-only", text),)
    policy = say("--policy", f"{target}=plackett-luce", f"policies={{'{target}': 'plackett-luce'}}")
    text = (
        f"of '{target}' the log has '{kind}' propensities, from which no rankings "
        "can be drawn, so auto uses weights and mean-zero controls; with the policy itself, such as "
        f"{policy} where the log has its scores, it could use reward models and would usually be "
        "several times more exact"
    )
    return NO_MODELS, (Message("weights-only", text),)
