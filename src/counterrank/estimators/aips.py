"""AIPS: the behaviour model differs from row to row (Kiyohara et al. 2023)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior import as_mask, mask
from counterrank.errors import BehaviorError, LogError
from counterrank.estimators.base import Estimator, Plan, View, Workspace
from counterrank.estimators.masked import WeightPlan, weights_of_mask
from counterrank.moments import Moments

Floats = NDArray[np.float64]

#: Where the tree fitted on the log is kept in the workspace.
_TREE = ("tree", "default")


@dataclass(frozen=True, eq=False)
class AIPS(Estimator):
    """V_k = mean of pi(Phi_k(a, c_i))/pi0(Phi_k(a, c_i)) r_k with a behaviour model c_i for each
    row.

    `behavior`: a (K, K) mask or name for all rows; names (n,) or masks (n, K, K) per row; "log" for
    the log's `behavior` column; a fitted tree; or "fit", which grows a cross-fitted tree on the log
    (the default).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.AIPS(behavior=["S", "I"]).estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    behavior: Any = "fit"
    aggregate: str = "mean"
    name: str = "aips"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return weights by the rows' own models."""
        weigh, key = self._weights(workspace)
        plan = WeightPlan(self.name, workspace, weigh, key=key, aggregate=self.aggregate)
        plan.behavior_model = workspace.memo.get(_TREE, None) if key == _TREE else None
        plan.flags = tuple(getattr(plan.behavior_model, "notes", ()))
        return plan

    def _weights(self, workspace: Workspace) -> tuple[Callable[[View], Floats], Any]:
        behavior, length = self.behavior, workspace.first.K
        if isinstance(behavior, str) and behavior == "fit":
            model = workspace.once(_TREE, lambda: _fitted_tree(workspace))
            return lambda view: model.weights(view.batch, view.ratios), _TREE
        if isinstance(behavior, str) and behavior == "log":
            return _by_logged_name(length), ("behavior", "log")
        if hasattr(behavior, "weights"):
            return lambda view: behavior.weights(view.batch, view.ratios), ("model", id(behavior))
        array = np.asarray(behavior)
        if array.ndim == 0 or array.shape == (length, length):
            one = as_mask(behavior, length)
            return weights_of_mask(one), ("mask", one.tobytes())
        return _by_row(array, length, workspace.source.n), ("rows", id(behavior))


def _by_logged_name(length: int) -> Callable[[View], Floats]:
    def weigh(view: View) -> Floats:
        names = view.batch.behavior
        if names is None:
            raise LogError(
                "the log has no 'behavior' column; give AIPS(behavior=...) masks, names or 'fit'"
            )
        return _weigh_names(view, names, length)

    return weigh


def _by_row(array: NDArray[Any], length: int, n: int | None) -> Callable[[View], Floats]:
    if array.shape[0] != n or array.shape[1:] not in ((), (length, length)):
        raise BehaviorError(
            f"behavior has shape {array.shape}; for n={n} rankings of K={length} give ({length}, "
            f"{length}), names ({n},) or masks ({n}, {length}, {length})"
        )
    if array.ndim == 1:
        return lambda view: _weigh_names(view, _rows_of(array, view), length)
    masks, back = np.unique(array.reshape(len(array), -1), axis=0, return_inverse=True)
    models = np.stack([as_mask(m.reshape(length, length), length) for m in masks])
    choice = np.asarray(back).reshape(-1)
    return lambda view: view.ratios.by_choice(models, _per_position(_rows_of(choice, view), length))


def _rows_of(values: NDArray[Any], view: View) -> NDArray[Any]:
    rows: NDArray[Any] = values[view.batch.rows]
    return rows


def _per_position(choice: NDArray[Any], length: int) -> NDArray[np.int64]:
    return np.repeat(choice.astype(np.int64)[:, None], length, axis=1)


def _weigh_names(view: View, names: NDArray[Any], length: int) -> Floats:
    known, back = np.unique(names.astype(str), return_inverse=True)
    models = np.stack([mask(str(name), length) for name in known])
    return view.ratios.by_choice(models, _per_position(np.asarray(back).reshape(-1), length))


def _fitted_tree(workspace: Workspace) -> Any:
    from counterrank.tree import fit_cross_fitted

    return fit_cross_fitted(workspace.source, workspace.target, seed=workspace.seed)
