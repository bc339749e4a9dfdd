"""From results by seed to errors with intervals: MSE, squared bias, variance, coverage, ratios on the same seeds.

Intervals are for 95 %, by Student's t over seeds, at any number of seeds from two on. Those of positive
numbers (an MSE, a ratio of two) are of their logarithm: value * exp(+- t stderr / value). With normal errors they
contain the expectation in 88 to 95 % of the studies at 2 to 10 seeds and in 94 % at 30 and more; where a few
seeds carry the error (heavy tails) no interval from few seeds does.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError
from counterrank.statistics import Interval, Quantity, means_of

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
    mse, mean = means_of([errors**2, errors], None)
    # Divided by n, not n - 1: then bias and variance add up to the MSE exactly.
    gradient = mse.gradient - 2.0 * mean.value * mean.gradient
    variance = replace(mse, value=float(errors.var()), gradient=gradient)
    low, high = mean.interval(LEVEL)
    bias = (0.0 if low <= 0.0 <= high else min(low**2, high**2), max(low**2, high**2))
    return {
        **named("mse", mse.value, positive_interval(mse)),
        **named("squared_bias", mean.value**2, bias),
        **named("variance", variance.value, positive_interval(variance)),
    }


def named(name: str, value: float, interval: Interval) -> Summary:
    """Return a value and the ends of its interval under the name."""
    return {name: value, f"{name}_low": interval[0], f"{name}_high": interval[1]}


def _share(name: str, held: NDArray[np.bool_]) -> Summary:
    """Return a share with its Clopper-Pearson interval."""
    n, k, tail = len(held), int(held.sum()), (1.0 - LEVEL) / 2
    if not n:
        return named(name, math.nan, (math.nan, math.nan))
    low = float(betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
    return named(name, k / n, (low, high))


def positive_interval(quantity: Quantity) -> Interval:
    """Return the interval of a quantity that is positive, by its logarithm; NaN from one seed.

    >>> low, high = positive_interval(means_of([np.array([1.0, 4.0])], None)[0])
    >>> round(low * high, 6)  # the square of the value, 2.5
    6.25
    """
    value = quantity.value
    if not value > 0.0:
        return math.nan, math.nan
    low, high = quantity.interval(LEVEL)
    half = (high - low) / 2 / value
    return value * math.exp(-half), value * math.exp(min(half, 500.0))


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
        mean, base_mean = means_of([a, b], None)
        difference, ratio = mean - base_mean, mean / base_mean
        (low, high), band = difference.interval(LEVEL), positive_interval(ratio)
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
                **named("ratio", ratio.value if np.isfinite(band[0]) else math.nan, band),
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
