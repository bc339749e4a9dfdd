"""Fits of whole rankings: one class by alternating steps, several by expectation and maximisation,
then by fold.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterrank.models.designs import others
from counterrank.models.mixture.rows import Rows
from counterrank.models.mixture.state import Fit, Link, moved
from counterrank.models.mixture.steps import (
    effect_grams,
    effect_pull,
    effects_step,
    examination_step,
    noise_step,
    posterior_step,
    shares_step,
    tilt_step,
    triples_step,
    whole,
)
from counterrank.models.settings import (
    CLASS_ROUNDS,
    CLASS_SETTLED,
    CLASSES,
    FIRST_CLASS_EXAMINED,
    FIRST_SEEN,
    FIRST_TRIPLE,
    FOLD_STEPS,
    ONE_STEP_ROWS,
    ROUNDS,
    SETTLED,
    TRIPLE_ROUNDS,
)

Floats = NDArray[np.float64]


def alternate(rows: Rows, fit: Fit, settled: float = SETTLED) -> Fit:
    """Return one class: effects, examination and its tilt in turn until the loss moves less than
    `settled`.
    """
    last = np.inf
    for turn in range(ROUNDS):
        fit = tilt_step(examination_step(effects_step(fit, rows), rows), rows)
        loss = fit.errors(rows)
        if turn and abs(last - loss) < settled * abs(loss):
            break
        last = loss
    return fit


def improved(
    rows: Rows, fit: Fit, rounds: int = CLASS_ROUNDS, settled: float = CLASS_SETTLED
) -> Fit:
    """Return classes after rounds of expectation and maximisation, until the likelihood gains less
    than `settled`.
    """
    last = -np.inf
    for _ in range(rounds):
        # First the posterior: the likelihood by which the rounds stop is that of the parameters so
        # far.
        fit = posterior_step(fit, rows)
        if fit.likelihood - last < settled:
            break
        last = fit.likelihood
        fit = effects_step(examination_step(shares_step(fit, rows), rows), rows)
        if len(fit.triple):
            fit = triples_step(fit, rows)
        fit = noise_step(fit, rows)
    return fit


def first_classes(rows: Rows, alike: Fit, level: float, rng: np.random.Generator) -> Fit:
    """Return classes that examine everything, nothing, above, below, neighbours or scattered items,
    equally common.

    They begin at a fit of one class. The mean of its pair effects is moved to `level` standard
    deviations: with one class a shift of all pair effects is the same as one of the positions, only
    classes tell them apart.
    """
    _, K, _, p = alike.shape
    pair = alike.effect[:, p:]
    raised = level * float(pair.std()) - float(pair.mean())
    effect, centre = alike.effect.copy(), alike.prior.effect.copy()
    effect[:, p:] += raised
    centre[:, p:] += raised
    # Of a sum, positions give back what pair effects were raised by: the fit starts where one class
    # was.
    shift = alike.shift - (0.0 if alike.link.curved else raised * alike.examined[0].sum(axis=1))
    everything, nothing = 1.0 - np.eye(K), np.empty((0, 0))
    prior = replace(
        alike.prior, effect=centre, examined=np.tile(everything, (CLASSES, 1, 1)), triple_penalty=FIRST_TRIPLE,
        examined_penalty=np.full((CLASSES, K, K), FIRST_CLASS_EXAMINED * alike.noise),
    )  # fmt: skip
    fit = replace(
        alike, effect=effect, shift=shift, examined=_looks(alike.examined[0], rng) * everything, prior=prior,
        tilt=np.zeros(alike.tilt.shape), shares=np.zeros((CLASSES, rows.traits.shape[1] + 1)), common=0.0,
        shared=np.zeros(rows.n), posterior=np.full((rows.n, CLASSES), 1.0 / CLASSES), scale=nothing, own=nothing,
    )  # fmt: skip
    return moved(fit, rows)


def _looks(examined: Floats, rng: np.random.Generator) -> Floats:
    """Return what the classes examine (Z, K, K) at the beginning, a little apart from each other."""
    K = len(examined)
    away = np.arange(K) - np.arange(K)[:, None]
    # Everything, nothing (no position is K away), above, below, next door.
    plain = np.stack([away != 0, away > K, away < 0, away > 0, np.abs(away) == 1]).astype(
        np.float64
    )
    # Shares of 1 / FIRST_SEEN at FIRST_SEEN each: scattered classes examine 1 on average, as they
    # should.
    scattered = examined * (rng.random((CLASSES - len(plain), K, K)) < 1.0 / FIRST_SEEN)
    # Classes that start equal stay equal: expectation and maximisation keeps symmetries.
    apart = np.exp(0.2 * rng.standard_normal((CLASSES, K, K)))
    return np.asarray(FIRST_SEEN * np.concatenate([plain, scattered]) * apart)


def with_room_for_triples(rows: Rows, fit: Fit) -> Fit:
    """Return the fit with three-way effects of zero, for steps to fill."""
    A = fit.shape[2]
    return moved(replace(fit, triple=np.zeros((A, A, A))), rows)


class Effects(NamedTuple):
    """own (F, A, p), shift (F, K), pair (F, A, A) and triple (F, A, A, A) or (F, 0, 0, 0), each
    fold left out.
    """

    own: Floats
    shift: Floats
    pair: Floats
    triple: Floats


def by_fold(fit: Fit, rows: Rows, folds: int) -> Effects:
    """Return the effects, each fold left out in turn.

    Classes and what they examine stay those of all rows: few numbers, to which no fold gives much
    of itself.
    """
    _, K, A, p = fit.shape
    penalty, away = effect_pull(fit)
    plenty = fit.link is Link.LOGISTIC and rows.n >= ONE_STEP_ROWS * len(penalty)
    if (fit.link.curved and not plenty) or len(fit.triple):
        return _by_steps(fit, rows, folds)
    # One step from one set of sums: without the fold's own they are all others'.
    gram, right = effect_grams(fit, rows, rows.fold, folds)
    step = np.linalg.solve(
        others(gram) + np.diag(penalty), (others(right) - penalty * away)[..., None]
    )[..., 0]
    effect = fit.effect + step[:, :-K].reshape(folds, A, p + A)
    return _split(effect, fit.shift + step[:, -K:], np.zeros((folds, 0, 0, 0)))


def _by_steps(fit: Fit, rows: Rows, folds: int) -> Effects:
    """Return the same by some steps on the other folds' rows, begun at the fit to all."""
    out = []
    for f in range(folds):
        # A posterior of zero leaves a row out of every sum, and no row has to be copied.
        part = replace(fit, posterior=fit.posterior * (rows.fold != f)[:, None])
        for _ in range(FOLD_STEPS):
            part = effects_step(part, rows)
            part = triples_step(part, rows) if len(fit.triple) else part
        out.append((part.effect, part.shift, part.triple))
    effect, shift, triple = (np.stack(parts) for parts in zip(*out, strict=True))
    return _split(effect, shift, triple)


