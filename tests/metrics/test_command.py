"""Metrics on the command line and in job files: exit codes, and nothing half-written."""

import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterrank.cli.main import run

ASKED = [
    "--target=new", "--estimators=auto", "--independent-rows", "--target-is-fresh", "--config=audit=false",
    "--reward=clicks=click", "--reward=any=any(click)", "--reward=per click=revenue / click",
]  # fmt: skip


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    where = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(pa.table({name: values.tolist() for name, values in data.items()}), where)
    return where


def typed(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["counterrank", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        run()
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err


def test_ship_is_required_and_the_result_is_written_all_the_same(
    path, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "r.json"
    code, shown, said = typed(
        monkeypatch, capsys, "evaluate", path, *ASKED, "--require=ship", f"--json={out}",
        "--guardrail=per click >= -0.001",
    )  # fmt: skip
    found = json.loads(out.read_text())
    assert code == (0 if found["decision"]["action"] == "ship" else 1)
    assert code == 1 and "ship was required" in said
    assert "per click" in shown
    assert [one["name"] for one in found["metrics"]] == ["clicks", "any", "per click"]
    assert found["metrics"][0]["estimates"][0]["value"] == found["estimates"][0]["value"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--reward=x=clik"], "no column 'clik'"),
        (["--reward=x=best(click)"], "not a function of rewards"),
        (["--reward=clicks=revenue"], "'clicks' twice"),
        (["--reward=x="], "write NAME=COLUMN"),
        (["--guardrail=clicks > 0"], "not understood"),
        (["--guardrail=profit >= 0"], "names 'profit'"),
        (["--primary=profit"], "primary metric names 'profit'"),
        (["--primary=per click"], "is a ratio"),
        (["--baseline=old"], "'old'"),
        (["--guardrail=clicks by nothing >= -0.1"], "nothing"),
    ],
)
def test_what_is_wrong_is_one_message_and_nothing_is_written(
    path, tmp_path, monkeypatch, capsys, more, said
):
    out = tmp_path / "r.json"
    code, shown, told = typed(monkeypatch, capsys, "evaluate", path, *ASKED, *more, f"--json={out}")
    assert code == 2
    assert said in told
    assert not shown.strip() and not out.exists()


def test_a_job_file_says_the_same(path, tmp_path, monkeypatch, capsys):
    (tmp_path / "job.toml").write_text(
        f"""
log = "{path}"
target = ["new"]
estimators = "ips"
primary = "any"
guardrails = ["clicks >= -0.5"]
baseline = "prod"
json = "r.json"

[rewards]
clicks = "click"
any = "any(click)"

[rewards.order]
column = "order"
"""
    )
    code, _, _ = typed(monkeypatch, capsys, "run", tmp_path / "job.toml")
    found = json.loads((tmp_path / "r.json").read_text())
    assert code == 0
    assert found["baseline"] == "prod"
    assert [(one["name"], one["primary"]) for one in found["metrics"]] == [
        ("clicks", False), ("any", True), ("order", False),
    ]  # fmt: skip
    assert found["guardrails"][0]["expression"] == "clicks >= -0.5"
