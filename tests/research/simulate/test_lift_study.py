"""The study of the lift: replays and simulated pages have the lifts they say, runs resume, measures
agree with cases worked by hand.

Statistical tests have fixed seeds; each allows 4.5 standard errors, a false alarm in 150,000.
"""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from benchmarks.lift import boosting, news, pages, record, rules, running, search, simulated, tables
from benchmarks.lift.cells import Case, Cell, Kept, Truth, any_click, at_last, reciprocal_rank

from counterrank.estimators.auto import rule

SIGMAS = 4.5


def sessions(count=4_000):
    rng = np.random.default_rng(3)
    query = rng.integers(2, size=count)
    order = np.argsort(rng.random((count, 3)), axis=1)
    rest = np.broadcast_to(np.arange(3, 10), (count, 7))
    items = 10 * query[:, None] + np.concatenate([order, rest], axis=1)
    clicks = (rng.random((count, 10)) < 0.5 / (1 + items % 10)).astype(float)
    return search.Sessions(query, items, clicks)


def replay(target="lists", reward="clicks"):
    setting = search.Setting(3, 2_000, target, reward=reward)
    rng = np.random.default_rng(1)
    found = search.Replay(sessions(), setting, rng)
    seen = found.draw(setting.n, np.random.default_rng(2))
    found.aim(rng, seen)
    return found, seen


@pytest.mark.parametrize("target", ["lists", "documents", "chance", "retrained", "best list"])
def test_a_target_of_lists_is_a_policy_that_differs(target):
    found, _ = replay(target)
    for probability in (found.old, found.new):
        np.testing.assert_allclose(np.bincount(found.owner, weights=probability), 1.0)
    assert not np.allclose(found.old, found.new)
    assert replay("none")[0].truth().lift == 0.0


@pytest.mark.parametrize("reward", ["clicks", "any click", "reciprocal rank"])
def test_replayed_lists_are_unbiased(reward):
    found, (listed, clicks) = replay(reward=reward)
    truth, log = found.truth(), found.log(listed, clicks)
    assert log.page_reward == (reward != "clicks")
    # Each list's sessions, weighted by how often it is shown, are the population itself.
    share = found.traffic[found.owner] * found.new
    means = [found.reward(answers).sum(axis=1).mean() for answers in found.answers]
    assert share @ means == pytest.approx(truth.base + truth.lift, rel=1e-12)
    weight = np.exp(
        log.targets["new"].prefix_log_prob(log.action) - log.propensity.prefix_log_prob(log.action)
    )[:, -1]
    np.testing.assert_allclose(weight, (found.new / found.old)[listed], rtol=1e-9)
    y = (weight - 1) * log.reward.sum(axis=1)
    assert abs(y.mean() - truth.lift) < SIGMAS * y.std() / np.sqrt(len(y))
    assert abs(log.reward.sum(axis=1).std() - truth.sd_old) < 0.05


def test_lists_are_scored_on_sessions_other_than_those_that_answer():
    found, _ = replay()
    whole = sessions()
    sizes = [len(a) + len(b) for a, b in zip(found.scored, found.answers, strict=True)]
    assert sum(sizes) == len(whole.query)
    dev, fresh = (whole.part(draws) for draws in ("dev", "fresh"))
    assert len(dev.query) == len(fresh.query) == len(whole.query) // 2
    total = dev.clicks.sum() + fresh.clicks.sum()
    assert total == whole.clicks.sum()


def news_pages(count=3_000):
    """Readers choose by topic and place: P(read place k) ~ exp(topic) / (1 + k)."""
    rng = np.random.default_rng(5)
    topic = rng.integers(3, size=(count, 9))
    pull = news_pull(topic)
    read = (rng.random((count, 1)) > np.cumsum(pull, axis=1)).sum(axis=1)
    return news.Pages(
        topic,
        rng.integers(1, 8, size=(count, 9)).astype(float),
        np.minimum(read, 8),
        rng.integers(60, size=count),
        rng.standard_normal((count, 4)),
        ("a", "b", "c"),
        ("phone",),
    )


def news_pull(topic):
    pull = np.exp(0.8 * topic) / (1 + np.arange(9))
    return pull / pull.sum(axis=-1, keepdims=True)


