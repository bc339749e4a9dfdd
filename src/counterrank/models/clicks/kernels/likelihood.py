"""The click-history likelihood: a linear map and its transpose, derivatives by slot, Newton steps on them.

Slot k of a ranking with the last click at l is clicked with probability s(u) s(v), where u
(examination) and v (attraction) are linear in one flat vector of parameters. Its parts stand in
this order:

    position (K) | clicked (1) | reading (1) | distance (K - 1) | cell (K K) |
    item after click (I + 1) | constant (1) | context (d) | columns (p) | item (I + 1) |
    item x context ((I + 1) d)

`Parts` says where each begins; its `distance` is that of a distance of zero, which no slot has.

Item number I stands for all items that were not seen: its parameters have no data and stay at their
prior means.

The same linear map serves means of numbers: u + v itself (family NORMAL), or its exponential
(GAMMA: positive amounts with a variance in proportion to the squared mean); their dispersion scales
the likelihood. Families from CHANCE on are likelihoods of whole pages (`pages`).

`LinearMap` holds what the map reads. Products of features and context are columns that nobody writes
down: `context` (n, C) times the `crossed` columns from `at` on, feature by feature. Their parameters
stand after those of the features. A row's slots follow each other, so that a product with the context
is taken once a row. Features that an item has in every row are its `traits`: they and their products
only add to the item's own intercept and slopes, at no cost by slot; x then begins with 1 and the
context.
"""

from typing import NamedTuple

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.kernels.jit import helper, jit, vector_jit
from counterrank.models.clicks.kernels.pages import (
    CHANCE,
    page_derivatives,
    page_likelihood,
    page_product,
)
from counterrank.models.clicks.kernels.sigmoid import exponential, sigmoid

CLICKS, NORMAL, GAMMA = 0, 1, 2
#: Chances stay this far from 0 and 1 in the likelihood, so that no single slot decides a fit.
_LEAST = 1e-9
#: Steps that promise more nats use the Fisher matrix, which is never indefinite. Later steps use the
#: exact Hessian, which converges faster.
_NEAR = 10.0
#: Conjugate gradients end when the squared residual, in the norm of the scaling, falls to _ROUGH of the
#: first one or to _SLIGHT of twice the nats that are `enough`. It is about twice the nats left.
_ROUGH, _SLIGHT = 1e-2, 0.02
#: A full step near the maximum leaves about a fiftieth of what it promised (at worst a tenth, over the
#: folds of development worlds). A step that promised less than this many times `enough` is the last.
_LAST = 5.0


class LinearMap(NamedTuple):
    """What `linear` and `adjoint` read besides parameters: N shown slots, one after the other."""

    #: Positions of a ranking, and number of items I.
    K: int
    items: int
    #: (N,): k (K + 1) + l + 1 for slot k after a last click at l; l = -1 where nothing was clicked.
    cell: Ints
    #: (N,): the item clicked last, I + 1 where there is none; the slot's own item; its row of x.
    last: Ints
    own: Ints
    row: Ints
    #: (N,): what skipping the items since the last click says of still reading (`recursion.skipped`).
    read: Floats
    #: (n, 1 + d): 1 and the context in which items have slopes.
    x: Floats
    #: (., N): by column, so that loops run along the slots.
    columns: Floats
    #: (n, C): the context that multiplies the `crossed` columns from `at` on.
    context: Floats
    at: int
    crossed: int
    #: (I + 1, crossed): features of items; without rows they are not known and the columns are read.
    traits: Floats


class Observed(NamedTuple):
    """What the slots showed (N,), and the family and dispersion of its likelihood."""

    y: Floats
    family: int
    dispersion: float


class NormalPrior(NamedTuple):
    """Mean and precision (P,) of the parameters."""

    mean: Floats
    precision: Floats


class RoughInverse(NamedTuple):
    """The rough inverse of the Hessian that scales steps.

    The Fisher `diagonal` (P,) and, for the parameters `common` to many slots, the `inverse` of their
    block; both may be empty.
    """

    diagonal: Floats
    common: Ints
    inverse: Floats


class Effort(NamedTuple):
    """At most so many Newton `steps` of `inner` products each, until one promises `enough` nats or less.

    `near` says that the start is close to the maximum.
    """

    steps: int
    inner: int
    enough: float
    near: bool


