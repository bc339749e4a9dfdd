"""The true bias, for simulations: what the paper's experiments minimise."""

from dataclasses import dataclass

import numpy as np

from counterrank.log import RankingLog
from counterrank.tree.mse.known import against_value, value_at
from counterrank.tree.mse.replicated import rows_in_memory
from counterrank.tree.objective import Floats, Objective, Position


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """MSE = Var(V_c) + bias^2 with the true V_k, the bias perturbed by a relative Gaussian error `noise`.

    `values` (K,) are the true V_k (times the position weights, when one model serves all positions). `sample` is a
    large log of fresh simulated rows on which the expectation of V_c is taken; without it the growing rows serve, and
    their variance is taken off. Not available outside simulations. Kiyohara et al. (2023), section 4.1: noise .3.
    """

    values: Floats
    sample: RankingLog | None = None
    noise: float = 0.0
    name: str = "oracle"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Hold the expectation against the truth."""
        value = value_at(self.values, position, self.name)
        rng = np.random.default_rng([position.seed, position.index + 1, 41])
        # b (1 + noise z) squared, divided by the square: the same minimiser.
        weight = 1.0 / (1.0 + self.noise * rng.standard_normal()) ** 2
        if self.sample is None:
            return against_value(position, value, variance_weight=weight)
        rows = rows_in_memory(position, self.name)
        fresh = np.zeros(len(rows.use))
        fresh[-self.sample.n :] = 1.0 / self.sample.n
        return Objective(
            models=position.models,
            n_grow=position.n_grow,
            n_apply=position.n_apply,
            tails=position.tails,
            replicates=fresh[None],
            targets=np.array([value]),
            contrast=(position.densest, position.sparsest),
            kappa=0.0,
            variance_weight=weight,
        )
