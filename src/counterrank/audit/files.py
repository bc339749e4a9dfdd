"""`counterrank check`: the audit of whatever holds a log, readable or not."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats
from counterrank.audit.auditor import audit
from counterrank.audit.findings import Audit, examples_at
from counterrank.data.log import LOGGING, Probabilities, RankingLog
from counterrank.data.source import MemorySource, Source
from counterrank.errors import (
    ConfigError,
    CounterrankError,
    LogError,
    MissingExtraError,
    PolicyError,
    PropensityError,
)
from counterrank.findings import FAILED, PASSED, WARNED, Finding
from counterrank.io import (
    Field,
    LogLike,
    LogSpec,
    OpenOptions,
    RankingRows,
    ReadOptions,
    Survey,
    expand,
    from_frame,
    from_table,
    is_small,
    is_stream,
    open_source,
    read_log,
    read_table,
    resolve,
)
from counterrank.messages import say


def audit_log(
    log: LogLike,
    targets: Mapping[str, Probabilities | ArrayLike] | Sequence[str] | str | None = None,
    *,
    segments: Sequence[str] | str | None = None,
    time: str | None = None,
    **reading: Unpack[OpenOptions],
) -> Audit:
    """Return the findings about a log; targets may be left out.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
    targets
        The policies whose weights are looked at: names mapped to arrays, `Propensity` or `Policy`, or
        names of columns.
    segments
        A column or several whose groups are compared.
    time
        The column with the time of each ranking.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `logger`, `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`, "local",
        "dask" or "spark"; `where`, a mapping that keeps some rows, {"device": "mobile"}.

    Returns
    -------
    Audit
        The findings, worst first, each with its likely cause and remedy.

    Raises
    ------
    CounterrankError
        The log cannot be read; `audit_file` says more about such a file.

    Examples
    --------
    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]] * 50, reward=[[1, 0], [0, 1]] * 50, propensity=[[.5, .5]] * 100)
    >>> isinstance(audit_log(log), cr.audit.Audit)
    True
    """
    named = (segments,) if isinstance(segments, str) else tuple(segments or ())
    source, names = _opened(log, targets or None, [*named, *([time] if time else [])], reading)
    return Audit(audit(source, names, segments=named or None, time=time))


def _opened(
    log: LogLike, targets: Any, carried: list[str], given: OpenOptions
) -> tuple[Source, tuple[str, ...]]:
    reading: dict[str, Any] = {**given}
    if targets is None and is_stream(log):
        found = from_frame(log, keep=carried, **reading)
        return MemorySource(found), tuple(found.targets)
    if targets is not None or not isinstance(log, (str, os.PathLike, RankingLog)):
        return open_source(log, targets, segments=tuple(carried), **reading)
    from counterrank.io import TooLargeError, adapter_of, refuse_unread

    if isinstance(log, RankingLog):
        refuse_unread(reading)
        return MemorySource(log), tuple(log.targets)
    from counterrank.io import scan_log

    by_adapter = adapter_of(reading.get("format")) is not None
    if by_adapter or is_small(log):
        try:
            found = read_log(log, **reading)
            return MemorySource(found), tuple(found.targets)
        except TooLargeError:
            if by_adapter:
                raise
    reading.setdefault("segments", tuple(carried))
    return scan_log(log, **reading), ()


def audit_file(
    path: str | os.PathLike[str],
    targets: Sequence[str] = (),
    *,
    segments: Sequence[str] | str | None = None,
    time: str | None = None,
    **reading: Unpack[OpenOptions],
) -> Audit:
    """Return the findings about a file, also about one that cannot be read as a log.

    What is wrong with single numbers is counted on the raw columns. The rest of the audit then runs on
    the rows that can be used, and says how many those are.

    Parameters
    ----------
    path
        A file, a folder or a pattern.
    targets
        Names of columns of target policies.
    segments
        A column or several whose groups are compared.
    time
        The column with the time of each ranking.
    **reading
        Options of the reader, as in `counterrank.io.ReadOptions`.

    Returns
    -------
    Audit
        The findings, worst first, each with its likely cause and remedy.

    Raises
    ------
    CounterrankError
        There is no such file, or an option makes no sense.

    Examples
    --------
    >>> import counterrank as cr
    >>> print(cr.audit_file("log.parquet", ["new"]))  # doctest: +SKIP
    """
    reading = {"require_propensity": False, **reading}
    try:
        found = audit_log(path, tuple(targets), segments=segments, time=time, **reading)
    except (LogError, PolicyError, PropensityError) as problem:
        if not isinstance(path, (str, os.PathLike)):
            raise
        return _dirty(path, tuple(targets), problem, segments=segments, time=time, **reading)
    return Audit([Finding("readable", PASSED, "the log can be read"), *found])


def _dirty(
    path: str | os.PathLike[str], targets: tuple[str, ...], problem: CounterrankError, *,
    segments: Sequence[str] | str | None, time: str | None, **reading: Any,
) -> Audit:  # fmt: skip
    what, remedy = problem.said, problem.remedy or "correct the file"
    failed = Finding("readable", FAILED, what, (remedy,))
    try:
        wrong, log = repaired(path, targets, **reading)
    except (ConfigError, MissingExtraError):
        raise
    except (CounterrankError, OSError, pa.ArrowException) as deeper:
        # A file that cannot be opened at all says the same twice, with and without its name.
        cause = "" if str(deeper) in str(problem) else f"a second look did not help: {deeper}"
        return Audit([Finding("readable", FAILED, what, (remedy,), cause=cause)])
    rows = Audit([failed, *wrong])
    if log is None:
        return rows
    known = [name for name in targets if name in log.targets]
    return Audit([*rows, *audit_log(log, known or None, segments=segments, time=time)])


def repaired(
    path: str | os.PathLike[str],
    targets: Sequence[str],
    *,
    format: str | None = None,
    **reading: Any,
) -> tuple[list[Finding], RankingLog | None]:
    """Return findings about single numbers, and the log of the rows whose numbers can be used, if there are any."""
    options = ReadOptions.of(**{**reading, "targets": tuple(targets)})
    pieces = [read_table(file) for file in expand(path, format, decimal=options.decimal)]
    table = pa.concat_tables(pieces, promote_options="permissive")
    survey = Survey.of(resolve(table, options, in_memory=True), options, table)
    if survey.spec.layout == "long":
        return [], None
    survey.absorb(table)
    spec = survey.finish(table.slice(0, 1000))
    rows = RankingRows(table, replace(spec, renumber=False))
    used = rows.action >= 0
    good: Bools = np.asarray(used.any(axis=1))
    findings: list[Finding] = []
    for role, field in _fields(spec).items():
        values = rows.numbers(field)[0]
        cells = used if values.shape == used.shape else np.ones(values.shape, dtype=bool)
        found, fine = look_at(role, field.name, values, cells)
        findings += found
        good &= fine
        if role != "reward" and are_logarithms(values[cells]):
            table = _with_numbers(table, field, np.exp(values))
    if not good.any():
        return findings, None
    kept = int(good.sum())
    if kept < len(good):
        findings.append(
            Finding(
                "usable-rows",
                WARNED,
                f"the rest of the audit looks at {kept:,} of {len(good):,} rankings",
                ("repair or drop the others; a pattern among them would bias any result",),
            )
        )
    return findings, from_table(table.filter(pa.array(good)), options)


def look_at(role: str, name: str, values: Floats, cells: Bools) -> tuple[list[Finding], Bools]:
    """Return what is wrong with a field's numbers, and which rows (n,) are fine."""
    if role == "reward":
        bad = ~np.isfinite(values) & cells
        missing = Finding(
            "rewards",
            FAILED,
            f"'{name}' is missing or infinite {int(bad.sum()):,} times",
            (f"say {say('--missing-reward', 'zero')} if none means 0",),
            cause="outcomes that have not arrived, or an outer join",
            examples=examples_at(bad, values, 0),
        )
        return [missing] if bad.any() else [], np.asarray(~bad.any(axis=1))
    inside = values[cells]
    finite = inside[np.isfinite(inside)]
    if are_logarithms(inside):
        return [
            Finding(
                "probabilities",
                FAILED,
                f"all of '{name}' lies between {finite.min():.4g} and {finite.max():.4g}",
                ("store exp of these values; the rest of this audit did so",),
                cause="log-probabilities were logged",
                examples=examples_at(cells, values, 0),
            )
        ], np.asarray((np.isfinite(values) | ~cells).all(axis=1))
    # Above one by rounding is allowed, as when a log is read.
    wrong = [
        ("missing", np.isnan(values), "the join with the propensities lost rows",
         "join again, or drop them"),
        ("above 1", values > 1 + 1e-9, _scale_of(finite), "store probabilities between 0 and 1"),
        ("below 0", values < 0, "a failed computation, or -1 for a missing value",
         "drop those rows"),
    ]  # fmt: skip
    if role == LOGGING:
        wrong.append(
            ("0, yet the item was shown", values == 0,
             "rounding, a pinned item, or a join with another request's propensities",
             "log full precision, and the probability after all filters")
        )  # fmt: skip
    found, fine = [], np.ones(len(values), dtype=bool)
    for what, where, cause, remedy in wrong:
        bad = where & cells
        rows = bad.any(axis=1)
        if count := int(bad.sum()):
            text = f"'{name}' is {what} {count:,} time{'s' if count > 1 else ''}, in {rows.sum():,} rankings"
            examples = examples_at(bad, values, 0)
            found.append(
                Finding("probabilities", FAILED, text, (remedy,), cause=cause, examples=examples)
            )
        fine &= ~rows
    return found, fine


def are_logarithms(values: Floats) -> bool:
    """Return whether numbers that should be probabilities are logarithms of them: none above 0, one below."""
    finite = values[np.isfinite(values)]
    return bool(len(finite) and finite.max() <= 0 and finite.min() < 0)


def _scale_of(finite: Floats) -> str:
    largest = float(finite.max(initial=0.0))
    if 1 < largest <= 100 and float(np.median(finite)) > 1:
        return "percentages were logged, or inverse propensities (weights)"
    return "scores, odds or weights were logged, not probabilities"


def _fields(spec: LogSpec) -> dict[str, Field]:
    found = {role: spec.fields[role] for role in ("reward", LOGGING) if role in spec.fields}
    return {**found, **spec.targets}


def _with_numbers(table: pa.Table, field: Field, values: Floats) -> pa.Table:
    """Replace a field's columns by other numbers."""
    for k, name in enumerate(field.columns):
        place = table.column_names.index(name)
        if field.form == "wide":
            column: Any = pa.array(values[:, k], from_pandas=True)
        else:
            column = pa.array([row[~np.isnan(row)].tolist() for row in values])
        table = table.set_column(place, name, column)
    return table
