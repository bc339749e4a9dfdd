"""Sums over slots from which blocks of the Fisher matrix of a click model are made."""

from typing import NamedTuple

from counterrank.common.arrays import Floats, Ints
from counterrank.kernels.jit import vector_jit


class BlockSums(NamedTuple):
    """Products summed over slots, weighted by the curvature.

    `items` (I + 1, w, w) of what an item has numbers for; `item_shown` (I + 1, w, c) and `item_cell`
    (I + 1, w, cells) of these and what all items share; `cell` (cells,) and `cell_shown` (cells, c).
    """

    items: Floats
    item_shown: Floats
    item_cell: Floats
    cell: Floats
    cell_shown: Floats


@vector_jit
def sum_blocks(
    item: Ints,
    cell: Ints,
    x: Floats,
    columns: Floats,
    by_v: Floats,
    weights: Floats,
    sums: BlockSums,
) -> None:
    """Add some slots to the sums.

    x (N, w) multiplies the numbers of the item; `columns` (N, c) are reading and what is shared, and `by_v`
    these times the curvature by v; `weights` (3, N) are the curvature: uu, uv, vv.
    """
    width, c = x.shape[1], by_v.shape[1]
    for s in range(len(item)):
        a, k = item[s], cell[s]
        uu, uv, vv = weights[0, s], weights[1, s], weights[2, s]
        sums.cell[k] += uu
        sums.cell_shown[k, 0] += uu * columns[s, 0]
        for j in range(1, c):
            sums.cell_shown[k, j] += uv * columns[s, j]
        for i in range(width):
            value = x[s, i]
            sums.item_cell[a, i, k] += uv * value
            for j in range(c):
                sums.item_shown[a, i, j] += value * by_v[s, j]
            value *= vv
            for j in range(width):
                sums.items[a, i, j] += value * x[s, j]
