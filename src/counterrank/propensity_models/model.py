"""What the logger showed at each position: cross-fitted, calibrated models, and how they are fitted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.columns import as_texts, column_of
from counterrank.data.encoding import GapScales, mean_and_spread
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.errors import ConfigError, PropensityError
from counterrank.kernels.hashing import BUCKETS
from counterrank.messages import ESTIMATED, MISSING_PROPENSITY, Message, what_is_possible
from counterrank.policies import repeated

#: Categories beyond this many share a column.
MAX_CATEGORIES = 50


def scales_of(
    mean: Floats,
    spread: Floats,
    gaps: ArrayLike,
    names: Sequence[str],
    labels: Mapping[str, Sequence[str]],
) -> tuple[Floats, Floats, tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Return the fields of `GapScales`; rare categories share the last column, constants have a spread of 1."""
    coded = [(j, len(labels[name])) for j, name in enumerate(names) if name in labels]
    return (
        mean,
        np.where(spread > 0, spread, 1.0),
        tuple((j, min(size, MAX_CATEGORIES)) for j, size in coded),
        tuple(np.flatnonzero(gaps).tolist()),
    )


class ContextFeatures(GapScales):
    """How to turn context into features, learnt once."""

    @classmethod
    def learn(cls, log: RankingLog) -> Self:
        """Return the features of a log's context; none but a constant when there is no context."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        gaps = np.isnan(context).any(axis=0)
        return cls(*scales_of(*mean_and_spread(context), gaps, log.context_names, log.categories))

    def of(self, log: RankingLog) -> Floats:
        """Return (n, d) features, the first of which is 1."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        return np.concatenate([np.ones((log.n, 1)), self.encode(context)], axis=1)


#: A normal prior of variance one on standardised features: items shown a few times stay near the
#: rest instead of running off to infinity.
PENALTY = 1.0


def fit_logistic(
    x: Floats,
    action: Ints,
    size: int,
    *,
    weight: Floats,
    available: Bools,
    start: Floats | None = None,
) -> Floats:
    """Return theta (A, d) of P(a | x) = exp(theta_a' x) / sum over available b of exp(theta_b' x), by L-BFGS.

    Items never shown keep a score from the penalty.

    Loss: -sum_i w_i log P(a_i | x_i) + PENALTY/2 |theta without the constant|^2, a little on the
    constant.
    """
    n, d = x.shape
    penalty = np.full((size, d), PENALTY)
    # The constant is an item's share of all rows: it is hardly penalised.
    penalty[:, 0] = 1e-3 * PENALTY

    def loss(theta: Floats) -> tuple[float, Floats]:
        log_p = log_softmax(np.where(available, x @ theta.T, -np.inf), axis=1)
        residual = weight[:, None] * np.exp(log_p)
        residual[np.arange(n), action] -= weight
        return -float(weight @ log_p[np.arange(n), action]), residual.T @ x

    return most_likely(loss, penalty, weight, start, {"maxiter": 200, "ftol": 1e-10})


