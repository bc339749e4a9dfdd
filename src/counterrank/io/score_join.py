"""Tables of scores joined to the candidates of a log, out of core: a column of the log for each target.

Requests and items of both tables are numbered in files that DuckDB joins; the log itself is read piece
by piece, and its rows keep their order. A log that lists no candidates gets those of the tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.common.errors import ConfigError, LogError
from counterrank.common.findings import PASSED, WARNED, Finding
from counterrank.common.texts import in_percent, listed, suggestion
from counterrank.data.events import JoinedScores
from counterrank.io import prepare, sql, tables, values
from counterrank.io.files import DataFile, expand
from counterrank.io.options import ReadOptions
from counterrank.io.roles import named, target_of
from counterrank.io.scores import Scores

#: Shares of rows from which on a finding warns: of the table that name no candidate, and that repeat another.
_ORPHANS, _DOUBLED = 0.01, 0.001

#: Files of a log, how they are read, and what became of its tables of scores.
WithScores = tuple[list[DataFile], ReadOptions, tuple[JoinedScores, ...]]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """A table of scores beside a log: the keys of both, and the columns of scores by their name in the log."""

    scores: Scores
    keys: tuple[tuple[str, str], ...]
    columns: dict[str, str]

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that it scores."""
        names = (name.removesuffix("_scores") for name in self.columns if name.endswith("_scores"))
        return tuple(name for name in names if name != "propensity")


@dataclass(frozen=True, slots=True)
class LogColumns:
    """What of a log's columns matters to the join."""

    names: tuple[str, ...]
    options: ReadOptions

    @property
    def is_long(self) -> bool:
        """Whether a row is an item rather than a ranking."""
        return {str(self.options.column(role)) for role in ("ranking", "position")} <= {*self.names}

    @property
    def list_column(self) -> str:
        """The column of lists whose entries are scored: candidates, or else what was shown."""
        column = str(self.options.column("candidates"))
        return column if column in self.names else str(self.options.column("action"))

    @property
    def lists_candidates(self) -> bool:
        """Whether the log says what could have been shown."""
        return str(self.options.column("candidates")) in self.names

    @property
    def item(self) -> set[str]:
        """What an item may be called as a key."""
        return {"action", "candidates", str(self.options.column("action")), self.list_column}


def described(scores: Scores, schema: pa.Schema, log: LogColumns) -> ScoreTable:
    """Return the keys and the columns of a table of scores; raise where they are not clear."""
    keys = scores.keys or _usual_keys(scores, schema, log)
    joinable = {*log.names, *log.item, "ranking"}
    for shown, theirs in keys:
        if shown not in joinable:
            raise LogError(
                f"the log has no column '{shown}' for the join with scores{suggestion(shown, log.names)}",
                remedy=f"columns are {listed(log.names)}",
            )
        _refuse_absent(scores, schema, theirs, "to join by")
    used = {theirs for _, theirs in keys}
    if scores.columns is not None:
        columns = {f"{name}_scores": column for name, column in scores.columns.items()}
        for column in columns.values():
            _refuse_absent(scores, schema, column, "with scores")
    else:
        mapped = {
            column: column
            for column in log.options.columns.values()
            if isinstance(column, str) and column not in log.names
        }
        numeric = [
            item.name
            for item in schema
            if values.is_number(item.type) and item.name not in (*used, *log.names, *_INDEX)
        ]
        path = scores.path if len(numeric) == 1 and isinstance(scores.path, str) else ""
        columns = {mapped.get(name) or f"{target_of(name, path)}_scores": name for name in numeric}
        if len(columns) < len(numeric):
            raise ConfigError(
                f"{scores.title}: several columns of {listed(numeric)} name the same target; say which "
                'is whose, columns = {b = "score_b"} in [scores]'
            )
    if not columns:
        raise LogError(
            f"{scores.title} has no column of scores: no number beside {listed(sorted(used))}",
            remedy="add one numeric column per ranker, like score_b",
        )
    if clash := sorted({*columns} & {*log.names}):
        raise ConfigError(
            f"the log has a column '{clash[0]}' already; leave one of the two out, or give the scores "
            "of the table another name (columns in [scores])"
        )
    return ScoreTable(scores, keys, columns)


#: What pandas calls an index that it writes as a column.
_INDEX = ("", "Unnamed: 0", "__index_level_0__")


def _refuse_absent(scores: Scores, schema: pa.Schema, column: str, use: str) -> None:
    if column not in schema.names:
        raise LogError(
            f"{scores.title} has no column '{column}' {use}{suggestion(column, schema.names)}",
            remedy=f"columns are {listed(schema.names)}",
        )


