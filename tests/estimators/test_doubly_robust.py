"""Doubly robust estimates against their formulas in plain NumPy."""

import numpy as np
import pytest
from tests.estimators.dozen_rows import LOG, MEAN, REWARD, WEIGHTS, Known, N, Q, same

from counterrank.estimators.doubly_robust import DM, DR, CascadeDR


@pytest.mark.parametrize("name", WEIGHTS)
def test_doubly_robust_and_model_alone(name):
    found = DR(weights=name, model=Known()).estimate(LOG, "new")
    same(found, MEAN + WEIGHTS[name] * (REWARD - Q))
    alone = DM(model=Known()).estimate(LOG, "new")
    same(alone, MEAN)
    assert found.details["regression"] == alone.details["regression"] == Known.details
    assert alone.ess == pytest.approx(N) and alone.flags[0].startswith("model-only")


def test_cascade_dr_says_what_it_rests_on():
    found = CascadeDR().estimate(LOG, "new")
    assert found.estimator == "cascade-dr" and np.isfinite([found.value, found.stderr]).all()
    assert "regression" in found.details
