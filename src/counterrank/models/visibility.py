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
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.records import Json
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.kernels.jit import vector_jit
from counterrank.models import settings
from counterrank.models.base import Fold, RewardModel, by_row
from counterrank.models.columns import Layout, blocks_of, expected
from counterrank.models.rankings import Rankings, whole_distribution

_LARGEST = settings.LARGEST_EXPONENT


@dataclass(frozen=True, slots=True, eq=False)
class VisibilityModel(RewardModel):
    """Effects by fold left out (own and pair (F, A, p + A), shift (F, K)) and visibility (K, K) of all rows.

    With independent positions the mean under a target is exact; otherwise it is an average over drawn
    rankings.
    """

    effect: Floats
    shift: Floats
    visible: Floats
    layout: Layout
    product: bool
    details: Json = field(default_factory=dict)
    draws: int = settings.DRAWS
    seed: int = 0
    #: The ridge of the same rows, whose prior says what the log hardly shows.
    ridge: RewardModel | None = None

    def doubt(self, batch: RankingLog, target: str) -> float:
        """Return the doubt of the ridge: what the log does not show, no model of it knows."""
        return 0.0 if self.ridge is None else self.ridge.doubt(batch, target)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.effect)

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return q (m, K), zero in the padding."""
        x, fold_of_row = self.layout.standardised(rankings.x), by_row(fold, self.folds, rankings.m)
        effects = self.effect, self.shift, self.visible
        q, slope = np.empty(rankings.item.shape), np.empty(rankings.item.shape)
        rewards_of(rankings.item, x, rankings.row, fold_of_row, effects, self.product, q, slope)
        return q

    def mean_under(self, batch: RankingLog, target: str, fold: Fold) -> Floats:
        """Return E_pi q_k (n, K)."""
        distribution = whole_distribution(batch, target)
        # Dependent positions (a policy without replacement): only whole draws are its rankings.
        if distribution is None:
            return super(VisibilityModel, self).mean_under(batch, target, fold)
        x, out = self.layout.standardised(context_columns(batch)), np.zeros(batch.action.shape)
        for f, rows in blocks_of(by_row(fold, self.folds, batch.n)):
            chance, effects = (
                expected(distribution[rows], batch.lengths[rows], batch.K),
                self.effect[f],
            )
            plain, pair = effects[:, : x.shape[1]] @ x[rows].T, effects[:, x.shape[1] :]
            mean = self._product_mean if self.product else self._sum_mean
            out[rows] = mean(plain, pair, self.shift[f][:, None], chance).T
        out[batch.action < 0] = 0.0
        return out

    def _sum_mean(self, plain: Floats, pair: Floats, shift: Floats, chance: Floats) -> Floats:
        """Return E q_k (K, n) under distributions (1 or K, A, n), from own effects (A, n)."""
        if len(chance) == 1:
            # One distribution at all positions has one mean pair effect.
            pair_mean = (chance[0] * (pair @ chance[0])).sum(axis=0)
            pair_sum = self.visible.sum(axis=1)[:, None] * pair_mean
        else:
            visible_chance = np.tensordot(self.visible, chance, axes=1)
            pair_sum = (chance * (pair @ visible_chance)).sum(axis=1)
        return np.asarray((chance * plain).sum(axis=1) + shift + pair_sum)

    def _product_mean(self, plain: Floats, pair: Floats, shift: Floats, chance: Floats) -> Floats:
        """Return the same of a product.

        The exponential of a sum over independent positions is a product, so its mean is the product of
        the positions' means.
        """
        K = len(shift)
        chance = np.broadcast_to(chance, (K, *plain.shape))
        out = np.empty((K, plain.shape[1]))
        for k in range(K):
            factor = np.ones(plain.shape)
            for neighbour in np.delete(np.arange(K), k):
                # Exponents stay finite where there are few rows.
                exponent = np.clip(self.visible[k, neighbour] * pair, -_LARGEST, _LARGEST)
                mean = np.exp(exponent) @ chance[neighbour]
                # Chances of padding add up to zero.
                factor *= np.where(chance[neighbour].any(axis=0), mean, 1.0)
            out[k] = (chance[k] * (plain + shift[k]) * factor).sum(axis=0)
        return out


@vector_jit
def rewards_of(
    action: Ints,
    x: Floats,
    row: Ints,
    fold: Ints,
    effects: tuple[Floats, Floats, Floats],
    product: bool,
    q: Floats,
    slope: Floats,
) -> None:
    """Fill q (m, K) with the rewards of rankings of the requests `row` (m,), and their slopes in the own effect.

    `effects` are effect (F, A, p + A), shift (F, K) and visible (K, K). Both are zero in the padding.
    """
    effect, shift, visible = effects
    K, p = action.shape[1], x.shape[1]
    for i in range(action.shape[0]):
        f, r = fold[i], row[i]
        for k in range(K):
            u = action[i, k]
            own_effect, pair_part = 0.0, 0.0
            if u >= 0:
                own_effect = shift[f, k]
                for j in range(p):
                    own_effect += x[r, j] * effect[f, u, j]
                for neighbour in range(K):
                    item = action[i, neighbour]
                    if item >= 0 and neighbour != k:
                        pair_part += visible[k, neighbour] * effect[f, u, p + item]
            lift = np.exp(min(max(pair_part, -_LARGEST), _LARGEST)) if product else 1.0
            q[i, k] = own_effect * lift if product else own_effect + pair_part
            slope[i, k] = lift if u >= 0 else 0.0


class Rows(NamedTuple):
    """x (n, p) with a leading 1, actions, rewards and presence (n, K), folds (n,)."""

    x: Floats
    action: Ints
    reward: Floats
    present: Floats
    fold: Ints

    @classmethod
    def from_log(cls, log: RankingLog, layout: Layout) -> "Rows":
        """Return the rows of a log, its context standardised."""
        present = (log.action >= 0).astype(np.float64)
        x = layout.standardised(context_columns(log))
        return cls(x, log.action, log.reward * present, present, log.bucket % layout.F)

    @property
    def n(self) -> int:
        """Number of rankings."""
        return len(self.action)

    def take(self, keep: Bools | Ints | slice) -> "Rows":
        """Return some of the rows."""
        return Rows._make(column[keep] for column in self)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Parameters, what they predict of `rows`, and the prior's centres and penalties.

    effect (A, p + A) are own, then pair effects; q (n, K) are the predicted rewards and `slope` their
    derivatives in the own effect.
    """

    product: bool
    effect: Floats
    shift: Floats
    visible: Floats
    noise: float
    centre: Floats
    penalty: Floats
    visible_centre: Floats
    visible_penalty: Floats
    rows: Rows
    q: Floats = field(default_factory=lambda: np.empty(0))
    slope: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def p(self) -> int:
        """Number of context columns."""
        return int(self.effect.shape[1]) - len(self.effect)

    def predicting(self, rows: Rows) -> "Fit":
        """Return the fit with what it predicts of some rows."""
        effects = self.effect[None], self.shift[None], self.visible
        row, fold = np.arange(rows.n), np.zeros(rows.n, dtype=np.int64)
        q, slope = np.empty((2, *rows.action.shape))
        rewards_of(rows.action, rows.x, row, fold, effects, self.product, q, slope)
        return replace(self, rows=rows, q=q, slope=slope)

    @property
    def error(self) -> Floats:
        """What it does not explain of the rewards (n, K)."""
        return self.rows.reward - self.q

    @property
    def weight(self) -> Floats:
        """The derivatives of rewards in pair parts (n, K)."""
        # d(own exp(part)) = exp(part) d own + q d part.
        return self.q if self.product else self.slope

    @property
    def squared_error(self) -> float:
        """The mean squared error."""
        return float((self.error**2).sum() / max(self.rows.present.sum(), 1.0))

    @property
    def loss(self) -> float:
        """Squared errors with the prior's penalties."""
        pulls = (self.penalty * (self.effect - self.centre) ** 2).sum()
        pulls += (self.visible_penalty * (self.visible - self.visible_centre) ** 2).sum()
        return float((self.error**2).sum() + pulls + settings.SHIFT * (self.shift**2).sum())


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
    fit = Fit(
        product, effect, np.zeros(K), visible, unit, effect.copy(), penalty, visible, held, rows
    )
    return fit.predicting(rows)


