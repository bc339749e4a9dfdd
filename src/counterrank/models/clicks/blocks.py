"""A rough inverse of the Hessian of a click model, by blocks: it scales the steps of conjugate gradients.

Most parameters are numbers of items. Each slot reads those of one item alone, so that among items the
matrix is a row of small blocks, and what all items share is eliminated from them exactly (a Schur
complement). Without this the constant against the items' intercepts, the context against their slopes
and features against both take most of the products.
"""

from dataclasses import dataclass, field

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.models.clicks.kernels.blocks import BlockSums, sum_blocks
from counterrank.models.clicks.likelihood import (
    ClickLikelihood,
    Curvature,
    MeanLikelihood,
    Scaling,
    Slots,
)
from counterrank.models.clicks.settings import SETTINGS

#: Slots whose columns are written down at once, and numbers (rows, or single slots).
_AT_ONCE, _NUMBERS = 2_048, 256


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of the Fisher matrix without the prior's precision.

    `diagonal` (P,) of all parameters; the block of those `common` to many slots (c, c); where they are
    not too many numbers the blocks of items (I + 1, w, w) and those between items and common parameters
    ((I + 1) w, c), for the parameters `items` ((I + 1) w,), item by item.
    """

    diagonal: Floats
    common: Ints
    block: Floats
    items: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    by_item: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))
    between: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def scaling(self, precision: Floats) -> Scaling:
        """Return the rough inverse with the prior's precision (P,)."""
        block = self.block + np.diag(precision[self.common])
        items, reach = self.by_item.copy(), self.between
        if len(self.items):
            width = items.shape[1]
            items[:, np.arange(width), np.arange(width)] += precision[self.items].reshape(-1, width)
            items = np.asarray(np.linalg.inv(items), dtype=np.float64)
            reach = (items @ self.between.reshape(len(items), width, -1)).reshape(
                self.between.shape
            )
            block = block - self.between.T @ reach
        inverse = np.asarray(np.linalg.inv(block), dtype=np.float64)
        return Scaling(self.diagonal + precision, self.common, inverse, self.items, items, reach)


def blocks_of(
    theta: Floats,
    slots: Slots,
    rewards: ClickLikelihood | MeanLikelihood,
    linear: tuple[Floats, Floats],
    scale: float = 1.0,
) -> Blocks:
    """Return `scale` times the blocks at the parameters theta (P,), where the linear predictors are `linear`.

    Common parameters are those of positions, distances, constant, context and columns, on short
    rankings also those of pairs of positions.
    """
    _, curvature = rewards.derivatives(*linear, exact=False)
    diagonal = scale * slots.diagonal(rewards, linear)
    K, start = slots.K, slots.parts
    pairs = K * K if K * K <= SETTINGS.pairs else 0
    of_cells = _cell_parameters(K)[:, : 2 * K + 1 + pairs]
    common: Ints = np.r_[: 2 * K + 1 + pairs, start.constant : start.item]
    shown, width = start.item - start.constant, slots.x.shape[1]
    items = (slots.items + 1) * width
    page = isinstance(rewards, MeanLikelihood) and len(rewards.first) < len(slots.y)
    if page or items * (shown + len(of_cells)) > SETTINGS.between:
        return Blocks(diagonal, common, scale * _block(slots, rewards, curvature, of_cells))
    sums, block = _summed(slots, scale * _weights(rewards, curvature), shown)
    # Of cells and reading, then what is shown; cells become parameters by a linear map.
    cell = np.diag(np.append(sums.cell, block[0, 0]))
    cell[:-1, -1] = cell[-1, :-1] = sums.cell_shown[:, 0]
    cross = np.concatenate([sums.cell_shown[:, 1:], block[:1, 1:]])
    cross = of_cells.T @ cross
    by_item = sums.item_shown.reshape(items, -1)
    examined = np.concatenate([sums.item_cell.reshape(items, -1), by_item[:, :1]], axis=1)
    return Blocks(
        diagonal,
        common,
        np.block([[of_cells.T @ cell @ of_cells, cross], [cross.T, block[1:, 1:]]]),
        slots.item_parameters,
        sums.items,
        np.concatenate([examined @ of_cells, by_item[:, 1:]], axis=1),
    )


