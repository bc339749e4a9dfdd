"""Coefficients laid out so that a ranking's values at all positions are sums of a few rows
(kernels.regress_tables).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.models.layout import Arrays, Layout
from counterrank.models.settings import TABLE_CELLS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Columns are filled up to a multiple of this: vector registers then have no remainder.
_LANES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Tables (F, T, W) of S sets of coefficients with their layout."""

    layout: Layout
    sets: int
    values: Floats

    def serve(self, given: Arrays) -> bool:
        """Return whether they hold for a batch."""
        return tables_serve(self.layout, given)

    def at_logged(self, given: Arrays) -> tuple[Floats, Floats]:
        """Return z' coef (S, n, K), and the last set's without the context columns (n, K), zero in
        the padding.
        """
        from counterrank.models.kernels.regress_tables import values_at_logged

        out, bare = np.zeros((self.sets, *given.action.shape)), np.zeros(given.action.shape)
        values_at_logged(
            given.action, given.lengths, given.fold, given.x, given.centre, given.logging,
            self.layout.cross, self.layout.squares, self.values, out, bare,
        )  # fmt: skip
        return out, bare


def tables_serve(layout: Layout, given: Arrays) -> bool:
    """Return whether tables hold for a batch: centred counts must be the same seen from every
    position.
    """
    rich = layout.cross or layout.squares
    return layout.K * layout.A <= TABLE_CELLS and (not rich or given.logging.shape[1] == 1)


def tables_of(layout: Layout, coef: Floats, *, positions: Ints | None = None) -> Tables:
    """Return the tables of coefficients (S, F, Q, A, D) for Q positions, by default all.

    With N the counts of the whole ranking, position k with own action u sees N - e_u: cross columns
    move x_j's coefficient by -c_ju; squares move those of the counts by -s_ub (twice for b = u) and
    the intercept by s_uu.
    """
    S, F, Q, A, _ = coef.shape
    at = np.arange(layout.K) if positions is None else positions
    dense = coef[..., : layout.starts[3]].copy()
    by_block = coef[..., layout.starts[3] :].reshape(S, F, Q, A, layout.blocks, A)
    shown = by_block[:, :, np.arange(Q)[:, None], :, layout.slots[at]]  # (Q, K, S, F, A own, A)
    # The own item is no neighbour of itself.
    shown[np.arange(Q), at] = 0.0
    shown += _less_own(layout, coef, dense)
    top = layout.starts[3]
    last = top + layout.K * A
    out = np.zeros((F, last + 1, -(-S * Q * A // _LANES) * _LANES))
    out[:, :top, : S * Q * A] = dense.transpose(1, 4, 0, 2, 3).reshape(F, top, S * Q * A)
    out[:, top:last, : S * Q * A] = shown.transpose(3, 1, 5, 2, 0, 4).reshape(
        F, last - top, S * Q * A
    )
    return Tables(layout, S, out)


def _less_own(layout: Layout, coef: Floats, dense: Floats) -> Floats:
    """Take the own action out of the ranking's counts: move `dense` and return what counts gain (Q,
    1, S, F, A, A).
    """
    S, F, Q, A, _ = coef.shape
    _, cross, squares, blocks = layout.starts
    own = np.arange(A)
    if layout.cross:
        by_action = coef[..., cross:squares].reshape(S, F, Q, A, layout.d, A)
        dense[..., 1 : layout.d + 1] -= by_action[:, :, :, own, :, own].transpose(1, 2, 3, 0, 4)
    if not layout.squares:
        return np.zeros((Q, 1, S, F, A, A))
    b, c = np.triu_indices(A) if layout.squares == 1 else (own, own)
    products = np.zeros((S, F, Q, A, A, A))
    products[..., b, c] = coef[..., squares:blocks]
    moved = (products + products.swapaxes(-1, -2))[:, :, :, own, own]  # (S, F, Q, A own, A)
    dense[..., 0] += moved[..., own, own] / 2
    return np.asarray(-moved.transpose(2, 0, 1, 3, 4)[:, None])
