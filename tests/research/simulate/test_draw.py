"""Draws: reproducible, with the stated distributions, and equal to slow loops."""

import inspect
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterrank.common.errors import ConfigError
from counterrank.research.paper.replay import replay_run
from counterrank.research.simulate import (
    PRESETS,
    paper,
    preset,
    published,
    random,
    real_world,
    write_log,
)
from counterrank.research.simulate.environment import (
    behavior_probability,
    effect_of_others,
    least_greedy,
)

ARRAYS = ("context", "action", "reward", "p0", "p1", "behavior", "q")


@pytest.mark.parametrize("name", ["published", "paper", "random"])
def test_a_seed_fixes_every_draw(name):
    env = preset(name)
    first, again, other = (env.draw(50, np.random.default_rng(seed)) for seed in (1, 1, 2))
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(first, array), getattr(again, array))
    assert not np.array_equal(first.reward, other.reward)


@pytest.mark.parametrize("make", [paper, random, real_world])
def test_a_preset_seed_fixes_the_environment(make):
    assert make(seed=4).fingerprint == make(seed=4).fingerprint != make(seed=5).fingerprint


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    K=st.integers(1, 7),
    actions=st.integers(2, 9),
    reward=st.sampled_from(["pairwise", "triple", "multiplicative", "binary"]),
    form=st.sampled_from(["published", "paper"]),
)
def test_draws_are_well_formed(seed, K, actions, reward, form):
    env = random(seed, K=K, actions=actions, reward=reward, form=form)
    log = env.draw(20, np.random.default_rng(seed))
    assert log.action.shape == log.reward.shape == log.q.shape == (20, K)
    assert ((log.action >= 0) & (log.action < actions)).all()
    assert (log.propensity > 0).all()
    for p in (log.p0, log.p1):
        np.testing.assert_allclose(p.sum(axis=-1), 1, rtol=1e-12)
    assert np.isfinite(log.reward).all()
    assert set(log.behavior) <= set(range(len(env.behavior_names)))
    if reward == "binary":
        assert set(np.unique(log.reward)) <= {0.0, 1.0}


def test_actions_and_behaviours_occur_as_often_as_stated(rng):
    env = random(8, K=3, actions=4, context_policies=True)
    n = 100_000
    log = env.draw(n, rng)
    shown = (log.action[:, :, None] == np.arange(4)).mean(axis=0)
    seen = np.bincount(log.behavior, minlength=6) / n
    # 18 frequencies, standard error at most .5 / sqrt(n) each: 5 of them is a false alarm of 1e-5
    assert np.abs(shown - log.p0.mean(axis=0)).max() < 2.5 / np.sqrt(n)
    assert np.abs(seen - behavior_probability(env, log.context).mean(axis=0)).max() < 2.5 / np.sqrt(
        n
    )


def test_effects_equal_slow_loops(rng):
    n, K, A, M = 30, 5, 4, 3
    action, behavior = rng.integers(A, size=(n, K)), rng.integers(M, size=n)
    masks = rng.random((M, K, K)) < 0.6
    pairs, triples = rng.standard_normal((A, A)), rng.standard_normal((A, A, A))
    slow2, slow3 = np.zeros((n, K)), np.zeros((n, K))
    for i, k in np.ndindex(n, K):
        near = [j for j in range(K) if j != k and masks[behavior[i], k, j]]
        a = action[i]
        slow2[i, k] = sum(pairs[a[k], a[j]] for j in near)
        slow3[i, k] = sum(triples[a[k], a[s], a[t]] for s in near for t in near if s < t)
    np.testing.assert_allclose(effect_of_others(action, behavior, masks, pairs), slow2, atol=1e-12)
    np.testing.assert_allclose(
        effect_of_others(action, behavior, masks, triples), slow3, atol=1e-12
    )


def test_the_target_prefers_what_the_logger_avoids():
    score = np.array([[1.0, 0.0, 2.0]])
    np.testing.assert_allclose(least_greedy(score, 0.3), [[0.1, 0.8, 0.1]])
    assert score.argmin() == least_greedy(score, 0.3).argmax()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 1.5}, "epsilon is 1.5; it is a probability"),
        ({"sigma": -1.0}, "sigma is -1.0"),
        ({"reward_model": "quadratic"}, "reward_model is 'quadratic'; choose one of pairwise"),
        ({"reward_model": "triple"}, "needs the three-way effects"),
    ],
)
def test_impossible_parameters_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        replace(published(), **change)


def test_unknown_presets_and_options_are_refused(rng):
    with pytest.raises(
        ConfigError, match="no world is called 'obp'; choose one of published, paper"
    ):
        preset("obp")
    with pytest.raises(
        ConfigError, match="preset 'published' has no option 'actions'; it has K, delta"
    ):
        preset("published", actions=3)
    with pytest.raises(ConfigError, match="n is 0; it is a whole number, 1 or more"):
        published().draw(0, rng)


#: Values a parameter cannot have, beside those that are no number of its kind at all.
OUTSIDE = {
    "delta": (-0.1, 1.1), "lam": (-1.0, 1e308), "sigma": (-1.0,), "epsilon": (-0.1, 1.1), "K": (0, -1, 2.5),
    "actions": (0, 1, 2.5), "d": (0, 1.5), "seed": (-1, 1.5),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (name, option)
        for name in PRESETS
        for option in OUTSIDE
        if option in inspect.signature(PRESETS[name]).parameters
    ],
)
def test_values_out_of_bounds_are_refused_with_name_and_value(name, option):
    for value in (*OUTSIDE[option], np.nan, np.inf, "much"):
        said = f"{option} is {value!r}"
        with pytest.raises(ConfigError, match=re.escape(said)):
            PRESETS[name](**{option: value})


@pytest.mark.parametrize("option", ["delta", "epsilon", "sigma", "lam"])
def test_the_bounds_themselves_are_allowed(option, rng):
    for value in {"sigma": (0, 10), "lam": (0, 1e6)}.get(option, (0, 1, np.float32(0.5))):
        assert np.isfinite(random(3, K=3, **{option: value}).draw(5, rng).reward).all()


@pytest.mark.parametrize("n", [-1, 2.5, np.nan, "much", None])
def test_a_number_of_rankings_is_whole_and_positive(n, rng, tmp_path):
    for call in (
        lambda: published().draw(n, rng),
        lambda: write_log(published(), n, tmp_path / "log.parquet", seed=0),
        lambda: replay_run(published(), n, 0).log,
    ):
        with pytest.raises(ConfigError, match=re.escape(f"n is {n!r}; it is a whole number")):
            call()


@pytest.mark.parametrize("seed", [-1, 1.5, "much"])
def test_a_seed_is_whole_and_not_negative(seed, tmp_path):
    for call in (
        lambda: write_log(published(), 5, tmp_path / "log.parquet", seed=seed),
        lambda: replay_run(published(), 5, seed).log,
    ):
        with pytest.raises(
            ConfigError, match=re.escape(f"seed is {seed!r}; it is a whole number, 0 or more")
        ):
            call()
    assert not list(tmp_path.iterdir())


def test_runs_that_the_published_generator_cannot_number_are_refused():
    with pytest.raises(ConfigError, match="numbered below 2"):
        replay_run(published(), 5, 2**32)
