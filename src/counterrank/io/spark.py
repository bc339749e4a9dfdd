"""Spark: passes over any DataFrame or table, or over files by Spark's workers, through mapInArrow."""

import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from counterrank.common.errors import ConfigError, EngineError, require
from counterrank.data.source import default_threads
from counterrank.io.cluster import (
    ClusterSource,
    Runner,
    TaskOutcome,
    Work,
    added,
    files_on_cluster,
    frame_on_cluster,
    packed,
    unpacked,
)
from counterrank.io.file_source import FileSource
from counterrank.io.options import ReadOptions
from counterrank.io.where import COMPARE, IN, IS_NULL, RowCondition, Where

#: No more results than this come to the driver one by one; neighbours are added on the workers.
RESULTS = 256
_PICKLER = "pyspark.cloudpickle"
_SCHEMA = "partition long, rows long, state binary, problem string"

Mapper = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def frame_source(frame: Any, options: ReadOptions) -> ClusterSource:
    """Return the log in a Spark DataFrame; nothing is collected but its first rows and the sums."""
    require("pyspark", extra="spark")
    _use_this_python(frame.sparkSession)
    chosen = _filtered(frame, options.where)
    with _plainly():
        head: pa.Table = chosen.limit(1000).toArrow()
    return frame_on_cluster(_on_frame(chosen), head, options)


def file_source(files: FileSource, session: Any = None) -> ClusterSource:
    """Return a log in files that Spark's workers can reach; without a session, one is started on this machine."""
    stack = ExitStack()
    used = stack.enter_context(local_session()) if session is None else session
    _use_this_python(used)
    return files_on_cluster(files, partial(_run_on_files, used, len(files.parts)), stack)


@contextmanager
def local_session(workers: int | None = None) -> Iterator[Any]:
    """Return the active session, or one on this machine only, which is stopped at the end."""
    session_class = require("pyspark.sql", extra="spark").SparkSession
    active = session_class.getActiveSession()
    if active is not None:
        yield active
        return
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        raise EngineError(
            "Spark needs Java 17 or later, and there is none here; use engine='dask' or 'local'"
        )
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP")}
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    # A task is tried four times, as on a cluster; the default on one machine is once.
    builder = session_class.builder.master(f"local[{workers or default_threads()},4]").appName(
        "counterrank"
    )
    for name, value in _ON_THIS_MACHINE.items():
        builder = builder.config(name, value)
    with quietly():
        session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        for name, earlier in before.items():
            os.environ.pop(name, None) if earlier is None else os.environ.update({name: earlier})


_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
}


def _on_frame(frame: Any) -> Runner:
    """Return the engine of a frame, which learns from its first pass how many partitions there are."""
    partitions = 0

    def run(work: Work, columns: Sequence[str]) -> Generator[TaskOutcome]:
        nonlocal partitions
        with _plainly():
            chosen = frame.select(*[_quoted(name) for name in columns])
            table = _collected(chosen, _over_rows(packed(work, _PICKLER)), partitions)
        # Known after the first pass only, whose results come home one by one.
        partitions = max(partitions, table.num_rows)
        return _outcomes(table)

    return run


def _run_on_files(
    session: Any, count: int, work: Work, columns: Sequence[str]
) -> Generator[TaskOutcome]:
    with _plainly():
        ids = session.range(0, count, 1, min(count, RESULTS))
        return _outcomes(_collected(ids, _over_ids(packed(work, _PICKLER))))