def exact_value(topic, scores, K):
    """Return P(the read article is among the first K) under Plackett-Luce, order by order."""
    places = np.array(list(itertools.permutations(range(9), K)))
    e = np.exp(scores)
    chance, left = np.ones(len(places)), np.full(len(places), e.sum())
    for k in range(K):
        chance, left = chance * e[places[:, k]] / left, left - e[places[:, k]]
    # What stands below the first K is in random order: its pull is that of the mean over places.
    below = (1 / (1 + np.arange(K, 9))).mean()
    strength = np.exp(0.8 * topic)
    top = (strength[places] / (1 + np.arange(K))).sum(axis=1)
    rest = strength.sum() - strength[places].sum(axis=1)
    return float(chance @ (top / (top + below * rest))), chance


def test_news_weights_are_those_of_all_orders():
    """Over every order of the first two of nine, weights average one: they are probabilities."""
    scores = np.random.default_rng(1).normal(size=9)
    orders = np.array(
        [[a, b, *(j for j in range(9) if j not in (a, b))] for a in range(9) for b in range(9) if a != b]
    )  # fmt: skip
    assert news.weights(scores[orders], 2).mean() == pytest.approx(1.0, rel=1e-12)
    _, chance = exact_value(np.zeros(9), scores, 2)
    assert chance.sum() == pytest.approx(1.0, rel=1e-12)


def test_news_truth_and_log_agree_with_readers_that_are_known():
    """The exact value takes the mean pull of the places below K, an error far below the truth's."""
    source, setting = news_pages(), news.Setting(2, "chance", "popular", 0.4, 0.8)
    readers = news.Readers(source, setting, np.random.default_rng(4))
    rows = readers.logged(np.random.default_rng(6))
    readers.aim(rows)
    truth, log = readers.truth(), readers.log(rows, np.random.default_rng(7))
    weight = np.exp(
        log.targets["new"].prefix_log_prob(log.action) - log.propensity.prefix_log_prob(log.action)
    )[:, -1]
    K = setting.K
    same = news.weights(readers.new[rows], K) / news.weights(readers.old[rows], K)
    np.testing.assert_allclose(weight, same, rtol=1e-9)
    y = (weight - 1) * log.reward.sum(axis=1)
    error = np.hypot(y.std() / np.sqrt(len(y)), truth.stderr)
    assert abs(y.mean() - truth.lift) < SIGMAS * error
    some = readers.true[:400]
    exact = [
        exact_value(source.topic[i], readers.new[i], K)[0]
        - exact_value(source.topic[i], readers.old[i], K)[0]
        for i in some
    ]
    assert abs(np.mean(exact) - truth.lift) < SIGMAS * truth.stderr
    assert log.unit is not None and (log.lengths == K).all()
    taught, true, pool = readers.taught, readers.true, readers.pool
    assert len(np.unique(np.concatenate([taught, true, pool]))) == len(source.read)


def test_news_readers_of_development_and_judging_differ():
    source = news_pages()
    dev, fresh = (set(source.part(draws).user.tolist()) for draws in ("dev", "fresh"))
    assert not dev & fresh and dev | fresh == set(source.user.tolist())


SMALL = pages.Pages(7, n=600, items=40, candidates=12, K=4, rate=-0.5, apart=0.7)


@pytest.mark.parametrize(
    "behavior", ["position", "reading", "redundancy", "trust", "one click", "carousel"]
)
@pytest.mark.parametrize("reward", ["clicks", "revenue", "any click", "reciprocal rank"])
def test_expected_rewards_of_pages_are_those_of_drawn_clicks(behavior, reward):
    world = pages.World(replace(SMALL, behavior=behavior, reward=reward, leave=0.4))
    rng = np.random.default_rng(11)
    visits = world.visits(20_000, rng)
    items = visits.candidates[:, :4]
    drawn = world.rewards(items, world.clicks(visits, items, rng), rng).sum(axis=1)
    away = drawn - world.expected(visits, items)
    assert abs(away.mean()) < SIGMAS * away.std() / np.sqrt(len(away))


def test_pages_are_drawn_by_plackett_luce_and_the_lift_is_exact():
    """Three candidates, two shown: all six orders of each visit are enumerated."""
    world = pages.World(replace(SMALL, candidates=3, K=2, behavior="redundancy"))
    truth = world.truth(2**16)
    visits = world.visits(4_000, np.random.default_rng(2))
    orders = np.array(list(itertools.permutations(range(3), 2)))
    values = []
    for scores in (world.old.of(visits.x, visits.candidates), world.target(visits)):
        e = np.exp(world.pages.sharp * scores)
        total = np.zeros(len(e))
        for first, second in orders:
            chance = e[:, first] / e.sum(axis=1) * e[:, second] / (e.sum(axis=1) - e[:, first])
            total += chance * world.expected(visits, visits.candidates[:, [first, second]])
        values.append(total)
    lift = values[1] - values[0]
    by_user = np.bincount(visits.user, weights=lift - lift.mean())
    error = np.sqrt((by_user**2).sum()) / len(lift)
    assert abs(lift.mean() - truth.lift) < SIGMAS * np.hypot(error, truth.stderr)
    log = pages.case(world.pages, 0, truth).log
    assert log.unit is not None and log.K == 2


