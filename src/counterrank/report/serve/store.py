"""The results in a folder: found by scanning, looked up by exact name, never opened by a path from outside.

And what a policy earned once it was shown, kept beside the run that predicted it, never inside it.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

from counterrank.atomic import write_text
from counterrank.errors import ConfigError, CounterrankError
from counterrank.estimators import Estimate
from counterrank.evaluation import ABTest, Evaluation, ValidationReport
from counterrank.exploration import ExplorationPlan
from counterrank.learning import LearningReport
from counterrank.records import Json
from counterrank.report import known

OUTCOME = "counterrank/outcome/1"
Result = Evaluation | ABTest | ExplorationPlan | LearningReport | ValidationReport
#: Results that have a page, by their schema.
KINDS: dict[
    str,
    type[Evaluation]
    | type[ABTest]
    | type[ExplorationPlan]
    | type[LearningReport]
    | type[ValidationReport],
] = {
    "counterrank/abtest/1": ABTest,
    "counterrank/evaluation/1": Evaluation,
    "counterrank/learning/1": LearningReport,
    "counterrank/plan/1": ExplorationPlan,
    "counterrank/validation/1": ValidationReport,
}
SUFFIX = ".outcome.json"
#: Results are far smaller; anything larger is something else.
MOST_BYTES = 64 * 2**20
#: Files that are shown. A bound for folders such as a home directory: each request scans them anew.
MOST_FILES = 1000

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MeasuredOutcome:
    """A policy's value per ranking as measured in an A/B test, and its standard error."""

    earned: float
    stderr: float = 0.0

    def held(self, prediction: Estimate) -> bool | None:
        """Return whether the interval of a prediction held; None where there is none.

        The outcome is uncertain too: both half-widths are added in quadrature, so an exact test of
        a right prediction calls it held as often as the level says.
        """
        low, high = prediction.interval()
        if not (known(low) and known(high)):
            return None
        z = NormalDist().inv_cdf(0.5 + prediction.level / 2)
        middle, half = (high + low) / 2, (high - low) / 2
        return abs(self.earned - middle) <= math.hypot(half, z * self.stderr)


@dataclass(frozen=True, slots=True)
class Entry:
    """One result: its name (path below the folder), when it was written, what it says."""

    name: str
    modified: float
    #: None where the file has our schema and its content is damaged.
    result: Result | None

    @property
    def written(self) -> datetime:
        """When the file was written."""
        return datetime.fromtimestamp(self.modified)

    @property
    def night(self) -> datetime:
        """When the run belongs in time."""
        return _night(self.name, self.modified)


def _night(name: str, modified: float) -> datetime:
    """Return the day in a run's name (2026-01-31) if there is one, else when it was written.

    A folder that was copied has new times but its old names.
    """
    found = re.search(r"\d{4}-\d{2}-\d{2}", name)
    try:
        day = datetime.fromisoformat(found[0]) if found else None
    except ValueError:
        day = None
    return day or datetime.fromtimestamp(modified)


