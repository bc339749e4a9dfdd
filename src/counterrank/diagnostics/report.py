"""WeightReport: everything the moments say about the weights of one estimate, as data."""

from dataclasses import asdict, dataclass
from typing import Any

from counterrank.diagnostics import weights
from counterrank.diagnostics.flags import weight_flags
from counterrank.moments import Moments


@dataclass(frozen=True, slots=True)
class WeightReport:
    """Numbers about weights; `flags` say in words what is wrong with them.

    `ess` effective rows (Kish); `largest_share` of all weight on one ranking; `tail_index` Pareto k-hat;
    `rows_carrying_90` share of rows that carry 90 % of the weight; `mean_weight*` the test of E[w_k] = 1, with
    p-values over all positions (`_p`, Holm) and of each (`_adjusted`, Benjamini-Hochberg); `survival` the share of
    rows with at least a weight; `support` the target's mass on items the logger hardly shows, where it is known.
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
        return asdict(self)


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
