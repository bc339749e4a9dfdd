"""Intervals by name.

============  ==========================================  =====================================================
method        needs                                       remark
============  ==========================================  =====================================================
t             nothing more                                the default; clustered when rows belong to units
normal        nothing more                                the same with infinite degrees of freedom
bootstrap     sums by unit                                percentiles of 2000 draws of whole buckets
poisson       sums by unit                                the same with Poisson counts
bernstein     independent rows and a plain mean           wide; holds for every n, given the range of a row
cressie-read  the Gram matrix                             uses E[w] = 1; often much shorter
============  ==========================================  =====================================================
"""

from collections.abc import Callable

from counterrank.errors import ConfigError
from counterrank.inference.bernstein import bernstein_interval
from counterrank.inference.bootstrap import bootstrap_interval, poisson_interval
from counterrank.inference.cressie_read import cressie_read_interval
from counterrank.inference.evidence import Evidence
from counterrank.inference.linear import degrees_of_freedom
from counterrank.inference.normal import normal_interval

Interval = tuple[float, float]


def _t(evidence: Evidence, level: float) -> Interval:
    return normal_interval(evidence.value, evidence.stderr, level, degrees_of_freedom(evidence.moments))


def _normal(evidence: Evidence, level: float) -> Interval:
    return normal_interval(evidence.value, evidence.stderr, level)


METHODS: dict[str, Callable[[Evidence, float], Interval]] = {
    "t": _t,
    "normal": _normal,
    "bootstrap": bootstrap_interval,
    "poisson": poisson_interval,
    "bernstein": bernstein_interval,
    "cressie-read": cressie_read_interval,
}


def interval(evidence: Evidence, level: float, method: str = "t") -> Interval:
    """Return (low, high) by the method of that name, or say which there are."""
    if method not in METHODS:
        raise ConfigError(f"there is no interval method '{method}'; known: {', '.join(METHODS)}")
    return METHODS[method](evidence, level)


def unavailable(method: str, estimator: str) -> ConfigError:
    """Return the error for an estimate that keeps no moments."""
    if method not in METHODS:
        return ConfigError(f"there is no interval method '{method}'; known: {', '.join(METHODS)}")
    return ConfigError(f"'{estimator}' makes its own interval and keeps no moments for '{method}'; use method='t'")


__all__ = ["METHODS", "interval", "normal_interval", "unavailable"]
