"""The contract of the command line: exit codes, streams, files that appear whole or not at all."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr
from counterrank.common.options import COMMANDS
from counterrank.report import plain


def test_version_and_help(counterrank):
    assert counterrank("--version").out.startswith("counterrank, version 1.")
    help_text = counterrank("--help").out
    for name in (
        "evaluate",
        "run",
        "validate",
        "outcome",
        "check",
        "simulate",
        "reproduce",
        "history",
        "demo",
    ):
        assert name in help_text


def test_unknown_command_suggests_a_near_one(counterrank):
    result = counterrank("evalaute")
    assert result.code == 2
    assert "Did you mean 'evaluate'?" in result.err


@pytest.mark.parametrize("listed", [True, False])
def test_findings_of_the_audit_are_listed_or_not(counterrank, simulated: Path, listed):
    audit = f"audit={str(listed).lower()}"
    result = counterrank(
        "evaluate", simulated, "--target", "new", "--estimators", "iips", "--config", audit, "--json", "-"
    )  # fmt: skip
    assert result.code == 0, result.err
    assert bool(json.loads(result.out)["audit"]) is listed


def test_evaluate_writes_the_contract_json(counterrank, simulated: Path, tmp_path: Path):
    result = counterrank(
        "evaluate",
        simulated,
        "--target",
        "new",
        "--estimators",
        "ips,iips,rips,snips,order-2",
        "--json",
        "r.json",
    )
    assert result.code == 0, result.err
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["schema"] == "counterrank/evaluation/2"
    assert (
        found["log"]["n"] == 3000
        and found["log"]["K"] == 4
        and len(found["log"]["fingerprint"]) == 32
    )
    assert [e["estimator"] for e in found["estimates"]] == [
        "ips",
        "iips",
        "rips",
        "snips",
        "order-2",
    ]
    for estimate in found["estimates"]:
        assert estimate["low"] < estimate["value"] < estimate["high"]
        assert len(estimate["by_position"]) == 4
        total = sum(position["value"] for position in estimate["by_position"])
        assert math.isclose(total, estimate["value"], rel_tol=1e-9)
    for lift in found["lift"]:
        value = next(e["value"] for e in found["estimates"] if e["estimator"] == lift["estimator"])
        assert math.isclose(lift["value"], value - found["log"]["value"], rel_tol=1e-9)
    assert found["verdict"]["level"] in ("reliable", "directional", "insufficient")
    assert "ips" in result.out


@pytest.mark.slow
def test_the_same_command_gives_the_same_bytes(
    counterrank_process, simulated: Path, tmp_path: Path
):
    arguments = (
        "evaluate",
        simulated,
        "--target",
        "new",
        "--estimators",
        "ips,aips",
        "--quiet",
        "--json",
        "r.json",
    )
    assert counterrank_process(*arguments).code == 0
    first = (tmp_path / "r.json").read_bytes()
    counterrank_process(*arguments)
    assert (tmp_path / "r.json").read_bytes() == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.parquet", "--target", "new"], "nowhere.parquet"),
        (["LOG", "--target", "nwe"], "nwe"),
        (["LOG", "--target", "new", "--estimators", "isp"], "did you mean"),
        (["LOG", "--target", "new", "--level", "2"], "between 0 and 1"),
        (["LOG", "--target", "new", "--position-weights", "1,2"], "position"),
        (["LOG", "--target", "new", "--segment", "nothing"], "nothing"),
        (["LOG", "--target", "new", "--config", "none.toml"], "none.toml"),
        (["LOG", "--target", "new", "--columns", "action"], "action=items"),
        (["LOG"], "--target"),
    ],
)
def test_bad_usage_is_one_clear_message_and_no_file(
    counterrank, simulated, tmp_path, arguments, message
):
    arguments = [str(simulated) if part == "LOG" else part for part in arguments]
    result = counterrank("evaluate", *arguments, "--json", "r.json", "--html", "r.html")
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_without_a_target_a_log_is_described(counterrank, simulated: Path, tmp_path: Path):
    found = counterrank("evaluate", simulated)
    assert found.code == 0, found.err
    first, audit, *_, targets, following = found.out.splitlines()
    assert first.startswith("3,000 rankings of 4 positions; today's policy earned ")
    assert audit.startswith("Audit: 0 failed · ") and " passed " in audit
    assert targets == "Columns that look like targets: new."
    command = following.removeprefix("Next: counterrank ").split()
    assert counterrank(*command, "--estimators", "ips").code == 0
    assert counterrank("simulate", "--preset", "search", "--n", 300, "--out", "s.parquet").code == 0
    following = counterrank("evaluate", "s.parquet", "--logger", "plackett-luce").out.splitlines()[
        -1
    ]
    assert "--logger plackett-luce:temperature=1 --policy=new=plackett-luce" in following
    (tmp_path / "log.csv").write_text(LINES)
    assert "look like targets: new." in counterrank("evaluate", "log.csv").out
    assert counterrank("evaluate", "log.csv", "--require", "reliable").code == 2


def test_the_description_takes_the_names_that_columns_are_given(counterrank, tmp_path: Path):
    rng = np.random.default_rng(0)
    page, item = np.repeat(np.arange(200), 3), np.tile(np.arange(3), 200)
    score = rng.normal(size=(3, 600))
    order = (-(score[0] + rng.gumbel(size=600))).reshape(200, 3).argsort(axis=1).argsort(axis=1)
    columns = {"request": page, "rank": order.ravel() + 1, "doc": item, "old": score[0]}
    columns |= {"click": (score[1] > 0) * 1.0, "new_score": score[2]}
    pq.write_table(pa.table(columns), tmp_path / "long.parquet")
    names = "ranking=request,position=rank,action=doc,reward=click,propensity_scores=old,new_scores=new_score"
    given = ("long.parquet", "--columns", names, "--logger", "plackett-luce")
    found = counterrank("evaluate", *given)
    assert found.code == 0, found.err
    assert " click per ranking." in found.out and "look like targets: new." in found.out
    following = found.out.splitlines()[-1].removeprefix("Next: counterrank ").split()
    assert counterrank(*following, "--estimators", "ips").code == 0


def test_the_description_counts_rows_by_their_weights(counterrank, tmp_path: Path):
    """A mean and an error as of every row in its weight, and a next command with the same weights."""
    rng = np.random.default_rng(3)
    clicks, weight = rng.integers(0, 3, 200) / 2.0, rng.choice([1.0, 8.0], 200)
    clicks[weight > 1] = 1.0
    columns = {"action": np.tile([[0], [1]], (100, 1)).tolist(), "reward": clicks[:, None].tolist(),
               "propensity": [[0.5]] * 200, "new": [[0.6], [0.4]] * 100, "kept": weight,
               "day": ["monday", "tuesday"] * 100}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "thin.parquet")
    given = ("thin.parquet", "--weight", "kept", "--where", "day <> 'sunday'", "--segment", "day")
    found = counterrank("evaluate", *given)
    assert found.code == 0, found.err
    mean = weight @ clicks / weight.sum()
    assert abs(mean - clicks.mean()) > 0.1
    assert f"today's policy earned {plain(mean, 0.02)} per ranking" in found.out
    following = shlex.split(found.out.splitlines()[-1].removeprefix("Next: counterrank "))
    assert {"--weight=kept", "--segment=day", "--where=day <> 'sunday'"} <= {*following}
    result = counterrank(*following, "--estimators=ips", "--json=r.json", "--quiet")
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "r.json").read_text())["log"]["value"] == pytest.approx(mean)


def test_a_preset_takes_its_own_number_of_actions(counterrank):
    call = ("simulate", "--preset", "published", "--n", 50, "--out", "s.parquet", "--actions")
    assert counterrank(*call, 3).code == 0
    refused = counterrank(*call, 4)
    assert refused.code == 2 and "it has --k, --delta" in refused.err


def test_require_exits_with_one_when_the_evidence_is_poor(counterrank, tmp_path):
    simulated = counterrank("simulate", "--n", 200, "--k", 8, "--out", "poor.parquet")
    assert simulated.code == 0
    arguments = (
        "evaluate",
        "poor.parquet",
        "--target",
        "new",
        "--estimators",
        "ips",
        "--json",
        "r.json",
    )
    result = counterrank(*arguments, "--require", "reliable")
    assert result.code == 1
    told, *reasons = result.err.strip().splitlines()
    assert "reliable was required" in told
    assert reasons[0].startswith("'new' is insufficient: ")
    assert (tmp_path / "r.json").exists()
    assert counterrank(*arguments, "--require", "insufficient").code == 0


def test_simulate_prints_and_keeps_the_true_value(counterrank, tmp_path):
    import pyarrow.parquet as pq

    result = counterrank(
        "simulate", "--preset", "published", "--n", 500, "--k", 4, "--seed", 3, "--out", "s.parquet"
    )
    assert result.code == 0
    printed = float(result.out.removeprefix("true value: "))
    kept = pq.read_metadata(tmp_path / "s.parquet").metadata[b"counterrank.true_value"]
    assert float(kept) == printed


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "feather"])
def test_every_simulated_format_can_be_evaluated(counterrank, tmp_path, ending):
    assert counterrank("simulate", "--n", 300, "--k", 4, "--out", f"s.{ending}").code == 0
    result = counterrank(
        "evaluate", f"s.{ending}", "--target", "new", "--estimators", "iips", "--json", "r.json"
    )
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "r.json").read_text())["log"]["n"] == 300


@pytest.mark.parametrize("preset", ["search", "feed", "shop"])
def test_worlds_can_be_simulated_and_evaluated(counterrank, tmp_path, preset):
    sizes = ("--actions", 15, "--candidates", 8, "--k", 3)
    result = counterrank("simulate", "--preset", preset, "--n", 300, *sizes, "--out", "w.parquet")
    assert result.code == 0 and result.out.startswith("true value: ")
    options = ("--target", "new", "--estimators", "rips", "--json", "w.json")
    assert counterrank("evaluate", "w.parquet", *options).code == 0


def test_an_option_of_another_preset_is_refused(counterrank, tmp_path):
    result = counterrank("simulate", "--preset", "search", "--sigma", 0.5, "--out", "w.parquet")
    assert result.code == 2 and "has no option 'sigma'" in result.err
    result = counterrank("simulate", "--behavior", "dbn", "--out", "w.parquet")
    assert result.code == 2 and "has no option 'behavior'" in result.err
    assert not list(tmp_path.glob("w.*"))


def test_read_only_output_is_refused_and_nothing_is_left(counterrank, simulated, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    result = counterrank(
        "evaluate", simulated, "--target", "new", "--estimators", "iips", "--json", "file/r.json"
    )
    assert result.code == 2
    assert "cannot write" in result.err
    assert "Traceback" not in result.err


def test_reproduce_lists_its_figures_on_one_line(counterrank):
    from counterrank.research.paper import FIGURES

    listed = f"[{'|'.join([*FIGURES, 'all'])}]"
    assert any(
        line.strip() == listed for line in counterrank("reproduce", "--help").out.splitlines()
    )


def test_estimators_tells_their_forms_apart(counterrank):
    out = counterrank("estimators").out
    lines = {line.split()[0]: line for line in out.splitlines() if line[:1].strip()}
    assert list(lines)[:3] == ["name", "auto", "ips"]
    assert "divided by the mean weight" in lines["snips"] and "divided by" not in lines["ips"]
    assert "control variate" in lines["cv-iips"]
    assert (
        len({line.split(maxsplit=1)[1] for name, line in lines.items() if name.startswith("clip-")})
        == 4
    )


def test_json_on_stdout_is_json_and_nothing_else(counterrank, simulated, tmp_path):
    result = counterrank(
        "evaluate", simulated, "--target", "new", "--estimators", "iips", "--json", "-"
    )
    assert result.code == 0, result.err
    assert json.loads(result.out)["schema"] == "counterrank/evaluation/2"
    audit = counterrank("check", simulated, "--json", "-")
    assert json.loads(audit.out)["schema"] == "counterrank/audit/2"
    assert not list(tmp_path.iterdir())


def test_two_results_on_stdout_are_refused(counterrank, simulated):
    result = counterrank("evaluate", simulated, "--target", "new", "--json", "-", "--html", "-")
    assert result.code == 2
    assert "only one result can go to stdout" in result.err


def test_the_answer_is_written_as_markdown(counterrank, simulated, tmp_path):
    asked = ("evaluate", simulated, "--target", "new", "--estimators", "iips", "--json", "r.json")
    assert counterrank(*asked, "--markdown", "answer.md").code == 0
    text = (tmp_path / "answer.md").read_text()
    assert text.startswith("## ") and text == cr.load(tmp_path / "r.json").to_markdown()
    assert counterrank(*asked, "--markdown", "-").out == text
    commands = [name for name, spec in COMMANDS.items() if "html" in spec.on_line]
    assert len(commands) == 5
    assert all("markdown" in COMMANDS[name].on_line for name in commands)


@pytest.mark.parametrize(
    ("option", "value"), [("--delta", "5"), ("--epsilon", "-1"), ("--sigma", "-1")]
)
def test_simulate_refuses_what_makes_no_world(counterrank, tmp_path, option, value):
    result = counterrank(
        "simulate", "--preset", "random", "--n", 10, "--k", 3, option, value, "--out", "s.parquet"
    )
    assert result.code == 2
    assert option in result.err
    assert not list(tmp_path.iterdir())


def test_every_missing_column_is_named_at_once(counterrank, tmp_path):
    (tmp_path / "log.csv").write_text("query,doc_1,doc_2,click_1,click_2\n7,1,2,0,1\n")
    result = counterrank("evaluate", "log.csv", "--target", "new")
    assert result.code == 2
    assert "--columns action=NAME,reward=NAME,propensity=NAME" in result.err
    assert "query, doc_1 to doc_2, click_1 to click_2" in result.err
    found = counterrank("check", "log.csv").out
    assert found.count("there is no") == 1


def test_advice_is_given_in_the_words_of_the_command_line(counterrank, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("item,clicked\n1,0\n")
    done = counterrank("evaluate", path, "--target", "new")
    assert done.code == 2 and "--columns action=" in done.err and "Python" not in done.err


def test_the_help_of_evaluate_tells_of_the_long_format(counterrank):
    told = " ".join(counterrank("evaluate", "--help").out.split())
    assert "the long format, one row per position with columns ranking and position" in told


def test_check_advises_in_options_not_in_python(counterrank, tmp_path: Path):
    (tmp_path / "export.csv").write_text("item_1,clicked_1\n3,1\n")
    result = counterrank("check", "export.csv", "--json", "-")
    assert result.code == 2 and "--columns action=NAME" in result.out
    assert "in Python" not in result.out


def test_evaluate_advises_in_options_and_python_in_keywords(
    counterrank, simulated: Path, tmp_path: Path
):
    import counterrank as cr

    call = ("evaluate", str(simulated), "--target", "new", "--estimators", "ips")
    shown = counterrank(*call, "--json", "result.json", "--html", "report.html")
    assert "--independent-rows" in shown.out + (tmp_path / "result.json").read_text()
    for told in (shown.out, *((tmp_path / f).read_text() for f in ("result.json", "report.html"))):
        assert "in Python)" not in told
    verdict = cr.evaluate(str(simulated), ["new"], estimators=["ips"]).verdict
    assert "independent_rows=True in Python" in json.dumps(verdict.to_dict())


def test_units_keep_their_distance_from_numbers(counterrank, simulated: Path):
    found = counterrank("evaluate", simulated, "--target", "new", "--estimators", "ips")
    assert "95\N{NO-BREAK SPACE}% interval" in found.out and "95%" not in found.out


def test_the_console_keeps_spaces_of_numbers_and_marks_what_commands_a_terminal(capfd):
    from counterrank.cli.console import say

    say(["\x1b[2J8\N{NARROW NO-BREAK SPACE}%, 2\N{NO-BREAK SPACE}billion"])
    shown = capfd.readouterr().out
    assert shown == "\N{REPLACEMENT CHARACTER}[2J8\N{NO-BREAK SPACE}%, 2\N{NO-BREAK SPACE}billion\n"


def test_every_estimator_is_told_in_a_whole_line_of_one_style(counterrank):
    from counterrank.estimators import estimator_names
    from counterrank.report.method import describe

    assert [name for name in estimator_names() if describe(name) is None] == []


@pytest.mark.slow
def test_a_pipe_of_another_encoding_gets_the_table_and_whole_json(simulated: Path):
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": path}
    command = [sys.executable, "-m", "counterrank", "evaluate", str(simulated), "--target", "new"]
    command += ["--estimators", "iips", "--config", "reward_name=Käufe"]
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == 0 and b"* iips" in done.stdout, done.stderr
    piped = subprocess.run([*command, "--json", "-"], env=environment, capture_output=True)
    assert json.loads(piped.stdout)["log"]["words"]["reward"] == "Käufe"


LINES = "action_1,reward_1,propensity_1,new_1\n" + "0,1,0.5,0.25\n1,0,0.5,0.75\n" * 40


@pytest.mark.slow
def test_a_closed_stdout_is_one_message_and_quiet_needs_none(tmp_path: Path):
    (tmp_path / "log.csv").write_text(LINES)
    command = [sys.executable, "-m", "counterrank", "evaluate", "log.csv", "--target", "new"]
    command += ["--estimators", "ips"]
    for more, code in ((["--json", "a.json"], 2), (["--json", "b.json", "--quiet"], 0)):
        done = subprocess.run(
            [*command, *more],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            timeout=300,
            preexec_fn=lambda: os.close(1),
        )
        assert done.returncode == code, done.stderr
        assert ("stdout is closed" in done.stderr) == (code == 2)


@pytest.mark.slow
@pytest.mark.parametrize("log, code", [("log.csv", 0), ("nowhere.csv", 2)])
def test_a_closed_stderr_changes_no_exit_code(tmp_path: Path, log: str, code: int):
    (tmp_path / "log.csv").write_text(LINES)
    command = [sys.executable, "-m", "counterrank", "evaluate", log, "--target", "new"]
    done = subprocess.run(
        [*command, "--estimators", "ips", "--json", "r.json"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=300, preexec_fn=lambda: os.close(2),
    )  # fmt: skip
    assert done.returncode == code and (tmp_path / "r.json").exists() is (code == 0)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("evaluate", "pipe", "--target", "new"), "is a pipe or a device"),
        (("check", "pipe"), "is a pipe or a device"),
        (("run", "pipe"), "nobody writes to it"),
        (("evaluate", "log.csv", "--target", "new", "--config", "pipe"), "nobody writes to it"),
        (("evaluate", "log.csv", "--target", "new", "--items", "pipe"), "is a pipe or a device"),
    ],
)
def test_a_pipe_that_nobody_writes_to_is_refused(
    counterrank, tmp_path, monkeypatch, arguments, said
):
    monkeypatch.setattr("counterrank.common.stores.PIPE_SECONDS", 0.1)
    (tmp_path / "log.csv").write_text(LINES)
    os.mkfifo(tmp_path / "pipe")
    found = counterrank(*arguments)
    assert found.code == 2 and said in found.err + found.out


@pytest.mark.parametrize("command", ["evaluate", "check"])
def test_units_of_two_types_are_one_message(counterrank, tmp_path: Path, command: str):
    import pyarrow as pa
    import pyarrow.parquet as pq

    half = [[0.5]] * 20
    columns = {"action": [[0], [1]] * 10, "reward": [[1.0]] * 20, "propensity": half, "new": half}
    (tmp_path / "log").mkdir()
    for name, unit in (("a", list(range(20))), ("b", [f"u{i}" for i in range(20)])):
        pq.write_table(pa.table({**columns, "unit": unit}), tmp_path / "log" / f"{name}.parquet")
    found = counterrank(command, "log", "--target", "new")
    assert found.code == 2 and "'unit' holds string, but int64" in " ".join(
        (found.out + found.err).split()
    )


def test_a_job_can_come_through_a_pipe(counterrank, tmp_path: Path):
    (tmp_path / "log.csv").write_text(LINES)
    os.mkfifo(tmp_path / "pipe")
    text = f"log = '{tmp_path}/log.csv'\ntarget = 'new'\nestimators = 'ips'\njson = '{tmp_path}/r.json'\n"
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(text))
    writer.start()
    assert counterrank("run", "pipe").code == 0 and (tmp_path / "r.json").exists()
    writer.join()


def test_a_folder_for_rows_without_a_value_is_a_segment(counterrank, tmp_path: Path):
    for label in ("a", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "log" / f"seg={label}").mkdir(parents=True)
        (tmp_path / "log" / f"seg={label}" / "part.csv").write_text(LINES)
    found = counterrank(
        "evaluate", "log", "--target", "new", "--estimators", "ips", "--segment", "seg"
    )
    assert found.code == 0, found.err
    # The line of the segment: its name, its rows.
    assert re.search(r"^seg missing +80 ", found.out, re.MULTILINE), found.out
