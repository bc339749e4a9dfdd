"""Results of the bench: tables of errors with intervals, differences on the same seeds, a picture, LaTeX."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.common import atomic
from counterrank.common.errors import require
from counterrank.research.bench.protocol import Protocol
from counterrank.research.summary import (
    Rows,
    Summary,
    grid,
    paired,
    summarise,
    with_interval,
)

#: Characters that LaTeX reads as commands.
_LATEX = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


@dataclass(frozen=True, slots=True)
class BenchResult:
    """Every estimate by world, seed and estimator, in columns (`rows`), and what they add up to.

    Parameters
    ----------
    rows
        Columns by name: `x` (the world), `seed`, `estimator`, `value`, `low`, `high`, `truth`,
        `truth_stderr`, `seconds`, `drawing` and `reason`, which is empty where there is a value.
    protocol
        What repeats the study.
    """

    rows: Rows = field(repr=False)
    protocol: Protocol | None = field(default=None, repr=False)

    @property
    def table(self) -> Any:
        """A pandas frame with a row for each world and estimator; errors in units of the reward.

        `mse`, `squared_bias`, `variance` and `coverage` have 95 % intervals over seeds, `..._low` and
        `..._high`; `refused` is the number of seeds without a value and `reason` the most frequent reason.
        Errors and coverage are those of the seeds with a value.
        """
        pandas = require("pandas", extra="frames")
        return pandas.DataFrame(summarise(self.rows, relative=False)).rename(columns={"x": "world"})

    def paired(self, reference: str) -> Any:
        """Return a pandas frame of squared errors over V², held against those of an estimator on the same seeds.

        Parameters
        ----------
        reference
            The name of the estimator.

        Returns
        -------
        pandas.DataFrame
            `difference` of the mean squared errors and `ratio` of both, with 95 % intervals; `closer`, the
            share of seeds with the smaller error.
        """
        pandas = require("pandas", extra="frames")
        return pandas.DataFrame(paired(self.rows, reference)).rename(columns={"x": "world"})

    def summary(self) -> str:
        """Return MSE / V² by estimator and world as a Markdown table, coverage of all worlds, and refusals."""
        cells = summarise(self.rows)
        texts = ((s["estimator"], s["x"], with_interval(s, "mse")) for s in cells)
        notes = [
            "MSE with its 95 % interval over seeds; one without an end says that a few seeds carry the error. "
            "95 % intervals of the estimators contained the truth: "
            + ", ".join(f"{name} {share}" for name, share in _coverage(cells).items())
        ]
        notes += [
            f"{s['estimator']} refused {s['refused']} of {s['refused'] + s['seeds']} logs of {s['x']}: "
            f"{s['reason']}"
            for s in cells
            if s["refused"]
        ]
        return grid("MSE / V²", texts, "\n\n".join(notes))

    def __str__(self) -> str:
        return self.summary()

    def to_latex(self) -> str:
        """Return MSE / V² as a LaTeX table: a line for each world, a column for each estimator; needs booktabs."""
        cells = {(s["x"], s["estimator"]): s for s in summarise(self.rows)}
        worlds, names = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
        lines = [
            [world, *(with_interval(cells[world, name], "mse") for name in names)]
            for world in worlds
        ]
        body = [" & ".join(text.translate(_LATEX) for text in line) + r" \\" for line in lines]
        head = " & ".join(["world", *(name.translate(_LATEX) for name in names)]) + r" \\"
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * len(names)}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                "",
            ]
        )

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the summary, the table and the LaTeX table (bench.md, .csv, .tex), and return the paths."""
        texts = {
            "md": self.summary(),
            "csv": self.table.to_csv(index=False, lineterminator="\n"),
            "tex": self.to_latex(),
        }
        paths = []
        for ending, text in texts.items():
            paths.append(Path(folder) / f"bench.{ending}")
            atomic.write_text(paths[-1], text)
        return paths

    def plot(self) -> Any:
        """Return a matplotlib figure of MSE / V² by world and estimator, with 95 % intervals over seeds."""
        figure = require("matplotlib.figure", extra="paper").Figure(layout="constrained")
        axis, cells = figure.subplots(), summarise(self.rows)
        worlds = list(dict.fromkeys(s["x"] for s in cells))
        names = list(dict.fromkeys(s["estimator"] for s in cells))
        figure.set_size_inches(8, 1.5 + 0.18 * len(worlds) * (len(names) + 1))
        for number, name in enumerate(names):
            points = [s for s in cells if s["estimator"] == name and s["mse"] > 0]
            place = [worlds.index(s["x"]) + 0.8 * (number + 0.5) / len(names) - 0.4 for s in points]
            mse, low, high = (np.array([s[key] for s in points]) for key in _BAND)
            # An interval without an end is not drawn, as none is of one seed.
            ends = np.where(np.isfinite(high), [mse - low, high - mse], 0.0)
            axis.errorbar(mse, place, xerr=ends, fmt="o", ms=4, label=name)
        axis.set(xscale="log", xlabel="MSE / V²", yticks=range(len(worlds)), yticklabels=worlds)
        axis.invert_yaxis()
        axis.grid(alpha=0.25)
        figure.legend(loc="outside upper center", ncols=min(len(names), 5), frameon=False)
        return figure


_BAND = ("mse", "mse_low", "mse_high")


def _coverage(cells: list[Summary]) -> dict[str, str]:
    """Return the share of intervals of all worlds that contained the truth, by estimator."""
    held: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for s in cells:
        answered[s["estimator"]] += s["seeds"]
        held[s["estimator"]] += round(np.nan_to_num(s["coverage"]) * s["seeds"])
    return {name: f"{held[name]} of {count}" for name, count in answered.items()}
