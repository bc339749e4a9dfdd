"""From a log to a certified policy: right gains, no certificate on noise, no wrong log, nothing
half-done.
"""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from markupsafe import escape
from tests.learning.conftest import EXAMINED, RELEVANCE, clicks_log, learn
from tests.policies.conftest import listed_best_of

import counterrank as cr
from counterrank.common.errors import ConfigError, LogError, PolicyError
from counterrank.common.messages import Message
from counterrank.learning.learner import _split
from counterrank.learning.paths import Side, draw
from counterrank.learning.result import segments_of
from counterrank.policies import BestOf
from counterrank.report import at_least, plain
from counterrank.statistics import critical_value


def truth(policy, log, seed=0):
    """What a policy earns on the log's own rows, by drawing many rankings of each."""
    drawn = policy.sample(log.K, np.random.default_rng(seed), size=40)
    return float((RELEVANCE[drawn] * EXAMINED).sum(axis=2).mean())


def test_what_is_certified_is_true_and_the_estimate_is_near(learned, log):
    found = learned.certificate
    assert found.certified and found.grade == "free"
    gain = truth(learned.policy.bind(log), log) - truth(log.propensity, log)
    assert 0 < found.low < gain
    assert abs(found.value - gain) < 5 * found.stderr


def test_lifts_are_unbiased_whatever_the_model_says():
    """Mean lift of 40,000 rows against the exact gain, for a list value that is nonsense: |z| < 5."""
    n = 40_000
    logger = cr.PlackettLuce(np.array([[0.5, 0.0, 0.2, -0.3, 0.1, 0.0]]))
    action = logger.sample(3, np.random.default_rng(6), size=n)[0]
    reward = (np.random.default_rng(7).random(action.shape) < RELEVANCE[action] * EXAMINED).astype(
        float
    )
    rows = cr.RankingLog(action=action, reward=reward, propensity=np.ones(action.shape))

    def nonsense(_, rankings):
        return np.abs(np.sin(7.0 * rankings[..., 0] + 3.0 * rankings[..., 2]))

    drawn = draw(rows, logger, nonsense, 64, (8,))
    side = Side(rows, np.arange(n), reward.sum(axis=1), 3.0, 0.0, drawn)
    for m in (2, 8):
        exact = listed_best_of(BestOf(logger, lambda r, a: nonsense(r, a), m), 3)
        each = np.tile(np.arange(6)[:, None], (1, 3))
        served, old = (np.exp(policy.position_log_prob(each)) for policy in (exact, logger))
        gain = float(((served - old) * RELEVANCE[:, None] * EXAMINED).sum())
        for cap in (0.4, 10.0):
            lifts = side.lifts(m, cap)
            assert abs(lifts.mean() - gain) < 5 * lifts.std() / np.sqrt(n)
            assert lifts.min() >= side.lowest(m, cap)


def test_draws_are_the_same_in_blocks_of_any_size(monkeypatch):
    logger = cr.PlackettLuce(np.linspace(0.0, 1.0, 40 * 6).reshape(40, 6))
    action = logger.sample(3, np.random.default_rng(6))[:, 0]
    action[::4, 2] = -1
    rows = cr.RankingLog(action=action, reward=np.ones(action.shape), propensity=logger)
    seen = []

    def value(_, rankings):
        seen.append(rankings)
        return (rankings.clip(0) % 2).sum(axis=2) * 1.0

    whole = draw(rows, logger, value, 8, (8,))
    assert (seen[1][::4, :, 2] == -1).all() and (seen[1][1::4] >= 0).all()
    monkeypatch.setattr("counterrank.learning.paths._BLOCK", 24)
    pieces = draw(rows, logger, value, 8, (8,))
    np.testing.assert_array_equal(whole.ordered, pieces.ordered)
    np.testing.assert_array_equal(whole.below, pieces.below)
    assert (draw(rows, logger, value, 8, (9,)).below != whole.below).any()


@pytest.mark.slow
def test_noise_is_not_certified():
    """40 logs of pure noise at 95 %: more than 8 certificates would happen by chance once in 1,000
    times.
    """
    shipped = {grade: 0 for grade in ("free", "assumed")}
    for seed in range(40):
        for grade in shipped:
            shipped[grade] += learn(
                clicks_log(seed, 300, noise=True), grade=grade, seed=seed
            ).certificate.certified
    assert shipped["free"] <= 2 and shipped["assumed"] <= 8


