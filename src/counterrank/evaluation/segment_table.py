"""The table of segments: lifts adjusted for how many were looked at, sorted, weak ones marked."""

from collections.abc import Mapping, Sequence
from typing import Any

from counterrank.estimators import Estimate
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.state import PassState
from counterrank.evaluation.thresholds import FAIL, PASS, THRESHOLDS
from counterrank.inference import benjamini_hochberg, critical_value, holm, two_sided


def segment_table(
    total: PassState, main: Sequence[list[Job]], recommended: Mapping[str, str]
) -> tuple[dict[str, Any], ...]:
    """Return a row for each target, column and group, largest lift first within a column.

    p-values are Holm-adjusted, q-values Benjamini-Hochberg, intervals of the lift (`adjusted_low`,
    `adjusted_high`) Bonferroni-adjusted, over all groups of a target.
    """
    rows: list[dict[str, Any]] = []
    for index, group in enumerate(main):
        for job in group:
            if recommended[job.target] != job.name:
                continue
            keys = sorted(total.segments)
            found = [job.plan.estimate(total.segments[key][index]) for key in keys]
            rows += _adjusted(job, keys, found)
    return tuple(sorted(rows, key=lambda row: (row["target"], row["column"], -row["lift"]["value"], row["label"])))


def _adjusted(job: Job, keys: Sequence[tuple[str, str]], found: Sequence[Estimate]) -> list[dict[str, Any]]:
    raw = [two_sided(max(abs(one.lift.value) - one.allowance, 0.0), one.lift.stderr) for one in found]
    rows = []
    for (column, label), one, p, q in zip(keys, found, holm(raw), benjamini_hochberg(raw), strict=True):
        # Wider than the group's own interval by what the number of groups adds to the critical value.
        more = critical_value(1 - (1 - one.level) / len(keys)) - critical_value(one.level)
        low, high = one.lift.low - more * one.lift.stderr, one.lift.high + more * one.lift.stderr
        rows.append(
            {
                "column": column, "label": label, "target": job.target, "estimator": job.name, "n": one.n,
                "value": one.value, "stderr": one.stderr, "low": one.low, "high": one.high,
                "ess": one.ess, "evidence": evidence_of(one), "flags": list(one.flags),
                "lift": {
                    "value": one.lift.value, "stderr": one.lift.stderr, "low": one.lift.low, "high": one.lift.high,
                    "relative": one.lift.relative, "adjusted_low": low, "adjusted_high": high,
                    "p_value": float(p), "q_value": float(q),
                },
            }
        )  # fmt: skip
    return rows


def evidence_of(estimate: Estimate) -> str:
    """Return the evidence level of a group: its rows and effective rows, and any flag of its weights."""
    statuses = {THRESHOLDS["units"].status(estimate.n), THRESHOLDS["ess"].status(estimate.ess)}
    if FAIL in statuses:
        return "insufficient"
    return "reliable" if statuses == {PASS} and not estimate.flags else "directional"
