"""What a tree minimises: an MSE estimate of the whole assignment of models to leaves.

The score of an assignment is a function of C sums over its leaves ("channels"):
t = [mean, second moment, D_1..D_J, second moment of D_1..D_J], and

    score = lam Var + max_j or mean_j penalty_j,  Var = (t_1 - t_0^2) / n_apply,  d = D_j - T_j,
    squares: penalty = max(0, d^2 - kappa Var(D_j))
    overlap: infinite when |d| > kappa (se(assignment) + width_j), else 0   (SLOPE)

An MSE estimate turns a `Position` (what is known at one position of the ranking) into an
`Objective`; the grower knows nothing else about it. Which of them is good at what, and what was
measured and left out, is in docs/evidence/mse-estimates.md.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.settings import GL_KAPPA, ORACLE_NOISE_STREAM, SLOPE_Z
from counterrank.behavior.training import Position
from counterrank.data.log import RankingLog
from counterrank.errors import BehaviorError
from counterrank.kernels.jit import helper, jit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: A score must be lower by this share to count as lower: ties are then broken by order, not by
#: rounding.
TIE = 1e-10
#: Sums beyond this count as this: squares of extreme weights must not become 0 * inf = NaN in the
#: channels of models that do not use them.
MOST = 1e290


@helper
def _score(base: Floats, add: Floats, rule: Floats, targets: Floats, stop: float) -> float:
    """Return the score of channels base + add; any value >= stop when it is not below `stop`.

    rule = [overlap, mean instead of max, kappa, lam, 1/n_apply, 1/n_grown]; targets (2, J) = T and
    width.
    """
    overlap, mean, kappa = rule[0] > 0.0, rule[1] > 0.0, rule[2]
    first = base[0] + add[0]
    spread = max(base[1] + add[1] - first * first, 0.0)
    low: float = rule[3] * spread * rule[4]
    # Bias penalties only add: a variance that is too large already ends the comparison.
    if low >= stop:
        return low
    count = targets.shape[1]
    worst = 0.0
    for j in range(count):
        raw = base[2 + j] + add[2 + j]
        gap = raw - targets[0, j]
        if overlap:
            reach = kappa * (np.sqrt(spread * rule[5]) + targets[1, j])
            penalty = np.inf if abs(gap) > reach and gap != 0.0 else 0.0
        else:
            # E (V_c - V_j)^2 = bias^2 + Var(V_c - V_j): what chance alone explains is taken off,
            # kappa times.
            noise = max(base[2 + count + j] + add[2 + count + j] - raw * raw, 0.0) * rule[5]
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

    `pairs` (P, 2): products of contributions to sum; `compare` (J,) models the assignment is held
    against, each only where `against[j, m]`; or `replicates` (B, n) row weights of `averaged`, with
    `targets` T_b. `overlap` False: a squared difference counts as far as it exceeds `kappa`
    variances; True: intervals of `kappa` standard errors, of the assignment and of each model
    (`widths`), must meet.
    """

    models: int
    n_grow: int
    n_apply: int
    tails: Floats
    compare: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    against: Bools = field(default_factory=lambda: np.empty((0, 0), dtype=bool))
    replicates: Floats = field(default_factory=lambda: np.empty((0, 0)))
    averaged: Floats | None = (
        None  # (n, M) what replicates are sums of, instead of the contributions
    )
    value: Floats | None = None  # (1,) a known value to hold the mean against
    targets: Floats = field(default_factory=lambda: np.empty(0))
    widths: Floats = field(default_factory=lambda: np.empty(0))
    contrast: tuple[int, int] = (0, 0)
    overlap: bool = False
    average: bool = False
    kappa: float = 1.0
    variance_weight: float = 1.0

    @property
    def comparisons(self) -> int:
        """Number of channels D_j."""
        if self.value is not None:
            return 1
        return len(self.replicates) or len(self.compare)

    @property
    def pairs(self) -> Ints:
        """Products of contributions that must be summed (P, 2): squares, then crosses with the
        compared models.
        """
        return _pairs(self.models, tuple(self.compare.tolist()), self.against.tobytes())

    @property
    def width(self) -> int:
        """Length of a row's statistics."""
        return 1 + self.models + len(self.pairs) + len(self.replicates) * self.models

    @property
    def goal(self) -> Goal:
        """The objective as numbers."""
        kind = "compare"
        if self.value is not None or len(self.replicates):
            kind = "replicates" if self.value is None else "value"
        terms, sign, tails, plain = _structure(
            self.models,
            tuple(self.compare.tolist()),
            self.against.tobytes(),
            kind,
            self.comparisons,
        )
        # A second moment of model m is understated by tails[m], a product of m and o by the
        # geometric mean.
        up = np.append(np.sqrt(self.tails), 1.0)
        coef = sign * up[tails[0]] * up[tails[1]] / np.where(plain, 1.0, self.n_grow)
        table = np.zeros((self.width, self.models, 2 + 2 * self.comparisons))
        np.add.at(table, (terms[2], terms[0], terms[1]), coef)
        return Goal(table.reshape(self.width, -1), self.models, self.rule, self.marks)

    @property
    def rule(self) -> Floats:
        """Numbers of the scoring rule."""
        numbers = [
            self.overlap,
            self.average,
            self.kappa,
            self.variance_weight,
            1 / self.n_apply,
            1 / self.n_grow,
        ]
        return np.array(numbers, dtype=np.float64)

    @property
    def marks(self) -> Floats:
        """T_j and widths (2, J), zero where there are none."""
        out = np.zeros((2, self.comparisons))
        for row, given in zip(out, (self.targets, self.widths), strict=True):
            if len(given):
                row[:] = given
        return out


