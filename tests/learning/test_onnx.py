"""ONNX graphs score as the policy does, in a runtime that has never heard of counterrank."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from tests.learning.conftest import clicks_log, learn

import counterrank as cr
from counterrank.learning.scorer import Scorer
from counterrank.models import Variant, fit_history, fit_list_models, rankings_of

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def rich_log(seed: int = 1, n: int = 500) -> cr.RankingLog:
    """Clicks with a category in the context, numbers and labels of items, and gaps in both."""
    rng = np.random.default_rng(seed)
    log = clicks_log(seed, n)
    context = np.column_stack([rng.normal(size=n), rng.integers(3, size=n)])
    context[::7, 0] = np.nan
    table = np.column_stack([rng.normal(size=6), rng.integers(2, size=6)])
    table[2, 0] = np.nan
    features = cr.ItemFeatures(table, ("z_price", "z_shop"), {"z_shop": ("a", "b")})
    return cr.RankingLog(
        action=log.action,
        reward=log.reward,
        propensity=log.propensity,
        context=context,
        context_names=("x_age", "x_device"),
        categories={"x_device": ("desk", "phone", "tablet")},
        item_features=features,
    )


def policy_of(log: cr.RankingLog, **more) -> cr.LearnedPolicy:
    return learn(log, despite_audit=True, **more).policy


def run(policy: cr.LearnedPolicy, **inputs) -> np.ndarray:
    session = runtime.InferenceSession(policy.to_onnx(), providers=["CPUExecutionProvider"])
    wanted = {one.name for one in session.get_inputs()}
    return session.run(None, {k: v for k, v in inputs.items() if k in wanted})[0]


def agree(policy: cr.LearnedPolicy, log: cr.RankingLog, within: float = 1e-9) -> None:
    """List values of pages, and scores of candidates with an item that was never seen."""
    pages, x = log.action[:80], np.asarray(log.context[:80])
    table = None if log.item_features is None else log.item_features.values
    beside = None if table is None else table[pages]
    values = run(replace(policy, kind="best-of"), item=pages, context=x, features=beside)
    wanted = policy.list_value(x, pages, table)
    assert values.shape == (80,) and np.ptp(wanted) > 0.01
    np.testing.assert_allclose(values, wanted, rtol=0, atol=within)
    # Pages that end early, some without any item.
    short = np.where(np.arange(pages.shape[1]) < np.arange(80)[:, None] % 4, pages, -1)
    values = run(replace(policy, kind="best-of"), item=short, context=x, features=beside)
    np.testing.assert_allclose(values, policy.list_value(x, short, table), rtol=0, atol=within)
    some = np.tile([5, 0, 3, 1, 9, -1], (80, 1))
    near = None if table is None else np.concatenate([table, table[:4]])[some]
    scores = run(replace(policy, kind="top"), item=some, context=x, features=near)
    np.testing.assert_allclose(scores, policy.scores(x, some, near), rtol=0, atol=within)


@pytest.mark.parametrize("rich", [False, True])
def test_linear_scorers_agree(rich):
    log = rich_log() if rich else clicks_log(1, 500)
    agree(policy_of(log), log)


@pytest.mark.parametrize("rich", [False, True])
def test_competition_agrees(rich):
    log = rich_log(2) if rich else clicks_log(2, 500)
    rankings, fold = rankings_of(log), np.arange(log.n) % 2
    (model,) = fit_history(
        rankings, log.reward, fold, folds=2, variants=(Variant(competition=True),)
    )
    agree(replace(policy_of(log), scorer=Scorer(model)), log)


@pytest.mark.parametrize("rich", [False, True])
def test_boosted_scorers_agree(rich):
    pytest.importorskip("lightgbm")
    log = rich_log(3, 1500) if rich else clicks_log(3, 1500)
    agree(policy_of(log, model="boosting"), log, within=1e-6)


def test_the_file_is_written_and_says_what_it_is(tmp_path):
    import onnx

    policy = policy_of(clicks_log(1, 500))
    assert (tmp_path / "p.onnx").write_bytes(b"") == 0
    made = policy.to_onnx(tmp_path / "p.onnx")
    assert (tmp_path / "p.onnx").read_bytes() == made
    told = {one.key: one.value for one in onnx.load_from_string(made).metadata_props}
    assert '"kind": "best-of"' in told["counterrank"] and f'"m": {policy.m}' in told["counterrank"]


def amounts_of(log: cr.RankingLog, negative: bool = False) -> cr.RankingLog:
    """The same log with an amount for each click; with numbers below zero too where asked."""
    noise = np.random.default_rng(4).normal(size=log.reward.shape)
    return replace(log, reward=log.reward * np.exp(noise) + (noise if negative else 0.0))


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("competition", [False, True])
@pytest.mark.parametrize("negative", [False, True], ids=["amounts", "numbers"])
def test_amounts_and_numbers_agree(rich, competition, negative):
    log = amounts_of(rich_log(5) if rich else clicks_log(5, 500), negative)
    rankings, fold = rankings_of(log), np.arange(log.n) % 2
    variants = (Variant(competition=competition),)
    (model,) = fit_list_models(rankings, log.reward, fold, folds=2, variants=variants)
    policy = policy_of(log, grade="assumed")
    agree(replace(policy, scorer=Scorer(model)), log)


def test_boosted_amounts_agree():
    pytest.importorskip("lightgbm")
    log = amounts_of(rich_log(6, 1500))
    agree(policy_of(log, model="boosting", grade="assumed"), log, within=1e-5)


def test_a_missing_extra_is_one_message(monkeypatch):
    policy = policy_of(clicks_log(1, 500))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(cr.CounterrankError, match=r"counterrank\[onnx\]"):
        policy.to_onnx()
