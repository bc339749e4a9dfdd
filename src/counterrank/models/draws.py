"""Random streams of models and estimators, and rankings drawn for the rows of a log, the same in any chunks."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import LOGGING, RankingLog
from counterrank.kernels.hashing import mix
from counterrank.kernels.jit import jit
from counterrank.models.columns import whole_distribution
from counterrank.policies import Factored, Policy, RowRandom, cut


class Stream(IntEnum):
    """What random numbers are for: each use has a stream of its own, and all follow the seed."""

    TRAINING_ROWS = 9
    LEARNER_ROWS = 13
    EXAMINATION_ROWS = 15
    EXAMINATION_RANKINGS = 16
    NEWTON_ROWS = 17
    COMPARED_ROWS = 18
    VISIBILITY_ROWS = 31
    CLICK_ROWS = 47
    TARGET_RANKINGS = 101
    CROSS_FIT_ROWS = 102
    ASKED_ROWS = 103
    ARM_RANKINGS = 105


def stream(seed: int, use: Stream) -> np.random.Generator:
    """Return the random numbers of one use.

    >>> float(stream(0, Stream.CLICK_ROWS).random()) == float(stream(1, Stream.CLICK_ROWS).random())
    False
    """
    return np.random.default_rng([seed, int(use)])


@jit
def draw_rankings(dist: Floats, lengths: Ints, row_id: Ints, seed: int, out: Ints) -> None:
    """Fill out (n, S, K) with draws from dist (n, 1 or K, A) by a hash of seed, row, draw and position.

    Chunks and threads therefore do not change the draws.
    """
    n, draws, length = out.shape
    A = dist.shape[2]
    shared = dist.shape[1] == 1
    scale = 1.0 / 9007199254740992.0
    for i in range(n):
        # A counter-based stream a row: rows can be drawn in any order, by any thread.
        state = mix(np.uint64(row_id[i]) ^ mix(np.uint64(seed)))
        for s in range(draws):
            for k in range(length):
                if k >= lengths[i]:
                    out[i, s, k] = -1
                    continue
                state = mix(state)
                left = float(state >> np.uint64(11)) * scale
                row = dist[i, 0 if shared else k]
                choice = A - 1
                for a in range(A):
                    left -= row[a]
                    if left < 0.0:
                        choice = a
                        break
                # Rounding can leave a sliver above the sum: it belongs to the last possible action.
                while row[choice] <= 0.0 and choice > 0:
                    choice -= 1
                out[i, s, k] = choice


def factored_draws(batch: RankingLog, wanted: Floats, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from independent positions (n, 1 or K, A)."""
    out = np.empty((batch.n, size, batch.K), dtype=np.int64)
    draw_rankings(wanted, batch.lengths, batch.numbers, seed, out)
    return out


def policy_draws(batch: RankingLog, policy: Policy, size: int, stream: Sequence[int]) -> Ints:
    """Return (n, size, K) rankings drawn from a policy, as long as the logged ones.

    `stream` seeds the draws; each row has numbers of its own (`RowRandom`).
    """
    # A policy without context has one row: each row of the log still gets draws of its own.
    each = size * (batch.n // policy.n_rows)
    drawn = policy.sample(batch.K, RowRandom(batch.numbers, list(stream)), size=each)
    return cut(drawn.reshape(batch.n, size, batch.K), batch.lengths)


def target_draws(batch: RankingLog, target: str, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from a target, as long as the logged ones."""
    wanted = whole_distribution(batch, target)
    if wanted is not None:
        return factored_draws(batch, wanted, size, seed)
    policy = batch.target(target)
    assert isinstance(policy, Policy)
    return paired_draws(batch, policy, size, seed)


def paired_draws(batch: RankingLog, policy: Policy, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings of a policy, by the random numbers that draw those of the target.

    Two policies that are alike then draw alike, and what they have in common cancels.
    """
    return policy_draws(batch, policy, size, [seed, Stream.TARGET_RANKINGS])


def page_policy(batch: RankingLog, name: str) -> Policy | None:
    """Return the policy `name` if it can be drawn from and knows its rankings' probabilities."""
    policy = batch.propensity if name == LOGGING else batch.target(name)
    if isinstance(policy, Policy):
        return policy if {"sample", "prefix"} <= policy.capabilities else None
    whole = whole_distribution(batch, name)
    if whole is None:
        return None
    # One distribution for all positions has a policy for any number of them.
    return Factored(whole[:, 0] if whole.shape[1] == 1 else whole)
