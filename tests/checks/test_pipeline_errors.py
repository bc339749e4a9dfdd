"""Errors of pipelines in a simulated shop: each is seen by the check that is meant for it."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import front_page
from benchmarks.pipeline_errors import ERRORS, SHOPS, Shop, audited, limiting, shop_world

import counterrank as cr
from counterrank.evaluation import what_would_help
from counterrank.evaluation.verdict import of_audit


def found_in(name: str, seed: int, rows: int = 6000) -> list[str]:
    world = shop_world(replace(SHOPS.get(name, Shop()), rows=rows), seed)
    if name in ERRORS:
        world = ERRORS[name](world, np.random.default_rng(seed + 1))
    return limiting(audited(world))


@pytest.mark.parametrize(
    "name, code",
    [
        ("clicks of the previous request, all", "rewards-by-visit"),
        ("clicks of the previous request, 30 %", "rewards-by-visit"),
        ("no clicks from mobile", "rewards-by-level"),
        ("no clicks from mobile, from a day on", "rewards-by-level-and-day"),
        ("half from mobile, from a day on", "rewards-by-level-and-day"),
        ("a category counted twice", "rewards-counted-twice"),
        ("popular items counted twice", "rewards-counted-twice"),
        ("all rows twice, new ids", "duplicates"),
        ("all rows three times, scores + 1e-7", "duplicates"),
        ("all rows twice, independent rows", "duplicates"),
        ("false independent rows", "user-column"),
        ("new scores of another request, 30 %", "target-scores"),
        ("missing new scores as 0", "target-scores"),
        ("tastes drift towards the target", "lift-by-halves"),
        ("half of the clickless pages lost", "rewards-by-page"),
        ("half of the other candidates lost", "scores"),
        ("scores logged times 1.3", "scores"),
        ("revenue capped", "rewards-capped"),
        ("cents in 20 % of the rows", "rewards-in-other-units"),
        ("cents for 20 % of the items", "rewards-in-other-units"),
        ("tenfold in 20 % of the rows", "rewards-in-other-units"),
        ("new scores know the clicks", "scores-by-target"),
        ("clicks one slot too low, 30 %", "rewards-by-neighbour"),
        ("first item of mobile pages always clicked", "rewards-by-position"),
        ("new scores on two scales", "target-scores"),
        ("new scores cut at both ends", "target-scores"),
        ("new scores of the item in another request", "target-scores"),
        ("pages with three clicks lose all", "rewards-by-count"),
        ("pages keep two clicks", "rewards-by-count"),
        ("200 rows in a row without a click", "rewards-by-stretch"),
        ("amounts of a country times 12", "rewards-in-other-units"),
        ("five robots", "robots"),
    ],
)
def test_an_error_that_the_log_shows_limits_the_verdict(name, code):
    assert code in found_in(name, seed=0)


@pytest.mark.parametrize(
    "name, code",
    [
        ("clicks of the row before", "rewards-by-visit"),
        ("clicks in another order of rows", "rewards-by-visit"),
        ("below the fold of the app lost", "rewards-by-position"),
        ("only the first position tracked", "rewards-by-position"),
        ("app clicks counted twice", "rewards-counted-twice"),
        ("nights without clicks", "rewards-by-level"),
        ("robots that click everything, 4 %", "robots"),
        ("robots that click the first, 10 %", "robots"),
        ("test accounts, 12 % of the pages", "robots"),
        ("a visit as the unit", "user-column"),
        ("new scores in another order", "target-scores"),
        ("tastes drift towards the target", "lift-by-halves"),
    ],
)
def test_errors_of_a_front_page_limit_the_verdict(name, code):
    (world,) = front_page.pages(name, 8000, [0])
    assert code in limiting(audited(world))


def test_another_temperature_of_a_softmax_is_seen():
    (world,) = front_page.pages("another temperature", 8000, [1])
    assert world.logger == "softmax" and "scores" in limiting(audited(world))


@pytest.mark.parametrize("kind", front_page.LOGGERS)
def test_a_healthy_front_page_keeps_its_verdict(kind):
    page = replace(front_page.FrontPage(rows=6000, K=4, candidates=8), logger=kind)
    assert limiting(audited(front_page.page_world(page, 3))) == []


@pytest.mark.parametrize("seed", [0, 1])
def test_a_healthy_shop_keeps_its_verdict(seed):
    assert found_in("healthy", seed) == []


def test_pages_with_a_click_that_were_written_again_under_new_ids_of_requests_are_copies():
    """User and time are those of the original: rows of one user may be equal, but not so many."""
    world = shop_world(Shop(), 0)
    rng = np.random.default_rng(0)
    moments = np.datetime64("2026-11-01T00:00:00") + np.sort(rng.integers(10**6, size=6000))
    world = world.changed(moment=moments)
    again = np.flatnonzero(world.columns["reward"].any(axis=1) & (rng.random(6000) < 0.3))
    copied = world.rows(np.sort(np.concatenate([np.arange(6000), again])))
    copied = copied.changed(request=np.arange(len(copied.items)))
    for log, expected in ((world, False), (copied, True)):
        found = cr.audit_log(log.log(), ["new"], time="moment")
        assert any(one.code == "duplicates" and one.blamed for one in found) == expected


def test_half_of_the_rewards_of_a_level_stand_out_where_the_others_are_alike():
    world = shop_world(Shop(device=0.0), 3)
    world = ERRORS["half of the clicks from mobile"](world, np.random.default_rng(0))
    (asked,) = [finding for finding in audited(world) if finding.code == "rewards-by-level"]
    # A third of the traffic that acts otherwise is asked about; nobody is told to drop it.
    assert asked.blamed and asked.text.endswith("?") and asked.answer
    assert not asked.where and "leave" not in asked.help
    world = ERRORS["no clicks from mobile"](world, np.random.default_rng(0))
    (lost,) = [finding for finding in audited(world) if finding.code == "rewards-by-level"]
    assert lost.where == "x_device != 'mobile'" and lost.where in lost.help


def test_the_day_from_which_a_level_lost_its_rewards_is_named():
    world = shop_world(Shop(), 0)
    world = ERRORS["no clicks from mobile, from a day on"](world, np.random.default_rng(0))
    (found,) = [one for one in audited(world) if one.code == "rewards-by-level-and-day"]
    assert found.where == "x_device != 'mobile' or day < '2026-11-10'"


def test_a_session_for_a_unit_is_told_where_users_are_known():
    world = shop_world(Shop(users=600), 0)
    log = world.log()
    known = {"user": log.unit}
    by_session = replace(log, unit=log.columns["session"], columns=known)
    (found,) = [one for one in cr.audit_log(by_session, ["new"]) if one.code == "user-column"]
    assert found.status == "warned" and "unit=user" in found.help
    assert not [one for one in cr.audit_log(log, ["new"]) if one.code == "user-column"]


def test_a_bad_day_is_the_advice_and_not_a_temperature():
    # The weights of that day are too heavy to test their means: scores are looked at day by day.
    world = shop_world(Shop(rows=10_000), 0)
    world = ERRORS["other scores on one day"](world, np.random.default_rng(0))
    found = list(of_audit(audited(world), "new"))
    assert "scores" in {one.code for one in found}
    advice = what_would_help(found)
    assert "day != '2026-11-06'" in advice[0]
    assert not any("temperature" in one for one in advice)


def test_the_best_temperature_is_the_factor_and_is_not_advised_again():
    """Scores times 1.3: 4,096 rows know the temperature to about 1 %."""
    world = ERRORS["scores logged times 1.3"](shop_world(Shop(), 1), np.random.default_rng(0))
    (found,) = [one for one in audited(world) if one.code == "scores"]
    fits = float(found.help.split("a temperature of ")[1].split()[0])
    assert fits == pytest.approx(1.3, rel=0.03)
    again = cr.RankingLog.from_frame(
        world.table(), logger=f"plackett-luce:temperature={fits}",
        policies={"new": "plackett-luce"}, columns={"unit": "user"},
    )  # fmt: skip
    assert not [one for one in cr.audit_log(again) if one.code == "scores" and one.blamed]


def test_no_temperature_is_proposed_where_candidates_are_missing():
    world = ERRORS["half of the other candidates lost"](
        shop_world(Shop(), 0), np.random.default_rng(0)
    )
    (found,) = [one for one in audited(world) if one.code == "scores"]
    assert "log every candidate" in found.help and "fits best" not in found.help
    # Whoever guesses a temperature all the same is told again.
    for temperature in (1.5, 2.0, 3.0):
        read = cr.RankingLog.from_frame(
            world.table(), logger=f"plackett-luce:temperature={temperature}",
            policies={"new": f"plackett-luce:temperature={temperature}"}, columns={"unit": "user"},
        )  # fmt: skip
        assert "scores" in limiting(cr.audit_log(read, ["new"]))


def test_rounding_to_one_digit_is_seen_and_few_levels_are_not():
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(0.1, 0.9, (2000, 2)), 1)
    for values, status in ((p, "warned"), (np.where(p > 0.5, 0.8, 0.1), "passed")):
        log = cr.RankingLog(
            action=rng.integers(5, size=(2000, 2)),
            reward=np.ones((2000, 2)) * (p > 0.3),
            propensity=values,
        )
        (found,) = [one for one in cr.audit_log(log) if one.code == "rounding"]
        assert found.status == status, found


def test_percent_signs_are_shown():
    shown = str(audited(shop_world(Shop(rows=500), 0)))
    assert "\N{REPLACEMENT CHARACTER}" not in shown


def test_groups_are_compared_with_one_and_not_with_their_mean():
    """Half of 16 groups at 1.8: their common mean is 1.4, which the others are as far from."""
    from counterrank.checks.weights import groups_tested

    rng = np.random.default_rng(0)
    groups, total = np.zeros((16, 3, 1)), np.zeros((4, 1))
    for g in range(16):
        w = rng.gamma(2.0, (1.8 if g % 2 else 1.0) / 2.0, 600)
        groups[g, :, 0] = 600, w.sum(), (w**2).sum()
        total[:, 0] += 600, w.sum(), (w**2).sum(), (w**3).sum()
    _, z, p = groups_tested(groups, total, np.array([20.0]), 1.0)
    assert (p[1::2] < 1e-6).all() and (np.abs(z[::2]) < 4).all()


def test_copies_are_told_from_rows_that_are_alike_by_nature():
    """Without context and scores, pages of two items recur: no evidence of copies."""
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=(3000, 2))
    log = cr.RankingLog(
        action=action, reward=np.zeros((3000, 2)) + action, propensity=np.full((3000, 2), 0.5)
    )
    (found,) = [one for one in cr.audit_log(log) if one.code == "duplicates"]
    assert found.status == "skipped"


@pytest.mark.parametrize("seed", range(3))
def test_users_who_stop_after_a_click_lose_no_pages(seed):
    """A search page that is read downwards has few pages without clicks, and all of them are there."""
    from counterrank.checks.base import Subject
    from counterrank.checks.rewards import stops as stops_of

    def stops_in(pages):
        log = cr.RankingLog(
            action=np.zeros(pages.shape, int), reward=pages, propensity=np.ones(pages.shape)
        )
        return stops_of(Subject(log).page_counts(log)[1]["beside"])

    rng = np.random.default_rng(seed)
    n, shown = 4000, 5
    liked = rng.random((n, shown)) < 0.3 + 0.2 * rng.random((n, 1))
    goes_on = rng.random((n, shown)) < np.where(liked, 0.2, 0.95)
    looks = np.cumprod(np.column_stack([np.ones(n), goes_on[:, :-1]]), axis=1) > 0
    clicks = liked & looks
    stops = stops_in(clicks)
    free = stops_in(liked[liked.any(axis=1) | (rng.random(n) < 0.5)])
    # Of independent positions the ratio is 1 within 0.05 (three standard errors), lost pages or not.
    assert stops < 0.9 and abs(free - 1.0) < 0.05