def shrinkage(values: Floats, spread: Floats, noise: float, least: float) -> tuple[float, float]:
    """Return a group's mean and the ridge penalty noise / tau^2, tau^2 = mean of (value - mean)^2 + spread.

    One step of EM for normal coefficients with posterior variances `spread`; tau^2 is at least `least`.

    >>> shrinkage(np.array([-1.0, 1.0]), np.zeros(2), 0.5, 0.0)
    (0.0, 0.5)
    """
    mean = float(values.mean())
    tau2 = float(np.mean((values - mean) ** 2 + spread))
    return mean, noise / max(tau2, least, 1e-300)


def effect_grams(fit: Fit) -> tuple[Floats, Floats]:
    """Return curvature (S, S) and gradient (S,) of effects and shifts, without the prior's part."""
    (n, K), (A, width), rows = fit.q.shape, fit.effect.shape, fit.rows
    columns, slots = (fit.slope, fit.weight, fit.error), np.empty((n, width + 2))
    size = A * width
    gram, right = np.zeros((size + K, size + K)), np.zeros(size + K)
    for k, shift_row in enumerate(range(size, size + K)):
        # Rankings that end above k come last.
        group = np.where(rows.action[:, k] >= 0, rows.action[:, k], A)
        last = np.cumsum(np.bincount(group, minlength=A + 1))
        fill_slots(group, last, rows.action, rows.x, k, fit.visible, columns, slots)
        # `last` now has the first row of each group, which is where the group before it ends.
        for u, (first, end) in enumerate(pairwise(last.tolist())):
            action_block, sums = (
                slice(u * width, (u + 1) * width),
                slots[first:end].T @ slots[first:end],
            )
            gram[action_block, action_block] += sums[:width, :width]
            gram[shift_row, action_block] = gram[action_block, shift_row] = sums[width, :width]
            gram[shift_row, shift_row] += sums[width, width]
            right[action_block] += sums[width + 1, :width]
            right[shift_row] += sums[width + 1, width]
    return gram, right


