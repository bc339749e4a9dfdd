"""Numbers about weights, what they mean in words, and the rows that move an estimate most."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.common.messages import Message
from counterrank.common.records import Record, optional, unequal
from counterrank.common.texts import in_percent, in_z
from counterrank.estimators.weights.moments import (
    BINS,
    BINS_PER_OCTAVE,
    LOWEST_EXPONENT,
    Moments,
)
from counterrank.estimators.weights.thresholds import THRESHOLDS
from counterrank.statistics import benjamini_hochberg

#: Moments whose tests are remembered: flags, reports and verdicts ask for them in turn.
_LATEST = 64
_OCTAVE, _STEP = np.divmod(np.arange(BINS - 1), BINS_PER_OCTAVE)
#: The lower edges (BINS,) of the weight histogram; the first bin starts at zero.
BIN_EDGES = np.append(0.0, 2.0 ** (_OCTAVE + LOWEST_EXPONENT) * (1 + _STEP / BINS_PER_OCTAVE))


def survival(moments: Moments) -> tuple[Floats, Floats]:
    """Return weights v and the share of rows whose mean |weight| is at least v, at every bin that holds a row."""
    counts = moments.histogram[0]
    used = counts > 0
    share = np.cumsum(counts[::-1])[::-1] / moments.n
    return BIN_EDGES[used], share[used]


def share_of_rows_carrying(moments: Moments, share: float = 0.9) -> float:
    """Return the smallest share of rows whose weights add up to `share` of all weight."""
    counts, sums = moments.histogram[:, ::-1]  # heaviest first
    total = sums.sum()
    if total <= 0:
        return 0.0
    carried = np.cumsum(sums) / total
    # The shares may add up to a little less than one.
    last = min(int(np.searchsorted(carried, share)), len(carried) - 1)
    before = carried[last - 1] if last else 0.0
    inside = (share - before) * total / sums[last] if sums[last] > 0 else 0.0
    return float((counts[:last].sum() + inside * counts[last]) / moments.n)


@lru_cache(_LATEST)
def tail_index(moments: Moments) -> float:
    """Return the Pareto shape k-hat of the largest weights: above 0.5 the variance, above 1 the mean may not exist.

    A generalised Pareto fit (Zhang & Stephens 2009) to the largest min(n/5, 3 sqrt(n)) rows, shrunk
    to 0.5 by ten rows' worth, as Vehtari et al. (2024) do. Rows come in bins of an eighth of an
    octave, each taken at its mean. Zero where the tail holds fewer than three different weights.
    """
    counts, sums = moments.histogram
    # Vehtari et al.'s tail: few enough rows to be tail, enough to fit two parameters.
    tail_rows = max(min(moments.n / 5, 3 * np.sqrt(moments.n)), 1.0)
    above = np.cumsum(counts[::-1])[::-1]  # rows at or above each bin
    reaching = np.flatnonzero(above >= tail_rows)
    start = max(int(reaching[-1]), 1) if len(reaching) else 1
    tail = (counts > 0) & (np.arange(len(counts)) >= start)
    threshold = BIN_EDGES[start]
    size, excess = counts[tail], sums[tail] / np.maximum(counts[tail], 1.0) - threshold
    apart = excess > 1e-12 * threshold
    if apart.sum() < 3 or size.sum() < 5:
        return 0.0
    rows = float(size[apart].sum())
    # Their weak prior: ten rows that say 0.5.
    return (rows * _pareto_shape(excess[apart], size[apart]) + 5.0) / (rows + 10.0)


def _pareto_shape(excess: Floats, size: Floats) -> float:
    """Return the posterior-mean shape for ascending excesses (m,) that occur `size` (m,) times each."""
    rows = size.sum()
    grid = 30 + int(np.sqrt(rows))
    quartile = np.interp(0.25, np.cumsum(size) / rows, excess)
    spacing = 1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
    # Zhang & Stephens' grid: data-dependent, and every point has a finite likelihood.
    theta = 1 / excess[-1] + spacing / (3 * quartile)  # (grid,), all below 1 / largest excess
    shape = np.log1p(-np.outer(theta, excess)) @ size / rows
    profile = rows * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(profile - profile.max())
    best = float(theta @ weight / weight.sum())
    return float(np.log1p(-best * excess) @ size / rows)


def effective_rows(moments: Moments) -> float:
    """Return (sum w)^2 / sum w^2 of the rows' mean weights (Kish 1965): n when all weights are equal."""
    weight, square = moments.row_mean("weight"), moments.row_mean("weight2")
    return float(moments.size * _share(np.square(weight), np.array(square)))


def effective_rows_by_position(moments: Moments) -> Floats:
    """Return (sum w_k)^2 / sum w_k^2 (K,)."""
    return moments.size * _share(moments.mean("w") ** 2, moments.mean("ww"))


def _share(numerator: Floats, denominator: Floats) -> Floats:
    """Return part / whole, zero where there is nothing."""
    return np.divide(numerator, denominator, out=np.zeros_like(denominator), where=denominator > 0)


