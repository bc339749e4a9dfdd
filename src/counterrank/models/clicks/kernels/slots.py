"""Loops over slots: the linear map of the click models and its transpose, and the derivatives of clicks."""

from counterrank.arrays import Floats, Ints
from counterrank.kernels.jit import jit, vector_jit

#: Chances stay this far from 0 and 1 in the likelihood, so that no single slot decides a fit.
LEAST = 1e-9


@jit
def add_cells(t: Floats, cell: Ints, after: Floats, last: Ints, u: Floats) -> None:
    """Add the logits of each slot's cell and of the item clicked last to u (N,)."""
    for s in range(len(cell)):
        u[s] += t[cell[s]] + after[last[s]]


@jit
def sum_cells(u: Floats, cell: Ints, t: Floats, last: Ints, after: Floats) -> None:
    """Add u to the numbers of each slot's cell and of the item clicked last."""
    for s in range(len(cell)):
        t[cell[s]] += u[s]
        after[last[s]] += u[s]


@vector_jit
def add_items(table: Floats, own: Ints, row: Ints, x: Floats, v: Floats) -> None:
    """Add x times the numbers of each slot's item (I + 1, 1 + d) to v (N,)."""
    for s in range(len(own)):
        a, i = own[s], row[s]
        total = v[s]
        for j in range(x.shape[1]):
            total += x[i, j] * table[a, j]
        v[s] = total


@jit
def sum_items(v: Floats, own: Ints, row: Ints, x: Floats, table: Floats) -> None:
    """Add v times x to the numbers of each slot's item."""
    for s in range(len(own)):
        a, i = own[s], row[s]
        for j in range(x.shape[1]):
            table[a, j] += x[i, j] * v[s]


@jit
def click_derivatives(su: Floats, sv: Floats, y: Floats, exact: bool, ru: Floats, rv: Floats, huu: Floats,
                      huv: Floats, hvv: Floats) -> None:  # fmt: skip
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
