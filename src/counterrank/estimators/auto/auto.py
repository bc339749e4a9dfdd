"""Auto, the recommended estimator: several reward models, corrected by weights as far as the log supports them."""

from copy import copy
from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.members import (
    MODELS,
    add_second_phase,
    calibration,
    covered,
    members_of,
    tails_of,
    weights_of,
)
from counterrank.estimators.auto.nuisances import aim, nuisances_for
from counterrank.estimators.auto.rule import Decision, decide, estimate_from
from counterrank.estimators.auto.state import AutoState, Summary, summarise
from counterrank.estimators.base import Estimate, Estimator, Part, Plan, View, Workspace
from counterrank.estimators.crossfit import Prediction, Predictions, drawn_once
from counterrank.models import Stream
from counterrank.policies import RowRandom
from counterrank.statistics import sums_of


class AutoPlan(Plan[AutoState]):
    """One additive pass over every member, then a decision."""

    def __init__(
        self,
        workspace: Workspace,
        nuisances: Predictions,
        flags: tuple[str, ...],
        allowance: float | None,
    ) -> None:
        self.key = (workspace.target, "auto", allowance)
        self.workspace, self.flags, self.allowance = workspace, flags, allowance
        self.nuisances, self.modelled = nuisances, len(nuisances.shares) > 0
        #: What all rows say, where the plan is for groups of them.
        self.whole: tuple[Summary, Decision] | None = None
        self.members = members_of(workspace.ratios, modelled=self.modelled)
        if not self.members:
            raise EstimatorError("'auto' finds no usable weights in these propensities")
        # The member with the smallest weights.
        self.own = self.members[int(self.members[0] == MODELS)]
        rows = workspace.source.n or DEFAULTS.training_rows
        # Share of the rows on which models and own-position weights are computed.
        self.rate = nuisances.rate
        # Without a model nothing replaces the weight that a limit removes.
        self.limit = (
            max(DEFAULTS.clip * (rows * self.rate) ** 0.5, 1.0) if self.modelled else np.inf
        )
        # Blocks are spread over the whole log, because logs change over time.
        self.block = DEFAULTS.fold_block / self.rate
        self.stride = -(-int(rows * self.rate) // DEFAULTS.fold_rows)

    def partial(self, view: View) -> Part[AutoState]:
        """Sum every member's contributions."""
        # Weights too large for a number are reported at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._partial(view)

    def _partial(self, view: View) -> Part[AutoState]:
        batch = view.batch
        # The rows that models are asked about, drawn by their numbers; None for all.
        rows = None
        if self.rate < 1.0:
            drawn = RowRandom(batch.numbers, [self.workspace.seed, Stream.ASKED_ROWS])
            rows = np.flatnonzero(drawn.random(batch.n) < self.rate)
        near = view if rows is None else view.part(("asked", self.rate), rows)
        look = self.nuisances.predict(near)
        weights = weights_of(near, self.members if rows is None else self.members[:2], self.limit)
        columns, totals = self._contributions(near.batch, weights, look)
        residual = (near.batch.reward - look.q) @ near.batch.position_weights
        aims = aim(self.nuisances, near, residual)
        shown = near.batch.action >= 0
        sums = {name: float(((w * shown) ** 2).sum()) / self.rate for name, w in weights.items()}
        controls = self._controls(view)
        if rows is not None:
            exact = columns, totals
            columns, totals, squares = self._cheap_phase(view)
            sums |= squares
            add_second_phase(columns, totals, exact, rows, self.rate)
            controls = calibration(totals[0], rows, self.rate)
            asked, aims = aims, np.zeros((len(aims), batch.n))
            aims[:, rows] = asked / self.rate
        mean_weight = weights[self.own].mean(axis=1)
        some = np.flatnonzero(near.batch.numbers // self.block % self.stride == 0)
        part = self.nuisances.compared(near, some)
        draws = None
        if self.nuisances.draws and part.batch.n:
            draws = drawn_once(part, self.nuisances.fold_draws, self.workspace.seed)
        tails, tail_rows = tails_of(part, self.members, draws)
        bucket = batch.bucket if self.workspace.by_unit else None
        state = AutoState(
            n=batch.n,
            aims=len(aims),
            alpha=batch.position_weights,
            first=columns.sum(axis=2),
            second=columns @ columns.swapaxes(1, 2),
            sums=sums_of([*totals, *aims, *controls], bucket),
            mixed=columns @ controls.T,
            square=np.array([sums[name] for name in self.members]),
            covered=covered(weights.get("iips"), near.ratios, self.limit) / self.rate,
            tails=tails,
            tail_rows=tail_rows,
            ratio=(view.ratios.rho**2).sum(axis=0) if view.ratios.kind == "factored" else np.zeros(0),
            folds=self._by_fold(part, {name: w[some] for name, w in weights.items()}),
            fold_rows=len(some),
            mean_weight=np.array([mean_weight.sum(), mean_weight @ mean_weight]) / self.rate,
            volume=np.zeros(batch.K) if look.volume is None else look.volume.sum(axis=0) / self.rate,
        )  # fmt: skip
        return Part(state, lambda: [*totals[1 : 1 + len(self.members)], *aims])

    def _cheap_phase(self, view: View) -> tuple[Floats, Floats, dict[str, float]]:
        """Return the members on all rows, with the mean reward of a position as the model.

        With them the sums of squared weights of the members that stay cheap.
        """
        batch = view.batch
        cheap = view.ratios.kind != "policy"
        weights = weights_of(
            view, tuple(m for m in self.members if m != "iips" or cheap), self.limit
        )
        # Marginals of rankings without replacement cost more than all the rest; ones replace them.
        weights = {name: weights.get(name, weights[MODELS]) for name in self.members}
        q = np.where(batch.action >= 0, self.nuisances.level, 0.0)
        delta = batch.position_weights * (batch.reward - q)
        M = len(self.nuisances.shares)
        means = np.tile(q @ batch.position_weights, (M, 1))
        look = Prediction(q, q, delta, means, np.broadcast_to(delta, (M, *delta.shape)))
        shown = batch.action >= 0
        squares = {name: float(((weights[name] * shown) ** 2).sum()) for name in self.members[2:]}
        return *self._contributions(batch, weights, look), squares

    def _contributions(
        self, batch: RankingLog, weights: dict[str, Floats], look: Prediction
    ) -> tuple[Floats, Floats]:
        """Return rewards and members at each position (K, 1 + J, n), and row totals (T, n)."""
        error, columns = batch.reward - look.q, np.empty((batch.K, 1 + len(weights), batch.n))
        columns[:, 0] = batch.reward.T
        for j, w in enumerate(weights.values()):
            np.add(look.mean.T, (w * error).T, out=columns[:, 1 + j])
        return columns, self._totals(batch, weights, look)

    def _totals(self, batch: RankingLog, weights: dict[str, Floats], look: Prediction) -> Floats:
        """Return row totals (T, n): the logged reward, the members, and the first member by each model.

        Own-position weights multiply surprises along the click history, which vary less than residuals.
        Richer weights multiply residuals, for which they are exact.
        """
        alpha = batch.position_weights
        base, mean, residual = (
            batch.reward @ alpha,
            look.mean @ alpha,
            alpha * (batch.reward - look.q),
        )
        rows = [base]
        for name, w in weights.items():
            rows.append(mean + np.einsum("nk,nk->n", w, look.delta if name == "iips" else residual))
        # A product with ones sums short rows ten times as fast as `sum` does.
        every = np.ones(batch.K)
        rows += [m + e @ every for m, e in zip(look.means, look.errors, strict=True)]
        return np.stack(rows)

    def _by_fold(self, view: View, weights: dict[str, Floats]) -> Floats:
        """Return the members' totals by each fit (F, J), summed over some rows, for the jackknife."""
        out = np.zeros((self.nuisances.folds, len(self.members)))
        # Members without models stay at zero, because no fit changes them.
        for fold in range(len(out) if view.batch.n else 0):
            totals = self._totals(view.batch, weights, self.nuisances.predict(view, fold))
            out[fold, : len(weights)] = totals[1 : 1 + len(weights)].sum(axis=1)
        return out

    def _controls(self, view: View) -> Floats:
        """Return the controls (w_l - 1) and (w_l - 1) x_j (H, n), of mean zero, where there is no model."""
        if self.modelled:
            return np.empty((0, view.batch.n))
        ratios = view.ratios
        smallest = {"position": ratios.position, "prefix": ratios.prefix, "joint": ratios.full}
        w = next(make for kind, make in smallest.items() if kind in ratios.supports)()
        excess, most = (w - 1.0).T, DEFAULTS.controls
        if len(excess) > most:  # long rankings: one control for all positions
            excess = excess.sum(axis=0, keepdims=True)
        x = np.nan_to_num(context_columns(view.batch)).T[: max(most // len(excess) - 1, 0)]
        return np.ascontiguousarray(np.concatenate([excess, *(excess * row for row in x)], axis=0))

    def decision(self, state: AutoState) -> tuple[Summary, Decision]:
        """Return means and covariances, and the decision of the rule."""
        like, follows = self.whole or (None, None)
        models = self.nuisances
        summary = summarise(state, self.members, modelled=self.modelled, like=like)
        # All closed forms count in the models' disagreement.
        trusted = models.shares >= DEFAULTS.least_share if models.draws else None
        return summary, decide(summary, self.allowance, models.unknown, trusted, follows)

    def within(self, state: AutoState) -> "AutoPlan":
        """Return the plan for groups of rows: their estimates are averages to that of all rows."""
        plan = copy(self)
        plan.whole = self.decision(state)
        return plan

    def finish(self, state: AutoState) -> Estimate:
        """Return the estimate."""
        summary, decision = self.decision(state)
        details = {"regression": self.nuisances.details} if self.modelled else {}
        return estimate_from(state, summary, decision, self.workspace, self.flags, details)

    def combination(self, state: AutoState) -> Floats:
        """Return how the interval's centre combines the row totals of members and aimed step."""
        summary, decision = self.decision(state)
        return decision.centre @ summary.terms


@dataclass(frozen=True, eq=False)
class Auto(Estimator):
    """The average of several cross-fitted reward models, corrected by weights as far as the log supports them.

    The estimate is shrunk towards the models, its interval is not, so that the two need not have the
    same centre (`docs/explanation/auto.md`). The interval allows for a stated bias: `allowance` sets it, in the
    unit of the value; by default it follows from how far the models disagree and how much the target
    changes. Without whole distributions or policies to draw from:
    weights and mean-zero controls only.

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

    def plan(self, workspace: Workspace) -> Plan[AutoState]:
        """Fit what the log allows and return the pass."""
        nuisances, flags = nuisances_for(workspace)
        return AutoPlan(workspace, nuisances, flags, self.allowance)
