"""The common case: contributions y and weights w (n, K) of each row, then an aggregate.

The aggregate says how the value of a position follows from the means of both:

    "mean"     V_k = mean y_k
    "ratio"    V_k = mean y_k / mean w_k (Hajek), with a bias of O(1/n) and less variance where weights are heavy
    "control"  V_k = mean y_k - beta_k' (mean w - 1), beta_k = Cov(w)^-1 Cov(w, y_k), which uses that E[w] = 1
               (Vlassis et al. 2021). beta is fitted on the rows it corrects: a bias of order K / n, far below
               the standard error.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import EstimatorError
from counterrank.common.records import Json
from counterrank.estimators.base import Fitted, View, Workspace
from counterrank.estimators.behavior import BehaviorTree
from counterrank.estimators.columns import ALL, Columns, PositionColumns, Rows, logged
from counterrank.estimators.solution import Solution, Traits
from counterrank.estimators.weights.diagnostics import effective_rows, weight_flags
from counterrank.estimators.weights.moments import Moments, moments_of
from counterrank.statistics import ColumnSums, Key, PositionSums, Quantity, spread

#: Logs with fewer rankings do not use the one pass over all standard weights: it would save them a few
#: milliseconds and cost a first run on a machine seconds of compiling.
_FUSED_ROWS = 50_000
#: Where a workspace keeps the kinds of standard weights that its estimators need.
_FUSED = "standard weights"
#: Covariances of controls with smaller eigenvalues than this share of the largest are noise.
_COLLINEAR = 1e-10

Weigh = Callable[[View], Floats]
#: Contributions y and weights w of a batch, both (n, K), Fortran order preferred.
Contributions = Callable[[View], tuple[Floats, Floats]]
#: What the sums give rise to: flags and details.
Notes = tuple[tuple[str, ...], Json]


@dataclass(eq=False)
class ContributionFit(Fitted):
    """y_ik = w_ik r_ik or any other contribution with mean V_k, aggregated by "mean", "ratio" or "control"."""

    name: str
    workspace: Workspace
    #: Equal for equal contributions.
    key: Key
    traits: Traits
    aggregate: str = "mean"
    #: Weights w (n, K) of a batch, where y = w r; else contributions and weights.
    weigh: Weigh | None = None
    contributions: Contributions | None = None
    flags: tuple[str, ...] = ()
    #: What was fitted, for the estimate's details.
    details: Json = field(default_factory=dict)
    #: Further flags and details that follow from the sums.
    notes: Callable[[Moments], Notes] = lambda moments: ((), {})
    #: Puts errors beyond that of the mean into the interval.
    widened: Callable[[Quantity], Quantity] = lambda quantity: quantity
    #: Without any weight there is no evidence; False where the model alone may give the estimate.
    needs_weight: bool = True
    behavior_model: BehaviorTree | None = None
    #: The name of these weights among products of ratios that are summed in one pass.
    fused: str | None = None

    def __post_init__(self) -> None:
        space, K = self.workspace, self.workspace.first.K
        # Weights do not depend on the reward: those of all metrics are the same columns.
        of_weights, of_metric = (space.target, self.key), (space.metric, space.target, self.key)
        self.key = (*of_metric, self.aggregate)
        self.weights_key = ("weights", *of_weights)
        self.rows_key = ("contributions", *of_metric)
        #: All positions have one weight, so that one column of it stands for all.
        self.single = self.weigh is not None and self.fused == "joint"
        self.one_pass = (
            self.fused is not None
            and not space.by_unit
            and (space.source.n or _FUSED_ROWS) >= _FUSED_ROWS
        )
        if self.fused is not None and self.one_pass:
            # Estimators that are fitted to the same workspace are summed in one pass.
            self.kinds.add(self.fused)
        self.total: Key = (*of_metric, "total")
        self.mean_of = self.total if self.aggregate == "mean" else None
        self.y, self.w = (*of_metric, "y"), (*of_weights, "w")
        self.page_y = [(*self.y, k) for k in range(K)]
        self.page_w = [(*self.w, k) for k in range(1 if self.single else K)]

    @property
    def kinds(self) -> set[str]:
        """The kinds of weights that one pass over the ratios makes together."""
        return self.workspace.cached(_FUSED, set)

    def weights(self, view: View) -> Floats | None:
        """Return the weights of a batch."""
        return self.rows(view)[1]

    def rows(self, view: View) -> tuple[Floats, Floats]:
        """Return contributions and weights (n, K) of a batch."""
        # Weights too large for a number are reported at the end, with where they come from.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.contributions is not None:
                return view.cached(self.rows_key, partial(self.contributions, view))
            assert self.weigh is not None
            w = view.cached(self.weights_key, partial(self.weigh, view))
            return w * view.reward, w

    def columns(self, view: View) -> Columns:
        """Return the row total and, for a ratio or controls, contributions and weights; both at each position."""
        weight: list[Floats] = []
        if self.one_pass:
            moments, (total, *weight) = view.standard(self.kinds)[str(self.fused)]
        else:
            moments_key = ("moments", *self.rows_key)
            moments, total = view.cached(moments_key, partial(self._moments, view, ALL))
        totals = {self.total: total}
        if self.aggregate != "mean":
            y, w = (None, weight[0][:, None]) if self.single and weight else self.rows(view)
            totals |= dict(zip(self.page_w, w.T, strict=not self.single))
            if self.aggregate == "ratio" and not self.single and y is not None:
                totals |= dict(zip(self.page_y, y.T, strict=True))
        control_keys = tuple(self.page_w) if self.aggregate == "control" else ()

        def places() -> Floats:
            y, w = self.rows(view)
            return np.stack([view.reward.T, y.T, w.T], axis=1)

        positions = PositionColumns(
            (logged(self.workspace.metric), self.y, self.w),
            places,
            # With y = w r the moments hold every product of the three columns.
            partial(self._block, moments) if self.weigh is not None and not control_keys else None,
            control_keys,
            in_groups=self.workspace.by_unit,
        )
        return Columns(
            totals, positions, lambda rows: moments if rows is ALL else self._moments(view, rows)[0]
        )

    def _moments(self, view: View, rows: Rows) -> tuple[Moments, Floats]:
        """Return the moments of some rows, and their totals, which are not multiplied by the rows' weights."""
        (y, w), batch = self.rows(view), view.batch
        y, w, r = (values[rows] for values in (y, w, view.reward))
        alpha = batch.position_weights
        if batch.weight is None:
            return moments_of(y, w, r, alpha)
        v = batch.weight[rows]
        weighted = [values * v[:, None] for values in (y, w, r)]
        moments, _ = moments_of(weighted[0], weighted[1], weighted[2], alpha, weight=v)
        return moments, y @ alpha

    def _block(self, moments: Moments) -> PositionSums:
        """Return the sums of r, y and w at each position: those of w r are those of y."""
        y, w, r, yy, ww, rr, yw, yr = moments.positions
        gram = np.array([[rr, yr, y], [yr, yy, yw], [y, yw, ww]])
        keys = (logged(self.workspace.metric), self.y, self.w)
        return PositionSums(keys, np.stack([r, y, w], axis=1), gram.transpose(2, 0, 1))

    @np.errstate(over="ignore", invalid="ignore")
    def solve(self, sums: ColumnSums, extras: Moments, overall: Solution | None = None) -> Solution:
        """Return the value of the page, and of each position where all rows are summed."""
        moments, metric = self._checked(extras), logged(self.workspace.metric)
        block = sums.block_of.get(self.y)
        if block is not None and block.by_unit is not None:
            errors = [sums.position(self.w, k, block).stderr for k in range(moments.K)]
            moments = replace(moments, units=sums.rows.units, by_unit=np.array(errors))
        elif sums.rows.units != moments.n:
            moments = replace(moments, units=sums.rows.units)
        aggregate = _AGGREGATES[self.aggregate](self, sums)
        places = range(moments.K) if block is not None and overall is None else ()
        flags, details = self.notes(moments)
        return Solution(
            self.widened(aggregate.page()),
            sums.mean(metric),
            tuple(aggregate.place(k) for k in places),
            tuple(sums.position(metric, k, block) for k in places),
            effective_rows(moments),
            self.name,
            self.traits,
            self._without_weight(moments),
            (*self.flags, *flags, *weight_flags(moments)),
            {**self.details, **details},
            moments,
        )

    def _checked(self, moments: Moments) -> Moments:
        if np.isfinite(moments.positions).all() and np.isfinite(moments.rows).all():
            return moments
        worst = int(np.argmax(np.nan_to_num(moments.peaks[:-1], nan=np.inf)))
        raise EstimatorError(
            f"'{self.name}' overflows: the largest weight at position {worst + 1} is "
            f"{moments.peaks[worst]:.3g}, whose square or product is no number any more. Look for "
            "logging propensities near zero, or use an estimator with smaller products, such as "
            "iips or order-2"
        )

    def _without_weight(self, moments: Moments) -> str:
        """Return why there is no evidence: a mean of zeros with standard error zero would look like certainty."""
        dark = np.flatnonzero((moments.mean("ww") == 0) & (moments.alpha != 0)) + 1
        if not (self.needs_weight and len(dark)):
            return ""
        where = "" if len(dark) == moments.K else f" at position {', '.join(map(str, dark))}"
        return (
            f"the target gives every logged ranking probability 0{where}: what it would show was "
            "never logged"
        )


