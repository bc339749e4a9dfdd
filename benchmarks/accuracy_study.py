"""Accuracy over a population of environments: MSE against the best classic estimator, coverage and
width.

    python benchmarks/accuracy_study.py --draws test --environments 30 --replicates 20 --out
    out/accuracy

Environments are balanced over five families (published, paper, binary, triple, multiplicative), K
in {4, 8, 12}, A in {3, 10, 20}, n in {2k, 8k, 32k} and policies with or without context; their
other parameters are drawn afresh. Sets of draws share no seed. Results are kept per environment;
run again to resume or to add replicates. `--published` runs the published environment at its 18
points instead. Rankings of real shape have a study of their own: `real_rankings.py`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from counterrank.data.source import MemorySource
from counterrank.estimators import registry
from counterrank.estimators.base import Estimator, Workspace, sums_of_fits
from counterrank.estimators.behavior import BehaviorTree, Candidate, Oracle
from counterrank.estimators.masked import AIPS
from counterrank.research import simulate

SEEDS = {
    "dev": 7_101,
    "test": 90_317,
    "final": 418_003,
    "confirm": 733_549,
    "judge": 2_207_311,
    "sixth": 5_118_023,
    "seventh": 8_260_417,
    "eighth": 12_730_061,
}
FAMILIES = ("published", "paper", "binary", "triple", "multiplicative")
#: By file of an environment: found once, though environments are taken round by round.
TRUTHS: dict[str, simulate.Truth | None] = {}
CLASSIC = ("ips", "iips", "rips")
NAMES = (*CLASSIC, "order-2", "dm", "dr-iips", "dr-order-2", "dr-order-3", "dr-ips", "auto")
#: Squared error of the published AIPS relative to V^2, by (n, K, delta).
PUBLISHED = {
    (1000, 8, 0.6): 0.0476, (2000, 8, 0.6): 0.0435, (4000, 8, 0.6): 0.026, (8000, 8, 0.6): 0.012,
    (16000, 8, 0.6): 0.00635, (32000, 8, 0.6): 0.00913, (8000, 4, 0.6): 0.00832, (8000, 6, 0.6): 0.00642,
    (8000, 10, 0.6): 0.0227, (8000, 12, 0.6): 0.0384, (8000, 14, 0.6): 0.04, (8000, 8, 0.0): 0.0101,
    (8000, 8, 0.2): 0.0166, (8000, 8, 0.4): 0.0148, (8000, 8, 0.8): 0.0109, (8000, 8, 1.0): 0.027,
}  # fmt: skip


def population(draws: str, count: int) -> list[dict[str, Any]]:
    """Return the environments: within each family, every K, A and n equally often, in shuffled
    combinations.
    """
    rng = np.random.default_rng(SEEDS[draws])
    per_family = -(-count // len(FAMILIES))
    cells = {}
    for family in FAMILIES:
        columns = [
            np.resize(rng.permutation(values), per_family)
            for values in ((4, 8, 12), (3, 10, 20), (2, 8, 32))
        ]
        columns = [rng.permutation(column) for column in columns]
        context = rng.permutation(np.resize([0, 1], per_family))
        cells[family] = list(zip(*columns, context, strict=True))
    out = []
    for e in range(count):
        family = FAMILIES[e % len(FAMILIES)]
        K, A, thousands, context = (int(v) for v in cells[family][e // len(FAMILIES)])
        form = (
            family if family in ("published", "paper") else str(rng.choice(["published", "paper"]))
        )
        options = {
            "form": form,
            "reward": "pairwise" if family in ("published", "paper") else family,
            "K": K,
            "actions": A,
            "delta": float(rng.uniform(0, 1)),
            "epsilon": float(rng.uniform(0.2, 0.6)),
            "context_policies": bool(context),
        }
        seed = int(rng.integers(10**9))
        out.append(
            {"id": e, "family": family, "n": 1000 * thousands, "seed": seed, "options": options}
        )
    return out


def published_points() -> list[dict[str, Any]]:
    """Return the published environment's 18 points; three coincide at n=8000, K=8, delta=.6."""
    return [
        {"id": e, "family": "published", "n": n, "seed": None, "options": {"K": K, "delta": delta}}
        for e, (n, K, delta) in enumerate(PUBLISHED)
    ]


