"""Do several metrics hold together, are guardrails safe, and what do five metrics cost?

Run: python -m benchmarks.metrics [--logs 100] [--rows 4000] [--estimators NAMES] [--out FILE] [--cost]

Worlds in which metrics move in different directions: the new ranker follows what is clicked and shies
away from what is dear, or the other way round. Five metrics of each log: clicks and revenue by
position, any click, reciprocal rank of the first click, revenue per click. The truth is that of fresh
requests, served by both rankers.

Joint coverage: all intervals for all metrics together hold the true lifts. A broken guardrail lies just
above the true lift, where it is hardest to see: it is called safe by chance alone. Safe ones lie where
an A/B test of as many rankings ships with 80 % power; here the policy is not shipped "by chance" where an
interval is open, and for want of evidence where a verdict is not reliable, which is counted apart.
"""

import argparse
import json
import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import counterrank as cr
from counterrank.policies import Candidates, parse_policy
from counterrank.research.simulate import clicks
from counterrank.research.simulate.worlds import KINDS, World, parameters

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Requests on which truths are averaged, the same for both rankers.
TRUTH_ROWS = 300_000
#: Errors of an A/B test from the limit to an effect that it shows: the critical value of the primary,
#: that of each of four guardrails by Sidak, and 0.8 ** (1 / 5) power each, so that all five are shown
#: together with at least 80 %.
PRIMARY, FAMILY = 1.96 + 1.71, 2.49 + 1.71
REWARDS = {"any": "any(clicks)", "mrr": "mrr(clicks)", "per click": "revenue / clicks"}
METRICS = ("clicks", "revenue", *REWARDS)


@dataclass(frozen=True, slots=True)
class Setting:
    """Users, the ranker's liking of what is clicked, and of what is dear."""

    behavior: str
    clicks: float
    price: float
    K: int = 5

    @property
    def name(self) -> str:
        """The cell's name."""
        return f"{self.behavior}, clicks {self.clicks:+g}, price {self.price:+g}, K {self.K}"

    @property
    def world(self) -> World:
        """Its items and users."""
        return World(seed=5, behavior=self.behavior, K=self.K, items=30, candidates=12)  # type: ignore[arg-type]


SETTINGS = (
    Setting("dbn", 1.0, -0.6),
    Setting("cascade", 1.2, 0.4),
    Setting("ubm", 0.9, 0.5),
    Setting("position", 0.8, -0.3),
)


