"""How `auto` decides: a pure function of means and covariances."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.routes import Route
from counterrank.estimators.auto.state import Summary
from counterrank.inference.normal import critical_value

Floats = NDArray[np.float64]

#: The level at which the shortest interval is looked for; others use the same member.
_LEVEL = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The chosen combination (C,) of members, and the interval's centre, standard error and allowance for bias."""

    weights: Floats
    base: str
    base_weights: Floats
    anchor: float
    allowance: float
    moves: tuple[tuple[str, float], ...]


def decide(summary: Summary, route: Route) -> Decision:
    """Return the combination and what its interval rests on."""
    weights, after_first, moves = _walk(summary, route)
    size = anchor(summary, route)
    z = critical_value(_LEVEL)
    best, base, allowance = np.inf, "", 0.0
    for name, share in route.bases:
        member = _resolve(summary, name)
        if member is None:
            continue
        half = z * stderr(summary, unit(summary, member)) + share * size
        if half < best:
            best, base, allowance = half, member, share * size
    centre = after_first if base == route.bases[0][0] else unit(summary, base)
    return Decision(weights, base, centre, size, allowance, moves)


def _walk(summary: Summary, route: Route) -> tuple[Floats, Floats, tuple[tuple[str, float], ...]]:
    """Return the final combination, the one after the first step, and how far each step went."""
    start = _resolve(summary, route.start)
    assert start is not None
    weights = unit(summary, start)
    after_first, moves = weights, []
    allowed = _shorter_than_all_later(summary, route)
    for j, (name, kappa) in enumerate(route.steps):
        member = _resolve(summary, name)
        if member is None or (j > 0 and name not in allowed):
            continue
        step = unit(summary, member) - weights
        difference, spread = float(step @ summary.value), float(step @ summary.covariance @ step)
        factor = max(0.0, 1.0 - kappa * spread / difference**2) if difference != 0 else 0.0
        weights = weights + factor * step
        if j == 0:
            after_first = weights
        moves.append((member, factor))
    return weights, after_first, tuple(moves)


def _shorter_than_all_later(summary: Summary, route: Route) -> set[str]:
    """Return the steps with less variance than every later one: the others cannot be worth moving to."""
    names = [name for name, _ in route.steps if _resolve(summary, name) is not None]
    variance = [stderr(summary, unit(summary, str(_resolve(summary, name)))) for name in names]
    return {name for j, name in enumerate(names) if all(variance[j] < later for later in variance[j + 1 :])}


def anchor(summary: Summary, route: Route) -> float:
    """Return A = sum_k alpha_k |V_k - IIPS_k| + half of sum_k alpha_k |V_k - what the logger earned at k|."""
    at = summary.by_position
    effect = at[:, summary.index(route.effect)]
    cross = np.abs(effect - at[:, summary.index(route.simple)])
    policy = np.abs(effect - at[:, summary.index("logger")])
    return float(np.abs(summary.alpha) @ (cross + 0.5 * policy))


def unit(summary: Summary, name: str) -> Floats:
    """Return the combination that is one member alone."""
    out = np.zeros(len(summary.names))
    out[summary.index(name)] = 1.0
    return out


def stderr(summary: Summary, weights: Floats) -> float:
    """Return the standard error of a combination."""
    return float(np.sqrt(max(float(weights @ summary.covariance @ weights), 0.0)))


def _resolve(summary: Summary, name: str) -> str | None:
    """Return the member's name on this log; for one position, order 1 is the whole product."""
    if name in summary.names:
        return name
    return "dr-ips" if name == "dr-order-1" else None
