"""Targets without a score for some candidates: such rankings are left out, and the share is said."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import counterrank as cr
from counterrank.cli.main import main
from counterrank.common.errors import CounterrankError
from counterrank.io import scan_log

LOGGER = "plackett-luce:temperature=1"
READ = {"logger": LOGGER, "policies": {"new": "plackett-luce:temperature=0.5", "other": "top"}}
OPTIONS = {"estimators": ["ips", "snips", "iips"], "seed": 3}


def world(n=3000, K=2, C=4, seed=0):
    """Rankings drawn by the logger's scores, and scores of two targets."""
    rng = np.random.default_rng(seed)
    items = np.stack([rng.permutation(9)[:C] for _ in range(n)])
    scores = rng.normal(size=(n, C)).round(4)
    # Plackett-Luce: the highest scores with Gumbel noise.
    order = np.argsort(-(scores + rng.gumbel(size=(n, C))), axis=1)[:, :K]
    action = np.take_along_axis(items, order, axis=1)
    reward = (rng.random((n, K)) < 0.2 + 0.05 * (action % 3)).astype(float)
    return {
        "action": action.tolist(), "reward": reward.tolist(), "candidates": items.tolist(),
        "propensity_scores": scores.tolist(), "new_scores": rng.normal(size=(n, C)).tolist(),
        "other_scores": rng.normal(size=(n, C)).tolist(),
    }  # fmt: skip


def thinned(rows, name, missing, value=None):
    """The same rows without the score of the last candidate in some of them."""
    return {**rows, name: [[*one[:-1], value] if gone else one
                           for one, gone in zip(rows[name], missing, strict=True)]}  # fmt: skip


def kept(rows, keep):
    return {name: [one for one, k in zip(column, keep, strict=True) if k]
            for name, column in rows.items()}  # fmt: skip


def written(rows, path):
    pq.write_table(pa.table(rows), path, row_group_size=500)
    return path


def coverage(result):
    return [one for one in result.audit if "scores all candidates" in one.text]


@pytest.mark.parametrize("value", [None, float("nan")])
@pytest.mark.parametrize("streamed", [False, True])
def test_the_value_is_that_of_the_rankings_scored_in_full(tmp_path, value, streamed):
    rows = world()
    missing = np.arange(3000) % 10 == 0
    missing[:500] = True  # a whole row group
    partly = written(thinned(rows, "new_scores", missing, value), tmp_path / "partly.parquet")
    whole = written(kept(rows, ~missing), tmp_path / "whole.parquet")
    log = scan_log(partly, targets=("new",), **READ) if streamed else partly
    found = cr.evaluate(log, ["new"], **OPTIONS, **({} if streamed else READ))
    other = cr.evaluate(whole, ["new"], **OPTIONS, **READ)
    assert found.log.n == other.log.n == int((~missing).sum())
    for name in OPTIONS["estimators"]:
        one, two = (result.estimate("new", name) for result in (found, other))
        assert one.value == pytest.approx(two.value, rel=1e-12)
        assert one.lift.stderr == pytest.approx(two.lift.stderr, rel=1e-9)
    (said,) = coverage(found)
    assert said.status == "warned" and said.target == "new"
    assert "75.0\u202f%" in said.text and "750 of 3,000" in said.text
    assert any(one.text == said.text for one in found.verdict.reasons)
    assert found.verdict.level != "reliable" and not coverage(other)


def test_nearly_all_is_said_and_limits_nothing(tmp_path):
    partly = thinned(world(), "new_scores", np.arange(3000) < 20)
    found = cr.evaluate(written(partly, tmp_path / "log.parquet"), ["new"], **OPTIONS, **READ)
    (said,) = coverage(found)
    assert said.status == "passed" and "99.3" in said.text
    assert all(one.text != said.text for one in found.verdict.reasons)


def test_scores_of_targets_that_nobody_asked_for_do_not_matter(tmp_path):
    partly = thinned(world(), "other_scores", np.ones(3000, dtype=bool))
    found = cr.evaluate(written(partly, tmp_path / "log.parquet"), ["new"], **OPTIONS, **READ)
    assert found.log.n == 3000 and not coverage(found)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_missing_score_costs_only_the_target_that_lacks_it(tmp_path, streamed):
    """Each target has the figures that it has alone, and the other none of its questions."""
    rows = thinned(world(), "new_scores", np.arange(3000) >= 2200)
    path = written(rows, tmp_path / "log.parquet")
    more = {**OPTIONS, "independent_rows": True, "target_is_fresh": True}
    log = scan_log(path, targets=("new", "other"), **READ) if streamed else path
    found = cr.evaluate(log, ["new", "other"], **more, **({} if streamed else READ))
    alone = {name: cr.evaluate(path, [name], **more, **READ) for name in ("new", "other")}
    for name, own in alone.items():
        for one in own.estimates:
            other = found.estimate(name, one.estimator)
            assert (other.value, other.lift.stderr) == (one.value, one.lift.stderr)
        assert found.verdict.level_of(name) == own.verdict.level
        assert found.decision.targets[name] == own.decision.action
    assert found.log.n == 3000 and list(found.recommended) == ["new", "other"]
    assert [one.target for one in coverage(found)] == ["new"]
    assert cr.Evaluation.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert "new" in found.to_html() and "other" in found.to_html()


