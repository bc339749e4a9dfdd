"""Weights that are ratios of subset probabilities: IPS, RIPS, IIPS, AIPS, interaction orders and their sum."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterrank.common.arrays import Bools, Floats
from counterrank.common.errors import (
    BehaviorError,
    ConfigError,
    EstimatorError,
    LogError,
    PropensityError,
)
from counterrank.common.messages import Message
from counterrank.estimators.base import Estimator, Fitted, View, Workspace
from counterrank.estimators.behavior import (
    SAMPLE_ROWS,
    BehaviorTree,
    Doubt,
    as_mask,
    fit_source,
    mask,
)
from counterrank.estimators.contribution import ContributionFit, Weigh
from counterrank.estimators.crossfit import closed_models
from counterrank.estimators.names import AGGREGATE_FORMS
from counterrank.estimators.solution import (
    AIPS_TRAITS,
    Traits,
    traits_of_weights,
    with_aggregate,
)
from counterrank.estimators.weights.ratios import Ratios, capability_of, ratios_of
from counterrank.policies import superset_mask
from counterrank.statistics import Quantity

#: Interaction orders among the weights that are summed in one pass.
_FUSED_ORDERS = (2, 3)
#: Masks that have weights by a kernel of their own, by the name that the one pass gives them.
_STANDARD: dict[str, tuple[str, Callable[[Ratios], Floats]]] = {
    "joint": ("S", Ratios.full),
    "prefix": ("C", Ratios.prefix),
    "position": ("I", Ratios.position),
}


#: What estimators by these masks are called.
_WORDS = {"S": "ips", "C": "rips", "I": "iips"}


class Weights(NamedTuple):
    """A function from a view to weights (n, K), and a key that is equal for equal weights.

    `fused` is their name among products of ratios that are summed in one pass, `tree` the behaviour tree
    that was fitted for them.
    """

    weigh: Weigh
    key: Hashable
    flags: tuple[str, ...] = ()
    fused: str | None = None
    tree: BehaviorTree | None = None


def fit_of(
    name: str, workspace: Workspace, weights: Weights, aggregate: str, traits: Traits
) -> ContributionFit:
    """Return the fit of weights; those of a tree have an interval that allows for its choice."""
    fit = ContributionFit(
        name,
        workspace,
        weights.key,
        traits,
        aggregate,
        weights.weigh,
        flags=weights.flags,
        fused=weights.fused,
    )
    return (
        fit if weights.tree is None else chosen_tree(fit, weights.tree, weights.tree.fitted.doubt)
    )


def chosen_tree(fit: ContributionFit, tree: BehaviorTree, doubt: Doubt | None) -> ContributionFit:
    """Return the fit with an interval that allows for the choice of the tree.

    The tree was chosen on the rows that are averaged, and the choice favours models without extreme
    rows in this log. Their spread here is therefore too small. With V_r the value by a reward model, or
    from pairs, V - V_c = (V - V_r) + (V_r - V_c). The first difference has a standard error that no
    choice has touched; the second is known.
    """

    def widened(value: Quantity) -> Quantity:
        if doubt is None:
            return value
        # The larger of both standard errors, because that of V_r may be too small. What it is larger by
        # is an error of the choice, which the rows that were chosen on do not show.
        choice = max(doubt.stderr**2 - value.stderr**2, 0.0)
        return replace(value, model_variance=choice, allowance=doubt.allowance)

    fit.behavior_model, fit.widened, fit.flags = tree, widened, tree.fitted.notes
    return fit


@dataclass(frozen=True)
class MaskEstimator(Estimator):
    """One behaviour mask for all rows: V_k = mean of pi(Phi_k)/pi0(Phi_k) r_k.

    `on_missing` says what to do when the log cannot give the probabilities: "error", or "superset",
    which enlarges the mask for both policies to one that the log supports. The estimate stays unbiased,
    has more variance, and is flagged.
    """

    aggregate: str = "mean"
    on_missing: str = "error"
    #: The name of the mask, unless a subclass makes one of its own.
    shape: ClassVar[str] = ""

    def mask(self, length: int) -> Bools:
        """Return the behaviour mask (K, K)."""
        return mask(self.shape, length)

    @property
    def traits(self) -> Traits:
        """What the mask assumes."""
        word = _WORDS.get(self.shape, self.name)
        return with_aggregate(traits_of_weights(word), self.aggregate)

    def fit(self, workspace: Workspace) -> Fitted:
        """Return weights of the mask, or of its superset where the log demands it."""
        relevant = self.mask(workspace.first.K)
        weights = weights_of_mask(workspace, relevant, self.on_missing)
        return fit_of(self.name, workspace, weights, self.aggregate, self.traits)


def weights_of_mask(workspace: Workspace, relevant: Bools, on_missing: str = "error") -> Weights:
    """Return the weights of a mask, or of its smallest superset that the log's propensities support."""
    used = supported_mask(workspace.ratios, relevant, on_missing)
    kind, K = workspace.ratios.kind, len(used)
    # The first of them: for one position all are the same.
    same_as = next(
        (
            name
            for name, standard in _STANDARD.items()
            if np.array_equal(used, mask(standard[0], K))
        ),
        "",
    )

    def weigh(view: View) -> Floats:
        return _STANDARD[same_as][1](view.ratios) if same_as else view.ratios.masked(used)

    flags: tuple[str, ...] = ()
    if not np.array_equal(used, relevant):
        text = (
            f"'{kind}' propensities cannot give the wanted probabilities, so {int(used.sum())} instead "
            f"of {int(relevant.sum())} item-reward pairs are weighted; unbiased, but with more variance"
        )
        flags = (Message("superset", text),)
    flags += sampling_flags(workspace, used)
    # Marginals of rankings without replacement are no product of the prefix ratios.
    fused = None if kind == "policy" and same_as == "position" else same_as or None
    return Weights(weigh, ("mask", used.tobytes()), flags, fused)


