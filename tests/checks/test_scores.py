"""Shown items against the candidates and scores of their rows."""

import numpy as np
import pytest

import counterrank as cr
from counterrank.checks.auditor import VITAL, audit
from counterrank.checks.base import Subject
from counterrank.checks.scores import FITTED_ROWS, SCORES
from counterrank.data.source import MemorySource
from counterrank.policies import Candidates, parse_policy

N, K, C = 3000, 3, 12


def world(seed=0, drawn="plackett-luce", said=None):
    """Rankings drawn by one policy over the same scores as the one that is said to have drawn them."""
    rng = np.random.default_rng(seed)
    lists = [rng.permutation(40)[: rng.integers(5, C)].tolist() for _ in range(N)]
    sets = Candidates.from_lists(lists, n_items=40)
    scores = rng.normal(size=len(sets.items))
    action = parse_policy(drawn).bind(candidates=sets, scores=scores).sample(K, rng)[:, 0]
    return sets, action, parse_policy(said or drawn).bind(candidates=sets, scores=scores)


def of_row(sets, row):
    return sets.items[slice(*sets.offsets[[row, row + 1]])]


def log_of(sets, action, logger, **changes):
    reward = (np.random.default_rng(1).random(action.shape) < 0.3).astype(float)
    fields = {"action": action, "reward": reward, "propensity": logger, "candidates": sets}
    return cr.RankingLog(**fields, **changes)


def findings(log):
    return [
        one for one in audit(MemorySource(log, threads=1), checks=VITAL) if one.check == "scores"
    ]


def test_true_draws_pass():
    """1 % false alarms at most a log: 3 or more of 30 have a chance of 0.3 %, and the seeds are
    fixed.
    """
    found = [findings(log_of(*world(seed)))[0].status for seed in range(30)]
    assert found.count("passed") >= 28


@pytest.mark.parametrize("temperature, word", [(0.7, "flatter"), (1.5, "sharper")])
def test_a_wrong_temperature_is_found_and_said(temperature, word):
    (found,) = findings(log_of(*world(said=f"plackett-luce:temperature={temperature}")))
    assert found.status == "failed" and f"the logger is {word} than its scores" in found.found
    assert "temperature" in found.remedy and not found.fatal
    # Drawn at 1: 4,096 rows tell it within a few percent.
    fits = float(found.remedy.split("a temperature of ")[1].split()[0])
    assert fits == pytest.approx(1.0, abs=0.06)
    assert f"--logger plackett-luce:temperature={fits:.3g}" in found.remedy


def test_a_small_distance_is_a_warning():
    (found,) = findings(log_of(*world(said="plackett-luce:temperature=0.94")))
    assert found.status == "warned"


def test_items_that_were_no_candidates_are_counted_with_their_rows():
    sets, action, _ = world()
    action[[5, 9], 1] = [
        next(a for a in range(40) if a not in sets.items[slice(*sets.offsets[[i, i + 1]])])
        for i in (5, 9)
    ]
    numbers = cr.Propensity("prefix", np.full(action.shape, 0.2))
    (found,) = findings(log_of(sets, action, numbers))
    assert (
        found.status == "failed"
        and found.found.startswith("2 of 3,000 rankings show items")
        and not found.fatal
    )
    assert [(one["row"], one["position"]) for one in found.examples] == [(5, 2), (9, 2)]


def test_many_such_items_sink_the_verdict():
    sets, action, _ = world()
    few = Candidates.from_lists(
        [sets.items[slice(*sets.offsets[[i, i + 1]])][1:].tolist() for i in range(N)], n_items=40
    )
    numbers = cr.Propensity("prefix", np.full(action.shape, 0.2))
    log = log_of(few, action, numbers, targets={"new": numbers})
    assert findings(log)[0].fatal
    result = cr.evaluate(log, estimators=["ips"], audit=False, independent_rows=True)
    assert result.verdict["level"] == "insufficient"
    assert any("none of their candidates" in row["reason"] for row in result.verdict["reasons"])


def test_items_of_score_minus_infinity_are_never_shown():
    sets = Candidates.from_lists([[0, 1, 2]] * 4)
    logger = parse_policy("plackett-luce").bind(
        candidates=sets, scores=np.array([1.0, 2.0, -np.inf] * 4)
    )
    (found,) = findings(log_of(sets, np.array([[0, 1], [1, 0], [2, 0], [0, 2]]), logger))
    assert found.status == "failed" and found.found.startswith("2 shown items have a score of -inf")


def test_an_order_that_contradicts_the_scores_of_a_top_list():
    sets, action, logger = world(drawn="top")
    assert findings(log_of(sets, action, logger))[0].status == "passed"
    swapped = action.copy()
    swapped[:7] = swapped[:7, ::-1]
    (found,) = findings(log_of(sets, swapped, logger))
    assert found.status == "failed" and found.found.startswith(
        "7 of 3,000 rankings put an item above"
    )
    (found,) = findings(log_of(sets, action[:, ::-1], logger))
    assert found.fatal


def test_counts_do_not_depend_on_batches_and_no_candidates_are_no_finding():
    log = log_of(*world(said="plackett-luce:temperature=0.7"))
    check, subject = SCORES, Subject(log, n=N)
    parts = [
        check.count(log.take(slice(first, first + 700)), subject) for first in range(0, N, 700)
    ]
    assert findings(log) == check.findings(sum(parts[1:], parts[0]), subject)
    sparse = Subject(log, n=10 * FITTED_ROWS)
    assert check.count(log, sparse).count("fitted") == N // 10
    bare = cr.RankingLog(action=[[0], [1]], reward=[[1], [0]], propensity=[[0.5], [0.5]])
    assert findings(bare) == []