def _usual_keys(scores: Scores, schema: pa.Schema, log: LogColumns) -> tuple[tuple[str, str], ...]:
    """Return the keys that nobody named: the request and the item, as both tables call them."""
    options = log.options
    plain = [
        item.name for item in schema if not (pa.types.is_floating(item.type) or _nested(item.type))
    ]
    shared_names = [name for name in plain if name in log.names]
    mine = str(options.column("ranking"))
    request = mine if mine in log.names else next(iter(named(shared_names, "ranking")), "")
    item = str(options.column("action"))
    theirs = item if item in plain else next(iter(named(plain, "action")), "")
    keys = [(request, _alike(request, plain, "ranking"))] if request else []
    if len(keys) == 0 or not keys[0][1]:
        # Other columns that both have name the request together: a query and a day, say.
        further = [
            name for name in shared_names if name != theirs and not named([name], "position")
        ]
        keys = [(name, name) for name in further]
    if not keys or not theirs:
        lacking = "the request" if theirs else "the item"
        raise LogError(
            f"{scores.title}: no column is {lacking} in both tables; columns are {listed(schema.names)}",
            remedy='say which belong together, as "request,item" or "log_name=scores_name" '
            "(--scores-join; on= of counterrank.Scores)",
        )
    return (*keys, ("action", theirs))


def _alike(mine: str, names: Sequence[str], role: str) -> str:
    return mine if mine in names else next(iter(named(names, role)), "")


def _nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_boolean(kind))


def log_columns(files: Sequence[DataFile], options: ReadOptions) -> LogColumns:
    """Return the columns of a log in files."""
    names = (
        name
        for file in files
        for name in (
            *tables.schema(file).names,
            *dict(file.partitions),
            *(file.table or pa.schema([])).names,
        )
    )
    return LogColumns(tuple(dict.fromkeys(names)), options)


def table_files(source: Any) -> list[DataFile]:
    """Return a table as Parquet files: those of a path, or what a table in memory is written to."""
    if isinstance(source, str):
        return [tables.parquet(file) for file in expand(source)]
    from counterrank.io.reading import as_table

    return tables.written([(prepare.plain_types(as_table(source)), "the table of scores")])


def targets_of(options: ReadOptions, log: LogColumns) -> tuple[str, ...]:
    """Return the targets that the tables of scores beside a log hold."""
    targets: list[str] = []
    for scores in options.scores:
        path = scores.path
        if isinstance(path, str):
            schema = tables.schema(tables.parquet(expand(path)[0]))
        else:
            from counterrank.io.reading import as_table

            schema = as_table(path).schema
        table = described(scores, schema, log)
        targets += table.targets
        log = replace(log, names=(*log.names, *table.columns))
    return tuple(dict.fromkeys(targets))


def with_scores(files: list[DataFile], options: ReadOptions) -> WithScores:
    """Return the files of a log with a column for each target that its tables of scores hold.

    A target whose kind of policy nobody gave ranks as the logger does.
    """
    reports: list[JoinedScores] = []
    policies = dict(options.policies)
    for scores in options.scores:
        files = [tables.parquet(file) for file in files]
        theirs = table_files(scores.path)
        schema = pa.unify_schemas(
            [tables.schema(file) for file in theirs], promote_options="permissive"
        )
        table = described(scores, schema, log_columns(files, options))
        files = tables.written(_ScoreJoin(files, theirs, table, options, reports).pieces())
        if options.logger is not None and not options.logger.teams:
            policies = {**{name: options.logger for name in table.targets}, **policies}
    return files, replace(options, scores=(), policies=policies), tuple(reports)


