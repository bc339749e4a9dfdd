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

from copy import copy
from dataclasses import dataclass
from functools import reduce

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.encoding import context_columns
from counterrank.data.log import LOGGING, RankingLog
from counterrank.errors import ConfigError, EstimatorError
from counterrank.estimators.auto.defaults import DEFAULTS
from counterrank.estimators.auto.nuisances import SUMS, aim, nuisances_for
from counterrank.estimators.auto.rule import (
    MODELS,
    AutoState,
    Decision,
    Summary,
    decide,
    estimate_from,
    squares_of,
    summarise,
)
from counterrank.estimators.base import Estimate, Estimator, Part, Plan, View, Workspace
from counterrank.estimators.crossfit import Prediction, Predictions, drawn_once
from counterrank.estimators.weights.ratios import Ratios, excess_squares
from counterrank.models import Stream, whole_distribution
from counterrank.policies import Policy, RowRandom
from counterrank.statistics import sums_of

#: Interaction orders between the own item and the whole ranking. Higher orders are too noisy at the
#: usual sizes of logs.
ORDERS = (2, 3)
#: Longer rankings have no orders: products of so many ratios are zero or overflow.
LONGEST = 1024


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

    # Weights too large for a number are reported at the end.
    @np.errstate(over="ignore", invalid="ignore")
    def partial(self, view: View) -> Part[AutoState]:
        """Sum every member's contributions."""
        batch = view.batch
        # The rows that models are asked about, drawn by their numbers; None for all.
        rows = None
        if self.rate < 1.0:
            drawn = RowRandom(batch.numbers, [self.workspace.seed, Stream.ASKED_ROWS])
            rows = np.flatnonzero(drawn.random(batch.n) < self.rate)
        near = view if rows is None else view.part(("asked", self.rate), rows)
        look = self.nuisances.predict(near)
        members = self.members if rows is None else self.members[:2]
        key = ("auto", members, self.limit)
        weights, sums, reached = near.once(key, lambda: self._weighed(near, members))
        columns, totals = self._contributions(near.batch, weights, look)
        residual = (near.batch.reward - look.q) @ near.batch.position_weights
        aims = aim(self.nuisances, near, residual)
        controls = view.once(("controls", self.modelled), lambda: self._controls(view))
        if rows is not None:
            exact = columns, totals
            columns, totals, squares = self._cheap_phase(view)
            sums = sums | squares
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
            first=columns.sum(axis=2),
            second=columns @ columns.swapaxes(1, 2),
            sums=sums_of([*totals, *aims, *controls], bucket),
            mixed=columns @ controls.T,
            square=np.array([sums[name] for name in self.members]),
            covered=reached,
            tails=tails,
            tail_rows=tail_rows,
            ratio=(view.ratios.rho**2).sum(axis=0) if view.ratios.kind == "factored" else np.zeros(0),
            folds=self._by_fold(part, {name: w[some] for name, w in weights.items()}),
            fold_rows=len(some),
            mean_weight=np.array([mean_weight.sum(), mean_weight @ mean_weight]) / self.rate,
            volume=np.zeros(batch.K) if look.volume is None else look.volume.sum(axis=0) / self.rate,
        )  # fmt: skip
        return Part(
            state,
            lambda: [*totals[1 : 1 + len(self.members)], *aims, *controls],
            lambda k: [*columns[k, 1:]],
        )

    def _weighed(
        self, view: View, members: tuple[str, ...]
    ) -> tuple[dict[str, Floats], dict[str, float], Floats]:
        """Return weights, the sums of their squares, and what they reach: the same for all rewards."""
        weights, shown = weights_of(view, members, self.limit), view.batch.action >= 0
        squares = {name: float(((w * shown) ** 2).sum()) / self.rate for name, w in weights.items()}
        return weights, squares, covered(weights.get("iips"), view.ratios, self.limit) / self.rate

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
        total = q @ batch.position_weights + delta.sum(axis=1)
        look = Prediction(q, q, delta, np.tile(total, (len(self.nuisances.shares), 1)))
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
        return np.stack([*rows, *look.totals])

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
        summary = summarise(
            state,
            self.members,
            self.workspace.first.position_weights,
            modelled=self.modelled,
            aims=0 if models.span is None else SUMS,
            like=like,
        )
        # All closed forms count in the models' disagreement.
        trusted = models.shares >= DEFAULTS.least_share if models.draws else None
        return summary, decide(
            summary, self.allowance, models.unknown, trusted, follows, doubted=models.doubted
        )

    def within(self, state: AutoState) -> "AutoPlan":
        """Return the plan for groups of rows: their estimates are averages to that of all rows."""
        plan = copy(self)
        plan.whole = self.decision(state)
        return plan

    def finish(self, state: AutoState) -> Estimate:
        """Return the estimate."""
        summary, decision = self.decision(state)
        details = {"regression": self.nuisances.details} if self.modelled else {}
        return estimate_from(summary, decision, self.workspace, self.flags, details)

    def combination(self, state: AutoState) -> Floats:
        """Return how the interval's centre combines the row totals of members, aimed step and controls."""
        summary, decision = self.decision(state)
        return decision.centre @ summary.terms

    def controls(self, state: AutoState) -> int:
        """Return the number of controls."""
        return int(state.mixed.shape[2])

    def placed(self, state: AutoState) -> Floats:
        """Return how the centre of each position combines its members (K, J), without controls."""
        summary, decision = self.decision(state)
        # The aimed step is of the page: at a position its member is that of the models.
        own = decision.centre @ summary.terms[:, : len(self.members)]
        return np.tile(own, (len(state.first), 1))


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


