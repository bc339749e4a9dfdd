"""Rankings drawn item by item without replacement: Plackett-Luce, in proportion to exp(score), and epsilon-greedy.

The probability of a set of positions is computed by the cheapest exact method, otherwise by sampling:
prefixes are sums; a single item beyond a prefix is a quadrature, which serves all positions of a row;
other sets use a dynamic programme over subsets if it fits the budget, otherwise draws.

The quadrature integrates over a race of exponential clocks, at times of one of the `clock_rules`. P(b at
k+1) is an integral over time of a sum over sets S of k other items, with positive terms prod_(j in S)
(1 - exp(-lam_j t)) exp(-rho t). The rate rho of the items outside S lies between R, the mass of all but
the k heaviest items, and the total mass. A rule with a small relative error for each such term has the
same relative error for their sum:

- Gauss-Laguerre at the rate sqrt(R total), with the weight t exp(-t), because every place but the first
  needs at least one earlier event. For exp(-rho t) its error falls by q^2 with each point, where q = (1 -
  s) / (1 + s) and s^2 = R / total. The errors of the hardest terms, with all mass but R on up to k equal
  items, determine the number of points for 2e-13 (`tests/policies/test_race.py`).
- The trapezoid rule in log t if a few items hold nearly all mass and Gauss-Laguerre would need too many
  points. Its number of points grows with log(total / R).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.arrays import (
    ArrayPolicy,
    answer_distinct,
    as_actions,
    requested_twice,
)
from counterrank.policies.factored import as_scores, best_first


class PlackettLuce(ArrayPolicy):
    """P(a_1..a_K | x) = prod over k of exp(s_{a_k}) / sum of exp(s) over items not yet used (Plackett 1975).

    Prefixes are exact, single positions have a relative error of 1e-12 (quadrature), and other sets
    are exact if they need at most `max_states` states. Larger sets are sampled with at most
    `max_samples` draws until the relative error is below `rtol`. These limits are attributes. The
    draws are a function of `seed`, the set and the scores of the row, so that results do not depend
    on batches or threads.

    Parameters
    ----------
    scores
        Scores (n, A). A score of -inf makes an item unavailable.
    temperature
        A positive number by which the scores are divided.

    Raises
    ------
    PolicyError
        A score is NaN or too large, a row has no available item, or the temperature is not positive.

    Examples
    --------
    >>> policy = PlackettLuce([[0.0, 0.0, np.log(2.0)]])
    >>> np.exp(policy.prefix_log_prob(np.array([[2, 0, 1]]))).round(4).tolist()
    [[0.5, 0.25, 0.25]]
    >>> np.exp(policy.position_log_prob(np.array([[2, 0, 1]]))).round(4).tolist()
    [[0.5, 0.3333, 0.4167]]
    """

    row_fields = ("scores",)
    max_states, rtol, max_samples, seed = 200_000, 1e-2, 4096, 0

    def __init__(self, scores: ArrayLike, temperature: float = 1.0) -> None:
        self.scores: Floats = np.ascontiguousarray(as_scores(scores, temperature, ndims=(2,)))

    def item_scores(self) -> Floats:
        return self.scores

    def check(self) -> None:
        as_scores(self.scores, ndims=(2,))

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return prefix_log_probs(self.scores, as_actions(actions, self)[:, None])[:, 0]

    def prefix_log_probs(self, rankings: Ints) -> Floats:
        items = [as_actions(rankings[:, s], self) for s in range(rankings.shape[1])]
        return prefix_log_probs(self.scores, np.stack(items, axis=1))

    def cells(self, length: int) -> int:
        return self.n_actions

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats | float]:
        K = items.shape[1]
        rows = np.arange(len(items)) % len(self.scores)
        size = sets.sum(axis=2)
        last = np.where(size > 0, K - np.argmax(sets[:, :, ::-1], axis=2), 0)
        prefix = np.pad(prefix_log_probs(self.scores, items[:, None])[:, 0], ((0, 0), (1, 0)))
        log_prob = np.take_along_axis(prefix, last, axis=1)
        # A mask with as many positions as its last position's number is a prefix; others have a gap.
        has_gap = last > size
        if not has_gap.any():
            return log_prob, 0.0
        # Masks with an unavailable item, or with one item at two positions, are impossible.
        missing = (self.scores[rows[:, None], items] == -np.inf) & (items >= 0)
        impossible = (sets & missing[:, None, :]).any(axis=2) | requested_twice(items, sets)
        log_prob[has_gap] = np.where(impossible[has_gap], -np.inf, np.nan)

        def answer(set_rows: Ints, gapped: Bools) -> tuple[Floats, Floats]:
            values = _lone_items(self.scores, items, set_rows, gapped, prefix)
            errors = np.zeros(len(set_rows))
            # Includes sets whose masses underflowed in the quadrature.
            unsolved = np.flatnonzero(np.isnan(values))
            if len(unsolved):
                task = rows[set_rows[unsolved]], items[set_rows[unsolved]], gapped[unsolved]
                values[unsolved], errors[unsolved] = _sets(self, *task)
            if (values == np.inf).any():
                raise PolicyError(
                    f"row {first + set_rows[np.argmax(values)]}: scores span more than 650 nats and the "
                    f"items that matter make more than max_states={self.max_states} states; raise "
                    "max_states or the temperature"
                )
            return values, errors

        return answer_distinct(sets, log_prob, answer)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.plackett_luce import sample

        self.refuse_longer(length)
        return sample(self.scores, rng.random((self.n_rows, size, length)))


class BelowFold(ArrayPolicy):
    """The best `after` items in order of score, then a Plackett-Luce ranking of the remaining items.

    P(L) = 1[the items of L at the first `after` places agree] P_below(the other items of L).

    Parameters
    ----------
    scores
        Scores (n, A). Equal scores rank by action id; a score of -inf makes an item unavailable.
    after
        Number of places that are not random.
    temperature
        Temperature of the Plackett-Luce policy below.

    Raises
    ------
    PolicyError
        A score is NaN or too large, or `after` is less than one.

    Examples
    --------
    >>> policy = BelowFold([[3.0, 2.0, 1.0, 1.0]], after=2)
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 1, 3], [1, 0, 2]]))).round(3).tolist()
    [[1.0, 1.0, 0.5], [0.0, 0.0, 0.0]]
    """

    row_fields = ("head", "scores")

    def __init__(self, scores: ArrayLike, after: int, temperature: float = 1.0) -> None:
        table = as_scores(scores, temperature, ndims=(2,))
        #: The items of the first places (n, after), -1 where a row has fewer.
        self.head: Ints = best_first(table)[:, : int(after)]
        self.scores: Floats = np.array(table)
        rows, places = np.nonzero(self.head >= 0)
        self.scores[rows, self.head[rows, places]] = -np.inf
        self.check()

    def check(self) -> None:
        rows, A = self.scores.shape if self.scores.ndim == 2 else (0, 0)
        fits = self.head.ndim == 2 and len(self.head) == rows and self.head.shape[1] >= 1
        if not fits or self.head.max() >= A:
            raise PolicyError(
                f"at least one place stays as ranked; got places of shape {self.head.shape} for "
                f"scores of shape {self.scores.shape}"
            )

    def _policy_below(self) -> tuple[Bools, PlackettLuce]:
        """Return which rows (n,) have items for the places below, and the policy of those places."""
        has_items_below: Bools = np.any(self.scores > -np.inf, axis=1)
        # Rows without items below get arbitrary scores, and their probabilities are set to zero.
        return has_items_below, PlackettLuce(np.where(has_items_below[:, None], self.scores, 0.0))

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats]:
        after, (has_items_below, policy) = self.head.shape[1], self._policy_below()
        stands = items[:, :after] == self.head[:, : items.shape[1]]
        fits = (stands[:, None, :] | ~sets[..., :after]).all(axis=2)
        asks_below = sets[..., after:].any(axis=2)
        log_prob = np.where(fits & (has_items_below[:, None] | ~asks_below), 0.0, -np.inf)
        rel_var = np.zeros_like(log_prob)
        if asks_below.any():
            below = policy.subset_log_prob(items[:, after:], sets[..., after:])
            possible = asks_below & (log_prob == 0.0)
            np.copyto(log_prob, below.log_prob, where=possible)
            np.copyto(rel_var, below.rel_var, where=possible)
        return log_prob, rel_var

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        self.refuse_longer(length)
        top = np.repeat(self.head[:, None, :length], size, axis=1)
        if top.shape[2] == length:
            return top
        has_items_below, policy = self._policy_below()
        below = policy.sample(length - top.shape[2], rng, size=size)
        return np.concatenate([top, np.where(has_items_below[:, None, None], below, -1)], axis=2)


#: Limit of the states for a set of positions; only sets with many gaps and K > 40 reach it.
MAX_STATES = 20_000_000


class SlotEpsilonGreedy(ArrayPolicy):
    """At each slot the best remaining item with probability 1 - epsilon, otherwise a uniformly drawn one.

    All probabilities are exact.

    Parameters
    ----------
    scores
        Scores (n, A). Equal scores rank by action id; a score of -inf makes an item unavailable.
    epsilon
        Probability of the uniform draw, 0 to 1.

    Raises
    ------
    PolicyError
        A score is NaN or too large, or epsilon is no probability.

    Examples
    --------
    >>> policy = SlotEpsilonGreedy([[3.0, 2.0, 1.0]], epsilon=0.3)
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 2, 1]]))).round(3).tolist()
    [[0.8, 0.12, 0.12]]
    >>> np.exp(policy.position_log_prob(np.array([[0, 2, 1]]))).round(3).tolist()
    [[0.8, 0.135, 0.205]]
    """

    row_fields = ("rank",)
    shared_fields = ("epsilon",)

    def __init__(self, scores: ArrayLike, epsilon: float = 0.3) -> None:
        table = as_scores(scores, ndims=(2,))
        order = np.argsort(-table, axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(table.shape[1])[None, :], axis=1)
        # -2 if unavailable, because -1 is padding, whose probability is one.
        self.rank: Ints = np.where(table > -np.inf, rank, -2)  # (n, A)
        self.epsilon = float(epsilon)
        self.check()

    def check(self) -> None:
        if not 0 <= self.epsilon <= 1:
            raise PolicyError(f"epsilon must lie in [0, 1], got {self.epsilon}")
        if self.rank.ndim != 2 or self.rank.min() < -2 or self.rank.max() >= self.rank.shape[1]:
            raise PolicyError(
                f"ranks must be an (n, A) table of places 0..A-1, got shape {self.rank.shape}"
            )

    def item_scores(self) -> Floats:
        return np.where(self.rank >= 0, -np.log1p(np.maximum(self.rank, 0)), -np.inf)

    def _ranks(self, items: Ints) -> tuple[Ints, Ints]:
        """Return the ranks of items (n, K) and the number of available items (n,)."""
        rows = np.arange(len(items)) % self.n_rows
        available = (self.rank >= 0).sum(axis=1)[rows]
        return np.where(items < 0, -1, self.rank[rows[:, None], items]), available

    def prefix_log_prob(self, actions: Ints) -> Floats:
        from counterrank.policies.kernels.slot_epsilon import prefix_log_prob

        ranks, available = self._ranks(as_actions(actions, self))
        return prefix_log_prob(ranks, available, self.epsilon)

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats]:
        from counterrank.policies.kernels.slot_epsilon import subset_log_prob

        ranks, available = self._ranks(items)
        impossible = requested_twice(items, sets) | (sets & (ranks == -2)[:, None, :]).any(axis=2)

        def answer(rows: Ints, masks: Bools) -> tuple[Floats, Floats]:
            requested_ranks = np.where(masks, ranks[rows], -1)
            ordered = np.sort(np.where(masks, requested_ranks, self.n_actions), axis=1)
            log_probs = subset_log_prob(
                requested_ranks, ordered, available[rows], self.epsilon, MAX_STATES
            )
            if np.isnan(log_probs).any():
                t = int(np.argmax(np.isnan(log_probs)))
                raise PolicyError(
                    f"row {first + rows[t]}: positions {(np.flatnonzero(masks[t]) + 1).tolist()} "
                    f"need more than {MAX_STATES} states; ask for fewer positions, or for a prefix"
                )
            return log_probs, np.zeros_like(log_probs)

        unsolved = np.where(sets.any(axis=2), np.nan, 0.0)
        return answer_distinct(sets, np.where(impossible, -np.inf, unsolved), answer)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.slot_epsilon import sample

        self.refuse_longer(length)
        available = (self.rank >= 0).sum(axis=1)
        drawn = sample(available, rng.random((self.n_rows, size, length, 2)), self.epsilon)
        last = np.where(self.rank < 0, self.n_actions, self.rank)
        order = np.argsort(last, axis=1, kind="stable")
        return np.where(drawn < 0, -1, order[np.arange(self.n_rows)[:, None, None], drawn])


#: Number of scores whose exponentials fit the cache.
_CACHED = 50_000


def prefix_log_probs(scores: Floats, rankings: Ints) -> Floats:
    """Return (n, S, K) log P(a_1..a_k) = sum over j<=k of s_{a_j} - log(mass remaining before j).

    The remaining mass is summed from the end of the ranking. The difference of total and used mass
    would be rounding noise if the used items hold nearly all of it. A repeated item and an item of
    score -inf give -inf.
    """
    from counterrank.policies.kernels.plackett_luce import prefix_log_probs

    out = np.empty(rankings.shape)
    step = max(1, _CACHED // scores.shape[1])
    for start in range(0, len(rankings), step):
        rows = slice(start, start + step)
        table = scores if len(scores) == 1 else scores[rows]
        shifted = table - table.max(axis=1, keepdims=True)
        out[rows] = prefix_log_probs(shifted, np.exp(shifted), rankings[rows])
    return out


def _lone_items(
    scores: Floats, items: Ints, set_rows: Ints, masks: Bools, prefix: Floats
) -> Floats:
    """Return log-probabilities (T,) of sets that are a prefix and one item beyond it, NaN for others.

    `masks` (T, K) belong to the rows `set_rows` of `items` (n, K); `prefix` holds the
    log-probabilities of prefixes (n, K + 1).
    """
    from counterrank.policies.kernels.plackett_luce_singles import singles

    K = items.shape[1]
    lead, place = np.argmin(masks, axis=1), K - 1 - np.argmax(masks[:, ::-1], axis=1)
    is_lone = masks.sum(axis=1) == lead + 1
    values = np.full(len(set_rows), np.nan)
    for skip in np.unique(lead[is_lone]):
        sets = np.flatnonzero(is_lone & (lead == skip))
        requested = np.zeros((len(items), K - skip), bool)
        requested[set_rows[sets], place[sets] - skip] = True
        asked_rows = np.flatnonzero(requested.any(axis=1))
        # Luce's axiom: given the leading items, the ranking of the others does not depend on them.
        table = scores[asked_rows % len(scores)]
        np.put_along_axis(table, items[asked_rows, :skip], -np.inf, axis=1)
        log_probs = np.empty(requested.shape)
        log_probs[asked_rows] = singles(
            table, items[asked_rows, skip:].copy(), requested[asked_rows], clock_rules(K)
        )
        values[sets] = log_probs[set_rows[sets], place[sets] - skip] + prefix[set_rows[sets], skip]
    return values


def _sets(policy: PlackettLuce, rows: Ints, items: Ints, masks: Bools) -> tuple[Floats, Floats]:
    """Return log-probabilities and squared relative errors (T,) of masks (T, K), exact or sampled."""
    from counterrank.policies.kernels.plackett_luce_subsets import sampled_log_prob, subset_log_prob

    order = np.argsort(-policy.scores, axis=1)
    values = subset_log_prob(policy.scores, order, rows, items, masks, policy.max_states)
    errors, drawn = np.zeros(len(rows)), np.flatnonzero(np.isnan(values))
    if len(drawn):
        limits = float(policy.rtol), int(policy.max_samples), int(policy.seed)
        values[drawn], errors[drawn] = sampled_log_prob(
            policy.scores, rows[drawn], items[drawn], masks[drawn], limits
        )
    return values, errors


#: Numbers of points of the Gauss rules, multiples of eight because loops are unrolled by eight.
SIZES = (8, 16, 24, 32, 40, 48, 64)
#: Number of terms of the series for light clocks (`kernels.plackett_luce_singles`), a multiple of four.
TERMS = 16

Rules = tuple[Ints, Floats, Floats, int, Floats]


@lru_cache(maxsize=64)
def clock_rules(K: int) -> Rules:
    """Return the quadrature rules for rankings of K positions.

    These are sizes, points and weights (rules, points) of Gauss rules for int_0^inf f(x) dx with f
    like x exp(-x), the points per octave of the trapezoid rule, and the series for light clocks.
    """
    from scipy.special import roots_genlaguerre

    points, weights = np.zeros((2, len(SIZES), SIZES[-1]))
    for j, size in enumerate(SIZES):
        x, w = roots_genlaguerre(size, 1)
        # The integrand contains the factor x exp(-x), so it is removed from the weight.
        points[j, :size], weights[j, :size] = x, np.exp(np.log(w) + x) / x
    return np.array(SIZES), points, weights, nodes_per_octave(K), light_series(K)


def nodes_per_octave(K: int) -> int:
    """Return m such that the trapezoid rule with step h = log(2)/m has an error below 1e-13.

    For equal clocks the time of the K-th event is a Gamma(K) variable, whose aliasing error is 2
    |Gamma(K + i y)| / Gamma(K) with y = 2 pi / h.

    >>> [nodes_per_octave(K) for K in (4, 10, 20, 100)]
    [3, 4, 5, 10]
    """
    from scipy.special import loggamma

    m = 3
    while (loggamma(K + 2j * np.pi * m / np.log(2)) - loggamma(K)).real > np.log(0.5e-13):
        m += 1
    return m


def light_series(K: int) -> Floats:
    """Return (K, TERMS) coefficients: entry [c - 1, m - 1] is that of x^m in (exp(x) - 1)^c.

    >>> light_series(2)[:, :3].round(4).tolist()
    [[1.0, 0.5, 0.1667], [0.0, 1.0, 1.0]]
    """
    exponential = 1.0 / np.cumprod(np.arange(1.0, TERMS + 1))
    out = np.zeros((K, TERMS))
    out[0] = exponential
    for c in range(1, K):
        out[c, 1:] = np.convolve(out[c - 1], exponential)[: TERMS - 1]
    return out
