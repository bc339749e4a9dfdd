"""Runs over time as static pages: what changed, which intervals contained outcomes, and nothing gets lost."""

import json
import math
import os
import re
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.report import sample

from counterrank.common.errors import ConfigError, OutputError
from counterrank.estimators import Estimate, Lift
from counterrank.report.history import (
    OUTCOME,
    MeasuredOutcome,
    read_outcomes,
    record,
    write_history,
)


def page(folder: Path) -> str:
    out = folder.parent / "history.html"
    write_history(folder, out)
    return out.read_text(encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def write(folder: Path, name: str, model: dict | None = None) -> Path:
    path = folder / name
    path.write_text(json.dumps(sample.model() if model is None else model))
    return path


def test_an_outcome_stands_beside_its_run_and_leaves_it_alone(runs: Path):
    run = write(runs, "a.json")
    before = run.read_bytes()
    beside = record(run, 1.3, 0.01, "personalised")
    record(run, None, 0.02, "clickbait", lift=-0.1)
    assert run.read_bytes() == before and beside.name == "a.outcome.json"
    assert read_outcomes(run) == {
        "personalised": MeasuredOutcome(1.3, 0.01),
        "clickbait": MeasuredOutcome(-0.1, 0.02, is_lift=True),
    }
    text = page(runs)
    assert "lift −0.100, contained" in text and "value 1.300, contained" in text


def test_a_second_outcome_says_what_it_replaces(runs: Path):
    from click.testing import CliRunner

    from counterrank.cli.main import main

    run = str(write(runs, "a.json"))
    first, second = (
        CliRunner().invoke(main, ["outcome", run, "--target", "personalised", "--lift", lift])
        for lift in ("0.1", "0.2")
    )
    assert "replaces" not in first.output
    assert "it replaces 0.1 ± 0, recorded before of personalised" in second.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "nobody"}, "known: personalised"),
        ({"target": None}, "several targets"),
        ({"earned": math.nan}, "a number"),
        ({"stderr": -1.0}, "0 or more"),
        ({"lift": 0.1}, "not as both"),
        ({"earned": None}, "--lift or as --earned"),
        ({"run": "none.json"}, "there is no file"),
        ({"run": "notes.json"}, "no evaluation"),
    ],
)
def test_a_wrong_outcome_is_refused(runs: Path, change, message):
    write(runs, "a.json")
    (runs / "notes.json").write_text("{}")
    given = {"run": "a.json", "earned": 1.0, "stderr": 0.0, "target": "clickbait", **change}
    with pytest.raises(ConfigError, match=message):
        record(runs / given.pop("run"), **given)
    assert {path.name for path in runs.iterdir()} == {"a.json", "notes.json"}


def predicted_as(value: float, low: float, high: float, level: float) -> Estimate:
    lift = Lift(value - 1.0, 0.1, low - 1.0, high - 1.0)
    at = {"ends": (low, high)}
    return Estimate("new", "ips", value, 0.2, (), 100.0, 1000, level, lift, **at)


@pytest.mark.parametrize("is_lift", [True, False])
def test_a_right_interval_contains_noisy_outcomes_as_often_as_its_level_says(is_lift):
    """4,000 pairs; a rate off by 5 binomial errors or more would fail (false alarms below 1e-6)."""
    rng = np.random.default_rng(7)
    n = 4000
    for level, z in ((0.95, 1.959964), (0.8, 1.281552)):
        predicted, earned = rng.normal(1, 0.2, n), rng.normal(1, 0.3, n) - is_lift
        found = [
            MeasuredOutcome(e, 0.3, is_lift).contained(
                predicted_as(p, p - z * 0.2, p + z * 0.2, level)
            )
            for p, e in zip(predicted, earned, strict=True)
        ]
        assert abs(np.mean(found) - level) < 5 * math.sqrt(level * (1 - level) / n)


def test_no_interval_neither_contains_nor_misses():
    best = predicted_as(1.0, math.nan, math.nan, 0.95)
    assert MeasuredOutcome(1.0, 0.1).contained(best) is None


