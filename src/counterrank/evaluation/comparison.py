"""Which of several targets is better: paired differences with family-wise adjusted intervals and p-values."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from counterrank.estimators import Estimate
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.pairing import Pairing
from counterrank.inference import holm, normal_interval, two_sided


def compare(
    jobs: Sequence[Job], estimates: Sequence[Estimate], pairs: Pairing, recommended: Mapping[str, str], level: float
) -> tuple[dict[str, Any], ...]:
    """Return a row for each pair of targets: difference of their recommended estimates on the same rows.

    Intervals are Bonferroni-adjusted over the pairs, p-values by Holm (1979). What the estimates allow for bias is
    added to the interval and taken off the difference before it is tested: the biases may point in opposite ways.
    """
    main = [(job, est) for job, est in zip(jobs, estimates, strict=True) if recommended[job.target] == job.name]
    both = list(combinations(main, 2))
    rows: list[dict[str, Any]] = []
    for (left, one), (right, two) in both:
        stderr = pairs.stderr_of_difference(left, right)
        value, allowed = one.value - two.value, one.allowance + two.allowance
        low, high = normal_interval(value, stderr, 1 - (1 - level) / len(both))
        rows.append(
            {"better": left.target, "than": right.target, "value": value, "stderr": stderr,
             "low": low - allowed, "high": high + allowed, "bias_allowance": allowed}
        )  # fmt: skip
    p = holm([two_sided(max(abs(row["value"]) - row["bias_allowance"], 0.0), row["stderr"]) for row in rows])
    return tuple({**row, "p_value": float(value)} for row, value in zip(rows, p, strict=True))
