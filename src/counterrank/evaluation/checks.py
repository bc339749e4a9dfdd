"""Each check of the evidence: a measured number, its status, a reason in words and what would help."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterrank.diagnostics import weights
from counterrank.evaluation.evidence import Evidence
from counterrank.evaluation.thresholds import FAIL, PASS, POSITION_ESS, SIGNIFICANT, THRESHOLDS, WARN
from counterrank.inference import holm, two_sided

Reason = dict[str, Any]
EXPLORE = "a logging policy that explores more"


@dataclass(frozen=True, slots=True)
class Judged:
    """What one check says: a status, the reason, what would help, and how many rows in all would do."""

    status: str
    reason: str
    help: str = ""
    rows: int | None = None


Found = Iterator[Judged]


def reasons(evidence: Evidence) -> list[Reason]:
    """Return a row for every check that could be made."""
    found: list[Reason] = []
    for check in CHECKS:
        for one in check(evidence):
            passed = one.status == PASS
            found.append(
                {"target": evidence.estimate.target, "check": check.__name__.replace("_", "-"), "status": one.status,
                 "reason": one.reason, "help": "" if passed else one.help, "rows": None if passed else one.rows}
            )  # fmt: skip
    return found


def units(e: Evidence) -> Found:
    """Enough independent rows."""
    line = THRESHOLDS["units"]
    factor = line.reliable / max(e.units, 1)
    reason = f"{e.units:,} independent rows or groups of users"
    yield Judged(line.status(e.units), reason, *_more(e.estimate.n, factor))


def ess(e: Evidence) -> Found:
    """Enough effective rows, in all and at each position."""
    line, found = THRESHOLDS["ess"], e.estimate
    status = line.status(found.ess)
    reason = f"the weights leave {found.ess:,.0f} effective of {found.n:,} rows"
    if status == PASS and e.moments is not None:
        by_position = weights.effective_rows_by_position(e.moments)
        weak = np.flatnonzero(by_position < POSITION_ESS) + 1
        if len(weak):
            status = WARN
            reason += f", but fewer than {POSITION_ESS:.0f} at position {_listed(weak)}"
            found_ess = float(by_position.min())
            yield Judged(status, reason, *_more(found.n, POSITION_ESS / max(found_ess, 1.0), f", or {EXPLORE} there"))
            return
    if e.moments is not None and weights.tail_index(e.moments) > THRESHOLDS["tail"].reliable:
        yield Judged(status, reason, f"{EXPLORE}: with such a tail, effective rows grow much more slowly than rows")
        return
    yield Judged(status, reason, *_more(found.n, line.reliable / max(found.ess, 1.0), f", or {EXPLORE}"))


def outcomes(e: Evidence) -> Found:
    """Enough rows with an outcome."""
    line = THRESHOLDS["outcomes"]
    more = _more(e.estimate.n, line.reliable / max(e.outcomes, 1.0))
    yield Judged(line.status(e.outcomes), f"{e.outcomes:,.0f} rows, in effect, make the estimate", *more)


def tail(e: Evidence) -> Found:
    """A tail of the weights that permits an average."""
    if e.moments is not None:
        value = weights.tail_index(e.moments)
        yield Judged(
            _softened(THRESHOLDS["tail"].status(value), e),
            f"the largest weights fall off with a tail index of {value:.2f}",
            "an estimator with lighter weights (lower interaction order, self-normalised)",
        )


def concentration(e: Evidence) -> Found:
    """No single row that decides."""
    if e.moments is not None:
        value = weights.largest_weight_share(e.moments)
        status = _softened(THRESHOLDS["concentration"].status(value), e)
        yield Judged(status, f"one ranking carries at most {value:.1%} of the weight", f"more rows, or {EXPLORE}")


def mean_weight(e: Evidence) -> Found:
    """Weights whose mean is compatible with 1."""
    if e.moments is None:
        return
    test = weights.mean_weight_test(e.moments)
    worst = int(np.nanargmax(np.abs(test.z)))
    off = float(np.abs(test.mean - 1).max())
    if test.p_value > SIGNIFICANT:
        furthest = f"{test.mean[worst]:.3g} at position {worst + 1}"
        yield Judged(PASS, f"weights average 1 within chance (furthest: {furthest})")
        return
    status = max(WARN, THRESHOLDS["mean-weight"].status(off), key=[PASS, WARN, FAIL].index)
    reason = (
        f"weights average {test.mean[worst]:.3g} instead of 1 at position {worst + 1} (p = {test.p_value:.1g}): wrong "
        "propensities or target probabilities, items that were never shown, or a tail not yet seen"
    )
    yield Judged(status, reason, "run 'counterrank check' on this log: it names the likely cause")


def support(e: Evidence) -> Found:
    """The logger shows what the target would show."""
    if not len(e.unsupported):
        return
    shares = np.asarray(e.unsupported)
    worst = int(shares.argmax())
    line = THRESHOLDS["support"]
    weak = np.flatnonzero(shares > line.reliable) + 1
    reason = f"the target puts {shares[worst]:.1%} of position {worst + 1} on items the logger hardly ever shows"
    yield Judged(line.status(float(shares[worst])), reason, f"explore those items at position {_listed(weak)}")


def agreement(e: Evidence) -> Found:
    """Estimators that assume less say the same, as far as they can tell."""
    if e.assumption_free:
        yield Judged(PASS, "the estimator assumes nothing about how items affect each other")
        return
    usable = [rival for rival in e.rivals if rival.usable]
    if not usable:
        names = ", ".join(rival.name for rival in e.rivals) or "none was run"
        yield Judged(
            WARN,
            f"no estimator with fewer assumptions is precise enough to check this one ({names})",
            f"more rows, or {EXPLORE}; or run more estimators: --estimators all",
        )
        return
    p = holm([two_sided(rival.difference, rival.stderr) for rival in usable])
    half = (e.estimate.high - e.estimate.low) / 2
    names = ", ".join(rival.name for rival in usable)
    apart = [rival for rival, value in zip(usable, p, strict=True) if value <= SIGNIFICANT]
    if not apart:
        yield Judged(PASS, f"compatible with {names}, which assume{'s' if len(usable) == 1 else ''} less")
        return
    worst = max(apart, key=lambda rival: abs(rival.difference))
    distance = abs(worst.difference) / half if half > 0 else math.inf
    reason = (
        f"{worst.name} assumes less and differs by {worst.difference:+.4g} ± {worst.stderr:.2g}, "
        f"{distance:.1f} times the half-width of the interval: items seem to affect each other"
    )
    yield Judged(
        THRESHOLDS["agreement"].status(distance),
        reason,
        f"read {worst.name}, or a higher interaction order, instead of {e.estimate.estimator}",
    )


def precision(e: Evidence) -> Found:
    """An interval that is narrow, relative to the logger's value or to the lift."""
    lift, line = e.estimate.lift, THRESHOLDS["precision"]
    half = (lift.high - lift.low) / 2
    scale = abs(e.logged) or abs(e.estimate.value)
    relative = half / scale if scale > 0 else (0.0 if half == 0 else math.inf)
    goal = e.practical or line.reliable
    loose = line.directional if e.practical is None else 5 * goal
    if not math.isfinite(half):
        yield Judged(FAIL, "the interval cannot be computed", "more rows")
        return
    status = PASS if relative <= goal or half <= abs(lift.value) / 2 else WARN
    if status == WARN and relative > loose and half > abs(lift.value):
        status = FAIL
    reason = f"the lift is known to ± {relative:.1%} of what the logger earns"
    factor = min((relative / goal) ** 2, (2 * half / abs(lift.value)) ** 2 if lift.value else math.inf)
    yield Judged(status, reason, *_more(e.estimate.n, factor))