class Parts(NamedTuple):
    """First entries of the parts of the parameters; the positions begin at 0."""

    clicked: int
    reading: int
    distance: int
    cell: int
    after: int
    constant: int
    context: int
    columns: int
    item: int
    slope: int


@helper
def parts_of(K: int, items: int, d: int, p: int) -> Parts:
    """Return where the parts begin: K positions, `items` items, d context columns, p columns."""
    after = 2 * K + 1 + K * K
    constant = after + items + 1
    columns = constant + 1 + d
    item = columns + p
    return Parts(
        K, K + 1, K + 1, 2 * K + 1, after, constant, constant + 1, columns, item, item + items + 1
    )


@jit
def slots_of(item: Ints, click: Floats, lengths: Ints, items: int, cell: Ints, last: Ints, own: Ints,
             row: Ints) -> None:  # fmt: skip
    """Write the slots of rankings (n, K); `items` is I."""
    K = item.shape[1]
    s = 0
    for i in range(len(item)):
        before = -1
        for k in range(lengths[i]):
            cell[s] = k * (K + 1) + before + 1
            last[s] = items + 1 if before < 0 else item[i, before]
            own[s] = item[i, k]
            row[s] = i
            s += 1
            if click[i, k] > 0.0:
                before = k


@jit
def linear(theta: Floats, given: LinearMap, u: Floats, v: Floats) -> None:
    """Write the linear predictors (N,) of all slots."""
    K, items, cell, last, row, read = (
        given.K,
        given.items,
        given.cell,
        given.last,
        given.row,
        given.read,
    )
    columns, context, at, crossed, traits = (
        given.columns,
        given.context,
        given.at,
        given.crossed,
        given.traits,
    )
    d, C = given.x.shape[1] - 1, context.shape[1]
    start = parts_of(K, items, d, len(columns) + crossed * C)
    # Position, distance and cell are added up once per cell (k, l), not once per slot.
    t = np.zeros(K * (K + 1))
    for k in range(K):
        t[k * (K + 1)] = theta[k]
        for before in range(k):
            cells = (
                theta[start.clicked]
                + theta[start.distance + k - before]
                + theta[start.cell + k * K + before]
            )
            t[k * (K + 1) + before + 1] = theta[k] + cells
    h = np.zeros(items + 2)
    table = np.empty((items + 1, d + 1))
    for a in range(items + 1):
        h[a] = theta[start.after + a]
        table[a, 0] = theta[start.constant] + theta[start.item + a]
        for j in range(d):
            table[a, j + 1] = theta[start.context + j] + theta[start.slope + a * d + j]
    beta = theta[start.columns : start.item]
    along(columns, beta, at, crossed, C, v)
    for a in range(len(traits)):
        for j in range(crossed):
            table[a, 0] += traits[a, j] * beta[at + j]
            for c in range(C):
                table[a, 1 + c] += traits[a, j] * beta[at + crossed + j * C + c]
    if not len(traits):
        slope = np.empty((crossed, len(context)))
        context_slopes(beta, context, at, slope)
        for j in range(crossed):
            for s in range(len(cell)):
                v[s] += columns[at + j, s] * slope[j, row[s]]
    for s in range(len(cell)):
        u[s] = t[cell[s]] + h[last[s]] + theta[start.reading] * read[s]
    _of_items(table, given.own, row, given.x, v)


@vector_jit
def _of_items(table: Floats, own: Ints, row: Ints, x: Floats, v: Floats) -> None:
    """Add x times the numbers of each slot's item (I + 1, 1 + d)."""
    for s in range(len(own)):
        a, i = own[s], row[s]
        total = v[s]
        for j in range(x.shape[1]):
            total += x[i, j] * table[a, j]
        v[s] = total


@vector_jit
def context_slopes(beta: Floats, context: Floats, at: int, slope: Floats) -> None:
    """Write the coefficients of the crossed columns in the context of every row (crossed, n)."""
    C, crossed = context.shape[1], len(slope)
    for i in range(len(context)):
        for j in range(crossed):
            total = beta[at + j]
            for c in range(C):
                total += context[i, c] * beta[at + crossed + j * C + c]
            slope[j, i] = total


