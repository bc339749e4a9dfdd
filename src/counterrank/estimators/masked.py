"""Weights that are ratios of subset probabilities: IPS, RIPS, IIPS, AIPS, interaction orders and their sum."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.arrays import Bools, Floats, Ints
from counterrank.behavior import (
    BehaviorTree,
    as_mask,
    fit_source,
    mask,
)
from counterrank.errors import BehaviorError, ConfigError, EstimatorError, LogError, PropensityError
from counterrank.estimators.base import (
    Estimator,
    Part,
    Plan,
    View,
    Workspace,
)
from counterrank.estimators.contribution import ContributionPlan
from counterrank.estimators.names import AGGREGATE_FORMS
from counterrank.messages import Message
from counterrank.statistics import Quantity
from counterrank.weights.moments import Moments, moments_of_weights
from counterrank.weights.ratios import Ratios, capability_of, ratios_of

#: Logs with fewer rankings do not use the one pass over all standard weights: it would save them a few
#: milliseconds and cost a first run on a machine seconds of compiling.
_FUSED_ROWS = 50_000
#: Where a workspace keeps the kinds of standard weights that its plans need, and whether one of them
#: needs the Gram matrix.
_FUSED, _GRAM = "standard weights", "gram"
#: Interaction orders among the standard weights.
_FUSED_ORDERS = (2, 3)


Weigh = Callable[[View], Floats]


class WeightPlan(ContributionPlan):
    """y = w r, with weights from a function of the view; `fused` names products of ratios that need no function."""

    def __init__(
        self,
        name: str,
        workspace: Workspace,
        weigh: Weigh,
        *,
        key: Hashable,
        aggregate: str = "mean",
        flags: tuple[str, ...] = (),
        fused: str | None = None,
    ) -> None:
        def contributions(view: View) -> tuple[Floats, Floats]:
            w = weigh(view)
            return w * view.reward, w

        super().__init__(name, workspace, contributions, key, aggregate, flags)
        self.weigh = weigh
        self.fused = fused
        if fused is not None and (not self.detail or fused == "joint"):
            # Estimators that plan on the same workspace are summed in one pass.
            together: set[str] = workspace.once(_FUSED, set)
            together |= {fused, _GRAM} if self.detail else {fused}

    def partial(self, view: View) -> Part[Moments]:
        """Sum without storing contributions, unless the Gram matrix or sums by unit are wanted."""
        # A plain mean needs sums only, and stores neither w nor y.
        if self.workspace.by_unit or (self.detail and not self._one_weight):
            return super().partial(view)
        if not self._in_one_pass:
            state, totals = moments_of_weights(
                self.weigh(view), view.rewards, view.batch.position_weights
            )
            return Part(state, totals[:, None])
        assert self.fused is not None
        together: set[str] = self.workspace.once(_FUSED, set)
        found = view.standard(together - {_GRAM}, full=_GRAM in together)
        state, totals = found.by_kind[self.fused]
        return Part(state, found.joint if self.detail else totals[:, None])

    @property
    def _in_one_pass(self) -> bool:
        rows = self.workspace.source.n
        return self.fused is not None and (rows is None or rows >= _FUSED_ROWS)

    @property
    def _one_weight(self) -> bool:
        """All positions have one weight, so one column of it stands for all."""
        return self.fused == "joint" and self._in_one_pass and not self.workspace.by_unit

    def combination(self, state: Moments) -> Floats:
        """Return the combination of the row's total, or of the one weight of all positions and its total (2,)."""
        own = super().combination(state)
        if state.gram is None or not self._one_weight:
            return own
        # One weight has one slope in all y_k, up to alpha_k: that of the total.
        on_y, alpha = own[1 : 1 + state.K], state.alpha
        return np.array([own[1 + state.K :].sum(), own[0] + on_y @ alpha / (alpha @ alpha)])


