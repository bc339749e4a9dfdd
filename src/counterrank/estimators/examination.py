"""Estimates by models of examination."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common import stores
from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import ConfigError, EstimatorError
from counterrank.common.messages import Message, say
from counterrank.common.records import Json
from counterrank.data.log import Propensity, RankingLog
from counterrank.data.source import Source
from counterrank.estimators.base import Estimator, Fitted, View, Workspace
from counterrank.estimators.contribution import ContributionFit
from counterrank.estimators.solution import Traits
from counterrank.estimators.weights.ratios import refuse_impossible
from counterrank.models import (
    ListModel,
    Rankings,
    Stream,
    Variant,
    fit_list_models,
    policy_draws,
    rankings_of,
    stream,
)
from counterrank.policies import Policy, Scored, TeamDraft, position_matrix
from counterrank.statistics import Quantity, fold_deviations

FOLDS = 5
#: Rows that the models are fitted to, and rows on which the fits of folds are compared. More hardly
#: change the fits.
FIT_ROWS, COMPARED_ROWS = 100_000, 5_000
#: Draws of a random target for a row; a deterministic target needs one.
DRAWS = 8
#: Largest standard error of the log curve. With more, a curve that falls by half cannot be told from a
#: flat one.
MAX_CURVE_ERROR = 0.2
#: Items shown fewer times than this on average are too rare; then classes of relevance replace items.
FEW_SHOWN = 20
CLASSES = 20

_DIRECTIONAL = (
    "directional at best: what was not shown is judged by a model of users, which the "
    "log cannot check"
)


def read_position_curve(path: str | os.PathLike[str]) -> Floats:
    """Return the chances of examination by position from a JSON list or a text file of numbers."""
    try:
        text = stores.read_bytes(path).decode("utf-8")
        # JSON as `counterrank curve` writes it, a JSON list, or plain text.
        numbers: Any = text.replace(",", " ").split()
        if text.lstrip()[:1] in ("[", "{"):
            numbers = json.loads(text)
        return as_curve(numbers["curve"] if isinstance(numbers, dict) else numbers)
    except OSError as problem:
        raise ConfigError(
            f"the position curve {path} cannot be read: {problem.strerror or problem}"
        ) from None
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise ConfigError(f"{path} is no position curve: {problem}") from None


def as_curve(values: ArrayLike) -> Floats:
    """Return a curve as positive numbers relative to the first.

    >>> as_curve([2.0, 1.0, 0.5]).tolist()
    [1.0, 0.5, 0.25]
    """
    curve = np.asarray(values, dtype=np.float64)
    if curve.ndim != 1 or len(curve) == 0 or not (np.isfinite(curve) & (curve > 0)).all():
        raise ConfigError(
            "a position curve is a list of positive numbers, one per position, such as 1, 0.6, 0.4"
        )
    relative: Floats = curve / curve[0]
    return relative


def curve_error(groups: Ints, action: Ints, rate: float) -> Floats:
    """Return the standard error of each position's log examination (K,), infinite where nothing identifies it.

    `groups` (n, K) are items, or classes of equal relevance. Counts are Poisson with rate theta_k rel_g.
    With the level of each group profiled out, the Fisher information is the Laplacian of a graph of
    positions whose edges have the weights sum_g N_gk N_gl / N_g. A position that shares no group with
    others is not connected to them, and its examination is not identified.
    """
    K = action.shape[1]
    shown = action >= 0
    _, number = np.unique(groups[shown], return_inverse=True)
    table = np.zeros((int(number.max()) + 1, K))
    np.add.at(table, (number, np.broadcast_to(np.arange(K), action.shape)[shown]), 1.0)
    joined = (table / table.sum(axis=1, keepdims=True)).T @ table
    information = rate * (np.diag(joined.sum(axis=1)) - joined)
    values, vectors = np.linalg.eigh(information)
    # The eigenvector of ones is the level, which relevance absorbs. Any other with eigenvalue zero is a
    # direction that is not identified.
    positive = values > 1e-9 * max(values[-1], 1e-300)
    spread = (
        np.sqrt((vectors[:, positive] ** 2 / values[positive]).sum(axis=1))
        if positive.any()
        else np.full(K, np.inf)
    )
    free = vectors[:, ~positive]
    return np.where(np.abs(free - free.mean(axis=0)).max(axis=1) > 1e-6, np.inf, spread)


@dataclass(frozen=True, slots=True, eq=False)
class Examined:
    """Fitted models of users, and curves of examination (P, F + 1, K) by fold left out, last that of all rows.

    theta_k times the attraction is the expected reward at k. There are models with and without the
    logger's own score. Without it, items that were not shown are overrated; with it, the model believes
    a logger that may be wrong. Both are averaged.
    """

    models: tuple[ListModel, ...]
    curves: Floats
    error: Floats
    estimated: bool

    @property
    def curve(self) -> Floats:
        """The curve of all rows relative to the first position (K,), the mean over the models."""
        last = self.curves[:, -1].mean(axis=0)
        relative: Floats = last / last[0]
        return relative

    @property
    def details(self) -> Json:
        """The curve relative to the first position, for people."""
        return {
            "position_curve": self.curve.tolist(),
            "curve_error": [float(e) if np.isfinite(e) else None for e in self.error],
            "curve": "estimated" if self.estimated else "given",
        }


def fit_examination(source: Source, curve: Floats | None, *, seed: int) -> Examined:
    """Return the model of users; refuse a log that does not identify the curve where none is given."""
    K = source.first.K
    if curve is not None and len(curve) < K:
        raise ConfigError(
            f"the position curve has {len(curve)} numbers, the log {K} positions; give one for each"
        )
    sample = source.sample(FIT_ROWS, stream(seed, Stream.EXAMINATION_ROWS))
    if (sample.reward < 0).any():
        raise EstimatorError(
            "rewards below zero are no clicks or amounts: examination times relevance needs 0 or "
            "more"
        )
    if not sample.reward.any():
        raise EstimatorError(
            "every reward is zero: there is no click to learn examination or relevance from"
        )
    rankings, fold = _rankings(sample), sample.bucket % FOLDS
    told = (0, rankings.extras) if rankings.extras else (0,)
    variants = tuple(
        Variant(extra=extra, competition=rival) for rival in (False, True) for extra in told
    )
    models = fit_list_models(
        rankings, sample.reward, fold, folds=FOLDS, variants=variants, seed=seed
    )
    strengths = [model.strength(rankings, fold) for model in models[: len(told)]]
    error = _identified(sample, strengths[0]) if curve is None else np.zeros(K)
    curves = np.stack([_curves(sample.reward, strength, fold, curve) for strength in strengths])
    return Examined(models, curves, error, curve is None)


def _identified(sample: RankingLog, strength: Floats) -> Floats:
    shown = sample.action >= 0
    groups = sample.action
    if shown.sum() < FEW_SHOWN * len(np.unique(sample.action[shown])):
        edges = np.quantile(strength[shown], np.arange(1, CLASSES) / CLASSES)
        groups = np.searchsorted(edges, strength)
    error = curve_error(groups, sample.action, float((sample.reward[shown] > 0).mean()))
    bad = ~(error <= MAX_CURVE_ERROR)
    if bad.any():
        worst = (np.flatnonzero(bad) + 1).tolist()
        largest = float(error[bad].max())
        how = (
            f"hardly ever shown elsewhere (standard error of the log curve {largest:.2g}, at most "
            f"{MAX_CURVE_ERROR} is needed)"
            if np.isfinite(largest)
            else "never shown elsewhere"
        )
        curve = say("--position-curve", "FILE", "PositionBased(position_curve=FILE)")
        raise EstimatorError(
            f"examination cannot be told from relevance at position{'s' if len(worst) > 1 else ''} "
            f"{', '.join(map(str, worst))}: what stands there was {how}; log a swap of two neighbours "
            "for some percent of requests, pool several model versions, or give a curve measured "
            f"elsewhere with {curve}"
        )
    return error


def _curves(reward: Floats, strength: Floats, fold: Ints, curve: Floats | None) -> Floats:
    """Return theta (F + 1, K): earned / attraction at each position, each fold's without its own rows."""
    # Clicks at k over the attraction shown at k: the maximum of the likelihood for known attraction.
    other_folds = (fold != np.arange(FOLDS + 1)[:, None]).astype(np.float64)
    earned, attraction = other_folds @ reward, other_folds @ strength
    if curve is not None:
        shape = curve[: reward.shape[1]]
        scaled: Floats = shape * (earned.sum(axis=1) / (attraction @ shape))[:, None]
        return scaled
    overall = earned.sum(axis=1, keepdims=True) / np.maximum(
        attraction.sum(axis=1, keepdims=True), 1e-300
    )
    # Half a unit of attraction at the overall level keeps empty positions from a division by zero.
    curves: Floats = (earned + 0.5 * overall) / (attraction + 0.5)
    return curves


