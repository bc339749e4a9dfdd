"""What a strong practitioner runs beside weights: gradient boosting of rewards, alone and corrected.

Trees read the context, an item's features, its id where items come again, and its place; the
page-aware ones also how strong the first model finds what stands above and on the rest of the page.
Of one reward per page, trees read all places of the page at once. Every row is judged by trees that
have not seen it, nor another row of its unit.

=============  ==================================================================
`lgb-dm`       mean over rows of E_target q, less what the log earned
`lgb-diff`     mean of E_target q - E_logger q: errors that both share cancel
`lgb-dr`       E_target q + sum_k w_k (r_k - q_k) with own-position weights, those
               of whole rankings for one reward per page, less what the log earned
`lgb-page-*`   the same with page-aware trees
=============  ==================================================================
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import counterrank as cr
from benchmarks.lift.cells import TARGET, Floats, Ints, Z
from counterrank.common.errors import EstimatorError
from counterrank.data.log import LOGGING
from counterrank.estimators import Lift
from counterrank.estimators.weights.ratios import ratios_of
from counterrank.policies import Policy

FORMS = ("dm", "diff", "dr")
NAMES = tuple(f"lgb-{page}{form}" for page in ("", "page-") for form in FORMS)
FOLDS, DRAWS = 2, 4
#: Items shown fewer times than this on average are known by their features alone.
OFTEN = 5
OPTIONS: dict[str, Any] = {
    "verbose": -1, "num_threads": 1, "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 40,
    "feature_fraction": 0.8, "seed": 1, "deterministic": True, "force_row_wise": True,
}  # fmt: skip
ROUNDS = 120


@dataclass(frozen=True)
class Boosting:
    """The boosting estimates of one log; everything is fitted once."""

    log: cr.RankingLog

    def lift(self, name: str) -> Lift:
        """Return the lift that an estimator of `NAMES` says, its interval as if trees were right."""
        form, page = name.rsplit("-", 1)[1], "page" in name
        q, new, old = self._page_aware if page else self._pointwise
        log = self.log
        earned = log.reward.sum(axis=1)
        y = {
            "dm": lambda: new - earned,
            "diff": lambda: new - old,
            "dr": lambda: new - earned + (self._weights * (log.reward - q)).sum(axis=1),
        }[form]()
        value, units = float(y.mean()), np.arange(log.n) if log.unit is None else log.unit
        _, unit = np.unique(units, return_inverse=True)
        by_unit = np.bincount(unit.reshape(-1), weights=y - value)
        error = float(np.sqrt((by_unit**2).sum())) / log.n
        return Lift(value, error, value - Z * error, value + Z * error)

    @property
    def _whole(self) -> bool:
        return self.log.page_reward

    @cached_property
    def _weights(self) -> Floats:
        ratios = ratios_of(self.log, TARGET)
        return ratios.full() if self._whole else ratios.position()

    @cached_property
    def _fold(self) -> Ints:
        return self.log.bucket % FOLDS

    @cached_property
    def _identified(self) -> bool:
        shown = self.log.action[self.log.action >= 0]
        return len(shown) >= OFTEN * len(np.unique(shown))

    def _slots(self, items: Ints) -> Floats:
        """Return context, features, id and place (n, K, p) of rankings (n, K)."""
        log, (n, K) = self.log, items.shape
        context = np.empty((n, 0)) if log.context is None else log.context
        own = items if self._identified else np.zeros_like(items)
        return np.concatenate(
            [
                np.broadcast_to(context[:, None, :], (n, K, context.shape[1])),
                log.features_of(items),
                np.broadcast_to(np.arange(K)[None, :, None], (n, K, 1)),
                own[:, :, None],
            ],
            axis=2,
        )

    def _pages(self, items: Ints) -> Floats:
        """Return the columns of whole pages (n, p): the context, then every place's item."""
        log, slots = self.log, self._slots(items)
        d = 0 if log.context is None else log.context.shape[1]
        return np.concatenate([slots[:, 0, :d], slots[:, :, d:].reshape(len(slots), -1)], axis=1)

    @cached_property
    def _drawn(self) -> dict[str, list[Ints]]:
        """Rankings of target and logger, DRAWS times (n, K)."""
        rng = np.random.default_rng(5)
        return {
            name: [_draw(self.log, name, rng) for _ in range(DRAWS)] for name in (TARGET, LOGGING)
        }

    @cached_property
    def _pointwise(self) -> tuple[Floats, Floats, Floats]:
        """Return q of the shown slots (n, K), and E_target and E_logger of a page (n,)."""
        log = self.log
        if self._whole:
            models = self._fitted(self._pages(log.action), log.reward[:, -1], categories=False)
            q = np.zeros(log.reward.shape)
            q[:, -1] = self._predicted(models, self._pages(log.action))
            means = [
                np.mean(
                    [self._predicted(models, self._pages(a)) for a in self._drawn[name]], axis=0
                )
                for name in (TARGET, LOGGING)
            ]
            return q, means[0], means[1]
        models = self._first
        return self._outlook(lambda items: self._by_slot(models, self._slots(items)))

    @cached_property
    def _first(self) -> list[Any]:
        return self._fitted(self._slots(self.log.action), self.log.reward)

    def _strengths(self, items: Ints) -> Floats:
        """Return what the first model expects of each item at its place (n, K)."""
        return self._by_slot(self._first, self._slots(items))

    @cached_property
    def _page_aware(self) -> tuple[Floats, Floats, Floats]:
        if self._whole:  # trees of whole pages know the page already
            return self._pointwise

        def columns(items: Ints) -> Floats:
            strength = self._strengths(items)
            above = np.cumsum(strength, axis=1) - strength
            rest = strength.sum(axis=1, keepdims=True) - strength
            highest = np.maximum.accumulate(strength, axis=1)
            highest = np.concatenate([np.zeros((len(items), 1)), highest[:, :-1]], axis=1)
            extra = np.stack([strength, above, rest, highest], axis=2)
            return np.concatenate([extra, self._slots(items)], axis=2)

        models = self._fitted(columns(self.log.action), self.log.reward)
        return self._outlook(lambda items: self._by_slot(models, columns(items)))

    def _outlook(self, predict: Any) -> tuple[Floats, Floats, Floats]:
        means = [
            np.mean([predict(items).sum(axis=1) for items in self._drawn[name]], axis=0)
            for name in (TARGET, LOGGING)
        ]
        return predict(self.log.action), means[0], means[1]

    def _fitted(self, columns: Floats, reward: Floats, *, categories: bool = True) -> list[Any]:
        """Return the trees by fold left out."""
        import lightgbm

        width = columns.shape[-1]
        rows, y = columns.reshape(-1, width), reward.reshape(-1)
        shown = self.log.action.reshape(-1) >= 0 if columns.ndim == 3 else np.ones(len(rows), bool)
        fold = np.repeat(self._fold, columns.shape[1]) if columns.ndim == 3 else self._fold
        clicks = bool(np.isin(y, (0.0, 1.0)).all())
        options = {**OPTIONS, "objective": "binary" if clicks else "regression"}
        own = [width - 1] if categories and self._identified else "auto"
        out = []
        for f in range(FOLDS):
            used = shown & (fold != f)
            data = lightgbm.Dataset(
                rows[used], y[used], categorical_feature=own, free_raw_data=True
            )
            out.append(lightgbm.train(options, data, ROUNDS))
        return out

    def _by_slot(self, models: list[Any], columns: Floats) -> Floats:
        n, K, width = columns.shape
        out = np.empty((n, K))
        for f, model in enumerate(models):
            rows = np.flatnonzero(self._fold == f)
            out[rows] = model.predict(columns[rows].reshape(-1, width), num_threads=1).reshape(
                -1, K
            )
        return out

    def _predicted(self, models: list[Any], columns: Floats) -> Floats:
        out = np.empty(len(columns))
        for f, model in enumerate(models):
            rows = np.flatnonzero(self._fold == f)
            out[rows] = model.predict(columns[rows], num_threads=1)
        return out


def _draw(log: cr.RankingLog, name: str, rng: np.random.Generator) -> Ints:
    """Return a ranking (n, K) of a policy for each row."""
    policy = log.propensity if name == LOGGING else log.target(name)
    if isinstance(policy, Policy):
        return np.asarray(policy.sample(log.K, rng, size=1)).reshape(log.n, log.K)
    table = log.distribution(name)
    if table is None:
        raise EstimatorError(f"'{name}' is known by numbers alone: no rankings can be drawn")
    if table.ndim == 2:
        table = np.broadcast_to(table[:, None, :], (log.n, log.K, table.shape[1]))
    edges: NDArray[Any] = np.cumsum(table, axis=2)
    drawn = (rng.random((log.n, log.K, 1)) > edges / edges[:, :, -1:]).sum(axis=2)
    return np.minimum(drawn, table.shape[2] - 1)
