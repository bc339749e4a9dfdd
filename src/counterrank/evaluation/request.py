"""The request of an evaluation: its options, and which estimators it means."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib import metadata
from numbers import Integral
from typing import Self

from counterrank._version import __version__
from counterrank.checks import answers_of
from counterrank.common.errors import ConfigError
from counterrank.common.options import Reading, Request
from counterrank.common.records import Json
from counterrank.estimators import Estimator, estimator_names
from counterrank.estimators.behavior import BehaviorTree, planned_tree
from counterrank.evaluation.freshness import Later
from counterrank.evaluation.result import LOGGER, Provenance
from counterrank.io import Events, Where
from counterrank.metrics import Metrics
from counterrank.statistics import Looks, check_level

#: What runs when no estimator is named; the result lists those that the log cannot support. The
#: tree of `aips` is not among them: it explains behaviour, but costs a quarter of the time and has
#: 6 to 151 times the squared error of `auto` in the published environment.
DEFAULT_ESTIMATORS = ("auto", "ips", "snips", "rips", "iips", "order-2", "order-3")
#: The name for every estimator there is; those that cannot run are left out and said so.
ALL = "all"
#: The recommended estimator is the first of these that runs; else the first that was named.
PREFERENCE = ("auto", "dr-order-2", "order-2", "aips", "rips", "ips")
#: Summed for every target, named or not: the weights and rivals by which the recommended
#: estimate is judged.
PANEL = ("iips", "order-2", "order-3", "rips", "ips", "snips")
#: Rows at which sequential intervals are shortest when no number is given.
SEQUENTIAL_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class Options(Request):
    """A request whose targets, metrics and columns are known, and whose numbers make sense."""

    @classmethod
    def of_request(cls, request: Request, metrics: Metrics, events: Events | None) -> Self:
        """Return the options of a request; the targets are known once the log is open.

        Parameters
        ----------
        request
            What was asked for.
        metrics
            The metrics it names.
        events
            How they are joined.
        """
        learned, segments, monitored = (
            request.estimate_propensity,
            request.segments,
            request.sequential,
        )
        segments = (segments,) if isinstance(segments, str) else segments
        values = {
            "targets": (),
            "estimators": named(request.estimators),
            "segments": tuple(dict.fromkeys([*segments, *metrics.columns])),
            "estimate_propensity": "auto" if learned is True else learned or None,
            "sequential": SEQUENTIAL_ROWS if monitored is True else monitored or None,
            "baseline": None if request.baseline == LOGGER else request.baseline,
            "rewards": {metric.name: metric.text for metric in metrics.all_metrics}
            if metrics.named
            else {},
            "primary": metrics.primary if metrics.named else None,
            "guardrails": tuple(metric.text for metric in metrics.guardrails),
            "where": None if request.where is None else str(Where.parse(request.where)),
            "accept": answers_of(request.accept),
            "events": {} if events is None else events.record,
        }
        options = cls(**{**vars(request), **values})
        later = options.later
        return options if later is None else replace(options, target_trained_until=later.until)

    @property
    def looks(self) -> Looks:
        """How often the log is looked at."""
        return Looks(self.sequential)

    @property
    def later(self) -> Later | None:
        """Keeps the rows after the training of the targets; None where that is not declared."""
        until = self.target_trained_until
        return None if until is None else Later.parse(until, self.time)

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns, one value per ranking, that the reader brings along."""
        of_method = str(self.estimate_propensity or "").partition(":")[2].split(",")
        columns = [*self.segments, *of_method, self.time or ""]
        return tuple(dict.fromkeys(filter(None, columns)))

    @cached_property
    def tree(self) -> BehaviorTree | None:
        """How behaviour trees are grown; None for the default."""
        candidates, mse = self.behavior_candidates, self.behavior_mse
        return None if candidates is None and mse is None else planned_tree(candidates, mse)

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
        check_practical(self.practical)

    def recorded(self) -> Json:
        """Return what a result records: what was asked of the log, not how it was read."""
        behavior, mse = self.behavior_candidates, self.behavior_mse
        texts = {
            "behavior_candidates": behavior
            if behavior is None or isinstance(behavior, str)
            else f"{len(behavior)} given",
            "behavior_mse": mse if mse is None or isinstance(mse, str) else mse.name,
            "accept": [answer.to_dict() for answer in self.accept],
        }
        left_out = {option.name for option in fields(Reading)} - {"where", "events"} | _ELSEWHERE
        names = [option.name for option in fields(Request) if option.name not in left_out]
        values = {name: texts.get(name, getattr(self, name)) for name in names}
        return {name: value for name, value in values.items() if value or name not in _RARELY}


#: Libraries whose version can change a digit.
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "scikit-learn")
#: What the result says in another place, and what is recorded only where it was given.
_ELSEWHERE = {"command", "position_weights", "target_lists", "weights_out"}
_RARELY = {"accept", "baseline", "events", "guardrails", "primary", "rewards", "where"}


def check_practical(practical: float | None) -> None:
    """Raise unless the smallest relative lift that matters is above 0, or not given."""
    if practical is not None and not practical > 0:
        raise ConfigError(
            f"practical is the smallest relative lift that matters, above 0; got {practical}"
        )


#: What a user names estimators with.
Named = Sequence[str | Estimator] | str | None


def named(estimators: Named) -> tuple[str, ...]:
    """Return the names of estimators.

    >>> named("ips, Order-2,ips")
    ('ips', 'order-2')
    """
    listed = estimators.split(",") if isinstance(estimators, str) else estimators or ()
    names = (
        estimator.strip().lower() if isinstance(estimator, str) else estimator.name
        for estimator in listed
    )
    return tuple(dict.fromkeys(filter(None, names)))


def ready_made(estimators: Named) -> dict[str, Estimator]:
    """Return the estimators that are objects, not names."""
    listed = () if isinstance(estimators, str) else estimators or ()
    return {estimator.name: estimator for estimator in listed if not isinstance(estimator, str)}


def wanted(options: Options, *, required: bool = True) -> dict[str, bool]:
    """Return the estimators to run, and whether each was named: then it must run, or the evaluation is an error.

    Not `required` is what further metrics are estimated with.
    """
    names = options.estimators or DEFAULT_ESTIMATORS
    required = required and bool(options.estimators)
    result = {name: required for name in names if name != ALL}
    if ALL in names:
        result |= {name: False for name in estimator_names() if name not in result}
    return result


def provenance_of(options: Options, fingerprint: str, estimators: Sequence[str]) -> Provenance:
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