def test_nights_are_ordered_by_the_day_in_their_name_and_changes_are_told(runs: Path):
    second = sample.model()
    second["log"] = {**second["log"], "n": 10 * second["log"]["n"], "rows_fingerprint": "other"}
    second["verdict"] = {"level": "insufficient", "reasons": [], "targets": {}}
    second["provenance"] = {**second["provenance"], "counterrank": "9.9"}
    second["decision"] = {"action": "test", "targets": dict.fromkeys(sample.TARGETS, "test")}
    # Written first, but of the later night.
    write(runs, "2026-01-02.json", second)
    write(runs, "2026-01-01.json")
    text = page(runs)
    assert text.index(">2026-01-02.json<") < text.index(">2026-01-01.json<")
    for words in ("→ insufficient", "240,000 rankings", "0.1.0 → 9.9", "decision ship → test"):
        assert words in text
    assert ">hold<" in text and "+8.3\u202f%" in text


def test_the_same_rows_twice_are_called_so(runs: Path):
    for name in ("2026-01-01.json", "2026-01-02.json"):
        write(runs, name)
    assert "the same rows as before" in page(runs)


def test_how_many_intervals_contained_the_outcome_is_counted_over_the_last_twelve(runs: Path):
    best = next(e for e in sample.model()["estimates"] if e["target"] == "clickbait")
    for day in range(1, 15):
        run = write(runs, f"2026-01-{day:02d}.json")
        # The first two are old; of the last twelve one misses.
        far = best["high"] + 10 * best["stderr"]
        record(run, best["value"] if day not in (1, 2, 9) else far, 0.0, "clickbait")
    assert "11 of the last 12 intervals with a known outcome contained it." in page(runs)


def test_every_run_has_a_page_and_links_lead_there_and_back(runs: Path, tmp_path: Path):
    write(runs, "a b&.json")
    (index, report), damaged = write_history(runs, tmp_path / "all runs.html")
    assert damaged == []
    text = index.read_text()
    link = f"all%20runs-reports/{report.name}"
    assert f'href="{link}"' in text and report.is_file()
    assert 'href="../all%20runs.html"' in report.read_text()


def test_one_bad_file_does_not_take_the_others_down(runs: Path):
    write(runs, "2026-01-01.json")
    huge = sample.model()
    huge["log"]["n"] = 10**399
    write(runs, "2026-01-02.json", huge)
    (runs / "foreign.json").write_text('{"schema": ["counterrank/evaluation/1"], "a": 1}')
    (runs / "list.json").write_text("[1, 2]")
    (runs / "binary.json").write_bytes(b"\xff\xfe\x00{")
    (runs / "deep.json").write_text("[" * 100_000)
    (runs / "cut.json").write_text('{"schema": "counterrank/plan/1", "options"')
    lone = json.dumps(sample.model()).replace("clickbait", "\\ud800<script>x</script>")
    (runs / "2026-01-03.json").write_text(lone)
    name = os.fsdecode(b"2026-01-04 \xff.json")
    write(runs, name)
    text = page(runs)
    for day in (1, 2, 3, 4):
        assert f"2026-01-0{day}" in text
    assert "damaged file" in text and "<script>x" not in text and "foreign.json" not in text
    _, damaged = write_history(runs, runs.parent / "again.html")
    assert {"binary.json", "deep.json", "cut.json"} < {*damaged}
    assert not {"foreign.json", "list.json", "2026-01-01.json"} & {*damaged}


