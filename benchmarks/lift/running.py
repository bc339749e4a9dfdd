"""One log after another: estimates beside the truth, kept as Parquet, a row an estimator."""

import inspect
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import counterrank as cr
from benchmarks.lift import boosting
from benchmarks.lift.boosting import Boosting
from benchmarks.lift.cells import TARGET, Case, Cell, Z
from benchmarks.lift.record import Recorded, questions, save
from counterrank.common.atomic import replacing
from counterrank.estimators import Estimate, Lift, registry

NAN = float("nan")
#: Judged against the best of these in hindsight, as every study of this project is.
FOUR = ("ips", "snips", "iips", "rips")
WEIGHTS = (*FOUR, "sniips", "snrips")
#: What a strong practitioner would try besides.
STRONG = ("pbm", "cascade-dr", *boosting.NAMES)


@dataclass(frozen=True, slots=True)
class Row:
    """What one estimator said of one log, and what is true."""

    population: str
    cell: str
    log: int
    estimator: str
    n: int
    lift: float
    stderr: float
    low: float
    high: float
    true_lift: float
    true_stderr: float
    base: float
    test_half_width: float
    fresh: bool
    verdict: str
    #: Checks that did not pass, or why there is no estimate.
    why: str
    failed: bool
    cpu: float


def judged(case: Case) -> tuple[Estimate, str, str]:
    """Return auto's estimate, the verdict's level and the checks that did not pass."""
    log = case.log
    options: dict[str, object] = {"independent_rows": log.unit is None}
    # A target trained on this very log cannot be told from one that was not: the user is asked.
    if "target_is_fresh" in inspect.signature(cr.evaluate).parameters:
        options["target_is_fresh"] = case.fresh
    result = cr.evaluate(log, [TARGET], estimators=["auto"], **options)
    blamed = [row["check"] for row in result.verdict.reasons if row["status"] != "pass"]
    return result.estimate(TARGET, "auto"), result.verdict.level, ", ".join(dict.fromkeys(blamed))


def row(cell: Cell, number: int, case: Case, name: str, trees: Boosting) -> Row:
    """Return what an estimator says of a log; a refusal is a row too, an unexpected error is told
    apart.
    """
    began, failed, level, why = time.process_time(), False, "", ""
    lift = Lift(NAN, NAN, NAN, NAN)
    try:
        if name == "auto":
            found, level, why = judged(case)
            lift, why = found.lift, why or found.not_estimable
        elif name in boosting.NAMES:
            lift = trees.lift(name)
        else:
            found = registry.get(name).estimate(case.log, TARGET)
            lift, why = found.lift, found.not_estimable
    except cr.CounterrankError as problem:
        why = str(problem)
    except Exception as problem:  # a study of hours goes on; the table counts these
        why, failed = repr(problem), True
    numbers, truth = (lift.value, lift.stderr, lift.low, lift.high), case.truth
    return Row(
        cell.population, cell.name, number, name, case.log.n, *map(float, numbers),
        truth.lift, truth.stderr, truth.base, truth.test_half_width(case.log.n),
        case.fresh, level, why, failed, time.process_time() - began,
    )  # fmt: skip


def path_of(folder: Path, cell: Cell, number: int) -> Path:
    """Return the file of one log."""
    name = "".join(c if c.isalnum() or c in "+-." else "-" for c in cell.name)
    return folder / cell.population / f"{name}-log{number}.parquet"


def read(path: Path) -> list[Row]:
    """Return the rows of a file, none where there is none."""
    return [Row(**one) for one in parquet.read_table(path).to_pylist()] if path.exists() else []


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write the rows of one log as a whole."""
    table = [asdict(one) for one in rows]
    columns = {item.name: [one[item.name] for one in table] for item in fields(Row)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        parquet.write_table(pa.table(columns), temporary)


def run(
    cell: Cell,
    number: int,
    names: Iterable[str],
    again: Iterable[str],
    folder: Path,
    record: Path | None = None,
) -> list[Row]:
    """Return all rows of a log, estimating what its file does not hold yet.

    `record` is a folder for what the rule of `auto` decided on; see `benchmarks/lift/record.py`.
    """
    path = path_of(folder, cell, number)
    rows = {one.estimator: one for one in read(path)}
    wanted = [name for name in dict.fromkeys(names) if name not in rows or name in again]
    if wanted:
        case = cell.make(number)
        trees = Boosting(case.log)
        with questions() as asked:
            rows |= {name: row(cell, number, case, name, trees) for name in wanted}
        write(path, rows.values())
        if record is not None and asked:
            kept = Recorded(asked[0], case.truth, case.truth.test_half_width(case.log.n))
            save(path_of(record, cell, number).with_suffix(".npz"), kept)
        said = rows.get("auto")
        words = "" if said is None else f": auto {said.lift:+.4g}, true {said.true_lift:+.4g}"
        spent = sum(rows[name].cpu for name in wanted)
        print(f"{cell.population} {cell.name} log {number}{words} ({spent:.1f} s)", flush=True)
    return list(rows.values())


def half_width(one: Row) -> float:
    """Return half of the interval's length."""
    return (one.high - one.low) / 2


def held(one: Row) -> bool:
    """Return whether the interval holds the true lift, whose own error counts."""
    reach = np.hypot(half_width(one), Z * one.true_stderr)
    return bool(abs((one.low + one.high) / 2 - one.true_lift) <= reach + rounding(one))


def rounding(one: Row) -> float:
    """Return what is nothing beside what the logger earns: weights of one leave such a lift."""
    return 1e-9 * abs(one.base)
