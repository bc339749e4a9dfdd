"""The examples for Airflow and dbt, as far as they go without either: Airflow's operator is a
stand-in that keeps its arguments, dbt's model is rendered with Jinja and run by DuckDB.
"""

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import click
import duckdb
import jinja2
import pytest

from counterrank.cli.main import main

PAGE = "docs/howto/nightly-job.md"
spec = importlib.util.spec_from_file_location("doc_blocks", Path(__file__).with_name("conftest.py"))
tools = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tools)

JOB = 'log = "log.parquet"\ntarget = ["new"]\nestimators = ["iips"]\nrequire = "{}"\nquiet = true\n'


def run(*words):
    """Return the exit code of a command of ours."""
    try:
        return main.main(list(words), standalone_mode=False) or 0
    except click.exceptions.Exit as stop:
        return stop.exit_code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (
        run(
            "simulate",
            "--preset",
            "random",
            "--n",
            "300",
            "--k",
            "2",
            "--seed",
            "1",
            "--out",
            "log.parquet",
        )
        == 0
    )
    return tmp_path


def test_the_airflow_task_runs_the_job_and_skips_where_evidence_is_thin(folder, monkeypatch):
    parts = "airflow.providers.standard.operators.bash".split(".")
    for i in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(parts[i - 1]))
    sys.modules[".".join(parts)].BashOperator = lambda **given: SimpleNamespace(**given)
    ((line, code),) = tools.blocks(PAGE, "python")
    names = {}
    tools.run_python(PAGE, code, line, names)
    task = names["evaluate"]
    place, command = task.bash_command.split(" && ")
    assert place == "cd /srv/ranking" and command.split()[0] == "counterrank"
    codes = []
    for required in ("directional", "reliable"):
        (folder / "job.toml").write_text(JOB.format(required))
        codes.append(run(*command.split()[1:]))
    assert task.skip_on_exit_code == 1
    # 300 rows without units prove little: the task is skipped, not failed.
    assert codes[0] in (0, 1) and codes[1] == 1


def test_the_dbt_model_writes_a_log_that_the_job_reads(folder):
    (model,) = [code for _, code in tools.blocks(PAGE, "text") if "models/" in code]
    settings = {}
    sql = jinja2.Template(model).render(
        config=lambda **given: settings.update(given) or "", ref=lambda name: name
    )
    assert settings["materialized"] == "external"
    os.makedirs(Path(settings["location"]).parent)
    with duckdb.connect() as base:
        base.execute(
            "create table impressions as select row_number() over () as request_id,"
            " row_number() over () as user_id, action as items, reward as clicks,"
            " propensity as probabilities, \"new\" as new_probabilities from 'log.parquet'"
        )
        base.execute(f"copy ({sql}) to '{settings['location']}' (format parquet)")
    (command,) = [code for _, code in tools.blocks(PAGE, "text") if code.startswith("dbt run")]
    assert re.search(r"--select (\w+)", command)[1] == Path(settings["location"]).stem
    (folder / "job.toml").write_text(
        JOB.format("insufficient").replace("log.parquet", settings["location"])
    )
    assert run(*command.strip().split(" && ")[1].split()[1:]) == 0