@lru_cache(maxsize=256)
def _structure(
    models: int, compare: tuple[int, ...], against: bytes, kind: str, count: int
) -> tuple[Ints, Floats, Ints, Bools]:
    """Return the terms (3, T), their signs (T,), the two models whose tails scale them (2, T), and
    which are plain.

    The number of models stands for "no tail". Plain sums are not divided by the number of rows.
    """
    pairs = _pairs(models, compare, against)
    where = np.frombuffer(against, dtype=bool).reshape(len(compare), models)
    place = {(int(a), int(b)): 1 + models + p for p, (a, b) in enumerate(pairs)}
    none, rows = models, []  # model, channel, statistic, sign, tail, tail, plain
    for m in range(models):
        own = (1 + m, place[m, m])
        rows += [(m, 0, own[0], 1, none, none, 0), (m, 1, own[1], 1, m, m, 0)]
        for j in range(count):
            if kind == "value":
                rows += [(m, 2, own[0], 1, none, none, 0), (m, 3, own[1], 1, m, m, 0)]
            elif kind == "replicates":
                rows.append((m, 2 + j, 1 + models + len(pairs) + j * models + m, 1, none, none, 1))
            elif where[j, m] and m != compare[j]:
                # (y_m - y_o)^2 written out: three sums of a leaf stand for every pair of models,
                # and no cut needs another look at its rows.
                o, square = compare[j], 2 + count + j
                rows += [(m, 2 + j, 1 + m, 1, none, none, 0), (m, 2 + j, 1 + o, -1, none, none, 0)]
                rows += [(m, square, own[1], 1, m, m, 0), (m, square, place[o, o], 1, o, o, 0)]
                rows.append((m, square, place[min(m, o), max(m, o)], -2, m, o, 0))
    table = np.array(rows, dtype=np.int64).T
    return np.ascontiguousarray(table[:3]), table[3].astype(np.float64), table[4:6], table[6] > 0


@lru_cache(maxsize=256)
def _pairs(models: int, compare: tuple[int, ...], against: bytes) -> Ints:
    where = np.frombuffer(against, dtype=bool).reshape(len(compare), models)
    squares = [(m, m) for m in range(models)]
    crosses = {
        (min(m, j), max(m, j))
        for row, j in zip(where, compare, strict=True)
        for m in range(models)
        if row[m] and m != j
    }
    return np.array(squares + sorted(crosses), dtype=np.int64)


class MSEEstimate(Protocol):
    """A way to estimate the MSE of an assignment."""

    @property
    def name(self) -> str:
        """Name in `BehaviorTree(mse=...)`."""

    @property
    def streams(self) -> bool:
        """Whether it needs sums only, so that the tree can be grown on a streamed log."""

    def objective(self, position: Position) -> Objective:
        """Return what the tree minimises at one position."""


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
