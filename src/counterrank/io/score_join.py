"""Tables of scores joined to the candidates of a log, out of core: a column of the log for each target.

Requests and items of both tables are numbered in files that DuckDB joins; the log itself is read piece
by piece, and its rows keep their order. A log that lists no candidates gets those of the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from counterrank.common.errors import ConfigError, LogError
from counterrank.common.findings import PASSED, Finding
from counterrank.common.texts import comma_separated, in_percent
from counterrank.data.events import JoinedScores
from counterrank.io import prepare, sql, tables, values
from counterrank.io.files import DataFile
from counterrank.io.join import (
    NOTED,
    KeyColumns,
    Pieces,
    TableJoin,
    counted,
    key_column,
    key_files,
    key_name,
    refuse_uneven,
    table_files,
    with_columns,
)
from counterrank.io.joined_tables import Scores
from counterrank.io.options import ReadOptions
from counterrank.io.roles import PANDAS_INDEX, named, no_column, target_of

#: Share of rows that repeat another, from which on a finding warns.
_DOUBLED = 0.001

#: Files of a log, how they are read, and what became of its tables of scores.
WithScores = tuple[list[DataFile], ReadOptions, tuple[JoinedScores, ...]]


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """A table of scores beside a log: the keys of both, and the columns of scores by their name in the log."""

    scores: Scores
    keys: tuple[tuple[str, str], ...]
    columns: dict[str, str]

    @property
    def used(self) -> set[str]:
        """The columns of the table that are looked at."""
        return {*(theirs for _, theirs in self.keys), *self.columns.values()}

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
            raise no_column("the log", shown, "for the join with scores", log.names)
        if theirs not in schema.names:
            raise no_column(scores.title, theirs, "to join by", schema.names)
    used = {theirs for _, theirs in keys}
    if scores.columns is not None:
        columns = {f"{name}_scores": column for name, column in scores.columns.items()}
        for column in columns.values():
            if column not in schema.names:
                raise no_column(scores.title, column, "with scores", schema.names)
    else:
        mapped = {
            column: column
            for column in log.options.columns.values()
            if isinstance(column, str) and column not in log.names
        }
        numeric = [
            item.name
            for item in schema
            if values.is_number(item.type) and item.name not in (*used, *log.names, *PANDAS_INDEX)
        ]
        path = scores.path if len(numeric) == 1 and isinstance(scores.path, str) else ""
        columns = {mapped.get(name) or f"{target_of(name, path)}_scores": name for name in numeric}
        if len(columns) < len(numeric):
            raise ConfigError(
                f"{scores.title}: several columns of {comma_separated(numeric)} name the same target; say which "
                'is whose, columns = {b = "score_b"} in [scores]'
            )
    if not columns:
        raise LogError(
            f"{scores.title} has no column of scores: no number beside {comma_separated(sorted(used))}",
            remedy="add one numeric column per ranker, like score_b",
        )
    if clash := sorted({*columns} & {*log.names}):
        raise ConfigError(
            f"the log has a column '{clash[0]}' already; leave one of the two out, or give the scores "
            "of the table another name (columns in [scores])"
        )
    return ScoreTable(scores, keys, columns)


def _usual_keys(scores: Scores, schema: pa.Schema, log: LogColumns) -> tuple[tuple[str, str], ...]:
    """Return the keys that nobody named: the request and the item, as both tables call them."""
    options = log.options
    unlike_keys = (pa.types.is_floating, pa.types.is_nested, pa.types.is_boolean)
    plain = [item.name for item in schema if not any(kind(item.type) for kind in unlike_keys)]
    shared_names = [name for name in plain if name in log.names]
    mine = str(options.column("ranking"))
    request = mine if mine in log.names else next(iter(named(shared_names, "ranking")), "")
    item = str(options.column("action"))
    theirs = item if item in plain else next(iter(named(plain, "action")), "")
    theirs_too = request if request in plain else next(iter(named(plain, "ranking")), "")
    keys = [(request, theirs_too)]
    if not (request and theirs_too):
        # Other columns that both have name the request together: a query and a day, say.
        further = [
            name for name in shared_names if name != theirs and not named([name], "position")
        ]
        keys = [(name, name) for name in further]
    if not keys or not theirs:
        lacking = "the request" if theirs else "the item"
        raise LogError(
            f"{scores.title}: no column is {lacking} in both tables; columns are {comma_separated(schema.names)}",
            remedy='say which belong together, as "request,item" or "log_name=scores_name" '
            "(--scores-join; on= of counterrank.Scores)",
        )
    return (*keys, ("action", theirs))


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


def targets_of(options: ReadOptions, log: LogColumns) -> tuple[str, ...]:
    """Return the targets that the tables of scores beside a log hold."""
    targets: list[str] = []
    for scores in options.scores:
        table = described(scores, tables.schema(table_files(scores.path, options.decimal)[0]), log)
        targets += table.targets
        log = replace(log, names=(*log.names, *table.columns))
    return tuple(dict.fromkeys(targets))


def with_scores(files: list[DataFile], options: ReadOptions) -> WithScores:
    """Return the files of a log with a column for each target that its tables of scores hold.

    A target whose kind of policy nobody gave ranks as the logger does.
    """
    reports: list[JoinedScores] = []
    policies = dict(options.policies)
    teams = listed_teams(log_columns(files, options).names, options)
    if teams:
        pieces = ((piece, file.title) for file in files for piece in tables.batches(file))
        files = tables.written((with_team_scores(piece, teams), title) for piece, title in pieces)
    for scores in options.scores:
        files = [tables.parquet(file) for file in files]
        theirs = table_files(scores.path, options.decimal)
        schema = pa.unify_schemas(
            [tables.schema(file) for file in theirs], promote_options="permissive"
        )
        table = described(scores, schema, log_columns(files, options))
        refuse_uneven(theirs, table.used)
        files = tables.written(_LogScores(files, theirs, table, options, reports).pieces())
        if options.logger is not None and not options.logger.teams:
            policies = {**{name: options.logger for name in table.targets}, **policies}
    return files, replace(options, scores=(), policies=policies), tuple(reports)


def listed_teams(names: Iterable[str], options: ReadOptions) -> dict[str, str]:
    """Return the columns of lists of the rankers of a draft, by ranker; none where the log has their scores."""
    teams = () if options.logger is None else options.logger.teams
    columns = {team: str(options.column(team)) for team in teams}
    scored = {str(options.column(f"{team}_scores")) for team in teams} & {*names}
    return columns if not scored and {*columns.values()} <= {*names} else {}


def with_team_scores(table: pa.Table, teams: Mapping[str, str]) -> pa.Table:
    """Return a log with lists of rankers as candidates and scores: the items of all lists, minus their places."""
    lists = {f"l{i}": values.as_lists(table[name], name) for i, name in enumerate(teams.values())}
    lists = {name: array.cast(lists["l0"].type) for name, array in lists.items()}
    # What a list does not have is nowhere in it.
    places = ", ".join(
        f"list_transform(items, lambda item: coalesce(1e0 - nullif(list_position({name}, item), 0), '-inf'::DOUBLE))"
        for name in lists
    )
    with sql.connection() as opened:
        opened.register("log", pa.table(lists))
        scored = sql.table(
            opened,
            f"SELECT items, {places} FROM (SELECT *, list_distinct(list_concat({', '.join(lists)})) AS items FROM log)",
        )
    table = table.drop_columns([*{*teams.values(), "candidates"} & {*table.column_names}])
    for name, column in zip(["candidates", *(f"{n}_scores" for n in teams)], scored, strict=True):
        table = table.append_column(name, column)
    return table


class _LogScores:
    """A log, and how a table of scores is joined to its candidates."""

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

    def pieces(self) -> Pieces:
        """Yield the log with the columns of scores, piece by piece."""
        log_files = key_files(self._read(), self._lists, self._keys)
        with prepare.connected([*self.theirs, *log_files]) as opened:
            join = ScoreJoin(opened, self.table, self.theirs, log_files)
            if self.log.is_long or self.log.lists_candidates or not self.items:
                # A reader that is held keeps the connection from its next query.
                yield from with_columns(
                    self._read(),
                    sql.batches(opened, join.of_log()),
                    [*self.table.columns],
                    self._lists,
                )
            else:
                yield from self._gathered(join)
            if self.log.is_long:
                yield from self._further(join)
            self.reports.append(join.report())

    def _read(self) -> Pieces:
        return ((piece, file.title) for file in self.files for piece in tables.batches(file))

    def _lists(self, piece: pa.Table) -> pa.Array | None:
        """Return the items that are scored, where rows list them."""
        if self.log.is_long or not self.items:
            return None
        return values.as_lists(piece[self.log.list_column], self.log.list_column)

    def _keys(self, piece: pa.Table, items: pa.Array | None) -> KeyColumns:
        for i, (shown, _) in enumerate(self.table.keys):
            if i in self.items and items is not None:
                yield f" k{i}", items.flatten(), True
            else:
                yield f" k{i}", key_column(piece, self._column(shown)), False
        if self.log.is_long:
            yield "p", key_column(piece, str(self.options.column("position"))), False

    def _column(self, key: str) -> str:
        return key if key in self.log.names else str(self.options.column(key))

    def _gathered(self, join: ScoreJoin) -> Pieces:
        """Yield the log with candidates: for each ranking the items that the table scores, and those shown."""
        reader = sql.batches(join.opened, join.of_pages(self.requests, self.items))

        def filled() -> Pieces:
            # Rankings without an item have no key.
            for piece, shown in self._read():
                if not values.entry_counts(self._lists(piece)).all():
                    raise LogError(
                        f"{shown}: a ranking shows no item, so its candidates cannot be found by their scores",
                        remedy="leave out rows without items, or add a column 'candidates'",
                    )
                yield piece, shown

        names = [str(self.options.column("candidates")), *self.table.columns]
        return with_columns(filled(), reader, names, lambda _: None)

    def _further(self, join: ScoreJoin) -> Pieces:
        """Yield rows of candidates that a log of shown items lacks: items of its requests in the table alone."""
        ranking = str(self.options.column("ranking"))
        keys = [shown for shown, _ in self.table.keys]
        page_keys = {ranking, "ranking"} & {keys[i] for i in self.requests}
        (unshown,) = join.row("SELECT count(*) FROM log WHERE p IS NULL OR p < 0")
        if not page_keys or not self.items or unshown:
            return
        names = [*map(self._column, keys), *self.table.columns]
        schema = tables.schema(self.files[0])
        for batch in sql.batches(join.opened, join.unlisted(self.requests, names)):
            rows = tables.as_table(batch)
            missing = {
                item.name: pa.nulls(rows.num_rows, item.type)
                for item in schema
                if item.name not in names
            }
            joined = {
                name: rows[name].cast(schema.field(name).type)
                if name in schema.names
                else rows[name]
                for name in names
            }
            yield (
                pa.table({**dict.fromkeys(schema.names), **joined, **missing}),
                self.files[0].title,
            )


class ScoreJoin(TableJoin):
    """The scores in a connection with the keys of a log: a table `scores` with one row for each key."""

    def __init__(
        self,
        opened: Any,
        table: ScoreTable,
        files: Sequence[DataFile],
        log_files: Sequence[DataFile],
    ) -> None:
        super().__init__(opened, table.scores, table.keys, files, log_files)
        self.by_target = table.columns
        self.scores = [f"s{j}" for j in range(len(table.columns))]
        #: The query of rows that became candidates of a page, once there are any.
        self.added = ""
        numbers = ", ".join(
            f"CAST({sql.name(column)} AS DOUBLE) AS {name}"
            for name, column in zip(self.scores, table.columns.values(), strict=True)
        )
        # Rows of one key that say the same are one; where they differ, nobody knows which is right.
        agreed = ", ".join(
            f"CASE WHEN min({name}) = max({name}) AND NOT isnan(max({name})) THEN min({name}) END AS {name}"
            for name in self.scores
        )
        differ = " OR ".join(f"min({name}) < max({name})" for name in self.scores)
        opened.execute(
            f"CREATE TEMP TABLE scores AS SELECT {self.by('')}, {agreed}, count(*) AS c, {differ} AS differ "
            f"FROM (SELECT {self.by('')}, {numbers} FROM beside) GROUP BY {self.by('')}"
        )

    def of_log(self) -> str:
        """Return the query of the scores of each row of the log's keys, in their order."""
        chosen = ", ".join(f"s.{name}" for name in self.scores)
        return f'SELECT {chosen} FROM log l LEFT JOIN scores s ON {self.same("l", "s")} ORDER BY l." id"'

    def of_pages(self, requests: Sequence[int], items: Sequence[int]) -> str:
        """Return the query of candidates and their scores, lists for each page: scored items, and those shown."""
        item, unlisted = self.by("", items), f"NOT EXISTS ({self._same_key})"
        self.opened.execute(
            f'CREATE TEMP TABLE pages AS SELECT DISTINCT " id" >> 20 AS page, {self.by("", requests)} FROM log'
        )
        columns = ", ".join(self.scores)
        of_page = self.same("p", "s", requests)
        self.added = f"SELECT 1 FROM scores s WHERE EXISTS (SELECT 1 FROM pages p WHERE {of_page}) AND {unlisted}"
        mine = f"SELECT p.page, {self.by('s.', items)} AS item, {columns} FROM pages p JOIN scores s ON {of_page}"
        unscored = (
            f'SELECT DISTINCT " id" >> 20, {item}, {", ".join("NULL" for _ in self.scores)} FROM log l '
            f"WHERE {item} IS NOT NULL AND NOT EXISTS (SELECT 1 FROM scores s WHERE {self.same('l', 's')})"
        )
        lists = ", ".join(
            f"list({name} ORDER BY item) AS {name}" for name in ("item", *self.scores)
        )
        return (
            f"SELECT {lists} FROM (SELECT DISTINCT page FROM pages) LEFT JOIN ({mine} UNION ALL {unscored}) "
            "USING (page) GROUP BY page ORDER BY page"
        )

    def unlisted(self, requests: Sequence[int], names: Sequence[str]) -> str:
        """Return the query of the keys and scores, by `names`, of items that pages of the log do not list."""
        columns = [f"s.{key_name(i)}" for i in range(len(self.keys))]
        columns += [f"s.{name}" for name in self.scores]
        chosen = (
            f"{column} AS {sql.name(name)}" for column, name in zip(columns, names, strict=True)
        )
        self.opened.execute(
            f"CREATE TEMP TABLE added AS SELECT {', '.join(chosen)} FROM scores s SEMI JOIN (SELECT DISTINCT "
            f"{self.by('', requests)} FROM log) p ON {self.same('s', 'p', requests)} ANTI JOIN log l ON "
            f"{self.same('s', 'l')} ORDER BY {self.by('s.')}"
        )
        self.added = "SELECT * FROM added"
        return self.added

    @property
    def _same_key(self) -> str:
        return f"SELECT 1 FROM log l WHERE {self.same('l', 's')}"

    def report(self) -> JoinedScores:
        """Return what became of the rows of the table, and what the audit says of it."""

        def count(query: str) -> int:
            return int(self.row(query)[0] or 0)

        title, in_log = self.title, f"EXISTS ({self._same_key})"
        rows, keys, differ, joined = map(
            int,
            self.row(
                f"SELECT sum(c), count(*), count(*) FILTER (differ), coalesce(sum(c) FILTER ({in_log}), 0) "
                "FROM scores s"
            ),
        )
        if not joined:
            raise self.none_joined(rows, "rows finds a candidate of the log")
        added = count(f"SELECT count(*) FROM ({self.added})") if self.added else 0
        candidates = count("SELECT count(*) FROM log")
        absent = count(
            f"SELECT count(*) FROM log l WHERE NOT EXISTS (SELECT 1 FROM scores s WHERE {self.same('l', 's')})"
        )
        missing = {
            name.removesuffix("_scores"): absent
            + count(f"SELECT count(*) FROM scores s WHERE {column} IS NULL AND {in_log}")
            for column, name in zip(self.scores, self.by_target, strict=True)
        }
        text = f"{in_percent(joined / rows)} of the {rows:,} rows of {title} find a candidate"
        text += f", {added:,} name further candidates" if added else ""
        orphans = rows - joined - added
        findings = [
            Finding("scores-join", PASSED, text),
            *_counted("scores-orphans", orphans, rows, title),
            *_counted("scores-doubled", rows - keys, rows, title, warned=_DOUBLED),
            *_counted("scores-contradictory", differ, keys, title, warned=_DOUBLED),
        ]
        for name, lost in missing.items():
            what = f"candidates: have no score of '{name}'"
            cause = "candidates that this ranker was not asked about"
            findings += counted("scores-missing", lost, candidates + added, what, cause, warned=1.1)
        return JoinedScores(
            title, rows, joined, orphans, rows - keys, added, missing, tuple(findings)
        )


#: What is counted of a table by code: what its rows or keys do, the cause, and the remedy.
_FINDINGS = {
    "scores-orphans": (
        "rows of {}: name no candidate of the log",
        "scores of other days or requests, or candidates that were not logged",
        "score the requests of the log, and log every candidate",
    ),
    "scores-doubled": (
        "rows of {}: repeat the keys of another",
        "a table that was written twice, or scores of two models",
        "write one row per request and item",
    ),
    "scores-contradictory": (
        "keys of {}: have different scores",
        "scores of two models or days in one table; they count as missing",
        "write one row per request and item",
    ),
}


def _counted(
    code: str, count: int, total: int, title: str, *, warned: float = NOTED
) -> list[Finding]:
    what, cause, remedy = _FINDINGS[code]
    return counted(code, count, total, what.replace("{}", title), cause, remedy, warned)
