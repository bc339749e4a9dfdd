"""Policies defined by a callback that gives the distribution of the next item after a prefix."""

from collections.abc import Callable

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.arrays import (
    ArrayPolicy,
    answer_distinct,
    as_actions,
    not_distribution,
    requested_twice,
)

#: Takes rows (b,) and prefixes (b, k), returns probabilities of the next item (b, A).
Step = Callable[[Ints, Ints], Floats]

_FIRST = 64


class Autoregressive(ArrayPolicy):
    """P(a_1..a_K | x) = prod over k of step(row, a_1..a_{k-1})[a_k].

    Prefixes are exact. A set of positions is exact if its gaps can be filled in at most
    `max_states` ways. Otherwise the gaps are drawn by importance sampling: the requested items are
    excluded from the gaps, and the weights of up to `max_samples` draws are averaged until the
    relative error is below `rtol`. That error is reported. These limits are attributes. The policy
    cannot be saved, because it contains a function.

    Parameters
    ----------
    step
        A function of rows (b,) and prefixes (b, k) that returns the probabilities (b, A) of the
        next item.
    n_rows
        Number of contexts.
    n_actions
        Number of items A.
    replacement
        Whether an item may be shown twice in a ranking.

    Raises
    ------
    PolicyError
        The callback returns an array of another shape, numbers that are no distribution, or (without
        replacement) a positive probability for an item of the prefix.

    Examples
    --------
    >>> fair = Autoregressive(lambda rows, prefixes: np.full((len(rows), 2), 0.5), 1, 2, replacement=True)
    >>> np.exp(fair.prefix_log_prob(np.array([[0, 1]]))).tolist()
    [[0.5, 0.25]]
    """

    row_fields = ("rows",)
    max_states, rtol, max_samples, seed = 5_000, 2e-2, 4096, 0

    def __init__(
        self, step: Step, n_rows: int, n_actions: int, *, replacement: bool = False
    ) -> None:
        self.step, self.n_items, self.replacement = step, int(n_actions), replacement
        self.rows: Ints = np.arange(n_rows)

    def next_probs(self, rows: Ints, prefixes: Ints) -> Floats:
        """Return the callback's probabilities (b, A) after checking that they are distributions."""
        probs = np.array(self.step(rows, prefixes), dtype=np.float64)
        if probs.shape != (len(rows), self.n_items):
            raise PolicyError(
                f"the callback returned shape {probs.shape}, expected {(len(rows), self.n_items)}"
            )
        bad = not_distribution(probs)
        if bad.any():
            i = int(np.argmax(bad))
            raise PolicyError(
                f"row {rows[i]}: after {prefixes[i].tolist()} the callback's probabilities sum to "
                f"{probs[i].sum():.9g} or are negative"
            )
        if not self.replacement and prefixes.shape[1]:
            used = np.take_along_axis(probs, prefixes, axis=1)
            if (used > 0).any():
                i = int(np.argmax((used > 0).any(axis=1)))
                raise PolicyError(
                    f"row {rows[i]}: after {prefixes[i].tolist()} the callback gives a used item "
                    "probability "
                    f"{used[i].max():.6g}; strike used items out, or pass replacement=True"
                )
        return probs

    def item_scores(self) -> Floats:
        with np.errstate(divide="ignore"):
            first: Floats = np.log(self.next_probs(self.rows, np.empty((self.n_rows, 0), np.int64)))
        return first

    def _ids(self, n: int) -> Ints:
        return np.broadcast_to(self.rows, (n,)) if self.n_rows == 1 else self.rows

    def prefix_log_prob(self, actions: Ints) -> Floats:
        items = as_actions(actions, self)
        n, K = items.shape
        ids = self._ids(n)
        steps = np.zeros((n, K))
        alive = np.ones(n, bool)
        for k in range(K):
            alive &= items[:, k] >= 0
            rows = np.flatnonzero(alive)
            if len(rows):
                probs = self.next_probs(ids[rows], items[rows, :k])
                with np.errstate(divide="ignore"):
                    steps[rows, k] = np.log(probs[np.arange(len(rows)), items[rows, k]])
                # The callback is never asked what follows an impossible prefix; the sum stays -inf.
                alive[rows] = steps[rows, k] > -np.inf
        return np.cumsum(steps, axis=1)

    def solve(self, items: Ints, sets: Bools, first: int) -> tuple[Floats, Floats]:
        ids = self._ids(len(items))

        def answer(rows: Ints, requested_masks: Bools) -> tuple[Floats, Floats]:
            results = [
                self._set(ids[row], items[row], mask)
                for row, mask in zip(rows, requested_masks, strict=True)
            ]
            log_prob, rel_var = np.reshape(results, (len(rows), 2)).T
            return log_prob, rel_var

        log_prob = np.where(sets.any(axis=2), np.nan, 0.0)
        if not self.replacement:
            log_prob[requested_twice(items, sets)] = -np.inf
        return answer_distinct(sets, log_prob, answer)

    def _set(self, row: int, items: Ints, positions: Bools) -> tuple[float, float]:
        """Return the log-probability of the items at masked positions, and its squared relative error.

        The number of draws is doubled until the relative error is below `rtol`. The draws depend
        only on the seed, the row and the requested items.
        """
        from counterrank.policies.kernels.plackett_luce_subsets import summary

        mask = positions[: int(np.flatnonzero(positions)[-1]) + 1]
        requested_items = items[: len(mask)]
        # Python integers, because 100,000 items in 62 gaps overflow a float.
        if int(self.n_items) ** int((~mask).sum()) <= self.max_states:
            return float(np.logaddexp.reduce(fillings(self, row, requested_items, mask))), 0.0
        # The same question has the same answer in any batch, order or thread.
        key = [self.seed, int(row), *np.where(mask, requested_items + 1, 0).tolist()]
        rng = np.random.default_rng(key)
        draws, goal = np.empty(0), min(_FIRST, self.max_samples)
        while True:
            new_draws = fillings(
                self, row, requested_items, mask, rng.random((goal - len(draws), len(mask)))
            )
            draws = np.concatenate(
                [draws, new_draws, np.full(goal - len(draws) - len(new_draws), -np.inf)]
            )
            log_prob, rel_var = summary(draws)
            exact_enough = log_prob > -np.inf and rel_var <= self.rtol**2
            if exact_enough or goal >= self.max_samples:
                return log_prob, rel_var
            goal = min(2 * goal, self.max_samples)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.rows import categorical

        ids = np.repeat(self.rows, size)
        drawn = np.empty((len(ids), 0), np.int64)
        for _ in range(length):
            probs = self.next_probs(ids, drawn)
            chosen = categorical(np.cumsum(probs, axis=1), rng.random((len(ids), 1)))
            drawn = np.concatenate([drawn, chosen], axis=1)
        return drawn.reshape(self.n_rows, size, length)


