"""From results by seed to errors: MSE, squared bias, variance, coverage, and differences on the same seeds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats
from counterrank.errors import ConfigError
from counterrank.statistics import means_of

#: Results by column: x (the point or world), seed, estimator, value, low, high, truth, seconds, ...
Rows = Mapping[str, NDArray[Any]]
METRICS = ("mse", "squared_bias", "variance")
_RESAMPLES = 400
#: Fewer seeds do not tell a difference from chance: their tails are not normal yet.
ENOUGH_SEEDS = 100


@dataclass(frozen=True, slots=True)
class PointSummary:
    """Errors of one estimator at one point, with 95 % bands over seeds; `seconds` the median of CPU time."""

    x: Any
    estimator: str
    seeds: int
    metrics: dict[str, float]
    bands: dict[str, tuple[float, float]]
    coverage: float
    width: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Paired:
    """Squared errors of an estimator less those of another on the same seeds.

    `difference` is their mean with a 95 % interval; `closer` the share of seeds with the smaller
    error; `ratio` that of the two MSEs.
    """

    x: Any
    estimator: str
    against: str
    seeds: int
    difference: float
    low: float
    high: float
    closer: float
    ratio: float

    @property
    def beyond_chance(self) -> bool:
        """Whether enough seeds tell the two apart."""
        return self.seeds >= ENOUGH_SEEDS and not self.low <= 0.0 <= self.high


def cells(rows: Rows) -> Iterator[tuple[Any, str, Rows]]:
    """Yield each point and estimator with its rows, in the order they were run."""
    for x in dict.fromkeys(rows["x"].tolist()):
        for name in dict.fromkeys(rows["estimator"].tolist()):
            here = (rows["x"] == x) & (rows["estimator"] == name)
            if here.any():
                yield x, name, {key: values[here] for key, values in rows.items()}


def summarise(
    rows: Rows, *, common_truth: bool = False, relative: bool = True
) -> list[PointSummary]:
    """Return a summary for each point and estimator.

    `common_truth`: one world at each x, so V is the mean of the seeds' true values, as in the paper;
    otherwise each seed has its own. `relative` divides errors by V.
    """
    common = {}
    for x in set(rows["x"].tolist()):
        here = rows["x"] == x
        # A seed counts once, however many estimators ran on it.
        _, first = np.unique(rows["seed"][here], return_index=True)
        common[x] = float(rows["truth"][here][first].mean())
    found = []
    for x, name, own in cells(rows):
        truth = np.full(len(own["truth"]), common[x]) if common_truth else own["truth"]
        found.append(_summary(x, name, own, truth, np.abs(truth) if relative else np.ones(1)))
    return found


def _summary(x: Any, name: str, rows: Rows, truth: Floats, scale: Floats) -> PointSummary:
    errors = (rows["value"] - truth) / scale
    # Bands are part of what is written, and the same results give the same bytes.
    rng = np.random.default_rng([len(errors), 13])
    resampled = metrics(errors[rng.integers(0, len(errors), size=(_RESAMPLES, len(errors)))])
    bands = {
        m: tuple(np.quantile(values, [0.025, 0.975]).tolist()) for m, values in resampled.items()
    }
    middle, half = (rows["low"] + rows["high"]) / 2, (rows["high"] - rows["low"]) / 2
    # A truth that is itself an estimate, of a replay, is known to its own error only.
    known = 1.959964 * rows["truth_stderr"] if "truth_stderr" in rows else 0.0
    return PointSummary(
        x=x,
        estimator=name,
        seeds=len(errors),
        metrics={m: float(v[0]) for m, v in metrics(errors[None]).items()},
        bands=bands,
        coverage=float((np.abs(middle - truth) <= np.hypot(half, known)).mean()),
        width=float(np.mean(2 * half / scale)),
        seconds=float(np.median(rows["seconds"])),
    )


def metrics(errors: Floats) -> dict[str, Floats]:
    """Errors (B, seeds) to each metric (B,): mse = squared bias + variance."""
    bias = errors.mean(axis=1)
    # The variance is divided by n, not n - 1: then bias and variance add up to the MSE exactly.
    return dict(zip(METRICS, ((errors**2).mean(axis=1), bias**2, errors.var(axis=1)), strict=True))


def paired(rows: Rows, against: str) -> list[Paired]:
    """Return the differences of squared errors to those of the estimator `against`, seed by seed."""
    errors = {(x, name): _squares(own) for x, name, own in cells(rows)}
    if not any(name == against for _, name in errors):
        names = ", ".join(dict.fromkeys(rows["estimator"].tolist()))
        raise ConfigError(f"nothing can be paired with '{against}': there are results of {names}")
    found = []
    for (x, name), own in errors.items():
        other = errors.get((x, against), {})
        common = sorted(own.keys() & other.keys())
        if name == against or not common:
            continue
        a, b = (np.array([some[seed] for seed in common]) for some in (own, other))
        (difference,) = means_of([a - b], None)
        low, high = difference.interval(0.95) if len(common) > 1 else (np.nan, np.nan)
        ratio = float(a.mean() / b.mean()) if b.any() else np.nan
        closer = float((a < b).mean())
        found.append(
            Paired(x, name, against, len(common), difference.value, low, high, closer, ratio)
        )
    return found


def _squares(rows: Rows) -> dict[int, float]:
    """Return the squared error of each seed, relative to its own V squared."""
    squares = ((rows["value"] - rows["truth"]) / rows["truth"]) ** 2
    return dict(zip(rows["seed"].tolist(), squares.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts.

    >>> print(TextTable(("a", "b"), [("1", "2")]).markdown(), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """

    head: Sequence[str]
    lines: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rows = [f"| {' | '.join(line)} |" for line in (self.head, *self.lines)]
        table = "\n".join([rows[0], f"|{'---|' * len(self.head)}", *rows[1:]]) + "\n"
        return f"{table}\n{self.note}\n" if self.note else table


def grid(title: str, found: Iterable[tuple[str, Any, str]]) -> TextTable:
    """Return a table of (estimator, point, text): a line an estimator, a column a point."""
    texts = {(name, x): text for name, x, text in found}
    points = list(dict.fromkeys(x for _, x in texts))
    names = dict.fromkeys(name for name, _ in texts)
    lines = [(name, *(texts.get((name, x), "") for x in points)) for name in names]
    return TextTable((title, *(x if isinstance(x, str) else f"{x:g}" for x in points)), lines)
