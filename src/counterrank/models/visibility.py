"""The visibility model: what one item does to another, and how far each position is seen from each.

    sum:     E[r_k | x, a] = own(x, a_k) + shift_k + sum_l s_kl W(a_k, a_l)
    product: E[r_k | x, a] = (own(x, a_k) + shift_k) exp(sum_l s_kl W(a_k, a_l))

s (K, K), `visible`, is the behaviour model c of Kiyohara et al. 2023 with numbers as entries, the
average over users; its off-diagonal mean is 1. W (A, A) is the same at all positions, which is what a
ridge by position lacks. Effects and visibility are fitted in turn by penalised least squares, with the
penalties of each group from its own spread (empirical Bayes: Morris 1983). Letters: n rankings, K
positions, A actions, p context columns (the first is 1), F folds. Padding is action -1.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.encoding import ContextMoments, context_columns
from counterrank.data.log import RankingLog
from counterrank.kernels.jit import jit
from counterrank.models import settings
from counterrank.models.base import RewardModel, by_row
from counterrank.models.columns import Layout, blocks_of, expected, indicators, whole_distribution
from counterrank.models.rankings import Rankings
from counterrank.models.ridge import by_action, others
from counterrank.records import Json

#: Rows whose pair effects are held at once.
_ROWS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class VisibilityModel(RewardModel):
    """Effects by fold left out (own (F, A, p), shift (F, K), pair (F, A, A)) and visibility (K, K) of all rows.

    With independent positions the mean under a target is exact; otherwise it is an average over drawn
    rankings.
    """

    own: Floats
    shift: Floats
    pair: Floats
    visible: Floats
    scale: ContextMoments
    product: bool
    details: Json = field(default_factory=dict)
    draws: int = settings.DRAWS
    seed: int = 0

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.own)

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return q (m, K), zero in the padding."""
        x = self.scale.standardised(rankings.x)
        out = np.zeros(rankings.item.shape)
        for f, rows in blocks_of(by_row(fold, self.folds, rankings.m)):
            action = rankings.item[rows]
            own = own_part(action, x[rankings.row[rows]], self.own[f], self.shift[f])
            out[rows] = linked(own, pair_part(action, self.pair[f], self.visible), self.product)
        out[rankings.item < 0] = 0.0
        return out

    def mean_under(self, batch: RankingLog, target: str, fold: int | Ints) -> Floats:
        """Return E_pi q_k (n, K)."""
        wanted = whole_distribution(batch, target)
        # Dependent positions (a policy without replacement): only whole draws are its rankings.
        if wanted is None:
            return super(VisibilityModel, self).mean_under(batch, target, fold)
        x, out = self.scale.standardised(context_columns(batch)), np.zeros(batch.action.shape)
        mean = self._product_mean if self.product else self._sum_mean
        for f, rows in blocks_of(by_row(fold, self.folds, batch.n)):
            chance = expected(wanted[rows], batch.lengths[rows], batch.K)
            out[rows] = mean(f, x[rows].T, chance, batch.lengths[rows]).T
        out[batch.action < 0] = 0.0
        return out

    def _sum_mean(self, f: int, x: Floats, chance: Floats, lengths: Ints) -> Floats:
        """Return E q_k (K, n) under distributions (1 or K, A, n), zero in the padding."""
        plain, pair = self.own[f] @ x, self.pair[f]
        if len(chance) == 1:
            # One distribution at all positions has one mean pair effect.
            both = (chance[0] * (pair @ chance[0])).sum(axis=0)
            beside = self.visible.sum(axis=1)[:, None] * both
        else:
            seen = np.tensordot(self.visible, chance, axes=1)
            beside = (chance * (pair @ seen)).sum(axis=1)
        own = (chance * plain).sum(axis=1) + self.shift[f][:, None]
        return np.asarray(own + beside)

    def _product_mean(self, f: int, x: Floats, chance: Floats, lengths: Ints) -> Floats:
        """Return the same of a product.

        The exponential of a sum over independent positions is a product, so its mean is the product of
        the positions' means.
        """
        K, plain = len(self.visible), self.own[f] @ x
        chance = np.broadcast_to(chance, (K, *chance.shape[1:]))
        out = np.empty((K, chance.shape[2]))
        for k in range(K):
            factor = np.ones(plain.shape)
            for other in range(K):
                if other != k:
                    mean = np.exp(_bounded(self.visible[k, other] * self.pair[f])) @ chance[other]
                    factor *= np.where(lengths > other, mean, 1.0)
            out[k] = (chance[k] * (plain + self.shift[f, k]) * factor).sum(axis=0)
        return out