def supported_mask(ratios: Ratios, mask: Bools, on_missing: str) -> Bools:
    """Return the mask itself, or its smallest superset that the log's propensities support."""
    if on_missing not in ("error", "superset"):
        raise ConfigError(f"on_missing is '{on_missing}'; use 'error' or 'superset'")
    capability = capability_of(mask)
    # A larger mask is unbiased whenever the smaller one is, because the items it adds have ratios of
    # mean one. Enlarging costs variance only.
    if capability in ratios.supports:
        return mask
    if on_missing == "error":
        ratios.need(capability)
    for capability in ("prefix", "joint"):
        if capability in ratios.supports:
            return superset_mask(mask, capability)
    raise PropensityError(
        f"'{ratios.kind}' propensities support no mask that contains this one; only IIPS is "
        "possible with them"
    )


def sampling_flags(workspace: Workspace, mask: Bools) -> tuple[str, ...]:
    """Return a flag where probabilities of sets of positions come from draws, with their error."""
    if workspace.ratios.kind != "policy" or capability_of(mask) in ("joint", "prefix"):
        return ()
    first_ratios = ratios_of(workspace.first.take(slice(0, 20)), workspace.target)
    first_ratios.masked(mask)
    if first_ratios.sampling_error == 0:
        return ()
    text = (
        "probabilities of sets of positions come from draws, with relative errors up to "
        f"{first_ratios.sampling_error:.2g}"
    )
    return (Message("sampled", text),)