def drawn(workspace: Workspace, batch: RankingLog) -> Ints:
    """Return rankings of the target (n, D, K), as long as the logged ones."""
    target = batch.target(workspace.target)
    assert isinstance(target, Policy)
    size = 1 if target.deterministic else DRAWS
    return policy_draws(batch, target, size, (workspace.seed, Stream.EXAMINATION_RANKINGS))


def user_model_fit(
    name: str, workspace: Workspace, fitted: Examined, traits: Traits
) -> ContributionFit:
    """Return the fit of a model of users: "pbm" or "click-model".

    The standard error contains the differences between the fits of folds (delete-a-fold jackknife). The
    interval allows for the disagreement of the two models of users, because neither can be checked
    where the logger never varied.
    """
    expect = _EXPECTED[name]

    def contributions(view: View) -> tuple[Floats, Floats]:
        batch = view.batch
        y = expect(fitted, batch, drawn(workspace, batch), batch.bucket % FOLDS).mean(axis=0)
        return y, np.ones_like(y)

    rng = stream(workspace.seed, Stream.COMPARED_ROWS)
    sample = workspace.source.sample(COMPARED_ROWS, rng)
    draws, alpha, own_fold = (
        drawn(workspace, sample),
        sample.position_weights,
        sample.bucket % FOLDS,
    )

    def values(expect: Expect, fold: Ints) -> Floats:
        totals: Floats = (expect(fitted, sample, draws, fold) @ alpha).mean(axis=1)
        return totals

    by_fold = np.array([values(expect, np.full(sample.n, f)).mean() for f in range(FOLDS)])
    rivals = np.concatenate([values(rival, own_fold) for rival in _EXPECTED.values()])
    # The largest difference, not half the range: all other models may lie on one side of this one.
    allowance = float(np.abs(rivals - values(expect, own_fold).mean()).max())

    def widened(value: Quantity) -> Quantity:
        # What the logger earned needs no model, so the error of the fit enters the lift in full.
        return replace(value, refits=fold_deviations(by_fold), allowance=allowance)

    return ContributionFit(
        name,
        workspace,
        (name, id(fitted)),
        traits,
        contributions=contributions,
        flags=(Message(name, _DIRECTIONAL),),
        details=fitted.details,
        widened=widened,
    )


