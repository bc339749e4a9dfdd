"""The grown thing: one tree a position (or one for all) as flat arrays, that assigns a model to each row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.behavior.candidates import Candidate
from counterrank.errors import BehaviorError
from counterrank.ratios import Ratios

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Forest:
    """Trees over the context, each leaf a behaviour model.

    `roots` (T,) with T = K, or 1 when one model serves all positions; `nodes` (N, 4): feature (-1 in a leaf), left,
    right, row of `sets` + 1 for a categorical split; `model` (N,) index into `candidates`. `facts` (N, 5) tells about
    each node: share of rows, objective, estimate, standard error, gain; all from the rows it was grown on.
    """

    candidates: tuple[Candidate, ...]
    context_names: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    roots: Ints
    nodes: Ints
    threshold: Floats
    missing_left: NDArray[np.bool_]
    sets: NDArray[np.bool_]
    model: Ints
    facts: Floats
    mse: str
    n_grown: int
    notes: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions."""
        return len(self.candidates[0].mask)

    @property
    def per_position(self) -> bool:
        """Whether every position has a tree of its own."""
        return len(self.roots) > 1 or self.K == 1

    def leaves(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return each row's leaf in each tree (n, T)."""
        from counterrank.kernels.splitting_assign import leaf_of

        values = self._context(context, n)
        out = np.empty((len(values), len(self.roots)), dtype=np.int64)
        leaf_of(values, self.roots, self.nodes, self.threshold, self.missing_left, self.sets, out)
        return out

    def assign(self, context: "ArrayLike | None", n: int | None = None) -> Ints:
        """Return the model of each row and position, an index into `candidates`: (n, K), or (n,) with one tree."""
        chosen: Ints = self.model[self.leaves(context, n)]
        return chosen if self.per_position else chosen[:, 0]

    def _context(self, context: "ArrayLike | None", n: int | None) -> Floats:
        width = len(self.context_names)
        if context is None:
            if (self.nodes[:, 0] >= 0).any():
                raise BehaviorError(f"this tree asks for context ({', '.join(self.context_names)}); none was given")
            return np.empty((n or 0, width))
        values = np.ascontiguousarray(context, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != width:
            raise BehaviorError(
                f"the tree was grown on {width} context columns ({', '.join(self.context_names)}); "
                f"got an array of shape {values.shape}"
            )
        return values


def weights_by_choice(candidates: tuple[Candidate, ...], choice: Ints, ratios: Ratios) -> Floats:
    """Return w (n, K): at row i and position k the weight of candidate choice[i, k]."""
    used = np.flatnonzero(np.bincount(choice.ravel(), minlength=len(candidates)))
    plain = [m for m in used if candidates[m].order is None]
    place = np.zeros(len(candidates), dtype=np.int64)
    place[plain] = np.arange(len(plain))
    if not plain:
        out = np.empty(ratios.rho.shape, order="F")
    elif len(plain) == 1:
        out = ratios.masked(candidates[plain[0]].mask)
    else:
        out = ratios.by_choice(np.stack([candidates[m].mask for m in plain]), place[choice])
    for m in used:
        order = candidates[m].order
        if order is not None:
            out = np.where(choice == m, ratios.ordered(candidates[m].mask, order), out)
    return np.asfortranarray(out)
