"""Reward models alone (DM) and with weighted residuals (DR, cascade DR); one model a log and target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import EstimatorError
from counterrank.common.messages import Message
from counterrank.common.records import Json
from counterrank.estimators.base import Estimator, Fitted, View, Workspace
from counterrank.estimators.contribution import ContributionFit
from counterrank.estimators.crossfit import (
    DEFAULTS,
    closed_models,
    fit_drawn,
    predicted,
    trained,
    training_pages,
)
from counterrank.estimators.masked import Weights, weights_for
from counterrank.estimators.names import weights_word
from counterrank.estimators.solution import RIPS_TRAITS, Traits, traits_of_weights
from counterrank.models import (
    LinearModel,
    RewardModel,
    Stream,
    can_average,
    fit_close,
    fit_learner,
    fit_linear,
    stream,
)
from counterrank.statistics import Quantity


def need_mean(workspace: Workspace, name: str) -> None:
    """Raise unless the target's mean of a model can be formed, exactly or by drawing rankings."""
    first, target = workspace.first, workspace.target
    if can_average(first, target):
        return
    raise EstimatorError(
        f"'{name}' averages a reward model over what '{target}' would show, which needs its whole "
        "distribution, but the log has only the probabilities of the shown items; add a "
        f"'{target}_dist' column (A probabilities, or K lists of A), give the target as a policy "
        "such as Softmax(scores), or use 'auto' or 'order-2', which do without"
    )


def reward_model(workspace: Workspace, model: Any = "best") -> RewardModel:
    """Return a fitted model.

    "best" (of "ridge" and the examination models, by error on unseen rows), "ridge" (closed form,
    logistic for 0/1 rewards), "linear" (indicator columns only), "boosting" (scikit-learn), any
    scikit-learn regressor, or a fitted model of your own (`models.RewardModel`).
    """
    if isinstance(model, RewardModel):
        return model
    seed, named = workspace.seed, model if isinstance(model, str) else ""

    def fitted() -> RewardModel:
        if named not in ("best", "ridge", "linear"):
            return fit_learner(workspace.source, model, seed=seed)
        rich = named != "linear"
        training = trained(workspace, rich=rich)
        if training is None:
            raise EstimatorError(
                f"a linear reward model of {workspace.first.n_actions:,} items at "
                f"{workspace.first.K} positions would not fit into memory; use 'auto', or weights "
                "alone such as 'iips'"
            )
        if named == "best":
            return (closed_models(workspace) or fit_close(training, seed=seed).models)[0]
        return fit_linear(training, seed=seed, curved=rich)

    return workspace.cached(("model", named or id(model)), fitted)


@dataclass(frozen=True, eq=False)
class DM(Estimator):
    """V_k = mean of E_pi[q_k(x, a)] with a cross-fitted model q of E[r_k | x, a] (Beygelzimer & Langford 2009).

    `model`: see `reward_model`.

    Parameters
    ----------
    model
        "best", chosen by cross-validation; the name of a model; or a fitted `RewardModel`.
    name
        What the result calls it.

    Examples
    --------
    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> round(DM().estimate(log, "new").value, 2)
    2.0
    """

    model: Any = "best"
    name: str = "dm"

    @property
    def traits(self) -> Traits:
        """A model alone."""
        return Traits(self.name, uses_weights=False)

    def fit(self, workspace: Workspace) -> Fitted:
        """Fit the model and return its means."""
        need_mean(workspace, self.name)
        text = (
            "the interval shows how the model's means vary, not how wrong the model is; it is too "
            "short"
        )
        model = reward_model(workspace, self.model)
        return model_fit(
            self.name, workspace, self.traits, model, flags=(Message("model-only", text),)
        )


#: Expected rewards q of the logged rankings of a view, and their means under the target (n, K).
Expected = Callable[[View], tuple[Floats, Floats]]


def model_fit(
    name: str,
    workspace: Workspace,
    traits: Traits,
    model: RewardModel | Expected,
    weights: Weights | None = None,
    details: Json | None = None,
    **options: Any,
) -> ContributionFit:
    """Return the fit of y = E_pi q + w (r - q), or of E_pi q alone where there are no weights.

    A model that is a function of the view comes with its `details`.
    """
    ask: Expected = partial(predicted, model=model) if isinstance(model, RewardModel) else model
    details = model.details if isinstance(model, RewardModel) else details

    def contributions(view: View) -> tuple[Floats, Floats]:
        q, mean = ask(view)
        if weights is None:
            return mean, np.ones_like(mean)
        w = weights.weigh(view)
        return np.asfortranarray(mean + w * (view.reward - q)), w

    key = (name, id(model), None if weights is None else weights.key)
    fit = ContributionFit(
        name,
        workspace,
        key,
        traits,
        contributions=contributions,
        details={"regression": details},
        **options,
    )
    if isinstance(model, RewardModel):
        fit.widened = with_model_error(workspace, model, weights, traits)
    return fit


