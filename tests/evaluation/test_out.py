"""What leaves for training: the position curve, weights by row."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.common.errors import ConfigError
from counterrank.research import simulate


def run(*arguments):
    from counterrank.cli import main as command

    result = CliRunner().invoke(command.main, [str(one) for one in arguments])
    if result.exception is None or isinstance(result.exception, SystemExit):
        return result.exit_code, result.output
    text, code = command._told(result.exception)
    return code, text


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "log.parquet"
    simulate.write_log(simulate.random(0, K=3, actions=3), 600, path, seed=1)
    return path


def test_weights_give_the_estimates_back(log, tmp_path):
    """The mean of weights times rewards is the estimate, whatever way the log is read."""
    names = ("ips", "iips", "rips", "snips")
    folder = tmp_path / "folder"
    folder.mkdir()
    table = pq.read_table(log)
    for k in range(3):
        pq.write_table(table.slice(200 * k, 200), folder / f"{k}.parquet")
    for number, source in enumerate((log, folder, cr.read_log(log, targets="new"))):
        out = tmp_path / f"weights-{number}.parquet"
        result = cr.evaluate(source, "new", estimators=names, weights_out=out)
        weights = pq.read_table(out)
        # Normalised estimates are no sums of weights: only plain ones are written.
        assert weights.column_names == ["row", "new/ips", "new/iips", "new/rips"]
        assert weights["row"].to_pylist() == list(range(600))
        reward = np.array(table["reward"].to_pylist())
        for name in names[:3]:
            w = np.array(weights[f"new/{name}"].to_pylist())
            value = (w * reward).sum(axis=1).mean()
            assert value == pytest.approx(result.estimate("new", name).value, rel=1e-12)


def test_weights_of_ragged_rankings_and_selected_rows(kit_log, tmp_path):
    out = tmp_path / "weights.parquet"
    cr.evaluate(kit_log, "new", estimators="iips", weights_out=out, where="country = 'AT'")
    weights = pq.read_table(out)
    assert weights.column_names == ["row", "unit", "new/iips"]
    whole = cr.RankingLog.from_frame(kit_log, targets="new")
    rows = np.flatnonzero(whole.columns["country"] == "AT")
    assert weights["row"].to_pylist() == rows.tolist()
    for row, given in zip(rows, weights["new/iips"].to_pylist(), strict=True):
        size = whole.lengths[row]
        expected = whole.target("new").values[row, :size] / whole.propensity.values[row, :size]
        np.testing.assert_allclose(given, expected)


@pytest.fixture
def kit_log():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 4, 80)

    def lists(draw):
        return [draw(size).tolist() for size in sizes]

    return {
        "action": lists(lambda size: rng.permutation(5)[:size]),
        "reward": lists(rng.random),
        "propensity": lists(lambda size: rng.uniform(0.2, 1, size)),
        "new": lists(lambda size: rng.uniform(0, 1, size)),
        "unit": [f"u{i % 7}" for i in range(80)],
        "country": rng.choice(["AT", "DE"], 80).tolist(),
    }


def test_weights_that_cannot_be_written(log, tmp_path):
    evaluate = ("evaluate", log, "--target", "new", "--quiet")
    for more, message in (
        (("--estimators", "snips", "--config", f"weights_out={tmp_path}/w.parquet"), "is weights alone"),
        (("--config", f"weights_out={tmp_path}/w.csv"), "does not end in .parquet"),
        (("--config", f"weights_out={log}"), "is the input"),
        (("--config", f"weights_out={tmp_path}/w.parquet", "--json", tmp_path / "w.parquet"), "would both write"),
    ):  # fmt: skip
        code, text = run(*evaluate, *more)
        assert code == 2 and message in text, text
    assert not list(tmp_path.iterdir())


def test_the_curve_is_that_of_the_world(tmp_path):
    """Clicks by examination 1, .6, .3 and relevance by item; items stand anywhere."""
    rng = np.random.default_rng(5)
    n, look = 6000, np.array([1.0, 0.6, 0.3])
    relevance = rng.uniform(0.2, 0.8, 12)
    action = np.array([rng.permutation(12)[:3] for _ in range(n)])
    reward = (rng.random((n, 3)) < look * relevance[action]).astype(float)
    log = cr.RankingLog(action=action, reward=reward, propensity=np.full((n, 3), 1 / 12))
    found = cr.position_curve(log)
    # The error is that of the logarithm; four of them are a false alarm in 16,000 for a position.
    np.testing.assert_array_less(
        np.abs(np.log(found.curve) - np.log(look)), 4 * np.array(found.log_error) + 1e-9
    )
    pq.write_table(
        pq.ParquetFile(_written(log, tmp_path / "log.parquet")).read(), tmp_path / "again.parquet"
    )
    code, text = run("curve", tmp_path / "again.parquet", "--out", tmp_path / "curve.json")
    assert code == 0, text
    told = json.loads((tmp_path / "curve.json").read_text())
    assert told["schema"] == "counterrank/curve/1" and told["rows"] == n
    np.testing.assert_allclose(told["curve"], found.curve)
    np.testing.assert_allclose(np.array(told["curve"]) * told["inverse"], 1.0)
    from counterrank.estimators.examination import read_position_curve

    np.testing.assert_allclose(read_position_curve(tmp_path / "curve.json"), found.curve)


def _written(log, path):
    import pyarrow as pa

    columns = {"action": log.action, "reward": log.reward, "propensity": log.propensity.values}
    pq.write_table(pa.table({name: a.tolist() for name, a in columns.items()}), path)
    return path


def test_a_curve_that_nothing_tells_is_refused(tmp_path):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    rewards = (rng.random((500, 2)) < 0.5).astype(float).tolist()
    table = pa.table(
        {"action": [[0, 1]] * 500, "reward": rewards, "propensity": [[1.0, 1.0]] * 500}
    )
    pq.write_table(table, tmp_path / "log.parquet")
    code, text = run("curve", tmp_path / "log.parquet", "--out", tmp_path / "curve.json")
    assert code == 2 and "examination cannot be told from relevance" in text
    assert not (tmp_path / "curve.json").exists()
    (tmp_path / "bad.json").write_text('{"curve": "x"}')
    from counterrank.estimators.examination import read_position_curve

    with pytest.raises(ConfigError, match="is no position curve"):
        read_position_curve(tmp_path / "bad.json")
