"""Weights of an interaction order against the sum over subsets."""

import itertools

import numpy as np
import pytest

from counterrank.estimators.weights import ratios as weights


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("own", [True, False])
def test_ordered_weights_with_and_without_the_own_item(order, own):
    rng = np.random.default_rng(3)
    rho = rng.uniform(0.3, 2.5, (4, 6))
    mask = rng.random((4, 4)) < 0.7
    np.fill_diagonal(mask, own)
    out = weights.ordered(rho, mask, order)
    for k in range(4):
        others = [m for m in range(4) if m != k and mask[k, m]]
        subsets = [s for size in range(order) for s in itertools.combinations(others, size)]
        total = sum(np.prod([rho[m] - 1 for m in s], axis=0) for s in subsets)
        np.testing.assert_allclose(out[k], (rho[k] if own else 1.0) * total, rtol=1e-10)
