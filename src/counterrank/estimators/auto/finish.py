"""From a decision to an `Estimate`: value, interval, positions, lift, and a plain account of both."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.members import MODELS
from counterrank.estimators.auto.rule import Decision, stderr
from counterrank.estimators.auto.settings import SETTINGS
from counterrank.estimators.auto.state import AutoState, Summary
from counterrank.estimators.base import Estimate, Interval, Lift, PositionValue, Workspace
from counterrank.estimators.names import order_path
from counterrank.inference import bias_aware_half

Floats = NDArray[np.float64]


def estimate_from(
    state: AutoState, summary: Summary, decision: Decision, workspace: Workspace, flags: tuple[str, ...],
    details: dict[str, Any],
) -> Estimate:  # fmt: skip
    """Return the estimate with its bias-aware interval."""
    value, se = _value(summary, decision), stderr(summary, decision.weights)

    def interval_at(level: float) -> Interval:
        half = bias_aware_half(se, decision.allowance, level, max(summary.units - 1, 1))
        return value - half, value + half

    found = Estimate(
        target=workspace.target,
        estimator="auto",
        value=value,
        stderr=se,
        by_position=_positions(summary, decision, value),
        ess=float(state.mean_weight[0] ** 2 / state.mean_weight[1])
        if state.mean_weight[1] > 0
        else 0.0,
        n=state.n,
        level=workspace.level,
        lift=_lift(summary, decision, value, workspace.level),
        flags=(*flags, *_flags(summary, decision)),
        details={**_details(summary, decision), **details},
        interval_at=interval_at,
        allowance=decision.allowance,
        basis=decision.basis,
    )
    reason = _unknown(summary)
    return found.without_evidence(reason) if reason else found


def _unknown(summary: Summary) -> str:
    """Return why the log holds no evidence on the target, or nothing."""
    if not len(summary.models) and not summary.seen[0]:
        return "no logged ranking has a positive weight under the target"
    if summary.alone > SETTINGS["reach"].value:
        return (
            f"{summary.alone:.0%} of what the target shows was never or hardly ever shown at its "
            "position; a reward model alone would speak for it. Log more exploration, or choose a "
            "target closer to the logger"
        )
    return ""


def _value(summary: Summary, decision: Decision) -> float:
    return float(decision.weights @ summary.value[1 : 1 + len(summary.members)])


def _positions(summary: Summary, decision: Decision, value: float) -> tuple[PositionValue, ...]:
    """Return V_k; what histories of clicks add to the total is spread over positions by their
    weights.
    """
    alpha, w = summary.alpha, np.concatenate([[0.0], decision.weights])
    values = summary.at @ w
    values = values + (value - float(alpha @ values)) * alpha / max(float(alpha @ alpha), 1e-300)
    errors = np.sqrt(np.maximum(np.einsum("c,kcd,d->k", w, summary.at_covariance, w), 0.0))
    return tuple(PositionValue(float(v), float(e)) for v, e in zip(values, errors, strict=True))


def _lift(summary: Summary, decision: Decision, value: float, level: float) -> Lift:
    """Return the paired difference to the logger, and its ratio, with the same allowance for bias."""
    base, df = float(summary.value[0]), max(summary.units - 1, 1)
    T = 1 + len(summary.members)
    covariance = summary.covariance[:T, :T]

    def ends(centre: float, gradient: Floats, allowance: float) -> tuple[float, float, float]:
        se = float(np.sqrt(max(float(gradient @ covariance @ gradient), 0.0)))
        half = bias_aware_half(se, allowance, level, df)
        return se, centre - half, centre + half

    paired = np.concatenate([[-1.0], decision.weights])
    se, low, high = ends(value - base, paired, decision.allowance)
    relative = (np.nan, np.nan, np.nan)
    if base > 0:
        # d(V / b) = dV / b - V db / b^2, as for every estimator.
        ratio = np.concatenate([[-value / base**2], decision.weights / base])
        relative = (value / base - 1, *ends(value / base - 1, ratio, decision.allowance / base)[1:])
    own = _positions(summary, decision, value)
    spread = np.sqrt(
        np.maximum(np.einsum("c,kcd,d->k", paired, summary.at_covariance, paired), 0.0)
    )
    by_position = tuple(
        PositionValue(one.value - float(r), float(e))
        for one, r, e in zip(own, summary.at[:, 0], spread, strict=True)
    )
    return Lift(value - base, se, low, high, by_position, *relative)


def _flags(summary: Summary, decision: Decision) -> tuple[str, ...]:
    found = []
    missing = float(summary.unsupported.max(initial=0.0))
    if missing > 0:
        found.append(
            f"no-support: {missing:.1%} of the target's rankings hold what the logger never shows "
            "there; the models alone speak for them"
        )
    if summary.alone > SETTINGS["told"].value:
        found.append(
            f"model-alone: {summary.alone:.0%} of what the target shows has too little weight in "
            "the log and rests on the reward models alone"
        )
    if decision.allowance > 0:
        found.append(
            f"bias-allowance: the interval allows for a bias of {decision.allowance:.3g} ("
            + ", ".join(f"{name}: {part:.2g}" for name, part in decision.parts.items() if part > 0)
            + "; docs/auto.md)"
        )
    return tuple(found)


def _details(summary: Summary, decision: Decision) -> dict[str, Any]:
    J = len(summary.members)
    errors = np.sqrt(np.maximum(np.diag(summary.covariance), 0.0))
    table: list[dict[str, Any]] = [
        {"member": name, "value": float(summary.value[1 + j]), "stderr": float(errors[1 + j]),
         "share": float(decision.weights[j]), "tail_inflation": float(summary.inflation[j]),
         "unsupported": float(summary.unsupported[j])}
        for j, name in enumerate(summary.members)
    ]  # fmt: skip
    return {
        "members": table,
        "combination": {m["member"]: m["share"] for m in table if abs(m["share"]) > 1e-9},
        "models": [float(v) for v in summary.value[1 + J :]],
        "interval_base": decision.basis,
        "bias_allowance": decision.allowance,
        "allowance_from": decision.parts,
        "model_alone_share": summary.alone,
        "order_path": _order_path(summary, table),
        "why": _why(decision),
        "steps": [
            {"towards": s.member, "difference": s.difference, "difference_stderr": s.stderr, "share": s.share,
             "allowance": s.after}
            for s in decision.steps
        ],
    }  # fmt: skip


def _order_path(summary: Summary, table: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return value and standard error by interaction order; dependent positions have no orders but
    the first.
    """
    if "rips" in summary.members:
        return []
    by_name = {row["member"]: row for row in table}
    weighed = [name for name in summary.members if name != MODELS]
    path = order_path(weighed, len(summary.alpha))
    return [
        {"order": m, "value": by_name[name]["value"], "stderr": by_name[name]["stderr"]}
        for m, name in path
    ]


def _why(decision: Decision) -> str:
    moved = [f"{step.member} ({step.share:.0%})" for step in decision.steps if step.share >= 0.005]
    way = "moved towards " + ", then ".join(moved) if moved else "no richer weights moved it"
    return (
        f"{way}; the interval rests on '{decision.basis}' and allows for a bias of "
        f"{decision.allowance:.3g}"
    )
