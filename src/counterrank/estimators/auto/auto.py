"""Auto, the recommended estimator: several reward models, corrected by weights as far as the log supports them.

Its members are the average of the models and the same corrected by weights that rely more and more on the
data. The first member is "models": the logged reward plus the change that the models expect of the target,
which is the models' mean corrected by weights of one. The others have the name of the estimator whose
weights they use: "iips", "order-2", "order-3", "rips", "ips". Where there are models, own-position weights
are cut at a limit, and the models stand for the part that is cut off.

Long logs are read in two phases: cheap members on all rows, costly models on a random part of them. A
member of a row is its cheap version a_i (with the mean reward of a position as the model) plus the
change e_i that the models make. Rows are drawn independently with probability p, I_i = 1 for a drawn
row. Then

    mean of a_i + (I_i / p) e_i

has the mean of a_i + e_i for any a (the difference estimator: Cochran 1977, ch. 12; Saerndal, Swensson &
Wretman 1992, ch. 9). Its spread over all rows contains both phases: Var(a + e) / n + (1/p - 1) E[e^2] / n.
The controls (I_i / p - 1) (1, y_i) have mean zero. They remove the chance variation in the number of drawn
rows and their rewards y, which leaves (1/p - 1) Var(e | y) / n for the second term.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.errors import ConfigError, EstimatorError
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.members import (
    add_second_phase,
    calibration,
    members_of,
    reach,
    squares_of,
    tails_of,
    weights_of,
)
from counterrank.estimators.auto.nuisances import SUMS, aim, nuisances_for
from counterrank.estimators.auto.rule import MODELS
from counterrank.estimators.auto.solution import AutoSums, solved
from counterrank.estimators.base import Estimator, Fitted, View, Workspace
from counterrank.estimators.columns import ALL, Columns, PositionColumns, Rows, logged
from counterrank.estimators.crossfit import Prediction, Predictions, drawn_once
from counterrank.estimators.solution import Solution, Traits
from counterrank.models import Stream
from counterrank.policies import RowRandom
from counterrank.statistics import ColumnSums, Key


class AutoFit(Fitted):
    """Members, models and aimed step of a log, ready for the pass."""

    def __init__(
        self,
        workspace: Workspace,
        nuisances: Predictions,
        flags: tuple[str, ...],
        allowance: float | None,
    ) -> None:
        self.name, self.traits = "auto", Traits("auto")
        self.key = (workspace.metric, workspace.target, "auto", allowance)
        self.workspace, self.flags, self.allowance = workspace, flags, allowance
        self.nuisances, self.modelled = nuisances, len(nuisances.shares) > 0
        self.members = members_of(workspace.ratios, modelled=self.modelled)
        if not self.members:
            raise EstimatorError("'auto' finds no usable weights in these propensities")
        #: The member with the smallest weights.
        self.smallest = self.members[int(self.members[0] == MODELS)]
        rows = workspace.source.n or DEFAULTS.training_rows
        #: Share of the rows on which models and own-position weights are computed.
        self.rate = nuisances.rate
        #: Without a model nothing replaces the weight that a limit removes.
        self.limit = (
            max(DEFAULTS.clip * (rows * self.rate) ** 0.5, 1.0) if self.modelled else np.inf
        )
        # Blocks are spread over the whole log, because logs change over time.
        self.block = DEFAULTS.fold_block / self.rate
        self.stride = -(-int(rows * self.rate) // DEFAULTS.fold_rows)
        #: Number of terms of the aimed step.
        self.aims = 0 if nuisances.span is None else SUMS
        terms = [("aim", number) for number in range(self.aims)]
        models = [("model", number) for number in range(len(nuisances.shares))]
        #: Row totals in the order in which they are made, the logger's first; controls come last.
        names = (*self.members, *models, *terms)
        self.totals: list[Key] = [logged(workspace.metric), *((self.key, name) for name in names)]
        self.places: list[Key] = [(self.key, name, "at") for name in self.members]

    def control_keys(self, count: int) -> tuple[Key, ...]:
        """Return the keys of so many controls."""
        return tuple((self.key, "control", number) for number in range(count))

    # Weights too large for a number are reported at the end.
    @np.errstate(over="ignore", invalid="ignore")
    def columns(self, view: View) -> Columns:
        """Return members, models, aimed step and controls of each row, and members at each position."""
        batch, sampled = view.batch, self._asked(view.batch)
        near = view if sampled is None else view.part(("asked", self.rate), sampled)
        prediction = self.nuisances.predict(near)
        members = self.members if sampled is None else self.members[:2]
        weights, squares, reached = near.cached(
            ("auto", members, self.limit), lambda: self._weighed(near, members)
        )
        places, totals = self._contributions(near, weights, prediction)
        aims = aim(self.nuisances, near, totals[0] - prediction.q @ batch.position_weights)
        controls = view.cached(("controls", self.modelled), lambda: self._controls(view))
        cheap = None
        if sampled is not None:
            exact = places, totals
            places, totals, cheap = self._cheap_phase(view)
            add_second_phase(places, totals, exact, sampled, self.rate)
            controls = calibration(totals[0], sampled, self.rate)
            step, aims = aims, np.zeros((len(aims), batch.n))
            aims[:, sampled] = step / self.rate
        compared = np.flatnonzero(near.batch.numbers // self.block % self.stride == 0)
        rows = AutoRows(
            self.rate,
            sampled,
            squares,
            cheap,
            reached,
            *self._compared(near, compared, weights),
            view.ratios.rho if view.ratios.kind == "factored" else None,
            weights[self.smallest].mean(axis=1),
            prediction.volume,
            batch.n,
            batch.K,
        )
        keys = self.control_keys(len(controls))
        # What the logger earned stands among the columns already.
        columns = dict(zip([*self.totals[1:], *keys], [*totals[1:], *aims, *controls], strict=True))
        positions = PositionColumns(
            (logged(self.workspace.metric), *self.places),
            lambda: places,
            row_keys=keys,
            by_unit=False,
            in_groups=True,
        )
        return Columns(columns, positions, rows.summed)

    def _asked(self, batch: RankingLog) -> Ints | None:
        """Return the rows that models are asked about, drawn by their numbers; None for all."""
        if self.rate >= 1.0:
            return None
        drawn = RowRandom(batch.draw_keys, [self.workspace.seed, Stream.ASKED_ROWS])
        return np.flatnonzero(drawn.random(batch.n) < self.rate)

    def _weighed(
        self, view: View, members: tuple[str, ...]
    ) -> tuple[dict[str, Floats], Floats, Floats]:
        """Return weights, their squares, and what they reach, of each row: the same for all rewards."""
        weights = weights_of(view, members, self.limit)
        return weights, squares_of(view, weights), reach(view, weights.get("iips"), self.limit)

    def _cheap_phase(self, view: View) -> tuple[Floats, Floats, Floats]:
        """Return the members on all rows, with the mean reward of a position as the model.

        With them the squared weights of the members that stay cheap (J - 2, n).
        """
        batch = view.batch
        shown = batch.action >= 0

        def weighed() -> dict[str, Floats]:
            # Marginals of rankings without replacement cost more than all the rest; ones replace them.
            exact = tuple(m for m in self.members if m != "iips" or view.ratios.kind != "policy")
            weights = weights_of(view, exact, self.limit)
            return {name: weights.get(name, weights[MODELS]) for name in self.members}

        weights = view.cached(("cheap weights", self.members, self.limit), weighed)
        q = np.where(shown, self.nuisances.level, 0.0)
        delta = batch.position_weights * (batch.reward - q)
        total = q @ batch.position_weights + delta.sum(axis=1)
        flat = Prediction(q, q, delta, np.tile(total, (len(self.nuisances.shares), 1)))
        squares = squares_of(view, {name: weights[name] for name in self.members[2:]})
        return *self._contributions(view, weights, flat), squares.reshape(-1, batch.n)

    def _contributions(
        self, view: View, weights: Mapping[str, Floats], prediction: Prediction
    ) -> tuple[Floats, Floats]:
        """Return rewards and members at each position (K, 1 + J, n), and row totals (T, n).

        The totals are the logged reward, the members, and the first member by each model. Own-position
        weights multiply surprises along the click history, which vary less than residuals. Richer weights
        multiply residuals, for which they are exact.
        """
        # Position by position in memory, as weights and predictions are.
        (n, K), alpha = view.reward.shape, view.batch.position_weights
        error, mean = (view.reward - prediction.q).T, prediction.mean
        columns = np.empty((K, 1 + len(weights), n))
        columns[:, 0] = view.reward.T
        for j, w in enumerate(weights.values(), 1):
            np.multiply(w.T, error, out=columns[:, j])
            columns[:, j] += mean.T
        totals = (alpha @ columns.reshape(K, -1)).reshape(-1, n)
        for j, (name, w) in enumerate(weights.items(), 1):
            if name == "iips":
                totals[j] = mean @ alpha + np.einsum("nk,nk->n", w, prediction.delta)
        return columns, np.concatenate([totals, prediction.totals])

    def _compared(
        self, view: View, rows: Ints, weights: Mapping[str, Floats]
    ) -> tuple[Ints, Floats, Floats]:
        """Return the rows on which fits are compared, the tails there, and the members by each fit (F, J, n)."""
        sampled = self.nuisances.compared(view, rows)

        def tails() -> Floats:
            draws = None
            if self.nuisances.draws and sampled.batch.n:
                draws = drawn_once(sampled, self.nuisances.fold_draws, self.workspace.seed)
            return tails_of(sampled, self.members, draws)

        of_rows = {name: w[rows] for name, w in weights.items()}
        # Members without models stay at zero, because no fit changes them.
        folds = np.zeros((self.nuisances.folds, len(self.members), len(rows)))
        for fold in range(len(folds) if len(rows) else 0):
            _, totals = self._contributions(sampled, of_rows, self.nuisances.predict(sampled, fold))
            folds[fold, : len(of_rows)] = totals[1 : 1 + len(of_rows)]
        return rows, sampled.cached(("tails", self.members), tails), folds

    def _controls(self, view: View) -> Floats:
        """Return the controls (w_l - 1) and (w_l - 1) x_j (H, n), of mean zero, where there is no model."""
        if self.modelled:
            return np.empty((0, view.batch.n))
        ratios = view.ratios
        smallest = {"position": ratios.position, "prefix": ratios.prefix, "joint": ratios.full}
        w = next(make for kind, make in smallest.items() if kind in ratios.supports)()
        excess, limit = (w - 1.0).T, DEFAULTS.controls
        if len(excess) > limit:  # long rankings: one control for all positions
            excess = excess.sum(axis=0, keepdims=True)
        x = np.nan_to_num(context_columns(view.batch)).T[: max(limit // len(excess) - 1, 0)]
        return np.ascontiguousarray(np.concatenate([excess, *(excess * row for row in x)], axis=0))

    def solve(
        self, sums: ColumnSums, extras: AutoSums, overall: Solution | None = None
    ) -> Solution:
        """Return the solution; groups of rows follow the decision of all, so that they average to it."""
        return solved(self, sums, extras, overall)


@dataclass(frozen=True, slots=True, eq=False)
class AutoRows:
    """Numbers of the rows of a batch of which no products are needed.

    `modelled_rows` are the rows that models were asked about, None for all; `squares` (J', n'), `reached` (2, 2, n'),
    `smallest` (n') and `volume` (n', K) are of these. `cheap` (J - J', n) are the squares of other members, of
    all rows. `tails` (2, J, c) and `folds` (F, J, c) are of the rows `compared` (c,), numbered among those
    that were asked.
    """

    rate: float
    modelled_rows: Ints | None
    squares: Floats
    cheap: Floats | None
    reached: Floats
    compared: Ints
    tails: Floats
    folds: Floats
    ratio: Floats | None
    smallest: Floats
    volume: Floats | None
    n: int
    K: int

    def summed(self, rows: Rows) -> AutoSums:
        """Return the sums over some rows."""
        modelled = (
            rows if self.modelled_rows is None else _places_in(rows, self.modelled_rows, self.n)
        )
        compared = _places_in(modelled, self.compared, len(self.smallest))
        tails, folds = self.tails[:, :, _fitting(compared, self.tails)], self.folds[:, :, compared]
        squares = self.squares[:, modelled].sum(axis=1) / self.rate
        if self.cheap is not None:
            squares = np.concatenate([squares, self.cheap[:, rows].sum(axis=1)])
        weight = self.smallest[modelled]
        return AutoSums(
            squares,
            self.reached[:, :, modelled].sum(axis=2) / self.rate,
            tails.sum(axis=2),
            tails.shape[2],
            folds.sum(axis=2),
            len(self.compared[compared]),
            np.zeros(0) if self.ratio is None else (self.ratio[rows] ** 2).sum(axis=0),
            np.array([weight.sum(), weight @ weight]) / self.rate,
            np.zeros(self.K)
            if self.volume is None
            else self.volume[modelled].sum(axis=0) / self.rate,
        )


def _places_in(rows: Rows, subset: Ints, n: int) -> Rows:
    """Return where some of n rows stand in a subset of them."""
    if isinstance(rows, slice):
        return ALL
    place = np.full(n, -1)
    place[subset] = np.arange(len(subset))
    places = place[rows]
    return places[places >= 0]


def _fitting(rows: Rows, table: Floats) -> Rows:
    """Return the rows of a table; none where it has none."""
    return rows if table.shape[2] else ALL


@dataclass(frozen=True, eq=False)
class Auto(Estimator):
    """The average of several cross-fitted reward models, corrected by weights as far as the log supports them.

    The estimate is shrunk towards the models, its interval is not, so that the two need not have the
    same centre (`docs/explanation/auto.md`). The interval allows for a stated bias: `allowance` sets it, in the
    unit of the value; by default it follows from how far the models disagree and how much the target
    changes. Without whole distributions or policies to draw from:
    weights and mean-zero controls only.

    Parameters
    ----------
    name
        What the result calls it.
    allowance
        The bias that the interval allows for, in the unit of the value; None to let the log decide.

    Examples
    --------
    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> round(Auto().estimate(log, "new").value, 6)
    2.0
    """

    name: str = "auto"
    allowance: float | None = None

    def __post_init__(self) -> None:
        if self.allowance is not None and not (np.isfinite(self.allowance) and self.allowance >= 0):
            raise ConfigError(
                "the allowance for bias is a number of at least 0, in the unit of the value; got "
                f"{self.allowance}"
            )

    def fit(self, workspace: Workspace) -> Fitted:
        """Fit the models that the log allows."""
        nuisances, flags = nuisances_for(workspace)
        return AutoFit(workspace, nuisances, flags, self.allowance)
