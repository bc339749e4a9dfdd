"""What an evaluation was asked to do, as data: it goes into the result, and the same options give the same bytes."""

from dataclasses import dataclass

from counterrank.errors import ConfigError
from counterrank.inference.normal import check_level

#: What is run when nothing is asked for; what a log cannot support is left out and said so.
DEFAULT_ESTIMATORS = ("auto", "ips", "snips", "rips", "iips", "aips", "order-2")


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
    #: Sum by unit for clustered errors and bootstrap: None decides by whether the log has units.
    clustered: bool | None = None

    def __post_init__(self) -> None:
        check_level(self.level)
        if len(set(self.targets)) != len(self.targets):
            raise ConfigError(f"a target is named twice: {', '.join(self.targets)}")

    @property
    def explicit(self) -> bool:
        """Estimators were named, so one that cannot run is an error rather than a remark."""
        return bool(self.estimators)
