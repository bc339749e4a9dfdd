"""Kernels of the replay against plain NumPy."""

import numpy as np
import pytest

from counterrank.research.paper import replay as replayed_rows
from counterrank.research.paper.replay import contributions, replay_run
from counterrank.research.simulate import published
from counterrank.research.simulate.environment import distribution, expected_reward
from counterrank.research.simulate.truth import closed_form


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20230806)


@pytest.mark.parametrize("K", [1, 3, 4, 5, 8, 14])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_contributions_are_products_over_the_mask(K, kind, rng):
    n, M = 150, 4  # two whole blocks of rows and a part
    ratio, reward = rng.gamma(2.0, size=(n, K)), rng.standard_normal((n, K))
    masks = rng.random((M, K, K)) < 0.5
    out = np.empty((K, M, n), dtype=kind)
    contributions(ratio, reward, masks, out)
    for k in range(K):
        for m in range(M):
            expected = np.where(masks[m, k], ratio, 1.0).prod(axis=1) * reward[:, k]
            np.testing.assert_allclose(
                out[k, m], expected, rtol=1e-12 if kind is np.float64 else 1e-6
            )


@pytest.mark.parametrize("K", [4, 8, 14])
def test_rows_are_those_of_the_general_simulator(K, rng):
    env = published(K)
    n = 500
    behavior, action = rng.integers(0, env.M, n), rng.integers(0, env.A, (n, K))
    base = rng.random((-(-n // K), env.A))
    q = replayed_rows.expected(action, behavior, env.masks, env.interaction, base)
    plain = expected_reward(env, action, behavior, base[np.arange(n) // K])
    np.testing.assert_allclose(
        q, plain, atol=2**-11 * np.abs(plain).max()
    )  # half precision: 11 bits


def test_value_of_a_run_sums_out_the_actions():
    run = replay_run(published(8), 700, 3)
    env, rows = run.env, run.log
    known = np.eye(env.M)[rows.behavior]
    p1 = distribution(env, rows.context, "target")
    noise = np.random.RandomState(12345).standard_normal(700).mean()
    expected = (
        closed_form(env, p1, run.base[np.arange(700) // 8], known).mean(axis=0) + env.sigma * noise
    )
    np.testing.assert_allclose(run.value(), expected, rtol=1e-12)
