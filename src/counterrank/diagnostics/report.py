"""What to say about the weights behind an estimate: flags, a report as data, and the rows that move
it most.
"""

from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.diagnostics import weights
from counterrank.diagnostics.thresholds import THRESHOLDS
from counterrank.moments import Moments

ONE_UNIT = "one-unit: a single ranking or unit shows no spread; there is no standard error"


def units(moments: Moments) -> int:
    """Return the number of independent parts: buckets of units when rows are clustered, else rows."""
    return moments.n if moments.buckets is None else int((moments.buckets[:, -1] > 0).sum())


def weight_flags(moments: Moments) -> tuple[str, ...]:
    """Return what a careful analyst would say about these weights."""
    found = []
    few, heavy, large = (
        THRESHOLDS["ess"].directional,
        THRESHOLDS["tail"].reliable,
        THRESHOLDS["concentration"].reliable,
    )
    if units(moments) < 2:
        found.append(ONE_UNIT)
    elif (ess := weights.effective_rows(moments)) < few:
        found.append(
            f"low-ess: only {ess:.0f} of {moments.n} rows carry information; the interval may be "
            "too short"
        )
    tail = weights.tail_index(moments)
    if tail > heavy:
        found.append(
            f"heavy-tail: the weights' tail index is {tail:.2f} (above {heavy}); rare rows can "
            "move the estimate"
        )
    share = weights.largest_weight_share(moments)
    if share > large and moments.n > 1 / large:
        found.append(f"one-row: a single ranking carries {share:.0%} of the weight")
    test = weights.mean_weight_test(moments)
    if not test.passed:
        worst = int(abs(test.z).argmax())
        found.append(
            f"mean-weight: weights average {test.mean[worst]:.3g} instead of 1 at position "
            f"{worst + 1} "
            f"(z = {test.z[worst]:.1f}); propensities or target probabilities may be wrong"
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WeightReport:
    """Numbers about weights; `flags` say in words what is wrong with them.

    `ess` effective rows (Kish); `largest_share` of all weight on one ranking; `tail_index` Pareto
    k-hat; `rows_carrying_90` share of rows that carry 90 % of the weight; `mean_weight*` the test
    of E[w_k] = 1, with p-values over all positions (`_p`, Holm) and of each (`_adjusted`,
    Benjamini-Hochberg); `survival` the share of rows with at least a weight; `support` the target's
    mass on items the logger hardly shows, where it is known.
    """

    n: int
    ess: float
    ess_by_position: tuple[float, ...]
    largest_share: float
    tail_index: float
    rows_carrying_90: float
    rows_carrying_50: float
    mean_weight: tuple[float, ...]
    mean_weight_z: tuple[float, ...]
    mean_weight_p: float
    mean_weight_adjusted: tuple[float, ...]
    survival: dict[str, tuple[float, ...]]
    support: dict[str, Any] | None = None
    flags: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def weight_report(moments: Moments, *, support: dict[str, Any] | None = None) -> WeightReport:
    """Return the report on the weights behind some moments.

    >>> import numpy as np
    >>> from counterrank.moments import moments_of
    >>> w = np.array([[0.0], [0.0], [1.0], [3.0]])
    >>> report = weight_report(moments_of(w, w, w, np.ones(1))[0])
    >>> report.ess, report.largest_share, report.survival["share"]
    (1.6, 0.75, (1.0, 0.5, 0.25))
    """
    test = weights.mean_weight_test(moments)
    levels, share = weights.survival(moments)
    return WeightReport(
        n=moments.n,
        ess=weights.effective_rows(moments),
        ess_by_position=tuple(weights.effective_rows_by_position(moments).tolist()),
        largest_share=weights.largest_weight_share(moments),
        tail_index=weights.tail_index(moments),
        rows_carrying_90=weights.share_of_rows_carrying(moments, 0.9),
        rows_carrying_50=weights.share_of_rows_carrying(moments, 0.5),
        mean_weight=tuple(test.mean.tolist()),
        mean_weight_z=tuple(test.z.tolist()),
        mean_weight_p=test.p_value,
        mean_weight_adjusted=tuple(test.adjusted.tolist()),
        survival={"weight": tuple(levels.tolist()), "share": tuple(share.tolist())},
        support=support,
        flags=weight_flags(moments),
    )


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: How many rows are kept, and in how many stretches of a batch they are looked for.
KEPT, _STRETCHES = 10, 128


@dataclass(frozen=True, slots=True, eq=False)
class TopRows:
    """Indices in the whole log and totals of the rows with the largest |total|, the largest first;
    m <= 10 each.
    """

    rows: Ints
    totals: Floats

    def __add__(self, other: Self) -> Self:
        rows = np.concatenate([self.rows, other.rows])
        return type(self)(*_largest(rows, np.concatenate([self.totals, other.totals])))


def top_rows_of(rows: slice | Ints, totals: Floats) -> TopRows:
    """Return the top of one batch: `rows` as `RankingLog.rows` gives them, `totals` (n,) as a
    plan's partial does.

    >>> a = top_rows_of(slice(0, 3), np.array([1.0, -5.0, 2.0]))
    >>> both = a + top_rows_of(slice(3, 5), np.array([3.0, 0.0]))
    >>> both.rows.tolist(), both.totals.tolist()
    ([1, 3, 2, 0, 4], [-5.0, 3.0, 2.0, 1.0, 0.0])
    """
    near = np.arange(len(totals))
    if len(totals) > KEPT:
        # The tenth of the largest of short stretches is no larger than the tenth of all. What ties
        # with it goes on, so that ties are settled by row number and not by the cut of the log.
        size, parts = np.abs(totals), min(len(totals), _STRETCHES)
        peaks = size[: len(size) // parts * parts].reshape(parts, -1).max(axis=1)
        near = np.flatnonzero(size >= np.partition(peaks, -KEPT)[-KEPT])
    return TopRows(
        *_largest(near + rows.start if isinstance(rows, slice) else rows[near], totals[near])
    )


def _largest(rows: Ints, totals: Floats) -> tuple[Ints, Floats]:
    order = np.lexsort((rows, -np.abs(totals)))[:KEPT]
    return rows[order], totals[order]
