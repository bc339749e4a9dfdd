"""What a policy earned once it was shown, kept beside the run that predicted it, never inside it."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from counterrank.atomic import write_text
from counterrank.errors import ConfigError, CounterrankError
from counterrank.estimators import Estimate
from counterrank.evaluation import Evaluation
from counterrank.records import Json
from counterrank.report.charts import normal
from counterrank.report.numbers import known
from counterrank.statistics import Number

OUTCOME = "counterrank/outcome/1"
SUFFIX = ".outcome.json"


@dataclass(frozen=True, slots=True)
class MeasuredOutcome:
    """What an A/B test measured per ranking: the lift of a policy, or what it earned; with a standard error."""

    value: float
    stderr: float = 0.0
    #: A difference to today's policy in the same test, rather than what the policy earned in it.
    is_lift: bool = False

    def contained(self, best: Estimate) -> bool | None:
        """Return whether the interval of a prediction contained the outcome; None where there is none.

        The outcome is uncertain too: both half-widths are added in quadrature, so that an exact test
        of a right prediction is contained as often as the level says.
        """
        predicted: Number | Estimate = best.lift if self.is_lift else best
        if not known(predicted.high - predicted.low):
            return None
        middle, half = (predicted.high + predicted.low) / 2, (predicted.high - predicted.low) / 2
        return abs(self.value - middle) <= math.hypot(
            half, normal(0.0, self.stderr, best.level).high
        )


def record(
    run: "str | Path", earned: float | None = None, stderr: float = 0.0, target: str | None = None,
    *, lift: float | None = None,
) -> Path:  # fmt: skip
    """Write down what an A/B test measured of a target of a run, and return the file beside the run's.

    Either `lift`, the difference to today's policy in the test, or what the target `earned` in it.
    """
    path = Path(run)
    if (earned is None) == (lift is None):
        raise ConfigError("give what was measured as --lift or as --earned, and not as both")
    if not path.exists():
        raise ConfigError(f"there is no file {path}; `counterrank evaluate --json` writes one")
    try:
        targets = list(Evaluation.from_dict(read_json(path)).recommended)
    except CounterrankError:
        raise ConfigError(
            f"{path} is no evaluation; give a file written by `counterrank evaluate --json`"
        ) from None
    name = target or (targets[0] if len(targets) == 1 else None)
    if name is None:
        raise ConfigError(
            f"{path} has several targets; say which with --target: {', '.join(targets)}"
        )
    if name not in targets:
        raise ConfigError(f"{path} has no target '{name}'; known: {', '.join(targets)}")
    name_of, measured = ("earned", earned) if lift is None else ("lift", lift)
    if not known(measured) or not (math.isfinite(stderr) and stderr >= 0):
        raise ConfigError(
            f"{name_of} is a number and its stderr a number of 0 or more; got {measured} and {stderr}"
        )
    beside = _beside(path)
    with _locked(path):
        rows = [row for row in _kept(beside) if row.get("target") != name]
        rows.append({"target": name, name_of: measured, "stderr": stderr})
        text = json.dumps({"schema": OUTCOME, "outcomes": rows}, indent=2, ensure_ascii=False)
        write_text(beside, text + "\n", follow=False)
    return beside


def _beside(run: Path) -> Path:
    return run.with_name(run.name.removesuffix(".json") + SUFFIX)


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Hold others off who record an outcome of the same run; its file is locked, and not changed."""
    with open(run, "rb") as file:
        # Where a system or a file system knows no locks, writing whole files has to do.
        with suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _kept(path: Path) -> list[Json]:
    """Return the rows that an outcome file has; one that cannot be read is not replaced."""
    if not path.exists() and not path.is_symlink():
        return []
    found = read_json(path)
    rows = found.get("outcomes")
    if found.get("schema") != OUTCOME or not (
        isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    ):
        told = found.get("schema")
        what = f"has the schema {told!r}" if told else "is damaged or no outcome file"
        raise ConfigError(
            f"{path} {what}, and what it holds would be lost: this version writes {OUTCOME!r}. "
            "Mend it, or move it away"
        )
    return rows


def read_outcomes(run: Path) -> dict[str, MeasuredOutcome]:
    """Return the outcomes beside a run by target; none where there is no such file, or something else."""
    found = read_json(_beside(run))
    rows = found.get("outcomes")
    if found.get("schema") != OUTCOME or not isinstance(rows, list):
        return {}
    outcomes: dict[str, MeasuredOutcome] = {}
    for row in rows:
        for key in ("lift", "earned"):
            if isinstance(row, dict) and known(value := row.get(key)):
                error = row.get("stderr")
                made = MeasuredOutcome(
                    float(value), float(error) if known(error) else 0.0, key == "lift"
                )
                outcomes.setdefault(str(row.get("target")), made)
    return outcomes


def read_json(path: Path) -> Mapping[str, Any]:
    """Return a JSON object; empty where the file is missing, damaged or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