def test_a_target_that_is_the_logger_has_no_lift_and_goals_are_met():
    none = pages.World(replace(SMALL, target="none")).truth(2**14)
    assert none.lift == 0.0
    aimed = pages.aimed(SMALL, 0.02, draws=2**15)
    found = pages.World(aimed).truth(2**15)
    assert found.lift / found.base == pytest.approx(0.02, abs=0.001)
    retrained = pages.case(replace(SMALL, target="retrained"), 0, None, draws=2**14)
    assert not retrained.fresh and retrained.truth.lift > 0


def test_one_reward_a_page():
    clicks = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert any_click(clicks).tolist() == [1, 0, 1]
    assert reciprocal_rank(clicks).tolist() == [0.5, 0, 1]
    assert at_last(any_click(clicks), 3).tolist() == [[0, 0, 1], [0, 0, 0], [0, 0, 1]]


def test_draws_share_no_world():
    for population in (simulated.shop, simulated.close, simulated.special):
        dev, fresh = (population(draws, None, Kept()) for draws in ("dev", "fresh"))
        assert [cell.name for cell in dev] == [cell.name for cell in fresh]
    seeds = [
        simulated._seed(draws, a, b) for draws in ("dev", "fresh") for a in (1, 2) for b in range(9)
    ]
    assert len(set(seeds)) == len(seeds)


def test_a_run_resumes_and_estimates_anew_when_asked(tmp_path):
    made = []

    def make(number):
        made.append(number)
        return pages.case(SMALL, number, Truth(0.1, 1.0, 1.0, 1.0))

    cell = Cell("test", "a cell, of 2", make)
    first = running.run(cell, 0, ["ips", "no such"], [], tmp_path)
    assert [one.estimator for one in first] == ["ips", "no such"] and made == [0]
    assert np.isfinite(first[0].lift) and "no estimator" in first[1].why and not first[1].failed
    assert len(running.run(cell, 0, ["ips"], [], tmp_path)) == 2 and made == [0]
    second = running.run(cell, 0, ["ips", "iips"], ["ips"], tmp_path)
    assert made == [0, 0] and len(second) == 3
    assert [one.lift for one in second if one.estimator == "ips"] == [first[0].lift]
    back = running.read(running.path_of(tmp_path, cell, 0))
    assert [one.estimator for one in back] == ["ips", "no such", "iips"]
    assert back[2] == second[2]


def test_truths_are_kept(tmp_path):
    kept, made = Kept(tmp_path), []

    def make():
        made.append(1)
        return Truth(0.1, 1.0, 2.0, 3.0, 0.4)

    assert kept.truth("a", make) == kept.truth("a", make) == Truth(0.1, 1.0, 2.0, 3.0, 0.4)
    assert made == [1]


def said(log, estimator, lift, half, *, true=0.1, verdict="", fresh=True):
    return running.Row(
        "shop", "a", log, estimator, 100, lift, half / 2, lift - half, lift + half, true, 0.0, 1.0, 0.2,
        fresh, verdict, "", False, 1.0,
    )  # fmt: skip


