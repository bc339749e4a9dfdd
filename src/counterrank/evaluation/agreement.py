"""Which estimates assume less than the recommended one, and the path from few to all interactions."""

import re
from collections.abc import Sequence
from typing import Any

from counterrank.diagnostics import weights
from counterrank.estimators import Estimate
from counterrank.evaluation.evidence import Rival
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.pairing import Pairing
from counterrank.evaluation.thresholds import SIGNIFICANT, THRESHOLDS


def plain_name(name: str) -> str:
    """Return whose assumption on users an estimator shares.

    >>> plain_name("snrips"), plain_name("dr-order-2"), plain_name("cascade-dr")
    ('rips', 'order-2', 'rips')
    """
    if name.startswith("cascade"):
        return "rips"
    return re.sub(r"^(sn|cv-|dr-)+", "", name)


def order_of(name: str, length: int) -> int | None:
    """Return the interaction order of IIPS (1), order-m (m) and IPS (K); None for what is not on that path."""
    plain = plain_name(name)
    if plain in ("iips", "ips"):
        return 1 if plain == "iips" else length
    found = re.fullmatch(r"order-(\d+)", plain)
    return min(int(found[1]), length) if found else None


def assumes_less(name: str, than: str, length: int) -> bool:
    """Return whether `name` makes strictly weaker assumptions on how items affect each other than `than`."""
    mine, other = order_of(name, length), order_of(than, length)
    if mine == length:
        return other != length
    if plain_name(name) == "rips":
        return other == 1
    if mine is None:
        return False
    # A learnt mixture of behaviours is held against every order above pairs.
    return mine > other if other is not None else plain_name(than) != "rips" and mine >= 3


def basis_of(estimate: Estimate) -> str:
    """Return the estimator whose assumption and weights an estimate rests on: its own, or what `auto` settled on."""
    return str(estimate.details.get("interval_base") or estimate.estimator)


def weighed_like(chosen: Estimate, found: Sequence[Estimate]) -> int | None:
    """Return the index of the plain estimate with the weights behind the chosen one, or None when it was not run."""
    length, basis = len(chosen.by_position), basis_of(chosen)
    for index, one in enumerate(found):
        same = plain_name(one.estimator) == plain_name(basis)
        order = order_of(one.estimator, length)
        if one.target == chosen.target and one.moments is not None:
            if same or (order is not None and order == order_of(basis, length)):
                return index
    return None


def rivals(chosen: Estimate, found: Sequence[Estimate], jobs: Sequence[Job], pairs: Pairing) -> list[Rival]:
    """Return the plain estimates of the same target that assume less than the chosen one."""
    length = len(chosen.by_position)
    basis = basis_of(chosen)
    own = next(job for job in jobs if (job.target, job.name) == (chosen.target, chosen.estimator))
    result = []
    for job, estimate in zip(jobs, found, strict=True):
        if job.target != chosen.target or plain_name(job.name) != job.name or job is own:
            continue
        if assumes_less(job.name, basis, length):
            stderr = pairs.stderr_of_difference(own, job)
            result.append(Rival(job.name, chosen.value - estimate.value, stderr, usable(estimate)))
    return result


def usable(estimate: Estimate) -> bool:
    """Return whether an estimate's weights are good enough to test others against it."""
    good = estimate.ess >= THRESHOLDS["ess"].directional
    if estimate.moments is None:
        return good
    calm = weights.tail_index(estimate.moments) <= THRESHOLDS["tail"].directional
    return good and calm and weights.mean_weight_test(estimate.moments).p_value > SIGNIFICANT


def order_path(target: str, found: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Return the estimates from interaction order 1 (IIPS) to K (IPS) that were made, in that order."""
    rows = []
    for one in found:
        order = order_of(one.estimator, len(one.by_position))
        if one.target == target and order is not None and plain_name(one.estimator) == one.estimator:
            rows.append(
                {"order": order, "estimator": one.estimator, "value": one.value, "stderr": one.stderr,
                 "low": one.low, "high": one.high, "ess": one.ess}
            )  # fmt: skip
    return sorted(rows, key=lambda row: (row["order"], row["estimator"]))