def test_a_missing_folder_is_told(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no folder"):
        write_history(tmp_path / "none", tmp_path / "x.html")


def several(targets: int) -> dict:
    """A run with so many targets."""
    model = sample.model()
    model["metrics"], one = [], model["estimates"][0]
    model["estimates"] = [{**one, "target": f"t{i}"} for i in range(targets)]
    model["recommended"] = {f"t{i}": one["estimator"] for i in range(targets)}
    return model


def write_some(run: Path, numbers: list[int]) -> None:
    for i in numbers:
        record(run, float(i), 0.0, f"t{i}")


def test_parallel_outcomes_are_all_kept(runs: Path):
    """Three processes and threads within each: a lock of the file keeps both apart."""
    run = write(runs, "2026-01-31.json", several(24))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: record(run, float(i), 0.0, f"t{i}"), range(12)))
    context = get_context("fork")
    parts = [
        context.Process(target=write_some, args=(run, list(range(12 + i, 24, 3)))) for i in range(3)
    ]
    for part in parts:
        part.start()
    for part in parts:
        part.join(60)
    found = {name: one.value for name, one in read_outcomes(run).items()}
    assert found == {f"t{i}": float(i) for i in range(24)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": "counterrank/outcome/1", "outcomes": [{"tar', "is damaged"),
        ('{"schema": "counterrank/outcome/2", "outcomes": []}', "counterrank/outcome/2"),
        ('{"schema": "counterrank/outcome/1", "outcomes": {"t0": 1}}', "would be lost"),
    ],
)
def test_an_outcome_file_that_cannot_be_read_is_not_replaced(runs: Path, content, message):
    run = write(runs, "2026-01-31.json", several(2))
    beside = run.with_name("2026-01-31.outcome.json")
    beside.write_text(content)
    with pytest.raises(ConfigError, match=message):
        record(run, 1.0, 0.0, "t0")
    assert beside.read_text() == content


def test_an_outcome_does_not_follow_a_link(runs: Path, tmp_path: Path):
    run = write(runs, "2026-01-31.json", several(2))
    mine = tmp_path / "mine.txt"
    mine.write_text(json.dumps({"schema": OUTCOME, "outcomes": []}))
    before = mine.read_bytes()
    run.with_name("2026-01-31.outcome.json").symlink_to(mine)
    with pytest.raises(OutputError, match="a link"):
        record(run, 1.0, 0.0, "t0")
    assert mine.read_bytes() == before


def test_a_lift_over_another_baseline_is_called_so(runs: Path):
    write(runs, "2026-01-01.json")
    write(runs, "2026-01-02.json", {**sample.model(), "baseline": "clickbait"})
    assert "baseline today&#39;s policy → clickbait" in page(runs)


def measured(runs: Path, lift: float, stderr: float = 0.01, target: str = "personalised") -> str:
    """The page of two runs, the first of which has an outcome."""
    first = write(runs, "2026-01-01.json")
    write(runs, "2026-01-09.json")
    record(first, None, stderr, target, lift=lift)
    return page(runs)


def test_a_ship_that_a_test_refuted_is_the_first_thing_one_sees(runs: Path):
    text = measured(runs, -0.05)
    assert "<h1>A test refuted “ship”: <b>personalised</b>.</h1>" in text
    told = "personalised was to be shipped on 2026-01-01: +8.3\u202f% (+6.9\u202f% to +9.8\u202f%) was predicted"
    assert text.index("<h1>") < text.index(told) < text.index("All results")
    # -0.05 of 1.2 is -4.2 %, with 1.96 standard errors of 0.01 on either side.
    assert "−4.2\u202f% (−5.8\u202f% to −2.5\u202f%) was measured" in text


@pytest.mark.parametrize(
    ("lift", "stderr", "target"),
    [(0.1, 0.01, "personalised"), (-0.05, 0.04, "personalised"), (-0.05, 0.01, "clickbait")],
)
def test_a_gain_a_noisy_loss_and_a_policy_that_was_held_are_not_refuted(
    runs: Path, lift, stderr, target
):
    assert "refuted" not in measured(runs, lift, stderr, target)


def test_time_runs_to_the_right_and_misses_are_red(runs: Path):
    text = measured(runs, 0.02)
    drawing = text[text.index('class="timeline chart"') :]
    places = [float(x) for x in re.findall(r'<svg x="([\d.]+)%" overflow', drawing)][:2]
    assert places[0] < places[1]
    assert 'class="worse"' in drawing and "measured +1.7\u202f% not contained" in drawing
    assert 'class="today"' in measured(runs, 0.1).partition('class="timeline chart"')[2]