def test_measures_of_one_cell_worked_by_hand():
    rows = [
        said(0, "auto", 0.12, 0.04, verdict="reliable"),
        said(1, "auto", 0.20, 0.06, verdict="reliable"),
        said(2, "auto", -0.06, 0.20, verdict="directional"),
        said(0, "ips", 0.20, 0.1), said(1, "ips", 0.0, 0.1), said(2, "ips", 0.1, 0.1),
        said(0, "lgb", 0.1, 0.0), said(1, "lgb", 0.2, 0.0), said(2, "lgb", 0.1, 0.0),
    ]  # fmt: skip
    m = tables.measures(rows, "auto")
    own = 0.02**2 + 0.1**2 + 0.16**2
    assert m.four == pytest.approx(own / (0.1**2 + 0.1**2))
    assert m.all == pytest.approx(own / 0.1**2) and m.best == "lgb"
    assert m.rmse == pytest.approx(np.sqrt(own / 3) / 0.2)
    assert m.gains == m.bias == pytest.approx((0.02 + 0.1 - 0.16) / 0.6)
    # Two of the four: the other logs prefer snips for the first log, ips for the others.
    both = [*rows, *(said(log, "snips", lift, 0.1) for log, lift in enumerate((0.4, 0.1, 0.1)))]
    assert tables.measures(both, "auto").chosen == pytest.approx(own / (0.3**2 + 0.1**2 + 0.0**2))
    assert m.outer == 0
    aside = [replace(one, high=one.lift + (one.lift - one.low) / 10) for one in rows]
    assert tables.measures(aside, "auto").outer == 3
    assert (m.held, m.sign, m.better) == (2, (2, 3), (0, 0))
    assert (m.reliable, m.missed, m.deserving) == (2, 1, (1, 1))
    assert m.width == pytest.approx(0.06 / 0.2)
    # Who was asked about one log of three is not the best of all, and is compared on that one.
    lucky = [*rows, said(0, "lucky", 0.1001, 0.0)]
    assert tables.measures(lucky, "auto").best == "lgb"
    assert tables.against([*rows, said(0, "late", 0.11, 0.0)], "auto")[-1].endswith("| 4.00 |")
    zero = [said(0, "auto", 0.1, 0.04, true=0.0), said(1, "auto", 0.01, 0.04, true=0.0)]
    assert tables.measures(zero, "auto").better == (1, 2)
    # A truth that is not known to be zero is neither a lift nor none.
    unknown = [replace(one, true_stderr=0.05) for one in zero]
    assert (
        tables.measures(unknown, "auto").better == tables.measures(unknown, "auto").sign == (0, 0)
    )
    # Weights of one leave a rounding, which says nothing.
    exact = tables.measures([said(0, "ips", 1e-17, 0.0, true=0.0)], "ips")
    assert (exact.held, exact.better) == (1, (0, 1))
    assert "**shop**" in tables.table(rows, "auto")


def test_the_error_of_the_truth_counts_in_what_is_held():
    one = said(0, "auto", 0.2, 0.05)
    assert not running.held(one)
    assert running.held(replace(one, true_stderr=0.06))


def test_a_log_is_judged_as_users_see_it():
    case = pages.case(replace(SMALL, n=300), 0, Truth(0.0, 1.0, 1.0, 1.0))
    found, level, _ = running.judged(Case(case.log, case.truth))
    assert np.isfinite(found.lift.value) and level in ("reliable", "directional", "insufficient")


def test_what_auto_decided_on_is_kept_and_rules_are_compared_on_it(tmp_path):
    case = pages.case(replace(SMALL, n=300), 0, Truth(0.1, 1.0, 1.0, 1.0))
    cell = Cell("test", "a", lambda number: case)
    for number in range(2):
        (row,) = running.run(cell, number, ["auto"], [], tmp_path / "out", tmp_path / "kept")
        kept = record.read(tmp_path / "kept" / "test" / f"a-log{number}.npz")
        assert (kept.truth, kept.test_half_width) == (case.truth, row.test_half_width)
        summary, J = kept.question.summary, len(kept.question.summary.members)
        said = rules.present(kept.question) @ summary.value[1 : 1 + J] - summary.value[0]
        assert said == pytest.approx(row.lift)
        # Two standard errors in both steps are the rule of `auto` but for own positions.
        combined, _ = rule.combined(summary, np.eye(J)[0], 1, kept.question.unknown)
        np.testing.assert_allclose(rules.steps(4, 4)(kept.question), combined)
        assert rules.at_once(0)(kept.question).sum() == pytest.approx(1)
    lines = rules.table(tmp_path / "kept").splitlines()
    assert lines[0] == "| rule | test (2) |" and len(lines) == 2 + len(rules.RULES)


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["clicks", "any click"])
def test_boosting_sees_a_lift(reward):
    pytest.importorskip("lightgbm")
    world = replace(SMALL, n=1_500, better=0.9, rate=0.0, reward=reward)
    truth = pages.World(world).truth(2**15)
    case = pages.case(world, 0, truth)
    trees = boosting.Boosting(case.log)
    for name in boosting.NAMES:
        found = trees.lift(name)
        assert found.low < found.value < found.high
        assert abs(found.value - truth.lift) < 2 * truth.test_half_width(case.log.n), name
    # Without a difference between the policies there is none to see: both are drawn alike.
    none = pages.case(replace(world, target="none"), 0, truth)
    assert (
        abs(boosting.Boosting(none.log).lift("lgb-diff").value) < truth.test_half_width(1_500) / 4
    )
