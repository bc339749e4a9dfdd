"""The steps of one class: what they may depend on, and that no block's size matters."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from counterrank.models.mixture.model import Link, Rows, traits_of
from counterrank.models.mixture.state import start
from counterrank.models.mixture.steps import effects_step, examination_step, tilt_step

N, A = 300, 3


@pytest.mark.parametrize("d", [0, 2, 6, 7, 21])
def test_traits_are_columns_and_products(d: int) -> None:
    x = np.concatenate([np.ones((N, 1)), np.random.default_rng(3).normal(size=(N, d))], axis=1)
    wanted = [x[:, 1 + j] for j in range(d)]
    for j, h in product(range(d), repeat=2):
        if (d <= 6 and j <= h) or (6 < d <= 20 and j == h):
            wanted.append(x[:, 1 + j] * x[:, 1 + h] - (j == h))
    np.testing.assert_allclose(
        traits_of(x), np.array(wanted).T if d else np.empty((N, 0)), atol=1e-14
    )


def test_steps_do_not_depend_on_how_many_numbers_a_block_has() -> None:
    """Examination and its tilt have sixteen numbers each; one more column of zeros changes neither
    step.
    """
    rng = np.random.default_rng(8)
    x = np.concatenate([np.ones((N, 1)), rng.normal(size=(N, 4))], axis=1)
    action, reward, present = rng.integers(0, A, (N, 4)), rng.normal(size=(N, 4)), np.ones((N, 4))
    rows = Rows(
        x,
        np.ascontiguousarray(traits_of(x)[:, :8]),
        action,
        reward,
        present,
        np.zeros(N, dtype=np.int64),
    )
    wide = replace(rows, traits=np.concatenate([rows.traits, np.zeros((N, 1))], axis=1))
    found = []
    for given in (rows, wide):
        before = examination_step(effects_step(start(given, Link.SUM, A), given), given)
        after = tilt_step(before, given)
        assert replace(after, prior=before.prior).loss(given) < before.loss(given)
        found.append((before.examined, after.tilt[:, :8]))
    for narrow, same in zip(*found, strict=True):
        np.testing.assert_allclose(narrow, same, rtol=1e-9)
