"""What evaluations cost, as multiples of what they replace, measured in turns in one run.

    python -m benchmarks.ratios                  the whole table
    python -m benchmarks.ratios --only fixed     some of its rows, separated by commas; each within minutes

Of both the least of several rounds counts: processor time of all threads, and what a clock shows. The
table is kept in docs/evidence/speed.md with its commit.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Threads of BLAS are measured by a row of their own.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import counterrank as cr
from benchmarks import child, process_cpu, show
from benchmarks.ordinary_job import OrdinaryJob

FIXED = ["ips", "iips", "rips", "snips"]
METRICS = ["clicks", "orders", "revenue", "time", "likes"]
LENGTH = 8
Run = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """A line of the table: processor seconds, multiples of processor time and clock, and the goal."""

    name: str
    seconds: float
    processor: float
    clock: float
    goal: str
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the table."""
        ratios = (f"{ratio:.2f}" for ratio in (self.processor, self.clock))
        return self.name, f"{self.seconds:.2f}", *ratios, self.goal, self.note


def measured(*runs: Run, rounds: int = 5) -> list[tuple[float, float]]:
    """Return the least processor and clock seconds of each, in turns so that all meet the same neighbours."""
    best = [(np.inf, np.inf)] * len(runs)
    for _ in range(rounds):
        for number, run in enumerate(runs):
            begun, clock = time.process_time(), time.perf_counter()
            run()
            used, passed = time.process_time() - begun, time.perf_counter() - clock
            best[number] = min(best[number][0], used), min(best[number][1], passed)
    return best


def compared(name: str, run: Run, base: Run, goal: str, *, rounds: int = 5, clock: str = "") -> Row:
    """Return the row of a run as a multiple of another; the caller has compiled both."""
    (used, passed), (base_used, base_passed) = measured(run, base, rounds=rounds)
    note = clock and f"clock {clock}"
    return Row(name, used, used / base_used, passed / base_passed, goal, note)


def ordinary(n: int) -> Iterator[Row]:
    """An ordinary job against three boosting fits with predictions for all candidates."""
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as folder:
        first, job = OrdinaryJob(600), OrdinaryJob(n)
        first.write(Path(small))
        first.evaluate(Path(small))
        first.boosting()
        job.write(Path(folder))
        yield compared(
            f"ordinary job, {n:,} requests / three boosting fits",
            lambda: job.evaluate(Path(folder)), job.boosting, "2", rounds=2, clock="1.2",
        )  # fmt: skip


@dataclass(frozen=True)
class Arrays:
    """Plain numbers of n rankings, as logs and for NumPy."""

    n: int

    def log(self, *names: str) -> cr.RankingLog:
        """Return the log with these rewards."""
        rng, shape = np.random.default_rng(0), (self.n, LENGTH)
        old, new = rng.uniform(0.2, 1, shape), rng.uniform(0.2, 1, shape)
        rewards = {name: (rng.random(shape) < 0.2).astype(float) for name in names or ["clicks"]}
        return cr.RankingLog(
            action=rng.integers(0, 3, shape), reward=rewards if names else rewards["clicks"],
            propensity=old, targets={"new": new},
        )  # fmt: skip

    def distributions(self, *names: str) -> cr.RankingLog:
        """Return a log with whole distributions of independent positions."""
        rng, shape = np.random.default_rng(0), (self.n, LENGTH)
        action = rng.integers(0, 3, shape)
        dists = {
            name: rng.dirichlet(np.full(3, 3.0), shape[0]).repeat(LENGTH, axis=0).reshape(*shape, 3)
            for name in ("propensity", "new")
        }
        shown = {
            name: np.take_along_axis(whole, action[:, :, None], axis=2)[:, :, 0]
            for name, whole in dists.items()
        }
        rewards = {name: (rng.random(shape) < 0.2).astype(float) for name in names or ["clicks"]}
        return cr.RankingLog(
            action=action, reward=rewards if names else rewards["clicks"],
            propensity=shown["propensity"], context=rng.normal(size=(self.n, 2)),
            targets={"new": cr.Propensity("factored", shown["new"])}, dists=dists,
        )  # fmt: skip


def evaluating(log: cr.RankingLog, *names: str) -> Run:
    """Return the evaluation of a log by some estimators."""
    return lambda: cr.evaluate(log, ["new"], estimators=list(names))


def plain(log: cr.RankingLog) -> Run:
    """Return IPS with its error in NumPy, on the arrays of a log."""
    old, new = log.propensity.values, log.targets["new"].values  # type: ignore[union-attr]

    def ips() -> tuple[float, float]:
        values = (new / old).prod(1) * log.reward.sum(1)
        return float(values.mean()), float(values.std())

    return ips


def large(name: str, n: int, goal: str, *estimators: str, rounds: int = 5) -> Iterator[Row]:
    """Some estimators on plain numbers in memory against a NumPy IPS."""
    evaluating(Arrays(3_000).log(), *estimators)()
    log = Arrays(n).log()
    yield compared(name, evaluating(log, *estimators), plain(log), goal, rounds=rounds)


def auto(n: int = 1_000_000) -> Iterator[Row]:
    """`auto` on a factored log with whole distributions against a NumPy IPS."""
    cr.Auto().estimate(Arrays(3_000).distributions(), "new")
    log = Arrays(n).distributions()
    run = lambda: cr.Auto().estimate(log, "new")  # noqa: E731
    yield compared("auto, factored 1M / NumPy IPS", run, plain(log), "20", rounds=3)


