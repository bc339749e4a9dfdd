"""What is pinned: a command and a log for each kind of work that counterrank does."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.golden.documents import pinned
from tests.golden.worlds import arms, factored, plackett_luce, ranked

import counterrank as cr
from counterrank.estimators import crossfit, estimator_names
from counterrank.exploration import settings

Json = dict[str, Any]

WEIGHTS = ["ips", "iips", "rips", "order-2"]
RATIOS = ["snips", "sniips", "snrips", "cv-ips", "cv-iips", "cv-rips", "sniips"]
USUAL = ["auto", "ips", "snips", "cv-iips"]
THREE = {"click": "click", "revenue": "revenue", "per click": "revenue / click"}
RAILS = ["revenue >= -0.2", "click by device >= -0.3", "click where country = 'de' >= -0.02"]
DECLARED = {"independent_rows": True, "target_is_fresh": True}


def evaluation(
    make: Callable[..., cr.RankingLog], *estimators: str, log: Json | None = None, **options: Any
) -> Callable[[], Json]:
    """Return a case of `evaluate`: what makes the log, the estimators, and the options of both."""
    asked = {"estimators": list(estimators)} if estimators else {}

    def run() -> Json:
        return cr.evaluate(make(**(log or {})), **asked, **options).to_dict()

    return run


def streamed() -> Json:
    """A folder of files, read batch by batch."""
    log = factored(600, whole=False)
    table = {
        "action": log.action.tolist(), "reward": log.reward.tolist(),
        "propensity": log.propensity.values.tolist(), "new": log.targets["new"].values.tolist(),
        "unit": np.arange(600) % 150, "device": ["app", "web", "web"] * 200,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for start in (0, 250):
            rows = pa.table(table).slice(start, 350 if start else 250)
            pq.write_table(rows, Path(folder) / f"{start}.parquet", row_group_size=100)
        return cr.evaluate(
            f"{folder}/*.parquet",
            "new",
            estimators=WEIGHTS,
            segments="device",
            where="device <> 'tv'",
        ).to_dict()


def two_phases() -> Json:
    """Models are asked about a part of the rows."""
    few = replace(crossfit.DEFAULTS, asked_rows=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crossfit, "DEFAULTS", few)
        return cr.evaluate(
            plackett_luce(1200, groups=True), estimators=["auto", "ips"], segments="device"
        ).to_dict()


def planned() -> Json:
    """A plan with fewer pages and steps than people get."""
    few = {"REQUESTS": 32, "DRAWS": 2, "RANKERS": 2, "POINTS": 3}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in few.items():
            patch.setattr(settings, name, value)
        return cr.plan(ranked("top"), ["new"], rows_per_week=700.0).to_dict()


def of_kind(kind: str) -> Json:
    """Propensities that are not those of independent positions."""
    log = factored(whole=False)
    values = {"propensity": log.propensity.values, "new": log.targets["new"].values}
    if kind == "joint":
        values = {name: one.prod(axis=1) for name, one in values.items()}
    told = {name: cr.Propensity(kind, one) for name, one in values.items()}
    names = ["iips"] if kind == "position" else ["ips", "snips"]
    return cr.evaluate(
        cr.RankingLog(
            action=log.action, reward=log.reward, propensity=told["propensity"],
            targets={"new": told["new"]},
        ),
        estimators=names,
    ).to_dict()  # fmt: skip


def unlogged(method: str) -> Json:
    """Propensities that are estimated, with replicas."""
    log = ranked(n=300) if method == "plackett-luce" else factored(200)
    return cr.evaluate(
        log, "new", estimators=["iips", "snips"], estimate_propensity=method
    ).to_dict()


def scored(missing: int = 0) -> Json:
    """A table of scores; every `missing`-th row has a candidate without a score of the target."""
    log = ranked()
    scores = log.propensity.scores.reshape(log.n, -1)
    new = (scores + np.linspace(-0.5, 0.5, scores.shape[1])).tolist()
    for row in new[:: missing or log.n]:
        row[-1] = None if missing else row[-1]
    table = pa.table(
        {
            "action": log.action.tolist(), "reward": log.reward.tolist(),
            "candidates": [list(range(scores.shape[1]))] * log.n,
            "propensity_scores": scores.tolist(), "new_scores": new,
        }
    )  # fmt: skip
    kinds = {"logger": "plackett-luce", "policies": {"new": "plackett-luce"}}
    return cr.evaluate(table, "new", estimators=["ips", "rips", "auto"], **kinds).to_dict()


def enumerated() -> Json:
    """A target that is a list of rankings with probabilities."""
    log = plackett_luce(300, K=2, items=3)
    rankings = np.array([[0, 1], [1, 0], [2, 1], [1, 2], [2, 0], [0, 2]])
    policy = cr.Enumerated(rankings[None], np.array([[0.3, 0.2, 0.1, 0.1, 0.2, 0.1]]))
    return cr.evaluate(log, {"listed": policy}, estimators=["ips", "rips"]).to_dict()


def families(*starts: str) -> Callable[[], Json]:
    """Return a case of the estimators whose names start so."""

    def run() -> Json:
        names = [name for name in estimator_names() if name.startswith(starts)]
        return cr.evaluate(factored(), "new", estimators=names, audit=False).to_dict()

    return run


CASES: dict[str, Callable[[], Json]] = {
    "factored": evaluation(factored, **DECLARED),
    "shown-items": evaluation(factored, *USUAL, *WEIGHTS[1:], log={"whole": False}),
    "heavy-weights": evaluation(factored, *USUAL, *WEIGHTS[1:], log={"sharp": 4.0}),
    "users": evaluation(factored, *USUAL, *WEIGHTS[1:], log={"users": True}),
    "plackett-luce": evaluation(plackett_luce),
    "plackett-luce-users": evaluation(plackett_luce, *USUAL, log={"users": True}),
    "row-weights": evaluation(
        factored, *WEIGHTS, "snips", "sniips", log={"weights": True, "groups": True}, segments="device"
    ),
    "row-weights-users": evaluation(
        factored, *WEIGHTS, "snips", "sniips", log={"weights": True, "users": True}
    ),
    "ragged": evaluation(factored, *USUAL, *WEIGHTS[1:], log={"ragged": True}),
    "ragged-plackett-luce": evaluation(plackett_luce, "auto", "ips", "rips", log={"ragged": True}),
    "dcg": evaluation(factored, *USUAL, *WEIGHTS[1:], position_weights="dcg"),
    "baseline": evaluation(factored, *USUAL, "sniips", *WEIGHTS[1:], baseline="old"),
    "baseline-without-models": evaluation(
        factored, "auto", "sniips", log={"whole": False, "users": True}, baseline="old"
    ),
    "baseline-plackett-luce": evaluation(
        plackett_luce, "auto", "ips", log={"users": True}, baseline="old"
    ),
    "metrics": evaluation(
        factored, "auto", "iips", "snips", log={"named": True, "groups": True}, rewards=THREE,
        guardrails=RAILS, practical=0.05, **DECLARED,
    ),
    "metrics-baseline": evaluation(
        plackett_luce, "auto", "ips", log={"named": True, "users": True}, rewards=THREE,
        primary="revenue", baseline="old",
    ),
    "metrics-weights-only": evaluation(
        factored, "auto", "snips", "ips", log={"named": True, "whole": False}, rewards=THREE
    ),
    "page-metrics": evaluation(
        factored, "auto", "ips", "rips", log={"named": True},
        rewards={"any": "any(click)", "first": "first(click)", "ndcg": "ndcg(click)"},
    ),
    "page-reward": evaluation(factored, "auto", "ips", "pi", log={"page": True}),
    "segments": evaluation(
        factored, "auto", "ips", log={"n": 700, "groups": True}, segments=["device", "country"]
    ),
    "segments-baseline": evaluation(
        plackett_luce, "auto", "ips", log={"groups": True, "users": True}, segments="device",
        baseline="old",
    ),
    "segments-weights-only": evaluation(
        factored, "auto", "snips", log={"groups": True, "whole": False}, segments="country"
    ),
    "sequential": evaluation(factored, *USUAL, sequential=2000, level=0.9),
    "one-position": evaluation(factored, *USUAL, "dm", "dr-iips", log={"K": 1}),
    "fresh": evaluation(
        factored, "auto", "ips", log={"groups": True}, time="day",
        target_trained_until="2026-10-03",
    ),
    "estimated": lambda: unlogged("plackett-luce"),
    "estimated-logistic": lambda: unlogged("logistic"),
    "two-phases": two_phases,
    "fused": evaluation(
        factored, *WEIGHTS, "snips", "cv-iips", log={"n": 50_000, "K": 2, "whole": False},
        audit=False,
    ),
    "streamed": streamed,
    "prefix": lambda: of_kind("prefix"),
    "joint": lambda: of_kind("joint"),
    "position": lambda: of_kind("position"),
    "scored": scored,
    "partly-scored": lambda: scored(missing=7),
    "enumerated": enumerated,
    "of-ratios": families("sn", "cv-"),
    "of-limits": families("clip-", "shrink-", "switch-"),
    "of-models": families("dm", "dr-", "cascade-dr", "pi"),
    "of-trees": families("aips"),
    "tree-of-the-paper": evaluation(
        factored, "aips", behavior_candidates="paper", behavior_mse="pasif", audit=False
    ),
    "clicks-plackett-luce": evaluation(plackett_luce, "pbm", "click-model", "dm", "dr-ips"),
    "abtest": lambda: cr.abtest(arms(), "arm").to_dict(),
    "abtest-users": lambda: cr.abtest(
        arms(users=True, three=True), "arm:a=40,b=40,c=20", baseline="b", sequential=2000
    ).to_dict(),
    "validate": lambda: cr.validate(arms(), "arm", estimators=["auto", "iips"]).to_dict(),
    "learn": lambda: cr.learn(ranked(), independent_rows=True, segments="device").to_dict(),
    "learn-assumed": lambda: cr.learn(ranked(), grade="assumed", level=0.8).to_dict(),
    "plan": planned,
    "check": lambda: cr.audit_log(factored(groups=True, users=True), segments="device", time="day").to_dict(),
    "check-wrong": lambda: cr.audit_log(
        cr.RankingLog(
            action=factored().action, reward=factored().reward,
            propensity=np.minimum(1.6 * factored().propensity.values, 1.0),
        )
    ).to_dict(),
    "curve": lambda: json.loads(cr.position_curve(ranked()).to_json()),
}  # fmt: skip


def numbers_of(name: str) -> Json:
    """Return the numbers of a case as they are now."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: Json = pinned(CASES[name]())
        return found
