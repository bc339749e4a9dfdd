"""PAS-IF: a subsample that looks like the target policy's own log, and what each model says about it.

A row joins D_1 with probability rho(x, a), else D_0. Rows of D_0 have density (1 - rho) pi_0 / (1 -
kappa) and those of D_1 rho pi_0 / kappa, kappa = E rho; so an estimator that looks at the items of
a set S alone needs on D_0 the weights

    W_S = E[rho | x, a_S] / E[1 - rho | x, a_S] (1 - kappa) / kappa

to estimate the mean reward of D_1. For the whole ranking that is rho / (1 - rho) (1 - kappa) /
kappa. The log-odds are log s + log w, a sum over positions for factored policies: they fall into
that of S and a rest; the rest is averaged over rows of the log, which is exact when positions are
independent and its distribution does not depend on the context.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Bools, Floats
from counterrank.behavior.masks import Candidate
from counterrank.behavior.objective import Objective
from counterrank.behavior.settings import (
    PASIF_REST_ROWS,
    PASIF_SHARE,
    PASIF_SPLITS,
    SUBSAMPLE_STREAM,
)
from counterrank.behavior.training import Position, PositionRows
from counterrank.kernels.jit import jit
from counterrank.weights.ratios import Ratios

Users = list[tuple[int, int]]

#: Ratios below this are taken as this: a membership of nothing, without logarithms of zero.
LEAST = 1e-290
#: Points of the table between the least and the largest log-odds of `odds_given_part`.
GRID = 64


@dataclass(frozen=True, slots=True)
class PasIf:
    """MSE = mean over splits of (V_c(D_0) - mean reward of D_1)^2, a row joining D_1 with probability rho.

    Udagawa et al. (2023), Policy-adaptive estimator selection for off-policy evaluation, AAAI. They
    fit rho so that the two parts' own importance ratio [rho/m] / [(1-rho)/(1-m)] equals w; for
    known w that is solved up to a factor by rho = s w / (1 + s w), with s such that the mean is
    `share`. V_c(D_0) has the weights between the two parts, as c sees them. Fails when few rows
    carry the weight: rho is near one there, and D_1 is no longer what the target shows.
    """

    share: float = PASIF_SHARE
    splits: int = PASIF_SPLITS
    name: str = "pasif"

    def objective(self, position: Position) -> Objective:
        """Draw the splits and their pseudo-truths: mean over splits of (V_c(D_0) - mean reward of D_1)^2."""
        rows = position.memory
        used = rows.rows

        def prepared() -> tuple[Floats, Floats]:
            scale, odds = self.log_odds(rows)
            return chance(odds), part_weights(scale, rows.ratios, rows.candidates, odds, used)

        rho, weights = rows.once(repr(self), prepared)
        rng = np.random.default_rng(
            [position.seed, SUBSAMPLE_STREAM]
        )  # the same splits at every position
        drawn = rng.random((self.splits, len(rho))) < rho
        target, rest = drawn & used, ~drawn & used
        return Objective(
            models=position.models,
            n_grow=position.n_grow,
            n_apply=position.n_apply,
            tails=position.tails,
            replicates=rest / np.maximum(rest.sum(axis=1, keepdims=True), 1),
            averaged=rows.contributed(weights),
            targets=(target @ rows.reward) / np.maximum(target.sum(axis=1), 1),
            contrast=(position.densest, position.sparsest),
            # The squared error against another sample has the variance of both in it: none is
            # added, and none taken off.
            variance_weight=0.0,
        )

    def log_odds(self, rows: PositionRows) -> tuple[float, Floats]:
        """Return log s and the log-odds (n,) of joining D_1."""
        scale = odds_scale(rows.weight[rows.rows], self.share)
        return scale, scale + log_whole(rows)


def odds_scale(weight: Floats, share: float) -> float:
    """Return log s such that the mean of s w / (1 + s w) is `share`; less where too few weights are positive.

    >>> float(np.exp(odds_scale(np.ones(4), 0.2)))
    0.25
    """
    from scipy.optimize import brentq

    # Rows of weight zero never join D_1: the share can only be asked of the others.
    # At the whole share of positive weights s would be infinite: hence the .9.
    wanted = min(share, 0.9 * float((weight > 0).mean()))
    if wanted <= 0:
        # Odds of e^-60: nobody joins, and nothing underflows.
        return -60.0
    logs = log_of(weight)

    def excess(scale: float) -> float:
        return float(chance(scale + logs).mean()) - wanted

    return float(brentq(excess, -60, 60))


def chance(log_odds: Floats) -> Floats:
    """Return 1 / (1 + exp(-z))."""
    out: Floats = 0.5 * (1.0 + np.tanh(0.5 * log_odds))
    return out


def log_whole(rows: PositionRows) -> Floats:
    """Return the log weights of whole rankings (n,), the same sum of logarithms that sets of items have."""
    ratios = rows.ratios
    products = "joint" in ratios.supports and ratios.kind != "policy"
    return log_of(ratios.rho).sum(axis=1) if products else log_of(rows.weight)


def log_of(weight: Floats) -> Floats:
    """Return the logarithm, a very small number's where the weight is zero."""
    out: Floats = np.log(np.maximum(weight, LEAST))
    return out