def test_the_path_starts_at_the_logger_and_weights_stay_below_m(learned):
    assert [step.m for step in learned.path] == [1, 2, 4, 8, 16, 32]
    assert learned.path[0].value == pytest.approx(0.0, abs=1e-12) and learned.path[0].step == 0.0
    sizes = [step.ess for step in learned.path]
    assert sizes == sorted(sizes, reverse=True)


def test_units_stay_on_one_side():
    log = clicks_log(2, 1200, unit=np.repeat(np.arange(300), 4))
    learners, certifying = _split(log, np.random.default_rng(0), "free")
    assert not set(learners.unit) & set(certifying.unit)
    assert learners.n + certifying.n == log.n and 0.3 < learners.n / log.n < 0.5


def test_rows_that_are_repeated_certify_no_more():
    """Every row four times, as one unit: the bound does not come closer than that of the rows
    alone.
    """
    log = clicks_log(3, 800)
    index = np.repeat(np.arange(log.n), 4)
    often = log.take(index)
    again = cr.RankingLog(
        action=often.action,
        reward=often.reward,
        propensity=often.propensity,
        context=often.context,
        unit=index,
    )
    once = learn(log).certificate
    four = learn(again, despite_audit=True).certificate
    assert four.value - four.low > 0.6 * (once.value - once.low)


def test_the_same_seed_gives_the_same_policy(log):
    first, second, other = (learn(log, seed=seed) for seed in (4, 4, 5))
    assert first.to_json() == second.to_json()
    assert first.policy.to_dict() == second.policy.to_dict()
    assert first.to_json() != other.to_json()


def test_a_segment_of_one_user_has_no_interval(learned):
    """Its spread is not known, so it can neither win nor lose for certain."""
    gains, users = np.array([-1.0, -3.0, 2.0, 1.0, 4.0]), np.array([7, 7, 1, 2, 2])
    log = clicks_log(1).take(slice(0, 5))
    log = replace(log, columns={"device": np.array(["old", "old", "new", "new", "new"])})
    rows = {row.label: row for row in segments_of(log, gains, users, ["device"], 0.95)}
    assert rows["old"].value == -2.0 and np.isnan([rows["old"].stderr, rows["old"].high]).all()
    # Users 1 and 2: sums 2 and 5 of one and two rows, mean 7/3; 2/1 times their squared deviations / 9.
    away = np.array([2 - 7 / 3, 5 - 14 / 3])
    assert rows["new"].stderr == pytest.approx(np.sqrt(2 * (away**2).sum() / 9), rel=1e-12)
    alone = segments_of(log, gains, np.arange(5), ["device"], 0.95)
    assert alone[1].stderr == pytest.approx(gains[:2].std(ddof=1) / np.sqrt(2), rel=1e-12)
    # Two users leave one degree of freedom; two segments hold together.
    half = critical_value(0.975, df=1) * alone[1].stderr
    assert alone[1].high - alone[1].value == pytest.approx(half, rel=1e-12)
    told = replace(learned.certificate, segments=tuple(rows.values()))
    assert "These segments lose" not in told.to_html() + told.summary()


def test_segments_tell_who_gains(learned):
    assert {(row["column"], row["label"]) for row in learned.certificate.segments} == {
        ("device", "phone"),
        ("device", "desk"),
    }
    for row in learned.certificate.segments:
        assert row["low"] < row["value"] < row["high"]


def test_the_page_and_the_figure_say_it(learned, tmp_path):
    page = learned.to_html(tmp_path / "l.html")
    assert "with a certificate" in page and "whatever users do" in page
    assert (tmp_path / "l.html").read_text() == page
    learned.plot("path").savefig(tmp_path / "path.svg")
    learned.plot("segments").savefig(tmp_path / "segments.svg")
    with pytest.raises(ConfigError, match="no such numbers"):
        learned.plot("values")


def test_a_notebook_shows_the_sentence_and_the_page(learned):
    cell = learned._repr_html_()
    assert (
        escape(str(learned.certificate)) in cell
        and "sandbox=" in cell
        and "with a certificate" in cell
        and "learned and chosen on" in cell
    )


