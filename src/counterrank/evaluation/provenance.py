"""The versions and options that an evaluation ran with."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from counterrank._version import __version__
from counterrank.common.errors import ConfigError
from counterrank.common.records import Json, Record, optional

if TYPE_CHECKING:
    from counterrank.evaluation.request import Options

#: Libraries whose version can change a digit.
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "scikit-learn")


@dataclass(frozen=True, slots=True)
class Provenance(Record):
    """Versions, options, data fingerprint, seed and command of a run."""

    counterrank: str = ""
    python: str = ""
    libraries: dict[str, str] = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    estimators: tuple[str, ...] = ()
    seed: int = 0
    fingerprint: str = ""
    command: str | None = None
    #: From SOURCE_DATE_EPOCH alone: no clock is read.
    created: str | None = optional()

    def __repr__(self) -> str:
        return f"Provenance(counterrank={self.counterrank!r}, seed={self.seed})"


def manifest(options: Options, *, fingerprint: str, estimators: Sequence[str]) -> Provenance:
    """Return the provenance of a run on this machine.

    A time is recorded only when SOURCE_DATE_EPOCH gives one (reproducible-builds.org).
    """
    versions = {name: version for name in LIBRARIES if (version := _version(name)) is not None}
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    return Provenance(
        counterrank=__version__,
        python=platform.python_version(),
        libraries=versions,
        options=options.recorded(),
        estimators=tuple(estimators),
        seed=options.seed,
        fingerprint=fingerprint,
        command=options.command,
        created=_moment(moment) if moment else None,
    )


@cache
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _moment(text: str) -> str:
    try:
        return datetime.fromtimestamp(int(text), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"SOURCE_DATE_EPOCH must be whole seconds since 1970, got {text!r}"
        ) from None