def part_weights(
    scale: float, ratios: Ratios, candidates: tuple[Candidate, ...], odds: Floats, use: Bools
) -> Floats:
    """Return W (K, M, n) of each candidate at each position, with mean 1 over D_0 in expectation.

    odds (n,) are the rows' log-odds, scale + log w; use (n,) tells which rows are divided.
    """
    stay = np.where(use, chance(-odds), 0.0)
    share = 1.0 - stay.sum() / max(use.sum(), 1)
    sample = np.flatnonzero(use)
    # The rest of a weight is averaged over a sample: it enters through a slowly varying quotient.
    sample = sample[:: max(1, -(-len(sample) // PASIF_REST_ROWS))]
    out = np.zeros((ratios.rho.shape[1], len(candidates), len(odds)))
    given = np.empty(len(odds))
    for logs, users in _sets(ratios, candidates):
        own = scale + logs
        odds_given_part(own, (odds - own)[sample], given)
        for k, m in users:
            out[k, m] = given
    out *= (1.0 - share) / max(share, LEAST)
    mean = out @ stay / max(stay.sum(), LEAST)  # (K, M)
    out /= np.where(mean > 0, mean, 1.0)[:, :, None]
    return out


def _sets(ratios: Ratios, candidates: tuple[Candidate, ...]) -> Iterator[tuple[Floats, Users]]:
    """Yield the log weights (n,) of each set of items, and the positions and candidates that use them."""
    users: dict[bytes, Users] = {}
    for m, c in enumerate(candidates):
        for k, relevant in enumerate(c.mask):
            users.setdefault(relevant.tobytes(), []).append((k, m))
    logs = log_of(ratios.rho)
    policy = [log_of(ratios.masked(c.mask)) for c in candidates] if ratios.kind == "policy" else []
    for key, places in users.items():
        k, m = places[0]
        chosen = np.frombuffer(key, dtype=bool)
        yield policy[m][:, k] if policy else logs[:, chosen].sum(axis=1), places


@jit
def odds_given_part(own: Floats, rest: Floats, out: Floats) -> None:
    """Fill out (n,) with E[p] / E[1 - p] where p has log-odds own_i + rest, over the sample rest (r,).

    With z = exp(rest), that is exp(own) sum z/(1 + exp(own) z) / sum 1/(1 + exp(own) z): the
    quotient varies slowly, is one where the rest is zero, and is read from a table.
    """
    low, high = np.inf, -np.inf
    for value in own:
        low, high = min(low, value), max(high, value)
    low, high = min(max(low, -60.0), 60.0), min(max(high, -60.0), 60.0)
    step = (high - low) / (GRID - 1)
    z = np.exp(rest)
    # n rows against r of the sample would be n r quotients; the table takes 64 r.
    table = np.empty(GRID)
    for g in range(GRID):
        u = np.exp(low + g * step)
        above, below = 0.0, 0.0
        for j in range(z.shape[0]):
            share = 1.0 / (1.0 + u * z[j])
            above += z[j] * share
            below += share
        table[g] = above / below
    for i in range(own.shape[0]):
        place = min(max((own[i] - low) / step, 0.0), GRID - 1.0) if step > 0 else 0.0
        at = min(int(place), GRID - 2)
        out[i] = np.exp(own[i]) * (table[at] + (place - at) * (table[at + 1] - table[at]))
