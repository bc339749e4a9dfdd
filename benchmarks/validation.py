"""Is `counterrank validate` to be believed? Simulated A/B histories of two arms whose true values
are known.

Run: python -m benchmarks.validation [--histories 200] [--rows 1000] [--estimator iips] [--out FILE]

Three worlds: predictions that are right; a constant bias (logged propensities a tenth too small, so
that every prediction is a ninth too high); and users for whom the second item counts half after a
click on the first, which IIPS does not know. Stated coverage is what `validate` reports, averaged
over histories; true coverage is how often the predicted interval holds the arm's true value. Bias
counts as found where the interval of the mean error leaves out 0.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import counterrank as cr

WORLDS = ("right", "constant bias", "interaction")
#: Probabilities of three items, by whether a context number is positive.
ARMS = {
    "control": np.array([[0.5, 0.3, 0.2], [0.4, 0.3, 0.3]]),
    "variant": np.array([[0.3, 0.3, 0.4], [0.25, 0.35, 0.4]]),
}
#: Chance of a click, by the same and the item.
CLICKS = np.array([[0.2, 0.35, 0.45], [0.3, 0.3, 0.4]])
AFTER_A_CLICK = 0.5
TOO_SMALL = 0.9


def true_values(world: str) -> dict[str, float]:
    """Return what each arm earns per ranking of two items."""
    one = {arm: (table * CLICKS).sum(axis=1) for arm, table in ARMS.items()}
    lost = 1 - AFTER_A_CLICK if world == "interaction" else 0.0
    return {arm: float((p + p * (1 - lost * p)).mean()) for arm, p in one.items()}


def history(world: str, rows: int, seed: int) -> cr.RankingLog:
    """Return the log of a test with about `rows` rankings an arm."""
    rng = np.random.default_rng([WORLDS.index(world), seed])
    names, n = list(ARMS), rows * len(ARMS)
    arm, x = rng.integers(len(names), size=n), rng.normal(size=n)
    group = (x > 0).astype(np.int64)
    table = np.stack([ARMS[name] for name in names])[:, group]  # (arms, n, items)
    own = table[arm, np.arange(n)]
    action = (rng.random((n, 2, 1)) > own.cumsum(axis=1)[:, None, :]).sum(axis=2)
    reward = (rng.random((n, 2)) < CLICKS[group[:, None], action]).astype(float)
    if world == "interaction":
        reward[:, 1] *= (reward[:, 0] == 0) | (rng.random(n) < AFTER_A_CLICK)
    shown = {name: np.take_along_axis(table[i], action, axis=1) for i, name in enumerate(names)}
    logged = np.take_along_axis(own, action, axis=1) * (
        TOO_SMALL if world == "constant bias" else 1.0
    )
    return cr.RankingLog(
        action=action, reward=reward, propensity=logged, context=x[:, None], columns={"arm": np.array(names)[arm]},
        targets={name: cr.Propensity("factored", values) for name, values in shown.items()},
    )  # fmt: skip


def one(world: str, rows: int, seed: int, estimator: str) -> dict[str, Any]:
    """Return what `validate` says of a history, and what is so."""
    truth, result = (
        true_values(world),
        cr.validate(history(world, rows, seed), "arm", estimators=estimator),
    )
    said = result.agreement
    inside = [pair.low <= truth[pair.to] <= pair.high for pair in result.pairs]
    found = said["bias_low"] > 0 or said["bias_high"] < 0
    signs = [pair.sign_right for pair in result.pairs]
    return {"world": world, "seed": seed, "stated": said["coverage"], "true": float(np.mean(inside)),
            "found": bool(found), "signs": float(np.mean(signs)), "bias": said["bias"]}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line for each world."""
    lines = [
        "| world | histories | stated coverage | true coverage | a bias was found | signs right |",
        "|---|---|---|---|---|---|",
    ]
    for world in WORLDS:
        some = [row for row in rows if row["world"] == world]
        if some:
            means = [
                f"{np.mean([row[key] for row in some]):.1%}"
                for key in ("stated", "true", "found", "signs")
            ]
            lines.append(f"| {world} | {len(some)} | {' | '.join(means)} |")
    return lines


def main() -> None:
    """Run what is not yet in the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1000, help="rankings an arm")
    parser.add_argument("--estimator", default="iips")
    parser.add_argument("--out", default="out/validation.jsonl")
    given = parser.parse_args()
    path = Path(given.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(row["world"], row["seed"]) for row in rows}
    for seed in range(given.histories):
        for world in WORLDS:
            if (world, seed) in done:
                continue
            rows.append(one(world, given.rows, seed, given.estimator))
            with path.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
