"""From results by seed to errors with intervals: MSE, squared bias, variance, coverage, ratios on the same seeds.

Intervals are for 95 %, over seeds, at any number of seeds from two on. Those of positive numbers (an MSE, a
ratio of two) are of their logarithm and allow for seeds that carry most of the error (`ratio_of_means`): they
widen with its concentration, up to no bound at all. No interval shows an error that none of its seeds has.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, stdtrit

from counterrank.common.arrays import Bools, Floats
from counterrank.common.errors import ConfigError
from counterrank.statistics import Interval, means_of

#: Results by column: x (the point or world), seed, estimator, value, low, high, truth, seconds, ...
Rows = Mapping[str, NDArray[Any]]
#: Numbers by name of one estimator at one point, or of two.
Summary = dict[str, Any]
METRICS = ("mse", "squared_bias", "variance")
LEVEL = 0.95


def cells(rows: Rows) -> Iterator[tuple[Any, str, Rows]]:
    """Yield each point and estimator with its rows, in the order they were run."""
    for x in dict.fromkeys(rows["x"].tolist()):
        for name in dict.fromkeys(rows["estimator"].tolist()):
            in_cell = (rows["x"] == x) & (rows["estimator"] == name)
            if in_cell.any():
                yield x, name, {key: values[in_cell] for key, values in rows.items()}


def summarise(rows: Rows, *, common_truth: bool = False, relative: bool = True) -> list[Summary]:
    """Return the errors of each estimator at each point (`x`), from the `seeds` with a value.

    Each metric has a 95 % interval over seeds (`mse_low`, `mse_high`); `seconds` is the median of CPU time.
    `refused` counts seeds without a value, and `reason` is their most frequent one.
    `common_truth`: one world at each x, so V is the mean of the seeds' true values, as in the paper;
    otherwise each seed has its own. `relative` divides errors by V.
    """
    summaries = []
    for x, name, cell in cells(rows):
        truth = np.full_like(cell["truth"], cell["truth"].mean()) if common_truth else cell["truth"]
        answered = np.isfinite(cell["value"])
        scale = np.abs(truth) if relative else np.ones(len(truth))
        errors = ((cell["value"] - truth) / scale)[answered]
        middle, half = (cell["low"] + cell["high"]) / 2, (cell["high"] - cell["low"]) / 2
        # A truth that is itself an estimate, of a replay, is known to its own error only.
        truth_half = 1.959964 * cell["truth_stderr"] if "truth_stderr" in cell else 0.0
        held = (np.abs(middle - truth) <= np.hypot(half, truth_half))[answered]
        reasons = Counter(cell["reason"][~answered].tolist() if "reason" in cell else ())
        summaries.append(
            {
                "x": x,
                "estimator": name,
                "seeds": len(errors),
                "refused": int((~answered).sum()),
                "reason": reasons.most_common(1)[0][0] if reasons else "",
                **_errors(errors),
                **_share("coverage", held),
                "width": _mean((2 * half / scale)[answered]),
                "seconds": float(np.median(cell["seconds"])),
            }
        )
    return summaries


def _mean(values: Floats) -> float:
    return float(np.mean(values)) if len(values) else math.nan


def _errors(errors: Floats) -> Summary:
    """Return MSE = squared bias + variance of errors (seeds,), each with its interval."""
    if not len(errors):
        return {f"{name}{end}": math.nan for name in METRICS for end in ("", "_low", "_high")}
    mean = errors.mean()
    # Two seeds are equally far from their mean, whatever they are.
    variance, band = ratio_of_means((errors - mean) ** 2)
    low, high = means_of([errors], None)[0].interval(LEVEL)
    bias = (0.0 if low <= 0.0 <= high else min(low**2, high**2), max(low**2, high**2))
    return {
        **named("mse", *ratio_of_means(errors**2)),
        **named("squared_bias", mean**2, bias),
        # Divided by n, not n - 1: then bias and variance add up to the MSE exactly.
        **named("variance", variance, band if len(errors) != 2 else (0.0, math.inf)),
    }


def named(name: str, value: float, interval: Interval) -> Summary:
    """Return a value and the ends of its interval under the name."""
    return {name: value, f"{name}_low": interval[0], f"{name}_high": interval[1]}


def _share(name: str, held: Bools) -> Summary:
    """Return a share with its Clopper-Pearson interval."""
    n, k, tail = len(held), int(held.sum()), (1.0 - LEVEL) / 2
    if not n:
        return named(name, math.nan, (math.nan, math.nan))
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
    return named(name, k / n, (low, high))


#: An interval that ends further away than this factor says nothing: it has no end.
UNBOUNDED = 1000.0


def ratio_of_means(a: Floats, b: Floats | None = None) -> tuple[float, Interval]:
    """Return the mean of a (n,), or its ratio to the mean of b of the same seeds, and the interval; all are positive.

    The interval is of the logarithm, NaN from one seed. With u_i = a_i / mean(a) - b_i / mean(b) the standard error is
    the root of sum(u^2) / (n (n - 1)). Two things make an interval by Student's t too short if few seeds carry the
    error. Its degrees of freedom are those of the seeds that carry it, not of all: the effective number
    (sum a)^2 / sum(a^2), or that of b if it is smaller, less one. And the ends are no nearer than those of Hall's
    transformation (1992, doi:10.1111/j.2517-6161.1992.tb01876.x), which corrects for skewness.

    >>> value, (low, high) = ratio_of_means(np.array([1.0, 2.0, 3.0, 2.0, 2.0]))
    >>> value, round(low, 2), round(high, 2)
    (2.0, 1.26, 3.17)
    >>> ratio_of_means(np.array([1.0, 1.0, 100.0, 1.0, 1.0]))[1]
    (0.0, inf)
    """
    n, b = len(a), np.ones(len(a)) if b is None else b
    below = float(b.mean())
    value = float(a.mean()) / below if below > 0.0 else math.nan
    if n < 2 or not value > 0.0:
        return value, (math.nan, math.nan)
    effect = a / a.mean() - b / below
    spread = float((effect**2).mean())
    if not spread > 0.0:
        return value, (value, value)
    error, skewness = math.sqrt(spread / (n - 1)), float(((effect / math.sqrt(spread)) ** 3).mean())
    carrying = min(float(s.sum() ** 2 / (s**2).sum()) for s in (a, b))
    half = error * float(stdtrit(max(carrying - 1.0, 1e-3), (1.0 + LEVEL) / 2))
    down, up = (max(half, math.log1p(error * _skewed(sign * skewness, n))) for sign in (-1.0, 1.0))
    low, high = (math.exp(end) if end < math.log(UNBOUNDED) else math.inf for end in (down, up))
    return value, (value / low, value * high)


def _skewed(skewness: float, n: int) -> float:
    """Return how many standard errors the upper end lies above a mean: Student's t, by Hall's transformation."""
    t, slope = float(stdtrit(n - 1, (1.0 + LEVEL) / 2)), skewness / math.sqrt(n)
    if abs(slope) < 1e-6:
        return t
    return 3.0 / slope * (1.0 - math.cbrt(1.0 - slope * (t + slope / 6.0)))


def with_interval(summary: Summary, name: str) -> str:
    """Return a number with its interval as text.

    >>> with_interval({"mse": 0.0213, "mse_low": 0.01, "mse_high": 0.0456}, "mse")
    '0.0213 (0.01 to 0.046)'
    """
    value, low, high = (summary[f"{name}{end}"] for end in ("", "_low", "_high"))
    if not math.isfinite(value):
        return "refused" if summary.get("refused") else "–"
    return f"{value:.3g} ({low:.2g} to {high:.2g})" if math.isfinite(low) else f"{value:.3g}"


def paired(rows: Rows, reference: str) -> list[Summary]:
    """Return squared errors beside those of the estimator `reference` on the seeds where both have a value.

    `difference` of their means and `ratio` of the two MSEs have 95 % intervals; `closer` is the share of
    seeds with the smaller error.
    """
    errors = {(x, name): _squares(cell) for x, name, cell in cells(rows)}
    if not any(name == reference for _, name in errors):
        names = ", ".join(dict.fromkeys(rows["estimator"].tolist()))
        raise ConfigError(f"nothing can be paired with '{reference}': there are results of {names}")
    comparisons = []
    for (x, name), squares in errors.items():
        base = errors.get((x, reference), {})
        common = sorted(squares.keys() & base.keys())
        if name == reference or not common:
            continue
        a, b = (np.array([by_seed[seed] for seed in common]) for by_seed in (squares, base))
        (difference,) = means_of([a - b], None)
        low, high = difference.interval(LEVEL)
        ratio, band = ratio_of_means(a, b)
        comparisons.append(
            {
                "x": x,
                "estimator": name,
                "against": reference,
                "seeds": len(common),
                "difference": difference.value,
                "low": low,
                "high": high,
                "closer": float((a < b).mean()),
                # A ratio without an interval, from one seed, says nothing.
                **named("ratio", ratio if np.isfinite(band[0]) else math.nan, band),
            }
        )
    return comparisons


def _squares(rows: Rows) -> dict[int, float]:
    """Return the squared error of each seed with a value, relative to its own V squared."""
    squares = ((rows["value"] - rows["truth"]) / rows["truth"]) ** 2
    pairs = zip(rows["seed"].tolist(), squares.tolist(), strict=True)
    return {seed: square for seed, square in pairs if np.isfinite(square)}


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]], note: str = "") -> str:
    """Return a table of texts as Markdown, with a note below.

    >>> print(markdown(("a", "b"), [("1", "2")]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    rows = [f"| {' | '.join(line)} |" for line in (head, *lines)]
    table = "\n".join([rows[0], f"|{'---|' * len(head)}", *rows[1:]]) + "\n"
    return f"{table}\n{note}\n" if note else table


def grid(title: str, entries: Iterable[tuple[str, Any, str]], note: str = "") -> str:
    """Return a Markdown table of (estimator, point, text): a line an estimator, a column a point."""
    texts = {(name, x): text for name, x, text in entries}
    points = list(dict.fromkeys(x for _, x in texts))
    names = dict.fromkeys(name for name, _ in texts)
    lines = [(name, *(texts.get((name, x), "") for x in points)) for name in names]
    head = (title, *(x if isinstance(x, str) else f"{x:g}" for x in points))
    return markdown(head, lines, note)
