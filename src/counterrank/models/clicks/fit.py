"""Fits of the click models: penalised likelihood, prior spreads by empirical Bayes, warm starts for folds."""

from dataclasses import dataclass, field, replace

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.encoding import Scaling
from counterrank.errors import EstimatorError
from counterrank.models.clicks.kernels.likelihood import (
    CLICKS,
    GAMMA,
    NORMAL,
    Effort,
    LinearMap,
    NormalPrior,
    Observed,
    RoughInverse,
    adjoint,
    derivatives,
    likelihood,
    linear,
    newton,
    parts_of,
    slots_of,
)
from counterrank.models.clicks.kernels.pages import (
    CHANCE,
    NUMBER,
    TOTAL,
    page_derivatives,
    page_likelihood,
    page_means,
    page_weights,
)
from counterrank.models.clicks.kernels.recursion import reading
from counterrank.models.clicks.model import (
    ClickModel,
    Encoding,
    Parameters,
    Predictor,
    skips,
)
from counterrank.models.clicks.settings import SETTINGS
from counterrank.models.draws import Stream, stream
from counterrank.models.rankings import Rankings, Variant, variants_for
from counterrank.records import Json


@dataclass(frozen=True, slots=True, eq=False)
class ClickRows:
    """The rankings of a fit as the kernels read them.

    `y` (m, K) is what is fitted, `click` (m, K) the clicks that later slots depend on.
    """

    rankings: Rankings
    encoding: Encoding
    family: int
    y: Floats
    click: Floats
    #: Slots (m, K) that enter the likelihood.
    used: Bools
    numbers: Ints
    lengths: Ints
    x: Floats
    #: The context without its squares.
    linear_context: Floats
    #: Features of each item (I + 1, .) where every row says the same, else of none (0, .).
    traits: Floats
    fold: Ints
    folds: int
    #: Scale of the likelihood at the start, and whether the rows decide it.
    dispersion: float = 1.0
    free: bool = False

    @classmethod
    def of(
        cls, family: int, rankings: Rankings, reward: Floats, fold: Ints, folds: int
    ) -> "ClickRows":
        """Return the arrays of a fit; rankings have a row of context each."""
        encoding = Encoding.of(rankings)
        shown = rankings.item >= 0
        click = np.where(shown, reward != 0.0, 0.0)
        history = click if family == CLICKS else np.zeros(click.shape)
        y = click if family == CLICKS else reward
        used = click > 0.0 if family == GAMMA else shown
        x = encoding.context_of(rankings.x)
        numbers, lengths = encoding.numbers(rankings.item), rankings.lengths
        linear_context, traits = encoding.linear_context(x), traits_of(encoding, rankings, numbers)
        sure = family == CLICKS or (family == CHANCE and bool(np.isin(y, (0.0, 1.0)).all()))
        return cls(
            rankings, encoding, family, y, history, used, numbers, lengths, x, linear_context, traits, fold, folds,
            free=not sure,
        )  # fmt: skip


def traits_of(encoding: Encoding, rankings: Rankings, numbers: Ints) -> Floats:
    """Return the standardised features of each item (I + 1, crossed), or of none (0, crossed).

    Features are traits of items if the context multiplies them, items have slopes in the context, and
    an item has the same features in all rankings.
    """
    _, crossed = encoding.crossed
    if crossed and encoding.slopes and encoding.features and rankings.features is not None:
        shown = rankings.item >= 0
        found, own = encoding.features.apply(rankings.features)[shown], numbers[shown]
        out = np.zeros((encoding.items + 1, crossed))
        out[own] = found
        if np.array_equal(out[own], found):
            return out
    return np.empty((0, crossed))


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """The shown slots (N,) of some rows, one after the other, as the likelihood reads them."""

    cell: Ints
    last: Ints
    own: Ints
    row: Ints
    #: Place in the ranking.
    k: Ints
    y: Floats

    @classmethod
    def of(cls, rows: ClickRows) -> "Slots":
        """Return the slots that enter the likelihood."""
        N = int(rows.lengths.sum())
        cell, last, own, row = (np.empty(N, dtype=np.int64) for _ in range(4))
        slots_of(rows.numbers, rows.click, rows.lengths, rows.encoding.items, cell, last, own, row)
        k = cell // (rows.rankings.K + 1)
        whole = cls(cell, last, own, row, k, rows.y[row, k])
        return whole if rows.used[row, k].all() else whole.take(rows.used[row, k])

    def take(self, kept: Bools) -> "Slots":
        """Return some of the slots."""
        at = np.flatnonzero(kept)
        return Slots(
            self.cell[at], self.last[at], self.own[at], self.row[at], self.k[at], self.y[at]
        )


