"""Estimators by name: "ips", "snrips", "order-3", "dr-aips", "clip-ips", "auto" ..."""

import difflib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

from counterrank.common import plugins
from counterrank.common.errors import ConfigError, EstimatorError
from counterrank.estimators.auto.auto import Auto
from counterrank.estimators.base import Estimator
from counterrank.estimators.clip import Clipped, Shrunk, Switch
from counterrank.estimators.doubly_robust import DM, DR, CascadeDR
from counterrank.estimators.examination import ClickHistory, PositionBased
from counterrank.estimators.masked import (
    AIPS,
    IIPS,
    IPS,
    RIPS,
    AIPSPairs,
    OrderIPS,
    PseudoInverse,
)
from counterrank.estimators.names import AGGREGATE_FORMS, PLAIN, EstimatorName, Form, parse

#: A new estimator with a name of its own is a line here.
WORDS: dict[str, Callable[[], Estimator]] = {
    "dm": DM,
    "cascade-dr": CascadeDR,
    "pi": PseudoInverse,
    "auto": Auto,
    "pbm": PositionBased,
    "click-model": ClickHistory,
    "aips-pairs": AIPSPairs,
}
_WEIGHTS: dict[str, Callable[..., Estimator]] = {
    "ips": IPS,
    "iips": IIPS,
    "rips": RIPS,
    "aips": AIPS,
}
_AROUND: dict[Form, Callable[..., Estimator]] = {
    Form.DR: DR,
    Form.CLIPPED: Clipped,
    Form.SHRUNK: Shrunk,
    Form.SWITCHED: Switch,
}
_EXAMPLES = ("order-2", "order-3", "dr-order-2", "dr-order-3")


def _ours() -> list[str]:
    aggregates = [f"{form}{name}" for name in PLAIN for form in (Form.RATIO, Form.CONTROL)]
    wrapped = [f"{form}{name}" for name in PLAIN for form in _AROUND]
    return [*PLAIN, *aggregates, *wrapped, *WORDS, *_EXAMPLES]


def _estimator_named(name: EstimatorName) -> Estimator | None:
    """Return the estimator that a name of the grammar asks for, None where it is not one of ours."""
    if name.text in WORDS:
        return WORDS[name.text]()
    weights: Any = name.weights if name.order is None else name.order
    if name.form in _AROUND and (name.order is not None or weights in PLAIN):
        return _AROUND[name.form](weights=weights)
    for aggregate, form in AGGREGATE_FORMS.items():
        if name.form is form and name.order is not None:
            return OrderIPS(order=name.order, aggregate=aggregate)
        if name.form is form:
            return _WEIGHTS[name.weights](aggregate=aggregate, name=name.text)
    return None


def _from_plugin(point: EntryPoint) -> Estimator:
    make = plugins.load(point, EstimatorError)
    try:
        estimator = make()
    except Exception as problem:
        raise EstimatorError(
            f"{plugins.described(point)} cannot be made: {type(problem).__name__}: {problem}; "
            "update or uninstall it"
        ) from problem
    if not isinstance(estimator, Estimator):
        raise EstimatorError(
            f"{plugins.described(point)} makes a {type(estimator).__name__}, not an Estimator"
        )
    return estimator


def with_position_curve(
    names: str | None, curve: str | None
) -> "str | list[str | Estimator] | None":
    """Return names, separated by commas, with a curve of examination given to the estimators that take one.

    >>> [made if isinstance(made, str) else made.position_curve for made in with_position_curve("ips,pbm", "c.json")]
    ['ips', 'c.json']
    """
    if curve is None:
        return names
    taking = {"pbm": PositionBased, "click-model": ClickHistory}
    listed = [name.strip().lower() for name in (names or "").split(",")]
    if not taking.keys() & set(listed):
        raise ConfigError(
            f"--position-curve is for {', '.join(taking)}: name one of them with --estimators"
        )
    return [
        taking[name](position_curve=curve) if name in taking else name for name in listed if name
    ]


def names() -> list[str]:
    """Return the names of all estimators without a parameter in the name, and examples of those with one."""
    ours = _ours()
    return [*ours, *plugins.plugins_of(plugins.ESTIMATORS, reserved=ours)]


def get(name: str) -> Estimator:
    """Return the estimator called `name`, or raise with the nearest names.

    >>> get("order-3").name, get("dr-order-2").name, get("snrips").name
    ('order-3', 'dr-order-2', 'snrips')
    """
    plain = name.strip().lower()
    ours = _estimator_named(parse(plain))
    if ours is not None:
        return ours
    of_plugins = {
        name.lower(): point
        for name, point in plugins.plugins_of(plugins.ESTIMATORS, reserved=_ours()).items()
    }
    if plain in of_plugins:
        return _from_plugin(of_plugins[plain])
    all_names = names()
    near = (
        difflib.get_close_matches(plain, all_names, n=3)
        or [candidate for candidate in all_names if candidate.startswith(f"{plain}-")][:3]
    )
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise EstimatorError(
        f"there is no estimator '{name}'; {hint}`counterrank estimators` lists all"
    )
