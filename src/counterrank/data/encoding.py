"""Columns as a model reads them: labels become indicators, numbers are brought to one scale.

Every fitted model of the package encodes its columns here: reward models, models of propensities
and learned policies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from counterrank.common.arrays import Floats, Summed
from counterrank.data.log import LOGGING, RankingLog
from counterrank.kernels.jit import jit

#: Labels of a category that have an indicator each; more share hashed columns or stay codes.
MOST_LABELS = 20
#: Fibonacci hashing multiplies by this and spreads neighbouring codes.
GOLDEN = 0.6180339887498949
#: Standard deviations: outliers of a column are moved here, since a ridge is no guard against them.
FAR = 8.0
#: Probabilities below this one are as good as none.
RARE = 1e-6


def one_hot(codes: Floats, first: int, last: int) -> Floats:
    """Return indicators (..., last - first) of the codes first..last - 1."""
    return np.asarray(codes[..., None] == np.arange(first, last), dtype=np.float64)


def encoded_features(
    values: Floats, names: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> Floats:
    """Return item features (..., p) as numbers: few labels become indicators, many share hashed ones.

    >>> encoded_features(np.array([[2.0, 1.0]]), ("price", "shop"), {"shop": "abc"}).tolist()
    [[2.0, 1.0, 0.0]]
    """
    columns = []
    for j, name in enumerate(names):
        labels, column = categories.get(name, ()), values[..., j]
        if not labels:
            columns.append(column[..., None])
            continue
        if len(labels) > MOST_LABELS:
            hashed = np.floor((column * GOLDEN) % 1.0 * MOST_LABELS)
            columns.append(one_hot(hashed, 0, MOST_LABELS))
        else:
            # The first label is the baseline, because all indicators would add up to the intercept.
            columns.append(one_hot(column, 1, len(labels)))
    return np.concatenate(columns, axis=-1) if columns else np.zeros((*values.shape[:-1], 0))


def encoded_context(
    context: Floats, names: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> Floats:
    """Return a context (n, d) of named columns as numbers; categories of many labels stay codes."""
    indicated = {n: labels for n, labels in categories.items() if 1 < len(labels) <= MOST_LABELS}
    return encoded_features(context, names, indicated) if indicated else context


def context_columns(batch: RankingLog) -> Floats:
    """Return the context of a batch as numbers (n, d).

    The logger may have known more than the log holds. Given its distribution, the shown items depend
    on nothing else that it knew (a balancing score: Rosenbaum & Rubin 1983), so the logged
    distributions of few items stand for a context that is missing.
    """
    if batch.context is not None and not batch.categories:
        return batch.context
    if batch.context is not None:
        return encoded_context(batch.context, batch.context_names, batch.categories)
    distributions = batch.dists.get(LOGGING)
    if distributions is None or distributions.shape[-1] > MOST_LABELS:
        return np.empty((batch.n, 0))
    logs = np.log(
        np.maximum(distributions if distributions.ndim == 2 else distributions.mean(axis=1), RARE)
    )
    return logs[:, 1:] - logs[:, :1]


@dataclass(frozen=True, slots=True)
class ContextMoments(Summed):
    """Additive first and second moments of the context (d,); NaN counts as missing."""

    count: Floats
    first: Floats
    second: Floats

    @classmethod
    def from_batch(cls, batch: RankingLog) -> "ContextMoments":
        """Return the moments of a batch."""
        values = context_columns(batch)
        present = ~np.isnan(values)
        filled = np.where(present, values, 0.0)
        return cls(present.sum(axis=0).astype(float), filled.sum(axis=0), (filled**2).sum(axis=0))

    @property
    def mean_and_spread(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each column (d,), 1 where it is constant."""
        count = np.maximum(self.count, 1.0)
        mean = self.first / count
        spread = np.sqrt(np.maximum(self.second / count - mean**2, 0.0))
        return mean, np.where(spread > 1e-12, spread, 1.0)