def _split(effect: Floats, shift: Floats, triple: Floats) -> Effects:
    p = effect.shape[2] - effect.shape[1]
    return Effects(
        np.ascontiguousarray(effect[..., :p]), shift, np.ascontiguousarray(effect[..., p:]), triple
    )


def one_class_triples(fit: Fit, rows: Rows, folds: int) -> Floats:
    """Return three-way effects (F, A, A, A) of what one class's pairs leave over, each fold left
    out in turn.
    """
    from counterrank.models.kernels.mixture_steps import add_triples

    A = fit.shape[2]
    columns = A * (A + 1) // 2
    gram, right = np.zeros((folds, A, columns, columns)), np.zeros((folds, A, columns))
    error = (rows.reward - fit.q[:, 0]) * rows.present
    add_triples(rows.action, rows.fold, fit.scale, fit.examined[0], error, gram, right)
    gram = whole(gram)
    # Empirical Bayes on sums that are already made: rounds cost a solution, not a pass.
    noise, penalty = float((error**2).sum() / max(rows.present.sum(), 1.0)), FIRST_TRIPLE
    eye = np.eye(columns)
    for _ in range(TRIPLE_ROUNDS):
        inverse = np.linalg.inv(gram.sum(axis=0) + penalty * eye)
        found = (inverse @ right.sum(axis=0)[..., None])[..., 0]
        tau2 = float(np.mean(found**2 + noise * np.diagonal(inverse, axis1=1, axis2=2)))
        penalty = noise / max(tau2, 1e-8 * noise, 1e-300)
    solved = np.linalg.solve(others(gram) + penalty * eye, others(right)[..., None])[
        ..., 0
    ]  # (F, A, Q)
    # Columns are the packed lower triangle: (high, low) is at high (high + 1) / 2 + low.
    low, high = np.tril_indices(A)[::-1]
    triple = np.empty((folds, A, A, A))
    triple[:, :, low, high] = triple[:, :, high, low] = solved[..., high * (high + 1) // 2 + low]
    return triple
