"""LightGBM on top of the click model: P(click) by place, context, features and rivals on the page;
text when stored.

Trees read the click model's key of each item, so that item ids cost nothing, and add what it cannot
bend. They predict each slot by itself: the worth of a page is the weighted sum of its slots.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import PolicyError, require
from counterrank.learning.settings import SETTINGS
from counterrank.models import (
    ALL,
    BoostedModel,
    Rankings,
    Variant,
    described,
    fit_list_models,
    with_place,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """A LightGBM model: its text, and what predicts."""

    text: str
    booster: Any

    @classmethod
    def from_text(cls, text: str) -> "Trees":
        """Return the trees of LightGBM's own text format."""
        lightgbm = require("lightgbm", extra="boosting")
        # LightGBM ends the process on some texts that are none of its own, so the frame is checked
        # before.
        if not (isinstance(text, str) and text.startswith("tree\n") and "end of trees" in text):
            raise PolicyError("the policy file's trees are damaged: this is no text of LightGBM")
        try:
            return cls(text, lightgbm.Booster(model_str=text))
        except lightgbm.basic.LightGBMError as problem:
            raise PolicyError(f"the policy file's trees are damaged: {problem}") from problem

    def predict(self, rows: Floats) -> Floats:
        """Return what is expected of slots (N, p)."""
        if rows.shape[1] != self.booster.num_feature():
            raise PolicyError(
                f"the policy file's trees read {self.booster.num_feature()} columns, its scorer "
                f"gives {rows.shape[1]}"
            )
        if not len(rows):
            return np.empty(0)
        found: Floats = self.booster.predict(rows, num_threads=1)
        return found


def fit_trees(
    rankings: Rankings, reward: Floats, fold: Ints, *, folds: int, seed: int
) -> BoostedModel:
    """Return cross-fitted trees on top of the plain click model."""
    lightgbm = require("lightgbm", extra="boosting")
    first = fit_list_models(rankings, reward, fold, folds=folds, variants=(Variant(),), seed=seed)[
        0
    ]
    row, k = np.nonzero(rankings.item >= 0)
    columns = with_place(described(first, rankings, fold)[row, k], k, np.full(len(row), -1))
    value = reward[row, k]
    options = {
        "objective": "binary" if np.isin(value, (0.0, 1.0)).all() else "regression",
        "num_leaves": int(SETTINGS["leaves"].value),
        "min_data_in_leaf": int(SETTINGS["leaf_rows"].value),
        "learning_rate": SETTINGS["rate"].value,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": seed,
        "verbose": -1,
    }
    trees = []
    for f in (*range(folds), ALL):
        used = fold[row] != f
        data = lightgbm.Dataset(columns[used], value[used])
        booster = lightgbm.train(options, data, num_boost_round=int(SETTINGS["trees"].value))
        # The text is what is stored: predicting with what was read from it makes both agree to the
        # last digit.
        trees.append(Trees.from_text(booster.model_to_string()))
    details = {
        "model": "boosting",
        "first": first.details,
        "trees": int(SETTINGS["trees"].value),
        **options,
    }
    return BoostedModel(first, tuple(trees), clicks=False, details=details)