@vector_jit
def fill_slots(
    group: Ints,
    last: Ints,
    action: Ints,
    x: Floats,
    k: int,
    visible: Floats,
    columns: tuple[Floats, Floats, Floats],
    out: Floats,
) -> None:
    """Fill out (n, p + A + 2) with the columns of each row's slot k, groups of rows together.

    The columns are own x, pair x visibility of the actions beside it, own, and the error. `last` (G,)
    has the end of each group and is moved to its start.
    """
    slopes, pair, error = columns
    K, p, width = action.shape[1], x.shape[1], out.shape[1] - 2
    for i in range(group.shape[0]):
        last[group[i]] -= 1
        row = out[last[group[i]]]
        for j in range(p):
            row[j] = slopes[i, k] * x[i, j]
        for j in range(p, width):
            row[j] = 0.0
        for neighbour in range(K):
            if neighbour != k and action[i, neighbour] >= 0:
                row[p + action[i, neighbour]] += pair[i, k] * visible[k, neighbour]
        row[width] = slopes[i, k]
        row[width + 1] = error[i, k]


def effects_step(fit: Fit) -> Fit:
    """Return the fit after a step of own effects, pair effects and shifts, with noise and prior updated."""
    rows, (gram, right), K = fit.rows, effect_grams(fit), len(fit.shift)
    penalty = np.concatenate([fit.penalty.ravel(), np.full(K, settings.SHIFT)])
    deviation = np.concatenate([(fit.effect - fit.centre).ravel(), fit.shift])
    # Empirical Bayes needs the diagonal of the inverse, the posterior variances.
    inverse = np.linalg.inv(gram + np.diag(penalty))
    step = inverse @ (right - penalty * deviation)
    stepped = _search(fit, effect=step[:-K].reshape(fit.effect.shape), shift=step[-K:])
    least = max(
        settings.LEAST_NOISE * float(rows.reward.var()), 1e-12 * float((rows.reward**2).mean())
    )
    noise = max(stepped.squared_error, least, 1e-300)
    spread = noise * np.diag(inverse)[:-K].reshape(fit.effect.shape)
    centre, held = fit.centre.copy(), fit.penalty.copy()
    for group in (*range(fit.p), slice(fit.p, None)):
        # Exponents have no unit.
        unit = 1.0 if fit.product and isinstance(group, slice) else noise
        centre[:, group], held[:, group] = shrinkage(
            stepped.effect[:, group], spread[:, group], noise, settings.LEAST_EFFECT * unit
        )
    # Actions may differ in level by far more than a normal prior of their spread would like: an
    # intercept is never held harder than a position's shift.
    held[:, 0] = np.minimum(held[:, 0], settings.SHIFT)
    return replace(stepped, noise=noise, centre=centre, penalty=held)


def visibility_step(fit: Fit) -> Fit:
    """Return the fit after a step of visibility, shrunk to its mean above and below, 1 on average."""
    (gram, right), K = visibility_grams(fit), len(fit.visible)
    gram[:, np.arange(K), np.arange(K)] += fit.visible_penalty
    inverse, off = np.linalg.inv(gram), 1.0 - np.eye(K)
    pull = fit.visible_penalty * (fit.visible - fit.visible_centre)
    step = (inverse @ (right - pull)[..., None])[..., 0]
    stepped = _search(fit, visible=step * off)
    spread = stepped.noise * np.diagonal(inverse, axis1=1, axis2=2)
    centre, held = fit.visible_centre.copy(), fit.visible_penalty.copy()
    for side in (np.triu(off, 1) > 0, np.tril(off, -1) > 0):
        # A side of one cell (K = 2) has no spread to shrink by.
        if side.sum() > 1:
            values = stepped.visible[side]
            centre[side], held[side] = shrinkage(
                values, spread[side], stepped.noise, settings.LEAST_VISIBLE
            )
    return _rescaled(replace(stepped, visible_centre=centre, visible_penalty=held))


