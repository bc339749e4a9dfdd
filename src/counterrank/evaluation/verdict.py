"""How far the evidence can be believed, kept apart from what it says."""

from collections.abc import Mapping, Sequence
from typing import Any

from counterrank.estimators.estimate import Estimate

LEVELS = ("insufficient", "directional", "reliable")


def verdict(estimates: Sequence[Estimate], recommended: Mapping[str, str], logged: float) -> dict[str, Any]:
    """Return the evidence level of the recommended estimates and the reasons for it."""
    reasons: list[dict[str, str]] = []
    level = 2
    for found in estimates:
        if recommended[found.target] != found.estimator:
            continue
        for flag in found.flags:
            reasons.append({"target": found.target, "reason": flag})
        if found.ess < 100:
            level = min(level, 0)
        elif found.flags:
            level = min(level, 1)
    return {"level": LEVELS[level], "reasons": reasons}


def meets(level: str, required: str) -> bool:
    """Return whether an evidence level is at least the required one."""
    return LEVELS.index(level) >= LEVELS.index(required)
