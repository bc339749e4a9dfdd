"""A job file stands for a command: the same numbers, the same exit codes, and errors that name the
file.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from counterrank.cli.jobs import Job, with_days
from counterrank.common.options import COMMANDS, OPTIONS, Kind

TODAY = datetime.now(UTC).date()
#: A value of every kind, as TOML writes it.
VALUES = {
    Kind.TEXT: '"a"', Kind.NUMBER: "0.5", Kind.WHOLE: "3", Kind.SWITCH: "true", Kind.LIST: '["a", "b"]',
    Kind.MANY: '["a", "b"]', Kind.FILE: '"a.json"', Kind.OUTPUT: '"a.json"', Kind.COLUMNS: '{reward = "a"}',
    Kind.PAIRS: '{a = "b"}', Kind.METRICS: '{a = "any(b)"}', Kind.POLICY: '"top"',
    Kind.POLICIES: '{new = "top"}', Kind.CONDITION: '"a = 1"', Kind.ANSWERS: '["a where b = 1"]',
    Kind.TABLES: '"a.parquet"',
}  # fmt: skip


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
    direct = ("--estimators=ips,iips", "--level=0.9", "--position-weights=dcg", "--config=audit=false")  # fmt: skip
    done = counterrank(
        "evaluate", simulated, "--target", "new", *direct, "--quiet", "--json", "r.json"
    )
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "runs" / f"{TODAY}.json").read_text())
    wanted = json.loads((tmp_path / "r.json").read_text())
    assert found["estimates"] == wanted["estimates"]
    # Remedies name keys of the job there, and flags here.
    for one in (found["verdict"], wanted["verdict"]):
        one["reasons"] = [{**reason, "remedies": []} for reason in one["reasons"]]
    assert found["verdict"] == wanted["verdict"]
    assert found["provenance"]["options"] == wanted["provenance"]["options"]
    # The same file given to the command: it needs no log and no target of its own.
    assert counterrank("evaluate", "--config", job, "--json", "s.json").code == 0
    assert json.loads((tmp_path / "s.json").read_text())["estimates"] == wanted["estimates"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_a_key(tmp_path: Path, command: str):
    names = [name for name in COMMANDS[command].options if name != "config"]
    lines = [
        f"{key} = {VALUES[one.kind] if not one.words or one.kind is Kind.FILE else json.dumps(one.words[-1])}"
        for one in map(OPTIONS.__getitem__, names)
        for key in one.keys[:1]
    ]
    table = [f"[{command}]"] if command != "evaluate" else []
    job = Job.read(str(write(tmp_path, "\n".join(['log = "log.parquet"', *table, *lines]))))
    assert job.command == command and job.log == f"{tmp_path}/log.parquet"
    assert set(job.values(command, alone=True)) == set(names)
    for key in (key for name in names for key in OPTIONS[name].keys):
        assert key.replace("_", "-") == key or "_" in key


def test_how_to_read_the_log_is_said_outside_of_learn(counterrank, tmp_path: Path):
    text = (
        'log = "log.parquet"\n[logger]\nkind = "plackett-luce"\ntemperature = 2\n[columns]\n'
        'reward = "bought"\n[learn]\nout = "{date}.json"\nreward_range = [0, 100]\n'
        'segments = ["device"]\ndespite_audit = false\n'
    )
    job = write(tmp_path, text)
    call = Job.read(str(job)).values("learn", alone=True)
    assert call["logger"].options == {"temperature": 2.0}
    assert call["columns"] == {"reward": "bought"} and call["reward_range"] == (0, 100)
    assert call["out"] == f"{tmp_path}/{TODAY}.json" and call["despite_audit"] is False
    told = counterrank("run", job, "--dry-run").out.splitlines()
    assert told[0] == f"counterrank learn {tmp_path}/log.parquet"
    assert 'segments = ["device"]' in told


@pytest.mark.parametrize(("given", "beside"), [("curve.json", True), ("estimate", False)])
def test_a_position_curve_lies_beside_the_file_like_every_path(tmp_path, given, beside):
    job = write(tmp_path, f'log = "a.parquet"\nposition_curve = "{given}"\n')
    wanted = f"{tmp_path}/{given}" if beside else given
    assert Job.read(str(job)).values("evaluate")["position_curve"] == wanted


def test_policy_tables_become_specs_and_saved_policies_lie_beside_the_file(tmp_path: Path):
    job = write(
        tmp_path,
        'log = "log.parquet"\n[logger]\nkind = "epsilon"\nepsilon = 0.1\n[policies.new]\nkind = '
        '"plackett-luce"\ntemperature = 0.5\n[policies.next]\nkind = "learned/policy.json"\n',
    )
    found = Job.read(str(job)).values("evaluate")
    assert found["logger"].text == "epsilon:epsilon=0.1"
    assert found["policies"]["new"].text == "plackett-luce:temperature=0.5"
    assert found["policies"]["next"].path == f"{tmp_path}/learned/policy.json"


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
    told = counterrank("evaluate", "log.jsonl", "--logger", "softmax", "--json", "r.json")
    assert told.code == 2 and "--target" in told.err


def rows_of_days(path: Path) -> None:
    lines = []
    for index in range(120):
        day = TODAY - timedelta(days=index % 3)
        row = {"items": [index % 2], "clicked": [index % 5 % 2], "propensity": [0.5], "new": [0.6]}
        lines.append(json.dumps({**row, "day": day.isoformat()}))
    path.write_text("\n".join(lines))


def test_columns_add_to_those_of_the_file_and_days_select_rows(counterrank, tmp_path: Path):
    rows_of_days(tmp_path / "log.jsonl")
    job = write(
        tmp_path,
        'log = "log.jsonl"\ntarget = "new"\nestimators = "ips"\nwhere = "day = \'{yesterday}\'"\n'
        "[columns]\naction = 'items'\nreward = 'nothing'\n",
    )
    done = counterrank(
        "evaluate", "--config", job, "--columns", "reward=clicked", "--quiet", "--json", "r.json"
    )
    assert done.code == 0, done.err
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["log"]["n"] == 40
    assert str(TODAY - timedelta(days=1)) in found["provenance"]["options"]["where"]


def test_one_file_serves_several_commands_and_writes_for_its_own(counterrank, tmp_path: Path):
    rows_of_days(tmp_path / "log.jsonl")
    job = write(
        tmp_path,
        'log = "log.jsonl"\ntarget = "new"\nlevel = 0.9\nrequire = "ship"\njson = "result.json"\n'
        "[columns]\naction = 'items'\nreward = 'clicked'\n",
    )
    done = counterrank("check", "--config", job)
    assert " passed checks" in done.out and not (tmp_path / "result.json").exists(), done.err


def test_a_key_and_its_value_stand_for_a_file(counterrank, simulated: Path, tmp_path: Path):
    call = ("evaluate", simulated, "--target", "new", "--estimators", "ips", "--quiet", "--json", "r.json")  # fmt: skip
    done = counterrank(*call, "--config", "practical=0.02", "--config", "segments=['behavior']")
    assert done.code == 0, done.err
    options = json.loads((tmp_path / "r.json").read_text())["provenance"]["options"]
    assert options["practical"] == 0.02 and options["segments"] == ["behavior"]
    wanted = (tmp_path / "r.json").read_text()
    loud = [one for one in call if one != "--quiet"]
    told = counterrank(*loud, "--practical", "0.02", "--segment=behavior")
    assert told.code == 0 and "--practical will move to the job file" in told.err
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["provenance"]["options"] == json.loads(wanted)["provenance"]["options"]
    told = counterrank(*call, "--config", "practcal=0.02")
    assert told.code == 2 and "did you mean 'practical'" in told.err


@pytest.mark.parametrize(
    ("text", "days"),
    [("{today}", 0), ("{date}", 0), ("{yesterday}", -1), ("{today-7}", -7), ("{yesterday+2}", 1)],
)
def test_days(text: str, days: int):
    assert with_days(f"a/{text}.json") == f"a/{TODAY + timedelta(days=days)}.json"


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
        ('log = 3\ntarget = "new"', "'log' must name the log"),
        ('log = "a"\ntarget = "new"\nsegmnt = "x"', "did you mean 'segment'"),
        ('log = "a"\ntarget = "new"\nquiet = "yes"', "'quiet' must be true or false"),
        ('log = "a"\ntarget = "new"\nlevel = true', "'level' must be a number"),
        ('log = "a"\ntarget = "new"\nseed = -1', "'seed': it is 0 or more"),
        ('log = "a"\ntarget = "new"\nengine = "ray"', "'engine' must be one of local, dask, spark"),
        ('log = "a"\ntarget = "new"\nwhere = "day = \'{today-999999}\'"', "there is no day"),
        ('log = "a"\ntarget = "new"\ntargets = "b"', "given twice"),
        ('log = "a\\u0000b"\ntarget = "new"', "NUL character"),
        ('log = "a"\ntarget = "new"\nitems = "a\\u0000b"', "NUL character"),
        ('log = "a"\ntarget', "not valid TOML"),
        ('log = "nowhere.parquet"\ntarget = "new"', "nowhere.parquet"),
        ('log = "a"\nlearn = "p.json"', "'learn' is a table, [learn]"),
        ('log = "a"\nseed = 1\n[learn]\nseed = 2', "'seed' stands both inside and outside"),
        ('log = "a"\ntarget = "new"\n[learn]\nout = "p.json"', "'target' is no option of learn"),
        ('log = "a"\ncommand = "plan"', "the options of plan are keys of a table, [plan]"),
        ('log = "a"\ncommand = ["plan"]', "'command' is no option of evaluate"),
        ('log = "a"\n[learn]\ngrad = "free"', "did you mean 'grade'"),
        ('log = "a"\n[learn]\nqqqq = 1', "columns, config, despite_audit, events, grade"),
        ('log = "a"\n[events]\nqqqq = 1', "known: join, path, rewards, time, unique, within"),
        ('log = "a"\n[learn]\nout = "job.toml"', "job.toml"),
        ('log = "a"\n[learn]\nmodel = "linear"', 'out = "FILE"'),
        ('log = "a"\n[policies.new]\nkind = "best"', "unknown kind 'best'"),
        ('log = "a"\n[rewards.x]\nkolumn = "best"', "[rewards.x] has one key"),
    ],
)
def test_a_bad_job_is_one_message(counterrank, tmp_path: Path, text: str, message: str):
    result = counterrank("run", write(tmp_path, text))
    assert result.code == 2 and message in result.err
    assert "Traceback" not in result.err


def test_a_path_that_no_file_can_have(counterrank):
    result = counterrank("run", "job\0.toml")
    assert result.code == 2 and "job" in result.err and "Traceback" not in result.err


def test_results_are_not_written_over_each_other_by_braces_that_mean_nothing(
    counterrank, simulated: Path, tmp_path: Path
):
    for text in ("runs/{HOME}.json", "runs/{.json", "runs/{dates}.json"):
        job = write(tmp_path, f'log = "{simulated}"\ntarget = ["new"]\njson = "{text}"\n')
        done = counterrank("run", job)
        assert done.code == 2 and "is no day" in done.err and len(done.err.splitlines()) == 1
    done = counterrank("evaluate", simulated, "--target", "new", "--json", "{HOME}.json")
    assert done.code == 2 and "is no day" in done.err


def test_a_number_of_5000_digits_is_bad_input(counterrank, simulated: Path, tmp_path: Path):
    job = write(tmp_path, f'log = "{simulated}"\ntarget = ["new"]\nseed = {"9" * 5000}\n')
    done = counterrank("run", job)
    assert done.code == 2 and "digits" in done.err and len(done.err) < 400
    done = counterrank("evaluate", simulated, "--target", "new", "--config", f"seed={'9' * 5000}")
    assert done.code == 2 and len(done.err) < 400


def test_a_dry_run_shows_policies_and_tables_as_the_job_has_them(
    counterrank, simulated: Path, tmp_path: Path
):
    job = write(
        tmp_path,
        f'log = "{simulated}"\ntarget = ["new"]\nscores = "s.csv"\n[logger]\n'
        'kind = "plackett-luce"\ntemperature = 0.5\n[events]\npath = "e.csv"\njoin = ["x_0"]\n'
        '[events.rewards]\nc = "count(*)"\n',
    )
    done = counterrank("run", job, "--dry-run")
    assert done.code == 0 and 'logger = "plackett-luce:temperature=0.5"' in done.out
    assert "PolicySpec" not in done.out and "Events(" not in done.out and "Scores(" not in done.out


def test_advice_of_a_job_names_its_keys(counterrank, simulated: Path, tmp_path: Path):
    job = write(tmp_path, f'log = "{simulated}"\ntarget = ["new"]\nestimators = "iips"\n')
    done = counterrank("run", job)
    assert done.code == 0 and "independent-rows = true" in done.out, done.out
    assert "--independent-rows" not in done.out
    direct = counterrank("evaluate", simulated, "--target", "new", "--estimators", "iips")
    assert "--independent-rows" in direct.out and "independent-rows = true" not in direct.out
    missing = counterrank(
        "run", write(tmp_path, f'log = "{simulated}"\nquiet = true\njson = "a.json"\n')
    )
    assert missing.code == 2 and 'target = "COLUMN"' in missing.err