def environment(cell: dict[str, Any]) -> simulate.Environment:
    if cell["seed"] is None:
        return simulate.published(**cell["options"])
    return simulate.random(cell["seed"], **cell["options"])


def oracle_tree(env: simulate.Environment, truth: simulate.Truth, log: Any) -> Estimator:
    """Return the paper's AIPS: a tree on the true masks, grown on the same rows against the true
    values (noise .3).
    """
    models = [
        Candidate(name, mask) for name, mask in zip(env.behavior_names, env.masks, strict=True)
    ]
    tree = BehaviorTree(candidates=models, mse=Oracle(values=truth.by_position, noise=0.3))
    return AIPS(behavior=tree.fit(log, "new"), name="aips-oracle")


def replicate(
    cell: dict[str, Any],
    env: simulate.Environment,
    truth: simulate.Truth,
    seeds: list[int],
    *,
    plain: bool = False,
) -> dict[str, Any]:
    """Return value and interval of every estimator on one simulated log, in one shared pass."""
    log = env.draw(cell["n"], np.random.default_rng(seeds)).to_log()
    workspace = Workspace(MemorySource(log, threads=1), "new")
    estimators = [registry.get(name) for name in ((*CLASSIC, "auto") if plain else NAMES)]
    if not plain:
        estimators += [AIPS(behavior="log", name="aips-true"), oracle_tree(env, truth, log)]
    fits = {e.name: e.fit(workspace) for e in estimators}
    sums = workspace.source.reduce(lambda batch: sums_of_fits(batch, [*fits.values()]))
    out = {}
    for name, fit in fits.items():
        estimate = fit.estimate(sums)
        out[name] = [estimate.value, *estimate.interval(0.95)]
    return out


def run(
    cell: dict[str, Any], draws: str, replicates: int, out: Path, *, plain: bool = False
) -> dict[str, Any]:
    """Return the cell with all its replicates, computing those that are not in its file yet."""
    path = out / f"{draws}-{cell['id']:03d}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    env = environment(cell)
    if len(lines) <= replicates:
        truth = TRUTHS.setdefault(path.name, None) or simulate.true_value(env)
        TRUTHS[path.name] = truth
    if not lines:
        drawn = env.draw(2**15, np.random.default_rng([cell["id"], 5]), policy="target")
        sd = float(drawn.reward.sum(axis=1).std())
        lines = [json.dumps({**cell, "truth": truth.value, "truth_stderr": truth.stderr, "sd": sd})]
        path.write_text(lines[0] + "\n")
    head = json.loads(lines[0])
    rows = [json.loads(line) for line in lines[1:]][:replicates]
    for r in range(len(rows), replicates):
        began = time.process_time()
        rows.append(
            replicate(
                cell,
                env,
                truth,
                [SEEDS[draws.removeprefix("published-")], len(draws), cell["id"], r],
                plain=plain,
            )
        )
        with path.open("a") as sink:
            sink.write(json.dumps(rows[-1]) + "\n")
        print(
            f"{draws} {cell['id']} {cell['family']} replicate {r} "
            f"{time.process_time() - began:.1f} s",
            flush=True,
        )
    return {**head, "replicates": rows}


def errors(cell: dict[str, Any], name: str) -> float:
    return float(np.mean([(row[name][0] - cell["truth"]) ** 2 for row in cell["replicates"]]))


def covered(cell: dict[str, Any], name: str) -> float:
    return float(
        np.mean([row[name][1] <= cell["truth"] <= row[name][2] for row in cell["replicates"]])
    )


def width(cell: dict[str, Any], name: str) -> float:
    return float(np.median([row[name][2] - row[name][1] for row in cell["replicates"]]))


def arm(cell: dict[str, Any]) -> float:
    """Return the width of the new arm's interval in a two-arm test with the same total of rows."""
    return float(2 * 1.959964 * cell.get("sd", np.nan) / np.sqrt(cell["n"] / 2))


def geometric(values: Any) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-300)))))


