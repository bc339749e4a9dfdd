"""Rules on disk: the same scores after a round trip, bound to any log, served from draws; damage is refused."""

import json

import numpy as np
import pytest

import counterrank as cr
from counterrank.errors import PolicyError
from counterrank.policies import BestOf, Candidates, ItemFeatures, LinearScorer, Rule, load_policy, parse_policy


def scorer(rng, A=6, d=2, p=3):
    return LinearScorer(
        rng.permutation(A), rng.normal(size=A), ("x_0", "x_1")[:d], rng.normal(size=(A, d)), rng.normal(size=d),
        rng.random(d) + 0.5, ("a", "b", "c")[:p], rng.normal(size=p), rng.normal(size=p), rng.random(p) + 0.5,
    )  # fmt: skip


def naive(s, x, item, z):
    j = s.items.tolist().index(item)
    own = s.level[j] + s.slope[j] @ ((x - s.context_mean) / s.context_scale)
    return own + s.weight @ ((z - s.feature_mean) / s.feature_scale)


def log_of(rng, n=40, A=6):
    lists = [rng.permutation(A)[: rng.integers(3, A + 1)].tolist() for _ in range(n)]
    sets = Candidates.from_lists(lists, n_items=A)
    logger = parse_policy("plackett-luce").bind(candidates=sets, scores=rng.normal(size=len(sets.items)))
    return cr.RankingLog(
        action=logger.sample(3, rng)[:, 0], reward=rng.random((n, 3)), propensity=logger, candidates=sets,
        context=rng.normal(size=(n, 2)), item_features=ItemFeatures(rng.normal(size=(A, 3)), ("c", "a", "b")),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["top", "plackett-luce", "best-of"])
def test_a_rule_comes_back_the_same_and_scores_like_its_formula(kind, tmp_path):
    rng = np.random.default_rng(0)
    rule = Rule(kind, scorer(rng), temperature=0.7, m=4, curve=(1.0, 0.6, 0.3))
    cr.save_policy(rule, tmp_path / "rule.json")
    again = cr.load_policy(tmp_path / "rule.json")
    assert (again.kind, again.temperature, again.m, again.curve) == (kind, 0.7, 4, rule.curve)
    x, table = rng.normal(size=(5, 2)), rng.normal(size=(6, 3))
    np.testing.assert_array_equal(again.scores(x, None, table), rule.scores(x, None, table))
    found = again.scores(x, None, table)
    twin = [[naive(rule.scorer, x[i], a, table[a]) for a in rule.items] for i in range(5)]
    np.testing.assert_allclose(found, twin, rtol=1e-12)
    draws = rng.permuted(np.tile(np.arange(6), (5, 4, 1)), axis=2)[:, :, :3]
    values = np.stack([again.list_value(x, draws[:, j], table) for j in range(4)], axis=1)
    np.testing.assert_array_equal(again.serve(x, draws, table), draws[np.arange(5), values.argmax(axis=1)])


def test_bound_to_a_log_it_ranks_the_candidates_by_its_scores():
    rng = np.random.default_rng(1)
    log, rule = log_of(rng), Rule("top", scorer(rng))
    policy = rule.bind(log)
    names = log.item_features.names
    table = log.item_features.values[:, [names.index(name) for name in rule.scorer.features]]
    scores = rule.scores(log.context, log.candidates, ItemFeatures(table, rule.scorer.features))
    best = log.candidates.global_items(np.argsort(-scores, axis=1)[:, :3])
    np.testing.assert_array_equal(policy.sample(3, rng)[:, 0], best)
    dense = cr.RankingLog(action=log.action, reward=log.reward, propensity=cr.UniformPermutation(6),
                          context=log.context, item_features=log.item_features)  # fmt: skip
    everyone = rule.scores(log.context, np.tile(np.arange(6), (40, 1)), ItemFeatures(table, rule.scorer.features))
    np.testing.assert_array_equal(rule.bind(dense).sample(6, rng)[:, 0], np.argsort(-everyone, axis=1))


