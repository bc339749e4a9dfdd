"""Likelihoods of clicks and numbers, and the Newton steps that maximise them.

Slot k of a ranking with the last click at l is clicked with probability s(u) s(v), where u
(examination) and v (attraction) are linear in the parameters. The same linear map serves means of
numbers, by slot or by page: their predictor is u + v, or S = sum_k w_k (u_k + v_k) over the slots of a
page, with weights w that fall with the place.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.models.clicks.kernels.slots import (
    LEAST,
    Coefficients,
    SlotTable,
    click_derivatives,
    click_products,
    map_slots,
    sum_slots,
)
from counterrank.models.clicks.parameters import Parameters, Parts, split
from counterrank.models.clicks.settings import SETTINGS

#: Steps that promise more nats use the Fisher matrix, which is never indefinite. Later steps use the
#: exact Hessian, which converges faster.
_NEAR = 10.0
#: Conjugate gradients end when the squared residual, in the norm of the scaling, falls to _ROUGH of the
#: first one on the way to the maximum, and near it to _SLIGHT of the nats that are `enough`.
_ROUGH, _SLIGHT = 1e-2, 0.5
#: What a full step leaves for third derivatives, of the square of its missed promise over the promise:
#: 9 / 4 along the step, four times that because the other directions bend too.
_BENT = 9.0
#: Rows of a stretch of which samples are made.
_STRETCH = 64
#: No mean is more than e^20 times the typical one.
_FAR = 20.0


class Family(Enum):
    """Likelihoods: of clicks, or of numbers with a mean that follows from a linear predictor."""

    CLICKS = auto()
    #: Any numbers: the mean is the predictor.
    NORMAL = auto()
    #: Positive amounts with a variance in proportion to the squared mean e^predictor.
    GAMMA = auto()
    #: Between 0 and 1: the mean is the logistic function of the predictor.
    CHANCE = auto()
    #: At least 0 with a variance in proportion to the mean e^predictor.
    TOTAL = auto()


def sigmoid(values: Floats) -> Floats:
    """Return 1 / (1 + e^-v)."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-values)))


def mean_of(family: Family, predictor: Floats) -> Floats:
    """Return the mean of a number from its predictor."""
    if family is Family.CHANCE:
        return sigmoid(predictor)
    if family is Family.NORMAL:
        return predictor
    return np.asarray(np.exp(np.minimum(predictor, _FAR)))


