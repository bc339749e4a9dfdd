"""Counts the checks share, against counting one by one."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import counterrank as cr
from counterrank.checks import base
from counterrank.checks.auditor import CHECKS, audit
from counterrank.checks.base import BLOCK, Subject, examples_at, families
from counterrank.checks.items import item_sums
from counterrank.checks.propensities import (
    MEANING,
    REPLACEMENT,
    inverse_sums,
    items_seen,
    shown,
    steps,
)
from counterrank.checks.rewards import BINS, TERM_ROWS, page_sums, reward_sums
from counterrank.checks.rows import REWARDS, ROBOTS, UNITS_TOLD_APART
from counterrank.checks.weights import GROUP_WEIGHTS, WEIGHTS, ContextCut, lift_sums
from counterrank.data.source import MemorySource
from counterrank.estimators import View
from counterrank.evaluation.verdict import of_audit


def padded(actions: int, seed: int = 0) -> cr.RankingLog:
    rng = np.random.default_rng(seed)
    action = rng.integers(0, actions, (60, 4))
    action[np.arange(4) >= rng.integers(1, 5, 60)[:, None]] = -1
    return cr.RankingLog(
        action=action,
        reward=np.zeros((60, 4)),
        propensity=np.full((60, 4), 0.5),
        context=np.where(rng.random((60, 1)) < 0.2, np.nan, rng.integers(0, 4, (60, 1))),
        dists={"propensity": rng.dirichlet(np.ones(actions), (60, 4))},
    )


@pytest.mark.parametrize("actions", [1, 3, 63, 64, 90])
def test_items_by_position_and_repeats(actions: int) -> None:
    log = padded(actions)
    rows = [[a for a in row if a >= 0] for row in log.action.tolist()]
    seen, repeats = items_seen(log, actions)
    for k, counts in enumerate(seen.tolist()):
        items = [row[k] for row in rows if k < len(row)]
        assert counts == [items.count(a) for a in range(actions)]
    assert repeats == sum(len(set(row)) < len(row) for row in rows)
    assert Subject(log).items(log).tolist() == [sum(k < len(row) for row in rows) for k in range(4)]


@pytest.mark.parametrize("alike", [False, True])
def test_the_distribution_s_entry_of_what_was_shown(alike: bool) -> None:
    log = padded(5)
    table = log.dists["propensity"]
    table = table[:, 0] if alike else table
    found = shown(replace(log, dists={"propensity": table}), "propensity")
    assert found is not None
    for i, row in enumerate(log.action.tolist()):
        for k, a in enumerate(row):
            if a >= 0:
                assert found[i, k] == (table[i, a] if alike else table[i, k, a])


def test_cells_are_those_of_the_batch_at_hand() -> None:
    log = padded(3)
    subject = Subject(log, formed={})
    for batch in (log, log.take(slice(10, 30)), log, log.take(slice(30, 50))):
        expected = [[k < length for k in range(4)] for length in batch.lengths.tolist()]
        assert subject.used(batch).tolist() == expected


def test_groups_of_a_number_are_closed_below() -> None:
    log = padded(3)
    cut = ContextCut("x", 0, edges=(1.0, 2.5))
    values = log.context[:, 0].tolist()  # type: ignore[index]
    expected = [3 if v != v else 0 if v < 1.0 else 1 if v < 2.5 else 2 for v in values]
    assert cut.codes(log).tolist() == expected


def test_inverses_are_summed_as_by_hand() -> None:
    log = padded(3)
    values, out = np.random.default_rng(1).uniform(0.1, 1, (60, 4)), np.ones((3, 4))
    values[::7] = 1.0
    inverse_sums(values, log.lengths, out)
    for k in range(4):
        own = [1 / values[i, k] for i in range(60) if k < log.lengths[i]]
        expected = [1 + sum(own), 1 + sum(v**2 for v in own), 1 + own.count(1.0)]
        np.testing.assert_allclose(out[:, k], expected, rtol=1e-12)


def test_rankings_of_equal_and_of_falling_numbers_are_told_apart() -> None:
    values = np.array(
        [
            [0.5, 0.5, 0.5],  # equal
            [0.9, 0.8, 0.8],  # falling
            [0.9, 0.5, 0.6],  # neither: rises at the end
            [0.4, 0.5, 0.1],  # neither
            [0.3, 0.2, 0.1],  # falling, but not full
            [0.8, 0.3, 0.2],  # falling
            [0.6, 0.6, 0.6],  # equal
        ]
    )
    counts, span = np.array([0, 0, 0]), np.array([0.0, 1.0])
    steps(values, np.array([3, 3, 3, 3, 2, 3, 3]), counts, span)
    assert counts.tolist() == [6, 2, 2]
    assert span.tolist() == [0.9, 0.4]


def test_a_finding_on_some_of_the_rows_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "STRETCH_ROWS", 100)
    most = {GROUP_WEIGHTS: 2000, REWARDS: 1000}
    checks = [replace(check, max_rows=most.get(check, check.max_rows)) for check in CHECKS]
    rng, n = np.random.default_rng(0), 3000
    log = cr.RankingLog(
        action=rng.integers(0, 2, (n, 1)),
        reward=rng.random((n, 1)),
        propensity=np.full((n, 1), 0.5),
        context=rng.random((n, 1)),
        targets={"new": np.full((n, 1), 0.5)},
    )
    every = audit(MemorySource(log, threads=1), checks=checks)
    found = {f.check: f.found for f in every if f.status == "passed"}
    assert found["rewards"].endswith(" (in 1,000 of 3,000 rankings)")
    assert found["mean-weight-by-x_0"].endswith(" (in 2,000 of 3,000 rankings)")
    # What a verdict cannot do without has seen every row.
    assert not found["mean-weight"].endswith("rankings)")
    assert not found["exploration"].endswith("rankings)")
    everything = {check.code for check in CHECKS if check.max_rows is None}
    assert everything >= {"mean-weight", "propensity-kind", "exploration", "repeated-items"}


def test_stretches_are_spread_over_the_log_and_weights_follow_them() -> None:
    rng, n = np.random.default_rng(0), 40_000
    log = cr.RankingLog(
        action=np.zeros((n, 1), int), reward=np.ones((n, 1)), propensity=np.full((n, 1), 0.5),
        targets={"new": rng.random((n, 1))},
    )  # fmt: skip
    subject = Subject(log, targets=("new",), n=n)
    parts = [subject.sampled_stretch(batch, 12_000) for batch in log.chunks(2000)]
    assert sum(part.n for part in parts if part is not None) == 12_000
    starts = [part.start for part in parts if part is not None]
    assert starts[0] == 0 and starts[-1] >= 30_000 and max(np.diff(starts)) <= 8000
    long = subject.sampled_stretch(log, 12_000)
    assert long is not None and long.n == 3 * base.STRETCH_ROWS
    assert subject.sampled_stretch(log, None) is log and subject.sampled_stretch(log, n) is log
    total = families(GROUP_WEIGHTS.count(long, subject).parts)["new", BLOCK][1].sum(axis=0)
    w = log.targets["new"].values[: long.n, 0] / 0.5
    np.testing.assert_allclose(total[:, 0], [long.n, w.sum(), (w**2).sum(), (w**3).sum()])


def weighed(n: int, lengths: list[int]) -> cr.RankingLog:
    rng = np.random.default_rng(0)
    action = np.where(np.arange(3) < np.resize(lengths, n)[:, None], 1, -1)
    return cr.RankingLog(
        action=action, reward=np.ones((n, 3)), propensity=rng.uniform(0.2, 1, (n, 3)),
        targets={"new": rng.uniform(0.2, 1, (n, 3))},
    )  # fmt: skip


def test_lent_ratios_are_of_the_whole_batch_only() -> None:
    log = weighed(60, [2])
    plain = Subject(log, targets=("new",), n=60)
    lent = replace(plain, lent={"new": View(log, "new")})
    for part in (log, log.take(slice(0, 20))):
        mine, theirs = (
            families(GROUP_WEIGHTS.count(part, subject).parts)["new", BLOCK][1]
            for subject in (plain, lent)
        )
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.parametrize("lengths", [[3, 3, 3, 3], [3, 1, 2, 3]])
def test_lent_sums_of_weights_are_those_of_the_weights_themselves(lengths: list[int]) -> None:
    log = weighed(4, lengths)
    view = View(log, "new")
    assert view.position_sums is None
    view.standard({"position": False})
    plain = Subject(log, targets=("new",))
    lent = replace(plain, lent={"new": view})
    mine, theirs = (WEIGHTS.count(log, subject).parts["new",] for subject in (plain, lent))
    # Cubes are summed of weights that no pass lends.
    np.testing.assert_allclose(mine[:3], theirs, rtol=1e-12)


def many(n: int, **changes: np.ndarray) -> cr.RankingLog:
    rng = np.random.default_rng(0)
    start = {
        "action": np.tile(np.arange(3), (n, 1)),
        "reward": np.ones((n, 3)),
        "propensity": np.sort(rng.uniform(0.2, 1, (n, 3)))[:, ::-1].copy(),
    }
    return cr.RankingLog(**{**start, **changes})


def test_a_repeat_anywhere_in_the_log_is_found_and_the_first_ends_the_search() -> None:
    n = base.HEAD_ROWS + 100
    check = REPLACEMENT

    def found(log: cr.RankingLog) -> tuple[int, int, str]:
        tally = check.count(log, Subject(log))
        outcome = check.findings(tally, Subject(log))[0]
        return tally.count("repeats"), tally.count("n"), outcome.found

    action = many(n).action.copy()
    # Three items at three fixed places: independent positions would never repeat either.
    assert found(many(n)) == (
        0,
        n,
        f"none of {n} rankings repeat an item, as independent draws may",
    )
    late, early = action.copy(), action.copy()
    late[-1], early[3] = 0, 0
    assert found(many(n, action=late))[:2] == (1, n)
    assert found(many(n, action=early))[:2] == (1, base.HEAD_ROWS)
    shuffled = np.array([np.roll([0, 1, 2], i % 3) for i in range(n)])
    assert found(many(n, action=shuffled))[2].startswith("no ranking repeats an item")


def test_numbers_that_fall_in_all_but_the_last_ranking_are_no_products() -> None:
    n = base.HEAD_ROWS + 100
    check = MEANING

    def found(log: cr.RankingLog) -> tuple[int, str]:
        tally = check.count(log, Subject(log))
        return tally.count("full"), str(check.findings(tally, Subject(log))[0].status)

    assert found(many(n)) == (n, "warned")
    numbers = np.asarray(many(n).propensity.values).copy()  # type: ignore[union-attr]
    late, early = numbers.copy(), numbers.copy()
    late[-1], early[3] = (0.2, 0.3, 0.4), (0.2, 0.3, 0.4)
    assert found(many(n, propensity=late)) == (n, "passed")
    assert found(many(n, propensity=early)) == (base.HEAD_ROWS, "passed")


def test_the_first_few_places_are_found_wherever_they_are() -> None:
    bad = np.zeros((4, 3), bool)
    assert examples_at(bad, bad, 0) == ()
    bad[0, 2] = bad[1, 0] = bad[3, 1] = bad[3, 2] = True
    places = [(one["row"], one["position"]) for one in examples_at(bad, bad, 10)]
    assert places == [(10, 3), (11, 1), (13, 2)]
    assert [one["row"] for one in examples_at(bad[:, 2], bad[:, 2], 0)] == [0, 3]


def test_a_share_of_the_rows_is_rounded_up_and_an_eighth_where_their_number_is_not_known() -> None:
    log = padded(3)
    assert Subject(log, n=1000).looked_at(7, 300) == 3
    assert Subject(log, n=None).looked_at(8000, 300) == 1000
    known = log.take(slice(0, 60))
    part = Subject(known, n=None).sampled_stretch(known, 10)
    assert part is not None and part.n == 60  # one stretch begins here
    assert Subject(known, n=None).sampled_stretch(replace(known, start=60), 10) is None


@pytest.mark.parametrize("zeros_too", [False, True])
def test_missing_rewards_are_counted_and_limit_beside_zeros_of_their_own(zeros_too):
    """Where clicks alone are logged, a missing one is a zero; beside zeros it is something else."""
    rng = np.random.default_rng(0)
    reward = (rng.random((400, 2)) < 0.3).astype(float)
    missing = (reward == 0) & (rng.random((400, 2)) < 0.2) if zeros_too else reward == 0
    table = pa.table({
        "action": rng.integers(3, size=(400, 2)).tolist(),
        "reward": [[None if m else r for r, m in zip(*row, strict=True)] for row in zip(reward, missing, strict=True)],
        "propensity": np.full((400, 2), 1 / 3).tolist(),
    })  # fmt: skip
    log = cr.RankingLog.from_frame(table, missing_reward="zero")
    (found,) = [one for one in cr.audit_log(log) if one.code == "rewards"]
    assert found.status == ("warned" if zeros_too else "passed")
    assert f"{100 * missing.mean():.1f}" in found.text
    assert len([one for one in of_audit([found], "new")]) == zeros_too


def rewarded(n: int, seed: int = 0) -> cr.RankingLog:
    """Rankings of one to four items, with rewards of 0, 1, 2 and 1.5."""
    rng = np.random.default_rng(seed)
    used = np.arange(4) < rng.integers(1, 5, n)[:, None]
    return cr.RankingLog(
        action=np.where(used, rng.integers(0, 9, (n, 4)), -1),
        reward=np.where(used, rng.choice([0, 0, 1, 2, 1.5], (n, 4)), 0.0),
        propensity=np.full((n, 4), 0.5),
        targets={"new": rng.uniform(0.2, 1, (n, 4))},
        unit=rng.integers(0, 20, n),
    )


def test_rewards_are_counted_page_by_page() -> None:
    log = rewarded(200)
    hits, found = Subject(log).page_counts(log)
    rows = [row[:length] for row, length in zip(log.reward.tolist(), log.lengths, strict=True)]
    assert hits.tolist() == [sum(r != 0 for r in row) for row in rows]
    assert found["early"].tolist() == [sum(r != 0 for row in rows for r in row[:-1])]
    full = [row for row in rows if len(row) == 4]
    assert found["pages"].tolist() == [
        sum(np.count_nonzero(r) == m for r in full) for m in range(5)
    ]
    for k in range(4):
        above = [row for row in full if any(row[:k])]
        below = [row for row in full if any(row[k + 1 :])]
        expected = [[len(part), sum(row[k] != 0 for row in part)] for part in (above, below)]
        assert found["beside"][:, k].tolist() == sum(expected, [])


def test_rewards_are_counted_by_group_of_rows() -> None:
    log = rewarded(200)
    code = np.random.default_rng(1).integers(0, 3, 200)
    out = np.zeros((3, 13))
    reward_sums(log.reward, log.lengths, code, out)
    used = log.action >= 0
    hit = log.reward != 0
    rows = np.column_stack([
        np.ones(200), hit.sum(axis=1), hit.sum(axis=1) ** 2, (log.reward == 1).sum(axis=1),
        (hit & (log.reward % 2 == 0)).sum(axis=1), used, hit,
    ])  # fmt: skip
    assert out.tolist() == [rows[code == g].sum(axis=0).tolist() for g in range(3)]


def test_expected_and_observed_rewards_are_summed_by_item_and_score() -> None:
    log, rng = rewarded(200), np.random.default_rng(1)
    score, rates, out = rng.integers(0, 10, (200, 4)), rng.random(4), np.zeros((2, 9, 10))
    item_sums(log.action, score, log.reward, rates, out)
    expected = np.zeros((2, 9, 10))
    used = log.action >= 0
    cells = (log.action[used], score[used])
    np.add.at(expected[0], cells, np.broadcast_to(rates, used.shape)[used])
    np.add.at(expected[1], cells, (log.reward != 0)[used])
    np.testing.assert_allclose(out, expected, rtol=1e-12)


def test_lifts_are_summed_by_group_of_rows() -> None:
    log, rng = rewarded(200), np.random.default_rng(1)
    used, code, out = log.action >= 0, rng.integers(0, 3, 200), np.zeros((3, 6))
    w = np.where(used, rng.lognormal(0, 2, (200, 4)), 0.0)
    alpha, rates = rng.random(4), rng.random(4)
    with np.errstate(divide="ignore"):
        logs = np.log(w)
    away = np.clip(logs, -2, 2)
    lift_sums(w, away - away.mean(axis=0), log.reward, rates, alpha, log.lengths, code, out)
    earned = log.reward @ alpha
    lift = (w * log.reward) @ alpha - earned
    local = ((log.reward - rates) * (away - away.mean(axis=0)) * used) @ alpha
    rows = np.column_stack([np.ones(200), earned, lift, lift**2, local, local**2])
    np.testing.assert_allclose(out, [rows[code == g].sum(axis=0) for g in range(3)], rtol=1e-10)


@pytest.mark.parametrize("shift", [0, 1, -1])
def test_what_explains_rewards_is_summed_over_pairs_of_pages(shift: int) -> None:
    """Against the regressors as arrays, cell by cell."""
    log, rng = rewarded(200), np.random.default_rng(1)
    used, off, means = log.action >= 0, rng.normal(size=(200, 4)), rng.normal(size=2 * BINS)
    at = (log.action & (BINS - 1)) + BINS * rng.integers(0, 2, (200, 1))
    rows, others = (rng.integers(0, 200, 150) for _ in range(2))
    theirs = np.roll(at[others] & (BINS - 1), shift, axis=1) + (at[rows] & ~(BINS - 1))
    shown = np.roll(used[others], shift, axis=1)
    if shift:
        shown[:, 0 if shift > 0 else -1] = False
    both = used[rows] & shown & (at[rows] != theirs)
    y = off[rows] * both
    count, total = np.zeros(2 * BINS), np.zeros(2 * BINS)
    np.add.at(count, theirs, both)
    np.add.at(total, theirs, y)
    alone = np.roll(total / (count + 5), BINS)[theirs]
    rest = (means[theirs].sum(axis=1, keepdims=True) - means[theirs]) / 3
    x = np.stack([(one * both).ravel() for one in (means[at[rows]], means[theirs], rest, alone)])
    x = np.concatenate([x, [y.ravel()]])
    gram = np.zeros((5, 5))
    room = np.zeros((2, 2 * BINS)), np.zeros((5, TERM_ROWS * at.shape[1]))
    assert page_sums(at, off, used, means, rows, others, shift, *room, gram) == both.sum()
    np.testing.assert_allclose(gram, np.tril(x @ x.T), rtol=1e-9)


def test_habits_of_units_are_the_same_in_any_batches():
    rng = np.random.default_rng(0)
    log = padded(5)
    reward = (rng.random((60, 4)) < 0.4) * (log.action >= 0)
    log = log.changed(reward=reward.astype(float), unit=rng.integers(0, 9, 60).astype(str))
    subject = Subject(log)
    habits = ROBOTS.count(log, subject).sums["habits"]
    parts = [ROBOTS.count(part, subject) for part in log.chunks(7)]
    total = sum(parts[1:], start=parts[0])
    assert (total.sums["habits"] == habits).all()
    # However many batches and units there are, the counts take as much room.
    assert habits.shape == (2 + log.K, UNITS_TOLD_APART) and not total.lists
    whole = habits.T[habits[0] > 0]
    naive = []
    for unit in set(log.unit.tolist()):
        rows = log.unit == unit
        naive.append([rows.sum(), reward[rows].sum(), *reward[rows].sum(axis=0)])
    assert sorted(map(tuple, whole.tolist())) == sorted(tuple(map(float, one)) for one in naive)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_rewards_whose_squares_are_no_numbers_warn_of_nothing(size):
    rng = np.random.default_rng(0)
    reward = size * (rng.random((400, 2)) < 0.3)
    log = cr.RankingLog(
        action=rng.integers(5, size=(400, 2)), reward=reward, propensity=np.full((400, 2), 0.2)
    )
    log = log.changed(columns={"day": np.repeat(np.arange(4), 100)})
    assert audit(MemorySource(log), time="day")
