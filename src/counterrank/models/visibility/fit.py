"""The alternating fit of the visibility model, cross-fitted."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from counterrank.models.prepared import others
from counterrank.models.visibility.parameters import Parameters
from counterrank.models.visibility.rows import Rows
from counterrank.models.visibility.steps import (
    Fit,
    effect_grams,
    effect_prior,
    effect_vector,
    effects_step,
    moved,
    sight_step,
    split_effects,
    tilt_step,
    whole,
)

Floats = NDArray[np.float64]

_ROUNDS = 20
#: Relative change of the loss below which a fit has settled: in the end, and while it is only to be compared.
SETTLED, ROUGH = 1e-4, 1e-2
#: Steps that leave a fold out, where one is not exact.
_FOLD_STEPS = 3
#: Rows for each column from which one step leaves a fold out of a logistic fit as well as several do.
_PLENTY = 400
_TRIPLE_ROUNDS = 4
_TRIPLE_PENALTY = 30.0


def alternate(rows: Rows, fit: Fit, settled: float = SETTLED) -> Fit:
    """Return the fit to all rows: effects, visibility and its tilt in turn until the loss moves less than `settled`."""
    last = np.inf
    for turn in range(_ROUNDS):
        fit = tilt_step(sight_step(effects_step(fit, rows), rows), rows)
        loss = fit.loss(rows)
        if turn and abs(last - loss) < settled * abs(loss):
            break
        last = loss
    return fit


def carried(fit: Fit, rows: Rows) -> Fit:
    """Return the fit's parameters on other rows."""
    nothing = np.zeros(rows.action.shape)
    return moved(replace(fit, shared=np.zeros(rows.n), offset=nothing), rows, fit.parameters)


def by_fold(fit: Fit, rows: Rows, folds: int) -> Parameters:
    """Return parameters whose effects leave each fold out in turn; visibility and its tilt are those of all rows."""
    plenty = fit.link.name == "logistic" and rows.n >= _PLENTY * len(effect_vector(fit.parameters, 0))
    several = fit.link.curved and not plenty
    vectors = (_curved_folds if several else _linear_folds)(fit, rows, folds)
    own, pair, shift = split_effects(vectors, fit.parameters.shape)
    nothing = np.zeros((folds, 0, 0, 0))
    return Parameters(own, shift, pair, nothing, fit.parameters.sight, fit.parameters.tilt)


def _linear_folds(fit: Fit, rows: Rows, folds: int) -> Floats:
    """Return effects (F, S), one step from one set of sums: without the fold's own they are all others'."""
    gram, right = effect_grams(fit, rows, rows.fold, folds)
    penalty, centre = effect_prior(fit)
    now = effect_vector(fit.parameters, 0)
    step = np.linalg.solve(others(gram) + np.diag(penalty), (others(right) - penalty * (now - centre))[..., None])
    return np.asarray(now + step[..., 0])


def _curved_folds(fit: Fit, rows: Rows, folds: int) -> Floats:
    """Return effects (F, S) after a few steps on the other folds' rows, begun at the fit to all."""
    out = []
    for f in range(folds):
        keep = rows.fold != f
        others_rows = rows.take(keep)
        part = replace(carried(fit, others_rows), shared=fit.shared[keep])
        for _ in range(_FOLD_STEPS):
            part = effects_step(part, others_rows)
        out.append(effect_vector(part.parameters, 0))
    return np.stack(out)


def with_triples(fit: Fit, rows: Rows, parameters: Parameters, folds: int) -> Parameters:
    """Return the parameters with three-way effects fitted to what the pairs leave over, each fold left out in turn."""
    from counterrank.models.kernels.visibility_grams import add_triples

    _, A, _ = parameters.shape
    columns = A * (A + 1) // 2
    gram, right = np.zeros((folds, A, columns, columns)), np.zeros((folds, A, columns))
    error = (rows.reward - fit.q) * rows.present
    add_triples(rows.action, rows.fold, fit.scale, parameters.sight, error, gram, right)
    gram = whole(gram)
    noise, penalty = float((error**2).sum() / max(rows.present.sum(), 1.0)), _TRIPLE_PENALTY
    eye = np.eye(columns)
    for _ in range(_TRIPLE_ROUNDS):
        inverse = np.linalg.inv(gram.sum(axis=0) + penalty * eye)
        found = (inverse @ right.sum(axis=0)[..., None])[..., 0]
        tau2 = float(np.mean(found**2 + noise * np.diagonal(inverse, axis1=1, axis2=2)))
        penalty = noise / max(tau2, 1e-8 * noise, 1e-300)
    solved = np.linalg.solve(others(gram) + penalty * eye, others(right)[..., None])[..., 0]  # (F, A, Q)
    low, high = np.tril_indices(A)[::-1]
    triple = np.empty((folds, A, A, A))
    triple[:, :, low, high] = triple[:, :, high, low] = solved[..., high * (high + 1) // 2 + low]
    return replace(parameters, triple=triple)