@dataclass(slots=True, eq=False)
class GroupPrior:
    """Independent normal priors of the parameters: mean (P,), and one precision a group."""

    mean: Floats
    group: Ints
    spread: Floats
    #: Spreads of the groups at the start, and groups whose spread the rows decide.
    start: Floats
    free: Bools

    @property
    def precision(self) -> Floats:
        """Precision of each parameter (P,)."""
        out: Floats = (self.spread**-2.0)[self.group]
        return out

    def update(self, theta: Floats, diagonal: Floats) -> None:
        """Update the spreads from the fitted effects (MacKay's update with the Fisher diagonal H).

        sd^2 = sum of squares / sum of H / (H + 1/sd^2), where the second sum counts the effects that
        the rows decide. The start counts as `prior_weight` effects, so that the spread of few effects
        does not collapse.
        """
        weight = SETTINGS.prior_weight
        decided = diagonal / (diagonal + self.precision)
        squares = (theta - self.mean) ** 2
        count = np.bincount(self.group, decided, len(self.spread))
        total = np.bincount(self.group, squares, len(self.spread))
        found = np.sqrt((total + weight * self.start**2) / (count + weight))
        found = np.clip(found, SETTINGS.least_sd, SETTINGS.most_sd)
        self.spread = np.where(self.free, found, self.spread)


_GROUPS = (
    "position", "clicked", "distance", "cell", "after", "constant", "context", "feature", "product", "place", "extra",
    "rival", "item", "slope", "square",
)  # fmt: skip
#: Groups whose spread stays as it is.
_FIXED = ("position", "clicked", "constant")


def _repeated(parts: list[tuple[str, int]]) -> Ints:
    return np.repeat([_GROUPS.index(name) for name, _ in parts], [size for _, size in parts])


def prior_of(rows: ClickRows, d: int, widths: list[tuple[str, int]]) -> GroupPrior:
    """Return the prior in the order of `Parts`; the constant is shrunk to the logged rate or mean."""
    K, items = rows.rankings.K, rows.encoding.items
    parts = [
        ("position", K),
        ("clicked", 1),
        # The coefficient of reading, and distances 1 to K - 1.
        ("distance", K),
        ("cell", K * K),
        ("after", items + 1),
        ("constant", 1),
    ]
    squares = min(len(rows.encoding.squared), d)
    parts += [("context", d - squares), ("square", squares), *widths, ("item", items + 1)]
    group = _repeated(parts)
    slopes = _repeated([("slope", d - squares), ("square", squares)])
    group = np.concatenate([group, np.tile(slopes, items + 1)])
    starts = np.array([getattr(SETTINGS, f"{name}_sd") for name in _GROUPS])
    free = np.array([name not in _FIXED for name in _GROUPS])
    mean, spread = np.zeros(len(group)), starts.copy()
    level = float(rows.y[rows.used].mean()) if rows.used.any() else 0.0
    if rows.family == CLICKS:
        examined = SETTINGS.examined
        mean[:K] = examined
        # Rate = examination x attraction: divide the click rate by the prior examination.
        attracted = np.clip(level * (1 + np.exp(-examined)), 1e-4, 1 - 1e-4)
        level = float(np.log(attracted / (1 - attracted)))
    elif rows.family in (CHANCE, TOTAL):
        level = _level(rows)
    else:
        level = level if rows.family in (NORMAL, NUMBER) else float(np.log(max(level, 1e-300)))
        spread[0] = SETTINGS.number_sd
    mean[group == _GROUPS.index("constant")] = level
    return GroupPrior(mean, group, spread, starts, free)


