"""A fitted reward model as data: numbers in JSON that give the same scores wherever they are read;
with LightGBM on top, its text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import PolicyError, require
from counterrank.learning.settings import SETTINGS
from counterrank.models import (
    ALL,
    AmountModel,
    BoostedModel,
    ClickModel,
    Encoding,
    ListModel,
    Means,
    NumberModel,
    Parameters,
    Predictor,
    Rankings,
    Scaling,
    Similarity,
    Variant,
    described,
    fit_list_models,
    number_table,
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
        # `deterministic` rests on it: LightGBM else times both layouts and takes the faster.
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


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A reward model of all learning rows: the worth of a list, and a key to sort items by."""

    model: ListModel
    #: Whose rows were left out when it was fitted; a stored scorer was fitted to all.
    fold: int = ALL

    def list_value(self, rankings: Rankings, alpha: Floats) -> Floats:
        """Return the expected total reward of each ranking (m,)."""
        values: Floats = self.model.expected(rankings, self.fold) @ alpha[: rankings.K]
        return values

    def relevance(self, rankings: Rankings) -> Floats:
        """Return a key to sort candidates by (m, C), -inf in the padding."""
        return self.model.relevance(rankings, self.fold)

    def to_dict(self) -> dict[str, Any]:
        """Return the model of all rows as plain data."""
        if isinstance(self.model, AmountModel):
            amount = {"centre": self.model.amount.centre, "unit": self.model.amount.unit}
            amounts = {**amount, "predictor": _written(self.model.amount.predictor)}
            return {
                "model": "click-amount",
                "predictor": _written(self.model.clicks.predictor),
                "amount": amounts,
            }
        if isinstance(self.model, NumberModel):
            mean = self.model.mean
            return {
                "model": "linear",
                "centre": mean.centre,
                "unit": mean.unit,
                "predictor": _written(mean.predictor),
            }
        if isinstance(self.model, ClickModel):
            return {"model": "click-history", "predictor": _written(self.model.predictor)}
        if isinstance(self.model, BoostedModel) and isinstance(self.model.trees[ALL], Trees):
            first = Scorer(self.model.first).to_dict()
            return {
                "model": "boosting",
                "format": "lightgbm",
                "first": first,
                "trees": self.model.trees[ALL].text,
            }
        raise PolicyError(f"a model of kind '{self.model.kind}' has no form as data")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Scorer":
        """Return the scorer of plain data; what is missing or no number raises a PolicyError."""
        try:
            if data["model"] == "boosting":
                first = cls.from_dict(data["first"]).model
                return cls(
                    BoostedModel(first, (Trees.from_text(data["trees"]),), clicks=False, details={})
                )
            predictor = _read(data["predictor"])
            if data["model"] == "click-history":
                return cls(ClickModel(predictor))
            if data["model"] == "click-amount":
                own = data["amount"]
                means = Means(
                    _read(own["predictor"]), float(own["centre"]), float(own["unit"]), positive=True
                )
                return cls(AmountModel(ClickModel(predictor), means))
            if data["model"] == "linear":
                return cls(
                    NumberModel(
                        Means(predictor, float(data["centre"]), float(data["unit"]), positive=False)
                    )
                )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
            raise PolicyError(
                f"the policy file's scorer is damaged: {problem or type(problem).__name__}"
            ) from problem
        raise PolicyError(f"the policy file has an unknown scorer '{data.get('model')}'")


def _written(predictor: Predictor) -> dict[str, Any]:
    parameters, encoding = predictor.parameters, predictor.encoding
    return {
        "theta": parameters.theta[-1].tolist(),
        "K": parameters.K,
        "items": parameters.items,
        "d": parameters.d,
        "seen": encoding.seen.tolist(),
        "context": _scaling(encoding.context),
        "features": None if encoding.features is None else _scaling(encoding.features),
        "slopes": encoding.slopes,
        "competition": predictor.variant.competition,
        "curved": predictor.curved,
        "first": None if predictor.first is None else _written(predictor.first),
        "rivals": None if predictor.rivals is None else _scaling(predictor.rivals),
        "similarity": None if predictor.similarity is None else _similarity(predictor.similarity),
    }


def _read(data: Mapping[str, Any]) -> Predictor:
    theta = _numbers(data["theta"])[None, :]
    parameters = Parameters(theta, int(data["K"]), int(data["items"]), int(data["d"]))
    features = None if data["features"] is None else _scaled(data["features"])
    # Rising, none twice: `number_table` takes the last for the largest, and a file may hold
    # anything.
    seen = np.asarray(data["seen"], dtype=np.int64)
    if (
        seen.ndim != 1
        or len(seen) != parameters.items
        or not len(seen)
        or seen[0] < 0
        or (np.diff(seen) <= 0).any()
    ):
        raise ValueError("the items seen do not fit the number of items")
    encoding = Encoding(
        seen, number_table(seen), _scaled(data["context"]), features, None, bool(data["slopes"])
    )
    curved, rivals = bool(data["curved"]), None
    if data["rivals"] is not None:
        rivals = _scaled(data["rivals"])
        known = 4 + curved + (data["similarity"] is not None) + (features is not None)
        if len(rivals.mean) != known:
            raise ValueError(
                f"it reads {len(rivals.mean)} columns of competition where this version has {known}; "
                "learn the policy again"
            )
    return Predictor(
        parameters,
        encoding,
        Variant(competition=bool(data["competition"])),
        {},
        np.empty(0),
        first=None if data["first"] is None else _read(data["first"]),
        rivals=rivals,
        similarity=None
        if data["similarity"] is None
        else _similar(data["similarity"], parameters.items),
        curved=curved,
    )


def _similarity(similarity: Similarity) -> dict[str, Any]:
    return {"place": similarity.place[-1].tolist(), "sign": similarity.sign[-1].tolist()}


def _similar(data: Mapping[str, Any], items: int) -> Similarity:
    place, sign = np.asarray(data["place"], dtype=np.float64), _numbers(data["sign"])
    if place.shape != (items + 1, len(sign)) or not np.isfinite(place).all():
        raise ValueError("the places of items do not fit their number")
    return Similarity(place[None], sign[None])


def _scaling(scaling: Scaling) -> dict[str, Any]:
    # A constant column has an infinite spread, which JSON has no number for.
    spread = [float(value) if np.isfinite(value) else None for value in scaling.spread]
    return {"mean": scaling.mean.tolist(), "spread": spread}


def _scaled(data: Mapping[str, Any]) -> Scaling:
    spread = np.array([np.inf if value is None else float(value) for value in data["spread"]])
    return Scaling(_numbers(data["mean"]), spread)


def _numbers(values: Any) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError("a list of finite numbers was expected")
    return found
