"""Fitting the click-history model: penalised likelihood, spreads by empirical Bayes, one warm start for all folds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.models.clicks.base import ALL, VARIANTS, Variant
from counterrank.models.clicks.kernels.likelihood import newton, slots_of
from counterrank.models.clicks.model import ClickModel, Encoding, Parameters, rivalry
from counterrank.models.clicks.rankings import Rankings, Scaling
from counterrank.models.clicks.settings import SETTINGS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rankings of a fit as the kernels read them, with the fold of each."""

    rankings: Rankings
    encoding: Encoding
    numbers: Ints
    click: Floats
    lengths: Ints
    x: Floats
    fold: Ints
    folds: int

    @classmethod
    def of(cls, rankings: Rankings, reward: Floats, fold: Ints, folds: int) -> "Rows":
        """Return the arrays of a fit."""
        encoding = Encoding.of(rankings)
        click = np.ascontiguousarray(reward != 0.0, dtype=np.float64)
        numbers = encoding.numbers(rankings.item)
        assert rankings.row is not None
        x = np.ascontiguousarray(encoding.context.apply(rankings.x)[rankings.row])
        return cls(rankings, encoding, numbers, click, rankings.lengths, x, fold, folds)

    def without(self, fold: int) -> Ints:
        """Return the rows that the model which leaves out a fold may see."""
        return np.flatnonzero(self.fold != fold)


@dataclass(slots=True, eq=False)
class Prior:
    """Independent normal priors of the parameters: mean (P,), and one precision a group."""

    mean: Floats
    group: Ints
    spread: Floats
    #: Groups whose spread the rows decide.
    free: NDArray[np.bool_]

    @property
    def precision(self) -> Floats:
        """Precision of each parameter (P,)."""
        out: Floats = (self.spread**-2.0)[self.group]
        return out

    def update(self, theta: Floats, diagonal: Floats) -> None:
        """Move the spreads to what the fitted effects say (MacKay's update, with the diagonal of the Fisher matrix).

        sd^2 = sum of squares / sum of H / (H + 1/sd^2), the effects that the rows decide; the start counts as
        `prior_weight` effects, so that few effects do not collapse.
        """
        weight = SETTINGS["prior_weight"].value
        decided = diagonal / (diagonal + self.precision)
        squares = (theta - self.mean) ** 2
        count = np.bincount(self.group, decided, len(self.spread))
        total = np.bincount(self.group, squares, len(self.spread))
        start = _STARTS**2
        found = np.sqrt((total + weight * start) / (count + weight))
        found = np.clip(found, SETTINGS["least_sd"].value, SETTINGS["most_sd"].value)
        self.spread = np.where(self.free, found, self.spread)


_GROUPS = ("position", "clicked", "distance", "cell", "after", "constant", "column", "item", "slope")
_STARTS = np.array([SETTINGS[f"{name}_sd"].value for name in _GROUPS])
_FREE = np.array([name not in ("position", "clicked", "constant") for name in _GROUPS])


def prior_of(K: int, items: int, d: int, p: int, rate: float) -> Prior:
    """Return the prior in the kernels' order; the constant is drawn to the logged click rate."""
    sizes = (K, 1, K, K * K, items + 1, 1, d + p, items + 1, (items + 1) * d)
    group = np.repeat(np.arange(len(sizes)), sizes)
    mean = np.zeros(len(group))
    examined = SETTINGS["examined"].value
    mean[:K] = examined
    attracted = np.clip(rate * (1 + np.exp(-examined)), 1e-4, 1 - 1e-4)
    mean[group == _GROUPS.index("constant")] = np.log(attracted / (1 - attracted))
    return Prior(mean, group, _STARTS.copy(), _FREE)


def fit_history(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] = VARIANTS,
    seed: int = 0,
) -> tuple[ClickModel, ...]:
    """Return the cross-fitted click-history models, one a variant; rewards other than zero are clicks.

    `fold` (m,) in 0..folds - 1 by unit. Each fold's parameters start at those of all rows and move until a Newton step
    promises nothing: what they were started at no longer matters.
    """
    rankings, reward, fold = checked(rankings, reward, fold, folds)
    rankings, reward, fold = sampled(rankings, reward, fold, seed)
    rows = Rows.of(rankings, reward, fold, folds)
    made: dict[Variant, ClickModel] = {}
    for variant in variants:
        if variant.extra and rankings.extra is None:
            continue
        plain = Variant(extra=variant.extra)
        for wanted in dict.fromkeys((Variant(), plain, variant)):
            if wanted not in made:
                made[wanted] = _fitted(rows, wanted, made)
    return tuple(made[v] for v in variants if v in made)


def checked(rankings: Rankings, reward: Floats, fold: Ints, folds: int) -> tuple[Rankings, Floats, Ints]:
    """Raise unless rewards and folds belong to the rankings and every fold leaves rows to fit on."""
    reward, fold = np.asarray(reward, dtype=np.float64), np.asarray(fold, dtype=np.int64)
    if reward.shape != rankings.item.shape or fold.shape != (rankings.m,):
        raise EstimatorError(
            f"rankings {rankings.item.shape}, rewards {reward.shape} and folds {fold.shape} do not belong together"
        )
    if rankings.m == 0 or not (rankings.item >= 0).any():
        raise EstimatorError("a reward model needs rankings with items; there are none")
    if not np.isfinite(reward[rankings.item >= 0]).all():
        row = int(np.flatnonzero(~np.isfinite(np.where(rankings.item >= 0, reward, 0.0)).all(axis=1))[0])
        raise EstimatorError(f"row {row} has a reward that is no number; leave such rows out")
    if folds < 2 or fold.min() < 0 or fold.max() >= folds:
        raise EstimatorError(f"folds are numbered 0 to {folds - 1}, at least two; found {fold.min()} to {fold.max()}")
    if len(np.unique(fold)) < 2:
        raise EstimatorError("all rows are in one fold: nothing is left to fit on; a model needs several units")
    return rankings, np.where(rankings.item >= 0, reward, 0.0), fold


