"""Accuracy on rankings as people log them: catalogues, no repeats, clicks or revenue, known truth.

    python benchmarks/real_rankings.py --draws develop --logs 10 --out out/real
    python benchmarks/real_rankings.py --quick --estimators auto

Worlds (`counterrank.research.simulate.World`) are balanced over behaviours x loggers; catalogue, candidates,
K, n and the bend of relevance are dealt out from the draw's seed. `develop` and `fresh` share no
seed: look at `fresh` once, after freezing. A result file per world and log is kept under --out; run
again to resume, `--again NAME` estimates anew.

MSE / best: of the best of IPS, IIPS and RIPS in hindsight, per world. Far and deterministic targets
are judged apart: an interval that misses the truth while the verdict (of an evaluation by that
estimator alone) is not "insufficient". Width / A-B: the interval of the target's value relative to
that of the new arm of a two-arm test with the same total of n rows, 2 z sd / sqrt(n / 2), sd that
of a ranking's reward on policy; relative to an arm of n rows, 1.41 times that. The lift, and real
clicks, are judged by `benchmarks/lift`.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import counterrank as cr
from counterrank.estimators import registry
from counterrank.research.simulate import World, true_value

SEEDS = {
    "develop": 15_013,
    "fresh": 902_111,
    "second": 3_310_717,
    "third": 7_140_229,
    "fourth": 11_402_633,
}
CLASSIC = ("ips", "iips", "rips")
BEHAVIORS = ("position", "cascade", "dbn", "ubm", "redundancy", "attention", "mixed")
LOGGERS = ("plackett-luce", "epsilon", "swap", "mixture")
#: Catalogue and candidates of a request.
SIZES = ((8, 8), (20, 20), (60, 20), (100, 100), (200, 50), (1000, 200))
#: The width of 95 % of a normal, in standard deviations.
TWO_Z = 3.919927969
Row = dict[str, Any]


def population(draws: str) -> list[Row]:
    """Return the worlds of a draw: 28 near targets, 4 blind ones, 4 of revenue, 8 far or
    deterministic.
    """
    rng = np.random.default_rng(SEEDS[draws])
    plan = [
        (behavior, behavior, logger, "near", False) for behavior in BEHAVIORS for logger in LOGGERS
    ]
    for family, target, revenue in (("blind", "blind", False), ("revenue", "near", True),
                                    ("far", "far", False), ("top", "top", False)):  # fmt: skip
        chosen = rng.permutation(BEHAVIORS)[: len(LOGGERS)]
        plan += [
            (family, str(b), logger, target, revenue)
            for b, logger in zip(chosen, LOGGERS, strict=True)
        ]
    deal = [
        rng.permutation(np.resize(np.arange(count), len(plan)))
        for count in (len(SIZES), 2, 2, 2, 2)
    ]
    out = []
    for e, (family, behavior, logger, target, revenue) in enumerate(plan):
        size, k, thousands, bend, hidden = (int(column[e]) for column in deal)
        items, candidates = SIZES[size]
        K = min((5, 10)[k], items)
        options = dict(
            seed=int(rng.integers(10**9)),
            behavior=behavior,
            logger=logger,
            target=target,
            K=K,
            items=items,
            # fmt: skip
            candidates=candidates,
            bend=bool(bend),
            revenue=revenue,
            hidden=bool(hidden),
        )
        out.append({"id": e, "family": family, "n": (2000, 20000)[thousands], "world": options})
    return out


def quick(cells: list[Row]) -> list[Row]:
    """Return one world of each family at n = 2,000, with at most 100 items; loggers in turn."""
    small = [{**cell, "n": 2000} for cell in cells if cell["world"]["items"] <= 100]
    chosen = []
    for place, family in enumerate(dict.fromkeys(cell["family"] for cell in small)):
        turn = LOGGERS[place % len(LOGGERS)]
        those = [cell for cell in small if cell["family"] == family]
        chosen.append(min(those, key=lambda cell, turn=turn: cell["world"]["logger"] != turn))
    return chosen


def truth(cell: Row, out: Path) -> Row:
    """Return the true value, its Monte Carlo error and the sd of a ranking's reward on policy;
    found once.

    Its error is far below that of estimates: .2 % at n = 2,000, .1 % at n = 20,000.
    """
    path = out / f"{cell['id']:03d}-n{cell['n']}-truth.json"
    if path.exists():
        found: Row = json.loads(path.read_text())
        return found
    world = World(**cell["world"])
    value = true_value(world, relative_error=2e-3 if cell["n"] <= 2000 else 1e-3)
    drawn = world.draw(2**15, np.random.default_rng([cell["world"]["seed"], 5]), policy="target")
    found = {
        "value": value.value,
        "stderr": value.stderr,
        "sd": float(drawn.reward.sum(axis=1).std()),
    }
    write(path, found)
    return found


def write(path: Path, row: Row) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(row))
    part.replace(path)


def estimate(name: str, log: cr.RankingLog, *, judged: bool) -> Row:
    """Return what an estimator says, its CPU seconds, and where asked the verdict of an evaluation
    by it alone.
    """
    began = time.process_time()
    try:
        found = registry.get(name).estimate(log, "new")
    except cr.CounterrankError as error:
        return {"refused": str(error), "cpu": time.process_time() - began}
    except Exception as error:  # a study of hours goes on; the report counts these
        return {"failed": repr(error), "cpu": time.process_time() - began}
    low, high = found.interval(0.95)
    row = {"value": found.value, "low": low, "high": high, "stderr": found.stderr, "flags": list(found.flags),
           "cpu": time.process_time() - began}  # fmt: skip
    if judged:
        try:
            row["verdict"] = str(cr.evaluate(log, ["new"], estimators=[name]).verdict["level"])
        except cr.CounterrankError as error:
            row["verdict"], row["refused"] = "insufficient", str(error)
        except Exception as error:
            row["failed"] = repr(error)
    return row


def run(cell: Row, index: int, names: Iterable[str], again: Iterable[str], out: Path) -> Row:
    """Return the estimates of one log of a world, estimating what its file does not hold yet."""
    path = out / f"{cell['id']:03d}-n{cell['n']}-log{index}.json"
    rows: Row = json.loads(path.read_text()) if path.exists() else {}
    wanted = [
        name for name in dict.fromkeys([*CLASSIC, *names]) if name not in rows or name in again
    ]
    if wanted:
        log = World(**cell["world"]).log(cell["n"], index)
        far = cell["family"] in ("far", "top")
        for name in wanted:
            rows[name] = estimate(name, log, judged=far and name not in CLASSIC)
        write(path, rows)
        spent = sum(rows[name]["cpu"] for name in wanted)
        print(f"world {cell['id']} {cell['family']} log {index}: {spent:.1f} s", flush=True)
    return rows


def geometric(values: Any) -> float:
    return (
        float(np.exp(np.mean(np.log(np.maximum(values, 1e-300))))) if len(values) else float("nan")
    )


def spoken(rows: list[Row], name: str) -> list[Row]:
    """Return the logs on which the estimator gave a value."""
    return [row[name] for row in rows if np.isfinite(row.get(name, {}).get("value", np.nan))]


def measures(cell: Row, name: str, rivals: Iterable[str] = CLASSIC) -> Row | None:
    """Return ratio, coverage, width and CPU of an estimator in one world; None where it gave no
    value.
    """
    rows, V = spoken(cell["logs"], name), cell["truth"]["value"]
    if not rows:
        return None
    error = np.mean([(row["value"] - V) ** 2 for row in rows])
    others = [answers for rival in rivals if (answers := spoken(cell["logs"], rival))]
    best = min(
        (np.mean([(row["value"] - V) ** 2 for row in answers]) for answers in others),
        default=np.nan,
    )
    arm = TWO_Z * cell["truth"]["sd"] / np.sqrt(cell["n"] / 2)
    intervals = [row for row in rows if np.isfinite(row["low"]) and np.isfinite(row["high"])]
    return {
        "ratio": float(error / max(best, 1e-300)),
        "hits": sum(row["low"] <= V <= row["high"] for row in intervals),
        "intervals": len(intervals),
        "silent": len(cell["logs"]) - len(intervals),
        "width": float(np.median([row["high"] - row["low"] for row in intervals]) / arm)
        if intervals
        else np.nan,
        "rmse": float(np.sqrt(error) / abs(V)),
        "cpu": float(np.mean([row["cpu"] for row in rows])),
    }


def line(label: str, found: list[Row]) -> str:
    """Return one table row over worlds."""
    ratios = [m["ratio"] for m in found]
    hits, intervals = sum(m["hits"] for m in found), max(sum(m["intervals"] for m in found), 1)
    widths = [m["width"] for m in found if np.isfinite(m["width"])]
    width = float(np.median(widths)) if widths else float("nan")
    return (f"| {label} | {len(found)} | {geometric(ratios):.3f} | {max(ratios):.3g} | "
            f"{hits / intervals:.3f} | {sum(m['silent'] for m in found)} | {width:.2f} | "
            f"{100 * np.median([m['rmse'] for m in found]):.1f} | "
            f"{np.mean([m['cpu'] for m in found]):.2f} |")  # fmt: skip


HEAD = ("| | worlds | MSE / best, geometric mean | worst | coverage | no interval | width / A-B | "
        "RMSE % | CPU s |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip


def report(cells: list[Row], names: Iterable[str], rivals: Iterable[str] = CLASSIC) -> None:
    """Print all estimators, then those asked for by family, behaviour of the logger, size, K and n."""
    near = [c for c in cells if c["family"] not in ("far", "top")]
    print(HEAD)
    for name in dict.fromkeys([*rivals, *names]):
        found = [m for m in (measures(c, name, rivals) for c in near) if m]
        if found:
            print(line(name, found))
    for name in names:
        failed = [
            row[name]["failed"] for c in cells for row in c["logs"] if "failed" in row.get(name, {})
        ]
        if failed:
            print(
                f"{name}: {len(failed)} logs ended in an unexpected error, the first: {failed[0]}"
            )
    axes: list[tuple[str, Callable[[Row], Any]]] = [
        ("family", lambda c: c["family"]),
        ("n", lambda c: c["n"]),
    ]
    if near and "logger" in near[0]["world"]:
        axes += [
            ("logger", lambda c: c["world"]["logger"]),
            ("K", lambda c: c["world"]["K"]),
            # fmt: skip
            ("items", lambda c: c["world"]["items"]),
            ("bend", lambda c: c["world"]["bend"]),
        ]
    for name in names:
        print(f"\n{name} by family\n{HEAD}")
        covered: dict[str, float] = {}
        for axis, key in axes:
            for value in sorted({key(c) for c in near}, key=str):
                found = [
                    m for m in (measures(c, name, rivals) for c in near if key(c) == value) if m
                ]
                if found:
                    print(line(f"{axis} {value}", found))
                    covered[f"{axis} {value}"] = sum(m["hits"] for m in found) / max(
                        sum(m["intervals"] for m in found), 1
                    )
        least = sorted(covered, key=covered.__getitem__)[:3]
        print(
            f"{name}, least coverage: {', '.join(f'{covered[one]:.2f} ({one})' for one in least)}"
        )
        report_far(name, cells)


def report_far(name: str, cells: list[Row]) -> None:
    """Print how many intervals miss far and deterministic targets, and how many of those were
    believed.
    """
    far = [
        (c, row) for c in cells if c["family"] in ("far", "top") for row in c["logs"] if name in row
    ]
    if far:
        # Without an interval nothing is missed: both comparisons with NaN are false.
        V = [c["truth"]["value"] for c, _ in far]
        ends = [(row[name].get("low", np.nan), row[name].get("high", np.nan)) for _, row in far]
        missed = [low > value or high < value for (low, high), value in zip(ends, V, strict=True)]
        believed = [row[name].get("verdict", "insufficient") != "insufficient" for _, row in far]
        wrong = sum(m and b for m, b in zip(missed, believed, strict=True))
        print(
            f"{name}, far and deterministic targets: {sum(missed)} of {len(far)} intervals miss, "
            # fmt: skip
            f"{sum(believed)} believed, {wrong} missed and believed ({wrong / len(far):.3f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", choices=sorted(SEEDS), default="develop")
    parser.add_argument("--logs", type=int, help="logs a world (default 10; 3 with --quick)")
    parser.add_argument("--estimators", default="auto", help="names with commas")
    parser.add_argument("--again", default="", help="names to estimate anew")
    parser.add_argument("--worlds", default="", help="only these ids or families, with commas")
    parser.add_argument("--out", type=Path, default=Path("out/real"))
    parser.add_argument(
        "--part", default="0/1", help="i/m: every m-th world from the i-th, for m processes"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a world of each family, n = 2,000, 3 logs"
    )
    parser.add_argument("--report", action="store_true", help="only print what is there")
    options = parser.parse_args()
    names = [name for name in options.estimators.split(",") if name]
    again = [name for name in options.again.split(",") if name]
    logs = options.logs or (3 if options.quick else 10)
    out = options.out / options.draws
    out.mkdir(parents=True, exist_ok=True)
    part, parts = (int(v) for v in options.part.split("/"))
    cells = population(options.draws)
    cells = (quick(cells) if options.quick else cells)[part::parts]
    if options.worlds:
        asked = options.worlds.split(",")
        cells = [c for c in cells if str(c["id"]) in asked or c["family"] in asked]
    for cell in cells:
        cell["logs"] = []
    # Log by log, so that an interrupted study has as many worlds as possible.
    for index in range(logs):
        for cell in cells:
            path = out / f"{cell['id']:03d}-n{cell['n']}-log{index}.json"
            if options.report and not path.exists():
                continue
            cell["truth"] = truth(cell, out)
            cell["logs"].append(run(cell, index, () if options.report else names, again, out))
    report([cell for cell in cells if cell["logs"]], names)


if __name__ == "__main__":
    main()
