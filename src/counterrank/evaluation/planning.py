"""Planning and sensitivity of each target's recommended estimate."""

from typing import Any

from counterrank.diagnostics import plan_for, stderr_ratios
from counterrank.diagnostics import sensitivity as model
from counterrank.estimators import Estimate, View
from counterrank.evaluation.agreement import basis_of
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.options import Options
from counterrank.log import RankingLog


def planning(
    chosen: Estimate, probe: RankingLog, options: Options, *, logged: float, logged_stderr: float
) -> dict[str, Any]:
    """Return detectable lifts, rows needed, A/B traffic and the gain from exploration."""
    plan = plan_for(
        chosen.n, chosen.lift.stderr, logged=logged, logged_stderr=logged_stderr, level=options.level,
        practical=options.practical,
    )  # fmt: skip
    return {**plan, "exploration": stderr_ratios(probe, chosen.target, basis_of(chosen))}


def sensitivity(chosen: Estimate, job: Job, probe: RankingLog, *, logged: float) -> dict[str, Any] | None:
    """Return how the value's range grows with the error of the propensities; None without weights by position."""
    contributions = getattr(job.plan, "contributions", None)
    if contributions is None:
        return None
    view = View(probe, chosen.target)
    weights = contributions(view)[1]
    return model.curve(weights, view.reward, probe.position_weights, value=chosen.value, logged=logged)
