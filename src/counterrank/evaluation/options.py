"""What an evaluation was asked to do, as data, and the provenance of its result."""

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Integral
from typing import Any

from counterrank._version import __version__
from counterrank.errors import ConfigError
from counterrank.inference import Looks, check_level

#: What is run when nothing is asked for; what a log cannot support is left out and said so. The
#: tree of `aips` is not among them: it explains behaviour, but costs a quarter of the time and has
#: 20 times the error of `auto` or more.
DEFAULT_ESTIMATORS = ("auto", "ips", "snips", "rips", "iips", "order-2", "order-3")
#: The name for every estimator there is; those that cannot run are left out and said so.
ALL = "all"
#: The segment column that stands for the groups of a fitted behaviour tree.
TREE = "tree"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one evaluation."""

    targets: tuple[str, ...]
    estimators: tuple[str, ...] = ()
    level: float = 0.95
    segments: tuple[str, ...] = ()
    seed: int = 0
    #: A lift smaller than this, relative to the logger's value, is of no practical interest.
    practical: float | None = None
    #: How missing propensities are estimated: None when the log's own are used.
    estimate_propensity: str | None = None
    #: List the audit's findings too: False leaves out all checks but those on which the verdict
    #: rests.
    audit: bool | None = None
    #: The column with the time of each ranking, for the audit.
    time: str | None = None
    #: The user declares that no two rows belong to one visitor.
    independent_rows: bool = False
    #: Intervals hold at every look at a growing log, and are shortest at about this many rows;
    #: None: one look.
    sequential: int | None = None

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


#: Libraries whose version can change a digit.
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "scikit-learn")


def manifest(
    options: Options, *, fingerprint: str, estimators: Sequence[str], command: str | None = None
) -> dict[str, Any]:
    """Return versions, options, data fingerprint, seed and command.

    No clock is read: a time is recorded only when SOURCE_DATE_EPOCH gives one
    (reproducible-builds.org).
    """
    result: dict[str, Any] = {
        "counterrank": __version__,
        "python": platform.python_version(),
        "libraries": {
            name: version for name in LIBRARIES if (version := _version(name)) is not None
        },
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