@dataclass(frozen=True)
class MaskEstimator(Estimator):
    """One behaviour mask for all rows: V_k = mean of pi(Phi_k)/pi0(Phi_k) r_k.

    `on_missing` says what to do when the log cannot give the probabilities: "error", or "superset",
    which enlarges the mask for both policies to one that the log supports. The estimate stays unbiased,
    has more variance, and is flagged.
    """

    aggregate: str = "mean"
    on_missing: str = "error"

    @abstractmethod
    def mask(self, length: int) -> Bools:
        """Return the behaviour mask (K, K)."""

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return weights of the mask, or of its superset where the log demands it."""
        wanted = self.mask(workspace.first.K)
        ratios = ratios_of(workspace.first, workspace.target)
        usable = supported_mask(ratios, wanted, self.on_missing)
        enlarged = not np.array_equal(usable, wanted)
        flags: tuple[str, ...] = (superset_flag(workspace, wanted, usable),) if enlarged else ()
        flags += sampling_flags(workspace, usable)
        key, fused = ("mask", usable.tobytes()), fused_kind(usable)
        # Marginals of rankings without replacement are no product of the prefix ratios.
        if fused == "position" and ratios.kind == "policy":
            fused = None
        weigh = weights_of_mask(usable)
        return WeightPlan(
            self.name, workspace, weigh, key=key, aggregate=self.aggregate, flags=flags, fused=fused
        )


def fused_kind(mask: Bools) -> str | None:
    """Return "joint", "prefix" or "position" for the masks of IPS, RIPS and IIPS, None for any other."""
    if mask.all():
        return "joint"
    if np.array_equal(mask, np.tri(len(mask), dtype=bool)):
        return "prefix"
    return "position" if np.array_equal(mask, np.eye(len(mask), dtype=bool)) else None


def weights_of_mask(mask: Bools) -> Callable[[View], Floats]:
    """Return the cheapest way to weigh by a mask."""
    kind = fused_kind(mask)
    if kind == "joint":
        return lambda view: view.ratios.full()
    if kind == "prefix":
        return lambda view: view.ratios.prefix()
    if kind == "position":
        return lambda view: view.ratios.position()
    return lambda view: view.ratios.masked(mask)


def supported_mask(ratios: Ratios, mask: Bools, on_missing: str) -> Bools:
    """Return the mask itself, or its smallest superset that the log's propensities support."""
    if on_missing not in ("error", "superset"):
        raise ConfigError(f"on_missing is '{on_missing}'; use 'error' or 'superset'")
    wanted = capability_of(mask)
    # A larger mask is unbiased whenever the smaller one is, because the items it adds have ratios of
    # mean one. Enlarging costs variance only.
    if wanted in ratios.supports:
        return mask
    if on_missing == "error":
        ratios.need(wanted)
    from counterrank.policies import superset_mask

    for capability in ("prefix", "joint"):
        if capability in ratios.supports:
            return superset_mask(mask, capability)
    raise PropensityError(
        f"'{ratios.kind}' propensities support no mask that contains this one; only IIPS is "
        "possible with them"
    )


def sampling_flags(workspace: Workspace, mask: Bools) -> tuple[str, ...]:
    """Return a flag where probabilities of sets of positions come from draws, with their error."""
    few = ratios_of(workspace.first.take(slice(0, 20)), workspace.target)
    if few.kind != "policy" or capability_of(mask) in ("joint", "prefix"):
        return ()
    few.masked(mask)
    error = few.sampling_error
    if error == 0:
        return ()
    return (
        Message(
            "sampled",
            "probabilities of sets of positions come from draws, with relative errors up to "
            f"{error:.2g}",
        ),
    )


def superset_flag(workspace: Workspace, wanted: Bools, usable: Bools) -> Message:
    """Return the flag that a mask was enlarged, and by how much."""
    kind = ratios_of(workspace.first, workspace.target).kind
    return Message(
        "superset",
        f"'{kind}' propensities cannot give the wanted probabilities, so {int(usable.sum())} instead "
        f"of {int(wanted.sum())} item-reward pairs are weighted; unbiased, but with more variance",
    )


@dataclass(frozen=True)
class IPS(MaskEstimator):
    """V_k = mean of pi(a|x)/pi0(a|x) r_k (Precup et al. 2000).

    Every item matters to every reward: unbiased, and the variance explodes with K.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.IPS().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "ips"

    def mask(self, length: int) -> Bools:
        """Return all ones."""
        return mask("S", length)


@dataclass(frozen=True)
class IIPS(MaskEstimator):
    """V_k = mean of pi(a_k|x)/pi0(a_k|x) r_k (Li et al. 2018).

    A reward depends on the own item alone: little variance, biased when items interact.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.IIPS().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "iips"

    def mask(self, length: int) -> Bools:
        """Return the identity."""
        return mask("I", length)


@dataclass(frozen=True)
class RIPS(MaskEstimator):
    """V_k = mean of pi(a_1..a_k|x)/pi0(a_1..a_k|x) r_k (McInerney et al. 2020).

    A reward depends on the own item and those above (cascade).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> [v.value for v in cr.RIPS().estimate(log, [[1, .5], [.5, .5]]).by_position]
    [1.0, 0.5]
    """

    name: str = "rips"

    def mask(self, length: int) -> Bools:
        """Return the lower triangle."""
        return mask("C", length)


#: Where trees fitted on the log are kept in the workspace.
_TREE = "tree"


