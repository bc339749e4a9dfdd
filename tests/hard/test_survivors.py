"""Small exact cases that kill mutants of the core formulas (`make mutation`); each number is worked out by hand."""

import numpy as np

from counterrank.moments import moments_of


def test_total_and_base_of_two_rows():
    y, w, r = np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2)), np.array([[1.0, 1.0], [2.0, 0.0]])
    moments, totals = moments_of(y, w, r, np.array([1.0, 0.5]))
    assert totals.tolist() == [2.0, 5.0]
    assert moments.row_mean("base") == 1.75 and moments.row_mean("total_base") == (2 * 1.5 + 5 * 2) / 2
