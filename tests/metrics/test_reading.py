"""Several rewards are read alike from list columns, numbered columns, long tables, CSV and streams."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import LogError

N, K = 60, 3
REWARDS = {"clicks": "click", "revenue": "revenue"}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    click = (rng.random((N, K)) < 0.5).astype(float)
    return {
        "action": rng.integers(4, size=(N, K)),
        "click": click,
        "revenue": (click * rng.exponential(5.0, size=(N, K))).round(2),
        "propensity": np.full((N, K), 0.25),
        "new": rng.dirichlet(np.ones(4), size=N)[:, :K],
        "order": rng.random(N).round(3),
    }


def lists(data):
    return pa.table({name: values.tolist() for name, values in data.items()})


def numbered(data):
    columns = {}
    for name, values in data.items():
        if values.ndim == 1:
            columns[name] = values
        else:
            columns.update({f"{name}_{k + 1}": values[:, k] for k in range(K)})
    return columns


def long(data):
    columns = {
        name: np.repeat(values, K) if values.ndim == 1 else values.ravel()
        for name, values in data.items()
    }
    return {
        "ranking": np.repeat(np.arange(N), K),
        "position": np.tile(np.arange(1, K + 1), N),
        **columns,
    }


def written(path, columns):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.mark.parametrize(
    "form", ["lists", "numbered", "long", "numbered.csv", "long.csv", "stream"]
)
def test_every_form_holds_the_same_rewards(form, data, tmp_path):
    options = {"targets": ["new"], "rewards": REWARDS}
    if form.endswith(".csv"):
        columns = long(data) if form.startswith("long") else numbered(data)
        log = cr.read_log(written(tmp_path / "log.csv", columns), **options)
    elif form == "stream":
        pq.write_table(lists(data), tmp_path / "log.parquet", row_group_size=13)
        source = cr.scan_log(tmp_path / "log.parquet", **options)
        log = source.sample(N, np.random.default_rng(0))
        batches = list(source.batches(rows=10))
        both = np.concatenate([batch.rewards["revenue"] for batch in batches])
        assert (both == log.rewards["revenue"]).all()
    else:
        table = {"lists": lists, "numbered": numbered, "long": long}[form](data)
        log = cr.RankingLog.from_frame(table, **options)
    assert list(log.rewards) == ["clicks", "revenue"]
    assert (log.rewards["clicks"] == data["click"]).all()
    assert (log.rewards["revenue"] == data["revenue"]).all()
    assert (log.reward == data["click"]).all()
    assert "click" not in log.targets


def test_a_column_with_one_number_a_ranking_stays_one(data):
    log = cr.RankingLog.from_frame(lists(data), targets=["new"], rewards=["click", "order"])
    assert (log.rewards["order"] == data["order"]).all()
    assert not log.page_reward
    page = cr.RankingLog.from_frame(lists(data), targets=["new"], rewards=["order", "click"])
    assert page.page_reward
    assert page.rewards["click"].shape == (N, K)


def test_an_unknown_column_is_named_with_what_is_there(data):
    with pytest.raises(LogError, match=r"no column 'clik' for the reward clicks.*'click'"):
        cr.RankingLog.from_frame(lists(data), rewards={"clicks": "clik"})


def test_missing_rewards_are_zero_where_asked_for_all_of_them(data):
    holes = {name: values.tolist() for name, values in data.items()}
    holes["revenue"][4][1] = None
    with pytest.raises(LogError, match="reward 'revenue' has 1 missing"):
        cr.RankingLog.from_frame(pa.table(holes), rewards=["click", "revenue"])
    log = cr.RankingLog.from_frame(
        pa.table(holes), rewards=["click", "revenue"], missing_reward="zero"
    )
    assert log.rewards["revenue"][4, 1] == 0.0
