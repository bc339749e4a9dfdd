"""A cross-fitted, calibrated model of what the logger showed at each position."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.log import LOGGING, RankingLog
from counterrank.propensity import Propensity
from counterrank.propensity_models.logistic import log_softmax

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Whole distributions are kept up to this many numbers.
_NUMBERS = 20_000_000


class PositionModel(Protocol):
    """P(a | x) at one position."""

    def log_prob(self, x: Floats, available: Bools | None = None) -> Floats:
        """Return log-probabilities (n, A)."""


#: Fits one position on (x, action, weight, available): what differs between methods.
Fit = Callable[[Floats, Ints, Floats, "Bools | None"], PositionModel]


@dataclass(frozen=True, slots=True, eq=False)
class PropensityModel:
    """models[f][k] never saw fold f = bucket mod F; `power` (K,) calibrates: p to that power, renormalised.

    `kind` is what the numbers are: "factored" and "position" model each position on its own; "prefix" and "joint"
    model each item given those above, which are no longer available when `without_replacement`.
    """

    features: Callable[[RankingLog], Floats]
    models: tuple[tuple[PositionModel, ...], ...]
    power: Floats
    kind: str
    size: int
    without_replacement: bool
    #: Share of uniform choice mixed in, so that no probability is zero.
    floor: float
    notes: tuple[str, ...] = ()

    def log_prob(self, log: RankingLog, k: int) -> Floats:
        """Return calibrated log-probabilities (n, A) at position k, each row's by a model that has not seen it."""
        x, fold = self.features(log), log.bucket % len(self.models)
        available = self.available(log, k)
        out = np.empty((log.n, self.size))
        for f, models in enumerate(self.models):
            rows = fold == f
            if rows.any():
                allowed = None if available is None else available[rows]
                out[rows] = log_softmax(self.power[k] * models[k].log_prob(x[rows], allowed), allowed)
        share = 1.0 / self.size if available is None else available / available.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            mixed: Floats = np.log((1 - self.floor) * np.exp(out) + self.floor * share)
        return mixed

    def available(self, log: RankingLog, k: int) -> Bools | None:
        """Return which items (n, A) can still be shown at position k, or None when all can."""
        if not self.without_replacement or k == 0:
            return None
        free = np.ones((log.n, self.size), dtype=bool)
        for earlier in range(k):
            items = log.action[:, earlier]
            rows = np.flatnonzero(items >= 0)
            free[rows, items[rows]] = False
        return free

    def propensity(self, log: RankingLog) -> tuple[Propensity, Floats | None]:
        """Return the numbers of the shown items, and the whole distribution (n, K, A) where it is small enough."""
        values = np.ones(log.action.shape)
        keep = self.kind == "factored" and log.n * log.K * self.size <= _NUMBERS
        whole = np.empty((log.n, log.K, self.size)) if keep else None
        for k in range(log.K):
            log_p = self.log_prob(log, k)
            items = log.action[:, k]
            shown = np.exp(log_p[np.arange(log.n), np.maximum(items, 0)])
            values[:, k] = np.where(items >= 0, shown, 1.0)
            if whole is not None:
                whole[:, k] = np.exp(log_p)
        if self.kind == "joint":
            return Propensity("joint", values.prod(axis=1)), None
        return Propensity(self.kind, values), whole

    def apply(self, log: RankingLog) -> RankingLog:
        """Return the log with estimated propensities and the flag that says so."""
        propensity, whole = self.propensity(log)
        return with_propensity(log, propensity, whole, self.notes)

    def with_models(self, models: tuple[tuple[PositionModel, ...], ...]) -> Self:
        """Return the same with other fits: a bootstrap replicate."""
        return replace(self, models=models)


def with_propensity(log: RankingLog, propensity: object, whole: Floats | None, notes: tuple[str, ...]) -> RankingLog:
    """Return the same rows with another logging policy; other notes about propensities are dropped."""
    part = log.take(slice(0, log.n))
    put = object.__setattr__
    dists = {name: table for name, table in log.dists.items() if name != LOGGING}
    put(part, "propensity", propensity)
    put(part, "dists", dists if whole is None else {**dists, LOGGING: whole})
    put(part, "notes", (*(note for note in log.notes if not note.startswith("propensity-missing")), *notes))
    return part