@dataclass(frozen=True)
class IPS(MaskEstimator):
    """V_k = mean of pi(a|x)/pi0(a|x) r_k (Precup et al. 2000).

    Every item matters to every reward: unbiased, and the variance explodes with K.

    Parameters
    ----------
    aggregate
        "mean"; "ratio", divided by the mean weight of each position; or "control", with mean weights as
        control variates.
    on_missing
        What to do where the log lacks the probabilities: "error", or "superset", which weighs more items.
    name
        What the result calls it.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.IPS().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "ips"
    shape: ClassVar[str] = "S"


@dataclass(frozen=True)
class IIPS(MaskEstimator):
    """V_k = mean of pi(a_k|x)/pi0(a_k|x) r_k (Li et al. 2018).

    A reward depends on the own item alone: little variance, biased when items interact.

    Parameters
    ----------
    aggregate
        "mean"; "ratio", divided by the mean weight of each position; or "control", with mean weights as
        control variates.
    on_missing
        What to do where the log lacks the probabilities: "error", or "superset", which weighs more items.
    name
        What the result calls it.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.IIPS().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "iips"
    shape: ClassVar[str] = "I"


@dataclass(frozen=True)
class RIPS(MaskEstimator):
    """V_k = mean of pi(a_1..a_k|x)/pi0(a_1..a_k|x) r_k (McInerney et al. 2020).

    A reward depends on the own item and those above (cascade).

    Parameters
    ----------
    aggregate
        "mean"; "ratio", divided by the mean weight of each position; or "control", with mean weights as
        control variates.
    on_missing
        What to do where the log lacks the probabilities: "error", or "superset", which weighs more items.
    name
        What the result calls it.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> [v.value for v in cr.RIPS().estimate(log, [[1, .5], [.5, .5]]).by_position]
    [1.0, 0.5]
    """

    name: str = "rips"
    shape: ClassVar[str] = "C"


#: Where trees fitted on the log are kept in the workspace.
_TREE = "tree"


def behavior_weights(workspace: Workspace, behavior: Any) -> Weights:
    """Return the weights of a behaviour model of each row; see `AIPS` for what `behavior` may be."""
    length, named = workspace.first.K, behavior if isinstance(behavior, str) else ""
    if named == "fit" or (isinstance(behavior, BehaviorTree) and behavior.forest is None):
        settings = workspace.tree if named else behavior
        key: Hashable = (_TREE, "default" if named else id(behavior))
        tree = workspace.cached(
            key,
            lambda: fit_source(
                workspace.source,
                workspace.target,
                seed=workspace.seed,
                tree=settings,
                models=lambda: closed_models(workspace),
            ),
        )
        return Weights(lambda view: tree.weights(view.batch, view.ratios), key, tree=tree)
    if named == "log":
        return Weights(lambda view: _by_name(view, view.batch.behavior), ("behavior", "log"))
    if hasattr(behavior, "weights"):
        fitted_tree = behavior if isinstance(behavior, BehaviorTree) else None
        key = ("model", id(behavior))
        return Weights(
            lambda view: behavior.weights(view.batch, view.ratios), key, tree=fitted_tree
        )
    array = np.asarray(behavior)
    if array.ndim == 0 or array.shape == (length, length):
        return weights_of_mask(workspace, as_mask(behavior, length))
    n, key = workspace.source.n, ("rows", id(behavior))
    if array.shape[0] != n or array.shape[1:] not in ((), (length, length)):
        raise BehaviorError(
            f"behavior has shape {array.shape}; for n={n} rankings of K={length} give ({length}, "
            f"{length}), names ({n},) or masks ({n}, {length}, {length})"
        )
    if array.ndim == 1:
        return Weights(lambda view: _by_name(view, array[view.batch.rows]), key)
    masks, back = np.unique(array.reshape(len(array), -1), axis=0, return_inverse=True)
    models = np.stack([as_mask(m.reshape(length, length), length) for m in masks])
    choice = np.asarray(back).reshape(-1)
    return Weights(lambda view: _by_choice(view, models, choice[view.batch.rows]), key)


def _by_choice(view: View, models: Bools, choice: NDArray[Any]) -> Floats:
    """Return the weights (n, K) of the models (M, K, K) that the rows have, by number (n,)."""
    return view.ratios.by_choice(models, np.repeat(choice[:, None], view.batch.K, axis=1))


