"""The steps of the fit: each solves for one block of parameters with the others held."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterrank.models.visibility.links import Link, Slopes
from counterrank.models.visibility.parameters import Parameters
from counterrank.models.visibility.rows import Rows
from counterrank.models.visibility.shrinkage import pull

Floats = NDArray[np.float64]

#: Penalties before anything is known: context and pairs, shifts of positions, visibility, its tilt.
_EFFECT, _SHIFT, _SIGHT, _TILT = 1.0, 3.0, 10.0, 100.0
#: Correlation of a ranking's errors from which it is worth knowing.
_LEAST_SHARED = 0.02
_HALVINGS = 6
#: The least variance of a group of coefficients, in its unit: none is drawn to its mean altogether.
_LEAST = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Prior:
    """Centres and penalties: of effects (A, p + A) each, of visibility (K, K) each, and the penalty of its tilt."""

    effect: Floats
    effect_penalty: Floats
    sight: Floats
    sight_penalty: Floats
    tilt_penalty: float


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Where the fit stands: parameters of one fold (all rows), prior, and what follows from them on the rows."""

    link: Link
    parameters: Parameters
    prior: Prior
    parts: Floats
    scale: Floats
    q: Floats
    shared: Floats
    noise: float
    #: What stands beside the pair part (three-way effects), held by the steps: (n, K).
    offset: Floats

    @property
    def pair(self) -> Floats:
        """The pair part as each row's user sees it (n, K)."""
        out: Floats = self.parts[1] * self.scale[:, :1] + self.parts[2] * self.scale[:, 1:] + self.offset
        return out

    def slopes(self, rows: Rows) -> Slopes:
        """Return derivatives, weights and errors at the present prediction."""
        return self.link.slopes(self.q, lambda: self.pair, rows.reward, rows.present)

    def loss(self, rows: Rows) -> float:
        """Return the loss of the present prediction."""
        return self.link.loss(self.q, rows.reward, rows.present, self.shared)


def start(rows: Rows, link: Link, actions: int) -> Fit:
    """Return the mean reward for everything, everyone seeing everything."""
    K, p = rows.action.shape[1], rows.x.shape[1]
    mean = float(rows.reward.sum() / max(rows.present.sum(), 1.0))
    first = np.log((mean + 1e-3) / (1.0 - mean + 1e-3)) if link.name == "logistic" else mean
    own = np.zeros((1, actions, p))
    own[..., 0] = first
    sight = 1.0 - np.eye(K)
    parameters = Parameters(
        own, np.zeros((1, K)), np.zeros((1, actions, actions)), np.zeros((1, 0, 0, 0)), sight,
        np.zeros((2, rows.moods.shape[1])),
    )  # fmt: skip
    centre = np.zeros((actions, p + actions))
    centre[:, 0] = first
    # Penalties of what has no unit of its own are in units of the noise: a fit must not depend on the rewards' unit.
    unit = 1.0 if link.name == "logistic" else _variance(rows, mean)
    penalty = np.full(centre.shape, _EFFECT)
    penalty[:, p:] *= unit if link.name == "product" else 1.0
    prior = Prior(centre, penalty, sight.copy(), np.full((K, K), _SIGHT * unit), _TILT * unit)
    nothing = np.zeros(rows.action.shape)
    held = Fit(link, parameters, prior, np.empty(0), np.empty(0), nothing, np.zeros(rows.n), unit, nothing)
    return moved(held, rows, parameters)


def _variance(rows: Rows, mean: float) -> float:
    """Return the variance of the rewards, or a trifle where they do not vary."""
    variance = float((rows.present * (rows.reward - mean) ** 2).sum() / max(rows.present.sum(), 1.0))
    return max(variance, 1e-12 * mean**2, 1e-300)


def moved(fit: Fit, rows: Rows, parameters: Parameters) -> Fit:
    """Return the fit at other parameters."""
    parts, scale, before = fit.parts, fit.scale, fit.parameters
    # Each step moves one block: what does not depend on it stays.
    if len(scale) != rows.n or parameters.tilt is not before.tilt:
        scale = parameters.scale(rows.moods)
    if parts.shape[1:2] != (rows.n,) or parameters.pair is not before.pair or parameters.sight is not before.sight:
        parts = parameters.parts(rows.x, rows.action, np.zeros(rows.n, dtype=np.int64))
    q = fit.link.predicted(parts, scale, fit.offset)
    return replace(fit, parameters=parameters, parts=parts, scale=scale, q=q)