def requests(setting: Setting, n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return contexts, candidates and both rankers' scores of n requests."""
    world, made = setting.world, parameters(setting.world)
    context = rng.standard_normal((n, made.old.coef.shape[1]))
    ids = clicks.subsets(rng.random((n, world.C)), world.items)
    old, appeal = (s.on_items(context, ids) for s in (made.old, made.appeal))
    dear = np.log(made.price)[ids]
    standard = [(one - one.mean()) / one.std() for one in (appeal, dear)]
    new = old + setting.clicks * standard[0] + setting.price * standard[1]
    kind = np.full(n, KINDS.index(setting.behavior))
    return {"context": context, "ids": ids, "old": old, "new": new, "kind": kind}


def served(
    setting: Setting, asked: dict[str, Any], side: str, rng: np.random.Generator
) -> tuple[Ints, Floats, Floats]:
    """Return places shown by a ranker, clicks and revenue (n, K)."""
    made = parameters(setting.world)
    choice = (
        parse_policy("plackett-luce").dense(asked[side], setting.K).sample(setting.K, rng)[:, 0]
    )
    shown = np.take_along_axis(asked["ids"], choice, axis=1)
    appeal = made.appeal.on_items(asked["context"], shown)
    users = (
        asked["kind"], appeal, made.hold[shown], made.group[shown], made.curve, made.gaps, made.pull,
        made.go,
    )  # fmt: skip
    clicked = clicks.draw(*users, rng.random(choice.shape))
    paid = made.price[shown] * np.exp(0.4 * rng.standard_normal(shown.shape) - 0.08)
    return choice, clicked, clicked * paid


def by_row(clicked: Floats, revenue: Floats) -> dict[str, Floats]:
    """Return the measures of each ranking."""
    hit = clicked > 0
    some = hit.any(axis=1)
    return {
        "clicks": clicked.sum(axis=1),
        "revenue": revenue.sum(axis=1),
        "any": some.astype(float),
        "mrr": np.where(some, 1.0 / (hit.argmax(axis=1) + 1), 0.0),
    }


def values(rows: dict[str, Floats]) -> dict[str, float]:
    """Return the metrics of some rankings."""
    found = {name: float(one.mean()) for name, one in rows.items()}
    return {**found, "per click": found["revenue"] / found["clicks"]}


@cache
def truth(setting: Setting) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Return the true lifts and relative lifts, and the error of a relative lift that an A/B test of
    one ranking an arm would have.
    """
    rng = np.random.default_rng([setting.K, 77])
    sums: dict[str, list[dict[str, Floats]]] = {"old": [], "new": []}
    for _ in range(10):
        asked = requests(setting, TRUTH_ROWS // 10, rng)
        for side, kept in sums.items():
            kept.append(by_row(*served(setting, asked, side, rng)[1:]))
    rows = {
        side: {name: np.concatenate([part[name] for part in kept]) for name in kept[0]}
        for side, kept in sums.items()
    }
    old, new = values(rows["old"]), values(rows["new"])
    lifts = {name: new[name] - old[name] for name in METRICS}
    relative = {name: new[name] / old[name] - 1 for name in METRICS}
    error = {name: _relative_error(rows, name, old, new) for name in METRICS}
    return lifts, relative, error


def _relative_error(
    rows: dict[str, dict[str, Floats]], name: str, old: dict[str, float], new: dict[str, float]
) -> float:
    """Return the error of new / old - 1 from one ranking in each arm."""

    def spread(side: str, value: dict[str, float]) -> float:
        if name != "per click":
            return float(rows[side][name].std()) / value[name]
        part = rows[side]
        influence = (part["revenue"] - value[name] * part["clicks"]) / value["clicks"]
        return float(influence.std()) / value[name]

    return new[name] / old[name] * math.hypot(spread("new", new), spread("old", old))


def log_of(setting: Setting, n: int, seed: int) -> cr.RankingLog:
    """Return a log of n requests, served by the old ranker, with the new one as target."""
    rng = np.random.default_rng([seed, 19])
    asked = requests(setting, n, rng)
    choice, clicked, revenue = served(setting, asked, "old", rng)
    made = parameters(setting.world)
    sets = Candidates(
        np.arange(n + 1) * setting.world.C,
        asked["ids"].reshape(-1).astype(np.int32),
        n_items=setting.world.items,
    )
    bound = {
        side: parse_policy("plackett-luce").bind(candidates=sets, scores=asked[side].reshape(-1))
        for side in ("old", "new")
    }
    features = np.column_stack([made.feature, np.log(made.price)])
    return cr.RankingLog(
        action=np.take_along_axis(asked["ids"], choice, axis=1),
        reward={"clicks": clicked, "revenue": revenue},
        propensity=bound["old"],
        targets={"new": bound["new"]},
        candidates=sets,
        context=asked["context"],
        item_features=cr.ItemFeatures(features, tuple(f"z_{j}" for j in range(features.shape[1]))),
    )


def evaluated(log: cr.RankingLog, guardrails: list[str], estimators: str | None) -> cr.Evaluation:
    """Return the evaluation of all metrics, with what a team would declare."""
    return cr.evaluate(
        log, ["new"], rewards=REWARDS, primary="clicks", guardrails=guardrails, estimators=estimators,
        independent_rows=True, target_is_fresh=True, audit=False,
    )  # fmt: skip


def judged(
    setting: Setting, n: int, seed: int, estimators: str = "auto,rips,ips"
) -> dict[str, Any]:
    """Return what became of one log: coverage, false calls and the decision."""
    lifts, relative, error = truth(setting)
    others = [name for name in METRICS if name != "clicks"]
    # Half of the rankings in each arm.
    margin = {
        name: (PRIMARY if name == "clicks" else FAMILY) * error[name] / math.sqrt(n / 2)
        for name in METRICS
    }
    log = log_of(setting, n, seed)
    broken = [f'"{name}" >= {relative[name] + 1e-9:.12f}' for name in others]
    safe = [f'"{name}" >= {relative[name] - margin[name]:.12f}' for name in others]
    found = evaluated(log, [*broken, *safe], estimators)
    # Two families are judged apart, each as it would be alone.
    alone = [evaluated_rails(found, rails) for rails in (broken, safe)]
    held = [_covers(found, name, lifts[name]) for name in METRICS]
    one = found.metric("clicks").estimate("new").lift
    return {
        "joint": all(inside for inside, _ in held),
        "each": {name: inside for name, (_, inside) in zip(METRICS, held, strict=True)},
        "false safe": any(status == "safe" for status, _ in alone[0]),
        "open": any(status != "safe" for status, _ in alone[1]),
        "primary up": bool(one.low > 0),
        "evidence": [found.metric(name).verdict.level_of("new") for name in METRICS],
        "ab decides": relative["clicks"] >= margin["clicks"],
    }


def evaluated_rails(found: cr.Evaluation, texts: list[str]) -> list[tuple[str, str]]:
    """Return status and evidence of some guardrails, which are one family of as many."""
    return [(row.status, row.evidence) for row in found.guardrails if row.expression in texts]


def _covers(found: cr.Evaluation, name: str, lift: float) -> tuple[bool, bool]:
    metric = found.metric(name)
    own = metric.estimate("new").lift
    return own.adjusted_low <= lift <= own.adjusted_high, own.low <= lift <= own.high


def judge(logs: int, rows: int, estimators: str) -> list[dict[str, Any]]:
    """Return a row for each setting, printing it as it is made."""
    table = []
    for setting in SETTINGS:
        found = [judged(setting, rows, seed, estimators) for seed in range(logs)]
        decides = found[0]["ab decides"]
        chance = [one["open"] or not one["primary up"] for one in found]
        shippable = [
            all(level == "reliable" for level in one["evidence"]) and not bad
            for one, bad in zip(found, chance, strict=True)
        ]
        row = {
            "setting": setting.name,
            "logs": logs,
            "rows": rows,
            "relative lifts": {name: round(value, 4) for name, value in truth(setting)[1].items()},
            "joint coverage": np.mean([one["joint"] for one in found]),
            "coverage": {
                name: float(np.mean([one["each"][name] for one in found])) for name in METRICS
            },
            "broken called safe": np.mean([one["false safe"] for one in found]),
            "an A/B test of as many rows decides": bool(decides),
            "not shipped by chance": np.mean(chance),
            "shipped": np.mean(shippable),
            "evidence": Counter(min(one["evidence"], key=_level) for one in found),
        }
        table.append({key: float(v) if isinstance(v, np.floating) else v for key, v in row.items()})
        print(json.dumps(table[-1]), flush=True)
    return table


def _level(name: str) -> int:
    return ("insufficient", "directional", "reliable").index(name)


FIVE = {
    "clicks": "clicks",
    "revenue": "revenue",
    "any": "any(clicks)",
    "mrr": "mrr(clicks)",
    "bought": "any(revenue)",
}


def cost(rows: int, few: int) -> dict[str, float]:
    """Return how many times as long five metrics take as one, with loading of code left out: by fixed
    estimators from a file with probabilities, by the same from scores of candidates, and by `auto`.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log.parquet")
        _written(path, rows)

        def from_file(rewards: dict[str, str]) -> Callable[[], Any]:
            return lambda: cr.evaluate(path, ["new"], rewards=rewards, estimators=FIXED)

        first = _ratio(from_file({"clicks": "clicks"}), from_file(FIVE))
    found = {"fixed estimators, probabilities in a file": first}
    for name, estimators, n in (
        ("fixed estimators, scores", FIXED, 10 * few),
        ("auto", "auto", few),
    ):
        log = log_of(SETTINGS[0], n, 0)
        alone = cr.RankingLog(
            action=log.action, reward=log.reward, propensity=log.propensity, targets=log.targets,
            candidates=log.candidates, context=log.context, item_features=log.item_features,
        )  # fmt: skip
        more = {key: text for key, text in FIVE.items() if key not in log.rewards}
        found[name] = _ratio(
            partial(cr.evaluate, alone, ["new"], estimators=estimators),
            partial(cr.evaluate, log, ["new"], rewards=more, estimators=estimators),
        )
    return found


FIXED = "ips,rips,iips"


def _written(path: str, rows: int) -> None:
    """Write a log of eight positions with probabilities, clicks and revenue."""
    rng = np.random.default_rng(1)
    action = rng.integers(10, size=(rows, 8))
    clicked = (rng.random((rows, 8)) < 0.1 + 0.02 * action).astype(float)
    columns = {
        "action": action,
        "clicks": clicked,
        "revenue": clicked * rng.integers(1, 100, size=(rows, 8)),
        "propensity": np.full((rows, 8), 0.1),
        "new": rng.uniform(0.05, 0.15, size=(rows, 8)),
        **{f"x_{j}": rng.standard_normal(rows) for j in range(5)},
    }
    flat = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 8)
        if values.ndim == 2
        else pa.array(values)
        for name, values in columns.items()
    }
    pq.write_table(pa.table(flat), path)


def _ratio(one: Callable[[], Any], five: Callable[[], Any], runs: int = 3) -> float:
    """Return the ratio of the shortest times, taken in turns."""
    five()
    times: list[list[float]] = [[], []]
    for _ in range(runs):
        for kept, call in zip(times, (one, five), strict=True):
            start = time.perf_counter()
            call()
            kept.append(time.perf_counter() - start)
    print({"one": round(min(times[0]), 2), "five": round(min(times[1]), 2)}, flush=True)
    return min(times[1]) / min(times[0])


def main() -> None:
    """Print the table, and the ratios of times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--estimators", default="auto,rips,ips", help="the first is judged")
    parser.add_argument("--out")
    parser.add_argument("--cost", action="store_true", help="only the ratios of times")
    asked = parser.parse_args()
    if asked.cost:
        print(json.dumps(cost(300_000, asked.rows)))
        return
    table = judge(asked.logs, asked.rows, asked.estimators)
    if asked.out:
        with open(asked.out, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
