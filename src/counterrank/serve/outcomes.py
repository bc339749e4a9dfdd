"""What a policy earned once it was shown: kept beside the run that predicted it, never inside it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from counterrank.atomic import write_text
from counterrank.errors import ConfigError
from counterrank.report import Reading, known

SCHEMA = "counterrank/outcome/1"
SUFFIX = ".outcome.json"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A policy's value per ranking as measured in an A/B test, and its standard error."""

    earned: float
    stderr: float = 0.0

    def gap(self, prediction: Mapping[str, Any]) -> float | None:
        """Return predicted - earned; None where nothing was predicted."""
        value = prediction.get("value")
        return float(value) - self.earned if known(value) else None

    def held(self, prediction: Mapping[str, Any]) -> bool | None:
        """Return whether the interval of a prediction held; None where there is none.

        The outcome is uncertain too: both half-widths are added in quadrature, so an exact test of
        a right prediction calls it held as often as the level says.
        """
        low, high = prediction.get("low"), prediction.get("high")
        if not (known(low) and known(high)):
            return None
        level = prediction.get("level")
        z = NormalDist().inv_cdf(0.5 + (float(level) if known(level) else 0.95) / 2)
        middle, half = (high + low) / 2, (high - low) / 2
        return abs(self.earned - middle) <= math.hypot(half, z * self.stderr)


def record(
    run: "str | Path", earned: float, stderr: float = 0.0, target: str | None = None
) -> Path:
    """Write down what a target of a run earned, and return the file it stands in, beside the run's."""
    path = Path(run)
    model = read_json(path)
    if not str(model.get("schema", "")).startswith("counterrank/evaluation/"):
        raise ConfigError(
            f"{path} is no evaluation; give a file written by `counterrank evaluate --json`"
        )
    targets = Reading(model).targets
    name = target or (targets[0] if len(targets) == 1 else None)
    if name is None:
        raise ConfigError(
            f"{path} has several targets; say which with --target: {', '.join(targets)}"
        )
    if name not in targets:
        raise ConfigError(f"{path} has no target '{name}'; known: {', '.join(targets)}")
    if not math.isfinite(earned) or not (math.isfinite(stderr) and stderr >= 0):
        raise ConfigError(
            f"earned is a number and its stderr a number of 0 or more; got {earned} and {stderr}"
        )
    beside = path.with_name(path.name.removesuffix(".json") + SUFFIX)
    known_before = read_outcomes(beside)
    kept = {**known_before, name: Outcome(earned, stderr)}
    rows = [
        {"target": key, "earned": one.earned, "stderr": one.stderr} for key, one in kept.items()
    ]
    write_text(
        beside,
        json.dumps({"schema": SCHEMA, "outcomes": rows}, indent=2, ensure_ascii=False) + "\n",
    )
    return beside


def read_outcomes(path: Path) -> dict[str, Outcome]:
    """Return the outcomes of a file by target; none where it is missing or something else."""
    found = read_json(path)
    if found.get("schema") != SCHEMA or not isinstance(found.get("outcomes"), list):
        return {}
    rows = [row for row in found["outcomes"] if isinstance(row, dict) and known(row.get("earned"))]
    return {
        str(row.get("target")): Outcome(
            float(row["earned"]), float(row["stderr"]) if known(row.get("stderr")) else 0.0
        )
        for row in rows
    }


def read_json(path: Path) -> Mapping[str, Any]:
    """Return a JSON object; empty where the file is missing, damaged or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
