"""Plackett-Luce: rankings drawn item by item without replacement, in proportion to exp(score).

A set of positions is answered by the cheapest exact method, else by sampling. Empty sets and prefixes
are sums. A single item beyond a prefix is a quadrature, for all of a row at once. Other sets use a
dynamic programme over subsets while it fits the budget; the rest share one set of draws for a row.
Equal sets of a row are answered once. Single positions of many rows, which most estimators need, go to
the quadrature directly.

The quadrature integrates over a race of exponential clocks, at times that `clock_rules` chooses. P(b at
k+1) is an integral over time of a sum over sets S of k other items, with positive terms prod_(j in S)
(1 - exp(-lam_j t)) exp(-rho t). The rate rho of all that is not in S lies between R, the mass of all but
the k heaviest items, and the total. A rule with a small relative error for each such term has the same
relative error for their sum:

- Gauss-Laguerre at the rate sqrt(R total), with the weight t exp(-t), because every place but the first
  needs a ring. For exp(-rho t) its error falls by q^2 with each point, q = (1 - s) / (1 + s) and s^2 = R /
  total. The errors of the hardest terms, with all mass but R on up to k equal items, give the number of
  points for 2e-13 (`tests/policies/test_race.py`).
- The trapezoid rule in log t where a few items hold nearly all mass and Gauss-Laguerre would need too
  many points. Its number of points grows with log(total / R).
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.policies.arrays import (
    ArrayPolicy,
    ClosedFormPolicy,
    Tasks,
    as_actions,
    as_masks,
    distinct,
    repeated,
    repeats,
    without_padding,
)
from counterrank.policies.base import METHODS, SubsetResult
from counterrank.policies.factored import as_scores
from counterrank.policies.ranked import log_factorials

#: Scores further apart than this leave the range of float64 once exponentiated.
MAX_SPAN = 650.0


class PlackettLuce(ArrayPolicy):
    """P(a_1..a_K | x) = prod over k of exp(s_{a_k}) / sum of exp(s) over items not yet used (Plackett 1975).

    Prefixes are exact; a set of positions is exact by a programme of at most `max_states` states; a
    single item by quadrature (1e-12); anything larger by at most `max_samples` draws shared by all
    masks of a row, until the relative error is `rtol`. The draws are a function of `seed` and the
    row's content alone, so a result does not depend on chunks or threads. A score of -inf makes an
    item unavailable.

    >>> policy = PlackettLuce([[0.0, 0.0, np.log(2.0)]])
    >>> np.exp(policy.prefix_log_prob(np.array([[2, 0, 1]]))).round(4).tolist()
    [[0.5, 0.25, 0.25]]
    >>> np.exp(policy.position_log_prob(np.array([[2, 0, 1]]))).round(4).tolist()
    [[0.5, 0.3333, 0.4167]]
    """

    row_fields = ("scores",)
    shared_fields = ("max_states", "rtol", "max_samples", "seed")

    def __init__(
        self,
        scores: ArrayLike,
        temperature: float = 1.0,
        *,
        max_states: int = 200_000,
        rtol: float = 1e-2,
        max_samples: int = 4096,
        seed: int = 0,
    ) -> None:
        self.scores: Floats = np.ascontiguousarray(as_scores(scores, temperature, ndims=(2,)))
        self.max_states, self.rtol, self.max_samples, self.seed = (
            max_states,
            rtol,
            max_samples,
            seed,
        )
        self.check()

    def check(self) -> None:
        as_scores(self.scores, ndims=(2,))
        if self.max_states < 1 or self.max_samples < 2 or not self.rtol > 0:
            raise PolicyError(
                f"max_states={self.max_states}, max_samples={self.max_samples} and "
                f"rtol={self.rtol} must be at least 1, at least 2 and positive"
            )

    @property
    def n_actions(self) -> int:
        return int(self.scores.shape[1])

    def prefix_log_prob(self, actions: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce import prefix_log_prob

        return prefix_log_prob(self.scores, as_actions(actions, self))

    def prefix_log_probs(self, rankings: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce import prefix_log_probs

        items = [as_actions(rankings[:, s], self) for s in range(rankings.shape[1])]
        return prefix_log_probs(self.scores, np.stack(items, axis=1))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        return solve(self, items, as_masks(masks, items))

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.plackett_luce import sample, spans

        self.refuse_longer(length)
        wide = spans(self.scores) > MAX_SPAN
        uniforms = rng.random((self.n_rows, size, length))
        if not wide.any():
            return sample(self.scores, uniforms)
        out = np.empty(uniforms.shape, np.int64)
        out[~wide] = sample(self.scores[~wide], uniforms[~wide])
        for i in np.flatnonzero(wide):
            # The row's own numbers seed it: draws stay a function of the row.
            own = np.random.default_rng(uniforms[i].ravel().view(np.uint64))
            out[i] = _gumbel(self.scores[i], (size, length), own)
        return out


def _gumbel(scores: Floats, shape: tuple[int, int], rng: np.random.Generator) -> Ints:
    """Return (size, length) draws as the order of scores plus Gumbel noise: no exponential, any span."""
    noisy = scores + rng.gumbel(size=(shape[0], scores.size))
    order = np.argsort(-noisy, axis=1)[:, : shape[1]]
    return np.where(np.take_along_axis(noisy, order, axis=1) > -np.inf, order, -1)


class UniformPermutation(ClosedFormPolicy):
    """Every ranking of A items equally likely: P(L) = (A - |L|)! / A!.

    >>> policy = UniformPermutation(4)
    >>> np.exp(-policy.prefix_log_prob(np.array([[3, 1, 0]]))).round().tolist()
    [[4.0, 12.0, 24.0]]
    """

    shared_fields = ("n_items",)

    def __init__(self, n_actions: int) -> None:
        self.n_items = int(n_actions)
        self.check()

    def check(self) -> None:
        if self.n_items < 1:
            raise PolicyError(f"a policy needs at least one action, got n_actions={self.n_items}")

    def event(self, items: Ints, rows: Ints, mask: Bools) -> Floats:
        asked = (items[:, mask] >= 0).sum(axis=1)
        table = log_factorials(self.n_items)
        # More asked for than there are items means one is asked for twice: impossible below.
        value: Floats = table[np.maximum(self.n_items - asked, 0)] - table[-1]
        return np.where(repeated(items[:, mask]), -np.inf, value)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.plackett_luce import sample

        self.refuse_longer(length)
        return sample(np.zeros((1, self.n_items)), rng.random((1, size, length)))


#: Below this many states the programme beats the quadrature for a lone item.
_SMALL = 256
#: Cells of masks or scores held at once.
_CELLS = 4_000_000


def solve(policy: PlackettLuce, items: Ints, sets: Bools) -> SubsetResult:
    """Return log-probabilities (n, J) of masks (J, K) or (n, J, K), a block of rows at a time."""
    scores, (n, K) = policy.scores, items.shape
    J = sets.shape[-2]
    log_prob, rel_var = np.zeros((n, J)), np.zeros((n, J))
    hardest, rest = 0, np.arange(n)
    if sets.ndim == 2 and (sets.sum(axis=1) == 1).all():
        log_prob = _positions(scores, items, sets, policy)
        rest = np.flatnonzero(np.isnan(log_prob).any(axis=1))
        hardest = int(len(rest) < n)
    step = max(1, _CELLS // max(J * K, scores.shape[1]))
    for start in range(0, len(rest), step):
        block = rest[start : start + step]
        masks = sets if sets.ndim == 2 else sets[block]
        rows = scores if len(scores) == 1 else scores[block]
        parts = _solve_block(rows, items[block], masks, policy, block)
        log_prob[block], rel_var[block] = parts[0], parts[1]
        hardest = max(hardest, parts[2])
    return SubsetResult(log_prob, rel_var, METHODS[hardest])


def _positions(scores: Floats, items: Ints, sets: Bools, limits: PlackettLuce) -> Floats:
    """Return (n, J) log-probabilities of single positions; NaN in rows that other methods answer."""
    from counterrank.policies.kernels.plackett_luce_singles import singles

    n, K = items.shape
    rows = np.zeros(n, np.int64) if len(scores) == 1 else np.arange(n)
    first = np.zeros(1, np.int64)
    want: Bools = np.logical_or.reduce(sets, axis=0, keepdims=True)
    found = singles(
        scores, rows, items, first, want, clock_rules(K), min(_SMALL, limits.max_states)
    )
    return found[:, np.argmax(sets, axis=1)]


def _solve_block(
    scores: Floats, items: Ints, sets: Bools, limits: PlackettLuce, numbers: Ints
) -> tuple[Floats, Floats, int]:
    from counterrank.policies.kernels.plackett_luce import prefix_log_prob

    n, K = items.shape
    masks = without_padding(items, sets)
    size = masks.sum(axis=2)
    last = np.where(size > 0, K - np.argmax(masks[:, :, ::-1], axis=2), 0)
    prefix = np.concatenate([np.zeros((n, 1)), prefix_log_prob(scores, items)], axis=1)
    log_prob = np.take_along_axis(prefix, last, axis=1)
    rel_var = np.zeros_like(log_prob)
    # As many asked positions as the last one's number: a prefix. Fewer: there is a gap.
    hard = last > size
    if not hard.any():
        return log_prob, rel_var, 0
    never = _impossible(scores, items, masks, last)
    log_prob[hard & never] = -np.inf
    tasks = distinct(masks, hard & ~never)
    work = _Work(scores, items, tasks, prefix, limits)
    values, errors, hardest = work.run()
    if np.isnan(values).any():
        row = numbers[tasks.rows[np.argmax(np.isnan(values))]]
        raise PolicyError(
            f"row {row}: scores span more than {MAX_SPAN:.0f} nats and the items that matter make "
            f"more than max_states={limits.max_states} states; raise max_states or the temperature"
        )
    return tasks.scatter(values, log_prob), tasks.scatter(errors, rel_var), hardest


def _impossible(scores: Floats, items: Ints, masks: Bools, last: Ints) -> Bools:
    """Return (n, J): an unavailable item, one item at two positions, or more positions than items."""
    rows = np.zeros(len(items), np.int64) if len(scores) == 1 else np.arange(len(items))
    missing = (scores[rows[:, None], items] == -np.inf) & (items >= 0)
    never: Bools = (masks & missing[:, None, :]).any(axis=2)
    never |= last > (scores > -np.inf).sum(axis=1)[rows][:, None]
    return never | repeats(items, masks)


class _Work:
    """The (row, mask) pairs that need more than a sum, sorted by row."""

    def __init__(
        self, scores: Floats, items: Ints, tasks: Tasks, prefix: Floats, limits: PlackettLuce
    ) -> None:
        masks, rows = tasks.masks, tasks.rows
        self.scores, self.items, self.masks, self.rows = scores, items[rows], masks, rows
        self.prefix, self.limits = prefix, limits
        self.score_rows = np.zeros_like(rows) if len(scores) == 1 else rows
        self.size = masks.sum(axis=1)
        self.lead = np.argmin(
            masks, axis=1
        )  # a gap exists, so the first False ends the leading run
        self.gaps = masks.shape[1] - np.argmax(masks[:, ::-1], axis=1) - self.size
        available = (scores > -np.inf).sum(axis=1)[self.score_rows]
        self.states = _states(available - self.size, self.gaps)

    @cached_property
    def order(self) -> Ints:
        """Items by descending score: (n or 1, A)."""
        return np.argsort(-self.scores, axis=1)

    @cached_property
    def wide(self) -> Bools:
        """Tasks (T,) whose scores lie too far apart to be exponentiated."""
        from counterrank.policies.kernels.plackett_luce import spans

        far: Bools = spans(self.scores)[self.score_rows] > MAX_SPAN
        return far

    def run(self) -> tuple[Floats, Floats, int]:
        values, errors = np.empty(len(self.rows)), np.zeros(len(self.rows))
        lone = (self.size - self.lead == 1) & ~self.wide
        fits = (self.states <= self.limits.max_states) & ~self.wide
        quick = lone & (self.states > min(_SMALL, self.limits.max_states))
        if quick.any():
            values[quick] = self._singles(np.flatnonzero(quick))
            # NaN: masses underflow in the race. The programme, or draws, take over.
            quick[quick] = ~np.isnan(values[quick])
        sets, drawn = fits & ~quick, ~fits & ~quick & ~self.wide
        if self.wide.any():
            values[self.wide] = self._wide(np.flatnonzero(self.wide))
        if sets.any():
            values[sets] = self._programme(np.flatnonzero(sets))
        if drawn.any():
            values[drawn], errors[drawn] = self._sampled(np.flatnonzero(drawn))
        return values, errors, 2 if drawn.any() else int(quick.any())

    def _programme(self, which: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce_subsets import subset_log_prob

        return subset_log_prob(
            self.scores, self.order, self.score_rows[which], self.items[which], self.masks[which]
        )

    def _wide(self, which: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce_subsets import wide_log_prob

        rows, limit = self.score_rows[which], self.limits.max_states
        return wide_log_prob(
            self.scores, self.order, rows, self.items[which], self.masks[which], limit
        )

    def _sampled(self, which: Ints) -> tuple[Floats, Floats]:
        from counterrank.policies.kernels.plackett_luce_subsets import sampled_log_prob

        limits = (float(self.limits.rtol), int(self.limits.max_samples), int(self.limits.seed))
        row_of = (self.rows[which], self.score_rows[which])
        return sampled_log_prob(self.scores, row_of, self.items[which], self.masks[which], limits)

    def _singles(self, which: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce_singles import singles

        K = self.masks.shape[1]
        position = K - 1 - np.argmax(self.masks[which][:, ::-1], axis=1)
        keys = self.rows[which] * (K + 1) + self.lead[which]
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        want = np.zeros((len(first), K), bool)
        want[group, position] = True
        heads = which[first]
        rows, lead = self.score_rows[heads], self.lead[heads]
        found = singles(self.scores, rows, self.items[heads], lead, want, clock_rules(K), 0)
        # Luce's axiom: given the leading items, the others race as if those had never been there.
        head: Floats = self.prefix[self.rows[which], self.lead[which]]
        values: Floats = found[group, position] + head
        return values


def _states(free: Ints, gaps: Ints) -> Floats:
    """Return the number of sets of at most `gaps` of `free` items, as floats that may be huge."""
    term, total = np.ones(len(free)), np.ones(len(free))
    for j in range(1, int(gaps.max(initial=0)) + 1):
        with np.errstate(over="ignore"):
            term = term * np.maximum(free - j + 1, 0) / j
            total = np.where(j <= gaps, total + term, total)
    return total


#: Numbers of points that Gauss rules are made for: loops over eight at a time.
SIZES = (8, 16, 24, 32, 40, 48, 64)
#: Terms of a series in a light clock's rate times the latest time, a multiple of four
#: (`kernels.plackett_luce_singles`).
TERMS = 16

Rules = tuple[NDArray[np.int64], Floats, Floats, int, Floats]


@lru_cache(maxsize=64)
def clock_rules(K: int) -> Rules:
    """Return what integrals need for rankings of K positions.

    Sizes, points and weights of Gauss rules, points of the trapezoid per octave, and series for
    light clocks.
    """
    points, weights = gauss_rules()
    return np.array(SIZES), points, weights, nodes_per_octave(K), light_series(K)


@lru_cache(maxsize=1)
def gauss_rules() -> tuple[Floats, Floats]:
    """Return points and weights (rules, most points) for int_0^inf f(x) dx, f like x exp(-x)."""
    from scipy.special import roots_genlaguerre

    points, weights = np.zeros((len(SIZES), SIZES[-1])), np.zeros((len(SIZES), SIZES[-1]))
    for j, size in enumerate(SIZES):
        x, w = roots_genlaguerre(size, 1)
        # The integrand brings x exp(-x) along, so that it is taken out of the weight.
        points[j, :size], weights[j, :size] = x, np.exp(np.log(w) + x) / x
    return points, weights


@lru_cache(maxsize=256)
def nodes_per_octave(K: int) -> int:
    """Return m for the step h = log(2)/m at which the trapezoid errs by less than 1e-13.

    For equal clocks the K-th ring is a Gamma(K) variable, whose aliasing error is 2 |Gamma(K + i
    y)| / Gamma(K) with y = 2 pi / h, and |Gamma(K + i y)|^2 = pi / (y sinh(pi y)) prod over j < K
    of (j^2 + y^2).

    >>> [nodes_per_octave(K) for K in (4, 10, 20, 100)]
    [3, 4, 5, 10]
    """
    j = np.arange(K)
    m = 2
    while True:
        m += 1
        y = 2 * np.pi * m / np.log(2)
        log_square = np.log(2 * np.pi / y) - np.pi * y + np.log(j * j + y * y).sum()
        if np.log(2) + 0.5 * log_square - np.log(np.maximum(j, 1)).sum() < np.log(1e-13):
            return m


def light_series(K: int) -> Floats:
    """Return (K, TERMS): the coefficient of x^m in (exp(x) - 1)^c at [c - 1, m - 1].

    >>> light_series(2)[:, :3].round(4).tolist()
    [[1.0, 0.5, 0.1667], [0.0, 1.0, 1.0]]
    """
    own = 1.0 / np.cumprod(np.arange(1.0, TERMS + 1))
    out = np.zeros((K, TERMS))
    out[0] = own
    for c in range(1, K):
        out[c, 1:] = np.convolve(out[c - 1], own)[: TERMS - 1]
    return out
