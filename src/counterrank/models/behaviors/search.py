"""From a visibility model to classes of users: several beginnings on few rows, the likeliest carried on."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from counterrank.models.behaviors.state import Fit, Prior, moved, shared_by
from counterrank.models.behaviors.steps import (
    effect_grams,
    effect_penalty,
    effects_step,
    noise_step,
    posterior_step,
    shares_step,
    sight_step,
    triples_step,
)
from counterrank.models.prepared import others
from counterrank.models.visibility.rows import Rows
from counterrank.models.visibility.steps import Fit as Begun

Floats = NDArray[np.float64]

#: Classes looked for. Too many do no harm: they coincide, or nobody is of them.
CLASSES = 8
#: Beginnings differ in the mean of pair effects, zero or this many of their standard deviations: only classes tell it.
_LEVELS = (-1.5, 1.5)
#: Actions up to which three-way effects are cheap enough to begin from all levels.
_FEW_ACTIONS = 4
_FIRST_ROUNDS, _ROUNDS, _TRIAL_ROUNDS = 6, 12, 3
#: Gain in mean log-likelihood below which a fit has settled; and, for each position, by which three-way effects are
#: worth their cost.
_SETTLED, _WORTH = 3e-3, 0.05
#: How far a class sees what it sees, at first, average = 1.
_SEEN = 1.6
_TRIPLE_PENALTY = 30.0
#: Steps that leave a fold out, where one is not exact.
_FOLD_STEPS = 2


def found_classes(few: Rows, begun: list[Begun], rng: np.random.Generator, close: float) -> list[Fit]:
    """Return the likeliest fits to some rows, one for each visibility model of the same rows that stays `close`."""
    races = [improved(few, first(few, one, 0.0, rng), _FIRST_ROUNDS) for one in begun]
    most = max(fit.likelihood for fit in races)
    out = []
    for one, fit in zip(begun, races, strict=True):
        if fit.likelihood > most - close:
            others_begun = [first(few, one, level, rng) for level in _LEVELS]
            tried = [fit, *(improved(few, other, _FIRST_ROUNDS) for other in others_begun)]
            out.append(improved(few, max(tried, key=lambda other: other.likelihood), _FIRST_ROUNDS))
    return out


def found_triples(few: Rows, fit: Fit, begun: Begun, rng: np.random.Generator) -> Fit | None:
    """Return the likeliest fit with three-way effects, or nothing where they gain little on `fit`.

    Classes found without them may owe their existence to them: some beginnings have them from the first round.
    """
    _, K, A, _ = fit.shape
    grown = improved(few, _with_triples(few, fit), _TRIAL_ROUNDS)
    # Many effects always gain something: as many as they are, divided by the rows (Akaike 1974).
    if grown.likelihood - fit.likelihood < _WORTH * K + grown.freedom / few.n:
        return None
    levels = (0.0, *_LEVELS) if A <= _FEW_ACTIONS else (0.0,)
    begins = [grown, *(_with_triples(few, first(few, begun, level, rng)) for level in levels)]
    tried = [improved(few, one, _FIRST_ROUNDS) for one in begins]
    return improved(few, max(tried, key=lambda one: one.likelihood), _FIRST_ROUNDS)


def _with_triples(rows: Rows, fit: Fit) -> Fit:
    A = fit.shape[2]
    return moved(replace(fit, triple=np.zeros((A, A, A))), rows)


def first(rows: Rows, begun: Begun, level: float, rng: np.random.Generator) -> Fit:
    """Return classes that see everything, nothing, above, below, neighbours or scattered items, all equally common."""
    at = begun.parameters
    K, A, p = at.shape
    raised = level * float(at.pair[0].std()) - float(at.pair[0].mean())
    effect, centre = np.concatenate([at.own[0], at.pair[0]], axis=1), begun.prior.effect.copy()
    effect[:, p:] += raised
    centre[:, p:] += raised
    shift = at.shift[0] - (0.0 if begun.link.curved else raised * at.sight.sum(axis=1))
    seen = 1.0 - np.eye(K)
    prior = Prior(
        centre, begun.prior.effect_penalty, np.tile(seen, (CLASSES, 1, 1)),
        np.full((CLASSES, K, K), 4.0 * begun.noise), _TRIPLE_PENALTY,
    )  # fmt: skip
    nothing = np.empty((0, CLASSES, K))
    fit = Fit(
        begun.link, effect, shift, _looks(at.sight, rng) * seen, np.zeros((0, 0, 0)), prior,
        np.zeros((CLASSES, rows.moods.shape[1] + 1)), begun.noise, np.zeros(rows.n), nothing[:, 0], nothing, nothing,
        np.full((rows.n, CLASSES), 1.0 / CLASSES),
    )  # fmt: skip
    return moved(fit, rows)


def _looks(sight: Floats, rng: np.random.Generator) -> Floats:
    """Return the classes' visibility (Z, K, K) at the beginning."""
    K = len(sight)
    away = np.arange(K) - np.arange(K)[:, None]
    plain = np.stack([away != 0, away > K, away < 0, away > 0, np.abs(away) == 1]).astype(np.float64)
    scattered = sight * (rng.random((CLASSES - len(plain), K, K)) < 1.0 / _SEEN)
    return np.asarray(_SEEN * np.concatenate([plain, scattered]) * np.exp(0.2 * rng.standard_normal((CLASSES, K, K))))