@dataclass(frozen=True, slots=True)
class MeanWeightTest:
    """Is E[w_k] = 1 at each position? Means, z statistics and p-values (K,)."""

    mean: Floats
    z: Floats
    p_values: Floats

    @property
    def p_value(self) -> float:
        """The family-wise p-value (Holm 1979)."""
        return float(min(1.0, len(self.p_values) * self.p_values.min()))

    @property
    def passed(self) -> bool:
        """No position contradicts E[w] = 1 at the 1 % level after adjustment."""
        return self.p_value > 0.01

    @property
    def adjusted(self) -> Floats:
        """P-values (K,) adjusted for the false-discovery rate over positions (Benjamini & Hochberg 1995)."""
        return benjamini_hochberg(self.p_values)


@lru_cache(_LATEST)
def mean_weight_test(moments: Moments) -> MeanWeightTest:
    """Test E[w_k] = 1 at every position: z_k = (mean w_k - 1) / se, by unit where rows belong to units.

    A single row or unit shows no spread, and so cannot contradict it: z = 0.
    """
    from scipy import special

    mean = moments.mean("w")
    error = moments.weight_errors
    off = np.where(np.isnan(error), 0.0, mean - 1.0)
    # No spread and a mean that is not one is certain: z is infinite, not unknown.
    z = np.divide(off, error, out=np.where(np.abs(off) > 1e-9, np.inf, 0.0), where=error > 0)
    return MeanWeightTest(mean, z, 2 * special.ndtr(-np.abs(z)))


def largest_weight_share(moments: Moments) -> float:
    """Return max over positions of the largest weight's share of all weight."""
    return float(_share(moments.peaks[:-1], np.abs(moments.mean("w")) * moments.size).max())


def one_unit() -> Message:
    """Return the flag of what a single ranking or unit can tell."""
    text = "a single ranking or unit shows no spread; there is no standard error"
    return Message("one-unit", text)


def weight_flags(moments: Moments) -> tuple[Message, ...]:
    """Return what a careful analyst would say about these weights."""
    flags = []
    ess_limit, tail_limit, share_limit = (
        THRESHOLDS["ess"].directional,
        THRESHOLDS["tail"].reliable,
        THRESHOLDS["concentration"].reliable,
    )
    if (moments.n if moments.units is None else moments.units) < 2:
        flags.append(one_unit())
    elif (ess := effective_rows(moments)) < ess_limit:
        text = (
            f"only {ess:.0f} of {moments.n} rows carry information; the interval may be too short"
        )
        flags.append(Message("low-ess", text))
    tail = tail_index(moments)
    if tail > tail_limit:
        text = f"the weights' tail index is {tail:.2f} (above {tail_limit}); rare rows can move the estimate"
        flags.append(Message("heavy-tail", text))
    share = largest_weight_share(moments)
    if share > share_limit and moments.n > 1 / share_limit:
        text = f"a single ranking carries {in_percent(share, 0)} of the weight"
        flags.append(Message("one-row", text))
    test = mean_weight_test(moments)
    if not test.passed:
        worst = int(abs(test.z).argmax())
        text = (
            f"weights average {test.mean[worst]:.3g} instead of 1 at position {worst + 1} "
            f"({in_z(test.z[worst])}); propensities or target probabilities may be wrong"
        )
        flags.append(Message("mean-weight", text))
    return tuple(flags)


@dataclass(frozen=True, slots=True)
class ItemShare(Record):
    """An item and the share of a policy's probability on it."""

    action: str
    share: float


@dataclass(frozen=True, slots=True)
class Support(Record):
    """A target's probability on items that the logger never or rarely shows, by position."""

    unlogged_share: tuple[float, ...] = ()
    rare_share: tuple[float, ...] = ()
    #: Items shown with a lower probability than this are rare.
    rare_below: float = 1e-3
    #: The items that miss most.
    actions: tuple[ItemShare, ...] = ()
    #: Rows that were looked at.
    rows: int = 0

    def flaw(self) -> tuple[str, str] | None:
        """Return the list that is longer or shorter than its twin."""
        return unequal(self, "unlogged_share", "rare_share")


@dataclass(frozen=True, slots=True)
class Survival(Record):
    """The share of rows with at least each weight."""

    weight: tuple[float, ...] = ()
    share: tuple[float, ...] = ()

    def flaw(self) -> tuple[str, str] | None:
        """Return the list that is longer or shorter than its twin."""
        return unequal(self, "weight", "share")


@dataclass(frozen=True, slots=True)
class TopRow(Record):
    """A row of the log that moves an estimate much: its number, and its part of the sum."""

    row: int
    total: float