def effects_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after one step of own effects, pair effects and shifts, its noise and prior renewed."""
    gram, right = effect_grams(fit, rows, np.zeros(rows.n, dtype=np.int64), 1)
    penalty, centre = effect_prior(fit)
    now = effect_vector(fit.parameters, 0)
    inverse = np.linalg.inv(gram[0] + np.diag(penalty))
    step = inverse @ (right[0] - penalty * (now - centre))
    found = _stepped(fit, rows, now, step, lambda v: _with_effects(fit.parameters, v), (penalty, centre))
    found = _with_noise(found, rows)
    size = len(now) - rows.action.shape[1]
    K, A, p = found.parameters.shape
    spread = found.noise * np.diag(inverse)[:size].reshape(A, p + A)
    return replace(found, prior=_effect_pulls(found, spread))


def effect_grams(fit: Fit, rows: Rows, fold: NDArray[np.int64], folds: int) -> tuple[Floats, Floats]:
    """Return normal equations by fold (F, S, S), (F, S)."""
    from counterrank.models.kernels.visibility_blocks import add_effects, subtract_shared

    K, A, p = fit.parameters.shape
    size = A * (p + A) + K
    gram, right, at = np.zeros((folds, size, size)), np.zeros((folds, size)), fit.slopes(rows)
    given = (rows.action, fold, rows.x, fit.scale, fit.parameters.sight, at.slope, at.weight, at.error)
    add_effects(*given, A, gram, right)
    if fit.shared.any():
        subtract_shared(*given, fit.shared, A, gram, right)
    return whole(gram), right


def whole(lower: Floats) -> Floats:
    """Return the symmetric matrices of which the lower triangles are given."""
    return np.tril(lower) + np.swapaxes(np.tril(lower, -1), -1, -2)


def effect_prior(fit: Fit) -> tuple[Floats, Floats]:
    """Return penalties and centres (S,) of the effects step."""
    K = fit.parameters.shape[0]
    penalty = np.concatenate([fit.prior.effect_penalty.ravel(), np.full(K, _SHIFT)])
    return penalty, np.concatenate([fit.prior.effect.ravel(), np.zeros(K)])


def effect_vector(parameters: Parameters, f: int) -> Floats:
    """Return own effects, pair effects and shifts in one vector (S,)."""
    effects = np.concatenate([parameters.own[f], parameters.pair[f]], axis=1)
    return np.concatenate([effects.ravel(), parameters.shift[f]])


def split_effects(vectors: Floats, shape: tuple[int, int, int]) -> tuple[Floats, Floats, Floats]:
    """Return own, pair and shift of vectors (F, S)."""
    K, A, p = shape
    effects = vectors[:, : A * (p + A)].reshape(-1, A, p + A)
    return (
        np.ascontiguousarray(effects[..., :p]),
        np.ascontiguousarray(effects[..., p:]),
        np.ascontiguousarray(vectors[:, A * (p + A) :]),
    )


def _with_effects(parameters: Parameters, vector: Floats) -> Parameters:
    own, pair, shift = split_effects(vector[None], parameters.shape)
    return replace(parameters, own=own, pair=pair, shift=shift)


def _stepped(
    fit: Fit, rows: Rows, now: Floats, step: Floats, place: Callable[[Floats], Parameters],
    prior: tuple[Floats, Floats],
) -> Fit:  # fmt: skip
    """Return the fit after a step of a block in which the prediction is linear but for the link."""
    if fit.link.curved:
        return _search(fit, rows, now, step, place, prior)
    return moved(fit, rows, place(now + step))  # the minimum itself


def _search(
    fit: Fit, rows: Rows, now: Floats, step: Floats, place: Callable[[Floats], Parameters],
    prior: tuple[Floats, Floats],
) -> Fit:  # fmt: skip
    """Return the fit after the longest of step, step/2, ... that does not raise the penalised loss."""
    penalty, centre = prior
    before = fit.loss(rows) + float(penalty @ (now - centre) ** 2)
    for halving in range(_HALVINGS):
        vector = now + step * 0.5**halving
        found = moved(fit, rows, place(vector))
        if found.loss(rows) + float(penalty @ (vector - centre) ** 2) <= before:
            return found
    return fit


def _with_noise(fit: Fit, rows: Rows) -> Fit:
    """Return the fit with the noise of one reward given the others, and what a ranking's rewards share."""
    if fit.link.name == "logistic":
        return fit
    error = (rows.reward - fit.q) * rows.present
    count = rows.present.sum(axis=1)
    square = float((error**2).sum())
    together = float((error.sum(axis=1) ** 2).sum()) - square
    variance = square / max(float(count.sum()), 1.0)
    pairs = float((count * (count - 1)).sum())
    icc = float(np.clip(together / max(pairs * variance, 1e-300), 0.0, 0.98))
    shared = icc / (1.0 + np.maximum(count - 1.0, 0.0) * icc) if icc > _LEAST_SHARED else np.zeros(rows.n)
    noise = fit.link.loss(fit.q, rows.reward, rows.present, shared) / max(float(count.sum()), 1.0)
    return replace(fit, shared=shared, noise=max(noise, 1e-12 * float((rows.reward**2).mean()), 1e-300))


