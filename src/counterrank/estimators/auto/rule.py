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
#: Variances that d^2 must exceed before anything moves: in early steps, and in those after the first member's.
_EARLY, _LATER = 2.0, 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The combination (C,) of columns that is the estimate; the interval's base, centre and allowance for bias.

    `moves` (member, factor) tell how far the data moved the estimate towards each member.
    """

    weights: Floats
    moves: tuple[tuple[str, float], ...]
    base: str
    centre: Floats
    anchor: float
    allowance: float


def decide(summary: Summary, route: Route) -> Decision:
    """Return the combination and what its interval rests on."""
    size = anchor(summary, route)
    members = _present(summary, route)
    weights, moves = _walk(summary, route, members, size)
    z = critical_value(_LEVEL)
    halves = [z * stderr(summary, unit(summary, name)) + share * size for name, share in members]
    best = int(np.argmin(halves))
    name, share = members[best]
    # The first member's interval is the estimate's own; later ones are taken when they are shorter as they are.
    centre = weights if best == 0 else unit(summary, name)
    return Decision(weights, moves, name, centre, size, share * size)


def _walk(
    summary: Summary, route: Route, members: list[tuple[str, float]], size: float
) -> tuple[Floats, tuple[tuple[str, float], ...]]:
    """Return the combination after all steps, and the steps.

    With d the difference to the next member and s^2 its variance, a step goes max(0, 1 - kappa s^2/d^2) of the way
    (positive-part shrinkage). Those after the first member's go at most t^2/(t^2 + s^2) of it, where t is the bias
    that the present combination typically has: noisy members need strong evidence, and never get all.
    """
    start = resolve(summary, route.start)
    assert start is not None
    weights, share = unit(summary, start), members[0][1]
    moves = []
    early = [(found, share) for name in route.early if (found := resolve(summary, name)) is not None]
    for j, (name, bias) in enumerate(early + members, start=-len(early)):
        step = unit(summary, name) - weights
        difference, spread = float(step @ summary.value), float(step @ summary.covariance @ step)
        kappa = _EARLY if j < 0 else route.evidence if j == 0 else _LATER
        factor = max(0.0, 1.0 - kappa * spread / difference**2) if difference != 0 else 0.0
        if j > 0:
            typical = (route.typical * share * size) ** 2
            factor = min(factor, typical / (typical + spread) if spread > 0 else 1.0)
            share = share + factor * (bias - share)
        weights = weights + factor * step
        moves.append((name, factor))
    return weights, tuple(moves)


def _present(summary: Summary, route: Route) -> list[tuple[str, float]]:
    """Return the members this log has; one that coincides with a less biased one is left out."""
    found = [(resolve(summary, name), share) for name, share in route.members]
    last = {name: share for name, share in found if name is not None}
    return list(last.items())


def anchor(summary: Summary, route: Route) -> float:
    """Return A = sum_k alpha_k |V_k - IIPS_k| + half of sum_k alpha_k |V_k - what the logger earned at k|."""
    at = summary.by_position
    effect = at[:, summary.index(str(resolve(summary, route.effect)))]
    cross = np.abs(effect - at[:, summary.index(str(resolve(summary, route.simple)))])
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


def resolve(summary: Summary, name: str) -> str | None:
    """Return the member's column on this log: orders of K and above are the whole product; None if it adds nothing."""
    if name in summary.names:
        return name
    K = summary.by_position.shape[0]
    return "dr-ips" if name in ("dr-order-1", "dr-order-2") and K <= 2 else None
