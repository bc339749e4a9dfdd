"""Does a certificate keep its word, and how much of what is possible does it show? Rates over logs
with known truth.

    python benchmarks/learning.py --runs 100 --out out/learning
    python benchmarks/learning.py --cells noise-2k,dbn-2k --draws fresh --runs 400
    python benchmarks/learning.py --report                   print what is there
    python benchmarks/learning.py --cost 20000               CPU relative to LightGBM's own fit

Every run is a world and a log of its own (`counterrank.research.simulate.World`, Plackett-Luce logger); runs
are kept under --out, a line each: run again to resume. Both grades are read off one run, which is
what two runs would give: the grade decides the bound alone. `develop` is for choosing settings,
`fresh` for judging them once.

possible: the gain of sorting by the items' true relevance. share: certified bounds (0 where nothing
is certified) / possible. sort: the gain of the uncertified sort by the learned score / possible.
false: bound above the true gain.

Cells `sort-...` compare that sort, fitted to all rows, with plain rankers that are given the same
rows (benchmarks/rankers.py; XGBoost where it is installed). value: clicks of our pages / clicks of
the ranker's that did best in the cell.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rankers import rankers

import counterrank as cr
from counterrank.common.errors import LogError
from counterrank.learning import settings
from counterrank.learning.learner import _fit_model
from counterrank.models import ALL, rankings_of
from counterrank.research.simulate import World, clicks
from counterrank.research.simulate.worlds import KINDS, parameters
from counterrank.statistics import critical_value

SEEDS = {"develop": 1_000_003, "fresh": 7_000_003, "third": 13_000_003, "fourth": 19_000_003}
Row = dict[str, Any]
#: Options of the world, rows, and what is wrong with the log.
CELLS: dict[str, tuple[dict[str, Any], int, str]] = {
    "noise-100": ({"behavior": "dbn", "K": 5, "items": 20}, 100, "noise"),
    "noise-2k": ({"behavior": "dbn", "K": 5, "items": 20}, 2_000, "noise"),
    "noise-20k": ({"behavior": "dbn", "K": 5, "items": 20}, 20_000, "noise"),
    "dbn-100": ({"behavior": "dbn", "K": 5, "items": 20}, 100, ""),
    "dbn-2k": ({"behavior": "dbn", "K": 5, "items": 20}, 2_000, ""),
    "position-2k": ({"behavior": "position", "K": 5, "items": 20}, 2_000, ""),
    "redundancy-2k": ({"behavior": "redundancy", "K": 5, "items": 20}, 2_000, ""),
    "bent-2k": ({"behavior": "dbn", "K": 5, "items": 20, "bend": True}, 2_000, ""),
    "dbn-20k": ({"behavior": "dbn", "K": 5, "items": 20}, 20_000, ""),
    "dbn-k10-20k": ({"behavior": "dbn", "K": 10, "items": 20}, 20_000, ""),
    "wrong-2k": ({"behavior": "dbn", "K": 5, "items": 20}, 2_000, "temperature"),
}
#: Behaviours, items and rows on which the sort is compared.
SORTS: dict[str, tuple[dict[str, Any], int]] = {
    f"sort-{behavior}-{items}-{n // 1000}k": ({"behavior": behavior, "K": 5, "items": items}, n)
    for items in (20, 100)
    for n in (1_000, 10_000)
    for behavior in ("position", "dbn", "redundancy")
}
#: Requests on which the truth is drawn, pages of each, and how sharp a wrong log says the logger is.
TRUTH, AGAIN, WRONG = 4_000, 4, 0.7


def page_value(world: World, context: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the expected clicks (n,) of rankings (n, K) of a world of one kind of user."""
    made = parameters(world)
    appeal = relevance(world, context, items)
    kind = np.full(len(items), KINDS.index(world.behavior))
    users = (
        kind,
        appeal,
        made.hold[items],
        made.group[items],
        made.curve,
        made.gaps,
        made.pull,
        made.go,
    )
    return clicks.expected(*users).sum(axis=1)


