"""The protocol of a study: worlds, estimators, seeds and versions, in a file that repeats it."""

import json
import platform
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from counterrank import __version__
from counterrank.common import atomic
from counterrank.common.errors import ConfigError

#: The file's name in the folder of a study.
FILE = "protocol.toml"
#: Libraries whose version may change a number.
_LIBRARIES = ("numpy", "scipy", "numba")


@dataclass(frozen=True, slots=True)
class Protocol:
    """What repeats a study.

    Parameters
    ----------
    worlds
        Texts that `bench.worlds` understands, or names of `World` objects.
    estimators
        Names, import paths or descriptions of objects, by the names in the results.
    seeds
        The seeds of every world.
    objects
        Names of worlds and estimators that were objects, which no file can make again.

    Examples
    --------
    >>> Protocol(("text:1",), {"ips": "ips"}, (0, 1)).merged(Protocol(("text:1",), {}, (2,))).seeds
    (0, 1, 2)
    """

    worlds: tuple[str, ...]
    estimators: Mapping[str, str]
    seeds: tuple[int, ...]
    objects: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Return the protocol in a file."""
        try:
            loaded: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise ConfigError(
                f"{path} cannot be read as the protocol of a study: {problem}"
            ) from None
        return cls(
            _texts(loaded, "worlds", path),
            _estimators(loaded, path),
            _seeds(loaded, path),
            _texts({"objects": [], **loaded}, "objects", path),
        )

    def write(self, folder: Path) -> None:
        """Write the protocol into the folder of a study, with the versions that run it."""
        versions = {"counterrank": __version__, "python": platform.python_version()}
        versions |= {name: version(name) for name in _LIBRARIES}
        # Strings of JSON are strings of TOML.
        lines = [
            "# Repeat this study: counterrank reproduce protocol.toml --out DIR",
            f"worlds = {json.dumps(self.worlds)}",
            f"seeds = {json.dumps(self.seeds)}",
            *([f"objects = {json.dumps(self.objects)}"] if self.objects else []),
            "\n[estimators]",
            *(f"{json.dumps(name)} = {json.dumps(text)}" for name, text in self.estimators.items()),
            "\n[versions]",
            *(f"{name} = {json.dumps(text)}" for name, text in versions.items()),
        ]
        atomic.write_text(folder / FILE, "\n".join(lines) + "\n")

    def merged(self, addition: Self) -> Self:
        """Return the protocol of both studies, whose results are in one folder."""
        return type(self)(
            tuple(dict.fromkeys([*self.worlds, *addition.worlds])),
            {**self.estimators, **addition.estimators},
            tuple(dict.fromkeys([*self.seeds, *addition.seeds])),
            tuple(dict.fromkeys([*self.objects, *addition.objects])),
        )


def resumed(protocol: Protocol, folder: Path) -> Protocol:
    """Return a protocol with what the folder already has; refuse results that could not be told apart."""
    path = folder / FILE
    if not path.exists():
        if any(folder.glob("*/seed-*.parquet")):
            raise ConfigError(f"{folder} has results but no {FILE}; choose another folder")
        return protocol
    before = Protocol.read(path)
    made_by = tomllib.loads(path.read_text(encoding="utf-8")).get("versions", {}).get("counterrank")
    if made_by not in (None, __version__):
        raise ConfigError(
            f"{folder} has results of counterrank {made_by}, and this is {__version__}; choose "
            "another folder"
        )
    for name, text in protocol.estimators.items():
        if before.estimators.get(name, text) != text:
            raise ConfigError(
                f"{folder} has results of another estimator '{name}': {before.estimators[name]}, now "
                f"{text}; give it another name, or choose another folder"
            )
    return before.merged(protocol)


def _texts(loaded: Mapping[str, Any], key: str, path: str | Path) -> tuple[str, ...]:
    texts = loaded.get(key)
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigError(f'{path}: {key} is a list of texts, as in {key} = ["groups:6"]')
    return tuple(texts)


def _seeds(loaded: Mapping[str, Any], path: str | Path) -> tuple[int, ...]:
    seeds = loaded.get("seeds", 20)
    numbers = list(range(seeds)) if isinstance(seeds, int) else seeds
    if not isinstance(numbers, list) or not all(isinstance(seed, int) for seed in numbers):
        raise ConfigError(f"{path}: seeds is a number of seeds or a list of them, not {seeds!r}")
    return tuple(numbers)


def _estimators(loaded: Mapping[str, Any], path: str | Path) -> dict[str, str]:
    """Return estimators by name, from a table or from a list of names."""
    table = loaded.get("estimators")
    if isinstance(table, list):
        return {name: name for name in _texts(loaded, "estimators", path)}
    if not isinstance(table, dict) or not all(isinstance(text, str) for text in table.values()):
        raise ConfigError(
            f'{path}: estimators is a list of names, or a table of them: "mine" = "package.module:Mine"'
        )
    return table
