"""Options of exploration: kinds of policies, each tuned to costs around the budget.

Every kind has one parameter: a temperature, a share of the traffic or a probability. Its predicted cost
is computed on a grid, and the parameter with a given cost is found by interpolation, so that kinds are
compared at equal loss.

The optimum is the mixture of policies with the smallest errors of lifts at a budget. Let the logger
serve policy c to the share m_c of the traffic. A page (or an item at a position) s with weight v_s has
probability p_s = sum_c m_c P_c(s) and contributes v_s / p_s to the variance of the lifts:
E_logger[w^2 r^2] = sum_s pi(s)^2 E[r^2] / p_s. The sum is convex in m and the loss sum_c m_c loss_c is
linear, so there is one minimum for any number of policies.

The minimum is found by sequential quadratic programming (SciPy's SLSQP). If the policies are single
items, P_c(s) = 1 for s = c, it is the closed form for K = 1: m_c = sqrt(v_c / (eta loss_c + mu)). Choosing
the logger for the variance of the lift was proposed by Oosterhuis & de Rijke (ICTIR 2020), who follow
gradients of a Plackett-Luce model.

Options are to tell the next ranker from today's. It is unknown, but it will resemble today's, because it
learns from the same items and users. It is represented by families of rankers that add independent normal
noise to the score of every candidate. The size of the noise is such that a given share of the shown
positions has another item. Scores become rankings in the same way as those of production.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.exploration import settings
from counterrank.policies import PolicySpec, Scored, mixture_of, parse_policy

#: A function that returns the predicted loss of a policy, relative to the reward of production.
Loss = Callable[[PolicySpec], float]


#: The name of a kind of exploration, and a policy of this kind.
Tried = tuple[str, PolicySpec]


def fold_of(length: int) -> int:
    """Return the number of positions above the fold: at least 1, less than the page.

    >>> [fold_of(length) for length in (2, 3, 5, 10)]
    [1, 1, 2, 3]
    """
    return max(1, min(round(settings.FOLD * length), length - 1))


def options(
    today: PolicySpec, length: int, widest: int, heat: Floats, budget: float, loss: Loss
) -> Iterator[Tried]:
    """Yield today's policy, then policies of each kind at several costs.

    `widest` is the largest number of candidates of a request, `heat` the grid of temperatures.
    """
    yield "as today", today
    levels = [budget * level for level in settings.LEVELS]
    shares = np.geomspace(1e-4, 1.0, settings.POINTS)
    top, fold = min(3, length, widest), fold_of(length)
    swaps = widest >= length
    # For kinds without a grid the parameter is a share of the traffic.
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
    """Return a grid of temperatures from nearly deterministic (or today's) to nearly uniform.

    `spread` is the spread of scores on a page; below `coldest` probabilities underflow.
    """
    low = max(_today(today), settings.COLDEST * spread, coldest)
    return np.geomspace(low, max(settings.HOTTEST * spread, 2 * low), settings.POINTS)


def _today(spec: PolicySpec) -> float:
    return spec.options["temperature"] if spec.kind == "plackett-luce" else 0.0


def parts(today: PolicySpec, length: int, spread: float, coldest: float) -> list[PolicySpec]:
    """Return the candidates for components of the optimum.

    These are today's policy, Plackett-Luce policies of several temperatures over the whole page and
    below the fold, and the uniform shuffle.
    """
    low = max(2 * _today(today), 0.03 * spread, coldest)
    heat = np.geomspace(low, max(3 * spread, 4 * low), 8)
    texts = [f"plackett-luce:temperature={t:.4g}" for t in heat]
    if length >= 2:
        fold = fold_of(length)
        texts += [f"below:after={fold},temperature={t:.4g}" for t in heat[2::2]]
    return [today, *(parse_policy(text) for text in [*texts, "shuffle"])]


def knob(text: str, grid: Floats, levels: list[float], loss: Loss) -> Iterator[PolicySpec]:
    """Yield the policy with each level of loss that the grid reaches; `text` is its spec, {} the parameter.

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


#: Number of points added to a curve to refine the interpolation.
REFINED = 2


def _solve(knots: Floats, losses: Floats, level: float) -> float:
    """Return the parameter at which a loss is reached, by interpolation of logarithms.

    A loss is locally close to a power of the parameter.
    """
    floor = np.log(np.maximum(losses, 1e-3 * level))
    return math.exp(float(np.interp(math.log(level), floor, np.log(knots))))


def round_shares(shares: Sequence[float], specs: Sequence[PolicySpec]) -> PolicySpec:
    """Return the mixture with shares rounded to four decimals; the largest share takes the remainder.

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
    """Yield mixtures of today's policy and another one, whose loss is linear in the share."""
    full_loss = loss(spec)
    for level in levels:
        share = level / full_loss if full_loss > 0 else math.inf
        if share <= 1:
            yield round_shares([1 - share, share], [today, spec])
    if full_loss <= levels[0]:
        yield spec


#: A component of the optimum is dropped if that increases the variance by less than this share.
TRIFLE = 1e-3
#: Lower limit of shares in the optimisation, so that every page keeps a positive probability.
LEAST = 1e-9


def shares_at_budget(probs: Floats, weight: Floats, loss: Floats, budget: float) -> Floats:
    """Return the shares (C,) that minimise sum_s weight_s / p_s at a loss of at most `budget`.

    `probs` (C, S) are P_c(s), `weight` (S,) is v, `loss` (C,) is the loss of each policy. If the budget
    cannot be met, the cheapest policy gets all traffic.

    >>> shares_at_budget(np.eye(2), np.array([4.0, 1.0]), np.zeros(2), 1.0).round(4).tolist()
    [0.6667, 0.3333]
    """
    from scipy.optimize import LinearConstraint, minimize

    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    cheapest: Floats = np.eye(len(loss))[int(loss.argmin())]
    # A margin for rounding errors of the solver, so that the budget is kept.
    limit = budget - 1e-6 * abs(budget)
    if loss.min() >= limit:
        return cheapest

    def variance(shares: Floats) -> tuple[float, Floats]:
        p = np.maximum(shares @ probs, 1e-300)
        total = float((weight / p).sum())
        # The logarithm, because the scale of the variance is arbitrary.
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
    """Return the shares without components that hardly reduce the variance.

    The share of a component is moved to another one if that adds less than a thousandth to the
    variance and stays within the budget.
    """

    def variance(candidate: Floats) -> float:
        with np.errstate(divide="ignore"):
            return float((weight / (candidate @ probs)).sum())

    used = weight > 0
    probs, weight = probs[:, used], weight[used]
    best, alone = np.array(shares), np.eye(len(shares))
    limit = max(budget, float(best @ loss)) * (1 + TRIFLE)
    for component in np.argsort(shares)[:-1]:
        # The shares after a move to each of the others.
        moves = best + best[component] * (alone - alone[component])
        heirs = (best > 0) & (moves @ loss <= limit) & (alone[component] == 0)
        least = min(moves[heirs], key=variance, default=best)
        if variance(least) <= variance(best) * (1 + TRIFLE):
            best = least
    return best


@dataclass(frozen=True, slots=True)
class Family:
    """Rankers with `noise` in their scores, so that a `share` of shown positions differs from production."""

    share: float
    noise: float

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"future {round(100 * self.share)} %"

    def draw(self, logger: Scored, rng: np.random.Generator) -> Scored:
        """Return one ranker of the family."""
        scores = logger.scores + self.noise * rng.normal(size=logger.scores.shape)
        return Scored(logger.candidates, scores, logger.spec)


def families(logger: Scored, length: int, seed: int) -> list[Family]:
    """Return the family of each share that can be reached by noise."""
    noise = np.random.default_rng([seed, 11]).normal(size=logger.scores.shape)
    top = parse_policy("top")

    def top_items(size: float) -> Ints:
        best = Scored(logger.candidates, logger.scores + size * noise, top)
        return best.sample(length, np.random.default_rng(0))[:, 0]

    today = top_items(0.0)
    shown = today >= 0

    def changed(size: float) -> float:
        return float(((top_items(size) != today) & shown).sum() / max(shown.sum(), 1))

    spread = spread_of(logger)
    sizes = spread * np.geomspace(1e-3, 30.0, 25)
    changed_shares = np.maximum.accumulate([changed(size) for size in sizes])
    ranker_families = [
        Family(share, float(np.exp(np.interp(share, changed_shares, np.log(sizes)))))
        for share in settings.CHANGES
        if changed_shares[0] < share < changed_shares[-1]
    ]
    # With many equal scores the smallest noise changes more than all shares; it is then the family.
    smallest = Family(round(float(changed_shares[0]), 2), float(sizes[0]))
    return ranker_families or ([smallest] if smallest.share > 0 else [])


def spread_of(logger: Scored) -> float:
    """Return the standard deviation of scores within pages, or 1 if they are equal."""
    counts = logger.candidates.counts
    row = np.repeat(np.arange(logger.n_rows), counts)
    eligible = np.isfinite(logger.scores)
    row, scores = row[eligible], logger.scores[eligible]
    number = np.maximum(np.bincount(row, minlength=logger.n_rows), 1)
    centre = np.bincount(row, scores, minlength=logger.n_rows) / number
    spread = float(np.sqrt(np.mean((scores - centre[row]) ** 2)))
    return spread if spread > 0 else 1.0


def coldest_of(logger: Scored) -> float:
    """Return the temperature below which the exponentials of a page's scores underflow."""
    starts = logger.candidates.offsets[:-1]
    eligible = np.isfinite(logger.scores)
    top = np.maximum.reduceat(np.where(eligible, logger.scores, -np.inf), starts)
    low = np.minimum.reduceat(np.where(eligible, logger.scores, np.inf), starts)
    return float((top - low).max()) / WIDEST


#: Largest range of scores on a page, in units of the temperature, without underflow.
WIDEST = 600.0