def own_part(action: Ints, x: Floats, own: Floats, shift: Floats) -> Floats:
    """Return x' own[a_k] + shift_k (n, K); the padding has any numbers."""
    every = x @ own.T
    out: Floats = np.take_along_axis(every, np.maximum(action, 0), axis=1) + shift
    return out


def neighbours(action: Ints, pair: Floats, k: int) -> Floats:
    """Return pair[a_k, a_l] (K, n), zero at k itself and in the padding."""
    effect = np.pad(pair, (0, 1))  # Padding is one action more, without effects.
    out: Floats = effect[action[:, k], action.T]
    out[k] = 0.0
    return out


def pair_part(action: Ints, pair: Floats, visible: Floats) -> Floats:
    """Return sum_l visible_kl pair[a_k, a_l] (n, K)."""
    out = np.empty(action.shape)
    fill_pairs(np.ascontiguousarray(action), np.ascontiguousarray(pair), visible, out)
    return out


@jit
def fill_pairs(action: Ints, pair: Floats, visible: Floats, out: Floats) -> None:
    """Fill out (n, K) with the sums over shown neighbours l of visible_kl pair[a_k, a_l]."""
    K = action.shape[1]
    for i in range(action.shape[0]):
        for k in range(K):
            total = 0.0
            own = action[i, k]
            if own >= 0:
                for other in range(K):
                    item = action[i, other]
                    if item >= 0 and other != k:
                        total += visible[k, other] * pair[own, item]
            out[i, k] = total


def _bounded(part: Floats) -> Floats:
    """Return exponents that stay finite where there are few rows."""
    return np.clip(part, -settings.LARGEST_EXPONENT, settings.LARGEST_EXPONENT)


def linked(own: Floats, part: Floats, product: bool) -> Floats:
    """Return rewards from own parts and pair parts."""
    return np.asarray(own * np.exp(_bounded(part)) if product else own + part)