def _collected(frame: Any, over: Mapper, partitions: int = 0) -> pa.Table:
    """Return what came of all partitions, in their order; neighbours are added where there are many."""
    results = frame.mapInArrow(over, _SCHEMA)
    if partitions > RESULTS:
        results = _added_by_neighbours(results, -(-partitions // RESULTS))
    # Tasks end in any order; sums of floats must not depend on it.
    return results.toArrow().sort_by("partition")


def _over_rows(payload: bytes) -> Mapper:
    def over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        index = TaskContext.get().partitionId()
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        yield _row(index, unpacked(payload, _PICKLER)(index, tables))

    return over


def _over_ids(payload: bytes) -> Mapper:
    def over(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [index for batch in batches for index in batch.column(0).to_pylist()]
        if parts:
            outcomes = (unpacked(payload, _PICKLER)(index, iter(())) for index in parts)
            yield _row(parts[0], added(outcomes))

    return over


def _added_by_neighbours(results: Any, width: int) -> Any:
    """Add `width` consecutive partitions on the workers."""

    def add(table: pa.Table) -> pa.Table:
        # Spark hands a group's rows over in any order.
        ordered = table.sort_by("partition")
        first = ordered["partition"][0].as_py()
        return pa.Table.from_batches([_row(first, added(_outcomes(ordered)))])

    groups = results.withColumn("neighbours", (results["partition"] / width).cast("long"))
    return groups.groupBy("neighbours").applyInArrow(add, _SCHEMA)


def _row(index: int, outcome: TaskOutcome) -> pa.RecordBatch:
    state = None if outcome.state is None else packed(outcome.state, _PICKLER)
    columns = [
        pa.array([index]),
        pa.array([outcome.rows]),
        pa.array([state], pa.binary()),
        pa.array([outcome.problem]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["partition", "rows", "state", "problem"])


def _outcomes(table: pa.Table) -> Generator[TaskOutcome]:
    for row in table.to_pylist():
        state = row["state"]
        summed = None if state is None else require(_PICKLER, extra="spark").loads(state)
        yield TaskOutcome(summed, row["rows"], row["problem"])


def _use_this_python(session: Any) -> None:
    """On one machine the workers run this Python; on a cluster that is for PYSPARK_PYTHON to say."""
    context = getattr(session, "_sc", None)
    if context is not None and context.master.startswith("local"):
        context.pythonExec = sys.executable


def _filtered(frame: Any, where: Where | None) -> Any:
    if where is None:
        return frame
    if where.condition is None:
        raise ConfigError(
            "Spark takes comparisons, in, between, is null, not, and, or; it does not take "
            f"the condition {where.text[:200]!r}. Select the rows before, or read Parquet files"
        )
    with _plainly():
        # No row, but the types of the columns: a value that is none of them is told at once.
        where.expression(frame.limit(0).toArrow().schema)
        return frame.where(where.condition.expression(partial(_compared, frame)))


def _compared(frame: Any, condition: RowCondition) -> Any:
    """Return the comparison of a column as Spark's, which pushes it down as far as it can."""
    column = frame[_quoted(condition.column)]
    if condition.kind == IS_NULL:
        return column.isNull()
    if condition.kind == IN:
        return column.isin(list(condition.values))
    return COMPARE[condition.kind](column, *condition.values)


def _quoted(name: str) -> str:
    # To Spark a bare "user.age" is the field age of a column user.
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def _plainly() -> Iterator[None]:
    """Turn what Spark raises, pages of Java, into the one line that matters."""
    try:
        with quietly():
            yield
    except Exception as problem:
        raise EngineError(f"Spark could not finish the pass: {reason(str(problem))}") from problem


@contextmanager
def quietly() -> Iterator[None]:
    """Leave out Spark's doubts about pandas, which is not used here."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
        )
        yield


def reason(text: str) -> str:
    r"""Return the last Python error in Spark's message, or else its first line.

    >>> reason("Job aborted\n  File x\nZeroDivisionError: division by zero\n\tat org.apache")
    'ZeroDivisionError: division by zero'
    """
    errors = re.findall(
        r"^\s*((?:[\w.]+\.)?\w+(?:Error|Exception|Exit): .+)$", text, flags=re.MULTILINE
    )
    lines = [
        line for line in errors if not line.startswith(("org.", "java."))
    ] or text.strip().splitlines()[:1]
    line = lines[-1][:300] if lines else "no reason given"
    if "No module named" in line:
        line += (
            "; install counterrank where the workers' Python is, and point PYSPARK_PYTHON at "
            "that Python"
        )
    return line
