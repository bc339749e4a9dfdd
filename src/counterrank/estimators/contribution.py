"""The common case: contributions y and weights w (n, K) of each row, then an aggregate.

The aggregate is a mean, a ratio of means, or a mean with control variates.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.errors import EstimatorError
from counterrank.estimators.base import Estimate, Part, Plan, PositionValue, View, Workspace
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.weights.diagnostics import effective_rows, weight_flags
from counterrank.estimators.weights.moments import Moments, moments_of
from counterrank.records import Json
from counterrank.statistics import Contrast, Quantity, clustered_covariance, spread


def aggregated(kind: str, moments: Moments) -> tuple[Floats, Floats, Floats]:
    """Return V_k (K,), dV/d(mean y) and dV/d(mean w) (K, K): row k is the gradient of V_k.

    "mean": V_k = mean y_k.
    "ratio": V_k = mean y_k / mean w_k (Hajek), with a bias of O(1/n) and less variance where weights are
    heavy; zero where no weight is left, and `finish` then says that there is no evidence.
    "control": V_k = mean y_k - beta_k' (mean w - 1), beta = Cov(y, w) Cov(w)^-1, which uses that E[w] = 1
    (Vlassis et al. 2021). beta is fitted on the rows it corrects: a bias of order K/n, far below the
    standard error.
    """
    y, w, K = moments.mean("y"), moments.mean("w"), moments.K
    if kind == "ratio":
        inverse = np.divide(1.0, w, out=np.zeros_like(w), where=w != 0)
        return y * inverse, np.diag(inverse), np.diag(-y * inverse**2)
    if kind == "control":
        covariance = moments.covariance[: 2 * K, K : 2 * K]
        # Weights may be equal or constant (IPS has one for all positions).
        beta = covariance[:K] @ np.linalg.pinv(covariance[K:], rcond=1e-10, hermitian=True)
        return y - (w - 1.0) @ beta.T, np.eye(K), -beta
    return y, np.eye(K), np.zeros((K, K))


#: Logs with fewer rankings do not use the one pass over all standard weights: it would save them a few
#: milliseconds and cost a first run on a machine seconds of compiling.
_FUSED_ROWS = 50_000
#: Where a workspace keeps the kinds of standard weights that its plans need, each with whether one of
#: them needs the Gram matrix.
_FUSED = "standard weights"

Weigh = Callable[[View], Floats]
#: Contributions y and weights w of a batch, both (n, K), Fortran order preferred.
Contributions = Callable[[View], tuple[Floats, Floats]]
#: What the sums give rise to: flags and details.
Notes = tuple[tuple[str, ...], Json]


@dataclass(eq=False)
class ContributionPlan(Plan[Moments]):
    """y_ik = w_ik r_ik or any other contribution with mean V_k, aggregated by "mean", "ratio" or "control"."""

    name: str
    workspace: Workspace
    contributions: Contributions
    key: Hashable
    aggregate: str = "mean"
    flags: tuple[str, ...] = ()
    #: What was fitted, for the estimate's details.
    details: Json = field(default_factory=dict)
    #: Further flags and details that follow from the sums.
    notes: Callable[[Moments], Notes] = lambda state: ((), {})
    #: Puts errors beyond that of the mean into the interval.
    widened: Callable[[Quantity], Quantity] = lambda quantity: quantity
    #: Without any weight there is no evidence; False where the model alone may give the estimate.
    needs_weight: bool = True
    behavior_model: BehaviorTree | None = None
    #: The name of these weights among products of ratios that are summed in one pass.
    fused: str | None = None

    def __post_init__(self) -> None:
        self.key = (self.workspace.target, self.key)
        # Plans with one key share the state of the most detailed among them.
        # Controls need the products of rewards and weights by position, which no pass over all has.
        self.detail = ("mean", "ratio", "control").index(self.aggregate)
        self.one_pass = (
            self.fused is not None
            and self.detail < 2
            and not self.workspace.by_unit
            and (self.workspace.source.n or _FUSED_ROWS) >= _FUSED_ROWS
        )
        # All positions have one weight, so one column of it stands for all.
        self.one_weight = self.one_pass and self.fused == "joint"
        if self.fused is not None:
            # Estimators that plan on the same workspace are summed in one pass.
            together: dict[str, bool] = self.workspace.once(_FUSED, dict)
            together[self.fused] = together.get(self.fused, False) or self.detail > 0

    def weights(self, view: View) -> Floats | None:
        """Return the weights of a batch."""
        return self.contributions(view)[1]

    def partial(self, view: View) -> Part[Moments]:
        """Sum contributions, weights and what the logger earned."""
        if not self.one_pass:
            return self.stored(view)
        state, own = view.standard(self.workspace.once(_FUSED, dict))[str(self.fused)]

        def places(k: int) -> list[Floats]:
            return self._at(k, *self.contributions(view))

        if state.gram is None or self.one_weight:
            return Part(state, lambda: own if state.gram is not None else own[:1], places)
        return Part(state, lambda: _columns(own[0], *self.contributions(view)), places)

    def stored(self, view: View) -> Part[Moments]:
        """Return the sums with the Gram matrix or the sums by unit where they are wanted."""
        # Weights too large for a number are reported at the end, with where they come from.
        with np.errstate(over="ignore", invalid="ignore"):
            y, w = self.contributions(view)
        batch, reward = view.batch, view.reward
        bucket = batch.bucket if self.workspace.by_unit else None
        if batch.weight is not None:
            y, w, reward = (values * batch.weight[:, None] for values in (y, w, reward))
        state, totals = moments_of(
            y, w, reward, batch.position_weights,
            full=self.detail > 0, bucket=bucket, weight=batch.weight,
        )  # fmt: skip
        return Part(
            state,
            lambda: _columns(totals, y, w) if self.detail else [totals],
            lambda k: self._at(k, y, w),
        )

    def _at(self, k: int, y: Floats, w: Floats) -> list[Floats]:
        """Return contributions and weights at a position; controls need the weights of all positions."""
        return [y[:, k], *(w.T if self.detail > 1 else [w[:, k]])]

    def combination(self, state: Moments) -> Floats:
        """Return how the estimate combines the row's total or, with the Gram matrix, its total, y and w (1+2K,).

        Where all positions have one weight: the total and that weight (2,).
        """
        if state.gram is None:
            return np.ones(1)
        alpha = state.alpha
        _, on_y, on_w = (alpha @ part for part in aggregated(self.aggregate, state))
        detail = min(self.detail, 1)
        total = 1.0 - detail
        if not self.one_weight:
            return np.concatenate([[total], on_y * detail, on_w])
        # One weight has one slope in all y_k, up to alpha_k: that of the total.
        return np.array([total + detail * (on_y @ alpha) / (alpha @ alpha), on_w.sum()])

    def placed(self, state: Moments) -> Floats:
        """Return how the value of each position combines its contributions and weights (K, 2 or 1+K)."""
        _, on_y, on_w = aggregated(self.aggregate, state)
        weights = on_w if self.detail > 1 else on_w.diagonal()[:, None]
        return np.column_stack([on_y.diagonal(), weights])

    def quantity(self, state: Moments) -> Quantity:
        """Return the estimate over the columns of the state's sums."""
        value, on_y, on_w = (state.alpha @ part for part in aggregated(self.aggregate, state))
        gradient = np.array([1.0, 0.0]) if state.lean else np.concatenate([on_y, on_w, [0.0]])
        return self.widened(Quantity(state.sums, float(value), gradient))

    def finish(self, state: Moments) -> Estimate:
        """Return value, standard error, positions, lift and flags."""
        if not (np.isfinite(state.positions).all() and np.isfinite(state.rows).all()):
            worst = int(np.argmax(np.nan_to_num(state.peaks[:-1], nan=np.inf)))
            raise EstimatorError(
                f"'{self.name}' overflows: the largest weight at position {worst + 1} is "
                f"{state.peaks[worst]:.3g}, whose square or product is no number any more. Look for "
                "logging propensities near zero, or use an estimator with smaller products, such as "
                "iips or order-2"
            )
        (values, on_y, on_w), new = aggregated(self.aggregate, state), self.quantity(state)
        logged = np.eye(len(new.gradient))[-1]
        contrast = Contrast.between(new, Quantity(new.sample, state.row_mean("base"), logged))
        flags, details = self.notes(state)
        found = self.workspace.estimate(
            self.name,
            contrast,
            PositionValue.each(
                values, state.variances(np.column_stack([on_y, on_w, np.zeros(state.K)]))
            ),
            _lift_by_position(state, values, on_y, on_w),
            ess=effective_rows(state),
            n=state.n,
            flags=(*self.flags, *flags, *weight_flags(state)),
            details={**self.details, **details},
            moments=state,
        )
        # A mean of zeros with standard error zero would look like certainty.
        dark = np.flatnonzero((state.mean("ww") == 0) & (state.alpha != 0)) + 1
        if not (self.needs_weight and len(dark)):
            return found
        where = "" if len(dark) == state.K else f" at position {', '.join(map(str, dark))}"
        return found.without_evidence(
            f"the target gives every logged ranking probability 0{where}: what it would show was "
            "never logged"
        )


