"""Provenance: what made a result, so that it can be made again, byte for byte."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from counterrank._version import __version__
from counterrank.errors import ConfigError
from counterrank.evaluation.options import Options

#: Libraries whose version can change a digit.
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "scikit-learn")


def manifest(
    options: Options, *, fingerprint: str, estimators: Sequence[str], command: str | None = None
) -> dict[str, Any]:
    """Return versions, options, data fingerprint, seed and command.

    No clock is read: a time is recorded only when SOURCE_DATE_EPOCH gives one (reproducible-builds.org).
    """
    result: dict[str, Any] = {
        "counterrank": __version__,
        "python": platform.python_version(),
        "libraries": {name: version for name in LIBRARIES if (version := _version(name)) is not None},
        "options": asdict(options),
        "estimators": list(estimators),
        "seed": options.seed,
        "fingerprint": fingerprint,
        "command": command,
    }
    moment = os.environ.get("SOURCE_DATE_EPOCH")
    if moment:
        result["created"] = _moment(moment)
    return result


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _moment(text: str) -> str:
    try:
        return datetime.fromtimestamp(int(text), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        raise ConfigError(f"SOURCE_DATE_EPOCH must be whole seconds since 1970, got {text!r}") from None
