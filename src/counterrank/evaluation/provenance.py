"""The options of an evaluation, and the versions it ran with."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Integral

from counterrank._version import __version__
from counterrank.common.errors import ConfigError
from counterrank.common.options import Reading, Request
from counterrank.common.records import Json, Record, optional
from counterrank.statistics import Looks, check_level


@dataclass(frozen=True, kw_only=True)
class Options(Request):
    """A request whose targets, metrics and columns are known, and whose numbers make sense."""

    @property
    def looks(self) -> Looks:
        """How often the log is looked at."""
        return Looks(self.sequential)

    def __post_init__(self) -> None:
        check_level(self.level)
        if not isinstance(self.seed, Integral) or self.seed < 0:
            raise ConfigError(f"seed is {self.seed!r}; it is a whole number, 0 or more")
        if self.sequential is not None and not (
            isinstance(self.sequential, Integral) and self.sequential > 0
        ):
            raise ConfigError(f"sequential is a number of rows, 1 or more; got {self.sequential!r}")
        if len(set(self.targets)) != len(self.targets):
            raise ConfigError(f"a target is named twice: {', '.join(self.targets)}")
        if self.practical is not None and not self.practical > 0:
            raise ConfigError(
                "practical is the smallest relative lift that matters, above 0; got "
                f"{self.practical}"
            )

    def recorded(self) -> Json:
        """Return what a result records: what was asked of the log, not how it was read."""
        behavior, mse = self.behavior_candidates, self.behavior_mse
        texts = {
            "behavior_candidates": behavior
            if behavior is None or isinstance(behavior, str)
            else f"{len(behavior)} given",
            "behavior_mse": mse if mse is None or isinstance(mse, str) else mse.name,
            "accept": [one.to_dict() for one in self.accept],
        }
        names = [
            *(one.name for one in fields(Request) if one.name not in _READING),
            "where",
            "events",
        ]
        values = {
            name: texts.get(name, getattr(self, name)) for name in names if name not in _ELSEWHERE
        }
        return {name: one for name, one in values.items() if one or name not in _RARELY}


_READING = {one.name for one in fields(Reading)}
#: What the result says in another place, and what is recorded only where it was given.
_ELSEWHERE = {"command", "position_weights", "target_lists", "weights_out"}
_RARELY = {"accept", "baseline", "events", "guardrails", "primary", "rewards", "where"}

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


def manifest(
    options: Options, *, fingerprint: str, estimators: Sequence[str], command: str | None = None
) -> Provenance:
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
        command=command,
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
