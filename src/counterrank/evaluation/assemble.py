"""From sums to the finished Evaluation: segments, diagnostics, verdict, planning, provenance."""

import platform
from collections.abc import Hashable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from counterrank._version import __version__
from counterrank.diagnostics import weights
from counterrank.estimators.estimate import Estimate
from counterrank.evaluation.options import Options
from counterrank.evaluation.result import Evaluation
from counterrank.evaluation.state import PassState
from counterrank.evaluation.verdict import verdict
from counterrank.moments import Moments
from counterrank.source import Source

if TYPE_CHECKING:
    from counterrank.evaluation.run import Job


def assemble(
    source: Source, options: Options, estimates: tuple[Estimate, ...], total: PassState, *,
    recommended: dict[str, str], jobs: "Sequence[Job]", groups: Sequence[Hashable], main: "Sequence[list[Job]]",
    skipped: tuple[dict[str, str], ...], comparisons: tuple[dict[str, Any], ...],
) -> Evaluation:  # fmt: skip
    """Return the finished evaluation."""
    first = source.first
    logged = float(total.totals.sums[0] / total.totals.n)
    diagnostics = {
        f"{e.target}/{e.estimator}": weight_diagnostics(e.moments) for e in estimates if e.moments is not None
    }
    return Evaluation(
        log={
            "n": total.totals.n,
            "K": first.K,
            "fingerprint": f"{total.fingerprint:016x}",
            "value": logged,
            "stderr": float(np.sqrt(total.totals.variance(np.eye(len(total.totals.sums))[0]))),
            "position_weights": first.position_weights,
        },
        estimates=estimates,
        recommended=recommended,
        comparisons=comparisons,
        segments=_segments(total, main, recommended),
        diagnostics=diagnostics,
        behavior=_behavior(jobs),
        verdict=verdict(estimates, recommended, logged),
        skipped=skipped,
        provenance={
            "counterrank": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "options": asdict(options),
        },
    )


def weight_diagnostics(moments: Moments) -> dict[str, Any]:
    """Return the diagnostics of one set of weights as plain data."""
    test = weights.mean_weight_test(moments)
    used = moments.histogram[0] > 0
    edges = weights.bin_edges()
    above = np.cumsum(moments.histogram[0][::-1])[::-1] / moments.n
    return {
        "ess": weights.effective_rows(moments),
        "ess_by_position": weights.effective_rows_by_position(moments),
        "tail_index": weights.tail_index(moments),
        "largest_share": weights.largest_weight_share(moments),
        "rows_carrying_90": weights.share_of_rows_carrying(moments, 0.9),
        "rows_carrying_50": weights.share_of_rows_carrying(moments, 0.5),
        "mean_weight": test.mean,
        "mean_weight_z": test.z,
        "mean_weight_p": test.p_value,
        "survival": {"weight": edges[used], "share": above[used]},
    }


def _segments(total: PassState, main: "Sequence[list[Job]]", recommended: dict[str, str]) -> tuple[dict[str, Any], ...]:
    rows = []
    for (column, label), states in sorted(total.segments.items()):
        for group, state in zip(main, states, strict=True):
            job = next(job for job in group if recommended[job.target] == job.name)
            found = job.plan.finish(state)
            rows.append(
                {
                    "column": column, "label": label, "target": job.target, "estimator": job.name, "n": found.n,
                    "value": found.value, "stderr": found.stderr, "low": found.low, "high": found.high,
                    "ess": found.ess, "flags": list(found.flags),
                    "lift": {"value": found.lift.value, "stderr": found.lift.stderr,
                             "low": found.lift.low, "high": found.lift.high},
                }
            )  # fmt: skip
    return tuple(rows)


def _behavior(jobs: "Sequence[Job]") -> dict[str, Any] | None:
    for job in jobs:
        model = getattr(job.plan, "behavior_model", None)
        if model is not None and hasattr(model, "describe"):
            described: dict[str, Any] = model.describe()
            return described
    return None
