"""Every command reads raw tables: pages of any length, events, and scores in a table of their own."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr


@pytest.fixture
def raw(tmp_path):
    """Pages of one to three items whose candidates stand in a table of scores, with events, and a job by hand."""
    rng = np.random.default_rng(0)
    n, candidates = 240, 5
    old = rng.normal(size=(n, candidates))
    arm = np.where(np.arange(n) % 4 < 2, "new", "old")
    new = old + 0.4 * np.linspace(-1, 1, candidates)
    ranking = cr.PlackettLuce(np.where((arm == "new")[:, None], new, old)).sample(3, rng)[:, 0]
    pages, events, scores = [], [], []
    for r in range(n):
        for item in range(candidates):
            served = (new if arm[r] == "new" else old)[r, item]
            scores.append({"rid": r, "item": item, "score_old": old[r, item], "score_new": new[r, item],
                           "score_served": served})  # fmt: skip
        for place, item in enumerate(ranking[r, : 1 + r % 3], 1):
            pages.append({"rid": r, "place": place, "item": int(item), "user": r // 2, "price": 20.0 + item,
                          "variant": arm[r]})  # fmt: skip
            if rng.random() < 0.2 + 0.1 * item:
                events.append({"rid": r, "item": int(item)})
    for name, rows in (("pages", pages), ("events", events), ("scores", scores)):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    return tmp_path


JOB = """
log = "pages.parquet"
independent-rows = true
target-is-fresh = true
[columns]
ranking = "rid"
position = "place"
action = "item"
[logger]
kind = "plackett-luce"
[policies]
new = "plackett-luce"
{policies}
[scores]
path = "scores.parquet"
join = ["rid", "item"]
columns = {{ {scores} }}
[events]
path = "events.parquet"
join = ["rid", "item"]
[events.rewards]
clicks = "count(*)"
"""
LOGGED = {"policies": "", "scores": 'propensity = "score_served", new = "score_new"'}
ARMS = {"policies": 'old = "plackett-luce"',
        "scores": 'propensity = "score_served", old = "score_old", new = "score_new"'}  # fmt: skip


@pytest.mark.parametrize(
    ("command", "job"),
    [
        (["evaluate", "--target", "new", "--estimators", "iips"], LOGGED),
        (["check"], LOGGED),
        (["plan"], LOGGED),
        (["learn", "--out", "policy.json"], LOGGED),
        (["abtest", "--arm", "variant"], ARMS),
        (["validate", "--arm", "variant", "--estimators", "iips"], ARMS),
        (["curve", "--out", "curve.json"], LOGGED),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_every_command_reads_short_pages_with_scores_and_events(command, job, raw, counterrank):
    (raw / "job.toml").write_text(JOB.format(**job))
    done = counterrank(*command, "--config", "job.toml")
    # So few rows certify no policy.
    assert done.code == (command[0] == "learn"), done.out + done.err


def test_a_job_by_init_serves_every_command(raw, counterrank):
    """Features of items join too, and are no probabilities of a target, whatever their size."""
    done = counterrank(
        "init", "pages.parquet", "--events", "events.parquet", "--scores", "scores.parquet"
    )
    assert done.code == 0, done.out + done.err
    assert (
        'z_price = "price"' not in (raw / "job.toml").read_text()
    )  # the table of scores has no prices
    for command in (["check"], ["plan"], ["learn", "--out", "policy.json", "--independent-rows"]):
        done = counterrank(*command, "--config", "job.toml")
        assert done.code == (command[0] == "learn"), (command, done.out + done.err)


def test_features_under_other_names_are_no_targets(tmp_path):
    table = pa.table({"rid": [0, 0, 1, 1], "place": [1, 2, 1, None], "item": [3, 4, 4, 3],
                      "price": [9.0, 20.0, 20.0, 9.0],
                      "reward": [1.0, 0.0, 1.0, None], "s": [0.1, 0.2, 0.1, 0.3]})  # fmt: skip
    pq.write_table(table, tmp_path / "log.parquet")
    log = cr.read_log(
        tmp_path / "log.parquet", logger="plackett-luce",
        columns={"ranking": "rid", "position": "place", "action": "item", "propensity_scores": "s",
                 "z_price": "price"},
    )  # fmt: skip
    assert not log.targets and log.candidates.features["z_price"].tolist() == [9.0, 20.0, 20.0, 9.0]
