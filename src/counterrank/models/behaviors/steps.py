"""The steps of the fit: who is of which class, and each block of effects with the others held."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.models.behaviors.state import SHIFT, Fit, Prior, chances, moved, shared_by
from counterrank.models.visibility.rows import Rows
from counterrank.models.visibility.shrinkage import pull
from counterrank.models.visibility.steps import whole

Floats = NDArray[np.float64]

#: Penalty of how classes depend on the context, and of their sizes.
_SHARE, _SIZE = 5.0, 0.1
_SHARE_STEPS = 3
_HALVINGS = 6
#: Least variances: of effects (times the noise where they have the rewards' unit), of visibility.
_LEAST, _LEAST_SIGHT = 1e-6, 1e-4
#: The correlation of a ranking's errors from which it is worth knowing, and the largest believed.
_LEAST_COMMON, _MOST_COMMON = 0.02, 0.999
#: Most products of one solution for three-way effects, and how exact it is.
_PRODUCTS, _EXACT = 12, 1e-3


def posterior_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit with the probability of every class given context and rewards, and its likelihood."""
    (square, total), count = fit.squares(rows), rows.present.sum(axis=1)
    distance = (square - fit.shared[:, None] * total) / fit.noise
    level = np.log(np.maximum(chances(fit.shares, rows.moods), 1e-300)) - 0.5 * distance
    most = level.max(axis=1, keepdims=True)
    weight = np.exp(level - most)
    sums = weight.sum(axis=1, keepdims=True)
    size = 0.5 * np.log(np.maximum(1.0 - count * fit.shared, 1e-12)) - 0.5 * count * np.log(fit.noise)
    likelihood = float((most[:, 0] + np.log(sums[:, 0]) + size).mean())
    return replace(fit, posterior=weight / sums, likelihood=likelihood)


def shares_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after some steps of the multinomial regression of classes on the context.

    The curvature is at most X'X / 2 (Boehning 1992), which makes every step an improvement.
    """
    phi = np.concatenate([np.ones((rows.n, 1)), rows.moods], axis=1)
    penalty = np.full(phi.shape[1], _SHARE)
    penalty[0] = _SIZE
    inverse = np.linalg.inv(0.5 * phi.T @ phi + np.diag(penalty))
    shares = fit.shares
    for _ in range(_SHARE_STEPS):
        slope = (fit.posterior - chances(shares, rows.moods)).T @ phi - penalty * shares
        shares = shares + slope @ inverse
    return replace(fit, shares=shares)


def sight_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of what each class sees, drawn to the class's mean above and below."""
    from counterrank.models.kernels.behaviors_grams import add_sight

    Z, K, _, p = fit.shape
    gram, right = np.zeros((Z, K * K, K * K)), np.zeros((Z, K * K))
    pair = np.ascontiguousarray(fit.effect[:, p:])
    given = (rows.action, rows.reward, fit.posterior, fit.shared, fit.q, pair, fit.sight, fit.triple)
    add_sight(fit.link.curved, *given, gram, right)
    penalty, centre = fit.prior.sight_penalty, fit.prior.sight
    full = whole(gram)
    full[:, np.arange(K * K), np.arange(K * K)] += penalty.reshape(Z, -1)
    inverse = np.linalg.inv(full)
    right -= (penalty * (fit.sight - centre)).reshape(Z, -1)
    step = (inverse @ right[..., None])[..., 0].reshape(Z, K, K) * (1.0 - np.eye(K))
    found = _search(fit, rows, sight=step)
    spread = found.noise * np.diagonal(inverse, axis1=1, axis2=2).reshape(Z, K, K)
    return _rescaled(replace(found, prior=_sight_pulls(found, spread)))


def _sight_pulls(fit: Fit, spread: Floats) -> Prior:
    centre, penalty = fit.prior.sight.copy(), fit.prior.sight_penalty.copy()
    off = ~np.eye(fit.shape[1], dtype=bool)
    for z in range(len(centre)):
        for side in (np.triu(off), np.tril(off)):
            if side.sum() > 1:
                group = fit.sight[z][side]
                centre[z][side], penalty[z][side] = pull(group, spread[z][side], fit.noise, _LEAST_SIGHT)
    return replace(fit.prior, sight=centre, sight_penalty=penalty)


def _rescaled(fit: Fit) -> Fit:
    """Return the same rewards with visibility 1 on average over classes and positions."""
    _, K, _, p = fit.shape
    average = np.tensordot(fit.posterior.mean(axis=0), fit.sight, axes=1)
    size = float(np.abs(average[~np.eye(K, dtype=bool)]).mean())
    if not 1e-6 < size < 1e6:
        return fit
    at, effect = fit.prior, fit.effect.copy()
    centre, penalty = at.effect.copy(), at.effect_penalty.copy()
    effect[:, p:] *= size
    centre[:, p:] *= size
    penalty[:, p:] /= size**2
    prior = Prior(centre, penalty, at.sight / size, at.sight_penalty * size**2, at.triple_penalty / size**4)
    return replace(fit, effect=effect, sight=fit.sight / size, triple=fit.triple * size**2, prior=prior)


