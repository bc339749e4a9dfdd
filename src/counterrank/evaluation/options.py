"""What an evaluation was asked to do, as data: it goes into the result, and the same options give the same bytes."""

from dataclasses import dataclass
from numbers import Integral

from counterrank.errors import ConfigError
from counterrank.inference import check_level

#: What is run when nothing is asked for; what a log cannot support is left out and said so.
DEFAULT_ESTIMATORS = ("auto", "ips", "snips", "rips", "iips", "aips", "order-2", "order-3")
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
    #: Audit the log as well: None does so for logs that are not large.
    audit: bool | None = None
    #: The column with the time of each ranking, for the audit.
    time: str | None = None

    def __post_init__(self) -> None:
        check_level(self.level)
        if not isinstance(self.seed, Integral) or self.seed < 0:
            raise ConfigError(f"seed is {self.seed!r}; it is a whole number, 0 or more")
        if len(set(self.targets)) != len(self.targets):
            raise ConfigError(f"a target is named twice: {', '.join(self.targets)}")
        if self.practical is not None and not self.practical > 0:
            raise ConfigError(f"practical is the smallest relative lift that matters, above 0; got {self.practical}")
