"""Loops over slots: the linear map of the click models, its transpose, and both around the Hessian of clicks."""

from typing import NamedTuple

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import jit, vector_jit

#: Chances stay this far from 0 and 1 in the likelihood, so that no single slot decides a fit.
LEAST = 1e-9


class SlotTable(NamedTuple):
    """N slots: cell, item clicked last, item and row of each; reading (N,), columns (N, p) and x (n, 1 + d)."""

    cell: Ints
    last: Ints
    item: Ints
    row: Ints
    read: Floats
    columns: Floats
    x: Floats


class Coefficients(NamedTuple):
    """What the linear map multiplies slots by, or room for what its transpose sums over them.

    `cells` (K (K + 1),), `after` (I + 2,), `power` (1,), `items` (I + 1, 1 + d), `columns` (p,), and for
    each row (n, j) further coefficients of the j columns from `first` on, as they depend on its context.
    """

    cells: Floats
    after: Floats
    power: Floats
    items: Floats
    columns: Floats
    bent: Floats


@vector_jit
def map_slots(
    slots: SlotTable, coefficients: Coefficients, first: int, u: Floats, v: Floats
) -> None:
    """Write the linear predictors of each slot into u and v (N,)."""
    width, p, crossed = slots.x.shape[1], slots.columns.shape[1], coefficients.bent.shape[1]
    power = coefficients.power[0]
    for s in range(len(u)):
        a, i = slots.item[s], slots.row[s]
        u[s] = (
            coefficients.cells[slots.cell[s]]
            + coefficients.after[slots.last[s]]
            + power * slots.read[s]
        )
        total = 0.0
        for j in range(width):
            total += slots.x[i, j] * coefficients.items[a, j]
        for j in range(p):
            total += slots.columns[s, j] * coefficients.columns[j]
        for j in range(crossed):
            total += slots.columns[s, first + j] * coefficients.bent[i, j]
        v[s] = total


@vector_jit
def sum_slots(slots: SlotTable, u: Floats, v: Floats, first: int, out: Coefficients) -> None:
    """Add the transpose of the map, applied to u and v (N,), to what `out` holds."""
    width, p, crossed = slots.x.shape[1], slots.columns.shape[1], out.bent.shape[1]
    for s in range(len(u)):
        a, i, hu, hv = slots.item[s], slots.row[s], u[s], v[s]
        out.cells[slots.cell[s]] += hu
        out.after[slots.last[s]] += hu
        out.power[0] += hu * slots.read[s]
        for j in range(width):
            out.items[a, j] += slots.x[i, j] * hv
        for j in range(p):
            out.columns[j] += slots.columns[s, j] * hv
        for j in range(crossed):
            out.bent[i, j] += slots.columns[s, first + j] * hv


@vector_jit
def click_products(
    slots: SlotTable,
    coefficients: Coefficients,
    first: int,
    uu: Floats,
    uv: Floats,
    vv: Floats,
    out: Coefficients,
) -> None:
    """Add the transpose of the map, of the curvature times the map of `coefficients`, to what `out` holds.

    `uu`, `uv` and `vv` (N,) are minus the second derivatives of each slot. The same in three loops
    reads every slot three times.
    """
    width, p, crossed = slots.x.shape[1], slots.columns.shape[1], coefficients.bent.shape[1]
    power, read = coefficients.power[0], 0.0
    for s in range(len(uu)):
        if uu[s] == 0.0 and vv[s] == 0.0:
            # A slot that is left out.
            continue
        a, i, cell, last = slots.item[s], slots.row[s], slots.cell[s], slots.last[s]
        du = coefficients.cells[cell] + coefficients.after[last] + power * slots.read[s]
        dv = 0.0
        for j in range(width):
            dv += slots.x[i, j] * coefficients.items[a, j]
        for j in range(p):
            dv += slots.columns[s, j] * coefficients.columns[j]
        for j in range(crossed):
            dv += slots.columns[s, first + j] * coefficients.bent[i, j]
        hu, hv = uu[s] * du + uv[s] * dv, uv[s] * du + vv[s] * dv
        out.cells[cell] += hu
        out.after[last] += hu
        read += hu * slots.read[s]
        for j in range(width):
            out.items[a, j] += slots.x[i, j] * hv
        for j in range(p):
            out.columns[j] += slots.columns[s, j] * hv
        for j in range(crossed):
            out.bent[i, j] += slots.columns[s, first + j] * hv
    out.power[0] += read


@jit
def click_derivatives(
    su: Floats,
    sv: Floats,
    y: Floats,
    exact: bool,
    ru: Floats,
    rv: Floats,
    huu: Floats,
    huv: Floats,
    hvv: Floats,
) -> None:
    """Write slopes of the log likelihood in u and v, and minus its second derivatives, from s(u) and s(v)."""
    for s in range(len(su)):
        miss_u, miss_v = 1.0 - su[s], 1.0 - sv[s]
        miss = max(miss_u + su[s] * miss_v, LEAST)
        odds = su[s] * sv[s] / miss
        slope, uu, uv, vv = -odds, odds * miss_u, odds * miss_u * miss_v, odds * miss_v
        if y[s] > 0.0:
            slope = 1.0
            if exact:
                uu, uv, vv = su[s], 0.0, sv[s]
        elif exact:
            uu = odds * (miss_u - su[s] + odds * miss_u)
            vv = odds * (miss_v - sv[s] + odds * miss_v)
            uv /= miss
        ru[s], rv[s] = slope * miss_u, slope * miss_v
        huu[s], huv[s], hvv[s] = uu * miss_u, uv, vv * miss_v