def effects_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of own effects, pair effects and shifts, and their prior renewed."""
    gram, right = effect_grams(fit, rows, np.zeros(rows.n, dtype=np.int64), 1)
    penalty = effect_penalty(fit)
    inverse = np.linalg.inv(gram[0] + np.diag(penalty))
    _, K, A, p = fit.shape
    step = inverse @ (right[0] - penalty * np.concatenate([(fit.effect - fit.prior.effect).ravel(), fit.shift]))
    effect = step[:-K].reshape(A, p + A)
    found = _search(fit, rows, effect=effect, shift=step[-K:])
    spread = fit.noise * np.diag(inverse)[:-K].reshape(A, p + A)
    return replace(found, prior=_effect_pulls(found, spread))


def effect_grams(fit: Fit, rows: Rows, fold: NDArray[np.int64], folds: int) -> tuple[Floats, Floats]:
    """Return curvature (F, S, S) and gradient (F, S) by fold, without the prior's part."""
    from counterrank.models.kernels.behaviors_grams import add_effects

    _, K, A, p = fit.shape
    size = A * (p + A) + K
    gram, right = np.zeros((folds, size, size)), np.zeros((folds, size))
    given = (rows.action, fold, rows.x, rows.reward, fit.posterior, fit.shared, fit.q, fit.part, fit.sight)
    add_effects(fit.link.curved, *given, A, gram, right)
    return whole(gram), right


def effect_penalty(fit: Fit) -> Floats:
    """Return penalties (S,) of own effects, pair effects and shifts."""
    return np.concatenate([fit.prior.effect_penalty.ravel(), np.full(len(fit.shift), SHIFT)])


def _effect_pulls(fit: Fit, spread: Floats) -> Prior:
    _, _, _, p = fit.shape
    centre, penalty = fit.prior.effect.copy(), fit.prior.effect_penalty.copy()
    for j in range(p):
        centre[:, j], strength = pull(fit.effect[:, j], spread[:, j], fit.noise, _LEAST * fit.noise)
        penalty[:, j] = min(strength, SHIFT) if j == 0 else strength
    least = _LEAST * (1.0 if fit.link.curved else fit.noise)
    centre[:, p:], penalty[:, p:] = pull(fit.effect[:, p:], spread[:, p:], fit.noise, least)
    return replace(fit.prior, effect=centre, effect_penalty=penalty)


def triples_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of three-way effects, solved by conjugate gradients, and their prior renewed."""
    from scipy.sparse.linalg import LinearOperator, cg

    from counterrank.models.kernels import behaviors_triples as kernels

    right, diagonal = np.zeros(fit.triple.shape), np.zeros(fit.triple.shape)
    given = (rows.action, rows.reward, fit.posterior, fit.shared, fit.q, fit.sight)
    kernels.gradient(*given, right, diagonal)
    penalty, size = fit.prior.triple_penalty, fit.triple.size

    def product(direction: Floats) -> Floats:
        out = np.zeros(fit.triple.shape)
        along = both_orders(np.ascontiguousarray(direction).reshape(out.shape))
        kernels.curvature(rows.action, fit.posterior, fit.shared, fit.sight, along, out)
        return out.ravel() + penalty * direction.ravel()

    scale = 1.0 / (diagonal.ravel() + penalty)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    before = LinearOperator((size, size), matvec=lambda v: scale * v.ravel(), dtype=np.float64)
    step, _ = cg(operator, (right - penalty * np.tril(fit.triple)).ravel(), rtol=_EXACT, maxiter=_PRODUCTS, M=before)
    found = _search(fit, rows, triple=both_orders(step.reshape(fit.triple.shape)))
    used = np.tril(np.ones(fit.triple.shape[1:], dtype=bool))
    spread = fit.noise * scale.reshape(fit.triple.shape)[:, used]
    tau2 = float(np.mean(found.triple[:, used] ** 2 + spread))
    freedom = float((diagonal[:, used] / (diagonal[:, used] + penalty)).sum())
    return replace(
        found, prior=replace(fit.prior, triple_penalty=fit.noise / max(tau2, _LEAST * fit.noise)), freedom=freedom
    )


def both_orders(lower: Floats) -> Floats:
    """Return three-way effects (A, A, A) that are the same for b, c and c, b, from those with b >= c."""
    kept = np.tril(lower)
    return np.asarray(kept + np.tril(lower, -1).swapaxes(1, 2))


def _search(fit: Fit, rows: Rows, **steps: Floats) -> Fit:
    """Return the fit after the longest of step, step/2, ... that does not raise the penalised loss."""
    if not fit.link.curved and ("effect" in steps or not len(fit.triple)):  # the minimum itself
        return moved(fit, rows, **{name: getattr(fit, name) + step for name, step in steps.items()})
    before = fit.loss(rows)
    for halving in range(_HALVINGS):
        changes: dict[str, Any] = {name: getattr(fit, name) + step * 0.5**halving for name, step in steps.items()}
        found = moved(fit, rows, **changes)
        if found.loss(rows) <= before:
            return found
    return fit


def noise_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit with the noise of one reward given the others, and what a ranking's rewards share."""
    (squares, totals), count = fit.squares(rows), rows.present.sum(axis=1)
    square, total = float((fit.posterior * squares).sum()), (fit.posterior * totals).sum(axis=1)
    rewards, pairs = float(count.sum()), float((count * (count - 1.0)).sum())
    least = max(1e-6 * float(rows.reward.var()), 1e-300)
    variance = max(square / max(rewards, 1.0), least)
    common = float(np.clip((total.sum() - square) / max(pairs * variance, 1e-300), 0.0, _MOST_COMMON))
    common = common if common > _LEAST_COMMON else 0.0
    shared = shared_by(common, count)
    rest = square - float(total @ shared)
    return replace(fit, common=common, shared=shared, noise=max(rest / max(rewards, 1.0), least))
