"""A fitted reward model that can be stored as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.common.errors import PolicyError
from counterrank.common.records import Json
from counterrank.data.encoding import Scaling
from counterrank.learning.trees import BoostedModel, Trees
from counterrank.models import (
    ALL,
    AmountModel,
    ClickModel,
    Encoding,
    Family,
    ListModel,
    NumberModel,
    Parameters,
    Predictor,
    Rankings,
    Variant,
)


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A reward model of all learning rows, which values rankings and scores items."""

    model: ListModel

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of positions of the rankings that it was fitted to."""
        return min(predictor.parameters.K for predictor in self._predictors())

    def reads(self, rankings: Rankings) -> bool:
        """Whether the rankings have the numbers of context and feature columns that it was fitted to."""
        features = 0 if rankings.features is None else rankings.features.shape[-1]
        return all(
            (len(predictor.encoding.context.mean), _width(predictor.encoding.features))
            == (rankings.x.shape[1], features)
            for predictor in self._predictors()
        )

    def _predictors(self) -> tuple[Predictor, ...]:
        model = self.model.first if isinstance(self.model, BoostedModel) else self.model
        if isinstance(model, AmountModel):
            return model.clicks.predictor, model.amount.predictor
        return (model.predictor,) if isinstance(model, NumberModel | ClickModel) else ()

    def list_value(self, rankings: Rankings, alpha: Floats) -> Floats:
        """Return the expected total reward of each ranking (m,)."""
        return self.model.expected(rankings, ALL) @ alpha[: rankings.K]

    def relevance(self, rankings: Rankings) -> Floats:
        """Return scores of candidates (m, C), -inf for padding."""
        return self.model.relevance(rankings, ALL)

    def to_dict(self) -> Json:
        """Return the model of all rows as plain data."""
        model = self.model
        if isinstance(model, AmountModel):
            amount = Scorer(model.amount).to_dict()
            del amount["model"]
            return {**Scorer(model.clicks).to_dict(), "model": "click-amount", "amount": amount}
        if isinstance(model, NumberModel):
            size = {"centre": model.centre, "unit": model.unit}
            return {"model": "linear", **size, "predictor": _to_data(model.predictor)}
        if isinstance(model, ClickModel):
            return {"model": "click-history", "predictor": _to_data(model.predictor)}
        if isinstance(model, BoostedModel):
            first, trees = Scorer(model.first).to_dict(), model.trees[ALL].to_dict()
            return {"model": "boosting", "first": first, "trees": trees}
        raise PolicyError(f"a model of type {type(model).__name__} cannot be stored")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Scorer":
        """Return the scorer of plain data; invalid data raises LookupError, TypeError or ValueError."""
        if data["model"] == "boosting":
            first = cls.from_dict(data["first"]).model
            return cls(BoostedModel(first, (Trees.from_dict(data["trees"]),), details={}))
        predictor = _predictor(data["predictor"])
        if data["model"] == "click-history":
            return cls(ClickModel(predictor))
        if data["model"] == "click-amount":
            amount = data["amount"]
            return cls(AmountModel(ClickModel(predictor), _number(amount, Family.GAMMA)))
        if data["model"] == "linear":
            return cls(_number(data, Family.NORMAL))
        raise ValueError(f"its scorer '{data['model']}' is unknown")


def _number(data: Mapping[str, Any], family: Family) -> NumberModel:
    return NumberModel(
        _predictor(data["predictor"]), family, float(data["centre"]), float(data["unit"])
    )


def _to_data(predictor: Predictor) -> Json:
    parameters, encoding = predictor.parameters, predictor.encoding
    return {
        "theta": parameters.theta[-1].tolist(),
        "K": parameters.K,
        "items": parameters.items,
        "d": parameters.d,
        "seen": encoding.catalogue.tolist(),
        "context": _scaling(encoding.context),
        "features": None if encoding.features is None else _scaling(encoding.features),
        "slopes": encoding.slopes,
        "competition": predictor.variant.competition,
        "curved": predictor.curved,
        "first": None if predictor.first is None else _to_data(predictor.first),
        "rivals": None if predictor.rivals is None else _scaling(predictor.rivals),
    }


#: Limit of coefficients, which are log odds or in units of the rewards' spread: exp() overflows beyond.
_MAX_COEFFICIENT = 700.0


def _predictor(data: Mapping[str, Any]) -> Predictor:
    theta = _numbers(data["theta"])[None, :]
    if (np.abs(theta) > _MAX_COEFFICIENT).any():
        raise ValueError(f"a coefficient is larger than {_MAX_COEFFICIENT:.0f}")
    parameters = Parameters(theta, *(_count(data, name) for name in ("K", "items", "d")))
    features = None if data["features"] is None else _scaling_of(data["features"])
    # The lookup of items requires sorted ids without repeats.
    item_ids = np.asarray(data["seen"], dtype=np.int64)
    if (
        item_ids.ndim != 1
        or len(item_ids) != parameters.items
        or not len(item_ids)
        or item_ids[0] < 0
        or (np.diff(item_ids) <= 0).any()
    ):
        raise ValueError("the item ids do not fit the number of items")
    encoding = Encoding(
        item_ids, _scaling_of(data["context"]), features, None, _switch(data, "slopes")
    )
    curved, rivals = _switch(data, "curved"), None
    if data["rivals"] is not None:
        rivals = _scaling_of(data["rivals"])
        expected_columns = 4 + curved + (features is not None)
        if len(rivals.mean) != expected_columns:
            raise ValueError(
                f"it has {len(rivals.mean)} columns of competition, this version {expected_columns}; "
                "learn the policy again"
            )
    first = None if data["first"] is None else _predictor(data["first"])
    if first is not None and first.curved != curved:
        raise ValueError("its two predictors are of different kinds")
    _refuse_misfits(parameters, encoding, 0 if rivals is None else len(rivals.mean), first)
    return Predictor(
        parameters,
        encoding,
        Variant(competition=_switch(data, "competition")),
        {},
        np.empty(0),
        first=first,
        rivals=rivals,
        curved=curved,
    )


def _count(data: Mapping[str, Any], name: str) -> int:
    count = data[name]
    # Limits far above any stored scorer, so that a damaged file cannot exhaust memory.
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _LIMITS[name]:
        raise ValueError(f"{name} is not an integer from 0 to {_LIMITS[name]:,}")
    return count


def _switch(data: Mapping[str, Any], name: str) -> bool:
    switch = data[name]
    if not isinstance(switch, bool):
        raise ValueError(f"{name} must be true or false")
    return switch


_LIMITS = {"K": 1_000, "items": 10_000_000, "d": 100_000}


def _refuse_misfits(
    parameters: Parameters, encoding: Encoding, rivals: int, first: Predictor | None
) -> None:
    """Raise ValueError if sizes disagree, because kernels would read beyond their arrays."""
    context = len(encoding.context.mean)
    columns = sum(size for _, size in encoding.widths(Variant(), rivals))
    K, items, d = parameters.K, parameters.items, parameters.d
    expected_size = Parameters.count(K, items, d, columns)
    if (
        K < 1
        or d != (context if encoding.slopes else 0)
        or parameters.theta.shape[1] != expected_size
    ):
        raise ValueError("the number of its coefficients does not fit its sizes")
    if first is not None and (
        first.parameters.K != K
        or len(first.encoding.context.mean) != context
        or _width(first.encoding.features) != _width(encoding.features)
    ):
        raise ValueError("its two predictors do not read the same columns")
    if rivals and first is None:
        raise ValueError(
            "it has coefficients of competition, but no model of the strength of items"
        )


def _width(scaling: Scaling | None) -> int:
    return 0 if scaling is None else len(scaling.mean)


def _scaling(scaling: Scaling) -> Json:
    # A constant column has an infinite spread, which JSON cannot represent.
    spread = [float(value) if np.isfinite(value) else None for value in scaling.spread]
    return {"mean": scaling.mean.tolist(), "spread": spread}


def _scaling_of(data: Mapping[str, Any]) -> Scaling:
    spread = np.array([np.inf if value is None else float(value) for value in data["spread"]])
    mean = _numbers(data["mean"])
    if spread.shape != mean.shape or not (spread > 0).all():
        raise ValueError("a scaling needs a spread above 0 for each mean")
    return Scaling(mean, spread)


def _numbers(values: Any) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("a list of finite numbers was expected")
    return array