def improved(rows: Rows, fit: Fit, rounds: int = _ROUNDS, settled: float = _SETTLED) -> Fit:
    """Return the fit after rounds of expectation and maximisation, until the likelihood gains less than `settled`."""
    last = -np.inf
    for _ in range(rounds):
        fit = posterior_step(fit, rows)
        if fit.likelihood - last < settled:
            break
        last = fit.likelihood
        fit = effects_step(sight_step(shares_step(fit, rows), rows), rows)
        if len(fit.triple):
            fit = triples_step(fit, rows)
        fit = noise_step(fit, rows)
    return fit


def carried(fit: Fit, rows: Rows) -> Fit:
    """Return the fit's parameters on other rows."""
    shared = shared_by(fit.common, rows.present.sum(axis=1))
    return moved(replace(fit, plain=np.empty((0, 0)), shared=shared), rows)


def one_class_likelihood(begun: Begun, rows: Rows) -> float:
    """Return the mean log-likelihood of the visibility model, in which all users are alike, on its own rows."""
    count = rows.present.sum(axis=1)
    size = np.log(np.maximum(1.0 - count * begun.shared, 1e-12)) - count * np.log(begun.noise)
    return float(0.5 * size.mean() - 0.5 * count.mean())


def by_fold(fit: Fit, rows: Rows, folds: int) -> tuple[Floats, Floats, Floats]:
    """Return effects (F, A, p + A), shifts (F, K) and three-way effects, each fold left out in turn.

    Classes and what they see stay those of all rows: few numbers, to which no fold gives much of itself.
    """
    if fit.link.curved or len(fit.triple):
        return _by_steps(fit, rows, folds)
    _, K, A, p = fit.shape
    gram, right = effect_grams(fit, rows, rows.fold, folds)
    penalty = effect_penalty(fit)
    away = np.concatenate([(fit.effect - fit.prior.effect).ravel(), fit.shift])
    step = np.linalg.solve(others(gram) + np.diag(penalty), (others(right) - penalty * away)[..., None])[..., 0]
    none = np.zeros((folds, 0, 0, 0))
    return fit.effect + step[:, :-K].reshape(folds, A, p + A), fit.shift + step[:, -K:], none


def _by_steps(fit: Fit, rows: Rows, folds: int) -> tuple[Floats, Floats, Floats]:
    """Return the same by some steps on the other folds' rows, begun at the fit to all."""
    out = []
    for f in range(folds):
        part = replace(fit, posterior=fit.posterior * (rows.fold != f)[:, None])
        for _ in range(_FOLD_STEPS):
            part = effects_step(part, rows)
            part = triples_step(part, rows) if len(fit.triple) else part
        out.append((part.effect, part.shift, part.triple))
    effect, shift, triple = (np.stack(parts) for parts in zip(*out, strict=True))
    return effect, shift, triple
