"""p-values of one and of several comparisons, by their definitions."""

import numpy as np
import pytest
from scipy import stats

from counterrank.statistics import benjamini_hochberg, holm, two_sided


def test_two_sided_p_values():
    for z in (0.0, 0.3, 1.96, -2.5):
        for stderr in (0.5, 2.0):
            assert two_sided(stderr * z, stderr) == pytest.approx(
                2 * stats.norm.sf(abs(z)), rel=1e-12
            )
    assert [two_sided(value, 0.0) for value in (0.0, 1e-12, -1e-12, 1.1e-12, 0.5, 3.0)] == [1] * 6
    assert two_sided(0.5, np.nan) == two_sided(0.0, np.nan) == 1.0


P_VALUES = ([0.01, 0.04, 0.03], [0.5, 0.9, 0.001, 0.02, 0.02], [1.0], [0.2, 0.9, 0.8, 1.0])


@pytest.mark.parametrize("p", P_VALUES)
def test_adjusted_p_values_by_their_definitions(p):
    """The largest of (m - rank + 1) p over smaller ones."""
    p, m = np.array(p), len(p)
    rank = np.argsort(np.argsort(p, kind="stable"), kind="stable") + 1
    for i in range(m):
        down = max((m - rank[j] + 1) * p[j] for j in range(m) if rank[j] <= rank[i])
        assert holm(p)[i] == pytest.approx(min(down, 1.0), rel=1e-12)


@pytest.mark.parametrize("p", P_VALUES)
def test_false_discoveries_are_adjusted_as_scipy_does(p):
    np.testing.assert_allclose(benjamini_hochberg(p), stats.false_discovery_control(p), rtol=1e-12)