def members_of(ratios: Ratios, *, modelled: bool) -> tuple[str, ...]:
    """Return the members that these ratios support, from the models to the weights of whole rankings."""
    K = ratios.rho.shape[1]
    found = ["iips"] if "position" in ratios.supports else []
    if ratios.batch.page_reward:
        pass  # The reward is that of the page, so no member lies between no item and all items.
    elif ratios.kind == "factored" and K <= LONGEST:
        # Orders need independent positions. Other logs have prefixes between own item and whole ranking.
        found += [f"order-{m}" for m in ORDERS if m < K]
    elif "prefix" in ratios.supports and K > 1 and not (modelled and found):
        # Not beside models: prefixes have a bias of their own, as people do not only read downwards.
        found.append("rips")
    if "joint" in ratios.supports and (K > 1 or "iips" not in found):
        found.append("ips")
    return tuple([MODELS, *found] if modelled and found else found)


def weights_of(view: View, members: tuple[str, ...], limit: float) -> dict[str, Floats]:
    """Return each member's weights (n, K), those of own positions cut at `limit`."""
    ratios, out = view.ratios, {}
    whole, orders = np.ones((view.batch.K, view.batch.K), bool), {f"order-{m}": m for m in ORDERS}
    for name in members:
        if name == MODELS:
            out[name] = np.ones(view.batch.action.shape)
        elif name == "iips":
            out[name] = np.minimum(ratios.position(), limit)
        elif name == "rips":
            out[name] = ratios.prefix()
        elif name == "ips":
            out[name] = ratios.full()
        else:
            out[name] = ratios.ordered(whole, orders[name])
    return out


def covered(weights: Floats | None, ratios: Ratios, limit: float) -> Floats:
    """Return sums and numbers of cut weights (2, 2): of single items, and of three neighbours.

    Whole weights have a mean of one; what is missing of it is the share of the target that the log
    does not reach. Neighbours stand for all threes of a page, and only independent positions have
    weights of them.
    """
    shown, out = ratios.batch.action >= 0, np.zeros((2, 2))
    if weights is not None:
        out[0] = (weights * shown).sum(), shown.sum()
    if ratios.kind == "factored":
        K = ratios.rho.shape[1]
        width = min(K, 3)
        near = [slice(j, K - width + 1 + j) for j in range(width)]
        # Padding stands at the end, so that threes of shown items end with a shown item.
        within = shown[:, near[-1]]
        product = reduce(np.multiply, [ratios.rho[:, at] for at in near])
        out[1] = (np.minimum(product, limit) * within).sum(), within.sum()
    return out


