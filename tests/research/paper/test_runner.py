"""Runs resume without loss or repetition, and give the same numbers for any number of workers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from counterrank.common.errors import ConfigError
from counterrank.research.bench import methods, published_trial, run_trial
from counterrank.research.paper import figures
from counterrank.research.paper.figures import FIGURES, Experiment, Setting
from counterrank.research.paper.results import read_rows, seed_file, styles
from counterrank.research.paper.runner import run_seeds, seeds_to_run

SMALL = Experiment(
    name="small",
    pictures=(figures.Picture("Figure 0", "small"),),
    parameter="n",
    values=(300, 600),
    estimators=("ips", "iips", "rips", "aips (true)"),
)
METHODS = methods(SMALL.estimators)


def run_small(seeds, folder, jobs=1):
    run_seeds(SMALL, seeds_to_run(METHODS, seeds, folder), folder, METHODS, jobs=jobs)


def contents(folder: Path, seeds: range) -> list[dict]:
    rows = [row for seed in seeds for row in pq.read_table(seed_file(folder, seed)).to_pylist()]
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "drawing")}
        for row in rows
    ]


def test_every_figure_is_in_the_table():
    for name in FIGURES:
        assert figures.get(name).name == name


def test_the_number_of_workers_does_not_matter(tmp_path):
    run_small(range(4), tmp_path / "one")
    run_small(range(4), tmp_path / "two", jobs=2)
    assert contents(tmp_path / "one", range(4)) == contents(tmp_path / "two", range(4))


def test_a_second_run_only_does_what_is_missing(tmp_path):
    run_small(range(3), tmp_path)
    stamps = {seed: seed_file(tmp_path, seed).stat().st_mtime_ns for seed in range(3)}
    expected = contents(tmp_path, range(3))
    seed_file(tmp_path, 1).unlink()
    run_small(range(3), tmp_path)
    assert contents(tmp_path, range(3)) == expected
    assert seed_file(tmp_path, 0).stat().st_mtime_ns == stamps[0]
    assert seed_file(tmp_path, 1).stat().st_mtime_ns > stamps[1]


def test_a_seed_of_which_only_part_of_a_file_is_left_is_done_anew(tmp_path):
    run_small(range(3), tmp_path)
    expected = contents(tmp_path, range(3))
    whole = seed_file(tmp_path, 1).read_bytes()
    for left in (whole[: len(whole) // 2], b""):
        seed_file(tmp_path, 1).write_bytes(left)
        with pytest.raises(ConfigError, match="seed-000001.parquet cannot be read as results"):
            read_rows(tmp_path, range(3))
        assert seeds_to_run(METHODS, range(3), tmp_path) == [1]
        run_small(range(3), tmp_path)
        assert contents(tmp_path, range(3)) == expected


@pytest.mark.slow
def test_a_killed_run_resumes_without_loss_or_repetition(tmp_path):
    command = [sys.executable, "-m", "counterrank", "reproduce", "distribution-delta"]
    command += ["--seeds", "40", "--out", str(tmp_path), "--jobs", "1"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tmp_path / "distribution-delta" / "published"
    deadline = time.monotonic() + 60
    while len(list(folder.glob("seed-*.parquet"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(timeout=30)
    done = {path: path.stat().st_mtime_ns for path in folder.glob("seed-*.parquet")}
    assert 3 <= len(done) <= 40
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    files = sorted(folder.glob("seed-*.parquet"))
    assert len(files) == 40
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in done.items())
    seeds = [seed for path in files for seed in set(pq.read_table(path)["seed"].to_pylist())]
    assert seeds == list(range(40))


def test_an_interrupted_run_keeps_its_seeds_and_says_so(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from counterrank.cli.main import main
    from counterrank.research.paper import runner

    run_seed, done = runner.run_seed, []

    def interrupted(experiment, folder, some, seed):
        if len(done) == 1:
            raise KeyboardInterrupt
        run_seed(experiment, folder, some, seed)
        done.append(seed)

    monkeypatch.setattr(runner, "run_seed", interrupted)
    line = ["reproduce", "distribution-delta", "--seeds", "2", "--jobs", "1", "--out"]
    stopped = CliRunner().invoke(main, [*line, str(tmp_path)])
    assert stopped.exit_code == 130
    assert "finished seeds are kept, run again to resume" in stopped.output
    monkeypatch.setattr(runner, "run_seed", run_seed)
    resumed = CliRunner().invoke(main, [*line, str(tmp_path)])
    assert resumed.exit_code == 0
    assert "1 of 2 seeds to run" in resumed.output


def test_a_formula_without_any_weight_gives_zero():
    """At epsilon = 0 run 1 logs no ranking that the target shows: IPS is a mean of zeros."""
    trial = published_trial(Setting(epsilon=0.0), 1)
    ips, rips, iips = run_trial(trial, methods(["ips", "rips", "iips"]))
    assert (ips["value"], ips["low"], ips["high"]) == (0.0, 0.0, 0.0)
    ratios = trial.log.targets["new"].values / trial.log.propensity.values
    weights = np.cumprod(ratios, axis=1)
    assert not weights[:, -1].any() and weights[:, 0].any()
    expected = (weights * trial.log.reward).sum(axis=1)
    assert rips["value"] == pytest.approx(expected.mean(), rel=1e-12)
    error = expected.std(ddof=1) / np.sqrt(trial.log.n)
    assert (rips["high"] - rips["low"]) / 2 == pytest.approx(1.959964 * error, rel=1e-3)
    assert iips["value"] == pytest.approx((ratios * trial.log.reward).sum(axis=1).mean())


def test_noise_figures_have_the_classic_estimators_in_pictures_of_their_own():
    experiment = figures.get("noise-data-size")
    assert experiment.estimators[:3] == ("ips", "iips", "rips")
    drawn = {picture.number: picture.estimators for picture in experiment.pictures}
    assert drawn["Figure 12"] == experiment.estimators[3:]
    assert drawn["Figure 15"] == ("ips", "iips", "rips", "aips (oracle .1)")
    assert drawn["Figure 18"][-1] == "aips (oracle .5)"


def test_every_figure_and_table_with_results_stands_once_and_in_order():
    found = [p.number for name in FIGURES for p in figures.get(name).pictures]
    assert len(found) == len(set(found))
    wanted = [*range(2, 8), *range(9, 21)]
    assert sorted(found) == sorted(
        [*(f"Figure {i}" for i in wanted), "Table 2", "Table 3", "Table 4"]
    )


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_estimators_of_a_picture_look_alike(name):
    experiment = figures.get(name)
    for picture in experiment.pictures:
        looks = styles(picture.estimators or experiment.estimators)
        assert len({colour for colour, _ in looks.values()}) == len(looks)