@vector_jit
def along(columns: Floats, beta: Floats, at: int, crossed: int, C: int, v: Floats) -> None:
    """Write the sum of the columns that do not bend, times their coefficients."""
    for s in range(len(v)):
        v[s] = 0.0
    for j in range(len(columns)):
        if j < at or j >= at + crossed:
            own = beta[j] if j < at else beta[j + crossed * C]
            for s in range(len(v)):
                v[s] += own * columns[j, s]


@jit
def bend(beta: Floats, context: Floats, at: int, slope: Floats) -> None:
    """Write the coefficients of the crossed columns in one row's context."""
    C = len(context)
    for j in range(len(slope)):
        total = beta[at + j]
        for c in range(C):
            total += context[c] * beta[at + len(slope) + j * C + c]
        slope[j] = total


@vector_jit
def _dot(a: Floats, b: Floats) -> float:
    out = 0.0
    for j in range(len(a)):
        out += a[j] * b[j]
    return out


@jit
def adjoint(u: Floats, v: Floats, given: LinearMap, out: Floats) -> None:
    """Write the transpose of `linear` applied to u and v (N,) into out (P,)."""
    K, items, cell, last, own, row = (
        given.K,
        given.items,
        given.cell,
        given.last,
        given.own,
        given.row,
    )
    read, x, columns, context = given.read, given.x, given.columns, given.context
    at, crossed, traits = given.at, given.crossed, given.traits
    d, C = x.shape[1] - 1, context.shape[1]
    p = len(columns) + crossed * C
    start = parts_of(K, items, d, p)
    t, h, table, beta = (
        np.zeros(K * (K + 1)),
        np.zeros(items + 2),
        np.zeros((items + 1, d + 1)),
        np.zeros(p),
    )
    sums, reading = np.zeros(crossed), 0.0
    # Short loops one after the other: what they read stays in registers.
    for s in range(len(cell)):
        reading += read[s] * u[s]
        t[cell[s]] += u[s]
        h[last[s]] += u[s]
    for s in range(len(cell)):
        a, i, weight = own[s], row[s], v[s]
        for j in range(d + 1):
            table[a, j] += x[i, j] * weight
    for a in range(len(traits)):
        for j in range(crossed):
            beta[at + j] += traits[a, j] * table[a, 0]
            for c in range(C):
                beta[at + crossed + j * C + c] += traits[a, j] * table[a, 1 + c]
    for s in range(0 if len(traits) or not crossed else len(cell)):
        for j in range(crossed):
            sums[j] += columns[at + j, s] * v[s]
        i = row[s]
        if s + 1 == len(cell) or row[s + 1] != i:
            for j in range(crossed):
                beta[at + j] += sums[j]
                for c in range(C):
                    beta[at + crossed + j * C + c] += sums[j] * context[i, c]
                sums[j] = 0.0
    for j in range(len(columns)):
        if j < at:
            beta[j] = _dot(columns[j], v)
        elif j >= at + crossed:
            beta[j + crossed * C] = _dot(columns[j], v)
    for j in range(len(out)):
        out[j] = 0.0
    out[start.reading] = reading
    for k in range(K):
        out[k] += t[k * (K + 1)]
        for before in range(k):
            own_cell = t[k * (K + 1) + before + 1]
            out[k] += own_cell
            out[start.clicked] += own_cell
            out[start.distance + k - before] += own_cell
            out[start.cell + k * K + before] = own_cell
    for a in range(items + 1):
        out[start.after + a] = h[a]
        out[start.constant] += table[a, 0]
        out[start.item + a] = table[a, 0]
        for j in range(d):
            out[start.context + j] += table[a, j + 1]
            out[start.slope + a * d + j] = table[a, j + 1]
    for j in range(p):
        out[start.columns + j] = beta[j]


@jit
def likelihood(u: Floats, v: Floats, y: Floats, row: Ints, family: int, dispersion: float, su: Floats,
               sv: Floats) -> float:  # fmt: skip
    """Return the log likelihood of the slots (N,) and fill su and sv.

    For clicks they receive s(u) and s(v); for numbers su receives the mean; for pages see `pages`.
    """
    if family == CLICKS:
        return _of_clicks(u, v, y, su, sv)
    if family >= CHANCE:
        return page_likelihood(u, v, y, row, family, dispersion, su, sv)
    total = 0.0
    for s in range(len(u)):
        su[s] = u[s] + v[s]
    if family == NORMAL:
        for s in range(len(u)):
            total -= 0.5 * (y[s] - su[s]) ** 2
    else:
        exponential(su, len(su))
        for s in range(len(u)):
            total -= y[s] / su[s] + u[s] + v[s]
    return total / dispersion