def position_based(fitted: Examined, batch: RankingLog, draws: Ints, fold: Ints) -> Floats:
    """Return y_l = theta_l rel(b_l) + sum over shown k of 1[b_l = a_k] theta_l / exposure_k (r_k - theta_k rel(a_k)).

    An item that the target moves to another position keeps its own click; for an item that was not
    shown there is the model alone. The result is (P, n, K) by model, for draws b (n, D, K), each row by
    the fit without `fold` (n,).
    """
    rankings = _rankings(batch)
    drawn_rankings = rankings.others(draws, extra=logger_scores(batch, draws))
    shared = (draws[:, :, :, None] == batch.action[:, None, None, :]) & (
        draws[:, :, :, None] >= 0
    )  # (n, D, l, k)
    shown, contributions = batch.action >= 0, []
    for model, curve in zip(fitted.models, fitted.curves, strict=False):
        # Nobody examines what lies below the end of a ranking.
        theta = np.where(shown, curve[fold], 0.0)
        attraction = model.strength(drawn_rankings, np.repeat(fold, draws.shape[1])).reshape(
            draws.shape
        )
        # What was earned beyond the model, per unit of exposure: it belongs to the item and moves
        # with it.
        residual = batch.reward - theta * model.strength(rankings, fold)
        surprise = np.divide(
            residual, exposure(batch, theta), out=np.zeros_like(residual), where=shown
        )
        moved = np.einsum("ndlk,nk->ndl", shared, surprise)
        contributions.append(
            (theta[:, None, :] * np.where(draws >= 0, attraction + moved, 0.0)).mean(axis=1)
        )
    return np.stack(contributions)