def fillings(
    policy: Autoregressive,
    row: int,
    requested_items: Ints,
    mask: Bools,
    uniforms: Floats | None = None,
) -> Floats:
    """Return log-weights of rankings that have the requested items at the masked positions.

    Without `uniforms` there is one weight for each way to fill the gaps, and their sum is P. With
    `uniforms` (M, K) there is one importance weight for each draw that can be completed, and their
    mean over all M draws is P. Without replacement, items requested at a later position are excluded
    from the gaps before it, and the weight is the probability of what remains.
    """
    from counterrank.policies.kernels.rows import categorical

    M = 1 if uniforms is None else len(uniforms)
    prefixes, value, alive = np.empty((M, 0), np.int64), np.zeros(M), np.arange(M)
    for k, is_requested in enumerate(mask):
        if not len(value):
            break
        probs = policy.next_probs(np.full(len(value), row), prefixes)
        if is_requested:
            probs[:, np.arange(policy.n_items) != requested_items[k]] = 0.0
        elif not policy.replacement:
            probs[:, requested_items[k + 1 :][mask[k + 1 :]]] = 0.0
        if is_requested or uniforms is None:
            keep, chosen = np.nonzero(probs > 0)
            chance = probs[keep, chosen]
        else:
            cumulative = np.cumsum(probs, axis=1)
            keep = np.flatnonzero(cumulative[:, -1] > 0)
            chosen = categorical(cumulative[keep], uniforms[alive[keep], k : k + 1])[:, 0]
            chance = np.minimum(cumulative[keep, -1], 1.0)
        value, alive = value[keep] + np.log(chance), alive[keep]
        prefixes = np.column_stack([prefixes[keep], chosen])
    return value