def mean_and_spread(values: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each column (p,); NaN counts as missing."""
    present = ~np.isnan(values)
    count = np.maximum(present.sum(axis=0), 1)
    mean = np.where(present, values, 0.0).sum(axis=0) / count
    deviations = np.where(present, values - mean, 0.0)
    return mean, np.sqrt((deviations**2).sum(axis=0) / count)


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Mean and spread of columns, which make them comparable for a ridge; missing becomes zero."""

    mean: Floats
    spread: Floats
    #: The least value (p,) of columns that are read as logarithms, NaN of others; empty: of all.
    least: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def fitted(cls, values: Floats, *, logs: bool = False) -> "Scaling":
        """Return the scaling of values (N, p); with `logs`, columns like prices become logarithms."""
        least = _orders(values) if logs else np.empty(0)
        mean, spread = mean_and_spread(_logged(values, least))
        # A spread of rounding errors is a constant column.
        flat = spread <= 1e-9 * np.maximum(np.abs(mean), 1.0)
        return cls(mean, np.where(flat, np.inf, spread), least)

    def apply(self, values: Floats) -> Floats:
        """Return (values - mean) / spread, zero where missing or constant, at most FAR from zero."""
        out = np.empty(values.shape)
        shape = (values.size // max(len(self.mean), 1), len(self.mean))
        table = np.ascontiguousarray(_logged(values, self.least), dtype=np.float64).reshape(shape)
        _standardise(table, self.mean, 1.0 / self.spread, FAR, out.reshape(shape))
        return out


def _orders(values: Floats) -> Floats:
    """Return the least value (p,) of columns that are positive, span more than a decade and lean to the right.

    Prices and counts do; their ratios matter, not their differences. Other columns have NaN.

    >>> _orders(np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [40.0, 4.0]]))
    array([ 1., nan])
    """
    out = np.full(values.shape[1], np.nan)
    for j, column in enumerate(values.T):
        numbers = column[~np.isnan(column)]
        if len(numbers) and numbers.min() > 0.0 and numbers.max() > 10.0 * numbers.min():
            deviations = numbers - numbers.mean()
            if (deviations**3).mean() > (deviations**2).mean() ** 1.5:
                out[j] = numbers.min()
    return out


def _logged(values: Floats, least: Floats) -> Floats:
    """Return values (..., p) with logarithms in the columns that have a least value."""
    columns = np.flatnonzero(~np.isnan(least))
    if not len(columns):
        return values
    out = values.copy()
    out[..., columns] = np.log(np.maximum(values[..., columns], least[columns]))
    return out


@jit
def _standardise(values: Floats, mean: Floats, scale: Floats, bound: float, out: Floats) -> None:
    """Write (values - mean) scale (N, p) into out, at most `bound` from zero; missing is zero."""
    for i in range(len(values)):
        for j in range(len(mean)):
            value = (values[i, j] - mean[j]) * scale[j]
            value = 0.0 if np.isnan(value) else value
            out[i, j] = min(max(value, -bound), bound)


@dataclass(frozen=True, slots=True)
class GapScales:
    """How raw columns become features where a missing value is a fact of its own.

    Numbers are scaled by `mean` and `scale`; `categories` are pairs (column, number of labels); the
    columns `missing` have an indicator of their gaps.
    """

    mean: Floats
    scale: Floats
    categories: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]

    def encode(self, raw: Floats) -> Floats:
        """Return (m, d): numbers on one scale, then categories, then gaps."""
        gaps = np.isnan(raw)
        scaled = np.where(np.isfinite(raw), (raw - self.mean) / self.scale, 0.0)
        coded = {j for j, _ in self.categories}
        columns = [scaled[:, [j for j in range(raw.shape[1]) if j not in coded]]]
        for j, size in self.categories:
            codes = np.where(gaps[:, j], -1, np.minimum(np.nan_to_num(raw[:, j]), size - 1))
            columns.append(one_hot(codes, 0, size))
        columns.append(gaps[:, list(self.missing)].astype(np.float64))
        return np.concatenate(columns, axis=1)
