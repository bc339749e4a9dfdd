"""Reward models: cross-fitted, closed-form where it can be, with exact means under a target policy."""

from counterrank.models.base import (
    ALL,
    Fold,
    History,
    ListModel,
    RewardModel,
    by_row,
    squared_loss,
)
from counterrank.models.choice import Close, fit_close
from counterrank.models.clicks.amounts import AmountModel, NumberModel, fit_list_models
from counterrank.models.clicks.competition import rivalry
from counterrank.models.clicks.fit import fit_history
from counterrank.models.clicks.likelihood import Family
from counterrank.models.clicks.model import ClickModel, Encoding, Predictor
from counterrank.models.clicks.parameters import Parameters
from counterrank.models.grams import Training
from counterrank.models.learners import fit_learner
from counterrank.models.linear import LinearModel, fit_linear, train
from counterrank.models.lists import RepeatedLists, fit_lists
from counterrank.models.rankings import (
    Memo,
    Rankings,
    Stream,
    Variant,
    can_average,
    page_policy,
    paired_draws,
    policy_draws,
    rankings_of,
    stream,
    target_draws,
    variants_for,
    whole_distribution,
)
from counterrank.models.visibility import VisibilityModel

__all__ = [
    "AmountModel",
    "Close",
    "Encoding",
    "Family",
    "History",
    "NumberModel",
    "Parameters",
    "Predictor",
    "RepeatedLists",
    "Stream",
    "rivalry",
    "ALL",
    "Fold",
    "ClickModel",
    "LinearModel",
    "ListModel",
    "Memo",
    "VisibilityModel",
    "Rankings",
    "RewardModel",
    "Training",
    "Variant",
    "by_row",
    "can_average",
    "fit_close",
    "fit_history",
    "fit_learner",
    "fit_linear",
    "fit_list_models",
    "fit_lists",
    "page_policy",
    "paired_draws",
    "policy_draws",
    "target_draws",
    "rankings_of",
    "squared_loss",
    "stream",
    "variants_for",
    "train",
    "whole_distribution",
]
