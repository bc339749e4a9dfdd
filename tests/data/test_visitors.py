"""Units that are row ids, while contexts tell that visitors came again."""

from dataclasses import replace

import numpy as np

import counterrank as cr
from counterrank.data.columns import shared_contexts


def log_of(seed: int, *, users: int = 100, rows: int = 40, unit: str = "row") -> cr.RankingLog:
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), rows)[rng.permutation(users * rows)]
    n = len(user)
    action = rng.integers(0, 3, (n, 2))
    return cr.RankingLog(
        action=action,
        reward=(rng.random((n, 2)) < 0.3).astype(float),
        propensity=np.full((n, 2), 1 / 3),
        # A taste of the user, and the hour, which differs from row to row.
        context=np.column_stack([rng.normal(size=users)[user], rng.integers(0, 24, n)]),
        unit=np.arange(n) if unit == "row" else user,
    )


def test_row_ids_are_told_from_users_by_contexts_that_recur():
    assert shared_contexts(log_of(0)) == 100
    assert shared_contexts(log_of(0, unit="user")) is None
    assert shared_contexts(replace(log_of(0), unit=None)) is None


def test_contexts_that_recur_by_nature_are_no_visitors():
    """Counts, prices with cents, hours, categories, and one row a visitor."""
    rng = np.random.default_rng(1)
    log = log_of(2)
    for column in (
        rng.integers(0, 90, log.n),
        np.round(rng.uniform(1, 20, log.n), 1) + 0.99,
        rng.normal(size=log.n),
        (rng.integers(0, 24, log.n) - 11.5) / 6.922,
    ):
        assert (
            shared_contexts(replace(log, context=column[:, None].astype(float), context_names=()))
            is None
        )


def test_the_verdict_does_not_take_row_ids_for_users():
    log = log_of(3)
    target = np.where(log.action == 0, 0.4, 0.3)
    options = {"estimators": ["iips"], "target_is_fresh": True}
    found = cr.evaluate(log, {"new": target}, **options)
    told = next(row for row in found.verdict.reasons if row["check"] == "units")
    assert told["status"] == "warn" and "share 100 contexts" in told["reason"]
    assert found.verdict.level != "reliable"
    said = cr.evaluate(log, {"new": target}, independent_rows=True, **options)
    assert next(r for r in said.verdict.reasons if r["check"] == "units")["status"] == "pass"
