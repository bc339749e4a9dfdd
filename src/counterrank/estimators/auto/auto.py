"""Auto: the recommended estimator, chosen from the log alone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import EstimatorError
from counterrank.estimators.auto.finish import estimate_from
from counterrank.estimators.auto.plan import Nuisances, column_names, nuisances_of, orders_for, partial_state
from counterrank.estimators.auto.routes import Route, model_route, route_for
from counterrank.estimators.auto.rule import Decision, decide, unit
from counterrank.estimators.auto.state import AutoState, Summary, summarise
from counterrank.estimators.base import Estimator, Part, Plan, View, Workspace
from counterrank.estimators.estimate import Estimate
from counterrank.estimators.rewards import reward_model, trained
from counterrank.log import LOGGING
from counterrank.models import CHOSEN, can_sample, fit_riesz, fits_in_memory, has_distribution
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]


class AutoPlan(Plan[AutoState]):
    """One additive pass over every member, then a decision."""

    def __init__(self, workspace: Workspace, nuisances: Nuisances, route: Route, flags: tuple[str, ...]) -> None:
        self.key = (workspace.target, "auto")
        self.workspace = workspace
        self.nuisances = nuisances
        self.route = route
        self.flags = flags

    def partial(self, view: View) -> Part[AutoState]:
        """Sum every member's contributions."""
        # Weights too large for a number are reported at the end.
        with np.errstate(over="ignore", invalid="ignore"):
            state, totals = partial_state(view, self.nuisances, self.route, by_unit=self.workspace.by_unit)
        return Part(state, totals)

    def decision(self, state: AutoState) -> tuple[Summary, Decision]:
        """Return means, covariances and what follows from them."""
        if not (np.isfinite(state.second).all() and np.isfinite(state.total).all()):
            raise EstimatorError(
                "'auto' overflows: squares of its contributions are no numbers any more. Look for logging propensities "
                "near zero or rewards of enormous size"
            )
        K = state.first.shape[0]
        names = column_names(K) if self.route.factored else self.route.columns
        orders = orders_for(K) if self.route.factored else np.empty(0, dtype=np.int64)
        summary = summarise(state, names, orders)
        return summary, decide(summary, self.route)

    def finish(self, state: AutoState) -> Estimate:
        """Return value, honest interval, positions, lift, and what was chosen."""
        summary, decision = self.decision(state)
        return estimate_from(state, summary, decision, self)

    def combination(self, state: AutoState) -> Floats:
        """Return the weights of the members in the estimate."""
        return self.decision(state)[1].weights

    def error_combination(self, state: AutoState) -> Floats:
        """Return the member the interval rests on: the estimate itself does not know the error of its choice."""
        summary, decision = self.decision(state)
        return unit(summary, decision.base)


@dataclass(frozen=True, eq=False)
class Auto(Estimator):
    """A doubly robust estimate at the interaction order that the log can support, with an honest interval.

    Members: a reward model's mean (DM), DM + weights of order 1, 2, 3 and K on its errors, and DM + projected
    weights, which balance what the model can see (`docs/auto.md`). The estimate starts at order 1 and moves towards
    the others where the data ask for it; the interval is the shortest of several, each with an allowance for the
    interactions its member cannot see. Without whole distributions: weights and mean-zero controls only.

    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> round(Auto().estimate(log, "new").value, 6)
    2.0
    """

    name: str = "auto"

    def plan(self, workspace: Workspace) -> Plan[AutoState]:
        """Fit what the log allows and return the pass."""
        first, target = workspace.first, workspace.target
        ratios = ratios_of(first, target)
        factored = ratios.kind == "factored"
        whole = has_distribution(first, target) and has_distribution(first, LOGGING)
        small = fits_in_memory(first)
        if factored and whole and small:
            nuisances = self._nuisances(workspace)
            assert nuisances.model is not None
            return AutoPlan(workspace, nuisances, model_route(str(nuisances.model.details.get("model", ""))), ())
        if not factored and small and can_sample(first, target):
            model = reward_model(workspace)
            assert isinstance(model, CHOSEN)
            flags = (_DRAWN.format(kind=ratios.kind, draws=model.draws),)
            return AutoPlan(workspace, Nuisances(model), route_for("masks", ratios, model=True), flags)
        flags = (_why(workspace, factored=factored, whole=whole, kind=ratios.kind),)
        route = route_for("weights" if factored else "masks", ratios)
        return AutoPlan(workspace, Nuisances(None), route, flags)

    def _nuisances(self, workspace: Workspace) -> Nuisances:
        training = trained(workspace)
        model = reward_model(workspace)
        assert isinstance(model, CHOSEN)
        riesz = workspace.once(("riesz", workspace.target), lambda: fit_riesz(training.prepared))
        return nuisances_of(model, riesz, training.layout)


_DRAWN = (
    "drawn-mean: positions depend on each other ('{kind}' propensities), so auto uses no interaction orders, and the "
    "reward model's mean under the target is an average over {draws} drawn rankings per row, whose error is inside the "
    "standard error"
)


def _why(workspace: Workspace, *, factored: bool, whole: bool, kind: str) -> str:
    target = workspace.target
    if not factored:
        return (
            f"weights-only: positions depend on each other ('{kind}' propensities), so auto chooses among the weights "
            "these support and uses no reward model and no interaction orders"
        )
    if not whole:
        return (
            "weights-only: the log has only the shown items' probabilities, so auto uses weights and mean-zero "
            f"controls; with 'propensity_dist' and '{target}_dist' columns (or policies) it could use a reward model "
            "and would usually be several times more exact"
        )
    return (
        f"weights-only: {workspace.first.K} positions and {workspace.first.n_actions} actions are too many for the "
        "closed-form reward model, so auto uses weights and mean-zero controls; group the actions (Marginalised) or "
        "use DR(model='boosting')"
    )