def metrics(n: int, goal: str, *estimators: str) -> Iterator[Row]:
    """Five metrics against one."""
    make = Arrays(n).distributions if "auto" in estimators else Arrays(n).log
    several, alone = make(*METRICS), make("clicks")
    evaluating(make.__self__.__class__(3_000).log(*METRICS), *estimators)()  # type: ignore[attr-defined]
    name = f"five metrics / one, {n:,} rankings: {', '.join(estimators)}"
    yield compared(
        name, evaluating(several, *estimators), evaluating(alone, *estimators), goal, rounds=3
    )


def stream(n: int = 4_000_000) -> Iterator[Row]:
    """A stream with aips against reading the same columns."""
    task = ("-m", "benchmarks.scale")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        child(*task, "write", path, str(n))
        read, done = (
            child(*task, *names, one_thread=True)
            for names in (("read", path), ("evaluate", path, "aips"))
        )
    yield Row(
        "stream of 4M with aips / reading", done["cpu"], done["cpu"] / read["cpu"],
        done["wall"] / read["wall"], "5", f"peak {done['peak']:.0f} MB beyond imports, goal 650",
    )  # fmt: skip


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "counterrank", *arguments]


def start(n: int = 10_000) -> Iterator[Row]:
    """The command on a small Parquet file with fixed estimators, and the first one on a machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        process_cpu(_command("simulate", "--n", str(n), "--out", path), repeats=1)
        line = _command("evaluate", path, "--target", "new", "--quiet")
        fixed = [*line, "--estimators", ",".join(FIXED)]
        process_cpu(fixed, repeats=1)
        used = process_cpu(fixed)
        base = process_cpu([sys.executable, "-c", "import numpy, numba, pyarrow.parquet"])
        yield Row(
            "start: 10,000 rows of Parquet, four fixed / import of numpy, numba, pyarrow",
            used, used / base, np.nan, "1.2 s",
        )  # fmt: skip
        os.environ["NUMBA_CACHE_DIR"] = str(Path(folder) / "cache")
        first, second = process_cpu(line, repeats=1), process_cpu(line, repeats=2)
        del os.environ["NUMBA_CACHE_DIR"]
    yield Row("first evaluation on a machine / second", first, first / second, np.nan, "2.5")


_BUSY = "while True: pass"
_MANY_THREADS = """
import time, numpy as np, counterrank as cr
from counterrank.research.simulate import World
log = World(seed=3, behavior="dbn", items=100, K=8).log({n}, 0)
cr.evaluate(log, ["new"])
used = []
for _ in range(3):
    begun = time.process_time(); cr.evaluate(log, ["new"]); used.append(time.process_time() - begun)
print(min(used))
"""


def blas(n: int = 10_000) -> Iterator[Row]:
    """Many threads of BLAS beside a busy neighbour against one thread in peace."""
    line = [sys.executable, "-c", _MANY_THREADS.format(n=n)]

    def used(threads: int) -> float:
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        settings = dict(os.environ) | dict.fromkeys(names, str(threads))
        done = subprocess.run(line, check=True, capture_output=True, text=True, env=settings)
        return float(done.stdout)

    one = used(1)
    neighbour = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        many = used(32)
    finally:
        neighbour.kill()
        neighbour.wait()
    name = "32 BLAS threads beside a busy neighbour / one thread"
    yield Row(name, many, many / one, np.nan, "1.1")


_SQL = """
SELECT avg(w * list_sum(r)), stddev(w * list_sum(r)), avg(list_dot_product(q, r)), stddev(list_dot_product(q, r)),
  avg(list_dot_product(p, r)), stddev(list_dot_product(p, r))
FROM (SELECT q, r, list_product(q) AS w, list_transform(range(1, len(q) + 1), lambda k: list_product(q[:k])) AS p
  FROM (SELECT reward::DOUBLE[] AS r,
    list_transform(list_zip(new::DOUBLE[], propensity::DOUBLE[]), lambda z: z[1] / z[2]) AS q FROM '{path}'))
"""


def sql(n: int = 1_000_000) -> Iterator[Row]:
    """The command with audit and report against DuckDB SQL for IPS, IIPS and RIPS on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.parquet")
        process_cpu(_command("simulate", "--n", str(n), "--out", path), repeats=1)
        query = f"import duckdb; print(duckdb.sql({_SQL.format(path=path)!r}).fetchall())"
        plain_sql = process_cpu([sys.executable, "-c", query])
        line = _command("evaluate", path, "--target", "new", "--estimators", "ips,iips,rips")
        page = ["--html", str(Path(folder) / "page.html")]
        process_cpu([*line, *page], repeats=1)
        used = process_cpu([*line, *page])
    name = "command: ips, iips, rips on 1M rows, audit and page / DuckDB SQL"
    yield Row(name, used, used / plain_sql, np.nan, "2")


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "ordinary-10k": lambda: ordinary(10_000),
    "ordinary-40k": lambda: ordinary(40_000),
    "fixed": lambda: large("four fixed, 1M / NumPy IPS", 1_000_000, "3.5", *FIXED),
    "aips-8k": lambda: large("aips, 8,000 / NumPy IPS", 8_000, "40", "aips", rounds=15),
    "aips-1m": lambda: large("aips, 1M / NumPy IPS", 1_000_000, "5", "aips", rounds=3),
    "auto": auto,
    "stream": stream,
    "metrics-fixed": lambda: metrics(1_000_000, "1.6", *FIXED),
    "metrics-auto": lambda: metrics(100_000, "2", "auto"),
    "start": start,
    "blas": blas,
    "sql": sql,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(ROWS), help=f"some of {', '.join(ROWS)}")
    names = parser.parse_args().only.split(",")
    if unknown := set(names) - set(ROWS):
        parser.error(f"unknown rows {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    head = ["", "processor s", "x processor", "x clock", "goal", ""]
    show("Costs", head, (row.cells for name in names for row in ROWS[name]()))


if __name__ == "__main__":
    main()
