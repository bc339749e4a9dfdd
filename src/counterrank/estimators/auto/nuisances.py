"""The nuisance models of `auto`: which of the cross-fitted models a log allows, and their aimed step."""

from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Bools, Floats
from counterrank.data.log import LOGGING, RankingLog
from counterrank.estimators.auto.aim import (
    SUMS,
    Range,
    aim_sums,
    by_position,
    log_ratios,
)
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.base import View, Workspace
from counterrank.estimators.crossfit import (
    Predictions,
    TrainingPages,
    drawn_once,
    draws_for,
    fit_pages,
    logger_draws,
    over_draws,
    scores,
    shares_of,
    trained,
)
from counterrank.messages import Message, say
from counterrank.models import (
    RepeatedLists,
    Stream,
    can_sample,
    fit_close,
    fits_in_memory,
    has_distribution,
    page_policy,
    stream,
    target_draws,
    whole_distribution,
)
from counterrank.texts import in_percent
from counterrank.weights.ratios import ratios_of


@dataclass(frozen=True, slots=True, eq=False)
class Nuisances(Predictions):
    """Predictions with what the aimed step and the rule need beside them."""

    #: Log ratios that were logged; None where a policy does not know its rankings' probabilities.
    span: Range | None = None
    #: Variance of the change that repeated lists leave unknown (`models.RepeatedLists.unknown`).
    unknown: float = 0.0

    @property
    def trusted(self) -> Bools | None:
        """The models (M,) whose disagreement counts; None for all, as in closed forms."""
        return self.shares >= DEFAULTS.least_share if self.draws else None

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step (3, n) from the pages' residuals; (0, n) without one."""
        batch, span = view.batch, self.span
        if span is None:
            return np.empty((0, batch.n))
        if not self.draws:
            # Positions are independent, and means exact.
            old, new = (whole_distribution(batch, name) for name in (LOGGING, view.target))
            assert old is not None and new is not None
            shown = batch.action >= 0
            return aim_sums(*by_position(span, new, old, view.ratios.rho, shown), residual)
        target, logger = (page_policy(batch, name) for name in (view.target, LOGGING))
        if target is None or logger is None or batch.n == 0:
            return np.empty((SUMS, batch.n))

        def steps() -> list[Floats]:
            own, drawn = batch.action[:, None, :], drawn_once(view, self.draws, self.seed)
            others = logger_draws(view, logger, self.draws, self.seed)
            ratios = span.cut(
                log_ratios(target, logger, np.concatenate([own, others, drawn], axis=1))
            )
            parts = np.split(ratios, [1, 1 + others.shape[1]], axis=1)
            return [part.mean(axis=1) for part in parts]

        # It does not depend on rewards, so views of other rewards share it.
        h, by_logger, by_target = view.draws_of.once(("aim", self.draws, self.seed, span), steps)
        return aim_sums(h, by_logger, by_target, residual)


def fit_drawn(workspace: Workspace) -> Nuisances:
    """Return the click models of a log, fitted to a sample of its rows."""
    pages = TrainingPages.of(workspace)
    fitted = fit_pages(*pages, seed=workspace.seed)
    lists = fitted.models[-1]
    return Nuisances(
        **over_draws(workspace, pages, fitted),
        paired=True,
        span=logged_span(pages.sample, workspace.target),
        unknown=unknown_of(lists, pages, workspace) if isinstance(lists, RepeatedLists) else 0.0,
    )


def logged_span(sample: RankingLog, target: str) -> Range | None:
    """Return the range of the logged rankings' log ratios; None where a policy does not know them."""
    new, old = (page_policy(sample, name) for name in (target, LOGGING))
    if new is None or old is None:
        return None
    return Range.of(log_ratios(new, old, sample.action[:, None, :])[:, 0])


def unknown_of(lists: RepeatedLists, pages: TrainingPages, workspace: Workspace) -> float:
    """Return the variance of the change that the means of repeated lists leave unknown."""
    (sample, rankings), target = pages, workspace.target
    drawn = target_draws(sample, target, draws_for(sample.n), workspace.seed)
    return lists.unknown(rankings, rankings.others(drawn, extra=scores(sample, target, drawn)))


def nuisances_for(workspace: Workspace) -> tuple[Nuisances | None, tuple[str, ...]]:
    """Return the models that this log allows, and flags about them."""
    first, target = workspace.first, workspace.target
    kind = ratios_of(first.take(slice(0, 1)), target).kind
    whole = has_distribution(first, target) and has_distribution(first, LOGGING)
    # The closed-form models are models of rewards by position.
    if kind == "factored" and whole and fits_in_memory(first) and not first.page_reward:
        training, within = trained(workspace), DEFAULTS.close
        close = workspace.once(
            ("close models", target),
            lambda: fit_close(training, seed=workspace.seed, within=within),
        )
        shares = shares_of(close.losses, close.slots, close.unit)
        rng = stream(workspace.seed, Stream.CROSS_FIT_ROWS)
        some = training.source.sample(DEFAULTS.training_rows, rng)
        with np.errstate(divide="ignore"):
            span = Range.of(np.log(ratios_of(some, target).rho[some.action >= 0]))
        details = close.models[0].details
        return Nuisances(close.models, shares, details=details, span=span), ()
    if first.K > DEFAULTS.longest:
        long = _LONG.format(K=first.K, most=DEFAULTS.longest)
        return None, (Message("weights-only", long),)
    if can_sample(first, target) or has_distribution(first, target):
        found = workspace.once(("click models", target), lambda: fit_drawn(workspace))
        drawn = Message("drawn-mean", _DRAWN.format(kind=kind, draws=found.draws))
        share = in_percent(found.rate)
        sampled = Message("sampled-rows", _SAMPLED.format(share=share, n=workspace.source.n or 0))
        said = (drawn, sampled) if found.rate < 1.0 else (drawn,)
        return found, (*said, *found.flags)
    return None, (Message("weights-only", _why(target, kind, factored=kind == "factored")),)


_LONG = (
    "{K} positions are too many for a reward model (at most {most}), so auto uses "
    "weights and mean-zero controls; shorter rankings would do better"
)
_DRAWN = (
    "what the reward models expect ('{kind}' propensities) is an average over {draws} drawn "
    "rankings a row, whose error is inside the standard error"
)
_SAMPLED = (
    "what the models and own-position weights say is asked of {share} of the "
    "{n:,} rankings, drawn at random, and added to what all of them earned; the standard error "
    "includes it"
)


def _why(target: str, kind: str, *, factored: bool) -> str:
    if factored:
        return (
            "the log has only the shown items' probabilities, so auto uses weights "
            f"and mean-zero controls; with 'propensity_dist' and '{target}_dist' columns (or "
            "policies) it could use reward models and would usually be several times more exact"
        )
    policy = say("--policy", f"{target}=plackett-luce", f"policies={{'{target}': 'plackett-luce'}}")
    return (
        f"of '{target}' the log has '{kind}' propensities, from which no rankings "
        "can be drawn, so auto uses weights and mean-zero controls; with the policy itself, such as "
        f"{policy} where the log has its scores, it could use reward models and would usually be "
        "several times more exact"
    )
