"""What a tree minimises: an MSE estimate of the whole assignment of models to leaves.

The score of an assignment is a function of C sums over its leaves ("channels"):
t = [mean, second moment, D_1..D_J, second moment of D_1..D_J], and

    score = lam Var + max_j or mean_j of max(0, (|D_j - T_j| + margin)^2 - kappa Var(D_j)),
    Var = (t_1 - t_0^2) / n_apply

An MSE estimate turns a `Position` (what is known at one position of the ranking) into an
`Objective`; the grower knows nothing else about it. The estimates themselves are in `estimates`.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

<<<<<<< HEAD:src/counterrank/tree/objective.py
from counterrank.kernels.jit import helper, jit
from counterrank.behavior.training import Position
=======
from counterrank.behavior.settings import GL_KAPPA, ORACLE_NOISE_STREAM, SLOPE_Z
from counterrank.behavior.training import Position
from counterrank.data.log import RankingLog
from counterrank.errors import BehaviorError
from counterrank.kernels.jit import helper, jit
>>>>>>> main:src/counterrank/behavior/objective.py

Floats = NDArray[np.float64]

#: A score must be lower by this share to count as lower: ties are then broken by order, not by
#: rounding.
TIE = 1e-10
#: Sums beyond this count as this: squares of extreme weights must not become 0 * inf = NaN in the
#: channels of models that do not use them.
MOST = 1e290


@helper
def _score(base: Floats, add: Floats, rule: Floats, targets: Floats, stop: float) -> float:
    """Return the score of channels base + add; any value >= stop when it is not below `stop`.

    rule = [mean instead of max, kappa, lam, 1/n_apply, 1/n_grown, margin]; targets (J,) = T.
    """
    mean, kappa, margin = rule[0] > 0.0, rule[1], rule[5]
    first = base[0] + add[0]
    spread = max(base[1] + add[1] - first * first, 0.0)
    low: float = rule[2] * spread * rule[3]
    # Bias penalties only add: a variance that is too large already ends the comparison.
    if low >= stop:
        return low
    count = targets.shape[0]
    worst = 0.0
    for j in range(count):
        raw = base[2 + j] + add[2 + j]
        gap = abs(raw - targets[j]) + margin
        # E D^2 = bias^2 + Var(D): what chance alone explains is taken off, kappa times.
        noise = max(base[2 + count + j] + add[2 + count + j] - raw * raw, 0.0) * rule[4]
        penalty = max(gap * gap - kappa * noise, 0.0)
        worst = worst + penalty / count if mean else max(worst, penalty)
        if low + worst >= stop:
            break
    total: float = low + worst
    return total


@jit
def least_score(
    left: Floats, right: Floats, rule: Floats, targets: Floats, best: float, different: bool
) -> tuple[float, int, int, int]:
    """Return the least score of left[i, a] + right[i, b] below `best`, and i, a, b; -1 when none is.

    left (N, A, C), right (N, B, C); `different` passes over a = b. The first of a tie wins.
    """
    at, first, second = -1, -1, -1
    for i in range(left.shape[0]):
        for a in range(left.shape[1]):
            for b in range(right.shape[1]):
                if different and a == b:
                    continue
                value = _score(left[i, a], right[i, b], rule, targets, best)
                if value < (best if np.isinf(best) else best - TIE * abs(best)):
                    best, at, first, second = value, i, a, b
    return best, at, first, second


class Found(NamedTuple):
    """The best of several scores: where it is, and the models on the left and on the right."""

    score: float
    at: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Goal:
    """An objective as numbers: the channels of a leaf follow from its sums by `table` (L, M * C)."""

    table: Floats
    models: int
    rule: Floats
    targets: Floats

    def channels(self, sums: Floats) -> Floats:
        """Return what leaves with these sums (..., L) add under each model (..., M, C)."""
        flat: Floats = np.clip(sums, -MOST, MOST) @ self.table
        return flat.reshape(*sums.shape[:-1], self.models, flat.shape[-1] // self.models)

    def score(self, channels: Floats) -> float:
        """Return the score of an assignment with channels (C,)."""
        alone = channels.reshape(1, 1, -1)
        return self.best(alone, np.zeros_like(alone)).score

    def best(
        self, left: Floats, right: Floats, *, below: float = np.inf, different: bool = False
    ) -> Found:
        """Return the least score below `below` of left[i, a] + right[i, b]; see `least_score`."""
        return Found(*least_score(left, right, self.rule, self.targets, below, different))

    def best_model(self, others: Floats, channels: Floats) -> tuple[float, int]:
        """Return the least score, and the model, of a leaf with channels (M, C) beside others (C,)."""
        found = self.best(channels[None], others.reshape(1, 1, -1))
        # All of them may be infinitely bad: the first model then serves as well as any.
        return found.score, max(found.left, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The sums over leaves ("channels") and the scoring rule.

    `deviates`: each row has M further columns, whose mean under an assignment is its bias (or, with
    `targets`, the estimate itself). Else `replicates` (B, n) are row weights of `averaged`, with
    `targets` T_b. A squared bias, `margin` added to it, counts as far as it exceeds `kappa`
    variances.
    """

    models: int
    n_grow: int
    n_apply: int
    tails: Floats
    deviates: bool = False
    replicates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    averaged: Floats | None = (
        None  # (n, M) what replicates are sums of, instead of the contributions
    )
    targets: Floats = field(default_factory=lambda: np.empty(0))
    contrast: tuple[int, int] = (0, 0)
    average: bool = False
    kappa: float = 1.0
    margin: float = 0.0
    variance_weight: float = 1.0

    @property
    def comparisons(self) -> int:
        """Number of channels D_j."""
        return 1 if self.deviates else len(self.replicates)

    @property
    def columns(self) -> int:
        """Columns of a row that are summed and squared: contributions, and deviations if any."""
        return self.models * (2 if self.deviates else 1)

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        return 1 + 2 * self.columns + len(self.replicates) * self.models

    @property
    def goal(self) -> Goal:
        """The objective as numbers."""
        own, summed = np.arange(self.models), self.columns
        table = np.zeros((self.width, self.models, 2 + 2 * self.comparisons))
        table[1 + own, own, 0] = 1 / self.n_grow
        # A second moment of model m is understated by tails[m].
        table[1 + summed + own, own, 1] = self.tails / self.n_grow
        if self.deviates:
            beside = own + self.models
            table[1 + beside, own, 2] = table[1 + summed + beside, own, 3] = 1 / self.n_grow
        for b in range(len(self.replicates)):
            table[1 + 2 * summed + b * self.models + own, own, 2 + b] = 1.0
        return Goal(table.reshape(self.width, -1), self.models, self.rule, self.marks)

    @property
    def rule(self) -> Floats:
        """Numbers of the scoring rule."""
        numbers = [
            self.average,
            self.kappa,
            self.variance_weight,
            1 / self.n_apply,
            1 / self.n_grow,
            self.margin,
        ]
        return np.array(numbers, dtype=np.float64)

    @property
    def marks(self) -> Floats:
        """T_j (J,), zero where there are none."""
        return self.targets if len(self.targets) else np.zeros(self.comparisons)


class MSEEstimate(Protocol):
    """A way to estimate the MSE of an assignment.

    One whose objective `deviates` has a further method, `deviations(part: Weighed)`: what each row
    adds to the bias of each model (M, n).
    """

    @property
    def name(self) -> str:
        """Name in `BehaviorTree(mse=...)`."""

    @property
    def streams(self) -> bool:
        """Whether it needs sums only, so that the tree can be grown on a streamed log."""

    def objective(self, position: Position) -> Objective:
        """Return what the tree minimises at one position."""
<<<<<<< HEAD:src/counterrank/tree/objective.py
=======


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


def _pasif() -> MSEEstimate:
    from counterrank.behavior.pasif import PasIf

    return PasIf()


#: Those that work on any log. "oracle" needs values from outside and is given as an object.
FEASIBLE: dict[str, Callable[[], MSEEstimate]] = {
    "gl": GoldenshlugerLepski,
    "slope": Slope,
    "pasif": _pasif,
}
DEFAULT = "gl"


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
    near = difflib.get_close_matches(given, [*FEASIBLE, "oracle"], n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise BehaviorError(f"there is no MSE estimate '{given}'{hint} Known: {known}")
>>>>>>> main:src/counterrank/behavior/objective.py