def tails_of(view: View, members: tuple[str, ...], draws: Ints | None) -> tuple[Floats, int]:
    """Return sums over rows, by member (2, J), and the number of rows; none where the policies do not say.

    They are the expected squares of weights, and the target's mass without support. Since
    E_0[w^2] = E_pi[w], the effect of heavy weights on a variance follows from the policies, whether or not
    such weights occurred: exactly from whole distributions, else from draws of the target.
    """
    batch = view.batch
    if batch.n:
        logging, wanted = (whole_distribution(batch, name) for name in (LOGGING, view.target))
        # Ratios come last in this condition, because they may cost more than all the rest.
        if logging is not None and wanted is not None and view.ratios.kind == "factored":
            return _exact(batch, members, logging, wanted), batch.n
        if draws is not None and isinstance(batch.propensity, Policy):
            return _drawn(view, members, draws), batch.n
    return np.zeros((2, len(members))), 0


def _exact(batch: RankingLog, members: tuple[str, ...], logging: Floats, wanted: Floats) -> Floats:
    square = squares_of(members, excess_squares(logging, wanted), batch.action >= 0)
    # Target mass on items that the logger never shows there: no member's weights reach it.
    missing = float(np.where(logging > 0, 0.0, wanted).sum(axis=2).mean(axis=1).sum())
    return np.stack([square, np.full(len(members), missing)])


def _drawn(view: View, members: tuple[str, ...], draws: Ints) -> Floats:
    """Return the same from rankings of the target (n, S, K), since E_0[w^2] = E_pi[w]."""
    batch, policy = view.batch, view.batch.target(view.target)
    assert isinstance(policy, Policy) and isinstance(batch.propensity, Policy)
    above, below = (own.prefix_log_probs(draws) for own in (policy, batch.propensity))
    shown, supported = draws >= 0, np.isfinite(below)
    ratio = np.exp(np.minimum(above - np.where(supported, below, 0.0), 700.0))
    prefix = np.where(shown & supported, ratio, 0.0)
    last = np.maximum(shown.sum(axis=2, keepdims=True) - 1, 0)
    whole, covered = (np.take_along_axis(each, last, axis=2) for each in (prefix, supported))
    # The weight of a whole ranking counts once for each position, as in the sums of other members.
    sums, missing = {"rips": prefix.sum(), "ips": (whole * shown).sum()}, (~covered).sum()
    found = [(sums[name], missing) if name in sums else (0.0, 0.0) for name in members]
    return np.asarray(np.array(found).T / draws.shape[1])


def add_second_phase(
    columns: Floats, totals: Floats, exact: tuple[Floats, Floats], rows: Ints, rate: float
) -> None:
    """Add the change that the models make on `rows`, divided by their rate, to cheap members of all rows.

    Columns (K, 1 + J, n) and totals (1 + J + M, n) are those with a mean as the model, `exact` those of the
    rows and of the members that models correct. Other members stay cheap: models would reduce their
    variance by a few percent, but reading a part of the rows only would multiply it.
    """
    J, kept = columns.shape[1] - 1, exact[0].shape[1]
    columns[:, :kept, rows] += (exact[0] - columns[:, :kept, rows]) / rate
    at = np.ix_([*range(kept), *range(1 + J, len(totals))], rows)
    totals[at] += (exact[1] - totals[at]) / rate


def calibration(earned: Floats, rows: Ints, rate: float) -> Floats:
    """Return the controls (I / p - 1) and (I / p - 1) y (2, n), y the logged reward of a row."""
    excess = np.full(len(earned), -1.0)
    excess[rows] += 1.0 / rate
    return np.stack([excess, excess * earned])
