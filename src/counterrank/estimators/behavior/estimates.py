"""Estimates of the MSE of an assignment of models, by name; docs/explanation/behavior.md compares them.

`pairs` needs the log alone, so does `pasif` (a file of its own); `Oracle` needs the truth.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import BehaviorError
from counterrank.estimators.behavior.objective import MSEEstimate, Objective
from counterrank.estimators.behavior.pasif import PasIf
from counterrank.estimators.behavior.settings import ORACLE_NOISE_STREAM
from counterrank.estimators.behavior.training import Position


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
        return Objective.at(position, value=float(position.data.pair_values[position.index]))


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
        given = np.atleast_1d(np.asarray(self.values, dtype=np.float64))
        if position.index >= len(given):
            raise BehaviorError(
                f"'{self.name}' was given {len(given)} values, but position {position.index + 1} "
                "needs one; give one per position"
            )
        rng = np.random.default_rng([position.seed, position.index + 1, ORACLE_NOISE_STREAM])
        # b (1 + noise z) squared, divided by the square: the same minimiser.
        weight = 1.0 / (1.0 + self.noise * rng.standard_normal()) ** 2
        value = float(given[position.index])
        return Objective.at(position, value=value, kappa=1.0, variance_weight=weight)


#: Those that work on any log. "oracle" needs values from outside and is given as an object.
FEASIBLE: dict[str, Callable[[], MSEEstimate]] = {
    "pairs": Pairs,
    "pasif": PasIf,
}
DEFAULT = "pairs"


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
    near = difflib.get_close_matches(given, [*FEASIBLE, "oracle"], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else "."
    raise BehaviorError(f"there is no MSE estimate '{given}'{hint} Known: {known}")
