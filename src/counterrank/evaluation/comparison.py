"""Which of several targets is better: paired differences with family-wise adjusted intervals and p-values."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from counterrank.estimators.estimate import Estimate
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.pairing import Pairing
from counterrank.inference.multiplicity import holm, two_sided
from counterrank.inference.normal import normal_interval


def compare(
    jobs: Sequence[Job], estimates: Sequence[Estimate], pairs: Pairing, recommended: Mapping[str, str], level: float
) -> tuple[dict[str, Any], ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979).
    """
    main = [(job, est) for job, est in zip(jobs, estimates, strict=True) if recommended[job.target] == job.name]
    both = list(combinations(main, 2))
    rows: list[dict[str, Any]] = []
    for (left, one), (right, two) in both:
        stderr = pairs.stderr_of_difference(left, right)
        low, high = normal_interval(one.value - two.value, stderr, 1 - (1 - level) / len(both))
        rows.append(
            {"better": left.target, "than": right.target, "value": one.value - two.value,
             "stderr": stderr, "low": low, "high": high}
        )  # fmt: skip
    p = holm([two_sided(row["value"], row["stderr"]) for row in rows])
    return tuple({**row, "p_value": float(value)} for row, value in zip(rows, p, strict=True))