def table(cells: list[dict[str, Any]]) -> None:
    """Print one row per estimator, then auto by family, K, A and n, and its losers."""
    names = list(cells[0]["replicates"][0])
    best = np.array([min(errors(c, name) for name in CLASSIC) for c in cells])
    oracle = np.array(
        [errors(c, "aips-oracle") if "aips-oracle" in names else np.nan for c in cells]
    )
    print("| estimator | geo-mean MSE vs best of IPS/IIPS/RIPS | worst | > 1.1x | vs oracle AIPS | "
          "coverage | lowest family | width vs auto | width / A-B, median |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        mse = np.array([errors(c, name) for c in cells])
        cover = {
            f: np.mean([covered(c, name) for c in cells if c["family"] == f]) for f in FAMILIES
        }
        cover = {f: v for f, v in cover.items() if not np.isnan(v)}
        low = min(cover, key=lambda f: cover[f])
        wide = geometric([width(c, name) / max(width(c, "auto"), 1e-300) for c in cells])
        lost = f"{(mse / best > 1.1).sum()}/{len(cells)}"
        print(
            f"| {name} | {geometric(mse / best):.3f} | {(mse / best).max():.3g} | {lost} "
            f"| {geometric(mse / oracle):.3f} | {np.mean([covered(c, name) for c in cells]):.3f} "
            f"| {cover[low]:.2f} {low} | {wide:.2f} | "
            f"{np.median([width(c, name) / arm(c) for c in cells]):.2f} |"
        )
    mse = np.array([errors(c, "auto") for c in cells])
    for label, key in (
        ("family", lambda c: c["family"]),
        ("K", lambda c: c["options"]["K"]),
        # fmt: skip
        ("A", lambda c: c["options"].get("actions", 3)),
        ("n", lambda c: c["n"]),
    ):
        for value in sorted({key(c) for c in cells}, key=str):
            pick = [i for i, c in enumerate(cells) if key(c) == value]
            cover_ = np.mean([covered(cells[i], "auto") for i in pick])
            print(
                f"auto, {label} {value}: geo {geometric(mse[pick] / best[pick]):.3f}, coverage "
                f"{cover_:.3f}"
            )
    for i in np.flatnonzero(mse / best > 1.1):
        c = cells[i]
        print(
            f"loser {c['id']}: {c['family']} K={c['options']['K']} "
            f"A={c['options'].get('actions', 3)} n={c['n']} "
            # fmt: skip
            f"context={c['options'].get('context_policies')} ratio {mse[i] / best[i]:.2f}"
        )


def published_table(cells: list[dict[str, Any]]) -> None:
    print(
        "| n | K | delta | auto MSE/V^2 | published AIPS | ratio | coverage "
        "|\n|---|---|---|---|---|---|---|"
    )
    for c in cells:
        key = (c["n"], c["options"]["K"], c["options"]["delta"])
        relative = errors(c, "auto") / c["truth"] ** 2
        print(f"| {key[0]} | {key[1]} | {key[2]} | {relative:.2g} | {PUBLISHED[key]:.3g} | "
              f"{relative / PUBLISHED[key]:.3f} | {covered(c, 'auto'):.2f} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", choices=sorted(SEEDS), default="dev")
    parser.add_argument("--environments", type=int, default=30)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("out/accuracy"))
    parser.add_argument("--published", action="store_true")
    parser.add_argument(
        "--part", default="0/1", help="i/m: every m-th environment from the i-th, for m processes"
    )
    parser.add_argument("--report", action="store_true", help="only print what is there")
    parser.add_argument("--plain", action="store_true", help="IPS, IIPS, RIPS and auto alone")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = (
        published_points() if options.published else population(options.draws, options.environments)
    )
    part, parts = (int(v) for v in options.part.split("/"))
    cells = cells[part::parts]
    draws = f"published-{options.draws}" if options.published else options.draws
    if options.report:
        there = [c for c in cells if (options.out / f"{draws}-{c['id']:03d}.jsonl").exists()]
        done = [run(c, draws, 0, options.out) for c in there]
        for cell in done:
            lines = (options.out / f"{draws}-{cell['id']:03d}.jsonl").read_text().splitlines()[1:]
            cell["replicates"] = [json.loads(line) for line in lines]
        done = [cell for cell in done if cell["replicates"]]
    else:
        # Round by round, so that an interrupted study has as many environments as possible.
        for count in range(1, options.replicates + 1):
            done = [run(c, draws, count, options.out, plain=options.plain) for c in cells]
    (published_table if options.published else table)(done)


if __name__ == "__main__":
    main()