class _ScoreJoin:
    """One table of scores, joined to the candidates of a log."""

    def __init__(
        self,
        files: list[DataFile],
        theirs: list[DataFile],
        table: ScoreTable,
        options: ReadOptions,
        reports: list[JoinedScores],
    ) -> None:
        self.files, self.theirs, self.table, self.reports = files, theirs, table, reports
        self.log = log_columns(files, options)
        self.options = options
        self.items = [i for i, (shown, _) in enumerate(table.keys) if shown in self.log.item]
        self.requests = [i for i in range(len(table.keys)) if i not in self.items]
        self.scores = [f"s{j}" for j in range(len(table.columns))]

    def pieces(self) -> Iterator[tuple[pa.Table, str]]:
        """Yield the log with the columns of scores, piece by piece."""
        log_keys = tables.written((piece, "") for piece in self._log_keys())
        with prepare.connected([*self.theirs, *log_keys]) as opened:
            self._number(opened, log_keys)
            if self.log.is_long or self.log.lists_candidates or not self.items:
                yield from self._scored(opened)
            else:
                yield from self._gathered(opened)
            if self.log.is_long:
                yield from self._further(opened)
            self.reports.append(self._report(opened))

    def _read(self) -> Iterator[tuple[pa.Table, str]]:
        return ((piece, file.title) for file in self.files for piece in tables.batches(file))

    def _log_keys(self) -> Iterator[pa.Table]:
        """Yield the keys of the log: one row for each of its rows, or for each entry of its lists."""
        start = 0
        for piece, _ in self._read():
            columns: dict[str, Any] = {}
            if self.log.is_long or not self.items:
                number, row = start + np.arange(piece.num_rows), None
            else:
                lists = values.as_lists(piece[self.log.list_column], self.log.list_column)
                row, place = values.places(values.entry_counts(lists))
                number = ((start + row) << 20) + place
            columns[" id"] = pa.array(number)
            for i, (shown, _) in enumerate(self.table.keys):
                if i in self.items and row is not None:
                    columns[f"k{i}"] = lists.flatten()
                    continue
                name = shown if shown in piece.column_names else str(self.options.column(shown))
                tables.refuse_missing([name], piece.column_names)
                column = values.plain(values.one_chunk(piece[name]))
                columns[f"k{i}"] = column if row is None else column.take(pa.array(row))
            if self.log.is_long:
                place_name = str(self.options.column("position"))
                columns["p"] = values.plain(values.one_chunk(piece[place_name]))
            start += piece.num_rows
            yield prepare.plain_types(pa.table(columns))

    def _number(self, opened: Any, log_keys: Sequence[DataFile]) -> None:
        """Make the tables `log` of keys, and `scores` with one row for each key."""
        paths = ", ".join(sql.literal(os.path.abspath(file.path)) for file in log_keys)
        parts = [prepare.native_query(file, j) for j, file in enumerate(self.theirs)]
        opened.execute(f"CREATE TEMP VIEW given AS {' UNION ALL BY NAME '.join(parts)}")
        kinds = {item.name: item.type for item in tables.schema(log_keys[0])}
        theirs = sql.table(opened, "SELECT * FROM given LIMIT 0").schema
        keys, own_keys = [], []
        for i, (_, theirs_name) in enumerate(self.table.keys):
            mine, their_type = kinds[f"k{i}"], theirs.field(theirs_name).type
            key, own_key = f"k{i}", sql.name(theirs_name)
            if values.is_text(mine) != values.is_text(their_type):
                # Items in lists that are text may be numbers, and CSV has no types: 7 and '7' are one.
                key, own_key = f"CAST({key} AS VARCHAR)", f"CAST({own_key} AS VARCHAR)"
            keys.append(f"{key} AS k{i}")
            own_keys.append(f"{own_key} AS k{i}")
        opened.execute(
            f"CREATE TEMP TABLE log AS SELECT * REPLACE ({', '.join(keys)}) "
            f"FROM read_parquet([{paths}], union_by_name = true)"
        )
        numbers = ", ".join(
            f"CAST({sql.name(column)} AS DOUBLE) AS {name}"
            for name, column in zip(self.scores, self.table.columns.values(), strict=True)
        )
        by = self._by("")
        # Rows of one key that say the same are one; where they differ, nobody knows which is right.
        agreed = ", ".join(
            f"CASE WHEN min({name}) = max({name}) AND NOT isnan(max({name})) THEN min({name}) END AS {name}"
            for name in self.scores
        )
        differ = " OR ".join(f"min({name}) < max({name})" for name in self.scores)
        opened.execute(
            f"CREATE TEMP TABLE scores AS SELECT {by}, {agreed}, count(*) AS c, {differ} AS differ "
            f"FROM (SELECT {', '.join(own_keys)}, {numbers} FROM given) GROUP BY {by}"
        )

    def _by(self, table: str, keys: Sequence[int] | None = None) -> str:
        chosen = range(len(self.table.keys)) if keys is None else keys
        return ", ".join(f"{table}k{i}" for i in chosen)

    def _same(self, left: str, right: str, keys: Sequence[int] | None = None) -> str:
        chosen = range(len(self.table.keys)) if keys is None else keys
        return " AND ".join(f"{left}.k{i} = {right}.k{i}" for i in chosen)

    def _scored(self, opened: Any) -> Iterator[tuple[pa.Table, str]]:
        """Yield the log with the scores of its rows, or of the entries of its lists."""
        chosen = ", ".join(f"s.{name}" for name in self.scores)
        query = f'SELECT {chosen} FROM log l LEFT JOIN scores s ON {self._same("l", "s")} ORDER BY l." id"'
        take = prepare.taking(sql.batches(opened, query))
        for piece, shown in self._read():
            counts = np.ones(piece.num_rows, dtype=np.int64)
            in_lists = not self.log.is_long and bool(self.items)
            if in_lists:
                name = self.log.list_column
                counts = values.entry_counts(values.as_lists(piece[name], name))
            scored = take(int(counts.sum()))
            for name, column in zip(self.scores, self.table.columns, strict=True):
                array: Any = scored[name]
                if in_lists:
                    array = prepare.as_listed(array, np.arange(len(array)), counts)
                piece = piece.append_column(column, array)
            yield piece, shown

    def _gathered(self, opened: Any) -> Iterator[tuple[pa.Table, str]]:
        """Yield the log with candidates: for each ranking the items that the table scores, and those shown."""
        by, item = self._by("", self.requests), self._by("", self.items)
        opened.execute(
            f'CREATE TEMP TABLE pages AS SELECT DISTINCT " id" >> 20 AS page, {by} FROM log'
        )
        columns = ", ".join(self.scores)
        mine = f"""SELECT p.page, {self._by("s.", self.items)} AS item, {columns} FROM pages p
            JOIN scores s ON {self._same("p", "s", self.requests)}"""
        unscored = f"""SELECT DISTINCT " id" >> 20, {item}, {", ".join("NULL" for _ in self.scores)} FROM log l
            WHERE {item} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM scores s WHERE {self._same("l", "s")})"""
        lists = ", ".join(
            f"list({name} ORDER BY item) AS {name}" for name in ("item", *self.scores)
        )
        query = f"""SELECT {lists} FROM (SELECT DISTINCT page FROM pages) LEFT JOIN ({mine} UNION ALL {unscored})
            USING (page) GROUP BY page ORDER BY page"""
        take = prepare.taking(sql.batches(opened, query))
        for piece, shown in self._read():
            # Rankings without an item have no key.
            filled = int(
                (values.entry_counts(values.as_lists(piece[self.log.list_column], "")) > 0).sum()
            )
            if filled < piece.num_rows:
                raise LogError(
                    f"{shown}: a ranking shows no item, so its candidates cannot be found by their scores",
                    remedy="leave out rows without items, or add a column 'candidates'",
                )
            gathered = take(piece.num_rows)
            piece = piece.append_column(str(self.options.column("candidates")), gathered["item"])
            for name, column in zip(self.scores, self.table.columns, strict=True):
                piece = piece.append_column(column, gathered[name])
            yield piece, shown

    def _further(self, opened: Any) -> Iterator[tuple[pa.Table, str]]:
        """Yield rows of candidates that a log of shown items lacks: items of its requests in the table alone."""
        ranking = str(self.options.column("ranking"))
        keys = dict(enumerate(shown for shown, _ in self.table.keys))
        page_keys = {ranking, "ranking"} & {keys[i] for i in self.requests}
        (unshown,) = opened.execute("SELECT count(*) FROM log WHERE p IS NULL OR p < 0").fetchone()
        if not page_keys or not self.items or unshown:
            return
        schema = tables.schema(self.files[0])
        names = {f"k{i}": self._column(keys[i]) for i in keys}
        chosen = [
            *(f"s.{key} AS {sql.name(name)}" for key, name in names.items()),
            *(
                f"s.{name} AS {sql.name(column)}"
                for name, column in zip(self.scores, self.table.columns, strict=True)
            ),
        ]
        by = self._by("", self.requests)
        query = (
            f"SELECT {', '.join(chosen)} FROM scores s SEMI JOIN (SELECT DISTINCT {by} FROM log) p "
            f"ON {self._same('s', 'p', self.requests)} ANTI JOIN log l ON {self._same('s', 'l')} "
            f"ORDER BY {self._by('s.')}"
        )
        opened.execute(f"CREATE TEMP TABLE added AS {query}")
        for batch in sql.batches(opened, "SELECT * FROM added"):
            added_rows = tables.as_table(batch)
            columns = {
                name: added_rows[name].cast(schema.field(name).type)
                if name in schema.names
                else added_rows[name]
                for name in added_rows.column_names
            }
            missing = {
                item.name: pa.nulls(added_rows.num_rows, item.type)
                for item in schema
                if item.name not in columns
            }
            ordered = {**dict.fromkeys(schema.names), **columns, **missing}
            yield pa.table(ordered), self.files[0].title

    def _column(self, key: str) -> str:
        return key if key in self.log.names else str(self.options.column(key))

    def _report(self, opened: Any) -> JoinedScores:
        """Return what became of the rows of the table, and what the audit says of it."""

        def count(query: str) -> int:
            return int(opened.execute(query).fetchone()[0] or 0)

        rows = count("SELECT sum(c) FROM scores")
        keys = count("SELECT count(*) FROM scores")
        differ = count("SELECT count(*) FROM scores WHERE differ")
        hit = f"SELECT 1 FROM log l WHERE {self._same('l', 's')}"
        joined = count(f"SELECT sum(c) FROM scores s WHERE EXISTS ({hit})")
        added = self._count_added(opened, count, hit)
        orphans, candidates = rows - joined - added, count("SELECT count(*) FROM log")
        if not joined:
            raise LogError(
                f"{self.table.scores.title}: none of the {rows:,} rows finds a candidate of the log"
                f"{self._difference(opened)}",
                remedy="join by columns that mean the same in both "
                f"({listed([shown for shown, _ in self.table.keys])})",
            )
        absent = count(
            f"SELECT count(*) FROM log l WHERE NOT EXISTS (SELECT 1 FROM scores s WHERE {self._same('l', 's')})"
        )
        missing = {
            name.removesuffix("_scores"): absent
            + count(f"SELECT count(*) FROM scores s WHERE {column} IS NULL AND EXISTS ({hit})")
            for column, name in zip(self.scores, self.table.columns, strict=True)
        }
        shown = self.table.scores.title
        findings = [
            Finding(
                "scores-join",
                PASSED,
                f"{in_percent(joined / rows)} of the {rows:,} rows of {shown} "
                f"find a candidate" + (f", {added:,} name further candidates" if added else ""),
            ),
            _finding(
                "scores-orphans",
                orphans,
                rows,
                _ORPHANS,
                f"rows of {shown} name no candidate of the log",
                "scores of other days or requests, or candidates that were not logged",
                "score the requests of the log, and log every candidate",
            ),
            _finding(
                "scores-doubled",
                rows - keys,
                rows,
                _DOUBLED,
                f"rows of {shown} repeat the keys of another",
                "a table that was written twice, or scores of two models",
                "write one row per request and item",
            ),
            _finding(
                "scores-contradictory",
                differ,
                keys,
                _DOUBLED,
                f"keys of {shown} have different scores",
                "scores of two models or days in one table; they count as missing",
                "write one row per request and item",
            ),
            *(
                _finding(
                    "scores-missing",
                    lost,
                    candidates + added,
                    1.1,
                    f"candidates have no score of '{name}'",
                    "candidates that this ranker was not asked about",
                    "",
                )
                for name, lost in missing.items()
            ),
        ]
        return JoinedScores(
            shown,
            rows,
            joined,
            orphans,
            rows - keys,
            added,
            missing,
            tuple(finding for finding in findings if finding is not None),
        )

    def _count_added(self, opened: Any, count: Callable[[str], int], hit: str) -> int:
        """Return how many rows of the table name further candidates of a page that the log shows."""
        temporary = opened.execute(
            "SELECT table_name FROM duckdb_tables() WHERE temporary"
        ).fetchall()
        if ("added",) in temporary:
            return count("SELECT count(*) FROM added")
        if ("pages",) in temporary:
            page = self._same("p", "s", self.requests)
            return count(
                f"SELECT count(*) FROM scores s WHERE EXISTS (SELECT 1 FROM pages p WHERE {page}) "
                f"AND NOT EXISTS ({hit})"
            )
        return 0

    def _difference(self, opened: Any) -> str:
        """Show keys of both tables, where they have none in common."""
        for i, (shown, theirs) in enumerate(self.table.keys):
            samples = [
                {
                    row[0]
                    for row in opened.execute(
                        f"SELECT DISTINCT CAST(k{i} AS VARCHAR) FROM {table} "
                        f"WHERE k{i} IS NOT NULL ORDER BY 1 LIMIT 20000"
                    ).fetchall()
                }
                for table in ("log", "scores")
            ]
            if samples[0] and samples[1] and not samples[0] & samples[1]:
                mine, scored = (min(values_)[:30] for values_ in samples)
                return f"; '{shown}' in the log is like '{mine}', '{theirs}' in the scores like '{scored}'"
        return ""


def _finding(
    code: str, count: int, total: int, warned: float, what: str, cause: str, remedy: str
) -> Finding | None:
    if not count:
        return None
    status = WARNED if count >= warned * total else PASSED
    text = f"{count:,} of {total:,} ({in_percent(count / total)}) {what}"
    return Finding(code, status, text, (remedy,) if status is WARNED else (), cause=cause)
