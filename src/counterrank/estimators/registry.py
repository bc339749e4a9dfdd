"""Estimators by name: "ips", "snrips", "order-3", "dr-aips", "clip-ips", "auto" ..."""

import difflib
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint

from counterrank import plugins
from counterrank.errors import EstimatorError
from counterrank.estimators.base import Estimator

Make = Callable[[], Estimator]


def _fixed() -> dict[str, Make]:
    from counterrank.estimators.aips import AIPS
    from counterrank.estimators.auto.auto import Auto
    from counterrank.estimators.cascade_dr import CascadeDR
    from counterrank.estimators.clip import Clipped
    from counterrank.estimators.dm import DM
    from counterrank.estimators.dr import DR
    from counterrank.estimators.iips import IIPS
    from counterrank.estimators.ips import IPS
    from counterrank.estimators.pseudo_inverse import PseudoInverse
    from counterrank.estimators.rips import RIPS
    from counterrank.estimators.shrink import Shrunk
    from counterrank.estimators.switch import Switch

    plain: dict[str, Callable[..., Estimator]] = {"ips": IPS, "iips": IIPS, "rips": RIPS, "aips": AIPS}
    table: dict[str, Make] = dict(plain)
    for name, kind in plain.items():
        table[f"sn{name}"] = lambda kind=kind, name=name: kind(aggregate="ratio", name=f"sn{name}")  # type: ignore[misc]
        table[f"cv-{name}"] = lambda kind=kind, name=name: kind(aggregate="control", name=f"cv-{name}")  # type: ignore[misc]
    table["dm"] = DM
    for name in plain:
        table[f"dr-{name}"] = lambda name=name: DR(weights=name)  # type: ignore[misc]
        table[f"clip-{name}"] = lambda name=name: Clipped(weights=name)  # type: ignore[misc]
        table[f"shrink-{name}"] = lambda name=name: Shrunk(weights=name)  # type: ignore[misc]
        table[f"switch-{name}"] = lambda name=name: Switch(weights=name)  # type: ignore[misc]
    table["cascade-dr"] = CascadeDR
    table["pi"] = PseudoInverse
    table["auto"] = Auto
    return table


def _patterns() -> list[tuple[str, Callable[[re.Match[str]], Estimator]]]:
    from counterrank.estimators.clip import Clipped
    from counterrank.estimators.dr import DR
    from counterrank.estimators.marginal import Marginalised
    from counterrank.estimators.order import OrderIPS
    from counterrank.estimators.shrink import Shrunk
    from counterrank.estimators.switch import Switch

    kinds: dict[str, Callable[..., Estimator]] = {"dr": DR, "clip": Clipped, "shrink": Shrunk, "switch": Switch}
    return [
        (r"order-(\d+)", lambda found: OrderIPS(order=int(found[1]))),
        (r"(dr|clip|shrink|switch)-order-(\d+)", lambda found: kinds[found[1]](weights=int(found[2]))),
        (r"mips", lambda found: Marginalised()),
    ]


def _from_plugin(point: EntryPoint) -> Estimator:
    make = plugins.load(point, EstimatorError)
    try:
        made = make()
    except Exception as problem:
        raise EstimatorError(
            f"{plugins.described(point)} cannot be made: {type(problem).__name__}: {problem}; update or uninstall it"
        ) from problem
    if not isinstance(made, Estimator):
        raise EstimatorError(f"{plugins.described(point)} makes a {type(made).__name__}, not an Estimator")
    return made


def names() -> list[str]:
    """Return the names of all estimators without a parameter in the name, and examples of those with one."""
    ours = [*_fixed(), "order-2", "order-3", "dr-order-2", "dr-order-3"]
    return [*ours, *plugins.found(plugins.ESTIMATORS, taken=ours)]


def get(name: str) -> Estimator:
    """Return the estimator called `name`, or raise with the nearest names.

    >>> get("order-3").name, get("dr-order-2").name
    ('order-3', 'dr-order-2')
    """
    plain = name.strip().lower()
    table = _fixed()
    if plain in table:
        return table[plain]()
    for pattern, make in _patterns():
        found = re.fullmatch(pattern, plain)
        if found:
            return make(found)
    others = {name.lower(): point for name, point in plugins.found(plugins.ESTIMATORS, taken=table).items()}
    if plain in others:
        return _from_plugin(others[plain])
    known = names()
    near = difflib.get_close_matches(plain, known, n=3) or [one for one in known if one.startswith(f"{plain}-")][:3]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise EstimatorError(f"there is no estimator '{name}'; {hint}`counterrank estimators` lists all")
