"""From results by seed to errors: MSE, squared bias, variance, coverage, and differences on the same seeds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats
from counterrank.common.errors import ConfigError
from counterrank.statistics import means_of

#: Results by column: x (the point or world), seed, estimator, value, low, high, truth, seconds, ...
Rows = Mapping[str, NDArray[Any]]
#: Numbers by name of one estimator at one point, or of two.
Summary = dict[str, Any]
METRICS = ("mse", "squared_bias", "variance")
_RESAMPLES = 400
#: Fewer seeds do not tell a difference from chance: their tails are not normal yet.
ENOUGH_SEEDS = 100


def cells(rows: Rows) -> Iterator[tuple[Any, str, Rows]]:
    """Yield each point and estimator with its rows, in the order they were run."""
    for x in dict.fromkeys(rows["x"].tolist()):
        for name in dict.fromkeys(rows["estimator"].tolist()):
            here = (rows["x"] == x) & (rows["estimator"] == name)
            if here.any():
                yield x, name, {key: values[here] for key, values in rows.items()}


def summarise(rows: Rows, *, common_truth: bool = False, relative: bool = True) -> list[Summary]:
    """Return the errors of each estimator at each point (`x`), from its `seeds`.

    Each metric has a 95 % band over seeds (`mse_low`, `mse_high`); `seconds` is the median of CPU time.
    `common_truth`: one world at each x, so V is the mean of the seeds' true values, as in the paper;
    otherwise each seed has its own. `relative` divides errors by V.
    """
    found = []
    for x, name, own in cells(rows):
        truth = np.full_like(own["truth"], own["truth"].mean()) if common_truth else own["truth"]
        scale = np.abs(truth) if relative else np.ones(1)
        errors = (own["value"] - truth) / scale
        # Bands are part of what is written, and the same results give the same bytes.
        rng = np.random.default_rng([len(errors), 13])
        again = metrics(errors[rng.integers(0, len(errors), size=(_RESAMPLES, len(errors)))])
        numbers = np.column_stack([metrics(errors), np.quantile(again, [0.025, 0.975], axis=1).T])
        names = [f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")]
        middle, half = (own["low"] + own["high"]) / 2, (own["high"] - own["low"]) / 2
        # A truth that is itself an estimate, of a replay, is known to its own error only.
        known = 1.959964 * own["truth_stderr"] if "truth_stderr" in own else 0.0
        found.append(
            {
                "x": x,
                "estimator": name,
                "seeds": len(errors),
                **dict(zip(names, numbers.ravel().tolist(), strict=True)),
                "coverage": float((np.abs(middle - truth) <= np.hypot(half, known)).mean()),
                "width": float(np.mean(2 * half / scale)),
                "seconds": float(np.median(own["seconds"])),
            }
        )
    return found


def metrics(errors: Floats) -> Floats:
    """Errors (..., seeds) to the metrics (3, ...): mse = squared bias + variance."""
    # The variance is divided by n, not n - 1: then bias and variance add up to the MSE exactly.
    return np.stack([(errors**2).mean(-1), errors.mean(-1) ** 2, errors.var(-1)])


def paired(rows: Rows, against: str) -> list[Summary]:
    """Return squared errors less those of the estimator `against` on the same seeds.

    `difference` is their mean with a 95 % interval, `beyond_chance` whether enough seeds tell the two
    apart; `closer` the share of seeds with the smaller error; `ratio` that of the two MSEs.
    """
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
        found.append(
            {
                "x": x,
                "estimator": name,
                "against": against,
                "seeds": len(common),
                "difference": difference.value,
                "low": low,
                "high": high,
                "closer": float((a < b).mean()),
                "ratio": float(a.mean() / b.mean()) if b.any() else np.nan,
                "beyond_chance": len(common) >= ENOUGH_SEEDS and not low <= 0.0 <= high,
            }
        )
    return found


def _squares(rows: Rows) -> dict[int, float]:
    """Return the squared error of each seed, relative to its own V squared."""
    squares = ((rows["value"] - rows["truth"]) / rows["truth"]) ** 2
    return dict(zip(rows["seed"].tolist(), squares.tolist(), strict=True))


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


def grid(title: str, found: Iterable[tuple[str, Any, str]], note: str = "") -> str:
    """Return a Markdown table of (estimator, point, text): a line an estimator, a column a point."""
    texts = {(name, x): text for name, x, text in found}
    points = list(dict.fromkeys(x for _, x in texts))
    names = dict.fromkeys(name for name, _ in texts)
    lines = [(name, *(texts.get((name, x), "") for x in points)) for name in names]
    head = (title, *(x if isinstance(x, str) else f"{x:g}" for x in points))
    return markdown(head, lines, note)
