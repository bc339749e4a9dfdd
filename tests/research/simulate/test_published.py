"""The published environment: its constants, its values, and the published runs themselves."""

from pathlib import Path

import numpy as np
import pytest

from counterrank.common.errors import ConfigError
from counterrank.research.paper.replay import replay_run
from counterrank.research.simulate import preset, published, true_value
from counterrank.research.simulate.environment import behavior_probability

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden"

# Read off the published figures at n=1k, K=8, delta=.6 (marker centres, to 1 %): MSE and variance
# over V^2.
PUBLISHED_MSE = {"IPS": 1.18, "RIPS": 0.125, "TRUE": 0.186}
PUBLISHED_VARIANCE = {"IPS": 1.18, "IIPS": 0.001, "RIPS": 0.0812, "TRUE": 0.187}


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (0.5, (0.140, 0.126, 0.151, 0.180, 0.185, 0.218)),
        (0.6, (0.199, 0.156, 0.161, 0.177, 0.155, 0.152)),
    ],
)
def test_behaviour_distribution(delta, expected, rng):
    # The printed figures have three digits and their own sampling error; ours is below .0006.
    chance = behavior_probability(published(delta=delta), rng.standard_normal((100_000, 5))).mean(
        axis=0
    )
    assert np.abs(chance - expected).max() < 0.004


def test_constant_lambda_zero_makes_behaviours_equally_likely(rng):
    chance = behavior_probability(published(lam=0.0), rng.standard_normal((50, 5)))
    np.testing.assert_allclose(chance, 1 / 6, rtol=1e-14)


def test_value_of_the_target():
    truth = true_value(published())
    assert truth.method == "closed form"
    # 6.244 was itself simulated, to about .005.
    assert abs(truth.value - 6.244) < 0.02
    assert truth.stderr < 2e-3 * truth.value
    assert truth.by_position.sum() == pytest.approx(truth.value, rel=1e-14)
    assert true_value(published()) is truth


def test_iips_and_rips_are_biased_as_published(naive_estimates, rng):
    env = published()
    value = true_value(env).value
    rows = naive_estimates(env.draw(400_000, rng))
    for name, published_bias in {"IIPS": 0.202, "RIPS": 0.0414}.items():
        bias2 = ((rows[name].mean() - value) / value) ** 2
        error = 2 * np.sqrt(bias2) * rows[name].std() / np.sqrt(400_000) / value
        # five standard errors (two-sided false alarm 6e-7) plus the rounding of the published
        # figures
        assert abs(bias2 - published_bias) < 5 * error + 0.003


def test_noise_is_shared_over_positions(rng):
    log = published(sigma=2.0).draw(1000, rng)
    noise = log.reward - log.q
    np.testing.assert_allclose(noise, noise[:, :1] * np.ones(8), atol=1e-12)
    assert abs(noise[:, 0].std() - 2.0) < 0.25


def test_replayed_runs_give_the_published_figures(naive_estimates):
    """The figures are averages over runs 0..299: the same draws must agree as well as a plot can be
    read.
    """
    env = published()
    runs = [naive_estimates(replay_run(env, 1000, seed).log) for seed in range(300)]
    value = np.mean([replay_run(env, 1000, seed).value().sum() for seed in range(300)])
    for name, expected in PUBLISHED_VARIANCE.items():
        estimates = np.array([rows[name].mean() for rows in runs])
        assert estimates.var() / value**2 == pytest.approx(expected, rel=0.03)
        if name in PUBLISHED_MSE:
            assert ((estimates - value) ** 2).mean() / value**2 == pytest.approx(
                PUBLISHED_MSE[name], rel=0.03
            )


def test_only_the_published_environment_is_replayed():
    with pytest.raises(ConfigError, match="only preset 'published'"):
        replay_run(preset("random"), 100, 0)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the authors' data sets are not here")
@pytest.mark.parametrize("name", ["n1000_k8", "n1000_k4"])
def test_replay_equals_the_authors_data(name):
    with np.load(GOLDEN / f"{name}.npz") as gold:
        env = published(int(gold["K"]), delta=float(gold["delta"]), epsilon=float(gold["epsilon"]))
        log = replay_run(env, int(gold["n"]), int(gold["seed"])).log
        np.testing.assert_array_equal(env.masks, gold["candidates"].astype(bool))
        np.testing.assert_array_equal(log.action, gold["action"])
        np.testing.assert_array_equal(log.masks[log.behavior], gold["true_structure"].astype(bool))
        np.testing.assert_allclose(log.context, gold["context"], rtol=0, atol=0)
        np.testing.assert_allclose(log.propensity, gold["pi_b"], rtol=1e-14)
        np.testing.assert_allclose(log.target, gold["pi_e"], rtol=1e-14)
        # The original keeps expected rewards in float16: 11 bits, here up to 8.
        np.testing.assert_allclose(log.q, gold["q_factual"], atol=4.1e-3)
        np.testing.assert_allclose(
            log.reward - log.q, gold["reward"] - gold["q_factual"], atol=1e-12
        )
