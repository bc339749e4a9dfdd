"""Estimates of the MSE of an assignment of models, by name; how far each gets is in
docs/evidence/mse-estimates.md.

`pairs` and `su` need the log alone, so does `pasif` (a file of its own); `Oracle` needs the truth.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.objective import MSEEstimate, Objective
from counterrank.behavior.settings import ORACLE_NOISE_STREAM, PAIRS_KAPPA, SU_DELTA
from counterrank.behavior.training import Position, Weighed
from counterrank.data.log import RankingLog
from counterrank.errors import BehaviorError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Pairs:
    """MSE = Var(V_c) + max(0, B_c^2 - kappa Var(B_c)), B_c the bias that effects of pairs of items
    explain.

    Leaving item l out of the reward at k loses E[rho_k (rho_l - 1) r_k] of V_k, the effect of l
    alone on the reward at k (Kiyohara et al. 2023, Theorem 3.4, with effects that add). B_c sums
    the effects that c leaves out: products of two ratios, whatever the length of the ranking. The
    reward is taken less its weighted mean, which changes no expectation (rho_l - 1 has mean zero)
    and removes most of the noise. Fails where items matter only three at a time or more.
    """

    kappa: float = PAIRS_KAPPA.value
    name: str = "pairs"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Add the squared bias, less what chance explains, to the variance."""
        return _deviating(position, kappa=self.kappa)

    def deviations(self, part: Weighed) -> Floats:
        """Return what each row adds to the bias of each model (M, n)."""
        if len(part.masks) == 1:
            return np.zeros_like(part.weights)
        change = _pair_change(part) if part.factored else _change_below(part)
        out: Floats = change * (part.reward - part.centre)
        return out


def _pair_change(part: Weighed) -> Floats:
    """Return w_c - w_S with both products truncated at two items (M, n)."""
    k, own = part.position, part.rho[:, part.position]
    others = part.masks.copy()
    others[:, k] = False
    among = others.astype(np.float64)
    # 1 + sum over the others of (rho - 1): inside the mask, and over all.
    inside = among @ part.rho.T + (1.0 - among.sum(axis=1))[:, None]
    every = part.rho.sum(axis=1) - own + (2.0 - part.rho.shape[1])
    out: Floats = np.where(part.masks[:, k, None], own, 1.0) * inside - own * every
    return out


def _change_below(part: Weighed) -> Floats:
    """Return w_c less the cascade's weight with the effects of single items below it added (M, n).

    For positions that depend on those above, where rho_l - 1 has mean zero given the items above
    l. A mask of leading items is its own beginning, any other is held against the cascade.
    """
    length, out = part.rho.shape[1], np.empty_like(part.weights)
    count = part.masks.sum(axis=1)
    leading = (part.masks == (np.arange(length) < count[:, None])).all(axis=1)
    leading &= count > part.position
    start = np.where(leading, count, part.position + 1)
    for m, first in enumerate(start.tolist()):
        before = part.weights[m] if leading[m] else part.rho[:, :first].prod(axis=1)
        below = (part.rho[:, first:] - 1.0).sum(axis=1)
        out[m] = part.weights[m] - before - before * below
    return out


