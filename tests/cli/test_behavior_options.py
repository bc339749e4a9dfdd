"""The behaviour tree and groups of items from the command line and from job files."""

import json

import pytest


def evaluated(counterrank, log, *options):
    done = counterrank(
        "evaluate", log, "--target", "new", "--estimators", "aips", "--quiet", "--json", "out.json", *options
    )  # fmt: skip
    assert done.code == 0, done.err
    with open("out.json") as file:
        return json.load(file)


def test_candidates_and_objective_are_what_was_asked_for(counterrank, simulated, tmp_path):
    found = evaluated(counterrank, simulated)
    assert {"S", "C", "I", "N1", "C1"} <= {m["name"] for m in found["behavior"]["models"]}
    assert found["behavior"]["mse"] == "models"
    found = evaluated(
        counterrank, simulated, "--behavior-candidates", "paper", "--behavior-mse", "pasif"
    )
    assert {m["name"] for m in found["behavior"]["models"]} <= {"S", "R6", "R3", "C2", "C1", "I1"}
    assert found["behavior"]["mse"] == found["provenance"]["options"]["behavior_mse"] == "pasif"
    matrix = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    (tmp_path / "own.json").write_text(json.dumps(["S", matrix]))
    found = evaluated(counterrank, simulated, "--behavior-candidates", "own.json")
    assert [m["name"] for m in found["behavior"]["models"]] == ["S", "model 2"]
    assert found["behavior"]["models"][1]["matrix"] == matrix


def test_a_job_file_says_the_same(counterrank, simulated, tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "own.json").write_text('["S", "I"]')
    job = f'log = "{simulated}"\ntarget = "new"\nestimators = "aips"\njson = "../out.json"\nquiet = true\n'
    for candidates, names in (("own.json", ["S", "I"]), ("real-world", ["S", "C", "I", "P2"])):
        text = job + f'behavior-candidates = "{candidates}"\nbehavior-mse = "pairs"\n'
        (tmp_path / "jobs" / "job.toml").write_text(text)
        done = counterrank("run", "jobs/job.toml")
        assert done.code == 0, done.err
        found = json.loads((tmp_path / "out.json").read_text())
        assert [m["name"] for m in found["behavior"]["models"]] == names


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "neither a set (default, generated"),
        ("{", "not valid JSON"),
        ("[]", "no list of models"),
        ("[3]", "is not an object"),
        ("[[[1, 2], [0, 1]]]", "holds only 0 and 1"),
        ('[{"name": "x", "mask": ["10", "1"]}]', "mask' is not K strings"),
        ("[[[1, 0], [0, 1]]]", "for 4 positions is (4, 4)"),
        ('["Q7"]', "behaviour model 'Q7' is unknown"),
    ],
)
def test_bad_candidates_are_one_message(counterrank, simulated, tmp_path, content, message):
    if content is not None:
        (tmp_path / "own.json").write_text(content)
    done = counterrank(
        "evaluate", simulated, "--target", "new", "--estimators", "aips", "--behavior-candidates", "own.json"
    )  # fmt: skip
    assert done.code == 2 and message in done.err
    assert done.err.count("counterrank:") == 1 and "Traceback" not in done.err


def test_an_unknown_objective_is_one_message(counterrank, simulated):
    done = counterrank("evaluate", simulated, "--target", "new", "--behavior-mse", "gl")
    assert done.code == 2 and "there is no MSE estimate 'gl'" in done.err
