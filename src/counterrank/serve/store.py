"""The evaluations in a folder: found by scanning, looked up by exact name, never opened by a path from outside."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from counterrank.errors import ConfigError

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
                f"there is no folder {folder}; `counterrank evaluate --json FILE` writes results into one"
            )
        return cls(folder.resolve())

    def entries(self) -> list[Entry]:
        """Return all results, the newest first."""
        found = [entry for path in self._files() if (entry := self._entry(path)) is not None]
        return sorted(found, key=lambda entry: (-entry.modified, entry.name))

    def get(self, name: str) -> Entry | None:
        """Return the result of that exact name, None when there is none."""
        return next((entry for entry in self.entries() if entry.name == name), None)

    def _files(self) -> list[Path]:
        paths = sorted(self.folder.rglob("*.json"))[:MOST_FILES]
        # A link may point anywhere; only what lies inside the folder is shown.
        return [path for path in paths if path.is_file() and path.resolve().is_relative_to(self.folder)]

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
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not str(found.get("schema", "")).startswith(SCHEMA):
        return None
    return found