@dataclass(frozen=True, eq=False)
class AIPS(Estimator):
    """V_k = mean of pi(Phi_k(a, c_i))/pi0(Phi_k(a, c_i)) r_k with a behaviour model c_i for each row.

    The estimator of Kiyohara et al. (2023): weights by the behaviour and nothing else.

    `behavior`: a (K, K) mask or name for all rows; names (n,) or masks (n, K, K) per row; "log" for
    the log's `behavior` column; a tree, fitted or not; or "fit", the tree of the evaluation's
    settings (the default). A tree that is not fitted is grown on the rows that are averaged.

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
        tree = workspace.memo.get(key, self.behavior)
        if not isinstance(tree, BehaviorTree):
            return self._fixed(workspace, weigh, key)
        return tree_plan(self, workspace, weigh, key, tree)

    def _fixed(
        self, workspace: Workspace, weigh: Callable[[View], Floats], key: Hashable
    ) -> Plan[Moments]:
        """Return the plan for behaviours that were not fitted by a tree."""
        return WeightPlan(self.name, workspace, weigh, key=key, aggregate=self.aggregate)

    def _weights(self, workspace: Workspace) -> tuple[Callable[[View], Floats], Any]:
        behavior, length = self.behavior, workspace.first.K
        if isinstance(behavior, str) and behavior == "fit":
            return _fitted(workspace, workspace.tree, (_TREE, "default"))
        if isinstance(behavior, BehaviorTree) and behavior.forest is None:
            return _fitted(workspace, behavior, (_TREE, id(behavior)))
        if isinstance(behavior, str) and behavior == "log":
            return _by_logged_name(length), ("behavior", "log")
        if hasattr(behavior, "weights"):
            return lambda view: behavior.weights(view.batch, view.ratios), ("model", id(behavior))
        array = np.asarray(behavior)
        if array.ndim == 0 or array.shape == (length, length):
            one = as_mask(behavior, length)
            return weights_of_mask(one), ("mask", one.tobytes())
        return _by_row(array, length, workspace.source.n), ("rows", id(behavior))


@dataclass(frozen=True, eq=False)
class AIPSPairs(AIPS):
    """V_c + s (V_2 - V_c): AIPS by a fitted tree, moved towards the value from pairs of items.

    V_c is the estimate of `AIPS`, V_2 that of interaction order 2; the share s minimises the
    estimated MSE (docs/explanation/behavior.md).
    """

    name: str = "aips-pairs"

    def _fixed(
        self, workspace: Workspace, weigh: Callable[[View], Floats], key: Hashable
    ) -> Plan[Moments]:
        raise ConfigError(
            f"'{self.name}' blends the estimate of a fitted tree; give it behavior='fit' or a "
            "BehaviorTree, or use AIPS for behaviours that are known"
        )


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


def _per_position(choice: NDArray[Any], length: int) -> Ints:
    return np.repeat(choice.astype(np.int64)[:, None], length, axis=1)


def _weigh_names(view: View, names: NDArray[Any], length: int) -> Floats:
    known, back = np.unique(names.astype(str), return_inverse=True)
    stored = view.batch.behavior_masks
    models = np.stack(
        [as_mask(stored[n], length) if n in stored else _said(str(n), length) for n in known]
    )
    return view.ratios.by_choice(models, _per_position(np.asarray(back).reshape(-1), length))


def _said(name: str, length: int) -> Bools:
    """Return the mask of a name that says which items matter."""
    if re.fullmatch(r"R\d+", name):
        raise BehaviorError(
            f"behaviour '{name}' is a random model, whose name does not say which items matter; give "
            "masks: RankingLog(behavior_masks={...}), or AIPS(behavior=masks)"
        )
    return mask(name, length)


def _fitted(
    workspace: Workspace, tree: BehaviorTree | None, key: Hashable
) -> tuple[Callable[[View], Floats], Hashable]:
    model = workspace.once(
        key, lambda: fit_source(workspace.source, workspace.target, seed=workspace.seed, tree=tree)
    )
    return lambda view: model.weights(view.batch, view.ratios), key


def tree_plan(
    estimator: AIPS, workspace: Workspace, weigh: Weigh, key: Hashable, tree: BehaviorTree
) -> ContributionPlan:
    """Return the weights of a behaviour tree, with an interval that allows for the choice of the tree.

    The tree was chosen on the rows that are averaged, and the choice favours models without extreme
    rows in this log. Their spread here is therefore too small. With V_2 the value from pairs,
    V - V_c = (V - V_2) + (V_2 - V_c). The first difference has a standard error that no choice has
    touched, and a bias from effects of more than two items; the second is known.
    """
    blend, doubt = None, tree.fitted.doubt
    options: Any = {"aggregate": estimator.aggregate, "flags": tree.fitted.notes}
    plan: ContributionPlan
    if isinstance(estimator, AIPSPairs):
        blend = tree.fitted.blend
    if blend is None:
        plan = WeightPlan(estimator.name, workspace, weigh, key=key, **options)
    else:
        pairs = blend

        def contributions(view: View) -> tuple[Floats, Floats]:
            return pairs.contributions(view.ratios, weigh(view), view.reward)

        name = estimator.name
        plan = ContributionPlan(name, workspace, contributions, (key, name), **options)

    def widened(found: Quantity) -> Quantity:
        if doubt is None:
            return found
        # The larger of both standard errors, because that of pairs may be too small.
        allowance = doubt.allowance(blend.share if blend else 0.0)
        return replace(found.at_least(doubt.stderr), allowance=allowance)

    plan.behavior_model, plan.widened = tree, widened
    return plan


def weights_for(
    workspace: Workspace, weights: Any, *, behavior: Any = "S", on_missing: str = "error"
) -> tuple[Weigh, Hashable]:
    """Return the weighing function and a key that is equal for equal weights.

    `behavior` is the mask inside which an interaction order acts, or the behaviour model of "aips".
    """
    length = workspace.first.K
    if isinstance(weights, int):
        return _ordered(workspace, weights, behavior)
    if isinstance(weights, str) and weights == "aips":
        return AIPS(
            behavior="fit" if isinstance(behavior, str) and behavior == "S" else behavior
        )._weights(workspace)
    wanted = as_mask(weights, length)
    mask = supported_mask(ratios_of(workspace.first, workspace.target), wanted, on_missing)
    return weights_of_mask(mask), ("mask", mask.tobytes())


def _ordered(workspace: Workspace, order: int, behavior: Any) -> tuple[Weigh, Hashable]:
    if order < 1:
        raise ConfigError(f"the interaction order must be 1 or more, got {order}")
    kind = ratios_of(workspace.first, workspace.target).kind
    if kind != "factored":
        raise EstimatorError(
            f"interaction order {order} needs independent positions ('factored' propensities); "
            f"these are '{kind}', for which the truncated product is biased; use ips, rips or auto"
        )
    length = workspace.first.K
    mask, used = as_mask(behavior, length), min(order, length)
    return lambda view: view.ratios.ordered(mask, used), (
        "order",
        used,
        np.packbits(mask).tobytes(),
    )


@dataclass(frozen=True)
class OrderIPS(Estimator):
    """w_k(c, m) = rho_k sum over T in Phi_k(c) without k, |T| <= m-1, of prod_{l in T} (rho_l - 1).

    Expands prod_l (1 + (rho_l - 1)) and keeps interactions of at most m items. Unbiased when
    E[r_k|x,a] is a sum of functions of a_k and at most m-1 other items inside the mask: the dropped
    terms have mean zero because E[rho_l - 1] = 0. m = 1 is IIPS, m = K is IPS. Positions must be
    independent given the context; weights may be negative.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.OrderIPS(order=2).estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    order: int = 2
    behavior: str | ArrayLike = "S"
    aggregate: str = "mean"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the aggregate and the order in it."""
        return f"{AGGREGATE_FORMS[self.aggregate]}order-{self.order}"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return order-m weights inside the mask."""
        weigh, key = weights_for(workspace, self.order, behavior=self.behavior)
        length = workspace.first.K
        usual = self.order in _FUSED_ORDERS and self.order < length
        fused = f"order-{self.order}" if usual and as_mask(self.behavior, length).all() else None
        return WeightPlan(
            self.name, workspace, weigh, key=key, aggregate=self.aggregate, fused=fused
        )


