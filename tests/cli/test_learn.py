"""counterrank learn: exit codes, files that appear only with a certificate, JSON by contract."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """A log with something to learn, one of noise, one without distributions."""
    folder = tmp_path_factory.mktemp("learn")
    rng = np.random.default_rng(0)
    n, A = 1500, 4
    dist = rng.dirichlet(np.full(A, 3.0), n)
    action = (rng.random((n, 2, 1)) > dist.cumsum(axis=1)[:, None, :]).sum(axis=2)
    shown = np.take_along_axis(dist, action, axis=1)
    for name, chance in (("good", 0.1 + 0.25 * action), ("noise", np.full(action.shape, 0.3))):
        reward = (rng.random(action.shape) < chance).astype(float)
        columns = {
            "action": action.tolist(),
            "reward": reward.tolist(),
            "propensity": shown.tolist(),
        }
        whole = pa.table({**columns, "propensity_dist": dist.tolist(), "x_0": rng.normal(size=n)})
        pq.write_table(whole, folder / f"{name}.parquet")
        if name == "good":
            pq.write_table(pa.table(columns), folder / "bare.parquet")
    return folder


def test_a_certified_policy_is_written_and_read_again(counterrank, logs, tmp_path: Path):
    result = counterrank(
        "learn",
        "--independent-rows",
        logs / "good.parquet",
        "--out",
        "p.json",
        "--json",
        "l.json",
        "--html",
        "l.html",
    )
    assert result.code == 0, result.err
    found = json.loads((tmp_path / "l.json").read_text())
    assert found["schema"] == "counterrank/learning/1" and found["certified"] is True
    assert found["grade"] == "free" and found["policy"] == "p.json"
    assert 0 < found["lift"]["low"] < found["lift"]["value"] and found["lift"]["level"] == 0.95
    assert set(found["rows"]) == {"learn", "choose", "certify"} and 0 < found["step"] < 1
    assert set(found["path"][0]) >= {"step", "value", "low", "ess"}
    policy = json.loads((tmp_path / "p.json").read_text())
    assert policy["kind"] == "best-of" and policy["m"] == found["m"] and "scorer" in policy
    assert "earns at least" in result.out


def test_a_job_learns_what_its_command_learns(counterrank, logs, tmp_path: Path):
    job = tmp_path / "job.toml"
    text = f'log = "{logs}/good.parquet"\nquiet = true\n[learn]\nindependent_rows = true\nlevel = 0.9\n'
    job.write_text(text + 'out = "p.json"\njson = "l.json"\n')
    assert counterrank("run", job).code == 0
    direct = ("--level", "0.9", "--quiet", "--out", "q.json", "--json", "m.json")
    assert counterrank("learn", "--independent-rows", logs / "good.parquet", *direct).code == 0
    assert (tmp_path / "p.json").read_bytes() == (tmp_path / "q.json").read_bytes()
    found, wanted = (json.loads((tmp_path / name).read_text()) for name in ("l.json", "m.json"))
    assert found | {"policy": ""} == wanted | {"policy": ""} and found["policy"] == "p.json"


def test_each_event_is_a_reward(counterrank, logs, tmp_path: Path):
    log = pq.read_table(logs / "good.parquet")
    pages, day = np.arange(len(log)).astype(str), np.full(len(log), "2026-11-01 12:00:00")
    log = log.append_column("request", pa.array(pages)).append_column("ts", pa.array(day))
    pq.write_table(log.drop_columns("reward"), tmp_path / "log.parquet")
    page, place = np.nonzero(np.array(log["reward"].to_pylist()))
    item = np.array(log["action"].to_pylist())[page, place]
    rows = {"request": pages[page], "action": item, "at": np.full(len(page), "2026-11-01 12:05:00")}
    pq.write_table(pa.table(rows), tmp_path / "events.parquet")
    job = tmp_path / "job.toml"
    job.write_text(
        'log = "log.parquet"\nquiet = true\ntime = "ts"\n[learn]\nindependent_rows = true\nout = "p.json"\n'
        '[events]\npath = "events.parquet"\njoin = ["request", "action"]\nwithin = "1 hour"\n'
        'time = "at"\n[events.rewards]\nclicks = "least(count(*), 1)"\nmore = "least(count(*), 1)"\n'
    )
    done = counterrank("run", job)
    assert done.code == 0, done.err
    done = counterrank("learn", "--config", job, "--primary", "clicks", "--json", "l.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "l.json").read_text())["certified"] is True


def test_a_job_that_certifies_nothing_is_exit_one(counterrank, logs, tmp_path: Path):
    job = tmp_path / "job.toml"
    job.write_text(
        f'log = "{logs}/noise.parquet"\nquiet = true\n[learn]\nindependent_rows = true\nout = "p.json"\n'
    )
    assert counterrank("run", job).code == 1
    assert not (tmp_path / "p.json").exists()


def test_nothing_certified_is_exit_one_and_no_policy(counterrank, logs, tmp_path: Path):
    result = counterrank(
        "learn",
        "--independent-rows",
        logs / "noise.parquet",
        "--out",
        "p.json",
        "--json",
        "l.json",
        "--quiet",
    )
    assert result.code == 1
    assert not (tmp_path / "p.json").exists()
    assert json.loads((tmp_path / "l.json").read_text())["certified"] is False
    assert "Nothing could be certified" in result.err or "Not yet" in result.err


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("bare.parquet", [], "does not define a policy to draw from"),
        ("none.parquet", [], "none.parquet"),
        ("good.parquet", ["--config", "reward_range=1"], "two numbers"),
        ("good.parquet", ["--segment", "nothing"], "nothing"),
        ("good.parquet", ["--grade", "sure"], "sure"),
    ],
)
def test_bad_input_is_exit_two_with_one_message_and_nothing_written(
    counterrank, logs, tmp_path, name, more, message
):
    result = counterrank(
        "learn", "--independent-rows", logs / name, "--out", "p.json", "--json", "l.json", *more
    )
    assert result.code == 2 and message in result.err
    assert list(tmp_path.iterdir()) == []


def test_the_policy_must_be_a_json_file(counterrank, logs):
    result = counterrank("learn", "--independent-rows", logs / "good.parquet", "--out", "p.pkl")
    assert result.code == 2 and "does not end in .json" in result.err


def test_an_onnx_name_is_refused_before_the_work(counterrank, logs, tmp_path):
    result = counterrank("learn", "--independent-rows", logs / "good.parquet", "--out", "p.onnx")
    assert result.code == 2 and "load_policy(path).scores" in result.err
    assert len(result.err.strip().splitlines()) == 1 and list(tmp_path.iterdir()) == []


def test_without_units_nothing_is_certified_and_the_remedy_is_named(counterrank, logs):
    found = counterrank(
        "learn", logs / "good.parquet", "--out", "p.json", "--json", "l.json", "--quiet"
    )
    assert found.code == 1 and not Path("p.json").exists()
    assert "--unit" in found.err and "--independent-rows" in found.err
    assert "Python" not in found.err and "rows like these would show it" not in found.err
    told = json.loads(Path("l.json").read_text())
    assert told["certified"] is False and told["declared"] is False and told["lift"]["low"] <= 0
