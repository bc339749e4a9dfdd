"""Random masks."""

import numpy as np

from counterrank.estimators.behavior import as_mask, mask, random


def test_random_masks_come_from_the_seed_in_the_documentation_and_zeros_are_allowed():
    np.testing.assert_array_equal(mask("R3", 6), random(6, 3, np.random.default_rng(12345)))
    assert as_mask([[1, 0], [0, 1]], 2).tolist() == [[True, False], [False, True]]