@jit
def _of_clicks(u: Floats, v: Floats, y: Floats, su: Floats, sv: Floats) -> float:
    for s in range(len(u)):
        su[s], sv[s] = u[s], v[s]
    sigmoid(su, len(su))
    sigmoid(sv, len(sv))
    total, product = 0.0, 1.0
    for s in range(len(u)):
        chance = su[s] * sv[s]
        # 1 - s(u) s(v) as (1 - s(u)) + s(u) (1 - s(v)): no cancellation where both chances are near
        # 1.
        own = chance if y[s] > 0.0 else (1.0 - su[s]) + su[s] * (1.0 - sv[s])
        product *= own if own > _LEAST else _LEAST
        # One logarithm for many slots, because it costs more than all the rest.
        if product < 1e-280:
            total += np.log(product)
            product = 1.0
    return float(total + np.log(product))


@jit
def derivatives(su: Floats, sv: Floats, y: Floats, row: Ints, family: int, dispersion: float, exact: bool, ru: Floats,
                rv: Floats, huu: Floats, huv: Floats, hvv: Floats) -> None:  # fmt: skip
    """Write slopes in u and v, and minus the second derivatives: exact, or their mean (the Fisher matrix).

    Families of whole pages write what the slots of a page share into huv.
    """
    if family == CLICKS:
        _of_chances(su, sv, y, exact, ru, rv, huu, huv, hvv)
        return
    if family >= CHANCE:
        page_derivatives(su, sv, y, row, family, dispersion, ru, huv)
        for s in range(len(su)):
            rv[s] = ru[s]
        return
    for s in range(len(su)):
        bend = 1.0
        if family == NORMAL:
            slope = y[s] - su[s]
        else:
            slope = y[s] / su[s] - 1.0
            bend = slope + 1.0 if exact else 1.0
        ru[s] = rv[s] = slope / dispersion
        huu[s] = huv[s] = hvv[s] = bend / dispersion


@jit
def _of_chances(su: Floats, sv: Floats, y: Floats, exact: bool, ru: Floats, rv: Floats, huu: Floats, huv: Floats,
                hvv: Floats) -> None:  # fmt: skip
    for s in range(len(su)):
        miss_u, miss_v = 1.0 - su[s], 1.0 - sv[s]
        chance = su[s] * sv[s]
        miss = miss_u + su[s] * miss_v
        miss = miss if miss > _LEAST else _LEAST
        odds = chance / miss
        clicked = y[s] > 0.0
        slope = 1.0 if clicked else -odds
        ru[s], rv[s] = slope * miss_u, slope * miss_v
        if not exact:
            huu[s], huv[s], hvv[s] = (
                odds * miss_u * miss_u,
                odds * miss_u * miss_v,
                odds * miss_v * miss_v,
            )
        elif clicked:
            huu[s], huv[s], hvv[s] = su[s] * miss_u, 0.0, sv[s] * miss_v
        else:
            # Minus the second derivatives of log(1 - s(u) s(v)); they may be negative, which is why
            # `newton` looks at the curvature along each direction.
            huu[s] = odds * miss_u * (miss_u - su[s] + odds * miss_u)
            hvv[s] = odds * miss_v * (miss_v - sv[s] + odds * miss_v)
            huv[s] = odds / miss * miss_u * miss_v


@vector_jit
def _penalty(theta: Floats, mean: Floats, precision: Floats) -> float:
    out = 0.0
    for j in range(len(theta)):
        out += precision[j] * (theta[j] - mean[j]) ** 2
    return 0.5 * out


@jit
def scaled(residual: Floats, scale: Floats, common: Ints, inverse: Floats, out: Floats) -> None:
    """Write the residual (P,) times the rough inverse of the Hessian."""
    for j in range(len(residual)):
        out[j] = residual[j] * scale[j]
    for a in range(len(common)):
        total = 0.0
        for b in range(len(common)):
            total += inverse[a, b] * residual[common[b]]
        out[common[a]] = total


