"""The nuisance models of `auto`: which of the cross-fitted models a log allows, and their aimed step."""

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from counterrank.arrays import Floats, Ints
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
    AskedPages,
    ClosedForm,
    Drawn,
    Outlook,
    TrainingPages,
    averaged,
    drawn_once,
    draws_for,
    fit_pages,
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
    paired_draws,
    stream,
    target_draws,
    whole_distribution,
)
from counterrank.policies import Policy
from counterrank.records import Json
from counterrank.texts import in_percent
from counterrank.weights.ratios import ratios_of


class Nuisances(Protocol):
    """Fitted models: `folds` of them were each fitted without one fold of rows."""

    @property
    def folds(self) -> int:
        """Number of folds F; a row's is its bucket modulo F."""

    @property
    def shares(self) -> Floats:
        """How much each model counts in the average (M,)."""

    @property
    def details(self) -> Json:
        """What was fitted, for people."""

    def outlook(self, view: View, fold: int | None = None) -> Outlook:
        """Return what the models say of a view's rows, by the fits that did not see them or by one fit."""

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step (3, n) from the pages' residuals; (0, n) without one."""


@dataclass(frozen=True, slots=True, eq=False)
class AimedClosedForm(ClosedForm):
    """Closed-form models, and the log ratios that were logged."""

    span: Range

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step, its means exact: positions are independent."""
        batch = view.batch
        old, new = (whole_distribution(batch, name) for name in (LOGGING, view.target))
        assert old is not None and new is not None
        shown = batch.action >= 0
        return aim_sums(*by_position(self.span, new, old, view.ratios.rho, shown), residual)


@dataclass(frozen=True, slots=True, eq=False)
class AimedDrawn(Drawn):
    """Models averaged over drawn rankings, with what the aimed step and the rule need beside them."""

    #: Log ratios that were logged; None where a policy does not know its rankings' probabilities.
    span: Range | None = None
    #: Variance of the change that repeated lists leave unknown (`models.RepeatedLists.unknown`).
    unknown: float = 0.0

    def aim(self, view: View, residual: Floats) -> Floats:
        """Return the terms of the aimed step, its means over drawn rankings of both policies."""
        batch = view.batch
        target, logger = (page_policy(batch, name) for name in (view.target, LOGGING))
        if self.span is None or target is None or logger is None or batch.n == 0:
            return np.empty((0 if self.span is None else SUMS, batch.n))
        span = self.span

        def steps() -> list[Floats]:
            own = batch.action[:, None, :]
            drawn = drawn_once(view, self.draws, self.seed)
            others = self._by_logger(view, logger, self.draws)
            ratios = span.cut(
                log_ratios(target, logger, np.concatenate([own, others, drawn], axis=1))
            )
            parts = np.split(ratios, [1, 1 + others.shape[1]], axis=1)
            return [part.mean(axis=1) for part in parts]

        # It does not depend on rewards, so views of other rewards share it.
        h, by_logger, by_target = view.draws_of.once(("aim", self.draws, self.seed, span), steps)
        return aim_sums(h, by_logger, by_target, residual)

    def _pages(self, view: View, size: int) -> AskedPages:
        """Return rankings of both policies, half of `size` each, where the logger can be drawn from.

        The shown page is only one draw of the logger. If it stood for the logger's mean, a target equal
        to the logger would seem to change something.
        """
        logger = page_policy(view.batch, LOGGING)
        if logger is None or view.batch.n == 0:
            return super(AimedDrawn, self)._pages(view, size)
        half = -(-size // 2)

        def make() -> AskedPages:
            both = drawn_once(view, size, self.seed), self._by_logger(view, logger, size)
            target, other = (self._drawn(view, pages[:, :half]) for pages in both)
            return AskedPages(((1.0, target), (-1.0, other)))

        return view.once(("drawn rankings", size), make)

    def _by_logger(self, view: View, logger: Policy, size: int) -> Ints:
        """Return (n, size, K) rankings of the logger, drawn once."""
        first = view.draws_of
        return first.once(
            ("logger draws", size),
            lambda: paired_draws(first.batch, logger, size, self.seed),
        )


def fit_drawn(workspace: Workspace) -> AimedDrawn:
    """Return the click models of a log, fitted to a sample of its rows."""
    pages = TrainingPages.of(workspace)
    fitted = fit_pages(*pages, seed=workspace.seed)
    drawn = averaged(workspace, pages, fitted)
    return AimedDrawn(
        **{one.name: getattr(drawn, one.name) for one in fields(drawn)},
        span=logged_span(pages.sample, workspace.target),
        unknown=0.0 if fitted.lists is None else unknown_of(fitted.lists, pages, workspace),
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
        return AimedClosedForm(close.models, shares, span), ()
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
