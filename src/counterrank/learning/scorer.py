"""A fitted reward model as data: numbers in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.encoding import Scaling
from counterrank.errors import PolicyError
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
from counterrank.records import Json


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A reward model of all learning rows: the worth of a list, and a key to sort items by."""

    model: ListModel

    @property
    def K(self) -> int:  # noqa: N802 - the letter of the papers
        """Number of places of the pages that it was fitted to."""
        return min(predictor.parameters.K for predictor in self._predictors())

    def reads(self, rankings: Rankings) -> bool:
        """Whether it was fitted to as many columns of context and of features as rankings have."""
        features = 0 if rankings.features is None else rankings.features.shape[-1]
        return all(
            (len(one.encoding.context.mean), _width(one.encoding.features))
            == (rankings.x.shape[1], features)
            for one in self._predictors()
        )

    def _predictors(self) -> tuple[Predictor, ...]:
        model = self.model.first if isinstance(self.model, BoostedModel) else self.model
        if isinstance(model, AmountModel):
            return model.clicks.predictor, model.amount.predictor
        return (model.predictor,) if isinstance(model, NumberModel | ClickModel) else ()

    def list_value(self, rankings: Rankings, alpha: Floats) -> Floats:
        """Return the expected total reward of each ranking (m,)."""
        values: Floats = self.model.expected(rankings, ALL) @ alpha[: rankings.K]
        return values

    def relevance(self, rankings: Rankings) -> Floats:
        """Return a key to sort candidates by (m, C), -inf in the padding."""
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
            return {"model": "linear", **size, "predictor": _written(model.predictor)}
        if isinstance(model, ClickModel):
            return {"model": "click-history", "predictor": _written(model.predictor)}
        if isinstance(model, BoostedModel):
            first, trees = Scorer(model.first).to_dict(), model.trees[ALL].to_dict()
            return {"model": "boosting", "first": first, "trees": trees}
        raise PolicyError(f"a model of type {type(model).__name__} has no form as data")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Scorer":
        """Return the scorer of plain data; what is missing or of another kind raises what Python raises."""
        if data["model"] == "boosting":
            first = cls.from_dict(data["first"]).model
            return cls(BoostedModel(first, (Trees.from_dict(data["trees"]),), details={}))
        predictor = _read(data["predictor"])
        if data["model"] == "click-history":
            return cls(ClickModel(predictor))
        if data["model"] == "click-amount":
            own = data["amount"]
            return cls(AmountModel(ClickModel(predictor), _number(own, Family.GAMMA)))
        if data["model"] == "linear":
            return cls(_number(data, Family.NORMAL))
        raise ValueError(f"its scorer '{data['model']}' is unknown")


def _number(data: Mapping[str, Any], family: Family) -> NumberModel:
    return NumberModel(_read(data["predictor"]), family, float(data["centre"]), float(data["unit"]))


def _written(predictor: Predictor) -> Json:
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
    }


#: Coefficients are log odds, or in units of the rewards' spread; beyond this exp() overflows.
_FURTHEST = 700.0


def _read(data: Mapping[str, Any]) -> Predictor:
    theta = _numbers(data["theta"])[None, :]
    if (np.abs(theta) > _FURTHEST).any():
        raise ValueError("a coefficient is beyond any odds")
    parameters = Parameters(theta, *(_count(data, name) for name in ("K", "items", "d")))
    features = None if data["features"] is None else _scaled(data["features"])
    # A file may hold anything, and items are looked up by sorted ids without repeats.
    seen = np.asarray(data["seen"], dtype=np.int64)
    if (
        seen.ndim != 1
        or len(seen) != parameters.items
        or not len(seen)
        or seen[0] < 0
        or (np.diff(seen) <= 0).any()
    ):
        raise ValueError("the items seen do not fit the number of items")
    encoding = Encoding(seen, _scaled(data["context"]), features, None, _switch(data, "slopes"))
    curved, rivals = _switch(data, "curved"), None
    if data["rivals"] is not None:
        rivals = _scaled(data["rivals"])
        known = 4 + curved + (features is not None)
        if len(rivals.mean) != known:
            raise ValueError(
                f"it reads {len(rivals.mean)} columns of competition where this version has {known}; "
                "learn the policy again"
            )
    first = None if data["first"] is None else _read(data["first"])
    if first is not None and first.curved != curved:
        raise ValueError("one of its two parts predicts log odds, the other numbers")
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
    found = data[name]
    # A thousand places or a million items are beyond any page and any stored scorer.
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _MOST[name]:
        raise ValueError(f"{name} is no number from 0 to {_MOST[name]:,}")
    return found


def _switch(data: Mapping[str, Any], name: str) -> bool:
    found = data[name]
    if not isinstance(found, bool):
        raise ValueError(f"{name} is true or false")
    return found


_MOST = {"K": 1_000, "items": 10_000_000, "d": 100_000}


def _refuse_misfits(
    parameters: Parameters, encoding: Encoding, rivals: int, first: Predictor | None
) -> None:
    """Raise where sizes disagree, because kernels would read beyond their arrays."""
    context = len(encoding.context.mean)
    columns = sum(size for _, size in encoding.widths(Variant(), rivals))
    K, items, d = parameters.K, parameters.items, parameters.d
    needed = Parameters.count(K, items, d, columns)
    if K < 1 or d != (context if encoding.slopes else 0) or parameters.theta.shape[1] != needed:
        raise ValueError("its numbers are not as many as its sizes ask for")
    if first is not None and (
        first.parameters.K != K
        or len(first.encoding.context.mean) != context
        or _width(first.encoding.features) != _width(encoding.features)
    ):
        raise ValueError("its two parts do not read the same columns")
    if rivals and first is None:
        raise ValueError("it weighs the other items of a page without knowing how strong they are")


def _width(scaling: Scaling | None) -> int:
    return 0 if scaling is None else len(scaling.mean)


def _scaling(scaling: Scaling) -> Json:
    # A constant column has an infinite spread, which JSON has no number for.
    spread = [float(value) if np.isfinite(value) else None for value in scaling.spread]
    return {"mean": scaling.mean.tolist(), "spread": spread}


def _scaled(data: Mapping[str, Any]) -> Scaling:
    spread = np.array([np.inf if value is None else float(value) for value in data["spread"]])
    mean = _numbers(data["mean"])
    if spread.shape != mean.shape or not (spread > 0).all():
        raise ValueError("a scaling needs a spread above 0 for each mean")
    return Scaling(mean, spread)


def _numbers(values: Any) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError("a list of finite numbers was expected")
    return found