class Rows(NamedTuple):
    """x (n, p) with a leading 1, actions, rewards and presence (n, K), folds (n,)."""

    x: Floats
    action: Ints
    reward: Floats
    present: Floats
    fold: Ints

    @classmethod
    def of(cls, log: RankingLog, scale: ContextMoments, folds: int) -> "Rows":
        """Return the rows of a log, its context standardised."""
        present = (log.action >= 0).astype(np.float64)
        x = scale.standardised(context_columns(log))
        return cls(x, log.action, log.reward * present, present, log.bucket % folds)

    @property
    def n(self) -> int:
        """Number of rankings."""
        return len(self.action)

    def take(self, keep: Bools | Ints | slice) -> "Rows":
        """Return some of the rows."""
        return Rows(
            self.x[keep], self.action[keep], self.reward[keep], self.present[keep], self.fold[keep]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Parameters, and the prior's centres and penalties: effect (A, p + A) are own, then pair effects."""

    product: bool
    effect: Floats
    shift: Floats
    visible: Floats
    noise: float
    centre: Floats
    penalty: Floats
    visible_centre: Floats
    visible_penalty: Floats

    @property
    def p(self) -> int:
        """Number of context columns."""
        return int(self.effect.shape[1]) - len(self.effect)

    def predicted(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return q and the pair part (n, K)."""
        own = own_part(rows.action, rows.x, self.effect[:, : self.p], self.shift)
        part = pair_part(rows.action, self.effect[:, self.p :], self.visible)
        return linked(own, part, self.product) * rows.present, part

    def loss(self, rows: Rows) -> float:
        """Return squared errors with the prior's penalties."""
        error = rows.reward - self.predicted(rows)[0]
        pulls = (self.penalty * (self.effect - self.centre) ** 2).sum()
        pulls += (self.visible_penalty * (self.visible - self.visible_centre) ** 2).sum()
        return float((error**2).sum() + pulls + settings.SHIFT * (self.shift**2).sum())


def start(rows: Rows, actions: int, *, product: bool) -> Fit:
    """Return the fit that searches start from: all positions are seen, and rewards are their mean."""
    K, p, count = rows.action.shape[1], rows.x.shape[1], max(rows.present.sum(), 1.0)
    mean = float(rows.reward.sum() / count)
    variance = float((rows.present * (rows.reward - mean) ** 2).sum() / count)
    unit = max(variance, 1e-12 * mean**2, 1e-300)
    effect = np.zeros((actions, p + actions))
    effect[:, 0] = mean
    penalty = np.ones(effect.shape)
    # Exponents have no unit, so their penalty is in units of the noise.
    penalty[:, p:] *= unit if product else 1.0
    visible = 1.0 - np.eye(K)
    held = np.full((K, K), settings.FIRST_VISIBLE * unit)
    return Fit(product, effect, np.zeros(K), visible, unit, effect.copy(), penalty, visible, held)


def shrinkage(values: Floats, spread: Floats, noise: float, least: float) -> tuple[float, float]:
    """Return a group's mean and the ridge penalty noise / tau^2, tau^2 = mean of (value - mean)^2 + spread.

    One step of EM for normal coefficients with posterior variances `spread`; tau^2 is at least `least`.

    >>> shrinkage(np.array([-1.0, 1.0]), np.zeros(2), 0.5, 0.0)
    (0.0, 0.5)
    """
    mean = float(values.mean())
    tau2 = float(np.mean((values - mean) ** 2 + spread))
    return mean, noise / max(tau2, least, 1e-300)


def effect_grams(fit: Fit, rows: Rows, fold: Ints, folds: int) -> tuple[Floats, Floats]:
    """Return curvature (F, S, S) and gradient (F, S) of effects and shifts by fold, without the prior's part."""
    K, A, width = rows.action.shape[1], *fit.effect.shape
    size = A * width + K
    gram, right = np.zeros((folds, size, size)), np.zeros((folds, size))
    for f, used in blocks_of(fold):
        part = rows.take(used)
        q, exponent = fit.predicted(part)
        # d(own exp(part)) = exp(part) d own + q d part.
        own = (part.present * np.exp(_bounded(exponent)) if fit.product else part.present).T
        pair = q.T if fit.product else own
        rest, x, shown = (part.reward - q).T, part.x.T, indicators(part.action, A)
        beside = np.tensordot(fit.visible, shown, axes=1)
        for k in range(K):
            columns = np.concatenate(
                [own[k] * x, pair[k] * beside[k], own[k : k + 1], rest[k : k + 1]]
            )
            for u, mine in by_action(part.action[:, k], columns):
                at = np.r_[u * width : (u + 1) * width, A * width + k]
                product = mine @ mine.T
                gram[f][np.ix_(at, at)] += product[:-1, :-1]
                right[f, at] += product[-1, :-1]
    return gram, right


def effect_pull(fit: Fit) -> tuple[Floats, Floats]:
    """Return penalties (S,) of effects and shifts, and how far these are from their centres."""
    penalty = np.concatenate([fit.penalty.ravel(), np.full(len(fit.shift), settings.SHIFT)])
    return penalty, np.concatenate([(fit.effect - fit.centre).ravel(), fit.shift])


def effects_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of own effects, pair effects and shifts, with noise and prior updated."""
    gram, right = effect_grams(fit, rows, np.zeros(rows.n, dtype=np.int64), 1)
    penalty, away = effect_pull(fit)
    # Empirical Bayes needs the diagonal of the inverse, the posterior variances.
    inverse = np.linalg.inv(gram[0] + np.diag(penalty))
    step, K = inverse @ (right[0] - penalty * away), len(fit.shift)
    found = _search(fit, rows, effect=step[:-K].reshape(fit.effect.shape), shift=step[-K:])
    error = rows.reward - found.predicted(rows)[0]
    least = max(
        settings.LEAST_NOISE * float(rows.reward.var()), 1e-12 * float((rows.reward**2).mean())
    )
    noise = max(float((error**2).sum() / max(rows.present.sum(), 1.0)), least, 1e-300)
    spread = noise * np.diag(inverse)[:-K].reshape(fit.effect.shape)
    centre, held = fit.centre.copy(), fit.penalty.copy()
    for j in range(fit.p):
        values = found.effect[:, j]
        centre[:, j], strength = shrinkage(
            values, spread[:, j], noise, settings.LEAST_EFFECT * noise
        )
        # Actions may differ in level by far more than a normal prior of their spread would like: an
        # intercept is never held harder than a position's shift.
        held[:, j] = min(strength, settings.SHIFT) if j == 0 else strength
    beside = slice(fit.p, None)
    least = settings.LEAST_EFFECT * (1.0 if fit.product else noise)
    pairs = shrinkage(found.effect[:, beside], spread[:, beside], noise, least)
    centre[:, beside], held[:, beside] = pairs
    return replace(found, noise=noise, centre=centre, penalty=held)


def visibility_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of visibility, shrunk to its mean above and below, 1 on average."""
    K, pair = len(fit.visible), fit.effect[:, fit.p :]
    gram, right = np.zeros((K, K, K)), np.zeros((K, K))
    for first in range(0, rows.n, _ROWS):
        part = rows.take(slice(first, first + _ROWS))
        q, _ = fit.predicted(part)
        for k in range(K):
            columns = neighbours(part.action, pair, k) * (q[:, k] if fit.product else 1.0)
            gram[k] += columns @ columns.T
            right[k] += columns @ (part.reward[:, k] - q[:, k])
    gram[:, np.arange(K), np.arange(K)] += fit.visible_penalty
    inverse, off = np.linalg.inv(gram), 1.0 - np.eye(K)
    pull = fit.visible_penalty * (fit.visible - fit.visible_centre)
    step = (inverse @ (right - pull)[..., None])[..., 0]
    found = _search(fit, rows, visible=step * off)
    spread = found.noise * np.diagonal(inverse, axis1=1, axis2=2)
    centre, held = fit.visible_centre.copy(), fit.visible_penalty.copy()
    for side in (np.triu(off, 1) > 0, np.tril(off, -1) > 0):
        # A side of one cell (K = 2) has no spread to shrink by.
        if side.sum() > 1:
            values = found.visible[side]
            centre[side], held[side] = shrinkage(
                values, spread[side], found.noise, settings.LEAST_VISIBLE
            )
    return _rescaled(replace(found, visible_centre=centre, visible_penalty=held))


def _rescaled(fit: Fit) -> Fit:
    """Return the same rewards with a mean visibility of 1: only visible x pair effect enters them."""
    size = float(np.abs(fit.visible[~np.eye(len(fit.visible), dtype=bool)]).mean())
    if not 1e-6 < size < 1e6:
        return fit
    scale = np.ones(fit.effect.shape)
    scale[:, fit.p :] = size
    return replace(
        fit,
        effect=fit.effect * scale,
        centre=fit.centre * scale,
        penalty=fit.penalty / scale**2,
        visible=fit.visible / size,
        visible_centre=fit.visible_centre / size,
        visible_penalty=fit.visible_penalty * size**2,
    )


def _search(fit: Fit, rows: Rows, **steps: Floats) -> Fit:
    """Return the fit after the longest of step, step/2, ... that does not raise the penalised loss."""

    def moved(share: float) -> Fit:
        at = {name: getattr(fit, name) + share * step for name, step in steps.items()}
        return replace(fit, **at)

    # A step of a sum ends at the minimum.
    if not fit.product:
        return moved(1.0)
    before = fit.loss(rows)
    tried = (moved(0.5**halving) for halving in range(settings.HALVINGS))
    return next((found for found in tried if found.loss(rows) <= before), fit)


def alternate(rows: Rows, fit: Fit, settled: float = settings.SETTLED) -> Fit:
    """Return the fit after effects and visibility in turn until the squared errors change little."""
    last = np.inf
    for turn in range(settings.ROUNDS):
        fit = visibility_step(effects_step(fit, rows), rows)
        loss = squared_error(rows, fit)
        if turn and abs(last - loss) < settled * loss:
            break
        last = loss
    return fit


def squared_error(rows: Rows, fit: Fit) -> float:
    """Return the mean squared error of a fit."""
    error = rows.reward - fit.predicted(rows)[0]
    return float((error**2).sum() / max(rows.present.sum(), 1.0))


def by_fold(fit: Fit, rows: Rows, folds: int) -> tuple[Floats, Floats]:
    """Return effects (F, A, p + A) and shifts (F, K), each fold left out in turn.

    Visibility stays that of all rows: it is few numbers, on which no fold has much influence.
    """
    if fit.product:
        parts = [fit] * folds
        for f in range(folds):
            some = rows.take(rows.fold != f)
            # Where one fold holds every row there is nothing to fit without it.
            for _ in range(settings.FOLD_STEPS if len(some.reward) else 0):
                parts[f] = effects_step(parts[f], some)
        return np.stack([one.effect for one in parts]), np.stack([one.shift for one in parts])
    # A sum needs one step from the sums of all folds but one.
    gram, right = effect_grams(fit, rows, rows.fold, folds)
    penalty, away = effect_pull(fit)
    side = (others(right) - penalty * away)[..., None]
    step, K = np.linalg.solve(others(gram) + np.diag(penalty), side)[..., 0], len(fit.shift)
    return fit.effect + step[:, :-K].reshape(folds, *fit.effect.shape), fit.shift + step[:, -K:]


def columns(layout: Layout) -> int:
    """Return the number of columns A (p + A) + K of the widest step."""
    return layout.A * (layout.d + 1 + layout.A) + layout.K


def fit_visibility(
    rows: Rows, layout: Layout, *, draws: int, seed: int
) -> dict[str, VisibilityModel]:
    """Return the models by name: the sum and the product, unless a rough fit to some rows rules one out."""
    count = max(settings.ROUGH_ROWS, settings.ROUGH_ROWS_COLUMN * columns(layout))
    few = rows.take(slice(None, None, max(rows.n // count, 1)))
    rough = {
        name: alternate(few, start(few, layout.A, product=name == "product"), settings.ROUGH)
        for name in ("sum", "product")
    }
    errors = {name: squared_error(few, fit) for name, fit in rough.items()}
    found = {}
    for name, fit in rough.items():
        if errors[name] > settings.HOPELESS * min(errors.values()):
            continue
        fit = alternate(rows, fit)
        effect, shift = by_fold(fit, rows, layout.F)
        own, pair = np.split(effect, [fit.p], axis=2)
        details = {
            "model": f"visibility-{name}",
            "folds": layout.F,
            "training_rows": rows.n,
            "visibility": fit.visible.tolist(),
            "mean_under_target": "closed form",
        }
        found[f"visibility-{name}"] = VisibilityModel(
            own, shift, pair, fit.visible, layout.scale, fit.product, details, draws=draws, seed=seed
        )  # fmt: skip
    return found
