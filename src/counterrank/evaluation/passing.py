"""The one pass over the log: all estimators, targets and segments at once."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from counterrank.diagnostics import TopRows, top_rows_of
from counterrank.estimators import View
from counterrank.evaluation.jobs import Job
from counterrank.evaluation.segments import Cut
from counterrank.evaluation.state import PassState, totals_of
from counterrank.log import RankingLog
from counterrank.readers import fingerprint_of


def make_partial(
    groups: Sequence[list[Job]], main: Sequence[list[Job]], cuts: Sequence[Cut], *, by_unit: bool
) -> Callable[[RankingLog], PassState]:
    """Return the function that turns a batch into its part of the sums."""

    def partial(batch: RankingLog) -> PassState:
        views: dict[str, View] = {}
        columns = [batch.reward @ batch.position_weights]
        states: list[Any] = []
        tops: list[TopRows | None] = []
        for group in groups:
            view = views.setdefault(group[0].target, View(batch, group[0].target))
            part = group[0].plan.partial(view)
            states.append(part.state)
            columns.extend(part.totals.T)
            tops.append(top_rows_of(batch.rows, part.totals[:, 0]) if part.totals.shape[1] == 1 else None)
        segments = {}
        for cut in cuts:
            for label, rows in cut.groups(batch):
                piece = batch.take(rows)
                segments[(cut.column, label)] = tuple(
                    group[0].plan.partial(View(piece, group[0].target)).state for group in main
                )
        # Weights too large for a number are reported by the estimator they belong to.
        with np.errstate(over="ignore", invalid="ignore"):
            totals = totals_of(np.stack(columns, axis=1), batch.bucket if by_unit else None)
        return PassState(tuple(states), totals, segments, fingerprint_of(batch), tuple(tops))

    return partial
