"""Whose rows they are: without units nothing is certified, copies are refused, and bounds with few
or heavy units say what is possible.
"""

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.learning.conftest import clicks_log, learn

import counterrank as cr
from counterrank.checks.base import Subject
from counterrank.checks.copies import DUPLICATES
from counterrank.common.errors import LogError


def users_log(seed: int, users: int, rows: int, *, known: bool) -> cr.RankingLog:
    """Pure noise, but each user has a taste for one item that nobody else shares."""
    rng = np.random.default_rng(seed)
    n = users * rows
    user = np.repeat(np.arange(users), rows)
    context = rng.normal(size=(users, 2))[user]
    policy = cr.PlackettLuce(np.zeros((n, 6)))
    action = policy.sample(3, rng)[:, 0]
    loved = rng.integers(0, 6, users)[user]
    chance = np.where(action == loved[:, None], 0.9, 0.2)
    return cr.RankingLog(
        action=action,
        reward=(rng.random(action.shape) < chance).astype(float),
        propensity=policy,
        context=context,
        unit=user if known else None,
    )


def test_rows_that_nobody_vouched_for_certify_nothing():
    log = clicks_log(1)
    found = cr.learn(log).certificate
    assert not found.certified and found.low == 0 and not found.declared
    assert "--unit" in str(found) and "--independent-rows" in str(found)
    # The same numbers once someone did.
    told = learn(log).certificate
    assert told.certified and told.value == found.value
    own = cr.learn(replace(log, unit=np.arange(log.n))).certificate
    assert own.certified and own.declared


def test_few_users_with_many_rows_are_not_certified_by_their_rows():
    """12 users of 400 rows: what is learned of their tastes holds for no new user."""
    for seed in range(4):
        log = users_log(seed, 12, 400, known=False)
        assert not cr.learn(log, despite_audit=True).certificate.certified


def copied(log: cr.RankingLog, times: int, change) -> cr.RankingLog:
    rows = np.tile(np.arange(log.n), times)
    part = log.take(rows)
    object.__setattr__(part, "start", 0)
    object.__setattr__(part, "selected", None)
    return change(cr.RankingLog(
        action=part.action, reward=part.reward, propensity=cr.PlackettLuce(log.propensity.scores[rows]),
        context=part.context, context_names=log.context_names,
    ))  # fmt: skip


def with_context(log: cr.RankingLog, values) -> cr.RankingLog:
    return replace(log, context=values, context_names=("x_0",))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda log: log, None),
        (
            lambda log: with_context(log, np.random.default_rng(0).normal(size=(log.n, 1))),
            "x_0",
        ),
        (lambda log: replace(log, unit=np.arange(log.n)), None),
        (
            lambda log: replace(
                log,
                propensity=cr.PlackettLuce(
                    log.propensity.scores + np.random.default_rng(0).normal(size=(log.n, 1))
                ),
            ),
            "the logger's scores",
        ),
    ],
)
def test_rows_that_were_multiplied_are_found_although_one_column_changed(change, named):
    log = copied(clicks_log(2, 500), 3, change)
    found = copies_of(log)
    assert found is not None and re.search(r"6[67]\.\d\s% of rankings equal another one", found)
    assert found.partition(" in all but ")[2].startswith(f"{named}," if named else "")
    with pytest.raises(LogError, match=r"6[67]\.\d\s% of rankings equal another one"):
        learn(log)


def test_copies_whose_scores_differ_in_the_last_digits_are_copies():
    noise = np.random.default_rng(0)

    def shaken(log):
        scores = log.propensity.scores + 1e-7 * noise.normal(size=log.propensity.scores.shape)
        return replace(log, propensity=cr.PlackettLuce(scores))

    log = copied(clicks_log(2, 500), 3, shaken)
    subject = Subject(log, n=log.n)
    tally = DUPLICATES.count(log, subject)
    lists = {name: words for name, words in tally.lists.items() if "scores" not in name}
    # With every column: only rows with a score at the edge of two roundings are missed.
    (found,) = DUPLICATES.judge(replace(tally, lists=lists), subject)
    share = float(re.match(r"[\d.]+", found.text).group())
    assert found.status == "failed" and share == pytest.approx(100 * 2 / 3, abs=10)


def copies_of(log):
    """Return what the audit says of rows that equal others under new ids, if anything."""
    (found,) = (one for one in cr.audit_log(log) if one.code == "duplicates")
    return found.text if found.blamed and "equal another one" in found.text else None


def test_rows_that_are_equal_by_nature_are_no_copies():
    """No context and few pages; a few contexts; users with one context and rows of their own: all
    recur, none more often than the logger's probabilities let them. 20 logs, no false alarm.
    """
    for seed in range(5):
        assert copies_of(clicks_log(seed, 800)) is None
        assert copies_of(users_log(seed, 20, 60, known=False)) is None
        rng = np.random.default_rng(seed)
        p = np.array([0.5, 0.3, 0.2])
        action = rng.choice(3, (1000, 2), p=p)
        flat = cr.RankingLog(action=action, reward=np.zeros((1000, 2)), propensity=p[action])
        assert copies_of(flat) is None
        few = replace(flat, context=rng.integers(0, 5, (1000, 2)).astype(float))
        assert copies_of(few) is None


def test_copies_inside_a_unit_are_one_piece_of_evidence_anyway():
    log = copied(clicks_log(2, 500), 3, lambda log: log)
    assert copies_of(replace(log, unit=np.tile(np.arange(500), 3))) is None


def test_a_heavy_unit_is_named_and_no_bound_is_below_what_is_possible():
    log = clicks_log(3, 1500)
    unit = np.arange(log.n)
    unit[np.random.default_rng(0).permutation(log.n)[:150]] = 99_999
    found = cr.learn(replace(log, unit=unit), despite_audit=True).certificate
    assert found.value > 0 and -found.logger["value"] <= found.low < 0
    assert found.heaviest is not None and found.heaviest.share == pytest.approx(0.1, abs=0.03)
    assert "One unit, 99999, has" in str(found)


def test_it_never_asks_for_fewer_rows_than_there_are():
    """110 users of unlike size: errors promised a bound that betting on units does not give."""
    asked = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        log = clicks_log(seed, 1200)
        unit = rng.choice(110, log.n, p=rng.dirichlet(np.full(110, 2.0)))
        found = cr.learn(replace(log, unit=unit), despite_audit=True).certificate
        assert found.low >= -found.logger["value"]
        if found.more_rows is not None:
            asked += 1
            assert found.more_rows >= log.n
    assert asked
