"""The plans of an evaluation: an estimator for each target, made ready for the pass."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from counterrank.estimators.behavior import BehaviorTree
from counterrank.evaluation.provenance import Options
from counterrank.findings import SKIPPED, Finding

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
_TRIED = 32
#: Models of users, which use no weights and which none can contradict.
_USER_MODELS = {"pbm", "click-model"}


@dataclass(frozen=True, slots=True)
class Job:
    """One estimator for one target, made ready."""

    target: str
    name: str
    plan: Plan[Any]
    #: The estimate is a mean of weighted rewards, neither normalised nor tamed nor around a model.
    plain: bool
    #: Nobody named it: it judges the others, and has no line in the results.
    silent: bool = False


def named(
    given: "Sequence[str | Estimator] | str | None",
) -> tuple[tuple[str, ...], dict[str, Estimator]]:
    """Return the names of estimators, and the ready-made estimators among them.

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


def wanted(options: Options, *, required: bool = True) -> dict[str, bool]:
    """Return the estimators to run, and whether each was named: then it must run, or the evaluation is an error.

    Not `required` is what further metrics are estimated with.
    """
    names = options.estimators or DEFAULT_ESTIMATORS
    named = required and bool(options.estimators)
    result = {name: named for name in names if name != ALL}
    if ALL in names:
        result |= {name: False for name in estimator_names() if name not in result}
    return result


def weightless(names: Iterable[str]) -> bool:
    """Return whether all of these estimate by a model of users alone, as on the log of a deterministic logger.

    The mean of a reward model ("dm") is judged by weights all the same: it is used where there are
    some.

    >>> weightless(["pbm"]), weightless(["dm"]), weightless(["pbm", "ips"])
    (True, False, False)
    """
    return _USER_MODELS.issuperset(names)


def make_jobs(
    source: Source,
    options: Options,
    custom: Mapping[str, Estimator],
    tree: BehaviorTree | None = None,
    *,
    required: bool = True,
    shared: dict[Hashable, Any] | None = None,
) -> tuple[list[Job], tuple[Finding, ...]]:
    """Return a job for each target and estimator that can run, and the reason for each that cannot.

    The panel's jobs are among them, silent where nobody named them. `shared` keeps what does not depend on
    rewards, for further ones of the same rows.
    """
    asked, first = wanted(options, required=required), source.first
    for name, must in asked.items():
        if must and name not in custom:
            # A name that nobody knows is an error by itself, whatever the target.
            get_estimator(name)
    jobs: list[Job] = []
    skipped: list[Finding] = []
    for target in options.targets:
        workspace = Workspace(
            source,
            target,
            level=options.level,
            seed=options.seed,
            looks=options.looks,
            by_unit=first.summed_by_unit,
            tree=tree,
            shared={} if shared is None else shared,
        )
        # What a log cannot give shows on a few of its rows, before the pass over all of them.
        tried = View(first.take(slice(0, _TRIED)), target)
        made: dict[str, Job] = {}
        for name in dict.fromkeys([*asked, *PANEL]):
            silent = name not in asked
            if silent and weightless(made):
                break
            try:
                estimator = custom[name] if name in custom else get_estimator(name)
                estimator.refuse_weight(first)
                plan = estimator.plan(workspace)
                plan.partial(tried)
                plain = parse(estimator.name).plain
                made[name] = Job(target, estimator.name, plan, plain, silent)
            except CounterrankError as problem:
                if asked.get(name):
                    raise type(problem)(
                        f"'{name}' cannot run for target '{target}': {problem}"
                    ) from problem
                if not silent:
                    skipped.append(
                        Finding("skipped", SKIPPED, str(problem), target=target, subject=name)
                    )
        if not made:
            raise ConfigError(f"no estimator can run for target '{target}': {skipped[-1].text}")
        jobs += made.values()
    return jobs, tuple(skipped)
