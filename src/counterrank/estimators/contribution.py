"""The common case: contributions y and weights w (n, K) of each row, then an aggregate.

The aggregate is a mean, a ratio of means, or a mean with control variates.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from counterrank.arrays import Floats
from counterrank.behavior import BehaviorTree
from counterrank.errors import EstimatorError
from counterrank.estimators.base import Estimate, Lift, Part, Plan, PositionValue, View, Workspace
from counterrank.records import Json
from counterrank.statistics import Contrast, Quantity, clustered_variances, mean, spread
from counterrank.weights.diagnostics import effective_rows, weight_flags
from counterrank.weights.moments import Moments, moments_of


class Aggregate(Protocol):
    """A smooth function of the column means, with its gradient."""

    needs_gram: bool

    def positions(self, moments: Moments) -> Floats:
        """Return V_k (K,)."""

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """Return dV/d(mean y) (K, K) and dV/d(mean w) (K, K): row k is the gradient of V_k."""


class Mean:
    """V_k = mean of y_k."""

    needs_gram = False

    def positions(self, moments: Moments) -> Floats:
        """Return mean y_k."""
        return moments.mean("y")

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """The mean has slope one in y and zero in w."""
        length = moments.K
        return np.eye(length), np.zeros((length, length))


class SelfNormalised:
    """V_k = mean y_k / mean w_k (Hajek): a bias of O(1/n), less variance where weights are heavy."""

    needs_gram = True

    def positions(self, moments: Moments) -> Floats:
        """Return the ratio of means, zero where no weight is left."""
        y, w = moments.mean("y"), moments.mean("w")
        return np.divide(y, w, out=np.zeros_like(y), where=w != 0)

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """d(y/w) = dy/w - (y/w) dw/w."""
        w = moments.mean("w")
        # Without any weight at a position V_k is zero and so is its slope: `finish` then says that
        # there is no evidence.
        inverse = np.divide(1.0, w, out=np.zeros_like(w), where=w != 0)
        return np.diag(inverse), np.diag(-self.positions(moments) * inverse)


class ControlVariate:
    """V_k = mean y_k - beta_k' (mean w - 1), beta = Cov(w)^-1 Cov(w, y), which uses that E[w] = 1.

    The regression coefficient is fitted on the same rows (a bias of order K/n); see Vlassis et al.
    2021.
    """

    needs_gram = True

    def positions(self, moments: Moments) -> Floats:
        """Return the controlled means."""
        return moments.mean("y") - (moments.mean("w") - 1.0) @ _coefficients(moments).T

    def slope(self, moments: Moments) -> tuple[Floats, Floats]:
        """The slope is one in y and -beta in w; the error of beta is of second order."""
        return np.eye(moments.K), -_coefficients(moments)


def _coefficients(moments: Moments) -> Floats:
    """Return beta (K, K): row k regresses y_k on all weights, Cov(y_k, w) Cov(w)^-1.

    Weights may be equal or constant (IPS has one for all positions), hence the pseudo-inverse.
    """
    # Fitted on the rows it corrects: the bias is of order K / n, far below the standard error.
    length, covariance = moments.K, moments.covariance
    of_w = covariance[length : 2 * length, length : 2 * length]
    beta: Floats = covariance[:length, length : 2 * length] @ np.linalg.pinv(
        of_w, rcond=1e-10, hermitian=True
    )
    return beta


AGGREGATES: dict[str, Aggregate] = {
    "mean": Mean(),
    "ratio": SelfNormalised(),
    "control": ControlVariate(),
}


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

    def __post_init__(self) -> None:
        self.key = (self.workspace.target, self.key)
        self.means = AGGREGATES[self.aggregate]
        # Plans with one key share the state of the most detailed among them.
        self.detail = int(self.means.needs_gram)

    def weights(self, view: View) -> Floats | None:
        """Return the weights of a batch."""
        return self.contributions(view)[1]

    def partial(self, view: View) -> Part[Moments]:
        """Sum contributions, weights and what the logger earned."""
        # Weights too large for a number are reported at the end, with where they come from.
        with np.errstate(over="ignore", invalid="ignore"):
            y, w = self.contributions(view)
        batch, reward = view.batch, view.reward
        bucket = batch.bucket if self.workspace.by_unit else None
        if batch.weight is not None:
            y, w, reward = (one * batch.weight[:, None] for one in (y, w, reward))
        state, totals = moments_of(
            y, w, reward, batch.position_weights,
            full=self.detail > 0, bucket=bucket, weight=batch.weight,
        )  # fmt: skip
        # A ratio of means varies with y and w by position; a mean needs only the total.
        return Part(
            state, np.concatenate([totals[None], y.T, w.T]).T if self.detail else totals[:, None]
        )

    def combination(self, state: Moments) -> Floats:
        """Return how the estimate combines the row's total or, with the Gram matrix, its total, y and w (1+2K,)."""
        if state.gram is None:
            return np.ones(1)
        if not self.means.needs_gram:
            return np.concatenate([[1.0], np.zeros(2 * state.K)])
        return np.concatenate([[0.0], self._gradient(state)[:-1]])

    def _gradient(self, state: Moments) -> Floats:
        on_y, on_w = self.means.slope(state)
        return np.concatenate([state.alpha @ on_y, state.alpha @ on_w, [0.0]])

    def quantity(self, state: Moments) -> Quantity:
        """Return the estimate over the columns of the state's sums."""
        value = float(state.alpha @ self.means.positions(state))
        gradient = np.array([1.0, 0.0]) if state.lean else self._gradient(state)
        return self.widened(Quantity(state.sums, value, gradient))

    def finish(self, state: Moments) -> Estimate:
        """Return value, standard error, positions, lift and flags."""
        if not (np.isfinite(state.positions).all() and np.isfinite(state.rows).all()):
            raise EstimatorError(_overflow(self.name, state))
        values, new = self.means.positions(state), self.quantity(state)
        contrast = Contrast.between(new, mean(state.sums, len(new.gradient) - 1))
        flags, details = self.notes(state)
        level, looks = self.workspace.level, self.workspace.looks
        found = Estimate(
            target=self.workspace.target,
            estimator=self.name,
            value=new.value,
            stderr=new.stderr,
            by_position=_positions(values, state.variances(np.column_stack(
                [*self.means.slope(state), np.zeros(state.K)]
            ))),
            ess=effective_rows(state),
            n=state.n,
            level=level,
            lift=Lift.of(contrast, level, looks, _lift_by_position(state, values)),
            flags=(*self.flags, *flags, *weight_flags(state)),
            details={**self.details, **details},
            moments=state,
            contrast=contrast,
            looks=looks,
            allowance=new.allowance,
        )  # fmt: skip
        # A mean of zeros with standard error zero would look like certainty.
        dark = np.flatnonzero((state.mean("ww") == 0) & (state.alpha != 0)) + 1
        if not (self.needs_weight and len(dark)):
            return found
        where = "" if len(dark) == state.K else f" at position {', '.join(map(str, dark))}"
        return found.without_evidence(
            f"the target gives every logged ranking probability 0{where}: what it would show was "
            "never logged"
        )


