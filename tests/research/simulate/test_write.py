"""Logs on disk: the same rows however they are read, with the truth beside them."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.data.log import LOGGING
from counterrank.research.simulate import (
    Environment,
    World,
    batches,
    preset,
    published,
    random,
    true_value,
    write_log,
)

COLUMNS = ["action", "reward", "propensity", "new", "propensity_dist", "new_dist", "behavior"]


def names_of(part):
    return [part.env.behavior_names[z] for z in part.behavior]


def test_file_equals_the_batches(tmp_path):
    env = published()
    truth = write_log(env, 250, tmp_path / "log.parquet", seed=3, batch=100)
    file = pq.ParquetFile(tmp_path / "log.parquet")
    assert [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)] == [
        100,
        100,
        50,
    ]
    table = file.read()
    assert table.column_names == [*COLUMNS, *(f"x_{j}" for j in range(5))]
    parts = list(batches(env, 250, 3, batch=100))
    for name, field in (
        ("action", "action"),
        ("reward", "reward"),
        ("new", "target"),
        ("new_dist", "p1"),
    ):
        rows = np.array(table[name].to_pylist())
        np.testing.assert_array_equal(
            rows, np.concatenate([getattr(part, field) for part in parts])
        )
    assert table["behavior"].to_pylist() == [name for part in parts for name in names_of(part)]
    metadata = table.schema.metadata
    assert float(metadata[b"counterrank.true_value"]) == truth.value == true_value(env).value
    assert metadata[b"counterrank.propensity_kind"] == b"factored"


def test_batches_are_independent_and_reproducible():
    env = published()
    first, second = batches(env, 200, 5, batch=100)
    alone = next(batches(env, 100, 5, batch=100))
    np.testing.assert_array_equal(first.reward, alone.reward)
    assert not np.array_equal(first.reward, second.reward)


def test_files_are_identical_byte_for_byte(tmp_path):
    for name in ("a.parquet", "b.parquet"):
        write_log(published(), 120, tmp_path / name, seed=1, batch=50)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize("ending", ["feather", "csv", "jsonl"])
def test_other_formats_hold_the_same_rows(ending, tmp_path):
    env = random(1, K=4)
    path = tmp_path / f"log.{ending}"
    write_log(env, 30, path, seed=2, batch=20)
    reward = np.concatenate([part.reward for part in batches(env, 30, 2, batch=20)])
    if ending == "feather":
        rows = pa.ipc.open_file(path).read_all()["reward"].to_pylist()
    elif ending == "jsonl":
        rows = [json.loads(line)["reward"] for line in path.read_text().splitlines()]
    else:
        with path.open(newline="") as source:
            rows = [
                [float(row[f"reward_{k}"]) for k in range(1, 5)] for row in csv.DictReader(source)
            ]
    np.testing.assert_array_equal(np.array(rows), reward)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Environment, "draw", stop)
    with pytest.raises(KeyboardInterrupt):
        write_log(published(), 10, tmp_path / "log.parquet", seed=0)
    assert list(tmp_path.iterdir()) == []


def test_impossible_requests_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown ending '.xlsx'; use one of .parquet"):
        write_log(published(), 10, tmp_path / "log.xlsx", seed=0)
    with pytest.raises(ConfigError, match="n is 0; it is a whole number, 1 or more"):
        list(batches(published(), 0, 0))


def test_a_ranking_log_has_everything_an_estimator_needs():
    simulated = published().draw(50, np.random.default_rng(0))
    log = simulated.to_log()
    np.testing.assert_array_equal(log.action, simulated.action)
    np.testing.assert_array_equal(log.target("new").values, simulated.target)
    np.testing.assert_array_equal(log.distribution("propensity"), simulated.p0)
    assert log.behavior.tolist() == names_of(simulated)
    on_policy = published().draw(50, np.random.default_rng(0), policy="target").to_log()
    np.testing.assert_array_equal(on_policy.propensity.values, on_policy.target("new").values)


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv", "jsonl"])
def test_every_format_is_read_back(ending, tmp_path):
    from counterrank.io import read_log

    env = published()
    write_log(env, 40, tmp_path / f"log.{ending}", seed=4)
    log = read_log(tmp_path / f"log.{ending}")
    part = next(batches(env, 40, 4))
    np.testing.assert_array_equal(log.action, part.action)
    np.testing.assert_array_equal(log.reward, part.reward)
    np.testing.assert_array_equal(log.target("new").values, part.target)
    np.testing.assert_array_equal(log.dists["propensity"], part.p0)
    assert log.behavior.tolist() == names_of(part)


@pytest.mark.parametrize("world", ["search", "feed", "shop"])
def test_a_world_on_disk_has_candidates_scores_and_features(world, tmp_path):
    made = preset(world, seed=2, K=3, items=12, candidates=6)
    truth = write_log(made, 90, tmp_path / "log.parquet", seed=3, batch=50)
    table = pq.read_table(tmp_path / "log.parquet")
    parts = list(batches(made, 90, 3, batch=50))
    for name, field in (("action", "action"), ("reward", "reward"), ("candidates", "candidates")):
        expected = np.concatenate([getattr(part, field) for part in parts])
        np.testing.assert_array_equal(np.array(table[name].to_pylist()), expected)
    action, candidates = (np.array(table[name].to_pylist()) for name in ("action", "candidates"))
    assert (action[:, :, None] == candidates[:, None, :]).any(axis=2).all()
    feature = np.array(table["z_1"].to_pylist())
    np.testing.assert_array_equal(feature, parts[0].feature[candidates, 1])
    metadata = table.schema.metadata
    assert metadata[b"counterrank.propensity_kind"] == b"prefix"
    assert float(metadata[b"counterrank.true_value"]) == truth.value
    assert {b"counterrank.logger", b"counterrank.policy.new"} <= set(metadata)
    assert {"propensity_scores", "new_scores"} <= set(table.column_names)


@pytest.mark.parametrize("logger", ["plackett-luce", "epsilon", "swap", "mixture"])
@pytest.mark.parametrize("target", ["near", "top"])
def test_written_propensities_are_those_of_the_policies(logger, target):
    """In places among the candidates or over the whole catalogue, the products of conditionals are
    the prefixes.
    """
    made = World(seed=8, logger=logger, target=target, K=3, items=11, candidates=5)
    drawn = made.draw(200, np.random.default_rng(0))
    for values, which in ((drawn.propensity, "logging"), (drawn.target, "target")):
        expected = np.exp(drawn.policy(which).prefix_log_prob(drawn.action))
        np.testing.assert_allclose(np.cumprod(values, axis=1), expected, rtol=1e-9, atol=1e-300)


def test_policies_that_scores_decide_are_named_for_the_reader():
    assert World(logger="epsilon", target="top").specs == {
        LOGGING: "epsilon:epsilon=0.4",
        "new": "top",
    }
    assert World(logger="mixture", target="far").specs == {
        LOGGING: "0.8*plackett-luce:temperature=0.5+0.2*shuffle",
        "new": "plackett-luce:temperature=0.25",
    }
    assert World(logger="swap", K=5).specs[LOGGING] == "swap:probability=0.7,places=20"


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_a_written_log_is_weighed_by_its_true_masks(ending, tmp_path):
    """Names of random models do not tell their items: the file stores them, or the name is refused."""
    from counterrank.io import read_log

    env, path = published(), tmp_path / f"log.{ending}"
    write_log(env, 400, path, seed=4)
    part, log = next(batches(env, 400, 4)), read_log(path)
    if ending == "csv":
        with pytest.raises(cr.CounterrankError, match="'R3' is a random model"):
            cr.AIPS(behavior="log").estimate(log, "new")
        return
    ratio = part.target / part.propensity
    factors = np.where(part.masks[part.behavior], ratio[:, None, :], 1.0).prod(axis=2)
    naive = (factors * part.reward).sum(axis=1).mean()
    for given in (log, part.to_log()):
        found = cr.AIPS(behavior="log").estimate(given, "new").value
        assert found == pytest.approx(naive, rel=1e-12)


def test_masks_in_a_file_that_are_none_are_refused(tmp_path):
    write_log(published(), 40, tmp_path / "log.parquet", seed=4)
    table = pq.read_table(tmp_path / "log.parquet")
    changed = {**table.schema.metadata, b"counterrank.behavior_masks": b"[1]"}
    pq.write_table(table.replace_schema_metadata(changed), tmp_path / "log.parquet")
    with pytest.raises(cr.CounterrankError, match="behavior_masks' holds no masks by name"):
        cr.read_log(tmp_path / "log.parquet")
