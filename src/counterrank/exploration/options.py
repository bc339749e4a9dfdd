"""What could be randomised: kinds of exploration, each tuned to costs around the budget.

Every kind has one knob: a temperature, a share of the traffic, a probability. Its cost by the models is
drawn as a curve over the knob, and the knob is read off where the curve meets a wanted cost, so that
kinds are compared at equal loss.

The optimum is the mixture of policies that makes the errors of lifts least at a budget. Let the logger
serve policy c to the share m_c of the traffic. A page (or an item at a place) s that
targets need, with weight v_s, has probability p_s = sum_c m_c P_c(s), and contributes v_s / p_s to the
variance of the lifts: E_logger[w^2 r^2] = sum_s pi(s)^2 E[r^2] / p_s. The sum is convex in m, and the
loss sum_c m_c loss_c is linear: one minimum, whatever the number of policies.

It is found by sequential quadratic programming (SciPy's SLSQP). Where the policies are single items,
P_c(s) = 1 for s = c, the shares are those of the closed form for K = 1: m_c = sqrt(v_c / (eta loss_c +
mu)), without a budget the square root of the targets' mean squared contribution. The idea to choose the
logger for the lift's variance is that of Oosterhuis & de Rijke (ICTIR 2020), who follow gradients of a
Plackett-Luce model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from counterrank.arrays import Floats
from counterrank.exploration import settings
from counterrank.policies import PolicySpec, mixture_of, parse_policy

#: Returns the loss of a policy by the models, relative to what production earns.
Loss = Callable[[PolicySpec], float]


#: A kind of exploration and the policy that does it.
Tried = tuple[str, PolicySpec]


def fold_of(length: int) -> int:
    """Return the number of places above the fold, at least 1 and less than the page.

    >>> [fold_of(length) for length in (2, 3, 5, 10)]
    [1, 1, 2, 3]
    """
    return max(1, min(round(settings.FOLD * length), length - 1))


def options(
    today: PolicySpec, length: int, widest: int, heat: Floats, budget: float, loss: Loss
) -> Iterator[Tried]:
    """Yield what is tried: today's policy, then each kind at several costs.

    `widest` is the largest number of candidates of a request, `heat` the temperatures to try.
    """
    yield "as today", today
    levels = [budget * level for level in settings.LEVELS]
    shares = np.geomspace(1e-4, 1.0, settings.POINTS)
    top, fold = min(3, length, widest), fold_of(length)
    swaps = widest >= length
    # Without a grid, a share of the traffic is the knob.
    kinds: list[tuple[str, str, Floats | None, bool]] = [
        ("Plackett-Luce", "plackett-luce:temperature={:.6g}", heat, True),
        ("a share shuffled", "shuffle", None, True),
        ("epsilon at slots", "epsilon:epsilon={:.6g}", shares, True),
        (f"random top {top}", f"rand-top-n:n={top}", None, top >= 2),
        ("one swap, any places", "swap:probability=1", None, swaps and length >= 2),
        (
            "one swap below the fold",
            f"swap:probability=1,first={fold + 1},places={length}",
            None,
            swaps and length - fold >= 2,
        ),
        ("below the fold", f"below:after={fold},temperature={{:.6g}}", heat, length >= 2),
    ]
    for kind, text, grid, possible in kinds:
        if possible:
            specs = (
                _shares(today, parse_policy(text), levels, loss)
                if grid is None
                else knob(text, grid, levels, loss)
            )
            yield from ((kind, spec) for spec in specs)


def temperatures(today: PolicySpec, spread: float, coldest: float) -> Floats:
    """Return temperatures from hardly any noise, or today's, to hardly any order.

    `spread` is that of scores on a page; below `coldest` probabilities are no numbers.
    """
    low = max(_today(today), settings.COLDEST * spread, coldest)
    return np.geomspace(low, max(settings.HOTTEST * spread, 2 * low), settings.POINTS)


def _today(spec: PolicySpec) -> float:
    return spec.options["temperature"] if spec.kind == "plackett-luce" else 0.0


def parts(today: PolicySpec, length: int, spread: float, coldest: float) -> list[PolicySpec]:
    """Return the policies that an optimum may mix.

    Today's; lists drawn at several temperatures, over the whole page or below the fold; shuffled
    ones.
    """
    low = max(2 * _today(today), 0.03 * spread, coldest)
    heat = np.geomspace(low, max(3 * spread, 4 * low), 8)
    texts = [f"plackett-luce:temperature={t:.4g}" for t in heat]
    if length >= 2:
        fold = fold_of(length)
        texts += [f"below:after={fold},temperature={t:.4g}" for t in heat[2::2]]
    return [today, *(parse_policy(text) for text in [*texts, "shuffle"])]


def knob(text: str, grid: Floats, levels: list[float], loss: Loss) -> Iterator[PolicySpec]:
    """Yield the policy at each level of loss that the knob reaches; `text` is its spec, {} the knob.

    >>> [spec.text for spec in knob("epsilon:epsilon={:.2g}", np.geomspace(0.01, 1.0, 5), [0.05],
    ...     lambda spec: spec.options["epsilon"] / 2)]
    ['epsilon:epsilon=0.1']
    """

    def make(value: float) -> PolicySpec:
        return parse_policy(text.format(value))

    curve = np.maximum.accumulate([loss(make(float(value))) for value in grid])
    for level in levels:
        if not curve[0] < level <= curve[-1]:
            continue
        knots, losses = np.array(grid), np.array(curve)
        for _ in range(REFINED):
            value = _solve(knots, losses, level)
            index = int(np.searchsorted(knots, value))
            knots = np.insert(knots, index, value)
            losses = np.maximum.accumulate(np.insert(losses, index, loss(make(value))))
        yield make(_solve(knots, losses, level))


#: Points that are added to a curve where it meets a level.
REFINED = 2


def _solve(knots: Floats, losses: Floats, level: float) -> float:
    """Return the knob at which a loss is met.

    Logarithms are joined by straight lines: over short stretches a loss is a power of the knob.
    """
    floor = np.log(np.maximum(losses, 1e-3 * level))
    return math.exp(float(np.interp(math.log(level), floor, np.log(knots))))


def round_shares(shares: Sequence[float], specs: Sequence[PolicySpec]) -> PolicySpec:
    """Return the mixture with four decimals per share, so that it can be read and typed.

    What rounding leaves goes to the largest share.

    >>> round_shares([0.33333, 0.66667], [parse_policy("top"), parse_policy("shuffle")]).text
    '0.3333*top+0.6667*shuffle'
    """
    rounded_shares = np.round(np.asarray(shares, dtype=np.float64), 4)
    largest = int(rounded_shares.argmax())
    rounded_shares[largest] = round(1.0 - float(np.delete(rounded_shares, largest).sum()), 4)
    return mixture_of(zip(rounded_shares.tolist(), specs, strict=True))


def _shares(
    today: PolicySpec, spec: PolicySpec, levels: list[float], loss: Loss
) -> Iterator[PolicySpec]:
    """Yield today's policy mixed with another one: what it loses grows with the share, exactly."""
    full_loss = loss(spec)
    for level in levels:
        share = level / full_loss if full_loss > 0 else math.inf
        if share <= 1:
            yield round_shares([1 - share, share], [today, spec])
    if full_loss <= levels[0]:
        yield spec