@jit
def newton(theta: Floats, prior: NormalPrior, given: LinearMap, observed: Observed, rough: RoughInverse,
           effort: Effort) -> tuple[float, int]:  # fmt: skip
    """Move theta (P,) to the maximum of log likelihood - precision (theta - mean)^2 / 2.

    Each step solves (H + precision) step = slope by conjugate gradients, scaled by `rough`. The block
    of common parameters moves what a diagonal takes many products for: examination against
    attraction. A step is halved until the objective rises. The first step that promises less than
    `enough` nats is the last. Returns the objective before the last step and the number of steps.
    """
    mean, precision, row = prior.mean, prior.precision, given.row
    y, family, dispersion = observed.y, observed.family, observed.dispersion
    enough, near = effort.enough, effort.near
    N, P = len(row), len(theta)
    u, v, du, dv, su, sv = (
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(N),
        np.empty(N),
    )
    ru, rv, huu, huv, hvv = np.empty(N), np.empty(N), np.empty(N), np.empty(N), np.empty(N)
    slope, scale, image, moved = np.empty(P), np.empty(P), np.empty(P), np.empty(P)
    linear(theta, given, u, v)
    value = likelihood(u, v, y, row, family, dispersion, su, sv) - _penalty(theta, mean, precision)
    exact = near
    for taken in range(effort.steps):
        derivatives(su, sv, y, row, family, dispersion, exact, ru, rv, huu, huv, hvv)
        adjoint(ru, rv, given, slope)
        for j in range(P):
            slope[j] -= precision[j] * (theta[j] - mean[j])
            scale[j] = 1.0 / (rough.diagonal[j] + precision[j])
        step, residual = np.zeros(P), slope.copy()
        scaled(residual, scale, rough.common, rough.inverse, moved)
        direction = moved.copy()
        energy = _dot(residual, direction)
        first = energy
        for c in range(effort.inner):
            if energy <= max(_ROUGH * first, 2.0 * _SLIGHT * enough):
                break
            linear(direction, given, du, dv)
            if family >= CHANCE:
                page_product(huv, su, row, du, dv)
            for s in range(0 if family >= CHANCE else N):
                through = huu[s] * du[s] + huv[s] * dv[s]
                dv[s] = huv[s] * du[s] + hvv[s] * dv[s]
                du[s] = through
            adjoint(du, dv, given, image)
            for j in range(P):
                image[j] += precision[j] * direction[j]
            curve, flat = _dot(direction, image), 0.0
            for j in range(P):
                flat += direction[j] * direction[j] / scale[j]
            if curve <= 1e-3 * flat:
                # Far from the maximum the Hessian may be indefinite. Stop before such a direction.
                for j in range(P if c == 0 else 0):
                    step[j] = direction[j]
                break
            length = energy / curve
            for j in range(P):
                step[j] += length * direction[j]
                residual[j] -= length * image[j]
            before = energy
            scaled(residual, scale, rough.common, rough.inverse, moved)
            energy = _dot(residual, moved)
            for j in range(P):
                direction[j] = moved[j] + energy / before * direction[j]
        # What the quadratic model gains by the step: half the slope along it (nats).
        promise = 0.5 * _dot(slope, step)
        settled = exact and promise < _LAST * enough
        exact = near or promise < _NEAR
        done = not promise > enough
        # With likelihoods of pages a small promise may come from a long step, which is tried as well.
        if done and family < CHANCE:
            for j in range(P):
                theta[j] += step[j]
            return value, taken + 1
        linear(step, given, du, dv)
        size, reached = 1.0, value
        for _ in range(30):
            for s in range(N):
                ru[s], rv[s] = u[s] + size * du[s], v[s] + size * dv[s]
            for j in range(P):
                moved[j] = theta[j] + size * step[j]
            reached = likelihood(ru, rv, y, row, family, dispersion, su, sv) - _penalty(
                moved, mean, precision
            )
            # Armijo's rule: a small part of the promised gain must come true.
            if reached >= value + 1e-4 * size * promise:
                break
            size *= 0.5
        if not reached > value:
            return value, taken
        value = reached
        for j in range(P):
            theta[j] = moved[j]
        if done or (settled and size == 1.0):
            return value, taken + 1
        for s in range(N):
            u[s], v[s] = ru[s], rv[s]
    return value, effort.steps
