"""How `auto` decides: a pure function of means and covariances."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.auto.masked import Candidate, inside
from counterrank.estimators.auto.routes import Route
from counterrank.estimators.auto.state import Summary
from counterrank.inference import critical_value

Floats = NDArray[np.float64]

#: The level at which the shortest interval is looked for; others use the same member.
_LEVEL = 0.95
#: Variances that d^2 must exceed before anything moves: in early steps, and in those after the first member's.
_EARLY, _LATER = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What the log says of a masked member: the difference to its twin, and what may hide outside the mask.

    `allowance` is the twin's and `hidden`; a member that the log contradicts, or a witness, is not used.
    """

    candidate: Candidate
    difference: float
    stderr: float
    hidden: float
    allowance: float
    contradicted: bool

    @property
    def usable(self) -> bool:
        """Whether estimate and interval may use the member."""
        return not self.contradicted and not self.candidate.witness


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The combination (C,) of columns that is the estimate; the interval's base, centre and allowance for bias.

    `moves` (member, factor) tell how far the data moved the estimate towards each member; `masked` what was thought
    of every mask x order.
    """

    weights: Floats
    moves: tuple[tuple[str, float], ...]
    base: str
    centre: Floats
    anchor: float
    allowance: float
    masked: tuple[Standing, ...] = ()


def decide(summary: Summary, route: Route) -> Decision:
    """Return the combination and what its interval rests on."""
    size = anchor(summary, route)
    members = [(name, share * size) for name, share in _present(summary, route)]
    masked = standings(summary, members, route.outside * size) if route.factored else ()
    path = []
    for name, allowance in members:
        path += [(s.candidate.name, s.allowance) for s in masked if s.candidate.twin == name and s.usable]
        path.append((name, allowance))
    walked, moves = _walk(summary, route, path, members[0])
    weights, moves = _met(summary, route, walked, moves, members[0][1])
    z = critical_value(_LEVEL)
    halves = [z * stderr(summary, unit(summary, name)) + allowance for name, allowance in path]
    name, allowance = path[int(np.argmin(halves))]
    # The first member's interval is the estimate's own before it meets the simple member, for whose bias it does not
    # allow; later ones are taken when they are shorter as they are.
    centre = walked if name == members[0][0] else unit(summary, name)
    return Decision(weights, moves, name, centre, size, allowance, masked)


def standings(summary: Summary, members: list[tuple[str, float]], usual: float) -> tuple[Standing, ...]:
    """Return how far each masked member may stand in for its twin.

    The effect outside the mask, D, is seen as d, the difference to its twin, with variance s^2, and taken to be about
    as large as `usual` = t: then it is at most |d| t^2/(t^2 + s^2) + z t s / sqrt(t^2 + s^2), which is |d| + z s where
    the log knows and z t where it does not. Masks that contain this one are asked in the same way, and what a low order
    shows outside the mask is outside for higher orders too: the largest bound counts, and a mask is contradicted
    from the first order at which |d| > z s.
    """
    allowed, z = dict(members), critical_value(_LEVEL)
    worst: dict[str, tuple[float, bool]] = {}
    found = []
    for own in inside(len(summary.alpha)).candidates:
        hidden, against = worst.get(own.mask, (0.0, False))
        for name in own.larger:  # the twin comes last
            step = unit(summary, name) - unit(summary, own.name)
            d, s = float(step @ summary.value), stderr(summary, step)
            hidden, against = max(hidden, _bound(d, z * s, z * usual)), against or abs(d) > z * s
        worst[own.mask] = hidden, against
        found.append(Standing(own, d, s, hidden, allowed[own.twin] + hidden, against))
    return tuple(found)


def _bound(d: float, s: float, t: float) -> float:
    """Return (|d| t^2 + t s sqrt(t^2 + s^2)) / (t^2 + s^2), s and t with their z."""
    both = t**2 + s**2
    return (abs(d) * t**2 + t * s * both**0.5) / both if both > 0 else abs(d)


def _walk(
    summary: Summary, route: Route, path: list[tuple[str, float]], first: tuple[str, float]
) -> tuple[Floats, tuple[tuple[str, float], ...]]:
    """Return the combination after all steps, and the steps.

    With d the difference to the next member and s^2 its variance, a step goes max(0, 1 - kappa s^2/d^2) of the way
    (positive-part shrinkage). All but the early ones and the first member's go at most t^2/(t^2 + s^2) of it, where t
    is the bias that the present combination typically has: noisy members need strong evidence, and never get all.
    Masks come before the whole ranking of their order, whose variance is larger; the first member has none before it.
    """
    start = resolve(summary, route.start)
    assert start is not None
    weights, left = unit(summary, start), first[1]
    moves = []
    early = [found for name in route.early if (found := resolve(summary, name)) is not None]
    path = path[[name for name, _ in path].index(first[0]) :]
    for j, (name, allowance) in enumerate([(name, left) for name in early] + path, start=-len(early)):
        step = unit(summary, name) - weights
        difference, spread = float(step @ summary.value), float(step @ summary.covariance @ step)
        kappa = _EARLY if j < 0 else route.evidence if name == first[0] else _LATER
        factor = max(0.0, 1.0 - kappa * spread / difference**2) if difference != 0 else 0.0
        if j >= 0 and name != first[0]:
            typical = (route.typical * left) ** 2
            factor = min(factor, typical / (typical + spread) if spread > 0 else 1.0)
            left = left + factor * (allowance - left)
        weights = weights + factor * step
        moves.append((name, factor))
    return weights, tuple(moves)


def _met(
    summary: Summary, route: Route, weights: Floats, moves: tuple[tuple[str, float], ...], allowance: float
) -> tuple[Floats, tuple[tuple[str, float], ...]]:
    """Return the combination moved at most half of the way to the simple member (IIPS), and the steps.

    A model of interactions costs variance; where IIPS says the same, the two are averaged. The step is
    min(1/2, m s^2/d^2) t^2/(t^2 + v): d the difference, s^2 the variance of IIPS less the model's part in it, v that of
    IIPS, which must not be large against the bias t that the estimate may have.
    """
    plain = resolve(summary, "dr-order-1")
    if not route.meeting or plain is None:
        return weights, moves
    step, own = unit(summary, route.simple) - weights, unit(summary, route.simple) - unit(summary, plain)
    difference, noise = float(step @ summary.value), stderr(summary, own)
    variance = stderr(summary, unit(summary, route.simple)) ** 2
    if difference == 0 or allowance == 0:
        return weights, moves
    factor = min(0.5, route.meeting * noise**2 / difference**2) * allowance**2 / (allowance**2 + variance)
    return weights + factor * step, (*moves, (route.simple, factor))


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
