"""The reward model behind DM and DR, fitted once for a log and target and shared by all that ask."""

from typing import Any

from counterrank.errors import EstimatorError
from counterrank.estimators.base import View, Workspace
from counterrank.models import (
    Prediction,
    RewardModel,
    Training,
    can_sample,
    fit_best,
    fit_learner,
    fit_linear,
    has_distribution,
    train,
)


def need_mean(workspace: Workspace, name: str) -> None:
    """Raise unless the target's mean of a model can be formed, exactly or by drawing rankings."""
    first, target = workspace.first, workspace.target
    if has_distribution(first, target) or can_sample(first, target):
        return
    raise EstimatorError(
        f"'{name}' averages a reward model over what '{target}' would show, which needs its whole "
        "distribution, but the log has only the probabilities of the shown items; add a "
        f"'{target}_dist' column (A probabilities, or K lists of A), give the target as a policy "
        "such as Softmax(scores), or use 'auto' or 'order-2', which do without"
    )


def trained(workspace: Workspace, *, rich: bool = True) -> Training:
    """Return the Grams of the training rows."""
    key = ("training", rich)
    return workspace.once(key, lambda: train(workspace.source, seed=workspace.seed, rich=rich))


def reward_model(workspace: Workspace, model: Any = "best") -> RewardModel:
    """Return a fitted model: "best" (of "ridge" and the examination models, by error on unseen
    rows), "ridge" (closed form, logistic for 0/1 rewards), "linear" (indicator columns only),
    "boosting" (scikit-learn), any scikit-learn regressor, or a fitted model of your own
    (`models.RewardModel`).
    """
    if not isinstance(model, str) and hasattr(model, "details") and hasattr(model, "predict"):
        fitted: RewardModel = model
        return fitted
    key = ("model", workspace.target, model if isinstance(model, str) else id(model))
    return workspace.once(key, lambda: _fitted(workspace, model))


def _fitted(workspace: Workspace, model: Any) -> RewardModel:
    seed, named = workspace.seed, model if isinstance(model, str) else ""
    if named == "best":
        return fit_best(trained(workspace), seed=seed)
    if named in ("ridge", "linear"):
        rich = named == "ridge"
        return fit_linear(trained(workspace, rich=rich), seed=seed, curved=rich)
    return fit_learner(workspace.source, model, seed=seed)


def prediction(view: View, model: RewardModel) -> Prediction:
    """Return the model on the view's rows, computed once for all estimators that share the view."""
    return view.once(("prediction", id(model)), lambda: model.predict(view.batch, view.target))
