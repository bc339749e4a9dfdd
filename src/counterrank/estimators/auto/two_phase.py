"""Long logs in two phases: what is cheap on all rows, what is costly on a random part of them.

Each member of a row is its rough version a_i (the mean reward of a position for a model) plus what
the models change, e_i. With rows drawn independently with probability p, I_i saying which,

    mean of a_i + (I_i / p) e_i

has the mean of a_i + e_i whatever a is (the difference estimator: Cochran 1977, ch. 12; Saerndal,
Swensson & Wretman 1992, ch. 9), and its spread over all rows holds both phases: Var(a + e) / n +
(1/p - 1) E[e^2] / n. The controls (I_i / p - 1) (1, y_i), of mean zero, take out what the number of
drawn rows and their rewards y happened to be, which leaves (1/p - 1) Var(e | y) / n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The random stream that draws the rows; it follows the seed.
SAMPLING_STREAM = 103


@dataclass(frozen=True, slots=True, eq=False)
class Rough:
    """Members of all rows with a mean for a model: columns (K, 1 + J, n) and totals (1 + J + M, n).

    `richer` are the weights of the members that stay as they are: models would take a few percent
    off their variance, a part of the rows would multiply it.
    """

    columns: Floats
    totals: Floats
    richer: dict[str, Floats]

    def corrected(
        self, columns: Floats, totals: Floats, rows: Ints, rate: float
    ) -> tuple[Floats, Floats]:
        """Return both with what the models say differently about `rows`, in proportion."""
        J = self.columns.shape[1] - 1
        kept = columns.shape[1]
        self.columns[:, :kept, rows] += (columns - self.columns[:, :kept, rows]) / rate
        at = np.ix_([*range(kept), *range(1 + J, len(self.totals))], rows)
        self.totals[at] += (totals - self.totals[at]) / rate
        return self.columns, self.totals


def calibration(earned: Floats, rows: Ints, rate: float) -> Floats:
    """Return the controls (I / p - 1) and (I / p - 1) times what a row earned (2, n)."""
    excess = np.full(len(earned), -1.0)
    excess[rows] += 1.0 / rate
    return np.stack([excess, excess * earned])
