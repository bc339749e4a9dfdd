"""Which estimators an evaluation runs, which of them it recommends, and which judge the others."""

from collections.abc import Iterable, Sequence

from counterrank.estimators import Estimator, estimator_names
from counterrank.evaluation.provenance import Options

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
#: Models of users, which use no weights and which none can contradict.
_USER_MODELS = {"pbm", "click-model"}


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
