"""Estimates of the MSE of an assignment of models, by name; docs/explanation/behavior.md compares them.

`models`, `pairs` and `pasif` need the log alone, `Oracle` needs the truth.

PAS-IF: a subsample that looks like the target policy's own log, and what each model says about it.

A row joins D_1 with probability rho(x, a), else D_0. Rows of D_0 have density (1 - rho) pi_0 / (1 -
kappa) and those of D_1 rho pi_0 / kappa, kappa = E rho; so an estimator that looks at the items of
a set S alone needs on D_0 the weights

    W_S = E[rho | x, a_S] / E[1 - rho | x, a_S] (1 - kappa) / kappa

to estimate the mean reward of D_1. For the whole ranking that is rho / (1 - rho) (1 - kappa) /
kappa. The log-odds are log s + log w, a sum over positions for factored policies: they fall into
that of S and a rest; the rest is averaged over rows of the log, which is exact when positions are
independent and its distribution does not depend on the context.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Floats
from counterrank.common.errors import BehaviorError
from counterrank.estimators.behavior.masks import Candidate
from counterrank.estimators.behavior.objective import MSEEstimate, Objective
from counterrank.estimators.behavior.settings import (
    ORACLE_NOISE_STREAM,
    PASIF_REST_ROWS,
    PASIF_SHARE,
    PASIF_SPLITS,
    SUBSAMPLE_STREAM,
)
from counterrank.estimators.behavior.slope import Slope
from counterrank.estimators.behavior.training import Position
from counterrank.estimators.weights.ratios import Ratios

#: The name of the estimate that needs a reward model.
MODELS = "models"
#: Ratios below this are taken as this: a membership of nothing, without logarithms of zero.
LEAST = 1e-290
#: Points of the table between the least and the largest log-odds of `odds_given_part`.
GRID = 64


@dataclass(frozen=True, slots=True)
class Pairs:
    """MSE = Var(V_c) + (V_c - V_2)^2, V_2 the estimate from effects of single items and of pairs.

    Leaving item l out of the reward at k loses E[rho_k (rho_l - 1) r_k] of V_k, the effect of l on
    the reward at k (Kiyohara et al. 2023, Theorem 3.4, with effects that add). The sum of all of
    them, V_2, is a product of two ratios at most, whatever the length of the ranking
    (`behavior/pairs.py`). V_c - V_2 holds the bias of c and the luck of the rows: a model that looks
    cheap because this log lacks its extreme rows is too low by what they would have brought, and
    V_2 tells. Fails where items matter only three at a time or more.
    """

    name: str = "pairs"

    def objective(self, position: Position) -> Objective:
        """Hold the estimate against that from pairs."""
        return Objective(position, value=float(position.data.pair_values[position.index]))


@dataclass(frozen=True, slots=True)
class Models:
    """MSE = Var(V_c) + (V_c - V_q)^2, V_q the value by a reward model that own-position weights correct.

    As `Pairs`, with less noise and with effects that differ between users (`behavior/modelled.py`). Where
    the log does not allow a closed-form model, it is `Pairs`.
    """

    name: str = MODELS

    def objective(self, position: Position) -> Objective:
        """Hold the estimate against that by the model."""
        modelled = position.data.modelled
        if modelled is None:
            return Pairs().objective(position)
        return Objective(position, value=float(modelled.rows[:, position.index].mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """MSE = Var(V_c) + bias^2 with the true V_k, the bias perturbed by a relative Gaussian error `noise`.

    `values` (K,) are the true V_k; the variance of the growing rows is taken off the squared
    difference to them. For simulations: what the paper's experiments minimise, with noise .3
    (Kiyohara et al. 2023, section 4.1).
    """

    values: ArrayLike
    noise: float = 0.0
    name: str = "oracle"

    def objective(self, position: Position) -> Objective:
        """Hold the expectation against the truth."""
        truths = np.atleast_1d(np.asarray(self.values, dtype=np.float64))
        if position.index >= len(truths):
            raise BehaviorError(
                f"'{self.name}' was given {len(truths)} values, but position {position.index + 1} "
                "needs one; give one per position"
            )
        rng = np.random.default_rng([position.seed, position.index + 1, ORACLE_NOISE_STREAM])
        # b (1 + noise z) squared, divided by the square: the same minimiser.
        weight = 1.0 / (1.0 + self.noise * rng.standard_normal()) ** 2
        value = float(truths[position.index])
        return Objective(position, value=value, kappa=1.0, variance_weight=weight)


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
        data, k, key = position.data, position.index, repr(self)
        if key not in data.shared:
            scale, odds = self.log_odds(data.ratios)
            rng = np.random.default_rng([position.seed, SUBSAMPLE_STREAM])
            rho = chance(odds)
            joins = np.stack([rng.random(len(rho)) < rho for _ in range(self.splits)]).astype(float)
            complement, weights = (
                1.0 - joins,
                part_weights(scale, data.ratios, data.candidates, odds),
            )
            for membership in (joins, complement):
                membership /= np.maximum(membership.sum(axis=1, keepdims=True), 1.0)
            data.shared[key] = complement, joins @ data.log.reward, weights
        # The same splits at every position.
        replicates, targets, weights = data.shared[key]
        sets = [data.candidates[m].mask[k].tobytes() for m in data.models[k]]
        return Objective(
            position,
            replicates=replicates,
            averaged=np.stack([weights[mask] * data.log.reward[:, k] for mask in sets]).T,
            targets=targets[:, k].copy(),
            # The squared error against another sample has the variance of both in it: none is
            # added, and none taken off.
            variance_weight=0.0,
        )

    def log_odds(self, ratios: Ratios) -> tuple[float, Floats]:
        """Return log s and the log-odds (n,) of joining D_1."""
        if "joint" not in ratios.supports:
            page_logs = np.zeros(
                len(ratios.rho)
            )  # weights of one where no joint probability is known
        elif ratios.kind == "policy":
            page_logs = log_of(ratios.full()[:, 0])
        else:
            page_logs = log_of(ratios.rho).sum(axis=1)
        scale = odds_scale(page_logs, self.share)
        return scale, scale + page_logs


def odds_scale(logs: Floats, share: float) -> float:
    """Return log s such that s w / (1 + s w) has the mean `share`, from log w; less where few weights are positive.

    >>> float(np.exp(odds_scale(np.zeros(4), 0.2)))
    0.25
    """
    from scipy.optimize import brentq

    # Rows of weight zero never join D_1: the share can only be asked of the others.
    # At the whole share of positive weights s would be infinite: hence the .9.
    reachable = min(share, 0.9 * float((logs > np.log(LEAST)).mean()))
    if reachable <= 0:
        # Odds of e^-60: nobody joins, and nothing underflows.
        return -60.0
    return float(brentq(lambda scale: float(chance(scale + logs).mean()) - reachable, -60, 60))


def chance(log_odds: Floats) -> Floats:
    """Return 1 / (1 + exp(-z))."""
    return 0.5 * (1.0 + np.tanh(0.5 * log_odds))


def log_of(weight: Floats) -> Floats:
    """Return the logarithm, a very small number's where the weight is zero."""
    return np.log(np.maximum(weight, LEAST))


