"""What an evaluation was asked to do, and the plans that do it."""

import contextlib
import os
import platform
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from numbers import Integral
from typing import Any

from counterrank._version import __version__
from counterrank.behavior import BehaviorTree
from counterrank.data.source import Source
from counterrank.errors import ConfigError, CounterrankError
from counterrank.estimators import (
    Estimator,
    Plan,
    View,
    Workspace,
    estimator_names,
    get_estimator,
    parse,
)
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
    #: The user declares that no target was trained on these rows ...
    target_is_fresh: bool = False
    #: ... or until when targets were trained: only later rows count.
    target_trained_until: str | None = None
    #: Columns of the items whose values make groups; weights then compare groups.
    item_groups: tuple[str, ...] = ()
    #: The candidates and the objective of a behaviour tree, where they are not the default ones.
    behavior_candidates: str | None = None
    behavior_mse: str | None = None

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


#: The recommended estimator is the first of these that runs; else the first that was asked for.
PREFERENCE = ("auto", "dr-order-2", "order-2", "aips", "rips", "ips")
#: Summed for every target, asked for or not: the weights and rivals by which the recommended
#: estimate is judged.
PANEL = ("iips", "order-2", "order-3", "rips", "ips")
_TRIED = 32


@dataclass(frozen=True, slots=True)
class Job:
    """One estimator for one target, made ready."""

    target: str
    name: str
    plan: Plan[Any]
    #: Not asked for, but looked at: it has no line in the results.
    silent: bool = False


Skipped = dict[str, str]


def named(
    given: "Sequence[str | Estimator] | str | None",
) -> tuple[tuple[str, ...], dict[str, Estimator]]:
    """Return the names that were asked for, and the ready-made estimators among them.

    >>> named("ips, Order-2,ips")[0]
    ('ips', 'order-2')
    """
    if given is None:
        return (), {}
    if isinstance(given, str):
        given = [part for part in given.split(",") if part.strip()]
    names, custom = [], {}
    for item in given:
        name = item.strip().lower() if isinstance(item, str) else item.name
        names.append(name)
        if not isinstance(item, str):
            custom[name] = item
    return tuple(dict.fromkeys(names)), custom


def wanted(options: Options) -> dict[str, bool]:
    """Return the estimators to run, and whether each was named: then it must run, or the evaluation
    is an error.
    """
    asked = options.estimators or DEFAULT_ESTIMATORS
    if TREE in options.segments and not options.estimators:
        asked = (*asked, "aips")  # whose groups they are
    result = {name: bool(options.estimators) for name in asked if name != ALL}
    if ALL in asked:
        result |= {name: False for name in estimator_names() if name not in result}
    return result


def weightless(names: Iterable[str]) -> bool:
    """Return whether all of these estimate by a model of users alone, as on the log of a
    deterministic logger.

    The mean of a reward model ("dm") is judged by weights all the same: it is used where there are
    some.

    >>> weightless(["pbm"]), weightless(["dm"]), weightless(["pbm", "ips"])
    (True, False, False)
    """
    return all(parse(name).model_alone and name != "dm" for name in names)


def make_jobs(
    source: Source,
    options: Options,
    custom: Mapping[str, Estimator],
    tree: BehaviorTree | None = None,
) -> tuple[list[Job], tuple[Skipped, ...]]:
    """Return a job for each target and estimator that can run, and the reason for each that cannot.

    The panel's jobs are among them, silent where nobody asked for them.
    """
    asked, first = wanted(options), source.first
    for name, required in asked.items():
        if required and name not in custom:
            # A name that nobody knows is an error by itself, whatever the target.
            get_estimator(name)
    jobs: list[Job] = []
    skipped: list[Skipped] = []
    for target in options.targets:
        workspace = Workspace(
            source,
            target,
            level=options.level,
            seed=options.seed,
            by_unit=first.unit is not None,
            tree=tree,
        )
        # What a log cannot give shows on a few of its rows, before the pass over all of them.
        tried = View(first.take(slice(0, _TRIED)), target)
        made, left = _asked_for(asked, custom, workspace, tried)
        if not made:
            raise ConfigError(f"no estimator can run for target '{target}': {left[-1]['reason']}")
        jobs += [*made, *_panel({job.name for job in made}, workspace, tried)]
        skipped += left
    return jobs, tuple(skipped)


def _asked_for(
    asked: Mapping[str, bool], custom: Mapping[str, Estimator], workspace: Workspace, tried: View
) -> tuple[list[Job], list[Skipped]]:
    """Return the jobs of one target that can run, and why others cannot; one that was named must."""
    jobs: list[Job] = []
    skipped: list[Skipped] = []
    target = workspace.target
    for name, required in asked.items():
        try:
            estimator = custom[name] if name in custom else get_estimator(name)
            jobs.append(_planned(estimator, workspace, tried))
        except CounterrankError as problem:
            if required:
                raise type(problem)(
                    f"'{name}' cannot run for target '{target}': {problem}"
                ) from problem
            skipped.append({"target": target, "estimator": name, "reason": str(problem)})
    return jobs, skipped


def _panel(made: Collection[str], workspace: Workspace, tried: View) -> list[Job]:
    """Return the panel's jobs that nobody asked for; what a log cannot give, the judgement does
    without.
    """
    jobs: list[Job] = []
    for name in () if weightless(made) else PANEL:
        if name not in made:
            with contextlib.suppress(CounterrankError):
                jobs.append(_planned(get_estimator(name), workspace, tried, silent=True))
    return jobs


def _planned(
    estimator: Estimator, workspace: Workspace, tried: View, *, silent: bool = False
) -> Job:
    plan = estimator.plan(workspace)
    plan.partial(tried)
    return Job(workspace.target, estimator.name, plan, silent=silent)


def grouped(jobs: Sequence[Job]) -> dict[Hashable, list[Job]]:
    """Return the jobs by the state they share; the most detailed plan of a group makes it for all."""
    groups: dict[Hashable, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.plan.key, []).append(job)
    return {key: sorted(group, key=lambda job: -job.plan.detail) for key, group in groups.items()}


def recommended(jobs: Sequence[Job]) -> dict[str, str]:
    """Return the recommended estimator of each target."""
    chosen: dict[str, str] = {}
    for job in jobs:
        names = [other.name for other in jobs if other.target == job.target and not other.silent]
        chosen[job.target] = next((name for name in PREFERENCE if name in names), names[0])
    return chosen