def _level(rows: ClickRows) -> float:
    """Return the constant with which pages of equal slots have the logged mean reward."""
    mean = float(rows.y.sum(axis=1).mean())
    chance = float(np.clip(mean, 1e-4, 1 - 1e-4))
    odds = float(np.log(chance / (1 - chance)))
    weight = float((np.cumsum(page_weights(rows.rankings.K))[rows.lengths - 1]).mean())
    return (odds if rows.family == CHANCE else float(np.log(max(mean, 1e-300)))) / weight


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
    rows = prepared(CLICKS, rankings, reward, fold, folds, seed)
    return tuple(ClickModel(predictor) for predictor in predictors(rows, variants))


def prepared(
    family: int, rankings: Rankings, reward: Floats, fold: Ints, folds: int, seed: int
) -> ClickRows:
    """Return the checked rows of a fit, a sample of them where there are many."""
    rankings, reward, fold = checked(rankings, reward, fold, folds)
    most = SETTINGS.rows
    if rankings.m > most:
        rows = np.sort(stream(seed, Stream.CLICK_ROWS).choice(rankings.m, most, replace=False))
        rankings, reward, fold = rankings.take(rows), reward[rows], fold[rows]
    assert rankings.row is not None
    own = Rankings(
        rankings.item,
        rankings.x[rankings.row],
        features=rankings.features,
        extra=rankings.extra,
        nonlinear=rankings.nonlinear,
    )
    return ClickRows.of(family, own, reward, fold, folds)


def predictors(rows: ClickRows, variants: tuple[Variant, ...] | None) -> tuple[Predictor, ...]:
    """Return the fitted predictors; each variant starts at the parameters of a narrower one."""
    variants = variants_for(rows.rankings) if variants is None else variants
    whole = Slots.of(rows)
    # Each fit reads the rows outside its fold; the last one reads all.
    seen = [*(whole.take(rows.fold[whole.row] != f) for f in range(rows.folds)), whole]
    made: dict[Variant, Predictor] = {}
    # Narrow variants come first. Wide ones start at their parameters and need a Newton step or two.
    kept = [v for v in variants if v.extra <= rows.rankings.extras]
    for variant in sorted(kept, key=lambda v: v.extra):
        for wanted in dict.fromkeys((Variant(extra=variant.extra), variant)):
            if wanted not in made:
                made[wanted] = _fitted(rows, seen, wanted, made)
    return tuple(made[v] for v in kept)


def checked(
    rankings: Rankings, reward: Floats, fold: Ints, folds: int
) -> tuple[Rankings, Floats, Ints]:
    """Raise unless rewards and folds belong to the rankings and every fold leaves rows to fit on."""
    reward, fold = np.asarray(reward, dtype=np.float64), np.asarray(fold, dtype=np.int64)
    if reward.shape != rankings.item.shape or fold.shape != (rankings.m,):
        raise EstimatorError(
            f"rankings {rankings.item.shape}, rewards {reward.shape} and folds {fold.shape} do "
            "not belong together"
        )
    if rankings.m == 0 or not (rankings.item >= 0).any():
        raise EstimatorError("a reward model needs rankings with items; there are none")
    if not np.isfinite(reward[rankings.item >= 0]).all():
        row = int(
            np.flatnonzero(~np.isfinite(np.where(rankings.item >= 0, reward, 0.0)).all(axis=1))[0]
        )
        raise EstimatorError(f"row {row} has a reward that is no number; leave such rows out")
    if folds < 2 or fold.min() < 0 or fold.max() >= folds:
        raise EstimatorError(
            f"folds are numbered 0 to {folds - 1}, at least two; found {fold.min()} to {fold.max()}"
        )
    if len(np.unique(fold)) < 2:
        raise EstimatorError(
            "all rows are in one fold: nothing is left to fit on; a model needs several units"
        )
    return rankings, np.where(rankings.item >= 0, reward, 0.0), fold


