"""Plackett-Luce: rankings drawn item by item without replacement, in proportion to exp(score).

A set of positions is answered by the cheapest exact method, else by sampling. Empty sets and prefixes
are sums. A single item beyond a prefix is a quadrature, for all of a row at once. Other sets use a
dynamic programme over subsets while it fits the budget, and draws otherwise.
Equal sets of a row are answered once.

The quadrature integrates over a race of exponential clocks, at times of one of the `clock_rules`. P(b at
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

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.policies.arrays import (
    CELLS,
    ArrayPolicy,
    answered,
    as_actions,
    as_masks,
    repeats,
    without_padding,
)
from counterrank.policies.base import SubsetResult
from counterrank.policies.factored import as_scores, best_first


class PlackettLuce(ArrayPolicy):
    """P(a_1..a_K | x) = prod over k of exp(s_{a_k}) / sum of exp(s) over items not yet used (Plackett 1975).

    Prefixes are exact; a set of positions is exact by a programme of at most `max_states` states; a
    single item by quadrature (1e-12); anything larger by at most `max_samples` draws, until the
    relative error is `rtol`. These limits are attributes. The draws are a function of `seed`, the set and
    the row's content alone, so a result does not depend on chunks or threads. A score of -inf makes an
    item unavailable.

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

    def check(self) -> None:
        as_scores(self.scores, ndims=(2,))

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return prefix_log_probs(self.scores, as_actions(actions, self)[:, None])[:, 0]

    def prefix_log_probs(self, rankings: Ints) -> Floats:
        items = [as_actions(rankings[:, s], self) for s in range(rankings.shape[1])]
        return prefix_log_probs(self.scores, np.stack(items, axis=1))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        (n, K), J = items.shape, sets.shape[-2]
        log_prob, rel_var = np.zeros((2, n, J))
        step = max(1, CELLS // max(J * K, self.n_actions))
        for start in range(0, n, step):
            block = slice(start, start + step)
            masked = without_padding(items[block], sets if sets.ndim == 2 else sets[block])
            part = _solve_block(self.take(block), start, items[block], masked)
            log_prob[block], rel_var[block] = part.log_prob, part.rel_var
        return SubsetResult(log_prob, rel_var)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.plackett_luce import sample

        self.refuse_longer(length)
        return sample(self.scores, rng.random((self.n_rows, size, length)))


class BelowFold(ArrayPolicy):
    """The best `after` items stand as ranked; the places below are drawn by Plackett-Luce from the rest.

    P(L) = [the items of L among the first places stand there] P_rest(the others of L). Equal scores
    rank by action id. A score of -inf makes an item unavailable.

    >>> policy = BelowFold([[3.0, 2.0, 1.0, 1.0]], after=2)
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 1, 3], [1, 0, 2]]))).round(3).tolist()
    [[1.0, 1.0, 0.5], [0.0, 0.0, 0.0]]
    """

    row_fields = ("head", "scores")

    def __init__(self, scores: ArrayLike, after: int, temperature: float = 1.0) -> None:
        table = as_scores(scores, temperature, ndims=(2,))
        #: The items of the first places (n, after), -1 where a row has fewer.
        self.head: Ints = best_first(table)[:, :after]
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

    def _rest(self) -> tuple[Bools, PlackettLuce]:
        """Return which rows (n,) have items for the places below, and the policy there."""
        some: Bools = np.any(self.scores > -np.inf, axis=1)
        # A row without items below still needs a policy; what it is asked there is impossible.
        return some, PlackettLuce(np.where(some[:, None], self.scores, 0.0))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = without_padding(items, as_masks(masks, items))
        after, (some, policy) = self.head.shape[1], self._rest()
        stands = items[:, :after] == self.head[:, : items.shape[1]]
        fits = (stands[:, None, :] | ~sets[..., :after]).all(axis=2)
        asked = sets[..., after:].any(axis=2)
        log_prob = np.where(fits & (some[:, None] | ~asked), 0.0, -np.inf)
        rel_var = np.zeros_like(log_prob)
        if asked.any():
            below = policy.subset_log_prob(items[:, after:], sets[..., after:])
            possible = asked & (log_prob == 0.0)
            np.copyto(log_prob, below.log_prob, where=possible)
            np.copyto(rel_var, below.rel_var, where=possible)
        return SubsetResult(log_prob, rel_var)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        self.refuse_longer(length)
        top = np.repeat(self.head[:, None, :length], size, axis=1)
        if top.shape[2] == length:
            return top
        some, policy = self._rest()
        below = policy.sample(length - top.shape[2], rng, size=size)
        return np.concatenate([top, np.where(some[:, None, None], below, -1)], axis=2)


#: Scores whose exponentials stay in the cache.
_CACHED = 50_000


def prefix_log_probs(scores: Floats, rankings: Ints) -> Floats:
    """Return (n, S, K) log P(a_1..a_k) = sum over j<=k of s_{a_j} - log(mass remaining before j).

    Remaining mass is added up from the tail backwards, never total minus used: when the used items
    hold all but 1e-17 of the mass, a difference would be noise. An item asked for twice, or of
    score -inf, gives -inf.
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


def _solve_block(policy: PlackettLuce, start: int, items: Ints, masks: Bools) -> SubsetResult:
    """Return answers for masks (n, J, K) of shown items (n, K); `start` is the number of the first row."""
    scores, K = policy.scores, items.shape[1]
    rows = np.arange(len(items)) % len(scores)
    size = masks.sum(axis=2)
    last = np.where(size > 0, K - np.argmax(masks[:, :, ::-1], axis=2), 0)
    prefix = np.pad(prefix_log_probs(scores, items[:, None])[:, 0], ((0, 0), (1, 0)))
    log_prob = np.take_along_axis(prefix, last, axis=1)
    # As many asked positions as the last one's number: a prefix. Fewer: there is a gap.
    hard = last > size
    if not hard.any():
        return SubsetResult(log_prob, np.zeros_like(log_prob))
    # An unavailable item, or one item at two positions.
    missing = (scores[rows[:, None], items] == -np.inf) & (items >= 0)
    never = (masks & missing[:, None, :]).any(axis=2) | repeats(items, masks)
    log_prob[hard & never] = -np.inf

    def answer(at: Ints, gapped: Bools) -> tuple[Floats, Floats]:
        values = _lone_items(scores, items, at, gapped, prefix)
        errors = np.zeros(len(at))
        # Also where masses underflowed in the race.
        rest = np.flatnonzero(np.isnan(values))
        if len(rest):
            task = rows[at[rest]], items[at[rest]], gapped[rest]
            values[rest], errors[rest] = _sets(policy, *task)
        if np.isinf(values).any() and values.max() > 0:
            raise PolicyError(
                f"row {start + at[np.argmax(values)]}: scores span more than 650 nats and the items "
                f"that matter make more than max_states={policy.max_states} states; raise max_states "
                "or the temperature"
            )
        return values, errors

    return answered(masks, hard & ~never, log_prob, answer)


def _lone_items(scores: Floats, items: Ints, at: Ints, masks: Bools, prefix: Floats) -> Floats:
    """Return log-probabilities (T,) of sets that are a prefix and one item beyond it, NaN for others.

    Masks (T, K) of rows `at` of items (n, K) and log-probabilities of prefixes (n, K + 1).
    """
    from counterrank.policies.kernels.plackett_luce_singles import singles

    K = items.shape[1]
    lead, place = np.argmin(masks, axis=1), K - 1 - np.argmax(masks[:, ::-1], axis=1)
    lone = masks.sum(axis=1) == lead + 1
    values = np.full(len(at), np.nan)
    for skip in np.unique(lead[lone]):
        these = np.flatnonzero(lone & (lead == skip))
        want = np.zeros((len(items), K - skip), bool)
        want[at[these], place[these] - skip] = True
        some = np.flatnonzero(want.any(axis=1))
        # Luce's axiom: given the leading items, the others race as if those had never been there.
        table = scores[some % len(scores)]
        np.put_along_axis(table, items[some, :skip], -np.inf, axis=1)
        found = np.empty(want.shape)
        found[some] = singles(table, items[some, skip:].copy(), want[some], clock_rules(K))
        values[these] = found[at[these], place[these] - skip] + prefix[at[these], skip]
    return values


def _sets(policy: PlackettLuce, rows: Ints, items: Ints, masks: Bools) -> tuple[Floats, Floats]:
    """Return log-probabilities and squared relative errors (T,) of masks (T, K), by states or draws."""
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


#: Numbers of points that Gauss rules are made for: loops over eight at a time.
SIZES = (8, 16, 24, 32, 40, 48, 64)
#: Terms of a series in a light clock's rate times the latest time, a multiple of four
#: (`kernels.plackett_luce_singles`).
TERMS = 16

Rules = tuple[NDArray[np.int64], Floats, Floats, int, Floats]


@lru_cache(maxsize=64)
def clock_rules(K: int) -> Rules:
    """Return what integrals need for rankings of K positions.

    Sizes, points and weights (rules, most points) of Gauss rules for int_0^inf f(x) dx, f like x exp(-x);
    points of the trapezoid per octave, and series for light clocks.
    """
    from scipy.special import roots_genlaguerre

    points, weights = np.zeros((2, len(SIZES), SIZES[-1]))
    for j, size in enumerate(SIZES):
        x, w = roots_genlaguerre(size, 1)
        # The integrand brings x exp(-x) along, so that it is taken out of the weight.
        points[j, :size], weights[j, :size] = x, np.exp(np.log(w) + x) / x
    return np.array(SIZES), points, weights, nodes_per_octave(K), light_series(K)


def nodes_per_octave(K: int) -> int:
    """Return m for the step h = log(2)/m at which the trapezoid errs by less than 1e-13.

    For equal clocks the K-th ring is a Gamma(K) variable, whose aliasing error is 2 |Gamma(K + i
    y)| / Gamma(K) with y = 2 pi / h.

    >>> [nodes_per_octave(K) for K in (4, 10, 20, 100)]
    [3, 4, 5, 10]
    """
    from scipy.special import loggamma

    m = 3
    while (loggamma(K + 2j * np.pi * m / np.log(2)) - loggamma(K)).real > np.log(0.5e-13):
        m += 1
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
