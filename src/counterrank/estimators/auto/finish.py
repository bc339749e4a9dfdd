"""From a decision to an `Estimate`: value, interval, positions, lift, and a plain account of the choice."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.rule import Decision, Standing, stderr, unit
from counterrank.estimators.auto.state import AutoState, Summary
from counterrank.estimators.estimate import Estimate, Interval, Lift, PositionValue
from counterrank.inference import critical_value

if TYPE_CHECKING:
    from counterrank.estimators.auto.auto import AutoPlan

Floats = NDArray[np.float64]


def estimate_from(state: AutoState, summary: Summary, decision: Decision, plan: "AutoPlan") -> Estimate:
    """Return the estimate; the interval is centred on its base and always contains the value."""
    level = plan.workspace.level
    value = _inside(float(decision.weights @ summary.value), _interval(summary, decision, 0.95))
    return Estimate(
        target=plan.workspace.target,
        estimator="auto",
        value=value,
        stderr=stderr(summary, unit(summary, decision.base)),
        by_position=_positions(summary, decision, value),
        ess=float(state.weights[0] ** 2 / state.weights[1]) if state.weights[1] > 0 else 0.0,
        n=state.n,
        level=level,
        lift=_lift(summary, decision, value, level),
        flags=(*plan.flags, *_flags(state, decision)),
        details=_details(summary, decision, plan),
        interval_at=lambda wanted: _around(value, _interval(summary, decision, wanted)),
        allowance=decision.allowance,
        basis=decision.base,
    )


def _interval(summary: Summary, decision: Decision, level: float) -> Interval:
    """Return centre -/+ (t se + allowance); t has units - 1 degrees of freedom."""
    se = stderr(summary, unit(summary, decision.base))
    half = critical_value(level, max(summary.units - 1, 1)) * se + decision.allowance
    centre = float(decision.centre @ summary.value)
    return centre - half, centre + half


def _inside(value: float, interval: Interval) -> float:
    return float(np.clip(value, *interval))


def _around(value: float, interval: Interval) -> Interval:
    """At low levels the interval could miss the value it belongs to."""
    return min(interval[0], value), max(interval[1], value)


def _positions(summary: Summary, decision: Decision, value: float) -> tuple[PositionValue, ...]:
    """Return V_k; a clipped total is spread over the positions in proportion to their weights."""
    values = summary.by_position @ decision.weights
    gap = value - float(summary.alpha @ values)
    values = values + gap * summary.alpha / float(summary.alpha @ summary.alpha)
    base = summary.index(decision.base)
    errors = np.sqrt(np.maximum(summary.position_covariance[:, base, base], 0.0))
    return tuple(PositionValue(float(v), float(e)) for v, e in zip(values, errors, strict=True))


def _lift(summary: Summary, decision: Decision, value: float, level: float) -> Lift:
    """Return the paired difference to the logger, with the same allowance for bias."""
    logger = summary.index("logger")
    base = float(summary.value[logger])
    paired = unit(summary, decision.base) - unit(summary, "logger")
    t = critical_value(level, max(summary.units - 1, 1))
    centre = float(decision.centre @ summary.value)
    half = t * stderr(summary, paired) + decision.allowance
    low, high = _around(value - base, (centre - base - half, centre - base + half))
    relative = (np.nan, np.nan, np.nan)
    if base > 0:
        ratio = unit(summary, decision.base) / base - unit(summary, "logger") * centre / base**2
        spread = t * stderr(summary, ratio) + decision.allowance / base
        around = _around(value / base - 1, (centre / base - 1 - spread, centre / base - 1 + spread))
        relative = (value / base - 1, *around)
    positions = _lift_positions(summary, decision, logger)
    return Lift(value - base, stderr(summary, paired), low, high, positions, *relative)


def _lift_positions(summary: Summary, decision: Decision, logger: int) -> tuple[PositionValue, ...]:
    step = decision.weights - np.eye(len(summary.names))[logger]
    values = summary.by_position @ step
    paired = unit(summary, decision.base) - np.eye(len(summary.names))[logger]
    spread = np.einsum("c,kcd,d->k", paired, summary.position_covariance, paired)
    return tuple(
        PositionValue(float(v), float(e)) for v, e in zip(values, np.sqrt(np.maximum(spread, 0.0)), strict=True)
    )


def _flags(state: AutoState, decision: Decision) -> tuple[str, ...]:
    found = []
    if state.unsupported:
        found.append(
            f"no-support: in {state.unsupported} of {state.n} rows the target shows items the logger never does there; "
            "the model alone speaks for them"
        )
    if decision.allowance > 0:
        found.append(
            f"bias-allowance: the interval includes +-{decision.allowance:.3g} for interactions that '{decision.base}' "
            "cannot see (docs/auto.md)"
        )
    return tuple(found)


def _details(summary: Summary, decision: Decision, plan: "AutoPlan") -> dict[str, Any]:
    used = {name: float(w) for name, w in zip(summary.names, decision.weights, strict=True) if abs(w) > 1e-9}
    path = _order_path(summary)
    details: dict[str, Any] = {
        "combination": used,
        "moves": [{"towards": name, "factor": factor} for name, factor in decision.moves],
        "interval_base": decision.base,
        "sampling_stderr": stderr(summary, unit(summary, decision.base)),
        "bias_allowance": decision.allowance,
        "interaction_size": decision.anchor,
        "order_path": path,
        "disagreement": _disagreement(path),
        "masks": [_mask_details(summary, standing, decision) for standing in decision.masked],
        "why": _why(decision),
    }
    if plan.nuisances.model is not None:
        details["regression"] = plan.nuisances.model.details
        details["projected_weights"] = list(plan.nuisances.designs)
    return details


def _mask_details(summary: Summary, standing: Standing, decision: Decision) -> dict[str, Any]:
    """Return one mask x order: its value, how it compares with the whole ranking's, and what became of it."""
    own, name = standing.candidate, standing.candidate.name
    moved = dict(decision.moves).get(name, 0.0)
    used = [text for text, held in (("estimate", moved > 0), ("interval", decision.base == name)) if held]
    return {
        "member": name,
        "mask": own.mask,
        "order": own.order,
        "value": float(summary.value[summary.index(name)]),
        "stderr": stderr(summary, unit(summary, name)),
        "stands_for": None if own.witness else own.twin,
        "difference": standing.difference,
        "difference_stderr": standing.stderr,
        "contradicted": standing.contradicted,
        "outside_allowance": standing.hidden,
        "bias_allowance": standing.allowance,
        "used_in": used,
    }