def test_one_number_is_told_with_the_same_digits_everywhere(learned):
    found, page = learned.certificate, learned.to_html()
    # In per cent of what today's policy earns, the bound rounded down: headline, picture and sentence.
    scale = 100 / found.logger["value"]
    bound = f"{at_least(scale * found.low, scale * found.stderr)}\u202f%"
    assert scale * found.low >= float(bound[:-2])
    for told in (f"at least {bound} more reward per ranking", f"at least +{bound}"):
        assert told in page
    assert f"at least {bound} more reward" in str(found)
    estimate = plain(scale * found.value, scale * found.stderr, sign=True)
    assert f"estimate {estimate}\u202f%" in str(found) and f"{estimate}\u202f%" in page
    assert "95%" not in str(found)
    # No other number is told of the certificate: not the lift in rewards per ranking.
    assert f"{plain(found.value, found.stderr, sign=True)} " not in learned.summary()


def numbers_only(log):
    joint = np.exp(log.propensity.prefix_log_prob(log.action))
    return cr.RankingLog(
        action=log.action, reward=log.reward, propensity=cr.Propensity("prefix", joint)
    )


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (numbers_only, {}, LogError, "does not define a policy"),
        (
            lambda log: clicks_log(9, 1500, temperature=0.4),
            {},
            LogError,
            "not draws of today's policy",
        ),
        (lambda log: clicks_log(9, 40), {}, LogError, "units are left to"),
        (lambda log: clicks_log(9, 200), {"grade": "assumed"}, LogError, "needs at least 150"),
        (lambda log: log, {"grade": "best"}, ConfigError, "grade is one of"),
        (
            lambda log: log,
            {"segments": ["nothing"]},
            ConfigError,
            "no column 'nothing' to segment by",
        ),
        (lambda log: log, {"reward_range": (0, 0.5)}, ConfigError, "outside the range"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(log, change, options, error, message):
    with pytest.raises(error, match=message):
        learn(change(log), despite_audit=True, **options)


def test_constant_rewards_and_deterministic_loggers_are_refused(log):
    same = cr.RankingLog(
        action=log.action, reward=np.ones_like(log.reward), propensity=log.propensity
    )
    with pytest.raises(LogError, match="every reward is the same"):
        learn(same, despite_audit=True)


def test_items_that_never_come_back_need_features(log):
    """Every row has items of its own: without features nothing can be said about them."""
    ids = np.arange(log.n)[:, None] * 6 + log.action
    sets = cr.Candidates(np.arange(log.n + 1) * 6, np.arange(6 * log.n, dtype=np.int32))
    scored = cr.parse_policy("plackett-luce").bind(
        scores=log.propensity.scores.ravel(), candidates=sets
    )
    alone = {"action": ids, "reward": log.reward, "propensity": scored, "candidates": sets}
    with pytest.raises(LogError, match="hardly any was shown twice"):
        learn(cr.RankingLog(**alone), despite_audit=True)
    table = cr.ItemFeatures(np.tile(np.arange(6.0), log.n)[:, None], ("z_kind",))
    assert learn(cr.RankingLog(**alone, item_features=table)).certificate.certified


def test_estimated_propensities_certify_nothing_for_free(log):
    guessed = replace(log, notes=(*log.notes, Message("estimated-propensity", "by frequency")))
    with pytest.raises(LogError, match="requires logged ones"):
        learn(guessed, despite_audit=True)
    assert learn(guessed, grade="assumed", despite_audit=True).certificate.value > 0


def test_amounts_need_a_range_for_the_free_grade(log):
    money = cr.RankingLog(
        action=log.action, reward=log.reward * 7.5, propensity=log.propensity, context=log.context
    )
    with pytest.raises(ConfigError, match="--config reward_range"):
        learn(money)
    free = learn(money, reward_range=(0, 10)).certificate
    clicks = learn(log).certificate
    assert free.certified and free.low < 7.5 * clicks.value
    assert learn(money, grade="assumed").certificate.certified


def test_saved_and_loaded_policies_agree_everywhere(learned, log, tmp_path):
    learned.save(tmp_path / "policy.json")
    loaded = cr.load_policy(tmp_path / "policy.json")
    assert (loaded.kind, loaded.m, loaded.items) == (
        "best-of",
        learned.certificate.m,
        tuple(range(6)),
    )
    x = log.context[:20]
    scores = loaded.scores(x)
    np.testing.assert_allclose(scores, learned.policy.scores(x), rtol=0, atol=1e-12)
    assert scores.shape == (20, 6)
    some = np.tile([5, 0, 3], (20, 1))
    np.testing.assert_allclose(loaded.scores(x, some), scores[:, [5, 0, 3]], rtol=0, atol=1e-12)
    draws = log.propensity.take(slice(0, 20)).sample(3, np.random.default_rng(0), size=loaded.m)
    values = np.stack([loaded.list_value(x, draws[:, j]) for j in range(loaded.m)], axis=1)
    best = np.take_along_axis(draws, values.argmax(axis=1)[:, None, None], axis=1)[:, 0]
    np.testing.assert_array_equal(loaded.serve(x, draws), best)
    with pytest.raises(PolicyError, match=f"the best of {learned.policy.m} rankings"):
        loaded.serve(x, draws[:, :-1])
    with pytest.raises(PolicyError, match="is nan in row 1, which is not a number"):
        loaded.serve(np.where(np.arange(len(x))[:, None] == 1, np.nan, x), draws)
    bound = loaded.bind(log)
    assert (bound.joint_weight(log.action) <= loaded.m).all()
    again = cr.evaluate(
        log.with_targets({"new": bound}), ["new"], estimators=["ips"], target_is_fresh=True
    )
    fresh = [row for row in again.verdict["reasons"] if row["check"] == "fresh-target"]
    assert fresh[0]["status"] == "warn" and "learned from this log" in fresh[0]["reason"]
    assert again.estimate("new", "ips").lift.value > 0


def test_a_saved_policy_is_the_same_in_memory_in_parts_and_in_samples(learned, tmp_path):
    other = clicks_log(5, 700)
    learned.save(tmp_path / "policy.json")
    columns = {
        "action": list(other.action), "reward": list(other.reward), "x_0": other.context[:, 0],
        "propensity_scores": list(other.propensity.scores),
    }  # fmt: skip
    (tmp_path / "log").mkdir()
    for part, rows in enumerate((slice(0, 300), slice(300, 700))):
        table = pa.table({name: pa.array(values[rows]) for name, values in columns.items()})
        pq.write_table(table, tmp_path / "log" / f"{part}.parquet")
    reading = {
        "logger": "plackett-luce",
        "policies": {"new": str(tmp_path / "policy.json")},
        "targets": ["new"],
    }
    whole, parts = (
        cr.read_log(tmp_path / "log", **reading),
        cr.scan_log(tmp_path / "log", **reading),
    )
    wanted = whole.targets["new"].joint_weight(whole.action)
    streamed = [log.targets["new"].joint_weight(log.action) for log in parts.batches(rows=128)]
    np.testing.assert_array_equal(np.concatenate(streamed), wanted)
    sample = parts.sample(400, np.random.default_rng(0))
    np.testing.assert_array_equal(
        sample.targets["new"].joint_weight(sample.action), wanted[sample.rows]
    )
    found = [cr.evaluate(log, ["new"], estimators=["ips", "snips"]) for log in (whole, parts)]
    for name in ("ips", "snips"):
        one, two = (result.estimate("new", name) for result in found)
        assert (one.value, one.stderr) == pytest.approx((two.value, two.stderr), rel=1e-12)


def test_scores_rank_items_as_their_relevance(learned, log):
    assert list(np.argsort(learned.policy.scores(log.context[:1])[0])) == list(range(6))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no policy file"),
        ("[]", "no policy file"),
        ('{"schema": "other"}', "schema .other."),
        ("DAMAGED scorer", "damaged"),
        ("DAMAGED theta", "damaged"),
        ("DAMAGED m", "damaged"),
    ],
)
def test_damaged_policy_files_are_one_message(learned, tmp_path, text, message):
    path = tmp_path / "p.json"
    data = json.loads(json.dumps(learned.policy.to_dict()))
    if text == "DAMAGED scorer":
        data["scorer"].pop("predictor")
    elif text == "DAMAGED theta":
        data["scorer"]["predictor"]["theta"][0] = "x"
    elif text == "DAMAGED m":
        data["m"] = -1
    path.write_text(json.dumps(data) if text.startswith("DAMAGED") else text)
    with pytest.raises(PolicyError, match=message):
        cr.load_policy(path)


