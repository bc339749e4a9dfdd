"""Pages drafted from two rankers, by their scores in a log; and the first positions alone."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.checks import audit_file
from counterrank.common.errors import CounterrankError

N, K, C = 900, 4, 7
READING = {"logger": "team-draft:of=a+b", "targets": ["a", "b"]}


@pytest.fixture
def drafted(tmp_path):
    """A long table of candidates in any order, the rankings of both teams, and the pages."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(N, C))
    b = a + 0.7 * rng.normal(size=(N, C))
    teams = [np.argsort(-scores, axis=1) for scores in (a, b)]
    page = cr.TeamDraft(*teams).sample(K, rng)[:, 0]
    rows = []
    for r in range(N):
        for item in rng.permutation(C).tolist():
            place = np.flatnonzero(page[r] == item)
            shown = len(place) > 0
            rows.append({"ranking": r, "action": item, "position": int(place[0]) + 1 if shown else None,
                         "a_scores": a[r, item], "b_scores": b[r, item],
                         "reward": float(rng.random() < 0.5) if shown else None})  # fmt: skip
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path, teams, page


def test_propensities_are_those_of_the_draft(drafted):
    path, teams, page = drafted
    log = cr.read_log(path, **READING)
    assert np.array_equal(log.action, page)
    expected = cr.TeamDraft(*teams).prefix_log_prob(page)
    assert np.allclose(log.propensity.prefix_log_prob(log.action), expected)
    first = [log.targets[name].prefix_log_prob(log.action)[:, 0] == 0 for name in ("a", "b")]
    assert np.array_equal(first, [page[:, 0] == team[:, 0] for team in teams])


def test_the_first_positions_are_a_log_of_their_own(drafted):
    path, (team, _), page = drafted
    whole, top = cr.read_log(path, **READING), cr.read_log(path, depth=1, **READING)
    assert top.K == 1 and np.array_equal(top.reward, whole.reward[:, :1])
    assert cr.scan_log(path, depth=1, **READING).first.K == 1
    # A fair coin opens the page: half a chance, or all of it where both agree.
    chance = np.exp(whole.propensity.prefix_log_prob(page)[:, 0])
    assert set(chance) == {0.5, 1.0}
    value = np.mean((page[:, 0] == team[:, 0]) / chance * whole.reward[:, 0])
    assert np.isclose(cr.IPS().estimate(top, "a").value, value)


def test_numbers_of_positions_are_cut_too():
    table = pa.table({"action": [[0, 1], [1]], "reward": [[1.0, 0.0], [0.0]], "propensity": [[0.5, 0.2], [0.5]],
                      "new": [[0.4, 0.1], [0.6]]})  # fmt: skip
    log = cr.RankingLog.from_frame(table, depth=1)
    assert log.action.tolist() == [[0], [1]] and log.targets["new"].values.tolist() == [
        [0.4],
        [0.6],
    ]
    assert log.lengths.tolist() == [1, 1] and log.position_weights.tolist() == [1.0]
    assert cr.RankingLog.from_frame(table, depth=9).K == 2
    for change in ({"depth": 0}, {"depth": 1, "propensity_kind": "joint"}):
        with pytest.raises(CounterrankError):
            cr.RankingLog.from_frame(table, **change)


def test_a_draft_is_said_to_support_the_start_of_a_list(drafted):
    path, *_ = drafted
    audit = audit_file(path, ["a", "b"], logger=READING["logger"])
    assert not audit.failed
    told = [finding for finding in audit if "supports 'a' to position 1 of 4" in finding.text]
    assert told and "depth=1" in told[0].remedies[0]
    assert not audit_file(path, ["a", "b"], logger=READING["logger"], depth=1).warned


@pytest.mark.parametrize("estimator", ["ips", "iips"])
def test_what_a_draft_does_not_reach_is_not_decided(drafted, estimator):
    """Weights miss most of the page and put the value near zero: that is no reason to stop a ranker."""
    path, *_ = drafted
    result = cr.evaluate(path, ["a", "b"], logger=READING["logger"], estimators=[estimator])
    assert set(result.decision.targets.values()) == {"test"}
    assert result.summary().startswith("Cannot tell yet: a and b.")
    assert result.estimate("a").lift.high < 0 and "to position 1 of 4" in result.summary()
    top = cr.evaluate(path, ["a", "b"], logger=READING["logger"], estimators=[estimator], depth=1)
    assert "Cannot tell" not in top.summary()


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ("team-draft", "a team draft is of two rankers"),
        ("team-draft:of=a", "a team draft is of two rankers"),
        ("team-draft:of=a+a", "a team draft is of two rankers"),
        ({"kind": "team-draft", "of": "a"}, "a team draft is of two rankers"),
        ("0.5*team-draft:of=a+b", "cannot be mixed"),
        ("team-draft:of=a+c", "'c_scores'"),
    ],
)
def test_what_is_no_draft(drafted, logger, message):
    with pytest.raises(CounterrankError, match=message):
        cr.read_log(drafted[0], logger=logger)


def test_a_table_in_a_job_names_both_teams(drafted):
    given = {"kind": "team-draft", "of": ["a", "b"]}
    log = cr.read_log(drafted[0], logger=given)
    assert set(log.targets) == {"a", "b"}
    with pytest.raises(CounterrankError, match="only a logger can be one"):
        cr.read_log(drafted[0], logger=given, policies={"a": given})


@pytest.mark.parametrize("form", ["memory", "parquet", "csv", "names"])
def test_rankers_may_be_lists(drafted, tmp_path, form):
    """A search team logs what both rankers returned; one list may be shorter than the other."""
    _, (a, b), page = drafted
    name = (
        (lambda rows: [[f"d{item}" for item in row] for row in rows])
        if form == "names"
        else np.ndarray.tolist
    )
    reward = np.random.default_rng(3).integers(0, 2, (N, K)).astype(float)
    table = pa.table(
        {"action": name(page), "reward": reward.tolist(), "a": name(a), "b": name(b[:, :5])}
    )
    logs = table
    if form == "parquet":
        logs = tmp_path / "lists.parquet"
        pq.write_table(table, logs)
    if form == "csv":
        logs = tmp_path / "lists.csv"
        table.to_pandas().map(lambda row: " ".join(map(str, row))).to_csv(logs, index=False)
    read = cr.RankingLog.from_frame if form in ("memory", "names") else cr.read_log
    log = read(logs, **READING)
    expected = cr.TeamDraft(a, np.c_[b[:, :5], np.full((N, 2), -1)]).prefix_log_prob(page)
    assert np.allclose(log.propensity.prefix_log_prob(log.action), expected)
    first = [log.targets[name].prefix_log_prob(log.action)[:, 0] == 0 for name in ("a", "b")]
    assert np.array_equal(first, [page[:, 0] == team[:, 0] for team in (a, b)])
    if form == "parquet":
        assert cr.scan_log(logs, **READING).first.K == K


def test_models_of_users_read_where_both_rankers_place_an_item(drafted):
    """Without it what no draft reaches is taken for what it shows, and `pbm` is too high."""
    from counterrank.estimators.examination import logger_scores

    path, teams, page = drafted
    log = cr.read_log(path, **READING)
    places = [np.argmax(page[:, :, None] == team[:, None], axis=2) + 1 for team in teams]
    assert np.allclose(logger_scores(log, log.action), -np.log(np.stack(places, axis=-1)))
