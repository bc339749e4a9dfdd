"""Items that stand for their group: the log as if groups had been shown."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Floats, Ints
from counterrank.data.log import LOGGING, RankingLog
from counterrank.data.propensity import Propensity
from counterrank.errors import ConfigError, PropensityError
from counterrank.messages import Message
from counterrank.policies import ItemFeatures

NOTE = Message(
    "groups",
    "weights compare groups of items, not items; unbiased only if rewards depend on items through "
    "their groups",
)


class Grouping:
    """Turns a log of items into the log of their groups (Saito & Joachims 2022).

    A group's probability is the sum over its items, so its ratios are far smaller where there are
    many items; every estimator, mask and tree then works on groups as it does on items. `labels`
    (A,) name each item's group; an embedding (A, e) makes equal rows one group.

    >>> half = [[0.25] * 4] * 2
    >>> log = RankingLog(action=[[0, 1], [2, 3]], reward=[[1, 0], [0, 1]], propensity=[[.25] * 2] * 2,
    ...     targets={"new": [[.4, .1], [.4, .1]]}, dists={"propensity": half, "new": [[.4, .1, .4, .1]] * 2})
    >>> grouped = Grouping(["a", "a", "b", "b"])(log)
    >>> grouped.action.tolist(), grouped.propensity.values.tolist()
    ([[0, 0], [1, 1]], [[0.5, 0.5], [0.5, 0.5]])
    """

    def __init__(self, labels: ArrayLike) -> None:
        array = np.asarray(labels)
        found, index = np.unique(array, axis=0, return_inverse=True)
        self.group: Ints = np.asarray(index, dtype=np.int64).reshape(-1)
        self.names = tuple(_name(one) for one in found)

    def __call__(self, log: RankingLog) -> RankingLog:
        """Return the log with groups in the place of items."""
        if log.n_actions > len(self.group):
            raise ConfigError(
                f"the groups of {len(self.group)} items are known, but the log has "
                f"{log.n_actions}: give every item a group"
            )
        size = len(self.names)
        member = np.zeros((len(self.group), size))
        member[np.arange(len(self.group)), self.group] = 1.0
        action = np.where(log.action >= 0, self.group[np.maximum(log.action, 0)], -1)
        dists = {name: self._summed(log, name, member) for name in (LOGGING, *log.targets)}
        shown = {name: Propensity("factored", _of(dist, action)) for name, dist in dists.items()}
        return replace(
            log,
            action=action,
            propensity=shown.pop(LOGGING),
            targets=shown,
            dists=dists,
            action_names=self.names,
            candidates=None,
            item_features=None,
            notes=(*log.notes, NOTE),
        )

    def _summed(self, log: RankingLog, name: str, member: Floats) -> Floats:
        table = log.distribution(name)
        if table is None:
            raise PropensityError(
                "groups of items need the whole distribution of both policies, to sum over each "
                f"group; '{name}' has none: add a column '{name}_dist' (probabilities of all "
                "items) or give the policy itself"
            )
        if table.shape[-1] > len(member):
            raise ConfigError(
                f"'{name}' ranks {table.shape[-1]} items, but the groups of {len(member)} are known"
            )
        summed: Floats = table @ member[: table.shape[-1]]
        return summed


def _of(dist: Floats, action: Ints) -> Floats:
    """Return the probability of each shown group (n, K); one in the padding."""
    every = np.broadcast_to(
        dist if dist.ndim == 3 else dist[:, None], (*action.shape, dist.shape[-1])
    )
    found = np.take_along_axis(every, np.maximum(action, 0)[:, :, None], axis=2)[:, :, 0]
    return np.where(action >= 0, found, 1.0)


def _name(label: Any) -> str:
    parts = np.atleast_1d(label).tolist()
    return ", ".join(str(part) for part in parts)


def grouping_of(features: ItemFeatures | None, columns: Sequence[str]) -> Grouping:
    """Return the groups that the values of some columns of the items make."""
    if features is None:
        raise ConfigError(
            "item groups are columns of the items' file, and there is none; give it with --items "
            "FILE (items=FILE in Python)"
        )
    for name in columns:
        if name not in features.names:
            raise ConfigError(
                f"the items have no column '{name}' to group by; they have "
                f"{', '.join(features.names)}"
            )
    table = features.values[:, [features.names.index(name) for name in columns]]
    missing = np.isnan(table).any(axis=1)
    if missing.any():
        raise ConfigError(
            f"item {int(np.argmax(missing))} has no value of {' or '.join(columns)}, so it has no "
            "group; fill it in, or give such items a group of their own"
        )
    labels = [
        [_label(features, name, value) for name, value in zip(columns, row, strict=True)]
        for row in table.tolist()
    ]
    return Grouping(np.array(labels))


def _label(features: ItemFeatures, name: str, value: float) -> str:
    known = features.categories.get(name)
    return f"{value:g}" if known is None else known[int(value)]
