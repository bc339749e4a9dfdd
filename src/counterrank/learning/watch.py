"""No one hurt unnoticed: who gains and who loses, and what is shown more and less, before anything
is shipped.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import ConfigError
from counterrank.inference import critical_value, holm, two_sided
from counterrank.learning.policy import LearnedPolicy
from counterrank.learning.settings import SETTINGS
from counterrank.log import RankingLog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Labels of a segment column at most; more is an id.
_MOST_LABELS = 50
#: Items or groups named in the table of exposure, half of them going up, half down.
_NAMED = 20


def segments_of(
    part: RankingLog,
    gains: Floats,
    units: "tuple[Ints, Floats] | None",
    columns: Sequence[str],
    level: float,
) -> tuple[dict[str, Any], ...]:
    """Return the lift of each segment on the certifying rows, adjusted for looking at many.

    Intervals are Bonferroni's over all segments, p-values Holm's; both count units.
    """
    found: list[dict[str, Any]] = []
    for column in columns:
        if column not in part.columns:
            raise ConfigError(
                f"there is no column '{column}' to look at; known: "
                f"{', '.join(part.columns) or 'none'}"
            )
        values = np.asarray(part.columns[column]).astype(str)
        labels = np.unique(values)
        if len(labels) > _MOST_LABELS:
            raise ConfigError(
                f"segment column '{column}' has {len(labels):,} values; at most {_MOST_LABELS}"
            )
        for label in labels:
            found.append(
                {"column": column, "label": str(label), **_mean(gains, values == label, units)}
            )
    adjusted = holm([two_sided(row["value"], row["stderr"]) for row in found])
    z = critical_value(1.0 - (1.0 - level) / max(len(found), 1))
    return tuple(
        {
            **row,
            "low": row["value"] - z * row["stderr"],
            "high": row["value"] + z * row["stderr"],
            "p_value": float(p),
        }
        for row, p in zip(found, adjusted, strict=True)
    )


def _mean(
    gains: Floats, own: NDArray[np.bool_], units: "tuple[Ints, Floats] | None"
) -> dict[str, Any]:
    n = int(own.sum())
    value = float(gains[own].mean())
    scores = gains[own] - value
    if units is not None:
        _, group = np.unique(units[0][own], return_inverse=True)
        scores = np.bincount(group, weights=scores).astype(np.float64)
    clusters = len(scores)
    variance = clusters / max(clusters - 1, 1) * float(scores @ scores) / n**2
    return {"n": n, "value": value, "stderr": float(np.sqrt(variance))}


def exposure(
    part: RankingLog, policy: LearnedPolicy, rng: np.random.Generator
) -> tuple[dict[str, Any], ...]:
    """Return share of all shown slots before and after, of the items (or groups) that move most.

    Before is what the rows showed, after a draw of the policy for each. Groups are the labels of
    the first categorical item feature, where there is one; else items stand for themselves.
    """
    rows = part.take(slice(0, min(part.n, int(SETTINGS["exposed"].value))))
    size = part.n_actions + 1
    served = policy.bind(rows).sample(rows.K, rng)
    # Index -1, the padding, is the last entry and is left out.
    before = np.bincount(rows.action.ravel() % size, minlength=size).astype(np.float64)
    after = np.bincount(served.ravel() % size, minlength=size).astype(np.float64)
    groups, labels = _groups(part)
    old, new = (
        np.bincount(groups, weights=found[:-1], minlength=len(labels)) for found in (before, after)
    )
    old, new = old / max(old.sum(), 1e-300), new / max(new.sum(), 1e-300)
    order = np.argsort(new - old)
    shown = (
        order
        if len(order) <= _NAMED
        else np.concatenate([order[: _NAMED // 2], order[-_NAMED // 2 :]])
    )
    return tuple(
        {"group": labels[g], "before": float(old[g]), "after": float(new[g])} for g in shown[::-1]
    )


def _groups(part: RankingLog) -> tuple[Ints, list[str]]:
    """Return the group of each item (A,) and the groups' names."""
    features = part.item_features
    for j, name in enumerate(features.names if features is not None else ()):
        labels = features.categories.get(name) if features is not None else None
        if labels and features is not None:
            codes = np.nan_to_num(features.values[:, j], nan=len(labels)).astype(np.int64)
            padded = np.full(part.n_actions, len(labels), dtype=np.int64)
            padded[: len(codes)] = np.where(codes < 0, len(labels), codes)[: part.n_actions]
            return padded, [*(f"{name} {label}" for label in labels), "unknown"]
    names = part.action_names or tuple(str(item) for item in range(part.n_actions))
    return np.arange(part.n_actions), [str(name) for name in names]