def _cell_parameters(K: int) -> Floats:
    """Return the map (K (K + 1) + 1, 2 K + 1 + K K) from parameters to the logits of cells, and reading."""
    out = np.zeros((K * (K + 1) + 1, 2 * K + 1 + K * K))
    for k in range(K):
        for last in range(-1, K):
            cell = out[k * (K + 1) + last + 1]
            cell[k] = 1.0
            if last >= 0:
                cell[K] = cell[2 * K + 1 + k * K + last] = 1.0
                cell[K + 1 + max(k - last, 0)] = float(k > last)
    out[-1, K + 1] = 1.0
    return out


def _weights(rewards: ClickLikelihood | MeanLikelihood, curvature: Curvature) -> Floats:
    """Return the curvature of each slot by u, by u and v, and by v (3, N)."""
    if isinstance(rewards, ClickLikelihood):
        return np.stack(curvature)
    by_slot, _ = rewards.diagonal(curvature)
    return np.stack([by_slot] * 3)


def _shown(slots: Slots, rows: slice) -> Floats:
    """Return what all items share of some slots: context, columns and products (N, .)."""
    first, end, z = slots.first_crossed, slots.first_crossed + slots.crossed, slots.columns[rows]
    context = slots.context[slots.row[rows]]
    if len(slots.traits):
        z = np.concatenate([z[:, :first], slots.traits[slots.item[rows]], z[:, first:]], axis=1)
    products = (z[:, first:end, None] * context[:, None, :]).reshape(len(z), -1)
    x = slots.x[slots.row[rows]]
    return np.concatenate([x, z[:, :end], products, z[:, end:]], axis=1)


def _summed(slots: Slots, weights: Floats, shown: int) -> tuple[BlockSums, Floats]:
    """Return the sums of all slots, and the block of reading and what is shown."""
    count, width, cells = slots.items + 1, slots.x.shape[1], slots.K * (slots.K + 1)
    sums = BlockSums(
        np.zeros((count, width, width)),
        np.zeros((count, width, 1 + shown)),
        np.zeros((count, width, cells)),
        np.zeros(cells),
        np.zeros((cells, 1 + shown)),
    )
    block = np.zeros((1 + shown, 1 + shown))
    for start in range(0, len(slots.y), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        uu, uv, vv = weights[:, rows, None]
        columns = np.column_stack([slots.read[rows], _shown(slots, rows)])
        by_v, reading = vv * columns, columns[:, 0]
        by_v[:, 0] = uv[:, 0] * reading
        block[1:] += by_v[:, 1:].T @ columns
        block[0, 0] += float(uu[:, 0] @ reading**2)
        block[0, 1:] += (uv[:, 0] * reading) @ columns[:, 1:]
        x = slots.x[slots.row[rows]]
        each_slot = np.ascontiguousarray(weights[:, rows])
        sum_blocks(slots.item[rows], slots.cell[rows], x, columns, by_v, each_slot, sums)
    block[1:, 0] = block[0, 1:]
    return sums, block


def _block(
    slots: Slots, rewards: ClickLikelihood | MeanLikelihood, curvature: Curvature, of_cells: Floats
) -> Floats:
    """Return the block of the common parameters alone."""
    first = slots.first if isinstance(rewards, ClickLikelihood) else rewards.first
    ends = np.append(first, len(slots.y))
    size, block = of_cells.shape[1], np.zeros(())
    for start in range(0, len(first), _NUMBERS):
        numbers = slice(start, min(start + _NUMBERS, len(first)))
        rows = slice(ends[numbers.start], ends[numbers.stop])
        cell_columns = of_cells[slots.cell[rows]] + slots.read[rows, None] * of_cells[-1]
        columns = np.concatenate([cell_columns, _shown(slots, rows)], axis=1)
        if isinstance(rewards, MeanLikelihood):
            weighted = rewards.weight[rows, None] * columns
            columns = np.add.reduceat(weighted, first[numbers] - rows.start, axis=0)
            bend = curvature[0][numbers, None] / rewards.dispersion
            block = block + (bend * columns).T @ columns
            continue
        huu, huv, hvv = (second[rows, None] for second in curvature)
        by_u, by_v = huv * columns, huv * columns
        by_u[:, :size], by_v[:, size:] = huu * cell_columns, hvv * columns[:, size:]
        block = block + np.concatenate([cell_columns.T @ by_u, columns[:, size:].T @ by_v])
    return np.asarray(block, dtype=np.float64)