def visibility_grams(fit: Fit) -> tuple[Floats, Floats]:
    """Return curvature (K, K, K) and gradient (K, K) of visibility, without the prior's part."""
    K, pair = len(fit.visible), np.ascontiguousarray(fit.effect[:, fit.p :])
    gram, right = np.zeros((K, K, K)), np.zeros((K, K))
    weight, error, slots = fit.weight, fit.error, np.empty((len(fit.q), K + 1))
    for k in range(K):
        fill_neighbours(fit.rows.action, k, pair, weight, error, slots)
        products = slots.T @ slots
        gram[k], right[k] = products[:K, :K], products[K, :K]
    return gram, right


@vector_jit
def fill_neighbours(
    action: Ints, k: int, pair: Floats, weight: Floats, error: Floats, out: Floats
) -> None:
    """Fill out (n, K + 1) with weight x pair[a_k, a_l], zero at k itself and in the padding, and the error."""
    n, K = action.shape
    for i in range(n):
        u = action[i, k]
        for neighbour in range(K):
            shown = u >= 0 and neighbour != k and action[i, neighbour] >= 0
            out[i, neighbour] = weight[i, k] * pair[u, action[i, neighbour]] if shown else 0.0
        out[i, K] = error[i, k]


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


def _search(fit: Fit, **steps: Floats) -> Fit:
    """Return the fit after the longest of step, step/2, ... that does not raise the penalised loss."""

    def fit_at(share: float) -> Fit:
        values = {name: getattr(fit, name) + share * step for name, step in steps.items()}
        return replace(fit, **values).predicting(fit.rows)

    # A step of a sum ends at the minimum.
    if not fit.product:
        return fit_at(1.0)
    before = fit.loss
    tried = (fit_at(0.5**halving) for halving in range(settings.HALVINGS))
    return next((candidate for candidate in tried if candidate.loss <= before), fit)


def alternate(fit: Fit, settled: float = settings.SETTLED) -> Fit:
    """Return the fit after effects and visibility in turn until the squared errors change little."""
    last = np.inf
    for turn in range(settings.ROUNDS):
        fit = visibility_step(effects_step(fit))
        loss = fit.squared_error
        if turn and abs(last - loss) < settled * loss:
            break
        last = loss
    return fit


def by_fold(fit: Fit, folds: int) -> tuple[Floats, Floats]:
    """Return effects (F, A, p + A) and shifts (F, K), each fold left out in turn.

    Visibility stays that of all rows: it is few numbers, on which no fold has much influence.
    """
    parts = [fit.predicting(fit.rows.take(fit.rows.fold != f)) for f in range(folds)]
    # A step of a sum ends at the minimum.
    steps = settings.FOLD_STEPS if fit.product else 1
    for f in range(folds):
        # Where one fold holds every row there is nothing to fit without it.
        for _ in range(steps if parts[f].rows.n else 0):
            parts[f] = effects_step(parts[f])
    return np.stack([model.effect for model in parts]), np.stack([model.shift for model in parts])


def columns(layout: Layout) -> int:
    """Return the number of columns A (p + A) + K of the widest step."""
    return layout.A * (layout.d + 1 + layout.A) + layout.K


def fit_visibility(
    rows: Rows, layout: Layout, *, draws: int, seed: int
) -> dict[str, VisibilityModel]:
    """Return the models by name: the sum and the product, unless a rough fit to some rows rules one out."""
    count = max(settings.ROUGH_ROWS, settings.ROUGH_ROWS_COLUMN * columns(layout))
    sampled_rows = rows.take(slice(None, None, max(rows.n // count, 1)))
    rough = {
        name: alternate(start(sampled_rows, layout.A, product=name == "product"), settings.ROUGH)
        for name in ("sum", "product")
    }
    least = min(fit.squared_error for fit in rough.values())
    models = {}
    for name, first in rough.items():
        if first.squared_error > settings.HOPELESS * least:
            continue
        fit = alternate(first.predicting(rows))
        effect, shift = by_fold(fit, layout.F)
        details = {
            "model": f"visibility-{name}",
            "folds": layout.F,
            "training_rows": rows.n,
            "visibility": fit.visible.tolist(),
            "mean_under_target": "closed form",
        }
        models[f"visibility-{name}"] = VisibilityModel(
            effect, shift, fit.visible, layout, fit.product, details, draws=draws, seed=seed
        )
    return models