@dataclass(frozen=True, slots=True)
class DirectBias:
    """MSE = Var(V_c) + (|V_c - V_S| + U)^2, V_S the densest model's estimate and U its Bernstein
    bound.

    Su, Dimakopoulou, Krishnamurthy, Dudik (2020), Doubly robust off-policy evaluation with
    shrinkage, ICML, section 5: the bias of smaller weights is estimated directly, by the mean of
    (w_c - w) (r - q), and bounded at confidence 1 - delta. AIPS has no reward model, so q = 0. The
    densest weights are in every bias: where they are heavy, so is its noise.
    """

    delta: float = SU_DELTA.value
    name: str = "su"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Add the squared upper bound of the bias to the variance."""
        rows = position.rows_in_memory(self.name)
        dense = np.abs(rows.y[rows.rows, position.densest])
        logs = np.log(2.0 / self.delta) / len(dense)
        bound = np.sqrt(2.0 * np.mean(dense**2) * logs) + 2.0 * dense.max() * logs / 3.0
        return _deviating(position, kappa=0.0, margin=float(bound))

    def deviations(self, part: Weighed) -> Floats:
        """Return (w_c - w_S) r of each row (M, n)."""
        out: Floats = (part.weights - part.weights[part.densest]) * part.reward
        return out


def _deviating(position: Position, *, kappa: float, margin: float = 0.0) -> Objective:
    return Objective(
        models=position.models,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        deviates=True,
        contrast=(position.densest, position.sparsest),
        kappa=kappa,
        margin=margin,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Oracle:
    """MSE = Var(V_c) + bias^2 with the true V_k, the bias perturbed by a relative Gaussian error
    `noise`.

    `values` (K,) are the true V_k (times the position weights, when one model serves all
    positions). `sample` is a large log of fresh simulated rows on which the expectation of V_c is
    taken; without it the growing rows serve, and their variance is taken off. For simulations: what
    the paper's experiments minimise, with noise .3 (Kiyohara et al. 2023, section 4.1).
    """

    values: Floats
    sample: RankingLog | None = None
    noise: float = 0.0
    name: str = "oracle"
    streams: bool = False

    def objective(self, position: Position) -> Objective:
        """Hold the expectation against the truth."""
        value = self._value_at(position)
        rng = np.random.default_rng([position.seed, position.index + 1, ORACLE_NOISE_STREAM])
        # b (1 + noise z) squared, divided by the square: the same minimiser.
        weight = 1.0 / (1.0 + self.noise * rng.standard_normal()) ** 2
        fresh = np.empty((0, 0))
        if self.sample is not None:
            rows = position.rows_in_memory(self.name)
            fresh = np.zeros((1, len(rows.rows)))
            fresh[0, -self.sample.n :] = 1.0 / self.sample.n
        return Objective(
            models=position.models,
            n_grow=position.n_grow,
            n_apply=position.n_apply,
            tails=position.tails,
            replicates=fresh,
            deviates=self.sample is None,
            targets=np.array([value]),
            contrast=(position.densest, position.sparsest),
            kappa=1.0 if self.sample is None else 0.0,
            variance_weight=weight,
        )

    def deviations(self, part: Weighed) -> Floats:
        """Return the contributions themselves (M, n): they are held against the truth."""
        out: Floats = part.weights * part.reward
        return out

    def _value_at(self, position: Position) -> float:
        """Return the value for this position; one model for all positions (index -1) is held
        against the sum.
        """
        given = np.atleast_1d(np.asarray(self.values, dtype=np.float64))
        if position.index < 0:
            return float(given.sum())
        if position.index >= len(given):
            raise BehaviorError(
                f"'{self.name}' was given {len(given)} values, but position {position.index + 1} "
                "needs one; give one a position"
            )
        return float(given[position.index])


def _pasif() -> MSEEstimate:
    from counterrank.behavior.pasif import PasIf

    return PasIf()


#: Those that work on any log. "oracle" needs values from outside and is given as an object.
FEASIBLE: dict[str, Callable[[], MSEEstimate]] = {
    "pairs": Pairs,
    "pasif": _pasif,
    "su": DirectBias,
}
DEFAULT = "pairs"
#: Earlier names: none was as good as "pairs" (docs/evidence/mse-estimates.md).
REMOVED = ("gl", "slope", "reference", "lepski", "ocv", "pasif-fitted", "dr")


def mse_estimate(given: "str | MSEEstimate") -> MSEEstimate:
    """Return the MSE estimate called `given`, or `given` itself when it is one.

    >>> mse_estimate("pairs").name
    'pairs'
    """
    if not isinstance(given, str):
        return given
    if given in FEASIBLE:
        return FEASIBLE[given]()
    if given == "oracle":
        raise BehaviorError(
            "mse='oracle' needs values from outside the log: pass Oracle(values=...), one a "
            "position"
        )
    known = ", ".join([*FEASIBLE, "oracle"])
    if given in REMOVED:
        raise BehaviorError(
            f"mse='{given}' was removed: over the environments it was measured in, it did worse "
            f"than mse='pairs'. Known: {known}"
        )
    near = difflib.get_close_matches(given, [*FEASIBLE, "oracle"], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise BehaviorError(f"there is no MSE estimate '{given}'{hint} Known: {known}")
