"""Estimates of the MSE that trees minimise: against models that contain the chosen one, or against
a known value.

Which of them is good at what, and what was measured and left out, is in
docs/evidence/mse-estimates.md.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import BehaviorError
from counterrank.log import RankingLog
from counterrank.tree.objective import MSEEstimate, Objective
from counterrank.tree.pasif import PasIf
from counterrank.tree.settings import GL_KAPPA, ORACLE_NOISE_STREAM, SLOPE_Z
from counterrank.tree.training import Position

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GoldenshlugerLepski:
    """MSE = Var(V_c) + max over models j containing c of max(0, (V_c - V_j)^2 - kappa Var(V_c -
    V_j)).

    Intermediate models have far less variance than the densest one, so they reveal bias that it
    cannot. Goldenshluger and Lepski (2011), Bandwidth selection in kernel density estimation,
    Annals of Statistics 39(3). Fails when no intermediate model contains the chosen one, and when a
    bias shared by all but the densest hides in the latter's noise.
    """

    kappa: float = GL_KAPPA.value
    name: str = "gl"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Compare with all containing models, by squared differences."""
        return _against_containing(position, overlap=False, kappa=self.kappa)


@dataclass(frozen=True, slots=True)
class Slope:
    """MSE = Var(V_c), or infinite when |V_c - V_j| > z (se(V_c) + se(V_j)) for a model j containing
    c.

    Su, Srinath, Krishnamurthy (2020), Adaptive estimator selection for off-policy evaluation, ICML.
    Tucker and Lee (2021), SLOPE++, order models by their estimated widths, as here. The intervals
    of two estimates on the same rows overlap far more often than their difference is zero, so SLOPE
    keeps much bias.
    """

    z: float = SLOPE_Z.value
    name: str = "slope"
    streams: bool = True

    def objective(self, position: Position) -> Objective:
        """Compare with all containing models, by overlap of intervals."""
        return _against_containing(position, overlap=True, kappa=self.z)


def _against_containing(position: Position, *, overlap: bool, kappa: float) -> Objective:
    """Return the objective that holds each leaf's model against the models containing it.

    Where a model does not contain the leaf's own, the leaf adds nothing to that comparison.
    """
    M = position.models
    compare, against = _comparisons(position.containing.tobytes(), M)
    return Objective(
        models=M,
        n_grow=position.n_grow,
        n_apply=position.n_apply,
        tails=position.tails,
        compare=compare,
        against=against,
        widths=np.sqrt(position.variance()[compare] / position.n_grow) if overlap else np.empty(0),
        contrast=(position.densest, position.sparsest),
        overlap=overlap,
        kappa=kappa,
    )


@lru_cache(maxsize=256)
def _comparisons(containing: bytes, models: int) -> tuple[Ints, Bools]:
    """Return the models (J,) that contain another, and which they contain (J, M)."""
    # As bytes: the positions of one log ask the same question again and again.
    inside = np.frombuffer(containing, dtype=bool).reshape(models, models) & ~np.eye(
        models, dtype=bool
    )
    compare = np.flatnonzero(inside.any(axis=1))
    return compare, inside[compare]


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
            value=np.array([value]) if self.sample is None else None,
            targets=np.array([value]),
            contrast=(position.densest, position.sparsest),
            kappa=1.0 if self.sample is None else 0.0,
            variance_weight=weight,
        )

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


#: Those that work on any log. "oracle" needs values from outside and is given as an object.
FEASIBLE: dict[str, Callable[[], MSEEstimate]] = {
    "gl": GoldenshlugerLepski,
    "slope": Slope,
    "pasif": PasIf,
}
DEFAULT = "gl"
#: Earlier names: on average worse than those that stayed, or level with "gl"
#: (docs/evidence/mse-estimates.md).
REMOVED = ("reference", "lepski", "ocv", "pasif-fitted", "dr")


def mse_estimate(given: "str | MSEEstimate") -> MSEEstimate:
    """Return the MSE estimate called `given`, or `given` itself when it is one.

    >>> mse_estimate("gl").name
    'gl'
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
        instead = " or, with values from outside, Oracle(values=...)" if given == "dr" else ""
        raise BehaviorError(
            f"mse='{given}' was removed: over the environments it was measured in, it did no "
            f"better than the rules that stayed; use mse='gl'{instead}. Known: {known}"
        )
    near = difflib.get_close_matches(given, [*FEASIBLE, "oracle"], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise BehaviorError(f"there is no MSE estimate '{given}'{hint} Known: {known}")
