"""Reward models: cross-fitted, closed-form where it can be, with exact means under a target policy."""

from counterrank.models.base import ModelKind, Prediction, RewardModel
from counterrank.models.choice import CHOSEN, Chosen, fit_best, fit_close
from counterrank.models.clicks.amounts import AmountModel, Means, NumberModel, fit_list_models, fit_numbers
from counterrank.models.clicks.averaging import Averaged, choose
from counterrank.models.clicks.base import ALL, VARIANTS, History, Kind, ListModel, Variant, squared_loss
from counterrank.models.clicks.boosting import fit_boosting
from counterrank.models.clicks.fit import fit_history
from counterrank.models.clicks.model import ClickModel, Encoding, Parameters, Predictor, number_table, rivalry
from counterrank.models.clicks.rankings import Rankings, Scaling, encoded, rankings_of
from counterrank.models.clicks.similarity import Similarity
from counterrank.models.layout import (
    Arrays,
    Layout,
    can_sample,
    context_columns,
    encoded_context,
    has_distribution,
    slimmed,
    whole_distribution,
)
from counterrank.models.learners import fit_learner
from counterrank.models.linear import (
    LinearModel,
    Training,
    clear,
    factored_draws,
    fit_linear,
    fits_in_memory,
    logged_values,
    train,
)
from counterrank.models.mixture import MixtureModel
from counterrank.models.riesz import Riesz, fit_riesz
from counterrank.models.tables import Tables, tables_of

__all__ = [
    "AmountModel",
    "Encoding",
    "Means",
    "NumberModel",
    "Parameters",
    "Predictor",
    "Scaling",
    "Similarity",
    "number_table",
    "encoded",
    "encoded_context",
    "ALL",
    "CHOSEN",
    "VARIANTS",
    "Arrays",
    "Averaged",
    "Chosen",
    "ClickModel",
    "History",
    "Kind",
    "Layout",
    "LinearModel",
    "ListModel",
    "MixtureModel",
    "ModelKind",
    "Prediction",
    "Rankings",
    "RewardModel",
    "Riesz",
    "Tables",
    "Training",
    "Variant",
    "can_sample",
    "choose",
    "clear",
    "context_columns",
    "factored_draws",
    "fit_best",
    "fit_boosting",
    "fit_close",
    "fit_history",
    "fit_learner",
    "fit_linear",
    "fit_list_models",
    "fit_numbers",
    "fit_riesz",
    "fits_in_memory",
    "has_distribution",
    "logged_values",
    "rankings_of",
    "rivalry",
    "slimmed",
    "squared_loss",
    "tables_of",
    "train",
    "whole_distribution",
]