def page_weights(K: int) -> Floats:
    """Return how much each slot counts for its page (K,): 1 / sqrt(place)."""
    out: Floats = np.power(1.0 + np.arange(K), -0.5)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """N shown slots, one after the other: their rewards, and what the linear map reads of them.

    Products of features and context are columns that nobody writes down: `context` (n, C) times the
    `crossed` columns from `at` on. Features that an item has in every row are its `traits` and stand not
    among the columns: they and their products only add to the item's own intercept and slopes, at no
    cost by slot; x then begins with 1 and the context.
    """

    #: Positions of a ranking, and number of items I.
    K: int
    items: int
    #: (N,): k (K + 1) + l + 1 for slot k after a last click at l; l = -1 where nothing was clicked.
    cell: Ints
    #: (N,): the item clicked last, I + 1 where there is none; the slot's own item; its row of x.
    last: Ints
    item: Ints
    row: Ints
    y: Floats
    #: (N,): what skipping the items since the last click says of still reading (`competition.skipped`).
    read: Floats
    #: (N, .): the columns of a slot stand together, because loops read a slot at a time.
    columns: Floats
    #: (n, 1 + d): 1 and the context in which items have slopes.
    x: Floats
    context: Floats
    first_crossed: int
    crossed: int
    #: (I + 1, crossed): features of items; without rows they are among the columns.
    traits: Floats

    @property
    def k(self) -> Ints:
        """Places in the ranking (N,)."""
        return self.cell // (self.K + 1)

    @property
    def first(self) -> Ints:
        """The first slot of each row."""
        return np.flatnonzero(np.diff(self.row, prepend=-1))

    def take(self, selected: Bools) -> "Slots":
        """Return some of the slots."""
        places = np.flatnonzero(selected)
        names = ("cell", "last", "item", "row", "y", "read", "columns")
        return replace(self, **{name: getattr(self, name).take(places, axis=0) for name in names})

    def sample(self, stride: int) -> "Slots":
        """Return the slots of every `stride`-th stretch of rows; all where it is below two.

        Stretches, because columns may follow the number of a row.
        """
        return self if stride < 2 else self.take(self.row // _STRETCH % stride == 0)

    def diagonal(
        self, rewards: "ClickLikelihood | MeanLikelihood", linear: tuple[Floats, Floats]
    ) -> Floats:
        """Return the diagonal of the Fisher matrix (P,): the transpose of the map's squares sums it."""
        _, curvature = rewards.derivatives(*linear, exact=False)
        names = ("read", "x", "columns", "context", "traits")
        squared = replace(self, **{name: getattr(self, name) ** 2 for name in names})
        return squared.adjoint(*rewards.diagonal(curvature))

    @property
    def parts(self) -> Parts:
        """Where each part of the parameters begins."""
        shape = Parameters.count(self.K, self.items, self.x.shape[1] - 1, self._columns)
        return Parameters(np.empty((1, shape)), self.K, self.items, self.x.shape[1] - 1).parts

    @property
    def _columns(self) -> int:
        """Number of coefficients of columns and products."""
        products = int(self.crossed * self.context.shape[1])
        traits = self.crossed if len(self.traits) else 0
        return int(self.columns.shape[1]) + products + traits

    @property
    def item_parameters(self) -> Ints:
        """Return the parameters of items, item by item: the intercept, then the slopes."""
        start, count, d = self.parts, self.items + 1, self.x.shape[1] - 1
        slopes = start.slope + np.arange(count * d).reshape(count, d)
        intercepts = start.item + np.arange(count)[:, None]
        return np.concatenate([intercepts, slopes], axis=1).ravel()

    @property
    def table(self) -> SlotTable:
        """The slots as loops read them."""
        return SlotTable(self.cell, self.last, self.item, self.row, self.read, self.columns, self.x)

    @property
    def _bent(self) -> bool:
        """Whether products of columns and context are made row by row: there are some, and no traits."""
        return self.crossed > 0 and not len(self.traits)

    def coefficients(self, theta: Floats) -> Coefficients:
        """Return what the map of parameters (P,) multiplies slots by."""
        parameters = Parameters(theta[None], self.K, self.items, self.x.shape[1] - 1)
        crossed, C = (
            slice(self.first_crossed, self.first_crossed + self.crossed),
            self.context.shape[1],
        )
        (shared,), (product,) = split(parameters.beta, self.first_crossed, self.crossed, C)
        items, after = parameters.table[0], np.append(parameters.after[0], 0.0)
        if len(self.traits):
            items[:, 0] += self.traits @ shared[crossed]
            items[:, 1 : 1 + C] += self.traits @ product
            shared = np.delete(shared, crossed)
        bent = self.context @ product.T if self._bent else np.zeros((1, 0))
        cells = parameters.examination.ravel()
        return Coefficients(cells, after, parameters.power, items, shared, bent)

    def room(self) -> Coefficients:
        """Return room for sums over slots."""
        bent = (len(self.context), self.crossed) if self._bent else (1, 0)
        return Coefficients(
            np.zeros(self.K * (self.K + 1)),
            np.zeros(self.items + 2),
            np.zeros(1),
            np.zeros((self.items + 1, self.x.shape[1])),
            np.zeros(self.columns.shape[1]),
            np.zeros(bent),
        )

    def gradient(self, sums: Coefficients) -> Floats:
        """Return the sums over slots as derivatives by the parameters (P,)."""
        K, first, end, C = (
            self.K,
            self.first_crossed,
            self.first_crossed + self.crossed,
            self.context.shape[1],
        )
        items, shared, product = sums.items, sums.columns, np.empty((self.crossed, 0))
        if len(self.traits):
            shared = np.concatenate([shared[:first], self.traits.T @ items[:, 0], shared[first:]])
            product = self.traits.T @ items[:, 1 : 1 + C]
        elif self._bent:
            product = sums.bent.T @ self.context
        by_cell = sums.cells.reshape(K, K + 1)
        cells = by_cell[:, 1:]
        return np.concatenate(
            [
                by_cell.sum(axis=1),
                [cells.sum()],
                sums.power,
                [np.trace(cells, -j) for j in range(1, K)],
                cells.ravel(),
                sums.after[:-1],
                items.sum(axis=0),
                shared[:end],
                product.ravel(),
                shared[end:],
                items[:, 0],
                items[:, 1:].ravel(),
            ]
        )

    def linear(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the linear predictors u and v (N,) for parameters (P,)."""
        u, v = np.empty((2, len(self.y)))
        map_slots(self.table, self.coefficients(theta), self.first_crossed, u, v)
        return u, v

    def adjoint(self, u: Floats, v: Floats) -> Floats:
        """Return the transpose of `linear` applied to u and v (N,)."""
        sums = self.room()
        sum_slots(self.table, u, v, self.first_crossed, sums)
        return self.gradient(sums)


#: Minus the second derivatives by slot: uu, uv and vv, or those of the predictor alone.
Curvature = tuple[Floats, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ClickLikelihood:
    """Clicks y (N,) with probability s(u) s(v)."""

    y: Floats
    #: Slots that count (N,), 1 or 0; all unless given.
    mask: Floats | None = None

    def masked(self, mask: Floats) -> "ClickLikelihood":
        """Return the likelihood of the slots where `mask` (N,) is 1."""
        return replace(self, mask=mask)

    def value(self, u: Floats, v: Floats) -> float:
        """Return the log likelihood."""
        su, sv = sigmoid(u), sigmoid(v)
        # 1 - s(u) s(v) as (1 - s(u)) + s(u) (1 - s(v)): no cancellation where both are near 1.
        chance = np.where(self.y > 0.0, su * sv, (1.0 - su) + su * (1.0 - sv))
        terms = np.log(np.maximum(chance, LEAST))
        return float(terms.sum() if self.mask is None else self.mask @ terms)

    def derivatives(
        self, u: Floats, v: Floats, *, exact: bool
    ) -> tuple[tuple[Floats, Floats], Curvature]:
        """Return slopes and curvature; the exact one may be negative far from the maximum."""
        ru, rv, *curvature = np.empty((5, len(u)))
        click_derivatives(sigmoid(u), sigmoid(v), self.y, exact, ru, rv, *curvature)
        if self.mask is not None:
            for values in (ru, rv, *curvature):
                values *= self.mask
        return (ru, rv), tuple(curvature)

    def hessian(self, slots: Slots, curvature: Curvature, direction: Floats) -> Floats:
        """Return minus the second derivatives by the parameters, times a direction (P,)."""
        sums, coefficients = slots.room(), slots.coefficients(direction)
        huu, huv, hvv = curvature
        click_products(slots.table, coefficients, slots.first_crossed, huu, huv, hvv, sums)
        return slots.gradient(sums)

    def diagonal(self, curvature: Curvature) -> tuple[Floats, Floats]:
        """Return uu and vv; uv is left out."""
        return curvature[0], curvature[2]


@dataclass(frozen=True, slots=True, eq=False)
class MeanLikelihood:
    """Numbers y (M,) of slots or pages, whose predictor is the weighted sum of u + v over their slots."""

    family: Family
    y: Floats
    #: Weights of the slots (N,), and the first slot of each number (M,).
    weight: Floats
    first: Ints
    dispersion: float = 1.0
    #: Numbers that count (M,), 1 or 0; all unless given.
    mask: Floats | float = 1.0

    def masked(self, mask: Floats) -> "MeanLikelihood":
        """Return the likelihood of the numbers whose slots have a mask (N,) of 1."""
        return replace(self, mask=mask[self.first])

    def _sum(self, values: Floats) -> Floats:
        return np.add.reduceat(self.weight * values, self.first, axis=-1)

    def _spread(self, values: Floats) -> Floats:
        count = np.diff(self.first, append=len(self.weight))
        return np.asarray(self.weight * np.repeat(values / self.dispersion, count))

    def terms(self, predictor: Floats, *, exact: bool) -> tuple[Floats, Floats, Floats]:
        """Return the log likelihood of each number, its slope, and minus its second derivative."""
        y = self.y
        if self.family is Family.NORMAL:
            return -0.5 * (y - predictor) ** 2, y - predictor, np.ones(len(y))
        if self.family is Family.GAMMA:
            ratio = y * np.exp(-predictor)
            return -ratio - predictor, ratio - 1.0, ratio if exact else np.ones(len(y))
        if self.family is Family.TOTAL:
            mean = np.exp(predictor)
            return y * predictor - mean, y - mean, mean
        mean = sigmoid(predictor)
        return y * predictor - np.logaddexp(0.0, predictor), y - mean, mean * (1.0 - mean)

    def value(self, u: Floats, v: Floats) -> float:
        """Return the log likelihood."""
        terms = self.mask * self.terms(self._sum(u + v), exact=False)[0]
        return float(terms.sum()) / self.dispersion

    def derivatives(
        self, u: Floats, v: Floats, *, exact: bool
    ) -> tuple[tuple[Floats, Floats], Curvature]:
        """Return slopes, the same in u and v, and the curvature in the predictors."""
        _, slope, bend = self.terms(self._sum(u + v), exact=exact)
        by_slot = self._spread(self.mask * slope)
        return (by_slot, by_slot), (self.mask * bend,)

    def hessian(self, slots: Slots, curvature: Curvature, direction: Floats) -> Floats:
        """Return minus the second derivatives by the parameters, times a direction (P,)."""
        return slots.adjoint(*self.product(curvature, *slots.linear(direction)))

    def product(self, curvature: Curvature, du: Floats, dv: Floats) -> tuple[Floats, Floats]:
        """Return minus the second derivatives times du and dv (N,), the same in u and v."""
        out = self._spread(curvature[0] * self._sum(du + dv))
        return out, out

    def diagonal(self, curvature: Curvature) -> tuple[Floats, Floats]:
        """Return the second derivatives of single slots."""
        out = self._spread(curvature[0]) * self.weight
        return out, out

    def pearson(self, u: Floats, v: Floats) -> float:
        """Return Pearson's dispersion: the mean squared residual relative to the family's variance."""
        _, slope, bend = self.terms(self._sum(u + v), exact=False)
        return max(float((slope**2 / np.maximum(bend, 1e-9)).mean()), 1e-6)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """A rough inverse of the Hessian: exact for common parameters and items together, a diagonal elsewhere.

    `inverse` (c, c) is that of the common parameters' block after items were eliminated, `by_item` of
    the items' blocks, and `reach` ((I + 1) w, c) how far common parameters move the items' numbers.
    """

    diagonal: Floats
    common: Ints
    inverse: Floats
    items: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    by_item: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))
    reach: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def __call__(self, residual: Floats) -> Floats:
        """Return the rough inverse times the residual (P,)."""
        out: Floats = residual / self.diagonal
        common, of_items = residual[self.common], residual[self.items]
        if len(self.items):
            common = common - self.reach.T @ of_items
        shared = self.inverse @ common
        out[self.common] = shared
        if len(self.items):
            alone = np.einsum("iab,ib->ia", self.by_item, of_items.reshape(self.by_item.shape[:2]))
            out[self.items] = alone.ravel() - self.reach @ shared
        return out


@np.errstate(over="ignore", invalid="ignore")
def newton(
    theta: Floats,
    slots: Slots,
    rewards: ClickLikelihood | MeanLikelihood,
    mean: Floats,
    precision: Floats,
    scaling: Scaling,
    *,
    enough: float,
    near: bool,
) -> int:
    """Move theta (P,) to the maximum of log likelihood - precision (theta - mean)^2 / 2.

    Each step solves (H + precision) step = slope by conjugate gradients, scaled by `scaling`. A step is
    halved until the objective rises. The first step that leaves less than `enough` nats is the last:
    what conjugate gradients left, and what third derivatives leave. Along a step that promises p and gains
    g the slope that is left is 3 (g - p) and the curvature 2 p, which makes (9 / 4) (g - p)^2 / p.

    `near` says that the start is close to the maximum. Returns the number of steps.
    """

    def objective(u: Floats, v: Floats, parameters: Floats) -> float:
        return rewards.value(u, v) - 0.5 * float(precision @ (parameters - mean) ** 2)

    u, v = slots.linear(theta)
    value, exact = objective(u, v, theta), near
    for steps in range(SETTINGS.steps):
        slopes, curvature = rewards.derivatives(u, v, exact=exact)
        slope = slots.adjoint(*slopes) - precision * (theta - mean)

        def hessian(direction: Floats, curvature: Curvature = curvature) -> Floats:
            return rewards.hessian(slots, curvature, direction) + precision * direction

        step, left = _solve(slope, hessian, scaling, enough, rough=0.0 if exact else _ROUGH)
        # What the quadratic model gains by the step: half the slope along it (nats).
        promise = 0.5 * float(slope @ step)
        was_exact, exact = exact, near or promise < _NEAR
        du, dv = slots.linear(step)
        size = 1.0
        for _ in range(30):
            moved = theta + size * step
            reached = objective(u + size * du, v + size * dv, moved)
            # Armijo's rule: a small part of the promised gain must come true.
            if reached >= value + 1e-4 * size * promise:
                break
            size *= 0.5
        gain = reached - value
        if not gain > 0.0:
            return steps
        theta[:], value, u, v = moved, reached, u + size * du, v + size * dv
        left += _BENT * (gain - promise) ** 2 / promise
        if was_exact and size == 1.0 and left < enough:
            return steps + 1
    return SETTINGS.steps


def _solve(
    slope: Floats,
    hessian: Callable[[Floats], Floats],
    scaling: Scaling,
    enough: float,
    *,
    rough: float,
) -> tuple[Floats, float]:
    """Return a rough solution of hessian(step) = slope by conjugate gradients, and about the nats it leaves.

    Residuals are made orthogonal to all earlier ones, not only to the last. Without that a rounding error
    grows by the spread of the eigenvalues in every product, up to a different step (Parlett 1998, ch. 13).
    """
    step, residual, direction = np.zeros(len(slope)), slope, scaling(slope)
    energy = first = float(slope @ direction)
    earlier = [(residual, direction, energy)]
    for steps in range(SETTINGS.inner):
        if steps and energy <= max(rough * first, _SLIGHT * enough):
            break
        image = hessian(direction)
        curve = float(direction @ image)
        if curve <= 1e-3 * float(direction**2 @ scaling.diagonal):
            # Far from the maximum the Hessian may be indefinite. Stop before such a direction.
            return (step if steps else direction), np.inf
        length = energy / curve
        step, residual = step + length * direction, residual - length * image
        for old, scaled, size in earlier:
            residual = residual - float(residual @ scaled) / size * old
        moved = scaling(residual)
        before, energy = energy, float(residual @ moved)
        earlier.append((residual, moved, energy))
        direction = moved + energy / before * direction
    return step, 0.5 * energy