def _by_name(view: View, names: NDArray[Any] | None) -> Floats:
    """Return the weights (n, K) of the models that the rows have, by name (n,)."""
    if names is None:
        raise LogError(
            "the log has no 'behavior' column; give AIPS(behavior=...) masks, names or 'fit'"
        )
    distinct, back = np.unique(names.astype(str), return_inverse=True)
    stored, models = view.batch.behavior_masks, []
    for name in map(str, distinct):
        if name not in stored and re.fullmatch(r"R\d+", name):
            raise BehaviorError(
                f"behaviour '{name}' is a random model, whose name does not say which items matter; "
                "give masks: RankingLog(behavior_masks={...}), or AIPS(behavior=masks)"
            )
        models.append(as_mask(stored.get(name, name), view.batch.K))
    return _by_choice(view, np.stack(models), np.asarray(back).reshape(-1))


@dataclass(frozen=True, eq=False)
class AIPS(Estimator):
    """V_k = mean of pi(Phi_k(a, c_i))/pi0(Phi_k(a, c_i)) r_k with a behaviour model c_i for each row.

    The estimator of Kiyohara et al. (2023): weights by the behaviour and nothing else.

    `behavior`: a (K, K) mask or name for all rows; names (n,) or masks (n, K, K) per row; "log" for
    the log's `behavior` column; a tree, fitted or not; or "fit", the tree of the evaluation's
    settings (the default). A tree that is not fitted is grown on the rows that are averaged.

    Parameters
    ----------
    behavior
        Which items matter to which reward: a mask for all rows, masks by row, "log", a tree or "fit".
    aggregate
        "mean"; "ratio", divided by the mean weight of each position; or "control", with mean weights as
        control variates.
    name
        What the result calls it.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.AIPS(behavior=["S", "I"]).estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    behavior: Any = "fit"
    aggregate: str = "mean"
    name: str = "aips"
    sampled_rows: ClassVar[int] = SAMPLE_ROWS

    @property
    def traits(self) -> Traits:
        """What the learnt or given behaviour assumes is its own."""
        return with_aggregate(AIPS_TRAITS, self.aggregate)

    def fit(self, workspace: Workspace) -> Fitted:
        """Return weights by the rows' own models."""
        weights = behavior_weights(workspace, self.behavior)
        return fit_of(self.name, workspace, weights, self.aggregate, self.traits)


@dataclass(frozen=True, eq=False)
class AIPSPairs(AIPS):
    """V_c + s (V_2 - V_c): AIPS by a fitted tree, moved towards the value from pairs of items.

    V_c is the estimate of `AIPS`, V_2 that of interaction order 2; the share s minimises the
    estimated MSE (docs/explanation/behavior.md).

    Parameters
    ----------
    behavior
        A tree, fitted or not, or "fit".
    aggregate
        "mean"; "ratio", divided by the mean weight of each position; or "control", with mean weights as
        control variates.
    name
        What the result calls it.

    Examples
    --------
    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half)
    >>> round(cr.AIPSPairs().estimate(log, half).value, 6)
    2.0
    """

    name: str = "aips-pairs"

    @property
    def traits(self) -> Traits:
        """What the blend assumes is its own."""
        return Traits(self.name)

    def fit(self, workspace: Workspace) -> Fitted:
        """Return the blend, where the tree has one."""
        weights = behavior_weights(workspace, self.behavior)
        if weights.tree is None:
            raise ConfigError(
                f"'{self.name}' blends the estimate of a fitted tree; give it behavior='fit' or a "
                "BehaviorTree, or use AIPS for behaviours that are known"
            )
        blend = weights.tree.fitted.blend
        if blend is None:
            return fit_of(self.name, workspace, weights, self.aggregate, self.traits)

        def contributions(view: View) -> tuple[Floats, Floats]:
            return blend.contributions(view.ratios, weights.weigh(view), view.reward)

        key = (weights.key, self.name)
        fit = ContributionFit(
            self.name, workspace, key, self.traits, self.aggregate, contributions=contributions
        )
        doubt = weights.tree.fitted.doubt
        left = None if doubt is None else replace(doubt, gap=blend.gap)
        return chosen_tree(fit, weights.tree, left)