def _fitted(
    rows: ClickRows, seen: list[Slots], variant: Variant, made: dict[Variant, Predictor]
) -> Predictor:
    encoding, shown = rows.encoding, rows.rankings.item >= 0
    common = encoding.columns(rows.rankings, rows.x, variant.extra)
    common = common[:, :, : encoding.width(variant.extra)]
    x = np.concatenate([np.ones((len(rows.x), 1)), encoding.slopes_of(rows.x)], axis=1)
    first = made[Variant(extra=variant.extra)] if variant.competition else None
    # A variant with competition starts at the same one without it, others at the widest so far.
    narrower = [made[v] for v in made if not v.competition]
    before = first or (narrower[-1] if narrower else None)
    rivals, columns = None, common
    read = np.zeros(rows.click.shape)
    if first is not None:
        # Strengths are estimated from clicks. Every fit therefore reads those of a row from the fit
        # that left the row's fold out; else a column would contain the row's own clicks.
        strength = first.strength(rows.rankings, rows.fold, rows.x)
        competing = first.competition(rows.rankings, strength)
        if rows.family == CLICKS:
            read = _read(rows, strength)
        rivals = Scaling.of(competing[shown])
        columns = np.concatenate([common, rivals.apply(competing)], axis=2)
    d, p = x.shape[1] - 1, columns.shape[2] + encoding.products
    prior = prior_of(rows, d, encoding.widths(variant, p))
    climb = Climb(rows, prior, x, rows.dispersion)
    if before is None:
        theta = np.tile(prior.mean, (rows.folds + 1, 1))
        rounds, near = SETTINGS.rounds, False
    else:
        prior.spread, climb.dispersion = before.spread.copy(), before.dispersion
        theta, rounds, near = _widened(before.parameters, p), 1, True
    start, whole, steps = theta[-1].copy(), seen[-1], []
    apart = len(whole.y) // SETTINGS.start_slots
    if apart > 1 and (before is None or variant.competition):
        # Far from the maximum, as at the first fit and with new columns of competition, some of the
        # rows are enough for most of the way.
        some = whole.take(whole.row % apart == 0)
        # Spreads that all rows have set are not updated on some of them.
        more = int(before is None)
        steps.append(climb(theta[-1], some, columns, read, more, near=near))
        climb = replace(climb, diagonal=np.zeros(0), inverse=np.zeros((0, 0)))
        rounds, near = rounds - more, True
        if before is not None:
            # Some rows estimate what many slots share. Of single items they know less than the start.
            of = parts_of(rows.rankings.K, encoding.items, d, p)
            theta[-1, of.after : of.constant] = start[of.after : of.constant]
            theta[-1, of.item :] = start[of.item :]
    steps.append(climb(theta[-1], whole, columns, read, rounds, near=near))
    # New columns change a fold's parameters about as they change those of all rows.
    theta[:-1] += theta[-1] - start
    steps += [climb(theta[f], seen[f], columns, read, 0, near=True) for f in range(rows.folds)]
    details: Json = {
        "folds": rows.folds,
        "rows": rows.rankings.m,
        "items": encoding.items,
        "columns": p,
        "extra": variant.extra,
        "competition": variant.competition,
        "spreads": {name: float(sd) for name, sd in zip(_GROUPS, prior.spread, strict=True)},
        "newton_steps": steps,
    }
    parameters = Parameters(theta, rows.rankings.K, encoding.items, d)
    curved = rows.family == CLICKS
    return Predictor(
        parameters,
        encoding,
        variant,
        details,
        prior.spread,
        climb.dispersion,
        first,
        rivals,
        curved,
    )


