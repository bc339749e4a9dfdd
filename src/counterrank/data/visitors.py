"""Do units tell visitors apart? Row ids for units say that all rows are independent.

Contexts that come again and again say otherwise.
"""

import numpy as np

from counterrank.data.log import RankingLog

#: Units are row ids where this share of the rows has one of its own.
_OWN = 0.9
#: Contexts recur where each has so many rows on average; fewer different ones than this may be a
#: scale of few steps.
_ROWS_EACH, _FEWEST = 3, 64
#: Numbers with more decimals are measured, not counted: two visitors do not share them by chance.
_DECIMALS = 3


def units_are_rows(log: RankingLog) -> bool:
    """Whether nearly every row has a unit of its own."""
    return log.unit is not None and len(np.unique(log.unit)) >= _OWN * log.n


def shared_contexts(log: RankingLog) -> int | None:
    """Return how many contexts the rows share although nearly each has a unit of its own.

    None where units and contexts agree.

    Only numbers with many decimals count: those of different visitors differ.
    """
    if log.context is None or not units_are_rows(log):
        return None
    most = log.n // _ROWS_EACH
    shared = [
        column
        for name, column in zip(log.context_names, log.context.T, strict=True)
        if name not in log.categories and _measured(column) and len(np.unique(column)) <= most
    ]
    if not shared:
        return None
    contexts = len(np.unique(np.stack(shared, axis=1), axis=0))
    return contexts if _FEWEST <= contexts <= most else None


def _measured(column: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> bool:
    known = column[np.isfinite(column)]
    return len(known) > 0 and float((known != np.round(known, _DECIMALS)).mean()) > 0.5
