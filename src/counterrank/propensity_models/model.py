"""Models of the item that the logger shows at each position: cross-fitted and calibrated."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import ConfigError, PropensityError
from counterrank.common.messages import ESTIMATED, MISSING_PROPENSITY, Message, what_is_possible
from counterrank.data.columns import as_texts, column_of
from counterrank.data.encoding import GapScales, mean_and_spread
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.kernels.hashing import BUCKETS
from counterrank.policies import repeated

#: Number of columns for the categories of a feature; the last one is shared by all further categories.
MAX_CATEGORIES = 50


def scales_of(
    mean: Floats,
    spread: Floats,
    gaps: ArrayLike,
    names: Sequence[str],
    labels: Mapping[str, Sequence[str]],
) -> tuple[Floats, Floats, tuple[tuple[int, int], ...], tuple[int, ...]]:
    """Return the fields of `GapScales`; a constant column gets a spread of 1."""
    coded = [(j, len(labels[name])) for j, name in enumerate(names) if name in labels]
    return (
        mean,
        np.where(spread > 0, spread, 1.0),
        tuple((j, min(size, MAX_CATEGORIES)) for j, size in coded),
        tuple(np.flatnonzero(gaps).tolist()),
    )


class ContextFeatures(GapScales):
    """The encoding of context as a feature matrix."""

    @classmethod
    def learn(cls, log: RankingLog) -> Self:
        """Return the encoding of a log's context; without context it has only the constant."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        gaps = np.isnan(context).any(axis=0)
        return cls(*scales_of(*mean_and_spread(context), gaps, log.context_names, log.categories))

    def matrix(self, log: RankingLog) -> Floats:
        """Return features (n, d), the first of which is the constant 1."""
        context = np.empty((log.n, 0)) if log.context is None else log.context
        return np.concatenate([np.ones((log.n, 1)), self.encode(context)], axis=1)