def by_history(fitted: Examined, batch: RankingLog, draws: Ints, fold: Ints) -> Floats:
    """Return the click-history models' expected rewards (M, n, K) by model, averaged over draws."""
    drawn_rankings = _rankings(batch).others(draws, extra=logger_scores(batch, draws))
    folds = np.repeat(fold, draws.shape[1])
    return np.stack(
        [
            model.expected(drawn_rankings, folds).reshape(draws.shape).mean(axis=1)
            for model in fitted.models
        ]
    )


Expect = Callable[[Examined, RankingLog, Ints, Ints], Floats]
_EXPECTED: dict[str, Expect] = {"pbm": position_based, "click-model": by_history}


def logger_scores(batch: RankingLog, items: Ints) -> Floats | None:
    """Return the logger's scores of items (n, ...), None where it has none.

    The worst of the row for no candidates. A draft has those of both teams in a last dimension: the worse the
    lower an item stands in the team's list, so that what no draft reaches is not taken for what it shows.
    """
    logger, flat = batch.propensity, items.reshape(len(items), -1)
    if isinstance(logger, TeamDraft):
        standings = []
        for team in (logger.first, logger.second):
            equal = flat[:, :, None] == team[:, None, :]
            place = np.where(equal.any(axis=2), equal.argmax(axis=2), team.shape[1]) + 1.0
            standings.append(-np.log(place).reshape(items.shape))
        return np.stack(standings, axis=-1)
    if not isinstance(logger, Scored):
        return None
    sets = logger.candidates
    worst = np.minimum.reduceat(
        np.where(logger.scores > -np.inf, logger.scores, np.inf), sets.offsets[:-1]
    )
    # `fmax` and not `maximum`: no candidates have no score.
    shown = np.fmax(sets.values_at(logger.scores, sets.locate(flat)), worst[:, None])
    return shown.reshape(items.shape)


def _rankings(batch: RankingLog) -> Rankings:
    return rankings_of(batch, extra=logger_scores(batch, batch.action))


def exposure(batch: RankingLog, theta: Floats) -> Floats:
    """Return sum_l theta_l P0(a_k at l) (n, K), the expected examination of each shown item."""
    logger = batch.propensity
    if isinstance(logger, Propensity) or logger.deterministic:
        return theta
    chances: Floats = np.einsum("nkl,nl->nk", position_matrix(logger, batch.action), theta)
    refuse_impossible(batch, chances)
    return chances


@dataclass(frozen=True, eq=False)
class PositionBased(Estimator):
    """Examination by position times relevance by features; clicks move along with their items.

    `position_curve`: "estimate", K numbers, or a file of them. Refused where the curve is neither
    given nor identified.
    """

    position_curve: Any = "estimate"
    name: str = "pbm"
    sampled_rows: ClassVar[int] = FIT_ROWS

    @property
    def traits(self) -> Traits:
        """A model of users alone."""
        return Traits(self.name, uses_weights=False, user_model=True)

    def fit(self, workspace: Workspace) -> Fitted:
        """Fit curve and relevance."""
        if workspace.first.page_reward:
            raise EstimatorError(
                f"'{self.name}' follows items from position to position, but the log has one reward "
                "per ranking, which every item of it may have earned; use auto, ips, rips or pi"
            )
        if isinstance(workspace.first.target(workspace.target), Propensity):
            raise EstimatorError(
                f"'{self.name}' must know which rankings '{workspace.target}' would show; numbers for "
                "the logged ones do not say. Give its scores (NAME_scores and --policy NAME=top, "
                "policies={'NAME': 'top'} in Python) or a policy"
            )
        curve, numbers = self.position_curve, None
        if not (isinstance(curve, str) and curve == "estimate"):
            from_file = isinstance(curve, (str, os.PathLike))
            numbers = read_position_curve(curve) if from_file else as_curve(curve)
        # Fitted once for all estimators with the same curve.
        fitted = workspace.cached(
            ("examination", None if numbers is None else numbers.tobytes()),
            lambda: fit_examination(workspace.source, numbers, seed=workspace.seed),
        )
        return user_model_fit(self.name, workspace, fitted, self.traits)


@dataclass(frozen=True, eq=False)
class ClickHistory(PositionBased):
    """The click-history model's expected rewards under the target; refused like `PositionBased`."""

    name: str = "click-model"
