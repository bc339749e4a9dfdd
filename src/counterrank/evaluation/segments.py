"""Groups of a log: how it is cut, and the table of their lifts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics import FAILED, PASSED, THRESHOLDS, by_label, segmentation
from counterrank.errors import ConfigError
from counterrank.estimators import Estimate
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.options import TREE
from counterrank.evaluation.widening import at_any_time
from counterrank.inference import Looks, benjamini_hochberg, holm
from counterrank.log import RankingLog


class Cut(Protocol):
    """A way to cut the log into groups."""

    @property
    def column(self) -> str:
        """The name the groups are listed under."""

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""


#: Groups of a tree that are listed; the rest stand together.
TREE_GROUPS = 8
OTHERS = "other behaviour"


@dataclass(frozen=True)
class TreeGroups:
    """The groups of a fitted behaviour tree: rankings with the same model at every position."""

    model: Any
    kept: tuple[str, ...] = ()
    column: str = TREE

    def groups(self, batch: RankingLog) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield (label, rows) of a batch."""
        names = self.names(batch)
        yield from by_label(
            np.where(np.isin(names, self.kept), names, OTHERS) if self.kept else names
        )

    def names(self, batch: RankingLog) -> NDArray[np.str_]:
        """Return the models of each row (n,): one name when it is the same at all positions, else
        all of them.
        """
        forest = self.model.together
        # Each row by the forest that has not seen its unit, as in the estimate.
        choice = forest.choice(batch.context, batch.n, batch.bucket)  # (n, K)
        patterns, back = np.unique(choice, axis=0, return_inverse=True)
        labels = [[forest.candidates[m].name for m in row] for row in patterns]
        texts = [row[0] if len(set(row)) == 1 else ", ".join(row) for row in labels]
        return np.array(texts)[np.asarray(back).reshape(-1)]


def cuts_of(
    names: Sequence[str], sample: Callable[[], RankingLog], plans: Sequence[Any]
) -> list[Cut]:
    """Return how to cut by each name; `sample` is called only when a column has to be looked at."""
    return [
        tree_groups(plans, sample()) if name == TREE else segmentation(sample(), name)
        for name in names
    ]


def tree_groups(plans: Sequence[Any], sample: RankingLog) -> TreeGroups:
    """Return the largest groups of the behaviour tree that one of the plans fitted."""
    for plan in plans:
        model = getattr(plan, "behavior_model", None)
        if model is not None and hasattr(model, "together"):
            found, counts = np.unique(TreeGroups(model).names(sample), return_counts=True)
            largest = found[np.argsort(-counts, kind="stable")[:TREE_GROUPS]]
            return TreeGroups(model, tuple(str(name) for name in largest))
    raise ConfigError(
        "segment 'tree' needs a fitted behaviour tree; run 'aips' too, on a log with context "
        "columns"
    )


def segment_table(
    sums: Mapping[tuple[str, str], tuple[Any, ...]],
    main: Sequence[list[Job]],
    recommended: Mapping[str, str],
    looks: Looks,
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
            keys = sorted(sums)
            found = [at_any_time(job.plan.estimate(sums[key][index]), looks) for key in keys]
            rows += _adjusted(job, keys, found, looks)
    return tuple(
        sorted(
            rows,
            key=lambda row: (
                row["target"],
                row["column"],
                -np.nan_to_num(row["lift"]["value"], nan=-np.inf),
                row["label"],
            ),
        )
    )


def _adjusted(
    job: Job, keys: Sequence[tuple[str, str]], found: Sequence[Estimate], looks: Looks
) -> list[dict[str, Any]]:
    raw = [
        looks.p_value(
            max(abs(one.lift.value) - one.allowance, 0.0), one.lift.stderr, one.n, one.level
        )
        for one in found
    ]
    rows = []
    for (column, label), one, p, q in zip(
        keys, found, holm(raw), benjamini_hochberg(raw), strict=True
    ):
        # Wider than the group's own interval by what the number of groups adds to the critical
        # value.
        more = looks.critical(1 - (1 - one.level) / len(keys), one.n) - looks.critical(
            one.level, one.n
        )
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
    """Return the evidence level of a group: its rows and effective rows, and any flag of its
    weights.
    """
    if not estimate.estimable:
        return "insufficient"
    statuses = {THRESHOLDS["units"].status(estimate.n), THRESHOLDS["ess"].status(estimate.ess)}
    if FAILED in statuses:
        return "insufficient"
    return "reliable" if statuses == {PASSED} and not estimate.flags else "directional"