def propensities(e: Evidence) -> Found:
    """Logged rather than estimated propensities."""
    if not e.estimated_propensity:
        return
    turns = "" if e.sign_changes_at is None else f"; wrong by a factor of {e.sign_changes_at:.2f} they turn the sign"
    yield Judged(
        WARN,
        f"propensities were estimated, not logged{turns}",
        "log the probability of each shown item when it is shown",
    )


def audit(e: Evidence) -> Found:
    """No check of the audit that failed outright."""
    for failed in e.failed_audit:
        yield Judged(WARN, f"the audit failed at '{failed['check']}': {failed['found']}", failed.get("remedy") or "")


CHECKS: tuple[Callable[[Evidence], Found], ...] = (
    units, ess, outcomes, tail, concentration, mean_weight, support, agreement, precision, propensities,
    audit,
)  # fmt: skip


def _softened(status: str, e: Evidence) -> str:
    return WARN if status == FAIL and e.borrowed else status


def _more(n: int, factor: float, instead: str = "") -> tuple[str, int | None]:
    """The advice to log more, what would do instead of it, and the number of rows it comes to."""
    if not math.isfinite(factor):
        return f"more rows{instead}", None
    needed = round_up(n * factor)
    return f"about {needed:,} rows like these ({_times(factor)} times as many){instead}", needed


def _times(factor: float) -> str:
    """Return a factor as people say it.

    >>> _times(1.3218), _times(2.0), _times(497.2)
    ('1.3', '2', '500')
    """
    return f"{factor:.2g}" if factor < 10 else f"{round_up(factor):,}"


def round_up(value: float) -> int:
    """Return a count rounded up to two significant digits: needs are never known better.

    >>> round_up(12345), round_up(7)
    (13000, 7)
    """
    whole = math.ceil(value - 1e-9)
    if whole < 100:
        return whole
    step = int(10 ** (len(str(whole)) - 2))
    return -(-whole // step) * step


def _listed(numbers: "np.ndarray[Any, Any]") -> str:
    return ", ".join(str(int(k)) for k in numbers)
