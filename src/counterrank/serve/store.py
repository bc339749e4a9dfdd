"""The evaluations in a folder: found by scanning, looked up by exact name, never opened by a path
from outside.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from counterrank.errors import ConfigError
from counterrank.serve.outcomes import SUFFIX, Outcome, read_json, read_outcomes

SCHEMA = "counterrank/evaluation/"
#: Results are far smaller; anything larger is something else.
MOST_BYTES = 64 * 2**20
MOST_FILES = 1000

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One result: its name (path below the folder), when it was written, what it says."""

    name: str
    modified: float
    model: Mapping[str, Any]

    @property
    def written(self) -> datetime:
        """When the file was written."""
        return datetime.fromtimestamp(self.modified)

    @property
    def night(self) -> datetime:
        """When the run belongs in time: the day in its name (2026-01-31) if there is one, else when
        it was written.

        A folder that was copied has new times but its old names.
        """
        found = re.search(r"\d{4}-\d{2}-\d{2}", self.name)
        try:
            day = datetime.fromisoformat(found[0]) if found else None
        except ValueError:
            day = None
        return day or self.written


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
        """Return all results, the newest first."""
        found = [entry for path in self._files() if (entry := self._entry(path)) is not None]
        return sorted(found, key=lambda entry: (-entry.modified, entry.name))

    def get(self, name: str) -> Entry | None:
        """Return the result of that exact name, None when there is none."""
        return next((entry for entry in self.entries() if entry.name == name), None)

    def outcomes(self) -> dict[tuple[str, str], Outcome]:
        """Return what A/B tests found, by run and target."""
        found = {}
        for path in self._files():
            name = path.relative_to(self.folder).as_posix()
            if name.endswith(SUFFIX):
                run = name.removesuffix(SUFFIX) + ".json"
                found.update(
                    {(run, target): outcome for target, outcome in read_outcomes(path).items()}
                )
        return found

    def _files(self) -> list[Path]:
        paths = sorted(self.folder.rglob("*.json"))[:MOST_FILES]
        # A link may point anywhere; only what lies inside the folder is shown.
        return [
            path for path in paths if path.is_file() and path.resolve().is_relative_to(self.folder)
        ]

    def _entry(self, path: Path) -> Entry | None:
        name = path.relative_to(self.folder).as_posix()
        try:
            status = path.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        seen = self._seen.get(name)
        if seen is None or seen[0] != stamp:
            model = _model(path) if status.st_size <= MOST_BYTES else None
            seen = (stamp, None if model is None else Entry(name, status.st_mtime, model))
            self._seen[name] = seen
        return seen[1]


def _model(path: Path) -> Mapping[str, Any] | None:
    found = read_json(path)
    return found if str(found.get("schema", "")).startswith(SCHEMA) else None