def _columns(totals: Floats, y: Floats, w: Floats) -> list[Floats]:
    """Return the total with y and w by position: a ratio of means varies with them; a mean needs the total alone."""
    return [totals, *y.T, *w.T]


def weighted_plan(
    name: str, workspace: Workspace, weigh: Weigh, key: Hashable, **options: Any
) -> ContributionPlan:
    """Return the plan of y = w r, with weights from a function of the view."""

    def contributions(view: View) -> tuple[Floats, Floats]:
        w = weigh(view)
        return w * view.reward, w

    return ContributionPlan(name, workspace, contributions, key, **options)


def _lift_by_position(
    state: Moments, values: Floats, on_y: Floats, on_w: Floats
) -> tuple[PositionValue, ...]:
    """Return V_k - mean r_k with the variance of its influence function: row k of the gradients, less r_k."""
    mean_r, K = state.mean("r"), state.K
    if state.buckets is not None and state.earned is not None:
        own = state.buckets[:, : 2 * K] @ np.hstack([on_y, on_w]).T - state.earned
        variances = clustered_covariance(own, state.buckets[:, -1]).diagonal()
        return PositionValue.each(values - mean_r, variances)
    # Contributions and rewards share their noise. Each V_k has one contribution, its own.
    slope = on_y.diagonal()
    cross = slope * spread(state.mean("yr"), state.mean("y") * mean_r, state.n)
    if on_w.any():
        # Where products were not summed, contributions are w r, and a ratio needs those alone.
        of_w = (
            np.diag(state.mean("y"))
            if state.earned_weights is None
            else state.earned_weights / state.n
        )
        cross += (on_w * spread(of_w, np.outer(mean_r, state.mean("w")), state.n)).sum(axis=1)
    alone = state.variances(np.column_stack([on_y, on_w, np.zeros(K)])) * state.n
    variances = alone - 2 * cross + spread(state.mean("rr"), mean_r**2, state.n)
    return PositionValue.each(values - mean_r, variances / state.n)