def relevance(world: World, context: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the log odds of items (n, C) where they are looked at."""
    made = parameters(world)
    found = made.appeal.on_items(context, items)
    if world.bend:
        bent = made.bend.on_items(context, items)
        found += 0.8 * np.sin(2.5 * bent) + 0.8 * (np.abs(bent) - np.sqrt(2 / np.pi))
    return found


def one(cell: str, run: int, draws: str, model: str) -> Row:
    """Return what learning said of one log, and what is true."""
    options, n, wrong = CELLS[cell]
    world = World(seed=SEEDS[draws] + run, **options)
    rng = np.random.default_rng([world.seed, n])
    drawn = world.draw(n, rng)
    log = drawn.to_log()
    if wrong == "noise":
        log = replace(log, reward=(rng.random(log.reward.shape) < 0.3).astype(float))
    if wrong == "temperature":
        log = replace(log, propensity=cr.PlackettLuce(drawn.old_scores / WRONG))
    began = time.process_time()
    try:
        learned = cr.learn(log, seed=run, model=model, independent_rows=True)
    except LogError as refused:
        return {"cell": cell, "run": run, "refused": str(refused)[:80]}
    found = learned.certificate
    row: Row = {"cell": cell, "run": run, "cpu": time.process_time() - began, "m": found.m}
    low_t = (
        found.value
        - critical_value(2 * found.lift.level - 1, found.rows["certify"] - 1) * found.stderr
    )
    if found.rows["certify"] < settings.MANY:
        low_t = -np.inf  # refused at this grade
    low_t = low_t if found.agreed else min(low_t, 0.0)
    row |= {
        "value": found.value,
        "free": found.low,
        "t": low_t,
        "true": 0.0,
        "possible": 0.0,
        "sort": 0.0,
    }
    return row if wrong == "noise" else row | truth(world, learned.policy, rng)


def truth(world: World, policy: cr.LearnedPolicy, rng: np.random.Generator) -> Row:
    """Return true gains on new requests: of what is exported, of the sort by score, of the sort by
    true relevance.
    """
    other = world.draw(TRUTH, rng)
    log, K = other.to_log(), world.K
    best = np.argsort(-relevance(world, other.context, other.candidates), axis=1)[:, :K]
    top = replace(policy, kind="top").bind(log).sample(K, rng)[:, 0]

    def worth(pages: np.ndarray) -> float:
        flat = pages.reshape(-1, K)
        context = np.repeat(other.context, len(flat) // len(other.context), axis=0)
        return float(page_value(world, context, flat).mean())

    old = worth(cr.PlackettLuce(other.old_scores).sample(K, rng, size=AGAIN))
    served = worth(policy.bind(log).sample(K, rng, size=AGAIN))
    oracle = worth(np.take_along_axis(other.candidates, best, axis=1))
    return {"true": served - old, "sort": worth(top) - old, "possible": oracle - old}


def sorts(cell: str, run: int, draws: str) -> Row:
    """Return the clicks per page, on new requests, of sorting by each ranker's scores."""
    options, n = SORTS[cell]
    world = World(seed=SEEDS[draws] + run, **options)
    rng = np.random.default_rng([world.seed, n, 1])
    drawn, other = world.draw(n, rng), world.draw(TRUTH, rng)
    log, new = drawn.to_log(), other.to_log()
    row: Row = {"cell": cell, "run": run}

    def clicks_of(scores: np.ndarray) -> float:
        best = np.argsort(-scores, axis=1, kind="stable")[:, : world.K]
        page = np.take_along_axis(other.candidates, best, axis=1)
        return float(page_value(world, other.context, page).mean())

    row["logger"] = float(page_value(world, other.context, other.action).mean())
    row["oracle"] = clicks_of(relevance(world, other.context, other.candidates))
    model, _ = _fit_model(log, "linear", run)
    every = rankings_of(new).others(other.candidates[:, None, :])
    row["ours"] = clicks_of(model.relevance(every, ALL))
    for name, fit in rankers():
        row[name] = clicks_of(fit(drawn)(other))
    return row


def compared(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of the table of sorts: shares of the oracle's gain, and values."""
    shown = ["ours", "lightgbm", "lambdarank", "xgboost", "sharpened", "click-through"]
    yield f"| share of the oracle's gain | runs | {' | '.join(shown)} | value |"
    yield "|---" * (len(shown) + 3) + "|"
    for cell in SORTS:
        own = [row for row in rows if row["cell"] == cell]
        if not own:
            continue
        mean = {
            name: float(np.mean([row[name] for row in own]))
            for name in ("logger", "oracle", *shown)
            if name in own[0]
        }
        possible = mean["oracle"] - mean["logger"]
        shares = [
            f"{(mean[name] - mean['logger']) / possible:.2f}" if name in mean else ""
            for name in shown
        ]
        best = max(mean[name] for name in shown[1:] if name in mean)
        yield f"| {cell} | {len(own)} | {' | '.join(shares)} | {mean['ours'] / best:.3f} |"


def kept(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[Row]) -> Iterator[str]:
    """Yield the lines of the table: rates and means by cell."""
    yield (
        "| | runs | refused | shipped, free / t | false, free / t | share, free / t | sort | "
        "CPU s |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for cell in CELLS:
        own = [row for row in rows if row["cell"] == cell]
        ran = [row for row in own if "refused" not in row]
        if not own:
            continue
        cells = [cell, str(len(own)), f"{1 - len(ran) / len(own):.3f}"]
        for of in (_shipped, _false):
            cells.append(
                " / ".join(f"{np.mean([of(r, g) for r in own]):.3f}" for g in ("free", "t"))
            )
        # Shares of sums: in some worlds next to nothing is possible.
        possible = sum(row["possible"] for row in ran)
        parts = [sum(max(row[g], 0.0) for row in ran) for g in ("free", "t")]
        cells.append(" / ".join(f"{part / possible:.2f}" for part in parts) if possible else "")
        cells.append(f"{sum(row['sort'] for row in ran) / possible:.2f}" if possible else "")
        cells.append(f"{np.mean([row['cpu'] for row in ran]):.1f}" if ran else "")
        yield f"| {' | '.join(cells)} |"


def _shipped(row: Row, grade: str) -> bool:
    return row.get(grade, -1.0) > 0


def _false(row: Row, grade: str) -> bool:
    return row.get(grade, -np.inf) > row.get("true", 0.0)


def cost(n: int, items: int = 50, features: int = 30, K: int = 10) -> None:
    """Print the CPU of learning from n requests of candidates with features, relative to LightGBM's
    own fit.
    """
    import lightgbm

    rng = np.random.default_rng(0)
    table = rng.normal(size=(items, features))
    x = rng.normal(size=(n, features))
    scores = 0.3 * x @ table.T / np.sqrt(features)
    logger = cr.PlackettLuce(scores)
    action = logger.sample(K, rng)[:, 0]
    odds = np.take_along_axis(3.0 * scores, action, axis=1) - 1.0 - 0.1 * np.arange(K)
    reward = (rng.random(action.shape) < 1 / (1 + np.exp(-odds))).astype(float)
    named = cr.ItemFeatures(table, tuple(f"z_{j}" for j in range(features)))
    log = cr.RankingLog(
        action=action, reward=reward, propensity=logger, context=x, item_features=named
    )
    cr.learn(log.take(slice(0, 500)), independent_rows=True)
    began = time.process_time()
    cr.learn(log, independent_rows=True)
    learning = time.process_time() - began
    began = time.process_time()
    place = np.broadcast_to(np.arange(K, dtype=float), action.shape).reshape(-1, 1)
    columns = np.concatenate([np.repeat(x, K, axis=0), table[action.ravel()], place], axis=1)
    lightgbm.LGBMClassifier(n_jobs=1, verbose=-1).fit(columns, reward.ravel())
    fit = time.process_time() - began
    print(
        f"{n:,} x {items} x {features}: learn {learning:.1f} s, LightGBM {fit:.1f} s, ratio "
        f"{learning / fit:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", default=",".join(name for name in CELLS if "20k" not in name))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--draws", choices=list(SEEDS), default="develop")
    parser.add_argument("--model", choices=["linear", "boosting"], default="linear")
    parser.add_argument("--out", type=Path, default=Path("out/learning"))
    parser.add_argument("--report", action="store_true", help="print what is there")
    parser.add_argument("--cost", type=int, metavar="N", help="measure CPU on N requests instead")
    given = parser.parse_args()
    if given.cost:
        cost(given.cost)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{given.draws}-{given.model}.jsonl"
    done = {(row["cell"], row["run"]) for row in kept(path)}
    wanted = (
        []
        if given.report
        else [(cell, run) for run in range(given.runs) for cell in given.cells.split(",")]
    )
    for cell, run in wanted:
        if (cell, run) not in done:
            row = (
                sorts(cell, run, given.draws)
                if cell in SORTS
                else one(cell, run, given.draws, given.model)
            )
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print("\n".join(table(kept(path))), "\n".join(compared(kept(path))), sep="\n\n")


if __name__ == "__main__":
    main()