def test_context_and_features_are_asked_for(learned):
    with pytest.raises(PolicyError, match="needs a context"):
        learned.policy.scores()
    with pytest.raises(PolicyError, match="expected 1 columns"):
        learned.policy.scores(np.zeros((2, 3)))


def test_competition_travels_with_the_policy():
    from counterrank.learning.scorer import Scorer
    from counterrank.models import ALL, Variant, fit_history, rankings_of

    log = clicks_log(4, 400)
    rankings = rankings_of(log)
    fold = np.arange(log.n) % 2
    (model,) = fit_history(
        rankings, log.reward, fold, folds=2, variants=(Variant(competition=True),)
    )
    again = Scorer.from_dict(json.loads(json.dumps(Scorer(model).to_dict())))
    np.testing.assert_allclose(
        again.model.expected(rankings, ALL), model.expected(rankings, ALL), rtol=0, atol=1e-12
    )


def test_boosted_policies_are_text_that_scores_the_same(tmp_path):
    pytest.importorskip("lightgbm")
    log = clicks_log(1, 800)
    learned = learn(log, model="boosting")
    assert learned.certificate.value > 0 and learned.to_dict()["model"]["model"] == "boosting"
    learned.save(tmp_path / "policy.json")
    loaded = cr.load_policy(tmp_path / "policy.json")
    x, pages = log.context[:50], log.action[:50]
    np.testing.assert_allclose(loaded.scores(x), learned.policy.scores(x), rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        loaded.list_value(x, pages), learned.policy.list_value(x, pages), rtol=0, atol=1e-6
    )
    data = json.loads((tmp_path / "policy.json").read_text())
    for damage in ("", "tree\nversion=v4\nend of trees\n", 7):
        data["scorer"]["trees"] = damage
        (tmp_path / "damaged.json").write_text(json.dumps(data))
        with pytest.raises(PolicyError, match="damaged"):
            cr.load_policy(tmp_path / "damaged.json")
    with pytest.raises(ConfigError, match="model is one of linear, boosting"):
        learn(log, model="forest")