#: A part of the optimum that takes less than this off the variance is not worth serving.
TRIFLE = 1e-3
#: Shares are at least this large while they are looked for: no page is then out of reach.
LEAST = 1e-9


def shares_at_budget(probs: Floats, weight: Floats, loss: Floats, budget: float) -> Floats:
    """Return the shares (C,) that make sum_s weight_s / p_s least at a loss of at most `budget`.

    `probs` (C, S) are P_c(s), `weight` (S,) is v, `loss` (C,) that of each policy. Where no shares are
    so cheap, those of least loss.

    >>> shares_at_budget(np.eye(2), np.array([4.0, 1.0]), np.zeros(2), 1.0).round(4).tolist()
    [0.6667, 0.3333]
    """
    from scipy.optimize import LinearConstraint, minimize

    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    cheapest: Floats = np.eye(len(loss))[int(loss.argmin())]
    # The solver may be off by a rounding error; a budget is kept.
    limit = budget - 1e-6 * abs(budget)
    if loss.min() >= limit:
        return cheapest

    def variance(shares: Floats) -> tuple[float, Floats]:
        p = np.maximum(shares @ probs, 1e-300)
        total = float((weight / p).sum())
        # Its logarithm: variances of pages are of any size.
        return float(np.log(total)), -(probs @ (weight / p**2)) / total

    start = np.full(len(loss), 1.0 / len(loss))
    if start @ loss > limit:
        feasible_share = (limit - loss.min()) / float(start @ loss - loss.min())
        start = feasible_share * start + (1.0 - feasible_share) * cheapest
    scale = max(abs(limit), float(np.abs(loss).max()))
    solution = minimize(
        variance,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(LEAST, 1.0)] * len(loss),
        constraints=[
            LinearConstraint(np.ones(len(loss)), 1.0, 1.0),
            LinearConstraint(loss / scale, -np.inf, limit / scale),
        ],
        options={"maxiter": 300, "ftol": 1e-10},
    )
    shares: Floats = solution.x / solution.x.sum()
    return shares


def drop_small_shares(
    probs: Floats, weight: Floats, loss: Floats, shares: Floats, budget: float
) -> Floats:
    """Return the shares without parts that hardly matter.

    A part is given to another where that adds less than a thousandth to the variance and stays within
    the budget.
    """

    def variance(candidate: Floats) -> float:
        with np.errstate(divide="ignore"):
            return float((weight / (candidate @ probs)).sum())

    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    best = np.array(shares)
    limit = max(budget, float(best @ loss)) * (1 + TRIFLE)
    for component in np.argsort(shares)[:-1]:
        heirs = [heir for heir in np.flatnonzero(best) if heir != component]
        # Each takes what the part had.
        moved = [
            best + best[component] * (np.eye(len(best))[heir] - np.eye(len(best))[component])
            for heir in heirs
            if best[component] > 0
        ]
        moved = [candidate_shares for candidate_shares in moved if candidate_shares @ loss <= limit]
        least = min(moved, key=variance, default=best)
        if variance(least) <= variance(best) * (1 + TRIFLE):
            best = least
    return best