def _order_path(summary: Summary) -> list[dict[str, float]]:
    """Return value and standard error by interaction order; dependent positions have no orders but the full one."""
    K = summary.by_position.shape[0]
    found = []
    for name in summary.names:
        if name.startswith("dr-order-"):
            found.append((int(name.removeprefix("dr-order-")), name))
    last = "dr-ips" if "dr-ips" in summary.names else "ips"
    if last in summary.names:
        found.append((K, last))
    return [
        {"order": m, "value": float(summary.value[summary.index(n)]), "stderr": stderr(summary, unit(summary, n))}
        for m, n in found
    ]


def _disagreement(path: list[dict[str, float]]) -> float | None:
    """Return the largest |V_m - V_1| in standard errors of order m: above 2 or 3, low orders miss something."""
    if len(path) < 2:
        return None
    first = path[0]["value"]
    return float(max(abs(p["value"] - first) / p["stderr"] if p["stderr"] > 0 else 0.0 for p in path[1:]))


def _why(decision: Decision) -> str:
    moved = [f"{name} ({factor:.0%})" for name, factor in decision.moves if factor >= 0.005]
    way = "moved towards " + ", then ".join(moved) if moved else "no step away from the start was supported by the data"
    against = sorted({s.candidate.mask for s in decision.masked if s.contradicted and not s.candidate.witness})
    masks = f"; the log contradicts the masks {', '.join(against)}" if against else ""
    return (
        f"{way}; the shortest interval, with an allowance for interactions it cannot see, rests on '{decision.base}'"
        f"{masks}"
    )