def test_a_target_that_scores_too_few_rankings_costs_no_other(tmp_path):
    rows = thinned(world(), "new_scores", np.arange(3000) >= 100)
    found = cr.evaluate(
        written(rows, tmp_path / "log.parquet"), ["new", "other"], **OPTIONS, **READ
    )
    assert list(found.recommended) == ["other"] and found.log.n == 3000
    (said,) = coverage(found)
    assert said.target == "new" and said.status == "failed" and "100 of 3,000" not in said.text


def test_a_baseline_is_scored_in_the_same_rankings(tmp_path):
    rows = thinned(world(), "new_scores", np.arange(3000) < 300)
    rows = thinned(rows, "other_scores", np.arange(3000) >= 2700)
    found = cr.evaluate(pa.table(rows), ["new"], baseline="other", **OPTIONS, **READ)
    assert found.log.n == 2400 and {one.target for one in coverage(found)} == {"new", "other"}


@pytest.mark.parametrize("streamed", [False, True])
def test_less_than_half_is_refused(tmp_path, streamed):
    path = written(thinned(world(), "new_scores", np.arange(3000) > 1400), tmp_path / "log.parquet")
    log = scan_log(path, targets=("new",), **READ) if streamed else path
    with pytest.raises(CounterrankError, match="in 1,401 of 3,000 rankings; at least 50"):
        cr.evaluate(log, ["new"], **OPTIONS, **({} if streamed else READ))


def test_the_loggers_scores_are_all_needed(tmp_path):
    path = written(
        thinned(world(), "propensity_scores", np.arange(3000) == 7), tmp_path / "a.parquet"
    )
    with pytest.raises(CounterrankError, match="row 7: 'propensity_scores' is nan"):
        cr.evaluate(path, ["new"], **OPTIONS, **READ)


def test_a_policy_is_not_asked_for_rankings_it_does_not_score(tmp_path):
    """Other users of such a log must not take a missing score for the lowest."""
    log = cr.read_log(
        written(thinned(world(n=50), "other_scores", np.arange(50) == 7), tmp_path / "a.parquet"),
        **READ,
    )
    with pytest.raises(CounterrankError, match="row 7: 'other_scores' is nan"):
        log.targets["other"].prefix_log_prob(log.action)
    assert log.targets["other"].unscored.nonzero()[0].tolist() == [7]


def test_one_row_a_candidate_from_the_command_line(tmp_path):
    rows = thinned(world(), "new_scores", np.arange(3000) % 5 == 0)
    long = {name: [] for name in ("request", "shown", "item", "click", "old", "new")}
    for i, listed in enumerate(rows["candidates"]):
        for j, item in enumerate(listed):
            place = rows["action"][i].index(item) if item in rows["action"][i] else None
            values = (f"r{i:05}", None if place is None else place + 1, item,
                      None if place is None else rows["reward"][i][place],
                      rows["propensity_scores"][i][j], rows["new_scores"][i][j])  # fmt: skip
            for name, value in zip(long, values, strict=True):
                long[name].append(value)
    pq.write_table(pa.table(long), tmp_path / "long.parquet")
    job = tmp_path / "job.toml"
    job.write_text(
        f'logger = "{LOGGER}"\n[columns]\nranking = "request"\nposition = "shown"\naction = "item"\n'
        'reward = "click"\npropensity_scores = "old"\nnew_scores = "new"\n'
        '[policies]\nnew = "plackett-luce:temperature=0.5"\n'
    )
    out = tmp_path / "result.json"
    ran = CliRunner().invoke(
        main, ["evaluate", str(tmp_path / "long.parquet"), "--config", str(job), "--target", "new",
               "--estimators", "iips", "--json", str(out)],
    )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    result = json.loads(out.read_text())
    assert result["log"]["n"] == 2400
    assert any("80.0\u202f%" in one["text"] for one in result["audit"])
    ran = CliRunner().invoke(main, ["check", str(tmp_path / "long.parquet"), "--config", str(job)])
    assert "scores all candidates in 80.0" in ran.output.replace("\n", " ")
