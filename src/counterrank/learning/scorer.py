"""A fitted reward model as data: numbers in JSON that give the same scores wherever they are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import PolicyError
from counterrank.learning.boosting import Trees
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
    number_table,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
    return Predictor(
        parameters,
        encoding,
        Variant(competition=bool(data["competition"])),
        {},
        np.empty(0),
        first=None if data["first"] is None else _read(data["first"]),
        rivals=None if data["rivals"] is None else _scaled(data["rivals"]),
        similarity=None
        if data["similarity"] is None
        else _similar(data["similarity"], parameters.items),
        curved=bool(data["curved"]),
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