@dataclass(frozen=True, slots=True)
class _Found:
    night: datetime
    modified: float
    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of results; a file is read again only when it has changed."""

    folder: Path
    _seen: dict[str, tuple[Stamp, Entry | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, directory: "str | Path") -> "Store":
        """Return the store of an existing folder."""
        folder = Path(directory)
        if not folder.is_dir():
            raise ConfigError(
                f"there is no folder {folder}; `counterrank evaluate --json FILE` writes results "
                "into one"
            )
        return cls(folder.resolve())

    def entries(self) -> list[Entry]:
        """Return all evaluations, the newest first."""
        return [entry for entry in self._all() if isinstance(entry.result, Evaluation)]

    def others(self) -> list[Entry]:
        """Return what `learn` and `validate` wrote and what is damaged, the newest first."""
        return [entry for entry in self._all() if not isinstance(entry.result, Evaluation)]

    def get(self, name: str) -> Entry | None:
        """Return the result of that exact name, None when there is none; older ones too."""
        path = next((one.path for one in self._files() if one.name == name), None)
        return None if path is None else self._entry(path)

    def older(self) -> int:
        """Return how many files are older than those that are shown."""
        return max(len(self._files()) - MOST_FILES, 0)

    def _all(self) -> list[Entry]:
        newest = self._files()[:MOST_FILES]
        found = [entry for one in newest if (entry := self._entry(one.path)) is not None]
        return sorted(found, key=lambda entry: (-entry.modified, entry.name))

    def outcomes(self) -> dict[tuple[str, str], MeasuredOutcome]:
        """Return what A/B tests found, by run and target."""
        return {
            (entry.name, target): one
            for entry in self.entries()
            for target, one in read_outcomes(_beside(self.folder / entry.name)).items()
        }

    def _files(self) -> "list[_Found]":
        """Return the files that may be results, the newest first: of a large folder only those are opened."""
        found = []
        for path in self.folder.rglob("*.json"):
            try:
                # A link may point anywhere; only what lies inside the folder is shown.
                inside = path.is_file() and path.resolve().is_relative_to(self.folder)
                modified = path.stat().st_mtime if inside else 0.0
            except OSError:
                continue
            if inside and not path.name.endswith(SUFFIX):
                name = path.relative_to(self.folder).as_posix()
                found.append(_Found(_night(name, modified), modified, name, path))
        return sorted(found, key=lambda one: (one.night, one.modified, one.name), reverse=True)

    def _entry(self, path: Path) -> Entry | None:
        name = path.relative_to(self.folder).as_posix()
        try:
            status = path.stat()
        except OSError:
            return None
        # Both: a copy may keep the time, and an edit the size.
        stamp = (status.st_mtime_ns, status.st_size)
        seen = self._seen.get(name)
        if seen is None or seen[0] != stamp:
            found = _read_json(path) if status.st_size <= MOST_BYTES else {}
            ours = found.get("schema") in KINDS
            seen = (stamp, Entry(name, status.st_mtime, _result(found)) if ours else None)
            self._seen[name] = seen
        return seen[1]


def _result(found: Mapping[str, Any]) -> Result | None:
    """Return the result that a file holds, None where it is damaged."""
    try:
        return KINDS[found["schema"]].from_dict(found)
    except CounterrankError:
        return None


def record(
    run: "str | Path", earned: float, stderr: float = 0.0, target: str | None = None
) -> Path:
    """Write down what a target of a run earned, and return the file it stands in, beside the run's."""
    path = Path(run)
    if not path.exists():
        raise ConfigError(f"there is no file {path}; `counterrank evaluate --json` writes one")
    try:
        targets = list(Evaluation.from_dict(_read_json(path)).recommended)
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
    if not math.isfinite(earned) or not (math.isfinite(stderr) and stderr >= 0):
        raise ConfigError(
            f"earned is a number and its stderr a number of 0 or more; got {earned} and {stderr}"
        )
    beside = _beside(path)
    with _locked(path):
        rows = [row for row in _kept(beside) if row.get("target") != name]
        rows.append({"target": name, "earned": earned, "stderr": stderr})
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
    found = _read_json(path)
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


def read_outcomes(path: Path) -> dict[str, MeasuredOutcome]:
    """Return the outcomes of a file by target; none where it is missing or something else."""
    found = _read_json(path)
    if found.get("schema") != OUTCOME or not isinstance(found.get("outcomes"), list):
        return {}
    rows = [row for row in found["outcomes"] if isinstance(row, dict) and known(row.get("earned"))]
    return {
        str(row.get("target")): MeasuredOutcome(
            float(row["earned"]), float(row["stderr"]) if known(row.get("stderr")) else 0.0
        )
        for row in rows
    }


def _read_json(path: Path) -> Mapping[str, Any]:
    """Return a JSON object; empty where the file is missing, damaged or something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