@dataclass(frozen=True, slots=True)
class WeightReport(Record):
    """Numbers about the weights behind an estimate."""

    n: int = 0
    #: Effective rows (Kish).
    ess: float = float("nan")
    ess_by_position: tuple[float, ...] = ()
    #: Share of all weight on one ranking.
    largest_share: float = float("nan")
    #: Pareto k-hat.
    tail_index: float = float("nan")
    #: Shares of rows that carry 90 % and half of the weight.
    rows_carrying_90: float = float("nan")
    rows_carrying_50: float = float("nan")
    #: The test of E[w_k] = 1: means and z by position, a p-value over all positions (Holm) and one of
    #: each (Benjamini-Hochberg).
    mean_weight: tuple[float, ...] = ()
    mean_weight_z: tuple[float, ...] = ()
    mean_weight_p: float = float("nan")
    mean_weight_adjusted: tuple[float, ...] = ()
    survival: Survival = field(default_factory=Survival)
    #: None where it is not known.
    support: Support | None = None
    #: What is wrong with the weights, in words.
    flags: tuple[str, ...] = ()
    #: The rows with the largest |total|, where an estimate has one total a row.
    top_rows: tuple[TopRow, ...] = optional(default=())

    def flaw(self) -> tuple[str, str] | None:
        """Return the list that is longer or shorter than its twin."""
        return unequal(self, "mean_weight", "mean_weight_z")

    def __repr__(self) -> str:
        return f"WeightReport(n={self.n}, ess={self.ess:.4g}, tail_index={self.tail_index:.3g})"


def weight_report(
    moments: Moments, *, support: Support | None = None, top: "TopRows | None" = None
) -> WeightReport:
    """Return the report on the weights behind some moments.

    >>> import numpy as np
    >>> from counterrank.estimators.weights.moments import moments_of
    >>> w = np.array([[0.0], [0.0], [1.0], [3.0]])
    >>> report = weight_report(moments_of(w, w, w, np.ones(1))[0])
    >>> report.ess, report.largest_share, report.survival.share
    (1.6, 0.75, (1.0, 0.5, 0.25))
    """
    test = mean_weight_test(moments)
    levels, share = survival(moments)
    return WeightReport(
        n=moments.n,
        ess=effective_rows(moments),
        ess_by_position=tuple(effective_rows_by_position(moments).tolist()),
        largest_share=largest_weight_share(moments),
        tail_index=tail_index(moments),
        rows_carrying_90=share_of_rows_carrying(moments, 0.9),
        rows_carrying_50=share_of_rows_carrying(moments, 0.5),
        mean_weight=tuple(test.mean.tolist()),
        mean_weight_z=tuple(test.z.tolist()),
        mean_weight_p=test.p_value,
        mean_weight_adjusted=tuple(test.adjusted.tolist()),
        survival=Survival(tuple(levels.tolist()), tuple(share.tolist())),
        support=support,
        flags=weight_flags(moments),
        top_rows=() if top is None else top.as_table(),
    )


#: How many rows are kept, and how many of a batch share a peak by which they are looked for.
KEPT, _TOGETHER = 10, 16


@dataclass(frozen=True, slots=True, eq=False)
class TopRows:
    """Indices in the whole log and totals of the rows with the largest |total|, the largest first; m <= 10 each."""

    rows: Ints
    totals: Floats

    def as_table(self) -> tuple[TopRow, ...]:
        """Return the rows as a table."""
        return tuple(map(TopRow, self.rows.tolist(), self.totals.tolist()))

    def __add__(self, other: Self) -> Self:
        rows = np.concatenate([self.rows, other.rows])
        return type(self)(*_largest(rows, np.concatenate([self.totals, other.totals])))


def top_rows_of(rows: slice | Ints, totals: Floats) -> TopRows:
    """Return the top of one batch: `rows` as `RankingLog.rows` gives them, `totals` (n,) as a plan's partial does.

    >>> a = top_rows_of(slice(0, 3), np.array([1.0, -5.0, 2.0]))
    >>> both = a + top_rows_of(slice(3, 5), np.array([3.0, 0.0]))
    >>> both.rows.tolist(), both.totals.tolist()
    ([1, 3, 2, 0, 4], [-5.0, 3.0, 2.0, 1.0, 0.0])
    """
    near = np.arange(len(totals))
    if len(totals) > KEPT:
        # Some rows far apart share a peak, and the tenth of the peaks is no larger than the tenth of
        # all: only rows that reach it are sorted. What ties with it goes on, so that ties are settled
        # by row number and not by the cut of the log.
        group_count = max(len(totals) // _TOGETHER, KEPT)
        size = np.abs(totals)
        parts = size[: len(size) // group_count * group_count].reshape(-1, group_count)
        line = np.partition(parts.max(axis=0), -KEPT)[-KEPT]
        near = np.flatnonzero(size >= line)
    return TopRows(
        *_largest(near + rows.start if isinstance(rows, slice) else rows[near], totals[near])
    )


def _largest(rows: Ints, totals: Floats) -> tuple[Ints, Floats]:
    order = np.lexsort((rows, -np.abs(totals)))[:KEPT]
    return rows[order], totals[order]
