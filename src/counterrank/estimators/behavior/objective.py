"""What a tree minimises: an MSE estimate of the whole assignment of models to leaves.

The score of an assignment is a function of C sums over its leaves ("channels"):
t = [V, second moment, D_1..D_J], V the estimate under the assignment, and

    score = lam Var(V) + bias^2,  Var(V) = (t_1 - t_0^2) / n_apply,
    bias^2 = max(0, (V - value)^2 - kappa Var(V)), or the mean over j of (D_j - T_j)^2

An MSE estimate turns a `Position` (what is known at one position of the ranking) into an
`Objective`; the grower knows nothing else about it. The estimates themselves are in `estimates`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.estimators.behavior.training import Position
from counterrank.kernels.jit import helper, jit

#: A score must be lower by this share to count as lower: ties are then broken by order, not by
#: rounding.
TIE = 1e-10
#: Sums beyond this count as this: squares of extreme weights must not become 0 * inf = NaN in the
#: channels of models that do not use them.
MOST = 1e290


@helper
def lower(value: float, best: float) -> bool:
    """Return whether a score is lower than the best by more than a rounding."""
    return value < (best if np.isinf(best) else best - TIE * abs(best))


@jit
def least_score(
    left: Floats, right: Floats, rule: Floats, targets: Floats, best: float, different: bool
) -> tuple[float, int, int, int]:
    """Return the least score of left[i, a] + right[i, b] below `best`, and i, a, b; -1 when none is.

    left (N, A, C), right (N, B, C); `different` passes over a = b. The first of a tie wins.
    rule = [hold against a value, value, kappa, lam, 1/n_apply, 1/n_grown, least variance]; targets (J,) = T.
    """
    index, first, second, count = -1, -1, -1, targets.shape[0]
    limit = best if np.isinf(best) else best - TIE * abs(best)
    for i in range(left.shape[0]):
        for a in range(left.shape[1]):
            value, square = left[i, a, 0], left[i, a, 1]
            for b in range(right.shape[1]):
                if different and a == b:
                    continue
                mean = value + right[i, b, 0]
                spread = max(square + right[i, b, 1] - mean * mean, 0.0)
                score = rule[3] * max(spread * rule[4], rule[6])
                # A squared bias only adds: a variance that is too large already ends the comparison.
                if score >= limit:
                    continue
                if rule[0] > 0.0:
                    gap = mean - rule[1]
                    # E (V - value)^2 = bias^2 + Var: what chance alone explains is taken off, kappa times.
                    score += max(gap * gap - rule[2] * spread * rule[5], 0.0)
                for j in range(count):
                    if score >= limit:
                        break
                    gap = left[i, a, 2 + j] + right[i, b, 2 + j] - targets[j]
                    score += gap * gap / count
                if score < limit:
                    best, index, first, second = score, i, a, b
                    limit = best - TIE * abs(best)
    return best, index, first, second


@dataclass(frozen=True)
class Objective:
    """The sums over leaves ("channels") of the models at a position, and the scoring rule.

    The estimate is held against `value`: the squared difference counts as far as it exceeds `kappa`
    variances. `replicates` (B, n) are row weights of `averaged`, whose
    sums are held against `targets` T_b.
    """

    position: Position
    value: float | None = None
    kappa: float = 0.0
    replicates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    averaged: Floats | None = (
        None  # (n, M) what replicates are sums of, instead of the contributions
    )
    targets: Floats = field(default_factory=lambda: np.empty(0))
    variance_weight: float = 1.0
    #: A lower limit of Var(V), which only the authors' code has.
    variance_floor: float = 0.0

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        return 1 + (2 + len(self.replicates)) * self.position.models

    @cached_property
    def _table(self) -> Floats:
        """What turns sums into channels (L, M * C)."""
        position, count = self.position, len(self.replicates)
        models, M = np.arange(position.models), position.models
        table = np.zeros((self.width, M, 2 + count))
        table[1 + models, models, 0] = 1 / position.n_grow
        # A second moment of model m is understated by tails[m].
        table[1 + M + models, models, 1] = position.tails / position.n_grow
        for b in range(count):
            table[1 + (2 + b) * M + models, models, 2 + b] = 1.0
        return table.reshape(self.width, -1)

    @cached_property
    def rule(self) -> Floats:
        """Numbers of the scoring rule."""
        numbers = [
            self.value is not None,
            self.value or 0.0,
            self.kappa,
            self.variance_weight,
            1 / self.position.n_apply,
            1 / self.position.n_grow,
            self.variance_floor,
        ]
        return np.array(numbers, dtype=np.float64)

    def channels(self, sums: Floats) -> Floats:
        """Return what leaves with these sums (..., L) add under each model (..., M, C)."""
        flat: Floats = np.clip(sums, -MOST, MOST) @ self._table
        return flat.reshape(*sums.shape[:-1], self.position.models, 2 + len(self.replicates))

    def score(self, channels: Floats) -> float:
        """Return the score of an assignment with channels (C,)."""
        alone = channels.reshape(1, 1, -1)
        return self.best(alone, np.zeros_like(alone))[0]

    def best(
        self, left: Floats, right: Floats, *, below: float = np.inf, different: bool = False
    ) -> tuple[float, int, int, int]:
        """Return the least score below `below` of left[i, a] + right[i, b], and i, a, b; see `least_score`."""
        return least_score(left, right, self.rule, self.targets, below, different)

    def best_model(self, totals: Floats, channels: Floats) -> tuple[float, int]:
        """Return the least score, and the model, of a leaf with channels (M, C) beside others (C,)."""
        score, _, model, _ = self.best(channels[None], totals.reshape(1, 1, -1))
        # All of them may be infinitely bad: the first model then serves as well as any.
        return score, max(model, 0)


class MSEEstimate(Protocol):
    """A way to estimate the MSE of an assignment."""

    @property
    def name(self) -> str:
        """Name in `BehaviorTree(mse=...)`."""

    def objective(self, position: Position) -> Objective:
        """Return what the tree minimises at one position."""
