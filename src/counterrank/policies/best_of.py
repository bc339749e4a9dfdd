"""Best of m: draw m rankings from the logging policy and serve the one with the highest score.

Let F_x be the distribution function of the score under the logging policy. Then pi_m(a|x) /
pi_0(a|x) = m F_x(q(a))^(m-1), which is at most m for any number of positions and items. If B of L
reference draws of the logging policy score below the logged ranking, m C(B, m-1) / C(L, m-1) is an
unbiased estimate of that weight: C(B, m-1) / C(L, m-1) is the share of sets of m-1 draws that all
score below it. Only the sampler of the logging policy is needed. Ties are broken by random keys.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Self

import numpy as np

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.policies.base import Policy, Rows, SubsetResult
from counterrank.policies.row_random import RowRandom

#: Takes rows (b,) and rankings (b, D, K), returns the score of each ranking (b, D).
ListScore = Callable[[Ints, Ints], Floats]

#: Number of rows whose reference draws are made together.
_BLOCK = 1024


class BestOf(Policy):
    """The ranking with the highest `score` of `m` rankings drawn from `logger`.

    `joint_weight` estimates weights against the logger from reference rankings. These are a function
    of `seed` and of the row's number in the log, so that they do not depend on batches. There is no
    such formula for prefixes and single positions, and requests for them raise PolicyError.

    Parameters
    ----------
    logger
        The logging policy, which must be able to sample.
    score
        A function of rows (b,) and rankings (b, D, K) that returns scores (b, D).
    m
        Number of rankings of which the best is served.
    draws
        Number of reference rankings for each row.
    seed
        Seed of the reference rankings.
    numbers
        Row numbers in the log, 0 to n - 1 by default.

    Raises
    ------
    PolicyError
        The logger cannot sample, `m` is not a positive integer, or there are fewer than m - 1 draws.

    Examples
    --------
    >>> from counterrank.policies.ranked import UniformPermutation
    >>> first_item = lambda rows, rankings: -rankings[:, :, 0].astype(float)
    >>> BestOf(UniformPermutation(3), first_item, 2).serve(np.array([[[2, 1], [0, 1]]])).tolist()
    [[0, 1]]
    """

    capabilities = frozenset({"joint", "sample"})

    def __init__(
        self,
        logger: Policy,
        score: ListScore,
        m: int,
        *,
        draws: int = 64,
        seed: int = 0,
        numbers: Ints | None = None,
    ) -> None:
        logger.require("sample")
        if m < 1 or int(m) != m:
            raise PolicyError(f"best of m needs a whole m of at least 1, got {m}")
        # With fewer, C(L, m-1) in the weight's denominator is 0.
        if draws < max(m - 1, 1):
            raise PolicyError(
                f"best of {m} needs at least {m - 1} reference draws per row, got {draws}"
            )
        self.logger, self.score, self.m, self.draws, self.seed = logger, score, int(m), draws, seed
        self.numbers: Ints = np.arange(logger.n_rows) if numbers is None else numbers
        self.rows: Ints = np.arange(len(self.numbers))
        # Reference draws by length, rows and page ends; `take` returns policies that share them.
        self._references: dict[tuple[int, bytes, bytes], tuple[Floats, Floats]] = {}

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def n_actions(self) -> int:
        return self.logger.n_actions

    def take(self, rows: Rows) -> Self:
        # Logger and numbers are not sliced, because the stored reference draws refer to all rows.
        chosen = copy.copy(self)
        chosen.rows = self.rows[rows]
        return chosen

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        drawn = self._drawn(self.rows, length, rng, size * self.m).reshape(-1, self.m, length)
        return self.serve(drawn, np.repeat(self.rows, size)).reshape(-1, size, length)

    def serve(self, drawn: Ints, rows: Ints | None = None) -> Ints:
        """Return the best of the rankings (n, m, K) for each row: (n, K); the first of equal scores."""
        values = self._scored(self.rows if rows is None else rows, drawn)
        best: Ints = drawn[np.arange(len(drawn)), np.argmax(values, axis=1)]
        return best

    def joint_weight(self, actions: Ints) -> Floats:
        """Return unbiased weights (n,) of rankings (n, K) against the logger, each in [0, m]."""
        items = np.ascontiguousarray(actions, dtype=np.int64)
        if self.n_rows not in (1, len(items)):
            raise PolicyError(f"the policy has {self.n_rows} rows and the actions {len(items)}")
        bound = self.of_rows(len(items))
        logged_scores = self._scored(bound.rows, items[:, None, :])
        reference, keys = bound._reference(items.shape[1], (items >= 0).sum(axis=1))
        return drawn_weight(draws_below(logged_scores, reference, keys), self.draws, self.m)

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        raise self.refusal("sets of positions")

    def refusal(self, what: str) -> PolicyError:
        """Return the error for requests of probabilities of prefixes, positions or sets."""
        return PolicyError(
            f"best of {self.m} has a weight for the whole ranking, none for {what}, because its "
            "choice depends on the whole ranking. Use ips, snips or clip-ips, whose weights are at "
            "most m"
        )

    def _scored(self, rows: Ints, rankings: Ints) -> Floats:
        values = np.asarray(self.score(rows, rankings), dtype=np.float64)
        if values.shape != rankings.shape[:2]:
            raise PolicyError(
                f"the score returned shape {values.shape}, expected {rankings.shape[:2]}"
            )
        if np.isnan(values).any():
            raise PolicyError(
                f"row {rows[np.argwhere(np.isnan(values))[0][0]]}: the score of a ranking is NaN"
            )
        return without_rounding(values)

    def _drawn(self, rows: Ints, length: int, rng: np.random.Generator, size: int) -> Ints:
        if self.logger.n_rows == 1:
            return self.logger.sample(length, rng, size=len(rows) * size).reshape(
                len(rows), size, length
            )
        return self.logger.take(rows).sample(length, rng, size=size)

    def _reference(self, length: int, ends: Ints) -> tuple[Floats, Floats]:
        """Return the scores (n, L) of the reference draws and random keys (n, 1 + L) for ties.

        The first key belongs to the logged ranking. Draws are cut at the length `ends` (n,) of the
        row's page.
        """
        key = length, self.rows.tobytes(), ends.tobytes()
        if key not in self._references:
            scores = np.empty((self.n_rows, self.draws))
            keys = np.empty((self.n_rows, 1 + self.draws))
            for start in range(0, self.n_rows, _BLOCK):
                block = slice(start, start + _BLOCK)
                rows = self.rows[block]
                # A row's draws depend on its number only, so they are the same in any block.
                rng = RowRandom(self.numbers[rows], [self.seed, length])
                drawn = cut(self._drawn(rows, length, rng, self.draws), ends[block])
                scores[block] = self._scored(rows, drawn)
                keys[block] = rng.random(keys[block].shape)
            self._references[key] = scores, keys
        return self._references[key]


def draws_below(logged: Floats, drawn: Floats, keys: Floats) -> Ints:
    """Return how many drawn scores (n, L) are below the logged one (n, 1); keys (n, 1 + L) break ties."""
    tied = (drawn == logged) & (keys[:, 1:] < keys[:, :1])
    return np.asarray(((drawn < logged) | tied).sum(axis=1))


def cut(rankings: Ints, ends: Ints) -> Ints:
    """Return rankings (n, D, K) cut at the page lengths `ends` (n,), padded with -1.

    >>> cut(np.array([[[4, 2, 7]]]), np.array([2])).tolist()
    [[[4, 2, -1]]]
    """
    return np.where(np.arange(rankings.shape[2]) < ends[:, None, None], rankings, -1)


def without_rounding(scores: Floats) -> Floats:
    """Return scores rounded to single precision, so that scores which differ by rounding are ties.

    The score of a ranking may differ by a rounding error between batches. Without the rounding, the
    larger of two equal scores would always win, where a tie is broken at random.

    >>> bool(without_rounding(np.array([0.1 + 0.2])) == without_rounding(np.array([0.3])))
    True
    """
    return scores.astype(np.float32).astype(np.float64)


def drawn_weight(below: Ints, draws: int, m: int) -> Floats:
    """Return m C(B, m-1) / C(L, m-1) for B = `below` of L = `draws` reference draws.

    >>> drawn_weight(np.array([0, 2, 4]), 4, 3).tolist()
    [0.0, 0.5, 3.0]
    """
    chosen = np.arange(m - 1)
    factors = np.maximum(np.asarray(below, dtype=np.float64)[..., None] - chosen, 0.0) / (
        draws - chosen
    )
    weight: Floats = m * factors.prod(axis=-1)
    return weight
