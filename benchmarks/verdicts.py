"""Is "reliable" to be believed, and is it ever said? Logs of mixed worlds with known truth, judged
as users see them.

Run: python -m benchmarks.verdicts [--logs 400] [--strong] [--out FILE] [--part 0/2] [--report]

Half of the logs come from factored worlds, half from rankings without replacement
(`simulate.World`); in one of five the propensities are spoiled; `--strong` takes factored worlds of
strong interactions instead. Results are appended to FILE log by log, so that a run can be stopped
and taken up again.
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import counterrank as cr
from counterrank.research.simulate import World, paper, published, random, true_value

OUT = "out/verdicts.csv"
FIELDS = (
    "log",
    "world",
    "n",
    "spoiled",
    "level",
    "missed",
    "wrong_way",
    "precise",
    "value",
    "low",
    "high",
    "truth",
    "why",
)
BEHAVIORS = ("position", "cascade", "dbn", "ubm", "redundancy", "attention", "mixed")
LOGGERS = ("plackett-luce", "epsilon", "swap", "mixture")
#: A lift is known well enough to act on: its half-width, as a share of what the logger earns, or of
#: the lift itself.
PRECISE, OF_LIFT = 0.05, 0.5


def case(index: int) -> tuple[str, cr.RankingLog, float, float]:
    """Return the name, log and true values of target and logger of one case; the same for the same
    number.
    """
    turn = index // 2
    if index % 2:
        behavior, logger = BEHAVIORS[turn % len(BEHAVIORS)], LOGGERS[turn % len(LOGGERS)]
        target = "far" if turn % 5 == 4 else "near"
        # Twelve parameter draws for each shape: truth is the dear part, and is kept for the
        # process.
        world = World(
            seed=turn % 12,
            behavior=behavior,
            logger=logger,
            target=target,
            K=3,
            items=8,
            candidates=8,
        )
        log = world.log((1_000, 3_000)[turn % 2], seed=index)
        return (
            f"{behavior}/{logger}/{target}",
            log,
            true_value(world).value,
            true_value(world, "logging").value,
        )
    make = (
        published,
        lambda: paper(K=3),
        lambda: random(seed=turn % 6, K=4),
        lambda: random(seed=turn % 6, form="paper", K=4),
    )
    name = ("published", "paper", "random", "random-paper")[turn % 4]
    env = make[turn % 4]()
    log = env.draw((1_000, 8_000)[turn // 4 % 2], np.random.default_rng(index)).to_log()
    return name, log, true_value(env).value, true_value(env, "logging").value


def strong(index: int) -> tuple[str, cr.RankingLog, float, float]:
    """Return the same for a factored world in which items affect each other as much as they can: a
    world a case.
    """
    turn = index // 2
    reward, form = (
        ("triple", "multiplicative", "pairwise", "binary")[turn % 4],
        ("published", "paper")[turn // 4 % 2],
    )
    K, actions = (4, 6)[turn // 8 % 2], (3, 5)[turn // 3 % 2]
    env = random(seed=1000 + turn, form=form, reward=reward, K=K, delta=1.0, actions=actions)
    log = env.draw((1_000, 3_000)[turn // 2 % 2], np.random.default_rng(index)).to_log()
    return f"{reward}-{form}", log, true_value(env).value, true_value(env, "logging").value


def spoiled(log: cr.RankingLog, index: int) -> tuple[cr.RankingLog, str]:
    """Return the log with propensities made wrong in one of three ways, where they are numbers;
    else as it is.
    """
    if index % 5 != 4 or not isinstance(log.propensity, cr.Propensity):
        return log, ""
    values, rng = log.propensity.values, np.random.default_rng(index)
    how = ("15 % too small", "of another row", "averaged over two policies")[index // 10 % 3]
    if how == "15 % too small":
        values = 0.85 * values
    elif how == "of another row":
        values = rng.permutation(values)
    else:  # the second half was logged with twice the odds at the first position
        values = values.copy()
        values[log.n // 2 :, 0] = np.minimum(1.0, 1.3 * values[log.n // 2 :, 0])
    fields = {
        "action": log.action,
        "reward": log.reward,
        "context": log.context,
        "targets": log.targets,
    }
    return cr.RankingLog(propensity=cr.Propensity(log.propensity.kind, values), **fields), how


def judged(index: int, *, interacting: bool = False) -> dict[str, Any]:
    """Return what an evaluation says of a case, and whether it is so."""
    world, log, truth, logged = strong(index) if interacting else case(index)
    log, how = (log, "") if interacting else spoiled(log, index)
    result = cr.evaluate(
        log, ["new"], estimators=["auto"], audit=False, independent_rows=True, target_is_fresh=True
    )
    found = result.estimate("new")
    lift, half = found.lift, (found.lift.high - found.lift.low) / 2
    claimed = 1 if lift.low > 0 else -1 if lift.high < 0 else 0
    return {
        "log": index, "world": world, "n": log.n, "spoiled": how, "level": result.verdict["level"],
        "missed": int(not found.low <= truth <= found.high), "wrong_way": int(claimed * (truth - logged) < 0),
        "precise": int(half <= max(PRECISE * abs(logged), OF_LIFT * abs(lift.value))), "value": found.value,
        "low": found.low, "high": found.high, "truth": truth,
        "why": json.dumps([row["check"] for row in result.verdict["reasons"] if row["status"] != "pass"]),
    }  # fmt: skip


def summary(rows: list[dict[str, str]]) -> list[str]:
    """Return the table: how many logs of each kind, how often each level, and what became of the
    reliable ones.
    """
    lines = [
        "| logs | number | reliable | of these missed | wrong direction |",
        "|---|---|---|---|---|",
    ]
    kinds = {
        "all": rows,
        "factored, true propensities": [
            r for r in rows if "/" not in r["world"] and not r["spoiled"]
        ],
        "without replacement, true propensities": [r for r in rows if "/" in r["world"]],
        "spoiled propensities": [r for r in rows if r["spoiled"]],
        "deserving: true propensities, precise, truth inside": [
            r for r in rows if not r["spoiled"] and r["precise"] == "1" and r["missed"] == "0"
        ],
    }
    for name, some in kinds.items():
        good = [r for r in some if r["level"] == "reliable"]
        share = f"{len(good)} ({len(good) / len(some):.0%})" if some else "–"
        missed, wrong = (sum(int(r[key]) for r in good) for key in ("missed", "wrong_way"))
        rates = [f"{count} ({count / len(good):.1%})" if good else "–" for count in (missed, wrong)]
        lines.append(f"| {name} | {len(some)} | {share} | {rates[0]} | {rates[1]} |")
    return lines


def main() -> None:
    """Judge the logs that are not yet in the file, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument(
        "--strong", action="store_true", help="worlds of strong interactions; even numbers only"
    )
    parser.add_argument("--out", default=OUT)
    parser.add_argument("--part", default="0/1", help="which of how many processes this is")
    parser.add_argument("--report", action="store_true", help="only print what is there")
    given = parser.parse_args()
    path, (part, parts) = Path(given.out), (int(text) for text in given.part.split("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {int(row["log"]) for row in _read(path)}
    step = 2 if given.strong else 1
    for index in range(step * part, 0 if given.report else given.logs, step * parts):
        if index in done:
            continue
        start = time.perf_counter()
        row = judged(index, interacting=given.strong)
        new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            if new:
                writer.writeheader()
            writer.writerow(row)
        print(
            f"{index}: {row['world']}, {row['level']}, {time.perf_counter() - start:.1f} s",
            flush=True,
        )
    print("\n".join(summary(_read(path))))


def _read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
