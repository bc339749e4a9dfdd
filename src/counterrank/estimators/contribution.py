"""The common case: an estimator is contributions y and weights w (n, K) of each row, then an aggregate."""

from abc import abstractmethod
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics.flags import weight_flags
from counterrank.diagnostics.weights import effective_rows
from counterrank.estimators.aggregate import AGGREGATES
from counterrank.estimators.base import Part, Plan, View, Workspace
from counterrank.estimators.estimate import Estimate, Lift, PositionValue
from counterrank.inference.linear import degrees_of_freedom, variance
from counterrank.inference.normal import normal_interval
from counterrank.moments import Moments, moments_of

Floats = NDArray[np.float64]


class ContributionPlan(Plan[Moments]):
    """y_ik = w_ik r_ik or any other contribution with mean V_k, aggregated by "mean", "ratio" or "control"."""

    def __init__(self, name: str, workspace: Workspace, *, key: Hashable, aggregate: str = "mean") -> None:
        self.name = name
        self.key = (workspace.target, key)
        self.workspace = workspace
        self.aggregate = AGGREGATES[aggregate]
        # Plans with one key share the state of the most detailed among them.
        self.detail = int(self.aggregate.needs_gram)
        self.flags: tuple[str, ...] = ()

    @abstractmethod
    def contributions(self, view: View) -> tuple[Floats, Floats]:
        """Return contributions y and weights w, both (n, K), Fortran order preferred."""

    def partial(self, view: View) -> Part[Moments]:
        """Sum contributions, weights and what the logger earned."""
        y, w = self.contributions(view)
        bucket = view.batch.bucket if self.workspace.by_unit else None
        state, totals = moments_of(y, w, view.reward, view.batch.position_weights, full=self.detail > 0, bucket=bucket)
        return Part(state, totals[:, None])

    def finish(self, state: Moments) -> Estimate:
        """Return value, standard error, positions, lift and flags."""
        alpha, length = state.alpha, state.K
        values = self.aggregate.positions(state)
        on_y, on_w = self.aggregate.slope(state)
        total = np.concatenate([alpha @ on_y, alpha @ on_w, [0.0]])
        single = [np.concatenate([on_y[k], on_w[k], [0.0]]) for k in range(length)]
        return Estimate(
            target=self.workspace.target,
            estimator=self.name,
            value=float(alpha @ values),
            stderr=float(np.sqrt(variance(state, total))),
            by_position=tuple(
                PositionValue(float(v), float(np.sqrt(variance(state, g)))) for v, g in zip(values, single, strict=True)
            ),
            ess=effective_rows(state),
            n=state.n,
            level=self.workspace.level,
            lift=lift_of(state, values, total, self.workspace.level),
            flags=(*self.flags, *weight_flags(state)),
            details={},
            moments=state,
            interval_at=_interval(float(alpha @ values), state, total),
        )


def _interval(value: float, state: Moments, gradient: Floats):  # type: ignore[no-untyped-def]
    stderr, df = float(np.sqrt(variance(state, gradient))), degrees_of_freedom(state)
    return lambda level: normal_interval(value, stderr, level, df)


def lift_of(state: Moments, values: Floats, gradient: Floats, level: float) -> Lift:
    """Return the paired lift over what the logger earned on the same rows, absolute and relative.

    Absolute: V - mean b. Relative: V / mean b - 1 with the gradient of the ratio.
    """
    base = state.row_mean("base")
    value = float(state.alpha @ values) - base
    paired = gradient.copy()
    paired[-1] -= 1.0
    stderr, df = float(np.sqrt(variance(state, paired))), degrees_of_freedom(state)
    low, high = normal_interval(value, stderr, level, df)
    relative = (np.nan, np.nan, np.nan)
    if base > 0:
        ratio = gradient / base
        ratio[-1] -= (value + base) / base**2
        centre, error = value / base, float(np.sqrt(variance(state, ratio)))
        relative = (centre, *normal_interval(centre, error, level, df))
    return Lift(value, stderr, low, high, _lift_by_position(state, values), *relative)


def _lift_by_position(state: Moments, values: Floats) -> tuple[PositionValue, ...]:
    """V_k - mean r_k with the variance of the paired difference y_k - r_k (the aggregate taken as a mean)."""
    n = state.n
    mean_y, mean_r = state.mean("y"), state.mean("r")
    second = state.mean("yy") - 2 * state.mean("yr") + state.mean("rr")
    spread = np.maximum(second - (mean_y - mean_r) ** 2, 0.0) / max(n - 1, 1)
    return tuple(PositionValue(float(v - r), float(s)) for v, r, s in zip(values, mean_r, np.sqrt(spread), strict=True))
