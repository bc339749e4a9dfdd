"""The options of an evaluation, and the versions it ran with."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Integral

from counterrank._version import __version__
from counterrank.checks import Answer
from counterrank.errors import ConfigError
from counterrank.options import LEVEL, SEED
from counterrank.records import Record, optional
from counterrank.statistics import Looks, check_level


@dataclass(frozen=True, slots=True)
class Options(Record):
    """Options of one evaluation."""

    targets: tuple[str, ...]
    estimators: tuple[str, ...] = ()
    level: float = LEVEL
    segments: tuple[str, ...] = ()
    seed: int = SEED
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
    #: The user declares that no target was trained on these rows ...
    target_is_fresh: bool = False
    #: ... or until when targets were trained: only later rows count.
    target_trained_until: str | None = None
    #: The candidates and the objective of a behaviour tree, where they are not the default ones.
    behavior_candidates: str | None = None
    behavior_mse: str | None = None
    #: The policy that lifts are over; None: the logger.
    baseline: str | None = optional()
    #: Several metrics: how each was written, which one decides, and what must not happen.
    rewards: dict[str, str] = optional(default_factory=dict)
    primary: str | None = optional()
    guardrails: tuple[str, ...] = optional(default=())
    #: The condition that kept some of the rows.
    where: str | None = optional()
    #: Answers to questions of the audit.
    accept: tuple[Answer, ...] = optional(default=())
    #: The events that the rewards were made of, and how they were joined.
    events: dict[str, str] = optional(default_factory=dict)

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


@dataclass(frozen=True, slots=True)
class Provenance(Record):
    """Versions, options, data fingerprint, seed and command of a run."""

    counterrank: str = ""
    python: str = ""
    libraries: dict[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=lambda: Options(()))
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
        options=options,
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