@dataclass(frozen=True)
class PseudoInverse(Estimator):
    """V = mean of (1 + sum_l (rho_l - 1)) R with R the reward of the whole ranking.

    Unbiased when E[R|x,a] = sum_l f_l(x, a_l). Swaminathan et al. 2017 weigh by q_pi' Gamma^+ 1_a
    with Gamma the second moment of the slot indicators under the logger; for independent positions
    that is this sum. A total reward may stand at any one position, the others zero: all positions
    get the same weight.

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> PseudoInverse().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    aggregate: str = "mean"
    name: str = "pi"

    def plan(self, workspace: Workspace) -> Plan[Moments]:
        """Return the summed weights."""
        kind = ratios_of(workspace.first, workspace.target).kind
        if kind != "factored":
            raise EstimatorError(
                f"'pi' needs independent positions ('factored' propensities); these are '{kind}'. "
                "For dependent positions its weights need the pairwise probabilities of all items; "
                "use ips or rips"
            )
        return WeightPlan(self.name, workspace, _added_up, key=("pi",), aggregate=self.aggregate)


def _added_up(view: View) -> Floats:
    rho = view.ratios.rho
    # The weight is not a ratio of probabilities and may be negative.
    weight = 1.0 + (rho - 1.0).sum(axis=1)
    return np.asfortranarray(np.broadcast_to(weight[:, None], rho.shape))