def test_a_plain_sort_is_no_part_of_what_is_certified(learned):
    assert "A plain sort by score is not certified" in learned.to_html()


def test_targets_of_the_log_do_not_matter(log):
    """A target with absurd weights fails the audit of an evaluation, and has nothing to do with
    learning.
    """
    far = log.with_targets(
        {"far": cr.PlackettLuce(50.0 * np.random.default_rng(0).normal(size=(log.n, 6)))}
    )
    assert learn(far).certificate.low == learn(log).certificate.low


def test_a_slightly_wrong_temperature_is_seen_in_the_probabilities_of_pages():
    """0.8 for 1, on five logs: ranks by probability among fresh draws are away from the middle."""
    refused = 0
    for seed in range(5):
        with contextlib.suppress(LogError):
            learn(clicks_log(100 + seed, 2000, temperature=0.8), despite_audit=True)
            continue
        refused += 1
    assert refused == 5


def test_learning_rows_that_show_no_gain_certify_nothing(log, monkeypatch):
    """The others alone would certify this log; a smaller bound holds too."""
    from counterrank.learning import settings

    monkeypatch.setattr(settings, "AGREE", 1e6)
    found = learn(log).certificate
    assert found.value > 0 and found.low == 0.0 and not found.certified and not found.agreed
    assert "cannot be told from chance" in str(found) and found.more_rows > 0


def test_features_of_items_are_looked_up_as_the_log_does():
    """Encoded once for the catalogue: labels, gaps, padding and unknown items included."""
    from counterrank.learning.learner import _table_lookup
    from counterrank.models import rankings_of

    values = np.array([[1.0, 0.0], [np.nan, 1.0], [3.0, 2.0]])
    log = cr.RankingLog(
        action=np.array([[0, 1], [2, 0]]), reward=np.ones((2, 2)), propensity=np.ones((2, 2)),
        item_features=cr.ItemFeatures(values, ("z_a", "z_b"), {"z_b": ("x", "y", "z")}),
    )  # fmt: skip
    items = np.array([[[0, 1, 2, -1]], [[2, 2, 7, 0]]])
    np.testing.assert_array_equal(_table_lookup(log)(items), rankings_of(log).lookup(items))