def _effect_pulls(fit: Fit, spread: Floats) -> Prior:
    """Return the prior with context columns drawn to their mean over actions, pair effects to their overall mean."""
    K, A, p = fit.parameters.shape
    centre, penalty = fit.prior.effect.copy(), fit.prior.effect_penalty.copy()
    least = _LEAST * fit.noise
    for j in range(p):
        centre[:, j], strength = pull(fit.parameters.own[0, :, j], spread[:, j], fit.noise, least)
        penalty[:, j] = min(strength, _SHIFT) if j == 0 else strength
    least = _LEAST if fit.link.name == "product" else least
    centre[:, p:], penalty[:, p:] = pull(fit.parameters.pair[0], spread[:, p:], fit.noise, least)
    return replace(fit.prior, effect=centre, effect_penalty=penalty)


def sight_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after one step of how far each position is seen from each, drawn to its side's mean."""
    from counterrank.models.kernels.visibility_grams import add_sight

    K = fit.parameters.shape[0]
    gram, right, at = np.zeros((K, K, K)), np.zeros((K, K)), fit.slopes(rows)
    add_sight(
        rows.action, fit.scale, fit.parameters.pair[0], at.slope[1], at.weight, at.error, gram, right
    )  # fmt: skip
    penalty, centre = fit.prior.sight_penalty, fit.prior.sight
    full = whole(gram)
    full[:, np.arange(K), np.arange(K)] += penalty
    inverse = np.linalg.inv(full)
    now = fit.parameters.sight
    step = (inverse @ (right - penalty * (now - centre))[..., None])[..., 0]
    np.fill_diagonal(step, 0.0)
    found = _stepped(
        fit, rows, now.ravel(), step.ravel(), lambda v: replace(fit.parameters, sight=v.reshape(K, K)),
        (penalty.ravel(), centre.ravel()),
    )  # fmt: skip
    return _rescaled(found, rows, found.noise * np.diagonal(inverse, axis1=1, axis2=2))


def _rescaled(fit: Fit, rows: Rows, spread: Floats) -> Fit:
    """Return the same prediction with visibility 1 on average, and its prior renewed."""
    K, _, p = fit.parameters.shape
    off = ~np.eye(K, dtype=bool)
    size = float(np.abs(fit.parameters.sight[off]).mean())
    if not 1e-9 < size < 1e9:
        return fit
    sight = fit.parameters.sight / size
    parameters = replace(fit.parameters, sight=sight, pair=fit.parameters.pair * size)
    centre, penalty = fit.prior.effect.copy(), fit.prior.effect_penalty.copy()
    centre[:, p:] *= size
    penalty[:, p:] /= size**2
    middle, strength = fit.prior.sight.copy(), fit.prior.sight_penalty.copy()
    for side in (np.triu(off), np.tril(off)):
        if side.sum() > 1:
            middle[side], strength[side] = pull(sight[side], spread[side] / size**2, fit.noise, _LEAST)
    prior = replace(fit.prior, effect=centre, effect_penalty=penalty, sight=middle, sight_penalty=strength)
    return replace(fit, parameters=parameters, prior=prior)


def tilt_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after one step of how visibility varies with the context."""
    m = rows.moods.shape[1]
    if m == 0:
        return fit
    gram, right = _tilt_grams(fit, rows)
    penalty = np.full(2 * m, fit.prior.tilt_penalty)
    inverse = np.linalg.inv(gram + np.diag(penalty))
    now = fit.parameters.tilt.ravel()
    step = inverse @ (right - penalty * now)
    # How much a user sees is clipped, so a step may overshoot with any link.
    found = _search(
        fit, rows, now, step, lambda v: replace(fit.parameters, tilt=v.reshape(2, m)), (penalty, np.zeros(2 * m))
    )  # fmt: skip
    tilt = found.parameters.tilt.ravel()
    tau2 = float(np.mean(tilt**2 + found.noise * np.diag(inverse)))
    strength = found.noise / max(tau2, _LEAST)
    return replace(found, prior=replace(found.prior, tilt_penalty=strength))


def _tilt_grams(fit: Fit, rows: Rows) -> tuple[Floats, Floats]:
    """Return normal equations (2m, 2m), (2m,) of the tilt: how items above are seen, then those below."""
    from counterrank.models.kernels.visibility_tilt import add_tilt

    m, at = rows.moods.shape[1], fit.slopes(rows)
    wide = (m + 3) // 4 * 4
    sums, right = np.zeros((3, wide, wide)), np.zeros((2, m))
    add_tilt(rows.moods, fit.parts, at.slope[1], at.weight, at.error, fit.shared, sums, right)
    above, both, below = whole(sums)[:, :m, :m]
    return np.block([[above, both], [both, below]]), right.ravel()
