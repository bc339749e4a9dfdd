"""Importance weights between the two parts of a log that was divided at random, row by row.

A row joins D_1 with probability rho(x, a), else D_0. Rows of D_0 have density (1 - rho) pi_0 / (1 - kappa) and those of
D_1 rho pi_0 / kappa, kappa = E rho; so an estimator that looks at the items of a set S alone needs on D_0 the weights

    W_S = E[rho | x, a_S] / E[1 - rho | x, a_S] (1 - kappa) / kappa

to estimate the mean reward of D_1. For the whole ranking that is rho / (1 - rho) (1 - kappa) / kappa. Log-odds that are
a sum over positions fall into that of S and a rest; the rest is averaged over rows of the log, which is exact when
positions are independent and its distribution does not depend on the context.

An interaction order m is a sum over sets: rho_k sum_{|T|<m} prod_{l in T} (rho_l - 1) = sum_T b_|T| w_{k+T} with
b_j = (-1)^(m-1-j) C(N-1-j, m-1-j), N the number of other items; each w is replaced by W.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Protocol

import numpy as np

from counterrank.behavior import Candidate
from counterrank.ratios import Ratios
from counterrank.tree.mse.replicated import over_splits, rows_in_memory
from counterrank.tree.objective import Bools, Floats, Memory, Objective, Position

#: Rows over which the rest of a ranking is averaged.
REST_ROWS = 1_000
#: Ratios below this are taken as this: a membership of nothing, without logarithms of zero.
LEAST = 1e-290


@dataclass(frozen=True, slots=True)
class Membership:
    """Log-odds of joining D_1: row_i + sum_l item_il + power_i log w_i; row (n,), item (n, K), power (n,)."""

    row: Floats
    item: Floats
    power: Floats

    def log_odds(self, log_weight: Floats, items: Bools | None = None) -> Floats:
        """Return the log-odds (n,) that a set of items (K,), or the whole ranking, and its log weight (n,) give."""
        item = self.item if items is None else self.item[:, items]
        out: Floats = self.row + item.sum(axis=1) + self.power * log_weight
        return out


class Subsampling(Protocol):
    """An estimate that divides the log by a membership."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def splits(self) -> int:
        """How often it divides."""

    def membership(self, rows: Memory) -> Membership:
        """Return the rule by which rows join D_1."""


def split_by(position: Position, estimate: Subsampling) -> Objective:
    """Return the objective mean over splits of (V_c(D_0) - mean reward of D_1)^2."""
    rows = rows_in_memory(position, estimate.name)
    used = rows.use > 0

    def prepared() -> tuple[Floats, Floats]:
        member = estimate.membership(rows)
        odds = member.log_odds(log_whole(rows))
        return chance(odds), part_weights(member, rows.ratios, rows.candidates, odds, used)

    rho, weights = rows.once(repr(estimate), prepared)
    rng = np.random.default_rng([position.seed, 47])  # the same splits at every position
    drawn = rng.random((estimate.splits, len(rho))) < rho
    target, rest = drawn & used, ~drawn & used
    truth = (target @ rows.reward) / np.maximum(target.sum(axis=1), 1)
    mean = rest / np.maximum(rest.sum(axis=1, keepdims=True), 1)
    return over_splits(position, mean, truth, averaged=rows.contributed(weights))


def chance(log_odds: Floats) -> Floats:
    """Return 1 / (1 + exp(-z))."""
    out: Floats = 0.5 * (1.0 + np.tanh(0.5 * log_odds))
    return out


def log_whole(rows: Memory) -> Floats:
    """Return the log weights of whole rankings (n,), the same sum of logarithms that sets of items have."""
    ratios = rows.ratios
    products = "joint" in ratios.supports and ratios.kind != "policy"
    return log_of(ratios.rho).sum(axis=1) if products else log_of(rows.weight)


def log_of(weight: Floats) -> Floats:
    """Return the logarithm, a very small number's where the weight is zero."""
    out: Floats = np.log(np.maximum(weight, LEAST))
    return out


def part_weights(
    member: Membership, ratios: Ratios, candidates: tuple[Candidate, ...], odds: Floats, use: Bools
) -> Floats:
    """Return W (K, M, n) of each candidate at each position, with mean 1 over D_0 in expectation.

    odds (n,) are the rows' log-odds, use (n,) tells which rows are divided.
    """
    from counterrank.tree.kernels.subset_odds import given_part

    stay = np.where(use, chance(-odds), 0.0)
    share = 1.0 - stay.sum() / max(use.sum(), 1)
    sample = np.flatnonzero(use)
    sample = sample[:: max(1, -(-len(sample) // REST_ROWS))]
    out = np.zeros((ratios.rho.shape[1], len(candidates), len(odds)))
    given = np.empty(len(odds))
    for own, users in _sets(member, ratios, candidates):
        given_part(own, (odds - own)[sample], given)
        for k, m, times in users:
            out[k, m] += times * given
    out *= (1.0 - share) / max(share, LEAST)
    mean = out @ stay / max(stay.sum(), LEAST)  # (K, M)
    out /= np.where(mean > 0, mean, 1.0)[:, :, None]
    return out


Users = list[tuple[int, int, float]]


def _sets(member: Membership, ratios: Ratios, candidates: tuple[Candidate, ...]) -> Iterator[tuple[Floats, Users]]:
    """Yield the log-odds (n,) of each set of items, and where they are used: (position, candidate, coefficient)."""
    K = ratios.rho.shape[1]
    users: dict[bytes, Users] = {}
    for m, c in enumerate(candidates):
        for k in range(K):
            for chosen, times in expansion(c, k):
                users.setdefault(chosen.tobytes(), []).append((k, m, times))
    logs = log_of(ratios.rho)
    policy = [log_of(ratios.masked(c.mask)) for c in candidates] if ratios.kind == "policy" else []
    for key, places in users.items():
        chosen = np.frombuffer(key, dtype=bool)
        k, m, _ = places[0]
        yield member.log_odds(policy[m][:, k] if policy else logs[:, chosen].sum(axis=1), chosen), places


def expansion(candidate: Candidate, k: int) -> Iterator[tuple[Bools, float]]:
    """Yield the sets of items (K,) whose weights sum to a candidate's weight at position k, with coefficients.

    >>> from counterrank import candidates
    >>> [(s.astype(int).tolist(), b) for s, b in expansion(candidates(3, ["S"], orders=[2])[1], 0)]
    [([1, 0, 0], -1.0), ([1, 1, 0], 1.0), ([1, 0, 1], 1.0)]
    """
    relevant = candidate.mask[k]
    others = [int(j) for j in np.flatnonzero(relevant) if j != k]
    if candidate.order is None or candidate.order > len(others):
        yield relevant.copy(), 1.0
        return
    top = candidate.order - 1
    for size in range(top + 1):
        times = float((-1) ** (top - size) * comb(len(others) - 1 - size, top - size))
        for chosen in combinations(others, size):
            members = np.zeros(len(relevant), dtype=bool)
            members[list(chosen)] = True
            members[k] = relevant[k]
            yield members, times
