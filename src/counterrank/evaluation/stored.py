"""A result read back from its JSON form: what `Evaluation.to_dict` wrote."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from counterrank.errors import ConfigError
from counterrank.estimators import Estimate, Lift, PositionValue
from counterrank.messages import Message

Row = Mapping[str, Any]


def number(value: Any) -> float:
    """Return a number of JSON; null is NaN.

    >>> number(0.5), number(None)
    (0.5, nan)
    """
    return math.nan if value is None else float(value)


def positions(found: Sequence[Row]) -> tuple[PositionValue, ...]:
    """Return values and standard errors by position."""
    return tuple(PositionValue(number(one["value"]), number(one["stderr"])) for one in found)


def lift_from(found: Row) -> Lift:
    """Return a lift from an entry of `lift`."""
    names = ("value", "stderr", "low", "high", "relative", "relative_low", "relative_high")
    read = {name: number(found.get(name)) for name in names}
    return Lift(**read, by_position=positions(found.get("by_position", ())))


def flags_from(found: Row) -> tuple[str, ...]:
    """Return the flags of an estimate, with their codes where those were written."""
    flags = [str(flag) for flag in found.get("flags", ())]
    codes = found.get("flag_codes") or [""] * len(flags)
    return tuple(
        Message(code, flag[len(code) + 2 :]) if code else flag
        for code, flag in zip(codes, flags, strict=True)
    )


def estimate_from(found: Row, lift: Row, n: int) -> Estimate:
    """Return an estimate whose interval is the one that was written."""
    level, ends = number(found["level"]), (number(found["low"]), number(found["high"]))

    def written(wanted: float) -> tuple[float, float]:
        if wanted != level:
            raise ConfigError(
                f"a stored estimate has its interval at level {level}, not at {wanted}",
                remedy="evaluate the log again with that level",
            )
        return ends

    return Estimate(
        target=str(found["target"]),
        estimator=str(found["estimator"]),
        value=number(found["value"]),
        stderr=number(found["stderr"]),
        by_position=positions(found["by_position"]),
        ess=number(found["ess"]),
        n=n,
        level=level,
        lift=lift_from(lift),
        flags=flags_from(found),
        details=dict(found.get("details") or {}),
        interval_at=written,
        allowance=float(found.get("allowance") or 0.0),
        basis=str(found.get("basis") or ""),
        not_estimable=str(found.get("not_estimable") or ""),
    )


def estimates_from(found: Row) -> tuple[Estimate, ...]:
    """Return all estimates of a result, each with its lift."""
    lifts = {(one["target"], one["estimator"]): one for one in found["lift"]}
    n = int(found["log"]["n"])
    return tuple(
        estimate_from(one, lifts[one["target"], one["estimator"]], n) for one in found["estimates"]
    )