def with_model_error(
    workspace: Workspace, model: RewardModel, weights: Weights | None, traits: Traits
) -> Callable[[Quantity], Quantity]:
    """Return what adds the error of the model to a value, whose rows know only that of their rewards.

    - the differences between the fits of folds (delete-a-fold jackknife), on some rows
    - what the log hardly shows of the target (`models/doubt.py`), unless the weights correct any model
    """
    target = workspace.target
    sample = workspace.source.sample(
        DEFAULTS.compared_rows, stream(workspace.seed, Stream.COMPARED_ROWS)
    )
    corrected = traits.order(sample.K) == sample.K
    doubt = 0.0 if corrected else model.doubt(sample, target)
    with np.errstate(over="ignore", invalid="ignore"):
        by_row = None if weights is None else weights.weigh(View(sample, target))
    deviations = model.refits(sample, target, by_row)
    return lambda quantity: replace(quantity, refits=deviations, model_variance=doubt)


def around_model(traits: Traits) -> Traits:
    """Return the traits of weights that correct a fitted model."""
    return replace(traits, weighs_alone=False, takes_row_weights=False)


@dataclass(frozen=True, eq=False)
class DR(Estimator):
    """V_k = mean of E_pi q_k + w_k (r_k - q_k): unbiased with IPS weights, whatever the model.

    With weights of fewer items it is unbiased where these weights alone are, and where the model
    depends on no more items than they cover (docs/explanation/auto.md).

    `weights`: "ips", "iips", "rips", "aips" (fitted tree), a mask or its name, or a number m for
    interaction order m. Dudik et al. 2011; with AIPS weights it is the
    future work named in section 6 of Kiyohara et al. 2023.

    Parameters
    ----------
    weights
        "ips", "iips", "rips", "aips", a mask or its name, or a number for that interaction order.
    model
        "best", chosen by cross-validation; the name of a model; or a fitted `RewardModel`.

    Examples
    --------
    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> DR(weights="iips").estimate(log, "new").value
    2.0
    """

    weights: Any = "ips"
    model: Any = "best"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name with the weights in it."""
        return f"dr-{weights_word(self.weights)}"

    @property
    def traits(self) -> Traits:
        """What the weights assume; a model never assumes more."""
        return around_model(traits_of_weights(self.weights))

    def fit(self, workspace: Workspace) -> Fitted:
        """Fit the model and return corrected means."""
        need_mean(workspace, self.name)
        weights = weights_for(workspace, self.weights)
        return model_fit(
            self.name, workspace, self.traits, reward_model(workspace, self.model), weights
        )


@dataclass(frozen=True, eq=False)
class CascadeDR(Estimator):
    """Unbiased when rewards depend on the own item and those above, whatever the model; less variance than RIPS.

    Kiyohara et al. sum w_{1:k} (r_k - Q_k) + w_{1:k-1} E_pi Q_k, where Q_k is the reward expected from
    position k on. For any model of rewards by position Q_k = q_k + E_pi Q_k+1, and the sum telescopes
    to E_pi q_k + w_{1:k} (r_k - q_k): `dr-rips` with a model that does not depend on the items below.

    Parameters
    ----------
    name
        What the result calls it.

    Examples
    --------
    >>> import numpy as np, counterrank as cr
    >>> half = np.full((400, 2), 0.5)
    >>> log = cr.RankingLog(action=np.arange(800).reshape(400, 2) // 3 % 2, reward=np.ones((400, 2)), propensity=half,
    ...                     targets={"new": cr.Propensity("factored", half)}, dists={"propensity": half, "new": half})
    >>> round(CascadeDR().estimate(log, "new").value, 2)
    2.0
    """

    name: str = "cascade-dr"

    @property
    def traits(self) -> Traits:
        """That of the cascade."""
        return around_model(RIPS_TRAITS)

    def fit(self, workspace: Workspace) -> Fitted:
        """Fit a model that depends on the items above only.

        It has a closed form where positions are independent; else it is a click model without competition.
        """
        need_mean(workspace, self.name)
        ratios = workspace.ratios
        if "prefix" not in ratios.supports:
            raise EstimatorError(
                f"'{self.name}' weighs by the items above and needs prefix probabilities; these "
                f"propensities are '{ratios.kind}'. Use dr-iips or dr-ips"
            )
        weights = weights_for(workspace, "rips")
        if ratios.kind == "factored" and workspace.first.distribution(workspace.target) is not None:
            linear = reward_model(workspace, "linear")
            assert isinstance(linear, LinearModel)

            def above(view: View) -> tuple[Floats, Floats]:
                return linear.cascade(view.batch, view.target)

            return model_fit(self.name, workspace, self.traits, above, weights, linear.details)
        drawn = workspace.cached(
            "click models above",
            lambda: fit_drawn(workspace, *training_pages(workspace), competition=False),
        )

        def average(view: View) -> tuple[Floats, Floats]:
            prediction = drawn.predict(view)
            return prediction.q, prediction.mean

        return model_fit(self.name, workspace, self.traits, average, weights, drawn.details)
