"""Errors of pipelines in a simulated shop: each is seen by the check that is meant for it."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.pipeline_errors import ERRORS, SHOPS, Shop, audited, limiting, shop_world


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
        ("revenue capped", "rewards-capped"),
        ("cents in 20 % of the rows", "rewards-in-other-units"),
        ("cents for 20 % of the items", "rewards-in-other-units"),
        ("tenfold in 20 % of the rows", "rewards-in-other-units"),
    ],
)
def test_an_error_that_the_log_shows_limits_the_verdict(name, code):
    assert code in found_in(name, seed=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_healthy_shop_keeps_its_verdict(seed):
    assert found_in("healthy", seed) == []


def test_half_of_the_rewards_of_a_level_stand_out_where_the_others_are_alike():
    world = shop_world(Shop(device=0.0), 3)
    world = ERRORS["half of the clicks from mobile"](world, np.random.default_rng(0))
    (found,) = [one for one in audited(world) if one.code == "rewards-by-level"]
    assert found.blamed and found.where == "x_device != 'mobile'"
    assert found.where in found.help


def test_the_day_from_which_a_level_lost_its_rewards_is_named():
    world = shop_world(Shop(), 0)
    world = ERRORS["no clicks from mobile, from a day on"](world, np.random.default_rng(0))
    (found,) = [one for one in audited(world) if one.code == "rewards-by-level-and-day"]
    assert found.where == "x_device != 'mobile' or day < '2026-11-10'"


def test_copies_are_told_from_rows_that_are_alike_by_nature():
    """Without context and scores, pages of two items recur: no evidence of copies."""
    import counterrank as cr

    rng = np.random.default_rng(0)
    action = rng.integers(2, size=(3000, 2))
    log = cr.RankingLog(
        action=action, reward=np.zeros((3000, 2)) + action, propensity=np.full((3000, 2), 0.5)
    )
    (found,) = [one for one in cr.audit_log(log) if one.code == "duplicates"]
    assert found.status == "skipped"
