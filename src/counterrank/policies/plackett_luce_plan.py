"""Which method answers which mask of a Plackett-Luce policy: the cheapest that is exact, else sampling.

Empty masks and prefixes are sums; a lone item beyond a prefix is a quadrature, all of a row at once; other
sets run the subset programme while it fits the budget; the rest shares one set of draws a row. Equal masks of
a row are answered once.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from counterrank.errors import PolicyError
from counterrank.policies.base import Bools, Floats, Ints, SubsetResult
from counterrank.policies.plackett_luce import MAX_SPAN
from counterrank.policies.tasks import Tasks, distinct, repeats, without_padding

#: Below this many states the programme beats the quadrature for a lone item.
_SMALL = 256
#: Cells of masks or scores held at once.
_CELLS = 4_000_000
#: A quadrature result below this log may have lost terms to underflow.
_UNDERFLOW = -575.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The budget: states of the programme, relative error and number of draws, seed of the draws."""

    max_states: int
    rtol: float
    max_samples: int
    seed: int


def solve(scores: Floats, items: Ints, sets: Bools, limits: Limits) -> SubsetResult:
    """Return log-probabilities (n, J) of masks (J, K) or (n, J, K), a block of rows at a time."""
    n, K = items.shape
    J = sets.shape[-2]
    log_prob, rel_var = np.zeros((n, J)), np.zeros((n, J))
    hardest = 0
    step = max(1, _CELLS // max(J * K, scores.shape[1]))
    for start in range(0, n, step):
        block = slice(start, min(start + step, n))
        masks = sets if sets.ndim == 2 else sets[block]
        rows = scores if len(scores) == 1 else scores[block]
        parts = _solve_block(rows, items[block], masks, limits, first=start)
        log_prob[block], rel_var[block] = parts[0], parts[1]
        hardest = max(hardest, parts[2])
    return SubsetResult(log_prob, rel_var, ("exact", "quadrature", "sampled")[hardest])


def _solve_block(scores: Floats, items: Ints, sets: Bools, limits: Limits, *, first: int) -> tuple[Floats, Floats, int]:
    from counterrank.policies.kernels.plackett_luce import prefix_log_prob

    n, K = items.shape
    masks = without_padding(items, sets)
    size = masks.sum(axis=2)
    last = np.where(size > 0, K - np.argmax(masks[:, :, ::-1], axis=2), 0)
    prefix = np.concatenate([np.zeros((n, 1)), prefix_log_prob(scores, items)], axis=1)
    log_prob = np.take_along_axis(prefix, last, axis=1)
    rel_var = np.zeros_like(log_prob)
    hard = last > size
    if not hard.any():
        return log_prob, rel_var, 0
    never = _impossible(scores, items, masks, last)
    log_prob[hard & never] = -np.inf
    tasks = distinct(masks, hard & ~never)
    work = _Work(scores, items, tasks, prefix, limits)
    values, errors, hardest = work.run()
    if np.isnan(values).any():
        row = int(tasks.rows[np.argmax(np.isnan(values))]) + first
        raise PolicyError(
            f"row {row}: scores span more than {MAX_SPAN:.0f} nats and the items that matter make more than "
            f"max_states={limits.max_states} states; raise max_states or the temperature"
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

    def __init__(self, scores: Floats, items: Ints, tasks: Tasks, prefix: Floats, limits: Limits) -> None:
        masks, rows = tasks.masks, tasks.rows
        self.scores, self.items, self.masks, self.rows = scores, items[rows], masks, rows
        self.prefix, self.limits = prefix, limits
        self.score_rows = np.zeros_like(rows) if len(scores) == 1 else rows
        self.size = masks.sum(axis=1)
        self.lead = np.argmin(masks, axis=1)  # a gap exists, so the first False ends the leading run
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
        span = self.scores.max(axis=1) - np.where(self.scores > -np.inf, self.scores, np.inf).min(axis=1)
        far: Bools = span[self.score_rows] > MAX_SPAN
        return far

    def run(self) -> tuple[Floats, Floats, int]:
        values, errors = np.empty(len(self.rows)), np.zeros(len(self.rows))
        lone = (self.size - self.lead == 1) & ~self.wide
        fits = (self.states <= self.limits.max_states) & ~self.wide
        quick = lone & (self.states > min(_SMALL, self.limits.max_states))
        if quick.any():
            values[quick] = self._singles(np.flatnonzero(quick))
            quick[quick] = values[quick] > _UNDERFLOW
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

        return subset_log_prob(self.scores, self.order, self.score_rows[which], self.items[which], self.masks[which])

    def _wide(self, which: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce_wide import subset_log_prob

        rows, limit = self.score_rows[which], self.limits.max_states
        return subset_log_prob(self.scores, self.order, rows, self.items[which], self.masks[which], limit)

    def _sampled(self, which: Ints) -> tuple[Floats, Floats]:
        from counterrank.policies.kernels.plackett_luce_sampled import subset_log_prob

        limits = (float(self.limits.rtol), int(self.limits.max_samples), int(self.limits.seed))
        row_of = (self.rows[which], self.score_rows[which])
        return subset_log_prob(self.scores, row_of, self.items[which], self.masks[which], limits)

    def _singles(self, which: Ints) -> Floats:
        from counterrank.policies.kernels.plackett_luce_singles import singles

        K = self.masks.shape[1]
        position = K - 1 - np.argmax(self.masks[which][:, ::-1], axis=1)
        keys = self.rows[which] * (K + 1) + self.lead[which]
        _, first, group = np.unique(keys, return_index=True, return_inverse=True)
        want = np.zeros((len(first), K), bool)
        want[group, position] = True
        heads = which[first]
        table = self.scores if len(self.scores) == 1 else self.scores[self.rows[heads]]
        order = self.order if len(self.scores) == 1 else self.order[self.rows[heads]]
        found = singles(table, order, self.items[heads], self.lead[heads], want, nodes_per_octave(K))
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


@lru_cache(maxsize=256)
def nodes_per_octave(K: int) -> int:
    """Return m for the step h = log(2)/m at which the trapezoid errs by less than 1e-11.

    For equal clocks the K-th ring is a Gamma(K) variable, whose aliasing error is 2 |Gamma(K + i y)| /
    Gamma(K) with y = 2 pi / h, and |Gamma(K + i y)|^2 = pi / (y sinh(pi y)) prod over j < K of (j^2 + y^2).

    >>> [nodes_per_octave(K) for K in (4, 10, 20, 100)]
    [3, 4, 5, 9]
    """
    j = np.arange(K)
    m = 2
    while True:
        m += 1
        y = 2 * np.pi * m / np.log(2)
        log_square = np.log(2 * np.pi / y) - np.pi * y + np.log(j * j + y * y).sum()
        if np.log(2) + 0.5 * log_square - np.log(np.maximum(j, 1)).sum() < np.log(1e-11):
            return m
