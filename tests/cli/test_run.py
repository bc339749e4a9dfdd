"""A job file stands for a command: the same numbers, the same exit codes, and errors that name the
file.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from counterrank.cli.evaluate import evaluate
from counterrank.cli.learn import learn


def write(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_a_job_gives_what_its_command_gives(counterrank, simulated: Path, tmp_path: Path):
    job = write(
        tmp_path,
        f'log = "{simulated}"\ntargets = ["new"]\nestimators = ["ips", "iips"]\nlevel = '
        "0.9\nquiet = true\n"
        'audit = false\nposition_weights = "dcg"\njson = "runs/{date}.json"\n',
    )
    (tmp_path / "runs").mkdir()
    assert counterrank("run", job).code == 0
    direct = (
        "--estimators",
        "ips,iips",
        "--level",
        "0.9",
        "--no-audit",
        "--position-weights",
        "dcg",
    )
    assert (
        counterrank(
            "evaluate", simulated, "--target", "new", *direct, "--quiet", "--json", "r.json"
        ).code
        == 0
    )
    found = json.loads((tmp_path / "runs" / f"{datetime.now(UTC).date()}.json").read_text())
    wanted = json.loads((tmp_path / "r.json").read_text())
    assert found["estimates"] == wanted["estimates"] and found["verdict"] == wanted["verdict"]
    assert found["provenance"]["options"] == wanted["provenance"]["options"]


@pytest.mark.parametrize("command", [evaluate, learn], ids=["evaluate", "learn"])
def test_every_option_of_a_command_is_a_key(counterrank, tmp_path: Path, command: click.Command):
    values = {"flag": "true", "many": '["a", "b"]', "one": '"1"'}
    lines = ['log = "log.parquet"', *(["[learn]"] if command is learn else [])]
    flags = []
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        name = max(option.opts, key=len)
        lines.append(
            f"{name[2:]} = "
            f"{values['flag' if option.is_flag else 'many' if option.multiple else 'one']}"
        )
        flags.append(name)
    out = counterrank("run", write(tmp_path, "\n".join(lines)), "--dry-run").out
    assert out.startswith(f"counterrank {command.name} ")
    assert all(flag in out for flag in flags)


def test_how_to_read_the_log_is_said_outside_of_learn(counterrank, tmp_path: Path):
    text = (
        'log = "log.parquet"\n[logger]\nkind = "plackett-luce"\ntemperature = 2\n[columns]\n'
        'reward = "bought"\n[learn]\nout = "{date}.json"\nreward_range = [0, 100]\n'
        'segments = ["device"]\ndespite_audit = false\n'
    )
    out = counterrank("run", write(tmp_path, text), "--dry-run").out
    assert out == (
        "counterrank learn --logger=plackett-luce:temperature=2 --columns=reward=bought "
        f"--out={tmp_path}/{datetime.now(UTC).date()}.json --reward-range=0,100 "
        f"--segment device -- {tmp_path}/log.parquet\n"
    )


def test_tables_become_pairs_and_policies(counterrank, tmp_path: Path):
    job = write(
        tmp_path,
        'log = "a/*.parquet"\ntarget = "new"\n[columns]\naction = "items"\nreward = "clicked"\n',
    )
    out = counterrank("run", job, "--dry-run").out
    assert "--columns=action=items,reward=clicked" in out
    assert f"'{tmp_path}/a/*.parquet'" in out


@pytest.mark.parametrize(("given", "beside"), [("curve.json", True), ("estimate", False)])
def test_a_position_curve_lies_beside_the_file_like_every_path(
    counterrank, tmp_path: Path, given: str, beside: bool
):
    job = write(tmp_path, f'log = "a.parquet"\ntarget = "new"\nposition_curve = "{given}"\n')
    wanted = f"{tmp_path}/{given}" if beside else given
    assert f"--position-curve={wanted} " in counterrank("run", job, "--dry-run").out


def test_policy_tables_become_specs_and_saved_policies_lie_beside_the_file(
    counterrank, tmp_path: Path
):
    job = write(
        tmp_path,
        'log = "log.parquet"\n[logger]\nkind = "epsilon"\nepsilon = 0.1\n[policies.new]\nkind = '
        '"plackett-luce"\ntemperature = 0.5\n[policies.next]\nkind = "learned/policy.json"\n',
    )
    out = counterrank("run", job, "--dry-run").out
    assert (
        "--logger=epsilon:epsilon=0.1" in out
        and "--policy new=plackett-luce:temperature=0.5" in out
    )
    assert f"--policy next={tmp_path}/learned/policy.json" in out


def test_policies_are_targets_where_none_is_named(counterrank, tmp_path: Path):
    rows = [
        {"action": [i % 2], "reward": [i % 3], "propensity_scores": [0, 0], "new_scores": [0.3, 0]}
        for i in range(90)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    job = write(
        tmp_path,
        'log = "log.jsonl"\nestimators = "ips"\nlogger = "softmax"\n[policies.new]\nkind = '
        '"softmax"\n',
    )
    out = counterrank("run", job)
    assert out.code == 0 and "new" in out.out
    told = counterrank("evaluate", "log.jsonl", "--logger", "softmax")
    assert told.code == 2 and "--target" in told.err


def test_exit_codes_are_those_of_evaluate(counterrank, tmp_path: Path):
    rows = [
        {"action": [i % 2], "reward": [i % 3], "propensity": [0.5], "new": [0.6 - 0.2 * (i % 2)]}
        for i in range(20)
    ]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, rows)))
    text = 'log = "few.jsonl"\ntarget = "new"\nestimators = "ips"\nquiet = true\n'
    assert counterrank("run", write(tmp_path, text + 'require = "insufficient"')).code == 0
    assert counterrank("run", write(tmp_path, text + 'require = "reliable"')).code == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('target = "new"', "'log' must name the log"),
        ('log = "a"\ntarget = "new"\nsegmnt = "x"', "did you mean 'segment'"),
        ('log = "a"\ntarget = "new"\nquiet = "yes"', "'quiet' is true or false"),
        ('log = "a"\ntarget = "new"\nlevel = true', "'level' must be a text, a number"),
        ('log = "a"\ntarget', "not valid TOML"),
        ('log = "nowhere.parquet"\ntarget = "new"', "nowhere.parquet"),
        ('log = "a"\nlearn = "p.json"', "'learn' is a table, [learn]"),
        ('log = "a"\nseed = 1\n[learn]\nseed = 2', "'seed' stands both inside and outside"),
        ('log = "a"\ntarget = "new"\n[learn]\nout = "p.json"', "'target' is no option of learn"),
        ('log = "a"\ncommand = "plan"', "the options of plan are keys of a table, [plan]"),
        ('log = "a"\ncommand = ["plan"]', "'command' is no option of evaluate"),
        ('log = "a"\n[learn]\ngrad = "free"', "did you mean 'grade'"),
        ('log = "a"\n[learn]\nout = "job.toml"', "job.toml"),
    ],
)
def test_a_bad_job_is_one_message(counterrank, tmp_path: Path, text: str, message: str):
    result = counterrank("run", write(tmp_path, text))
    assert result.code == 2 and message in result.err
    assert "Traceback" not in result.err