def sampled(rankings: Rankings, reward: Floats, fold: Ints, seed: int) -> tuple[Rankings, Floats, Ints]:
    """Return at most `rows` of the rankings, drawn at random."""
    most = int(SETTINGS["rows"].value)
    if rankings.m <= most:
        return rankings, reward, fold
    rows = np.sort(np.random.default_rng([seed, 47]).choice(rankings.m, most, replace=False))
    return rankings.take(rows), reward[rows], fold[rows]


def _fitted(rows: Rows, variant: Variant, made: dict[Variant, ClickModel]) -> ClickModel:
    first = made[Variant(extra=variant.extra)] if variant.competition else None
    encoding, x = rows.encoding, rows.x
    own = rows.rankings if rows.rankings.n == rows.rankings.m else _rowwise(rows.rankings)
    common = encoding.columns(own, x, variant.extra)
    K, items, d = rows.rankings.K, encoding.items, encoding.slopes_of(x).shape[1]
    rivals, widened = None, [common] * (rows.folds + 1)
    if first is not None:
        felt = [rivalry(first.strength(own, f), rows.lengths) for f in (*range(rows.folds), ALL)]
        rivals = Scaling.of(felt[-1][own.item >= 0])
        widened = [np.concatenate([common, rivals.apply(values)], axis=2) for values in felt]
    p = widened[0].shape[2]
    shown = float(rows.lengths.sum())
    prior = prior_of(K, items, d, p, float(rows.click.sum()) / shown)
    theta = np.empty((rows.folds + 1, len(prior.mean)))
    before = made.get(Variant(extra=variant.extra)) if variant.competition else made.get(Variant())
    theta[-1] = prior.mean if before is None else _widened(before.parameters, p, variant)
    ones = np.ascontiguousarray(np.concatenate([np.ones((len(x), 1)), encoding.slopes_of(x)], axis=1))
    whole = Slots.of(rows, np.arange(rows.rankings.m), widened[-1])
    rounds = int(SETTINGS["rounds"].value) if before is None else 1
    steps = [climb(theta[-1], prior, rows, whole, ones, rounds, near=before is not None)]
    for f in range(rows.folds):
        theta[f] = theta[-1]
        part = Slots.of(rows, rows.without(f), widened[f])
        steps.append(climb(theta[f], prior, rows, part, ones, 0, near=True))
    details: dict[str, Any] = {
        "model": "click history",
        "folds": rows.folds,
        "rows": rows.rankings.m,
        "items": items,
        "columns": p,
        "extra": variant.extra,
        "competition": variant.competition,
        "spreads": {name: float(sd) for name, sd in zip(_GROUPS, prior.spread, strict=True)},
        "newton_steps": steps,
    }
    return ClickModel(Parameters(theta, K, items, d), encoding, variant, first, rivals, details)


def _rowwise(rankings: Rankings) -> Rankings:
    """Return the rankings with a row of context each."""
    return Rankings(rankings.item, rankings.x[rankings.row], features=rankings.features, extra=rankings.extra)


def _widened(before: Parameters, p: int, variant: Variant) -> Floats:
    """Return the parameters of all rows of a narrower variant, with zeros for the new columns, which come last."""
    _, _, columns, items = before.starts
    theta = before.theta[-1]
    new = np.zeros(p - (items - columns))
    return np.concatenate([theta[:items], new, theta[items:]])


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The shown slots (N,) of some rows, one after the other, as the likelihood reads them."""

    cell: Ints
    last: Ints
    own: Ints
    row: Ints
    columns: Floats
    click: Floats

    @classmethod
    def of(cls, rows: Rows, used: Ints, columns: Floats) -> "Slots":
        """Return the slots of the given rows; columns (m, K, p) of all rows."""
        N = int(rows.lengths[used].sum())
        cell, last, own, row = (np.empty(N, dtype=np.int64) for _ in range(4))
        slots_of(rows.numbers, rows.click, rows.lengths, used, rows.encoding.items, cell, last, own, row)
        k = cell // (rows.rankings.K + 1)
        return cls(cell, last, own, row, columns[row, k], rows.click[row, k])


def climb(theta: Floats, prior: Prior, rows: Rows, slots: Slots, x: Floats, rounds: int, near: bool) -> int:
    """Move theta to its maximum in place, with `rounds` updates of the spreads; return the Newton steps taken."""
    enough, steps, inner = SETTINGS["enough"].value, int(SETTINGS["steps"].value), int(SETTINGS["inner"].value)
    diagonal = np.zeros(len(theta))
    taken = 0
    for more in range(rounds, -1, -1):
        # While spreads still move, a rough maximum is enough.
        _, own = newton(
            theta, prior.mean, prior.precision, rows.rankings.K, rows.encoding.items, slots.cell, slots.last, slots.own,
            slots.row, x, slots.columns, slots.click, steps, 10 * enough if more else enough, inner, near, diagonal,
        )  # fmt: skip
        taken += own
        near = True
        if more:
            prior.update(theta, diagonal)
    return taken