def test_best_of_bound_to_a_log_is_worth_more_by_its_own_score():
    rng = np.random.default_rng(2)
    log = log_of(rng, n=300)
    rule = Rule("best-of", scorer(rng), m=8, curve=(1.0, 0.6, 0.3))
    policy = rule.bind(log)
    assert isinstance(policy, BestOf) and policy.m == 8
    names = log.item_features.names
    features = ItemFeatures(log.item_features.values[:, [names.index(n) for n in "abc"]], tuple("abc"))
    served = rule.list_value(log.context, policy.sample(3, rng)[:, 0], features)
    logged = rule.list_value(log.context, log.action, features)
    assert served.mean() > logged.mean() + 5 * (served - logged).std() / np.sqrt(300)
    weight = policy.joint_weight(log.action)
    assert abs(weight.mean() - 1) < 5 * weight.std() / np.sqrt(300)  # |z| < 5: false alarms 6e-7 were the seed free
    np.testing.assert_array_equal(policy.take(slice(5, 9)).joint_weight(log.action[5:9]), weight[5:9])


def test_unknown_items_and_missing_values_count_as_means():
    rng = np.random.default_rng(3)
    s = scorer(rng)
    gone = s.score(np.full((1, 2), np.nan), np.array([[99]]), np.full((1, 1, 3), np.nan))
    assert gone[0, 0] == pytest.approx(s.level.mean())


def test_what_does_not_fit_is_named():
    rng = np.random.default_rng(4)
    log, s = log_of(rng), scorer(rng)
    bare = cr.RankingLog(action=log.action, reward=log.reward, propensity=np.full((40, 3), 0.1))
    with pytest.raises(PolicyError, match="context column 'x_0', which the log does not have"):
        Rule("top", LinearScorer([0], [0.0], ("x_0",), [[1.0]], [0.0], [1.0])).bind(bare)
    with pytest.raises(PolicyError, match="item feature 'a', which the log does not have"):
        Rule(
            "top", LinearScorer([0], [0.0], features=("a",), weight=[1.0], feature_mean=[0.0], feature_scale=[1.0])
        ).bind(bare)
    with pytest.raises(PolicyError, match="give the logger as a policy"):
        Rule("best-of", LinearScorer([0], [0.0]), m=2, curve=(1.0,)).bind(bare)
    with pytest.raises(PolicyError, match="by 2 context columns .x_0, x_1., given: none"):
        Rule("top", s).scores(None)
    with pytest.raises(PolicyError, match="made for 1 positions, the rankings have 3"):
        Rule("best-of", LinearScorer([0], [0.0]), curve=(1.0,)).list_value(None, [[0, 1, 2]])
    for make, message in (
        (lambda: Rule("best", s), "unknown kind of policy 'best'"),
        (lambda: Rule("top", s, temperature=0.0), "must be positive"),
        (lambda: Rule("best-of", s), "needs the curve"),
        (lambda: LinearScorer([0, 0], [0.0, 1.0]), "2 distinct items"),
        (lambda: LinearScorer([0], [np.nan]), "'level' holds a value that is no finite number"),
    ):
        with pytest.raises(PolicyError, match=message):
            make()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "x", "scorer": {}}', "nothing", "[" * 100_000])
def test_what_is_no_rule_is_refused(text, tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(PolicyError, match="bad.json"):
        load_policy(path)


def test_a_changed_file_is_checked_like_a_new_rule(tmp_path):
    data = Rule("top", scorer(np.random.default_rng(5))).to_json()
    for key, value in (("kind", "os.system"), ("temperature", -1), ("m", "many"), ("curve", ["x"])):
        (tmp_path / "p.json").write_text(json.dumps({**data, key: value}))
        with pytest.raises(PolicyError, match=r"p\.json"):
            load_policy(tmp_path / "p.json")
    data["scorer"]["level"] = data["scorer"]["level"][:-1]
    (tmp_path / "p.json").write_text(json.dumps(data))
    with pytest.raises(PolicyError, match="needs level"):
        load_policy(tmp_path / "p.json")