def _read(rows: ClickRows, strength: Floats) -> Floats:
    """Return what the items skipped since the last click say of whether the user still reads (m, K)."""
    out = np.zeros(strength.shape)
    reading(skips(rows.rankings, strength), rows.click, rows.lengths, out)
    return out


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
    x: Floats
    dispersion: float = 1.0
    #: The Fisher diagonal of all rows (P,). It only scales steps, so folds share it.
    diagonal: Floats = field(default_factory=lambda: np.zeros(0))
    #: The inverse of the Hessian's block of the parameters common to many slots.
    inverse: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def __call__(
        self, theta: Floats, slots: Slots, columns: Floats, read: Floats, rounds: int, *, near: bool
    ) -> int:
        """Move theta in place, with `rounds` updates of the spreads; return the Newton steps taken."""
        # More parameters may leave more nats in all.
        enough = SETTINGS.enough * (1 + len(theta) / 500)
        given = self.linear_map(slots, columns, read)
        taken = 0
        for more in range(rounds, -1, -1):
            if more or not len(self.diagonal):
                self.diagonal = self._diagonal(theta, given, slots.y)
            # While spreads still move, a rough maximum is enough.
            _, done = newton(
                theta,
                NormalPrior(self.prior.mean, self.prior.precision),
                given,
                Observed(slots.y, self.rows.family, self.dispersion),
                RoughInverse(self.diagonal, *self._common(theta, slots, given, near=near)),
                Effort(SETTINGS.steps, SETTINGS.inner, 4 * enough if more else enough, near),
            )
            taken += done
            near = True
            if more:
                self.prior.update(theta, self.diagonal)
                if self.rows.free and len(slots.y):
                    u, v = np.empty(len(slots.y)), np.empty(len(slots.y))
                    linear(theta, given, u, v)
                    self.dispersion = self._dispersion(slots, u + v)
        return taken

    def linear_map(self, slots: Slots, columns: Floats, read: Floats) -> LinearMap:
        """Return what the kernels read of slots, from columns (m, K, p) and reading (m, K)."""
        rows = self.rows
        at, crossed = rows.encoding.crossed
        return LinearMap(
            rows.rankings.K,
            rows.encoding.items,
            slots.cell,
            slots.last,
            slots.own,
            slots.row,
            read[slots.row, slots.k],
            self.x,
            np.ascontiguousarray(columns[slots.row, slots.k].T),
            rows.linear_context,
            at,
            crossed,
            rows.traits,
        )

    def _diagonal(self, theta: Floats, given: LinearMap, y: Floats) -> Floats:
        """Return the diagonal of J' H J (P,), from squared columns.

        The cross derivative huv is left out: the diagonal only scales steps and updates spreads.
        """
        u, v, su, sv, ru, rv, huu, huv, hvv = np.empty((9, len(y)))
        linear(theta, given, u, v)
        family = self.rows.family
        likelihood(u, v, y, given.row, family, self.dispersion, su, sv)
        derivatives(su, sv, y, given.row, family, self.dispersion, False, ru, rv, huu, huv, hvv)
        if family >= CHANCE:
            huu = hvv = huv * su**2
        out = np.empty(len(theta))
        squared = {
            name: getattr(given, name) ** 2
            for name in ("read", "x", "columns", "context", "traits")
        }
        adjoint(huu, hvv, given._replace(**squared), out)
        return out

    def _common(
        self, theta: Floats, slots: Slots, given: LinearMap, *, near: bool
    ) -> tuple[Ints, Floats]:
        """Return the parameters that many slots share, and the inverse of their block of the Hessian.

        They are those of positions, distances, constant, context and columns; far from the maximum
        there are none.
        """
        K, own, at, crossed = given.K, given.columns, given.at, given.crossed
        size = self.x.shape[1]
        p = len(own) + crossed * given.context.shape[1]
        start = parts_of(K, given.items, size - 1, p)
        common = np.concatenate([np.arange(start.cell), np.arange(start.constant, start.item)])
        if not near:
            return common[:0], self.inverse
        if not len(self.inverse):
            # The block only scales steps: some of the slots are enough.
            apart = 1 + len(slots.y) // SETTINGS.block_slots
            some = np.flatnonzero(slots.row % apart == 0)
            row = slots.row[some]
            k = slots.k[some]
            before, N = slots.cell[some] % (K + 1) - 1, len(some)
            z, context = own[:, some], given.context[row].T
            design = np.zeros((len(common), N))
            design[k, np.arange(N)] = 1.0
            after = np.flatnonzero(before >= 0)
            design[start.clicked, after] = 1.0
            design[start.distance + k[after] - before[after], after] = 1.0
            design[start.reading] = given.read[some]
            products = [z[at + j] * context for j in range(crossed)]
            design[start.cell :] = np.concatenate(
                [self.x[row].T, z[: at + crossed], *products, z[at + crossed :]]
            )
            values = theta[common]
            together = self.rows.family >= CHANCE
            block = (
                self._pages(design, values @ design, slots.y[some], row)
                if together
                else self._apart(design, values)
            )
            block *= len(slots.y) / max(N, 1)
            block[np.diag_indices(len(block))] += self.prior.precision[common]
            self.inverse = np.asarray(np.linalg.inv(block), dtype=np.float64)
        return common, self.inverse

    def _apart(self, design: Floats, values: Floats) -> Floats:
        """Return the Fisher block of columns (., N) where slots are independent."""
        first = parts_of(self.rows.rankings.K, 0, 0, 0).cell
        seen, shown = design[:first], design[first:]
        u, v = values[:first] @ seen, values[first:] @ shown
        huu: Floats = np.full(len(u), 1.0 / self.dispersion)
        huv, hvv = huu, huu
        if self.rows.family == CLICKS:
            # The Fisher matrix of s(u) s(v), as in the kernels.
            miss_u, miss_v = (1.0 / (1.0 + np.exp(np.clip(w, -30.0, 30.0))) for w in (u, v))
            chance = (1.0 - miss_u) * (1.0 - miss_v)
            odds = chance / np.maximum(1.0 - chance, 1e-9)
            huu, huv, hvv = odds * miss_u**2, odds * miss_u * miss_v, odds * miss_v**2
        cross = (seen * huv) @ shown.T
        out: Floats = np.block([[(seen * huu) @ seen.T, cross], [cross.T, (shown * hvv) @ shown.T]])
        return out

    def _pages(self, design: Floats, predicted: Floats, y: Floats, row: Ints) -> Floats:
        """Return the Fisher block of columns (., N) where the slots of a page have one likelihood."""
        rate, total, slope, cross = np.empty((4, len(y)))
        family, none = self.rows.family, np.zeros(len(y))
        page_likelihood(predicted, none, y, row, family, self.dispersion, rate, total)
        page_derivatives(rate, total, y, row, family, self.dispersion, slope, cross)
        first = np.flatnonzero(np.diff(row, prepend=-1))
        pages = np.add.reduceat(design * rate, first, axis=1)
        out: Floats = (pages * cross[first]) @ pages.T
        return out

    def _dispersion(self, slots: Slots, predicted: Floats) -> float:
        """Return Pearson's dispersion: the mean squared residual relative to the family's variance."""
        y, family = slots.y, self.rows.family
        if family == NORMAL:
            residual = y - predicted
        elif family == GAMMA:
            residual = y * np.exp(-predicted) - 1.0
        else:
            first = np.flatnonzero(np.diff(slots.row, prepend=-1))
            earned = np.add.reduceat(y, first)
            sums = np.add.reduceat(predicted * page_weights(self.rows.rankings.K)[slots.k], first)
            mean, variance = page_means(family, sums)
            residual = np.divide(earned - mean, np.sqrt(np.maximum(variance, 1e-9)))
        return max(float((residual**2).mean()), 1e-6)
