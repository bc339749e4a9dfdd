"""Off-policy cross-validation: estimate on one part of the units, an unbiased value on the other."""

from dataclasses import dataclass

import numpy as np

from counterrank.tree.mse.replicated import over_splits, rows_in_memory
from counterrank.tree.objective import Objective, Position


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """MSE = mean over `splits` random halvings of (V_c(one part) - V_ref(other part))^2, ref the densest model.

    Cief, Kveton, Kompan (2024), Cross-validated off-policy evaluation; their split gives each side rows in
    proportion to its variance, here bounded to .2-.8. The reference side's noise is the same for all models in
    expectation but not in a sample, and a heavy-tailed reference makes the choice a lottery.
    """

    splits: int = 10
    name: str = "ocv"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Split by unit buckets."""
        rows = rows_in_memory(position, self.name)
        used = rows.use > 0
        spread = np.sqrt(position.variance())
        mine = float(np.median(spread))
        share = float(np.clip(mine / max(mine + spread[position.densest], 1e-300), 0.2, 0.8))
        rng = np.random.default_rng([position.seed, 43])  # the same splits at every position
        side = rng.random((self.splits, 1024)) < share
        drawn = side[:, rows.bucket]  # (B, n)
        chosen, held = drawn & used, ~drawn & used
        reference = rows.y[:, position.densest]
        truth = (held @ reference) / np.maximum(held.sum(axis=1), 1)
        return over_splits(position, chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1), truth)
