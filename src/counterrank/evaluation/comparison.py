"""Which of several targets is better: paired differences with family-wise adjusted intervals and p-values."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterrank.estimators.estimate import Estimate
from counterrank.evaluation.state import Totals
from counterrank.inference.normal import normal_interval

if TYPE_CHECKING:
    from counterrank.evaluation.run import Job


def compare(
    jobs: "Sequence[Job]",
    estimates: Sequence[Estimate],
    states: Mapping[Hashable, Any],
    order: Sequence[Hashable],
    totals: Totals,
    recommended: Mapping[str, str],
    level: float,
) -> tuple[dict[str, Any], ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979).
    """
    main = [(job, est) for job, est in zip(jobs, estimates, strict=True) if recommended[job.target] == job.name]
    pairs = list(combinations(main, 2))
    if not pairs:
        return ()
    offsets = _offsets(jobs, states, order)
    rows = []
    for (left, one), (right, two) in pairs:
        weights = np.zeros(len(totals.sums))
        for job, sign in ((left, 1.0), (right, -1.0)):
            combination = job.plan.combination(states[job.plan.key])
            first = offsets[job.plan.key]
            weights[first : first + len(combination)] += sign * combination
        stderr = float(np.sqrt(totals.variance(weights)))
        low, high = normal_interval(one.value - two.value, stderr, 1 - (1 - level) / len(pairs))
        rows.append(
            {"better": left.target, "than": right.target, "value": one.value - two.value,
             "stderr": stderr, "low": low, "high": high}
        )  # fmt: skip
    return tuple({**row, "p_value": p} for row, p in zip(rows, _holm(rows), strict=True))


def _offsets(jobs: "Sequence[Job]", states: Mapping[Hashable, Any], order: Sequence[Hashable]) -> dict[Hashable, int]:
    widths = {job.plan.key: len(job.plan.combination(states[job.plan.key])) for job in jobs}
    offsets, first = {}, 1  # column 0 is the logger
    for key in order:
        offsets[key] = first
        first += widths[key]
    return offsets


def _holm(rows: Sequence[dict[str, Any]]) -> NDArray[np.float64]:
    from scipy import special

    z = np.array([abs(row["value"]) / row["stderr"] if row["stderr"] > 0 else np.inf for row in rows])
    p = 2 * special.ndtr(-z)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty_like(p)
    result[order] = np.minimum(adjusted, 1.0)
    return result