def part_weights(
    scale: float, ratios: Ratios, candidates: tuple[Candidate, ...], odds: Floats
) -> dict[bytes, Floats]:
    """Return W (n,) of each set of items that a candidate has at a position, with mean 1 over D_0 in expectation.

    odds (n,) are the rows' log-odds, scale + log w.
    """
    stay = chance(-odds)
    # The rest of a weight is averaged over a sample: it enters through a slowly varying quotient.
    sample = slice(None, None, max(1, -(-len(odds) // PASIF_REST_ROWS)))
    single, out = log_of(ratios.rho), {}
    for candidate in candidates:
        logs = (
            log_of(ratios.masked(candidate.mask))
            if ratios.kind == "policy"
            else single @ candidate.mask.T  # the same logarithms as those of `odds`
        )
        for relevant, of_set in zip(candidate.mask, logs.T, strict=True):
            # Sets of items that several positions and models share are averaged once.
            key = relevant.tobytes()
            if key not in out:
                logs_of_set = scale + of_set
                weight = odds_given_part(logs_of_set, (odds - logs_of_set)[sample])
                # The factor (1 - kappa) / kappa of W goes with the mean.
                mean = weight @ stay / max(stay.sum(), LEAST)
                out[key] = weight / (mean if mean > 0 else 1.0)
    return out


def odds_given_part(odds_of_set: Floats, odds_of_rest: Floats) -> Floats:
    """Return E[p] / E[1 - p] (n,): p has log-odds odds_of_set + odds_of_rest, over the sample of rests (r,).

    With s = exp(odds_of_set) and z = exp(odds_of_rest), that is s sum z/(1 + s z) / sum 1/(1 + s z): the
    quotient varies slowly, is one where the rest is zero, and is read from a table.
    """
    low, high = np.clip([odds_of_set.min(), odds_of_set.max()], -60.0, 60.0)
    # n rows against r of the sample would be n r quotients; the table takes 64 r.
    grid, z = np.linspace(low, high, GRID), np.exp(odds_of_rest)
    stays = 1.0 / (1.0 + np.exp(grid)[:, None] * z)  # (GRID, r)
    out: Floats = np.exp(odds_of_set) * np.interp(
        odds_of_set, grid, (stays @ z) / stays.sum(axis=1)
    )
    return out


#: Those that work on any log. "oracle" needs values from outside and is given as an object.
FEASIBLE: dict[str, Callable[[], MSEEstimate]] = {
    MODELS: Models,
    "pairs": Pairs,
    "pasif": PasIf,
    "slope": Slope,
}
DEFAULT = MODELS


def mse_estimate(estimate: "str | MSEEstimate") -> MSEEstimate:
    """Return the MSE estimate called `estimate`, or `estimate` itself when it is one.

    >>> mse_estimate("pairs").name
    'pairs'
    """
    if not isinstance(estimate, str):
        return estimate
    if estimate in FEASIBLE:
        return FEASIBLE[estimate]()
    if estimate == "oracle":
        raise BehaviorError(
            "mse='oracle' needs values from outside the log: pass Oracle(values=...), one a "
            "position"
        )
    names = ", ".join([*FEASIBLE, "oracle"])
    near = difflib.get_close_matches(estimate, [*FEASIBLE, "oracle"], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise BehaviorError(f"there is no MSE estimate '{estimate}'{hint} Known: {names}")