#: A normal prior of variance one on standardised coefficients, so that those of rare items stay finite.
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

    The loss is -sum_i w_i log P(a_i | x_i) plus PENALTY/2 theta^2, with a small penalty of the
    constants. The penalty determines the scores of items that were never shown.
    """
    n, d = x.shape
    penalty = np.full((size, d), PENALTY)
    # The constant determines an item's share of all rows, so it is hardly penalised.
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
    """Return the theta that minimises the loss plus sum of penalty theta^2 / 2, by L-BFGS.

    `loss` returns the loss and its gradient. Theta has the shape of `penalty`.
    """
    from scipy import optimize

    scale = 1.0 / max(float(weight.sum()), 1.0)

    def penalised(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(penalty.shape)
        value, slope = loss(theta)
        value += 0.5 * float((penalty * theta**2).sum())
        return value * scale, ((slope + penalty * theta) * scale).ravel()

    first = np.zeros(penalty.size) if start is None else start.ravel()
    optimum = optimize.minimize(penalised, first, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(optimum.x, dtype=np.float64).reshape(penalty.shape)


#: Item distributions are stored up to this many numbers.
_NUMBERS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class PropensityModel:
    """Logistic models of each position; models[f][k] (A, d) is fitted without fold f = bucket mod F.

    Calibration raises probabilities to `power` (K,) and renormalises them. The kinds "factored" and
    "position" model each position separately; "prefix" and "joint" model each item given those above
    it, which are no longer available if `without_replacement`.
    """

    features: Callable[[RankingLog], Floats]
    models: tuple[tuple[Floats, ...], ...]
    power: Floats
    kind: str
    size: int
    without_replacement: bool
    #: Weight of the uniform distribution in the mixture that keeps probabilities above zero.
    floor: float
    notes: tuple[str, ...] = ()

    def log_prob(self, log: RankingLog, k: int) -> Floats:
        """Return calibrated log-probabilities (n, A) at position k, from models fitted without the row."""
        x, fold = self.features(log), log.bucket % len(self.models)
        available = self.available(log, k)
        out = np.empty((log.n, self.size))
        for f, models in enumerate(self.models):
            rows = fold == f
            scores = np.where(available[rows], x[rows] @ models[k].T, -np.inf)
            out[rows] = log_softmax(self.power[k] * log_softmax(scores, axis=1), axis=1)
        share = available / available.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            mixed: Floats = np.log((1 - self.floor) * np.exp(out) + self.floor * share)
        return mixed

    def available(self, log: RankingLog, k: int) -> Bools:
        """Return True for the items (n, A) that can still be shown at position k."""
        free = np.ones((log.n, self.size), dtype=bool)
        for earlier in range(k if self.without_replacement else 0):
            items = log.action[:, earlier]
            rows = np.flatnonzero(items >= 0)
            free[rows, items[rows]] = False
        return free

    def propensity(self, log: RankingLog) -> tuple[Propensity, Floats | None]:
        """Return the propensities of shown items, and the item distributions (n, K, A) if small enough."""
        values = np.ones(log.action.shape)
        keep = self.kind == "factored" and log.n * log.K * self.size <= _NUMBERS
        distribution = np.empty((log.n, log.K, self.size)) if keep else None
        for k, items in enumerate(log.action.T):
            chances = np.exp(self.log_prob(log, k))
            shown = chances[np.arange(log.n), np.maximum(items, 0)]
            values[:, k] = np.where(items >= 0, shown, 1.0)
            if distribution is not None:
                distribution[:, k] = chances
        if self.kind == "joint":
            return Propensity("joint", values.prod(axis=1)), None
        return Propensity(self.kind, values), distribution

    def apply(self, log: RankingLog) -> RankingLog:
        """Return the log with estimated propensities and a note that they are estimated."""
        propensity, distribution = self.propensity(log)
        return with_propensity(log, propensity, distribution, self.notes)


def with_propensity(
    log: RankingLog, propensity: object, distribution: Floats | None, notes: tuple[str, ...]
) -> RankingLog:
    """Return the log with another logging policy; notes about missing propensities are dropped."""
    dists = {name: table for name, table in log.dists.items() if name != LOGGING}
    return log.changed(
        propensity=propensity,
        dists=dists if distribution is None else {**dists, LOGGING: distribution},
        notes=(*(note for note in log.notes if note != MISSING_PROPENSITY), *notes),
    )


#: The method that models choices among candidates instead of items by position.
CHOICE = "plackett-luce"
METHODS = ("logistic", CHOICE)
FOLDS = 2
#: Limit of the number of items for models with coefficients for each item.
MAX_ITEMS = 500
#: A logger is called deterministic if the typical probability of its shown items is at least this.
CERTAIN = 0.98


def fit_model(log: RankingLog, kind: str = "factored") -> PropensityModel:
    """Return the calibrated model of a log; raise PropensityError for a deterministic logger."""
    size = log.n_actions
    if size > MAX_ITEMS:
        raise PropensityError(
            f"{size:,} items are too many to estimate propensities with a score for each (at most "
            f"{MAX_ITEMS}); if the log has candidates with scores or features, use plackett-luce; if "
            "the same context saw few different lists, by-list:COLUMNS; else group the items"
        )
    model = PropensityModel(
        features=ContextFeatures.learn(log).matrix,
        models=(),
        power=np.ones(log.K),
        kind=kind,
        size=size,
        without_replacement=kind in ("prefix", "joint") and not repeated(log.action).any(),
        # Laplace's rule: as if every item had been shown once more.
        floor=min(0.01, size / (log.n + size)),
        notes=(_NOTE,),
    )
    model = refit(log, model, np.ones(BUCKETS))
    calibrated = replace(model, power=calibrate(log, model))
    values = calibrated.propensity(log)[0].values
    typical = float(values.mean() if kind == "joint" else np.exp(np.log(values).mean()))
    if typical >= CERTAIN:
        raise deterministic_error("the context predicts", typical)
    return calibrated


def refit(log: RankingLog, model: PropensityModel, bucket_weight: Floats) -> PropensityModel:
    """Return the model refitted with weights (1024,) of the buckets of units.

    models[f][k] is fitted without fold f, starting from the coefficients of `model` if it has any.
    """
    x, fold = model.features(log), log.bucket % FOLDS
    weight = bucket_weight[log.bucket]

    def fitted(k: int, f: int) -> Floats:
        rows = np.flatnonzero((fold != f) & (log.action[:, k] >= 0))
        if not len(rows):
            raise PropensityError(
                "a position has no items to learn from in one half of the log; more rows are needed"
            )
        return fit_logistic(
            x[rows],
            log.action[rows, k],
            model.size,
            weight=weight[rows],
            available=model.available(log, k)[rows],
            start=model.models[f][k] if model.models else None,
        )

    models = tuple(tuple(fitted(k, f) for k in range(log.K)) for f in range(FOLDS))
    return replace(model, models=models)


def calibrate(log: RankingLog, model: PropensityModel) -> Floats:
    """Return the power (K,) with the largest held-out likelihood; 1 leaves probabilities unchanged.

    This is temperature scaling (Guo et al. 2017).
    """

    def best(k: int) -> float:
        rows = np.flatnonzero(log.action[:, k] >= 0)
        places = np.arange(len(rows)), log.action[rows, k]
        table = np.maximum(model.log_prob(log, k)[rows], -700.0)
        return best_power(lambda power: -float(log_softmax(power * table, axis=1)[places].mean()))[
            0
        ]

    return np.array([best(k) for k in range(log.K)])


def best_power(loss: Callable[[float], float]) -> tuple[float, float]:
    """Return the power that minimises the loss, and the minimum."""
    from scipy import optimize

    optimum = optimize.minimize_scalar(loss, bounds=(0.1, 3.0), method="bounded")
    return float(optimum.x), float(optimum.fun)


def deterministic_error(what: str, typical: float) -> PropensityError:
    """Return the error for a logger whose choices the model predicts."""
    return PropensityError(
        f"the logging policy looks deterministic: {what} each shown item with probability "
        f"{typical:.3f}. Other policies cannot be evaluated from it. {what_is_possible()}"
    )


def group_keys(log: RankingLog, columns: tuple[str, ...]) -> NDArray[np.str_]:
    """Return a text for each row (n,); texts are equal if and only if all named columns are."""
    keys = np.full(log.n, "", dtype="<U1")
    for name in columns:
        keys = np.char.add(np.char.add(keys, "\x1f"), as_texts(column_of(log, name)))
    return keys


def parse_method(method: str) -> tuple[str, tuple[str, ...]]:
    """Return the method and the columns of a text such as "by-list:query,region".

    >>> parse_method("by-list:query,region")
    ('by-list', ('query', 'region'))
    """
    name, _, column_text = method.partition(":")
    columns = tuple(column.strip() for column in column_text.split(",") if column.strip())
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
