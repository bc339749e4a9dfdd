"""A difference of arms, less what is known to be zero: the value, its error, and paired differences.

Rows were drawn arm by arm, and rows of one unit belong together. A mean over all rows then varies
as each arm's mean does: a row counts as its distance from its own arm's mean, and distances add up
by unit before they are squared. Errors are those of the jackknife that leaves out units: a unit with
many rows has pulled its arm's mean towards itself. With one unit a row this is the error of Welch's
test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.statistics.quantity import Quantity
from counterrank.statistics.sums import UnitScores

#: Columns whose spread is below this part of the largest value are constant but for roundings.
_NOISE = 1e-12


@dataclass(frozen=True, eq=False)
class Strata:
    """Which arm (n,) and which unit (n,) each row belongs to, both counted from 0."""

    arm: Ints
    unit: Ints

    @classmethod
    def from_arrays(cls, arm: NDArray[np.generic], unit: NDArray[np.generic] | None) -> Self:
        """Return arms and units of any kind as numbers; without units each row is one."""
        _, arms = np.unique(arm, return_inverse=True)
        units = np.arange(len(arms)) if unit is None else np.unique(unit, return_inverse=True)[1]
        return cls(arms.astype(np.int64), units.astype(np.int64))

    @cached_property
    def cells(self) -> Ints:
        """Number of rows of each unit in each arm (U, A)."""
        U, A = int(self.unit.max()) + 1, int(self.arm.max()) + 1
        return np.bincount(self.unit * A + self.arm, minlength=U * A).reshape(U, A)

    @property
    def units_by_arm(self) -> Ints:
        """Number of units with rows in each arm (A,)."""
        return np.asarray(np.count_nonzero(self.cells, axis=0))

    @property
    def shared_units(self) -> int:
        """Number of units with rows in more than one arm."""
        return int(self.units_by_arm.sum()) - len(self.cells)

    def scores(self, values: Floats) -> Floats:
        """Return what each unit (U,) adds to the error of the mean of values (n,).

        The squares add up to the variance.
        """
        rows, units = self.cells.sum(axis=0), self.units_by_arm
        mean = np.bincount(self.arm, weights=values) / rows
        # Without the unit its arm's mean is further away from it, by 1 / (1 - share).
        distance = 1.0 - (self.cells / rows)[self.unit, self.arm]
        factor = np.sqrt((units - 1) / units)[self.arm] / np.maximum(distance, _NOISE) / len(values)
        scores = np.bincount(self.unit, weights=(values - mean[self.arm]) * factor)
        return scores.astype(np.float64)

    def freedom(self, scores: Floats) -> float:
        """Return Satterthwaite's degrees of freedom of the variance sum(scores^2).

        Units of unequal size count as fewer: one over the sum of their squared shares (Carter,
        Schnepel & Steigerwald 2017).
        """
        shares = self.cells / self.cells.sum(axis=0)
        several = np.maximum(1.0 / (shares**2).sum(axis=0) - 1.0, 1.0)
        if self.shared_units:
            return float(several.sum())
        owner = np.zeros(len(scores), dtype=np.int64)
        owner[self.unit] = self.arm
        by_arm = np.bincount(owner, weights=scores**2)
        total = float((by_arm**2 / several).sum())
        return float(by_arm.sum()) ** 2 / total if total > 0 else float(several.sum())


@dataclass(frozen=True, slots=True, eq=False)
class ArmScores(UnitScores):
    """What units of several arms add to the error of a mean; `lost` degrees of freedom went to controls."""

    strata: Strata
    lost: int = 0

    def freedom(self, gradient: Floats) -> float:
        """Return the degrees of freedom of what units add to the error."""
        return max(self.strata.freedom(gradient) - self.lost, 1.0)


def mean_of(values: Floats, strata: Strata) -> Quantity:
    """Return the mean of values (n,); its gradient is what each unit adds to its error."""
    scores = strata.scores(values)
    return Quantity(ArmScores(len(values), len(scores), strata), float(values.mean()), scores)


def adjusted_mean(values: Floats, controls: Floats, strata: Strata) -> Quantity:
    """Return the mean of values (n,), less the part that controls (n, J) of mean zero explain.

    mean(values) - beta' mean(controls) with the beta that leaves the least variance. A control that
    explains nothing gets a beta of about zero: it costs one of the degrees of freedom, no bias
    beyond the order J / n and no width (Cochran 1977, chapter 7). With the same controls the adjusted
    mean of a difference is the difference of the adjusted means.

    >>> strata = Strata.from_arrays(np.repeat([0, 1], 4), None)
    >>> x = np.array([-1.0, 1.0, -1.0, 1.0] * 2)
    >>> found = adjusted_mean(3.0 + 2.0 * x, x[:, None], strata)
    >>> found.value, round(found.stderr, 9)
    (3.0, 0.0)
    """
    plain = mean_of(values, strata)
    spread = [strata.scores(column) for column in controls.T]
    size = np.abs(controls).max(axis=0, initial=0.0) / math.sqrt(len(values))
    used = [j for j, scores in enumerate(spread) if np.linalg.norm(scores) > _NOISE * size[j]]
    U = len(plain.gradient)
    if not used or U <= len(used) + 2:
        return plain
    scale = np.array([np.linalg.norm(spread[j]) for j in used])
    design = np.column_stack([spread[j] for j in used]) / scale
    beta, _, rank, _ = np.linalg.lstsq(design, plain.gradient, rcond=1e-8)
    value = plain.value - float(controls[:, used].mean(axis=0) @ (beta / scale))
    # A unit has pulled the coefficients towards itself, too: by its leverage.
    basis = np.linalg.svd(design, full_matrices=False)[0][:, : int(rank)]
    pulled = (basis**2).sum(axis=1)
    residuals = (plain.gradient - design @ beta) / np.maximum(1.0 - pulled, _NOISE)
    sample = ArmScores(len(values), U, strata, int(rank))
    return replace(plain, sample=sample, value=value, gradient=residuals)