def most_likely(
    loss: Callable[[Floats], tuple[float, Floats]],
    penalty: Floats,
    weight: Floats,
    start: Floats | None,
    options: Mapping[str, float],
) -> Floats:
    """Return the theta of least loss + sum of penalty theta^2 / 2, by L-BFGS; its shape is that of the penalty.

    `loss` returns the loss of rows of this `weight` and its slope in theta.
    """
    from scipy import optimize

    scale = 1.0 / max(float(weight.sum()), 1.0)

    def penalised(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(penalty.shape)
        value, slope = loss(theta)
        value += 0.5 * float((penalty * theta**2).sum())
        return value * scale, ((slope + penalty * theta) * scale).ravel()

    first = np.zeros(penalty.size) if start is None else start.ravel()
    found = optimize.minimize(penalised, first, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64).reshape(penalty.shape)


#: Whole distributions are kept up to this many numbers.
_NUMBERS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PropensityModel:
    """models[f][k] (A, d) never saw fold f = bucket mod F; `power` (K,) calibrates: p to that power, renormalised.

    `kind` is what the numbers are: "factored" and "position" model each position on its own;
    "prefix" and "joint" model each item given those above, which are no longer available when
    `without_replacement`.
    """

    features: Callable[[RankingLog], Floats]
    models: tuple[tuple[Floats, ...], ...]
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
                own = log_softmax(np.where(available[rows], x[rows] @ models[k].T, -np.inf), axis=1)
                out[rows] = log_softmax(self.power[k] * own, axis=1)
        share = available / available.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            mixed: Floats = np.log((1 - self.floor) * np.exp(out) + self.floor * share)
        return mixed

    def available(self, log: RankingLog, k: int) -> Bools:
        """Return which items (n, A) can still be shown at position k."""
        free = np.ones((log.n, self.size), dtype=bool)
        for earlier in range(k if self.without_replacement else 0):
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


def with_propensity(
    log: RankingLog, propensity: object, whole: Floats | None, notes: tuple[str, ...]
) -> RankingLog:
    """Return the same rows with another logging policy; other notes about propensities are dropped."""
    dists = {name: table for name, table in log.dists.items() if name != LOGGING}
    return log.changed(
        propensity=propensity,
        dists=dists if whole is None else {**dists, LOGGING: whole},
        notes=(*(note for note in log.notes if note != MISSING_PROPENSITY), *notes),
    )


#: The method that goes by what is known of candidates, and not by position.
CHOICE = "plackett-luce"
METHODS = ("logistic", CHOICE)
FOLDS = 2
#: Items beyond this many are too many for a model with a score each.
MAX_ITEMS = 500
#: A logger whose shown items per model predicts this well leaves no choice to learn from.
CERTAIN = 0.98


def fit_model(log: RankingLog, kind: str = "factored") -> PropensityModel:
    """Return the calibrated model of a log, or refuse a deterministic logger."""
    size = log.n_actions
    if size > MAX_ITEMS:
        raise PropensityError(
            f"{size:,} items are too many to estimate propensities with a score for each (at most "
            f"{MAX_ITEMS}); if the log has candidates with scores or features, use plackett-luce; if "
            "the same context saw few different lists, by-list:COLUMNS; else group the items"
        )
    # The floor is Laplace's: as if every item had been shown once more.
    model = PropensityModel(
        features=ContextFeatures.learn(log).of, models=(), power=np.ones(log.K), kind=kind, size=size,
        without_replacement=kind in ("prefix", "joint") and not repeated(log.action).any(),
        floor=min(0.01, size / (log.n + size)), notes=(_NOTE,),
    )  # fmt: skip
    model = refit(log, model, np.ones(BUCKETS))
    calibrated = replace(model, power=calibrate(log, model))
    values = calibrated.propensity(log)[0].values
    typical = float(values.mean() if kind == "joint" else np.exp(np.log(values).mean()))
    if typical >= CERTAIN:
        # The context predicts what is shown: there is nothing to compare.
        raise deterministic("the context predicts", typical)
    return calibrated


def refit(log: RankingLog, model: PropensityModel, bucket_weight: Floats) -> PropensityModel:
    """Return the model fitted again with other weights (1024,) on the buckets of units.

    models[f][k] is fitted without fold f, starting from that of `model` where it has one.
    """
    x, fold = model.features(log), log.bucket % FOLDS
    weight = bucket_weight[log.bucket]
    models: list[list[Floats]] = [[] for _ in range(FOLDS)]
    for k in range(log.K):
        available = model.available(log, k)
        for f in range(FOLDS):
            rows = np.flatnonzero((fold != f) & (log.action[:, k] >= 0))
            if len(rows) == 0:
                raise PropensityError(
                    "a position has no items to learn from in one half of the log; more rows are "
                    "needed"
                )
            theta = fit_logistic(
                x[rows], log.action[rows, k], model.size, weight=weight[rows],
                available=available[rows],
                start=model.models[f][k] if model.models else None,
            )  # fmt: skip
            models[f].append(theta)
    return replace(model, models=tuple(map(tuple, models)))


def calibrate(log: RankingLog, model: PropensityModel) -> Floats:
    """Return the power (K,) that makes held-out probabilities most likely: 1 when they are calibrated as they are.

    Temperature scaling (Guo et al. 2017) on rows that the models have not seen.
    """
    powers = np.ones(log.K)
    for k in range(log.K):
        log_p = model.log_prob(log, k)
        rows = np.flatnonzero(log.action[:, k] >= 0)
        items = log.action[rows, k]
        table = np.maximum(log_p[rows], -700.0)

        def loss(power: float, table: Floats = table, items: Ints = items) -> float:
            return -float(log_softmax(power * table, axis=1)[np.arange(len(items)), items].mean())

        powers[k], _ = best_power(loss)
    return powers


def best_power(loss: Callable[[float], float]) -> tuple[float, float]:
    """Return the power of least loss, and the loss."""
    from scipy import optimize

    found = optimize.minimize_scalar(loss, bounds=(0.1, 3.0), method="bounded")
    return float(found.x), float(found.fun)


def deterministic(what: str, typical: float) -> PropensityError:
    """Return the error for a logger whose choices the model predicts."""
    return PropensityError(
        f"the logging policy looks deterministic: {what} each shown item with probability "
        f"{typical:.3f}. Other policies cannot be evaluated from it. {what_is_possible()}"
    )


def group_keys(log: RankingLog, columns: tuple[str, ...]) -> NDArray[np.str_]:
    """Return a text for each row (n,) that is equal where all named columns are."""
    keys = np.full(log.n, "", dtype="<U1")
    for name in columns:
        keys = np.char.add(np.char.add(keys, "\x1f"), as_texts(column_of(log, name)))
    return keys


def parse(method: str) -> tuple[str, tuple[str, ...]]:
    """Return method and columns of a text such as "by-list:query,region".

    >>> parse("by-list:query,region")
    ('by-list', ('query', 'region'))
    """
    name, _, rest = method.partition(":")
    columns = tuple(part.strip() for part in rest.split(",") if part.strip())
    if name not in ("auto", "by-list", *METHODS):
        raise ConfigError(
            f"propensities cannot be estimated by '{name}'; use auto, {', '.join(METHODS)} or "
            "by-list:COLUMNS"
        )
    if columns and name != "by-list":
        used = "scores and features of candidates" if name == CHOICE else "the context"
        raise ConfigError(f"'{name}' takes no columns: it uses {used}; only by-list groups rows")
    return name, columns


_NOTE = Message(
    ESTIMATED,
    f"propensities were not logged but estimated (logistic, {FOLDS}-fold, calibrated, by position); "
    "intervals include the model's own spread, but not reasons for showing an item that the log does not "
    "hold",
)