def _overflow(name: str, state: Moments) -> str:
    worst = int(np.argmax(np.nan_to_num(state.peaks[:-1], nan=np.inf)))
    return (
        f"'{name}' overflows: the largest weight at position {worst + 1} is "
        f"{state.peaks[worst]:.3g}, whose square or product is no number any more. Look for "
        "logging propensities near zero, or use an estimator with smaller products, such as iips "
        "or order-2"
    )


def _positions(values: Floats, variances: Floats) -> tuple[PositionValue, ...]:
    errors = np.sqrt(variances)
    return tuple(PositionValue(float(v), float(e)) for v, e in zip(values, errors, strict=True))


def _lift_by_position(state: Moments, values: Floats) -> tuple[PositionValue, ...]:
    """Return V_k - mean r_k with the variance of the paired difference y_k - r_k (as of a mean)."""
    mean_y, mean_r = state.mean("y"), state.mean("r")
    if state.buckets is not None and state.earned is not None:
        own = state.buckets[:, : state.K] - state.earned
        return _positions(values - mean_r, clustered_variances(own, state.buckets[:, -1]))
    # Var(y - r) of pairs: y = w r and r share their noise.
    second = state.mean("yy") - 2 * state.mean("yr") + state.mean("rr")
    return _positions(
        values - mean_r, np.maximum(spread(second, (mean_y - mean_r) ** 2, state.n), 0.0) / state.n
    )