class Mean:
    """V_k = mean y_k."""

    def __init__(self, fit: ContributionFit, sums: ColumnSums) -> None:
        self.fit, self.sums, self.block = fit, sums, sums.block_of.get(fit.y)

    def page(self) -> Quantity:
        """Return the value of the page."""
        return self.sums.mean(self.fit.total)

    def place(self, k: int) -> Quantity:
        """Return the value of position k."""
        return self.sums.position(self.fit.y, k, self.block)


class Ratio(Mean):
    """V_k = mean y_k / mean w_k; zero where no weight is left, and the estimate says that there is no evidence."""

    def page(self) -> Quantity:
        """Return the value of the page."""
        fit, sums = self.fit, self.sums
        if fit.single:
            return _over(super().page(), sums.mean(fit.page_w[0]))
        positions = zip(fit.workspace.first.position_weights, fit.page_y, fit.page_w, strict=True)
        return _total(_over(sums.mean(y), sums.mean(w)) * float(a) for a, y, w in positions)

    def place(self, k: int) -> Quantity:
        """Return the value of position k."""
        return _over(super().place(k), self.sums.position(self.fit.w, k, self.block))


class Control(Mean):
    """V_k = mean y_k - beta_k' (mean w - 1)."""

    def __init__(self, fit: ContributionFit, sums: ColumnSums) -> None:
        super().__init__(fit, sums)
        rows, numbers = sums.rows, sums.numbers([fit.total, *fit.page_w])
        mean = rows.total[numbers] / rows.n
        second = rows.products[np.ix_(numbers, numbers)] / rows.n
        self.covariance = spread(second, np.outer(mean, mean), rows.n)
        self.mean, self.controls = mean[1:], numbers[1:]
        # Weights may be equal or constant.
        self.inverse = np.linalg.pinv(self.covariance[1:, 1:], rcond=_COLLINEAR, hermitian=True)

    def page(self) -> Quantity:
        """Return the value of the page."""
        return self._less(super().page(), self.covariance[0, 1:] @ self.inverse, self.controls)

    def place(self, k: int) -> Quantity:
        """Return the value of position k."""
        fit, rows, block = self.fit, self.sums.rows, self.block
        assert block is not None and block.cross is not None
        numbers, y = [block.row_keys.index(key) for key in fit.page_w], block.keys.index(fit.y)
        second = block.cross[k, y, numbers] / rows.n
        covariance = spread(second, block.total[k, y] / rows.n * self.mean, rows.n)
        places = [len(block.keys) + number for number in numbers]
        return self._less(super().place(k), covariance @ self.inverse, places)

    def _less(self, value: Quantity, beta: Floats, places: list[int]) -> Quantity:
        """Return a value less what the controls explain; `places` are those of the controls in its gradient."""
        gradient = value.gradient.copy()
        gradient[places] -= beta
        return replace(
            value, value=float(value.value - beta @ (self.mean - 1.0)), gradient=gradient
        )


_AGGREGATES = {"mean": Mean, "ratio": Ratio, "control": Control}


def _over(value: Quantity, weight: Quantity) -> Quantity:
    return value / weight if weight.value else value.zero_like()


def _total(quantities: Iterable[Quantity]) -> Quantity:
    first, *further = quantities
    for quantity in further:
        first = first + quantity
    return first
