"""Logistic ridge for 0/1 rewards, by Newton steps on additive weighted Grams."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.designs import Design, Prepared, others, solve
from counterrank.models.grams import Grams, grams_of
from counterrank.models.layout import Layout
from counterrank.models.linear import LinearModel, Training, logged_values, sigmoid
from counterrank.models.ridge import Ridge
from counterrank.models.settings import (
    EXACT_ROWS,
    LEAST_VARIANCE,
    LOGIT_INTERCEPT,
    LOGIT_PENALTY,
    LOGIT_STEP,
    LONG_LOG,
    NEWTON_ROWS,
    NEWTON_ROWS_LONG,
    NEWTON_STEPS,
    Stream,
    stream,
)
from counterrank.source import MemorySource, Source

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Losses:
    """Additive: by position, squared out-of-fold errors, and rewards that are neither 0 nor 1."""

    error: Floats
    other: float

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(self.error + other.error, self.other + other.other)


def with_logistic(model: LinearModel, ridge: Ridge, training: Training) -> LinearModel:
    """Return the model with a logistic fit at the positions where it has the lower out-of-fold
    squared loss.
    """
    # r^2 = r for 0/1 rewards: sums at hand refuse most other logs before any row is read again.
    sums = training.grams.cover[..., 0].sum()
    if not np.isclose(sums, training.grams.square.sum(), rtol=1e-9, atol=0.0):
        return model
    if training.source.reduce(_not_binary, label="rewards").other > 0:
        return model
    coef = fit_logistic(training, model.seed)
    curved = replace(model, coef=coef, logistic=np.ones(training.layout.K, dtype=np.int64))
    error = training.source.reduce(lambda batch: _errors(batch, curved), label="logistic").error
    # By squared error, which both have: what residuals add to the variance of a corrected estimate
    # is made of it.
    better = error < ridge.loss
    if not better.any():
        return model
    mixed = np.where(better[None, :, None, None], coef, model.coef)
    details = model.details | {
        "model": "logistic where better, else ridge",
        "designs": [
            "logistic" if b else name for b, name in zip(better, ridge.chosen, strict=True)
        ],
        "out_of_fold_mse": float(np.minimum(error, ridge.loss).sum() / max(ridge.size.sum(), 1.0)),
        "mean_under_target": f"average over {model.draws} drawn rankings per row, own action "
        "summed out",
    }
    return replace(model, coef=mixed, logistic=better.astype(np.int64), details=details)


def fit_logistic(training: Training, seed: int = 0) -> Floats:
    """Return coefficients (F, K, A, D) in the training's columns; fold f's leave fold f out."""
    slim = _slim(training)
    return _widened(_fit(slim, seed), slim.layout, training.layout)


def _slim(training: Training) -> Training:
    """Return the training with indicator columns only: Newton steps have no use for the others."""
    layout = replace(training.layout, cross=False, squares=0)
    dense = layout.starts[1]
    kept = np.r_[0:dense, training.layout.starts[3] : training.layout.width]
    full = training.grams
    grams = replace(full, gram=full.gram[..., kept[:, None], kept], cover=full.cover[..., kept])
    return Training(
        Prepared(grams, layout, training.prepared.pairs), training.source, rows=training.rows
    )


def _widened(coef: Floats, slim: Layout, full: Layout) -> Floats:
    out = np.zeros((*coef.shape[:-1], full.width))
    dense = slim.starts[1]
    out[..., :dense] = coef[..., :dense]
    out[..., full.starts[3] :] = coef[..., dense:]
    return out


def _fit(training: Training, seed: int) -> Floats:
    layout, grams = training.layout, training.grams
    chosen = [_design(training, k) for k in range(layout.K)]
    start = _intercepts(grams)  # (K, A)
    fitted = [np.zeros((layout.A, d.map.shape[1])) for d in chosen]
    for k in range(layout.K):
        fitted[k][:, 0] = start[k]
    few = _fewer(
        training, NEWTON_ROWS_LONG if (training.rows or 0) > LONG_LOG else NEWTON_ROWS, seed
    )
    # One fit to all folds brings the coefficients near their optimum; few rows do for that.
    for _ in range(NEWTON_STEPS):
        state = _weighted(few, training, _raw(fitted, chosen, layout.F))
        for k, design in enumerate(chosen):
            gram, cover = state.gram[:, k].sum(axis=0), state.cover[:, k].sum(axis=0)
            fitted[k] = _newton(gram, cover, fitted[k], start[k], design)
    state = _weighted(training.source, training, _raw(fitted, chosen, layout.F))
    # From there one step with the other folds' sums: Newton's error is quadratic, so this is the
    # fit that left the fold out, up to what the common start knew of it (see _second_step).
    by_fold = [
        _newton(
            others(state.gram[:, k]), others(state.cover[:, k]), fitted[k][None], start[k], design
        )
        for k, design in enumerate(chosen)
    ]
    if int(grams.rows.sum()) <= EXACT_ROWS:
        by_fold = _second_step(training, chosen, by_fold, start)
    return np.stack([values @ d.map.T for values, d in zip(by_fold, chosen, strict=True)], axis=1)


def _second_step(
    training: Training, chosen: list[Design], by_fold: list[Floats], start: Floats
) -> list[Floats]:
    """Take one more step from each fold's own coefficients: removes what the common start knew of
    the fold.
    """
    out = [values.copy() for values in by_fold]
    for f in range(training.layout.F):
        own = [values[f] for values in by_fold]
        state = _weighted(training.source, training, _raw(own, chosen, training.layout.F))
        for k, design in enumerate(chosen):
            gram, cover = others(state.gram[:, k])[f], others(state.cover[:, k])[f]
            out[k][f] = _newton(gram, cover, own[k], start[k], design)
    return out


def _design(training: Training, k: int) -> Design:
    layout, rows = training.layout, training.grams.rows.sum()
    found = {d.name: d for d in training.prepared.candidates[k]}
    wide = found.get("P/1")
    # Eight training rows for each coefficient against the ridge's three: a 0/1 reward tells less,
    # and cells without any click would separate.
    enough = (
        wide is not None and 8 * layout.A * wide.map.shape[1] < rows * (layout.F - 1) / layout.F
    )
    return wide if wide is not None and enough else found["T/1"]


def _intercepts(grams: Grams) -> Floats:
    count = grams.gram[..., 0, 0].sum(axis=0)
    # Half a click and half a miss more (Anscombe 1956): cells without clicks have a finite logit.
    rate = (grams.cover[..., 0].sum(axis=0) + 0.5) / (count + 1.0)
    out: Floats = np.log(rate / (1 - rate))
    return out


def _newton(gram: Floats, cover: Floats, now: Floats, start: Floats, design: Design) -> Floats:
    """Return one penalised Newton step from `now` (..., A, p); the intercept is drawn to `start`
    (A,).
    """
    penalty = np.full(design.map.shape[1], LOGIT_PENALTY)
    penalty[0] = LOGIT_INTERCEPT
    away = now.copy()
    away[..., 0] -= start
    slope = cover @ design.map - penalty * away
    step = solve(design.map.T @ gram @ design.map, slope[..., None], penalty)[..., 0]
    # The direction is kept, its length limited: separable cells have their optimum at infinity.
    longest = np.abs(step).max(axis=-1, keepdims=True)
    moved: Floats = now + step * np.minimum(1.0, LOGIT_STEP / np.maximum(longest, 1e-12))
    return moved


def _raw(fitted: list[Floats], chosen: list[Design], folds: int) -> Floats:
    one = np.stack(
        [values @ d.map.T for values, d in zip(fitted, chosen, strict=True)]
    )  # (K, A, D)
    return np.repeat(one[None], folds, axis=0)


def _weighted(source: Source, training: Training, coef: Floats) -> Grams:
    def partial(batch: RankingLog) -> Grams:
        given = training.layout.arrays(batch)
        chance = sigmoid(logged_values(training.layout, given, coef[None])[0])
        weight = np.maximum(chance * (1 - chance), LEAST_VARIANCE)
        # weight x working = r - p, so the weighted `cover` is the gradient itself, also where the
        # weight was raised to LEAST_VARIANCE.
        working = (batch.reward - chance) / weight
        return grams_of(batch, training.layout, weight=weight, given=given, reward=working)

    return source.reduce(partial, label="logistic")


def _fewer(training: Training, rows: int, seed: int) -> Source:
    source = training.source
    if source.n is not None and source.n <= rows:
        return source
    return MemorySource(source.sample(rows, stream(seed, Stream.NEWTON_ROWS)))


def _not_binary(batch: RankingLog) -> Losses:
    valid = batch.action >= 0
    return Losses(np.zeros(1), float((~np.isin(batch.reward[valid], (0.0, 1.0))).sum()))


def _errors(batch: RankingLog, model: LinearModel) -> Losses:
    given = model.layout.arrays(batch)
    eta = logged_values(model.layout, given, model.coef[None])[0]
    chance = sigmoid(eta)
    error = np.where(batch.action >= 0, (batch.reward - chance) ** 2, 0.0)
    return Losses(error.sum(axis=0), 0.0)
