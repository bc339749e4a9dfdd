"""Fits of the click models: penalised likelihood, prior spreads by empirical Bayes, warm starts for folds."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logit

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import EstimatorError
from counterrank.common.records import Json
from counterrank.data.encoding import Scaling as ColumnScaling
from counterrank.data.source import default_threads, map_in_order, reporter
from counterrank.models.clicks.blocks import Blocks, blocks_of
from counterrank.models.clicks.competition import last_click, reading, skipped
from counterrank.models.clicks.likelihood import (
    ClickLikelihood,
    Family,
    MeanLikelihood,
    Scaling,
    Slots,
    newton,
    page_weights,
)
from counterrank.models.clicks.model import ClickModel, Encoding, Predictor
from counterrank.models.clicks.parameters import Parameters
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.rankings import Rankings, Stream, Variant, stream, variants_for


@dataclass(frozen=True, slots=True, eq=False)
class ClickRows:
    """The rankings of a fit, with a row of context each.

    `y` (m, K) is what is fitted, `click` (m, K) the clicks that later slots depend on. With `page` the
    rewards of a page are one number.
    """

    rankings: Rankings
    encoding: Encoding
    family: Family
    page: bool
    y: Floats
    click: Floats
    #: Slots (m, K) that enter the likelihood.
    used: Bools
    #: The standardised context.
    x: Floats
    #: Features of each item (I + 1, .) where every row says the same, else of none (0, .).
    traits: Floats
    fold: Ints
    folds: int

    @property
    def free(self) -> bool:
        """Whether the rows decide the scale of the likelihood."""
        sure = self.family is Family.CHANCE and bool(np.isin(self.y, (0.0, 1.0)).all())
        return self.family is not Family.CLICKS and not sure

    def slots(self, columns: Floats, read: Floats) -> Slots:
        """Return the slots that enter the likelihood, from columns (m, K, p) and reading (m, K)."""
        K, items, encoding = self.rankings.K, self.encoding.items, self.encoding
        first_crossed, crossed = encoding.crossed
        if len(self.traits):
            columns = np.delete(columns, slice(first_crossed, first_crossed + crossed), axis=2)
        row, k = (np.ascontiguousarray(indices) for indices in np.nonzero(self.used))
        numbers, last = encoding.numbers(self.rankings), last_click(self.click)[row, k]
        return Slots(
            K,
            items,
            cell=k * (K + 1) + last,
            last=np.where(last > 0, numbers[row, last - 1], items + 1),
            item=numbers[row, k],
            row=row,
            y=self.y[row, k],
            read=read[row, k],
            columns=columns[row, k],
            x=encoding.slopes_of(self.x),
            context=encoding.linear_context(self.x),
            first_crossed=first_crossed,
            crossed=crossed,
            traits=self.traits,
        )

    def likelihood(self, slots: Slots, dispersion: float) -> ClickLikelihood | MeanLikelihood:
        """Return the likelihood of some slots."""
        if self.family is Family.CLICKS:
            return ClickLikelihood(slots.y)
        if not self.page:
            slot_numbers = np.arange(len(slots.y))
            return MeanLikelihood(
                self.family, slots.y, np.ones(len(slot_numbers)), slot_numbers, dispersion
            )
        first, weight = slots.first, page_weights(slots.K)[slots.k]
        return MeanLikelihood(
            self.family, np.add.reduceat(slots.y, first), weight, first, dispersion
        )


def traits_of(encoding: Encoding, rankings: Rankings) -> Floats:
    """Return the standardised features of each item (I + 1, crossed), or of none (0, crossed).

    Features are traits of items if the context multiplies them, items have slopes in the context, and
    an item has the same features in all rankings.
    """
    _, crossed = encoding.crossed
    if crossed and encoding.slopes and encoding.features and rankings.features is not None:
        shown = rankings.item >= 0
        features = encoding.features.apply(rankings.features)[shown]
        numbers = encoding.numbers(rankings)[shown]
        out = np.zeros((encoding.items + 1, crossed))
        out[numbers] = features
        if np.array_equal(out[numbers], features):
            return out
    return np.empty((0, crossed))


@dataclass(slots=True, eq=False)
class GroupPrior:
    """Independent normal priors of the parameters: mean (P,), and one precision a group."""

    mean: Floats
    group: Ints
    spread: Floats

    @property
    def precision(self) -> Floats:
        """Precision of each parameter (P,)."""
        return (self.spread**-2.0)[self.group]

    def update(self, theta: Floats, diagonal: Floats) -> None:
        """Update the spreads from the fitted effects (MacKay's update with the Fisher diagonal H).

        sd^2 = sum of squares / sum of H / (H + 1/sd^2), where the second sum counts the effects that
        the rows decide. The start counts as `prior_weight` effects, so that the spread of few effects
        does not collapse.
        """
        weight = SETTINGS.prior_weight
        decided = diagonal / (diagonal + self.precision)
        count = np.bincount(self.group, decided, len(_NAMES))
        total = np.bincount(self.group, (theta - self.mean) ** 2, len(_NAMES))
        spread = np.sqrt((total + weight * _STARTS**2) / (count + weight))
        spread = np.clip(spread, SETTINGS.least_sd, SETTINGS.most_sd)
        self.spread = np.where(_FREE, spread, self.spread)


#: Groups of parameters with their spreads at the start.
_GROUPS = {
    "position": SETTINGS.position_sd,
    "clicked": SETTINGS.clicked_sd,
    "distance": SETTINGS.distance_sd,
    "cell": SETTINGS.cell_sd,
    "after": SETTINGS.after_sd,
    "constant": SETTINGS.constant_sd,
    "context": SETTINGS.context_sd,
    "feature": SETTINGS.feature_sd,
    "product": SETTINGS.product_sd,
    "place": SETTINGS.place_sd,
    "extra": SETTINGS.extra_sd,
    "rival": SETTINGS.rival_sd,
    "item": SETTINGS.item_sd,
    "slope": SETTINGS.slope_sd,
    "square": SETTINGS.square_sd,
}
_NAMES, _STARTS = [*_GROUPS], np.array([*_GROUPS.values()])
#: Groups whose spread the rows decide.
_FREE = ~np.isin(_NAMES, ("position", "clicked", "constant"))


def prior_of(rows: ClickRows, widths: list[tuple[str, int]]) -> GroupPrior:
    """Return the prior in the order of `Parts`; the constant is shrunk to the logged rate or mean."""
    K, encoding = rows.rankings.K, rows.encoding
    item_count = encoding.items + 1
    squares = len(encoding.squared) if encoding.slopes else 0
    slopes = [
        ("context", len(encoding.context.mean) if encoding.slopes else 0),
        ("square", squares),
    ]
    parts = [
        ("position", K),
        ("clicked", 1),
        # The coefficient of reading, and distances 1 to K - 1.
        ("distance", K),
        ("cell", K * K),
        ("after", item_count),
        ("constant", 1),
        *slopes,
        *widths,
        ("item", item_count),
        *[("slope", slopes[0][1]), slopes[1]] * item_count,
    ]
    group = np.repeat([_NAMES.index(name) for name, _ in parts], [size for _, size in parts])
    mean, spread = np.zeros(len(group)), _STARTS.copy()
    level = float(rows.y[rows.used].mean()) if rows.used.any() else 0.0
    if rows.family is Family.CLICKS:
        mean[:K] = SETTINGS.examined
        # Rate = examination x attraction: divide the click rate by the prior examination.
        level = _logit(level * (1 + np.exp(-SETTINGS.examined)))
    elif rows.family in (Family.CHANCE, Family.TOTAL):
        # Pages of equal slots then have the logged mean reward.
        level = float(rows.y.sum(axis=1).mean())
        level = _logit(level) if rows.family is Family.CHANCE else np.log(max(level, 1e-300))
        level /= np.cumsum(page_weights(K))[rows.rankings.lengths - 1].mean()
    else:
        level = level if rows.family is Family.NORMAL else np.log(max(level, 1e-300))
        spread[0] = SETTINGS.number_sd
    mean[group == _NAMES.index("constant")] = level
    return GroupPrior(mean, group, spread)


def _logit(rate: float) -> float:
    return float(logit(np.clip(rate, 1e-4, 1 - 1e-4)))


def fit_history(
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    *,
    folds: int,
    variants: tuple[Variant, ...] | None = None,
    seed: int = 0,
) -> tuple[ClickModel, ...]:
    """Return the cross-fitted click-history models, one for each variant (`variants_for` unless given).

    Rewards other than zero are clicks. `fold` (m,) is in 0..folds - 1, by unit. Each fold's parameters
    start at those of all rows and move until a Newton step promises next to nothing, so that the start
    no longer matters.
    """
    rows = prepared(Family.CLICKS, rankings, reward, fold, folds, seed)
    return tuple(ClickModel(predictor) for predictor in predictors(rows, variants))


def prepared(
    family: Family,
    rankings: Rankings,
    reward: Floats,
    fold: Ints,
    folds: int,
    seed: int,
    *,
    page: bool = False,
) -> ClickRows:
    """Return the rows of a fit, a sample of them where there are many."""
    reward, fold = np.asarray(reward, dtype=np.float64), np.asarray(fold, dtype=np.int64)
    if not (rankings.item >= 0).any():
        raise EstimatorError("a reward model needs rankings with items; there are none")
    if len(np.unique(fold)) < 2:
        raise EstimatorError(
            "all rows are in one fold: nothing is left to fit on; a model needs several units"
        )
    # Rewards of one log share what does not depend on them, and so does what their models predict.
    row_numbers, by_row, encoding, x, traits = rankings.cached(
        ("training", seed), lambda: _training(rankings, seed)
    )
    shown, fold = by_row.item >= 0, fold[row_numbers]
    reward = np.where(shown, reward[row_numbers], 0.0)
    clicks = family is Family.CLICKS
    click = (reward != 0.0).astype(float)
    return ClickRows(
        by_row,
        encoding,
        family,
        page,
        y=click if clicks else reward,
        click=click if clicks else np.zeros(click.shape),
        used=click > 0.0 if family is Family.GAMMA else shown,
        x=x,
        traits=traits,
        fold=fold,
        folds=folds,
    )


def _training(rankings: Rankings, seed: int) -> tuple[Ints, Rankings, Encoding, Floats, Floats]:
    """Return the rankings of fits, their numbers, encoding and context, and the traits of items."""
    row_numbers = np.arange(rankings.m)
    if rankings.m > SETTINGS.rows:
        rng = stream(seed, Stream.CLICK_ROWS)
        row_numbers = np.sort(rng.choice(rankings.m, SETTINGS.rows, replace=False))
        rankings = rankings.take(row_numbers)
    by_row = replace(rankings, x=rankings.x[rankings.row], row=np.arange(rankings.m))
    encoding = Encoding.from_rankings(by_row)
    return row_numbers, by_row, encoding, encoding.context_of(by_row.x), traits_of(encoding, by_row)


def predictors(rows: ClickRows, variants: tuple[Variant, ...] | None) -> tuple[Predictor, ...]:
    """Return the fitted predictors; each variant starts at the parameters of a narrower one."""
    variants = variants_for(rows.rankings) if variants is None else variants
    fitted: dict[Variant, Predictor] = {}
    usable = [v for v in variants if v.extra <= rows.rankings.extras]
    # Narrow variants come first. Wide ones start at their parameters and need a Newton step or two.
    plain = [Variant(extra=extra) for extra in sorted({v.extra for v in usable})]
    for variant in plain:
        fitted[variant] = _fitted(rows, variant, fitted, len(usable))
    if plain and rows.family is Family.CLICKS and fitted[plain[-1]].gain > SETTINGS.contradicted:
        usable = [v for v in usable if v.extra == plain[-1].extra]
    for variant in usable:
        if variant not in fitted:
            fitted[variant] = _fitted(rows, variant, fitted, len(usable))
    return tuple(fitted[v] for v in usable)


def _fitted(
    rows: ClickRows, variant: Variant, fitted: dict[Variant, Predictor], count: int
) -> Predictor:
    """Return the predictor of a variant, one of `count`, from those fitted before."""
    encoding, rivals = rows.encoding, None
    columns, read = encoding.columns(rows.rankings, rows.x, variant.extra), np.zeros(rows.y.shape)
    # A variant with competition starts at the same one without it, others at the widest so far.
    narrower = [fitted[v] for v in fitted if not v.competition]
    first = fitted[Variant(extra=variant.extra)] if variant.competition else None
    before, alone = first or (narrower[-1] if narrower else None), columns.shape[2]
    if first is not None:
        columns, read, rivals = _beside_rivals(rows, columns, first)
    slots, widths = (
        rows.slots(columns, read),
        encoding.widths(variant, columns.shape[2] - alone),
    )
    prior, p = prior_of(rows, widths), sum(size for _, size in widths)
    climb, theta = Climb(rows, prior), np.tile(prior.mean, (rows.folds + 1, 1))
    if before is not None:
        prior.spread, climb.dispersion = before.spread.copy(), before.dispersion
        theta = _widened(before.parameters, p)
    share = 1.0 / (count * (1 + rows.folds))
    climb, steps = _climbed(climb, slots, theta, share, near=before is not None)
    d = slots.x.shape[1] - 1
    details: Json = {
        "folds": rows.folds,
        "rows": rows.rankings.m,
        "items": encoding.items,
        "columns": p,
        "extra": variant.extra,
        "competition": variant.competition,
        "spreads": {name: float(sd) for name, sd in zip(_NAMES, prior.spread, strict=True)},
        "newton_steps": steps,
    }
    return Predictor(
        Parameters(theta, slots.K, encoding.items, d),
        encoding,
        variant,
        details,
        prior.spread,
        climb.dispersion,
        first,
        rivals,
        curved=rows.family is Family.CLICKS,
        gain=0.0
        if climb.scaling is None
        else _gain(theta[-1], slots, climb.scaling, encoding.by_place),
    )


def _beside_rivals(
    rows: ClickRows, columns: Floats, alone: Predictor
) -> tuple[Floats, Floats, ColumnScaling]:
    """Return columns with those of the other items beside them, what was read, and the scaling of the new ones.

    Strengths are estimated from clicks. Every fit therefore reads those of a row from the fit of `alone` that
    left the row's fold out; else a column would contain the row's own clicks.
    """
    strength, read = alone.strength(rows.rankings, rows.fold), np.zeros(rows.y.shape)
    competing = alone.competition(rows.rankings, strength)
    if rows.family is Family.CLICKS:
        read = reading(skipped(strength, rows.rankings.lengths), rows.click)
    rivals = ColumnScaling.fitted(competing[rows.rankings.item >= 0])
    return np.concatenate([columns, rivals.apply(competing)], axis=2), read, rivals


def _gain(theta: Floats, slots: Slots, scaling: Scaling, by_place: bool) -> float:
    """Return by how many nats the rewards prefer a model with the last column to one without (Wald); 0 if unknown.

    An extra number is two columns where it also stands multiplied by the place. Without items among what
    the scaling solves for, it knows nothing of what they would make up for.
    """
    if not len(scaling.items):
        return 0.0
    count, end = 1 + int(by_place), slots.parts.item
    coefficients = theta[end - count : end]
    covariance = scaling.inverse[-count:, -count:]
    return 0.5 * float(coefficients @ np.linalg.solve(covariance, coefficients))


def _widened(before: Parameters, p: int) -> Floats:
    """Return the parameters (F + 1, P) of a narrower variant, with zeros for the new columns at the end."""
    start, theta = before.parts, before.theta
    new = np.zeros((len(theta), p - (start.item - start.columns)))
    return np.concatenate([theta[:, : start.item], new, theta[:, start.item :]], axis=1)


@dataclass(slots=True, eq=False)
class Climb:
    """Maximises the penalised likelihood; folds keep the spreads and dispersion of all rows."""

    rows: ClickRows
    prior: GroupPrior
    dispersion: float = 1.0
    #: Blocks of the Fisher matrix of all rows, and their rough inverse. They only scale steps, so folds
    #: share them.
    blocks: Blocks | None = None
    scaling: Scaling | None = None

    def __call__(self, theta: Floats, slots: Slots, rounds: int, *, near: bool) -> int:
        """Move theta in place, with `rounds` updates of the spreads; return the Newton steps taken."""
        newton_steps = 0
        for remaining in range(rounds, -1, -1):
            rewards = self.rows.likelihood(slots, self.dispersion)
            if self.blocks is None:
                self.blocks, self.scaling = self._blocks(theta, slots), None
            # While spreads still move, a rough maximum is enough.
            times = SETTINGS.rough if remaining else 1.0
            newton_steps += self._newton(theta, slots, rewards, times, near=near)
            near = True
            if remaining:
                linear = slots.linear(theta)
                self.prior.update(theta, slots.diagonal(rewards, linear))
                self.scaling = None
                if self.rows.free and len(slots.y) and isinstance(rewards, MeanLikelihood):
                    self.dispersion = rewards.pearson(*linear)
        return newton_steps

    def leaving_out(self, f: int, theta: Floats, slots: Slots) -> int:
        """Move theta in place to the fit without a fold; return the Newton steps taken."""
        mask = np.asarray(self.rows.fold[slots.row] != f, dtype=np.float64)
        rewards = self.rows.likelihood(slots, self.dispersion).masked(mask)
        return self._newton(theta, slots, rewards, 1.0, near=True)

    def _blocks(self, theta: Floats, slots: Slots) -> Blocks:
        """Return blocks of the Fisher matrix from some of many slots: steps are only scaled by them."""
        used = max(SETTINGS.block_slots, SETTINGS.block_item_slots * slots.items)
        sample = slots.sample(len(slots.y) // used)
        rewards = self.rows.likelihood(sample, self.dispersion)
        scale = len(slots.y) / max(len(sample.y), 1)
        return blocks_of(theta, sample, rewards, sample.linear(theta), scale)

    def _newton(
        self,
        theta: Floats,
        slots: Slots,
        rewards: ClickLikelihood | MeanLikelihood,
        times: float,
        *,
        near: bool,
    ) -> int:
        """Move theta until `times` as many nats are left as are enough; few on short logs, where they cost little."""
        enough = times * min(SETTINGS.enough, SETTINGS.enough_slot * len(slots.y))
        precision = self.prior.precision
        if self.scaling is None:
            assert self.blocks is not None
            self.scaling = self.blocks.scaling(precision)
        return newton(
            theta,
            slots,
            rewards,
            self.prior.mean,
            precision,
            self.scaling,
            enough=enough,
            near=near,
        )


def _climbed(
    climb: Climb, slots: Slots, theta: Floats, share: float, *, near: bool
) -> tuple[Climb, list[int]]:
    """Write the parameters (F + 1, P) of the folds and of all rows; return the Newton steps of each fit.

    `share` is the part of the work that one fit is; `near` says that `theta` is that of a narrower model.
    """
    start, steps, rounds = theta[-1].copy(), [], 1 if near else SETTINGS.rounds
    apart, folds = len(slots.y) // SETTINGS.start_slots, len(theta) - 1
    if apart > 1 and not near:
        # Far from the maximum some of the rows are enough for most of the way.
        steps.append(climb(theta[-1], slots.sample(apart), 1, near=False))
        climb, rounds, near = replace(climb, blocks=None, scaling=None), rounds - 1, True
    steps.append(climb(theta[-1], slots, rounds, near=near))
    reporter().step(share)
    # New columns change a fold's parameters about as they change those of all rows.
    theta[:-1] += theta[-1] - start

    def fit_fold(f: int) -> int:
        newton_steps = climb.leaving_out(f, theta[f], slots)
        reporter().step(share)
        return newton_steps

    # Folds read what all rows have set and write parameters of their own, so that threads change nothing.
    threads = default_threads() if len(slots.y) > SETTINGS.slots_alone else 1
    return climb, [*steps, *map_in_order(range(folds), fit_fold, threads=threads)]