def weights_for(workspace: Workspace, weights: Any) -> Weights:
    """Return the weights of a word ("ips", "iips", "rips", "aips"), a mask or its name, or an interaction order."""
    if isinstance(weights, int):
        return ordered_weights(workspace, weights, "S")
    if isinstance(weights, str) and weights == "aips":
        return behavior_weights(workspace, "fit")
    return weights_of_mask(workspace, as_mask(weights, workspace.first.K))


def ordered_weights(workspace: Workspace, order: int, behavior: Any) -> Weights:
    """Return the weights of an interaction order inside a mask."""
    if order < 1:
        raise ConfigError(f"the interaction order must be 1 or more, got {order}")
    kind, length = workspace.ratios.kind, workspace.first.K
    if kind != "factored":
        raise EstimatorError(
            f"interaction order {order} needs independent positions ('factored' propensities); "
            f"these are '{kind}', for which the truncated product is biased; use ips, rips or auto"
        )
    if workspace.first.page_reward:
        workspace.ratios.need("position")
    mask, used = as_mask(behavior, length), min(order, length)
    usual = order in _FUSED_ORDERS and order < length and mask.all()
    return Weights(
        lambda view: view.ratios.ordered(mask, used),
        ("order", used, np.packbits(mask).tobytes()),
        fused=f"order-{order}" if usual else None,
    )


@dataclass(frozen=True)
class OrderIPS(Estimator):
    """w_k(c, m) = rho_k sum over T in Phi_k(c) without k, |T| <= m-1, of prod_{l in T} (rho_l - 1).

    Expands prod_l (1 + (rho_l - 1)) and keeps interactions of at most m items. Unbiased when
    E[r_k|x,a] is a sum of functions of a_k and at most m-1 other items inside the mask: the dropped
    terms have mean zero because E[rho_l - 1] = 0. m = 1 is IIPS, m = K is IPS. Positions must be
    independent given the context; weights may be negative.

    Parameters
    ----------
    order
        How many items at a time may act on a reward.
    behavior
        The mask inside which they act, or its name.
    aggregate
        "mean"; "ratio", divided by the mean weight of each position; or "control", with mean weights as
        control variates.

    Examples
    --------
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

    @property
    def traits(self) -> Traits:
        """Interactions of at most so many items."""
        return with_aggregate(traits_of_weights(self.order), self.aggregate)

    def fit(self, workspace: Workspace) -> Fitted:
        """Return order-m weights inside the mask."""
        weights = ordered_weights(workspace, self.order, self.behavior)
        return fit_of(self.name, workspace, weights, self.aggregate, self.traits)


@dataclass(frozen=True)
class PseudoInverse(Estimator):
    """V = mean of (1 + sum_l (rho_l - 1)) R with R the reward of the whole ranking.

    Unbiased when E[R|x,a] = sum_l f_l(x, a_l). Swaminathan et al. 2017 weigh by q_pi' Gamma^+ 1_a
    with Gamma the second moment of the slot indicators under the logger; for independent positions
    that is this sum. A total reward may stand at any one position, the others zero: all positions
    get the same weight.

    Parameters
    ----------
    name
        What the result calls it.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> PseudoInverse().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "pi"

    def fit(self, workspace: Workspace) -> Fitted:
        """Return the summed weights."""
        kind = workspace.ratios.kind
        if kind != "factored":
            raise EstimatorError(
                f"'pi' needs independent positions ('factored' propensities); these are '{kind}'. "
                "For dependent positions its weights need the pairwise probabilities of all items; "
                "use ips or rips"
            )

        def weigh(view: View) -> Floats:
            rho = view.ratios.rho
            # The weight is not a ratio of probabilities and may be negative.
            weight = 1.0 + (rho - 1.0).sum(axis=1)
            return np.asfortranarray(np.broadcast_to(weight[:, None], rho.shape))

        return ContributionFit(self.name, workspace, ("pi",), self.traits, weigh=weigh)
