"""counterrank abtest from the command line, in a job file, and in the history."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import counterrank as cr


@pytest.fixture
def written(tmp_path):
    """A test of two rankers by scores: 600 pages of 3 of 6 items."""
    rng = np.random.default_rng(0)
    n, C, K = 600, 6, 3
    old = rng.normal(size=(n, C))
    new = old + 0.3 * rng.normal(size=(n, C))
    arm = rng.integers(2, size=n)
    drawn = [cr.PlackettLuce(scores).sample(K, rng)[:, 0] for scores in (old, new)]
    action = np.where(arm[:, None] == 1, drawn[1], drawn[0])
    columns = {
        "action": [[f"i{j}" for j in page] for page in action],
        "reward": (rng.random((n, K)) < 0.3).astype(float).tolist(),
        "candidates": [[f"i{j}" for j in range(C)]] * n,
        "old_scores": old.tolist(),
        "new_scores": new.tolist(),
        "variant": np.array(["old", "new"])[arm],
    }
    path = tmp_path / "test.parquet"
    pq.write_table(pa.table(columns), path)
    return path


POLICIES = ("--policy=old=plackett-luce", "--policy=new=plackett-luce")


def test_table_page_and_json(counterrank, written, tmp_path):
    asked = ("abtest", written, "--arm=variant", "--baseline=old", *POLICIES)
    found = counterrank(*asked, "--html=page.html", "--json=test.json")
    assert found.code == 0 and not found.err
    assert "Lift over old, in per cent" in found.out and "from all rows" in found.out
    model = json.loads((tmp_path / "test.json").read_text())
    assert model["lifts"][0]["from"] == "old" and model["lifts"][0]["headline"] == "pooled"
    page = (tmp_path / "page.html").read_text()
    assert "Lift over old" in page and "difference in means" in page
    piped = counterrank(*asked, "--json=-")
    assert json.loads(piped.out) == model


def test_a_job_file(counterrank, written, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(
        'log = "test.parquet"\njson = "test.json"\n[policies]\nold = "plackett-luce"\n'
        'new = "plackett-luce"\n[abtest]\narm = "variant"\nsequential = 5000\n'
    )
    assert counterrank("run", job).code == 0
    assert json.loads((tmp_path / "test.json").read_text())["sequential"] == 5000
    job.write_text('log = "test.parquet"\n[abtest]\narm = "variant"\n[learn]\nout = "x.json"\n')
    both = counterrank("run", job)
    assert both.code == 2 and "a file is one job, but it has [abtest] and [learn]" in both.err


def test_results_are_listed_with_their_page(counterrank, written, tmp_path):
    asked = ("abtest", written, "--arm=variant", *POLICIES, "--json=runs/test.json", "--quiet")
    (tmp_path / "runs").mkdir()
    assert counterrank(*asked).code == 0
    found = counterrank("history", "runs", "--out=all.html")
    assert found.code == 0 and "1 report" in found.out
    page = (tmp_path / "all.html").read_text()
    assert "A/B test" in page and "Decision: " in page
    assert "All results" in next((tmp_path / "all-reports").iterdir()).read_text()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--arm=variant",), "say how it ranks by them"),
        (("--arm=reward", *POLICIES), "one value per ranking"),
        (("--arm=arm", *POLICIES), "there is no column 'arm'"),
        (("--arm=variant", "--baseline=none", *POLICIES), "no arm 'none' to compare with"),
        (("--arm=variant", "--policy=old=plackett-luce", "--policy=new=top"), "arm 'new' gives"),
        (("--arm=variant", "--sequential=0", *POLICIES), "--sequential"),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(counterrank, written, tmp_path, arguments, said):  # fmt: skip
    found = counterrank("abtest", written, *arguments, "--html=page.html", "--json=test.json")
    assert found.code == 2 and said in found.err and "Traceback" not in found.err, found.err
    assert not (tmp_path / "page.html").exists() and not (tmp_path / "test.json").exists()


def test_arms_without_scores_or_probabilities_are_refused(counterrank, written, tmp_path):
    bare = pq.read_table(written).drop_columns(["old_scores", "new_scores", "candidates"])
    pq.write_table(bare, tmp_path / "bare.parquet")
    found = counterrank("abtest", "bare.parquet", "--arm=variant", "--json=test.json")
    assert found.code == 2 and "'new'" in found.err and found.err.count("\n") == 1, found.err
    assert not (tmp_path / "test.json").exists()
