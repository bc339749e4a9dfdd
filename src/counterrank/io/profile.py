"""What the values of a table's columns look like: their form, how many there are, what they agree on in groups.

Everything is counted by DuckDB over the whole table, or over some of its groups where it is large, so that
rows in any order and names in any language tell the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from counterrank.io import prepare, sql
from counterrank.io.files import DataFile
from counterrank.io.roles import named

#: Rows in which groups are looked at; of larger tables, some of the groups.
GROUPED_ROWS = 300_000
#: Rows of a group, on average, from which on they are numbered.
_SEVERAL = 1.2
#: Distinct values of a column that are looked for in another table.
LOOKED_UP = 2_000
#: Seconds since 1970 of the years 2000 and 2040, and the longest a log is, for whole numbers that are times.
_EPOCH, _LONGEST_LOG = (946_684_800, 2_208_988_800), 100_000_000


@dataclass(frozen=True, slots=True)
class Column:
    """The values of a column: their form, how many are there and differ, their range and the zeros among them."""

    name: str
    #: "text", "whole", "number", "truth", "time" or "other".
    form: str
    filled: int
    levels: int
    low: float = 0.0
    high: float = 0.0
    zeros: int = 0

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers or truth values."""
        return self.form in ("whole", "number", "truth")

    @property
    def may_be_key(self) -> bool:
        """Whether it may hold ids."""
        return self.form in ("text", "whole")


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares of groups in which a column has at most one value, and in which all its values differ."""

    constant: float
    distinct: float


class Profile:
    """A table in a connection, and what its columns hold."""

    def __init__(self, opened: Any, table: str, files: Sequence[DataFile]) -> None:
        self.opened, self.table = opened, table
        parts = [prepare.native_query(file, number) for number, file in enumerate(files)]
        query = " UNION ALL BY NAME ".join(parts)
        places = f"{sql.name(prepare.FILE)}, {sql.name(prepare.ROW)}"
        opened.execute(f"CREATE TEMP VIEW {table} AS SELECT * EXCLUDE ({places}) FROM ({query})")
        schema = opened.execute(f"DESCRIBE {table}").fetchall()
        self.types = {row[0]: str(row[1]) for row in schema}
        self.rows = self.count("true")
        self.columns = {name: self._column(name, written) for name, written in self.types.items()}

    def first(self, query: str) -> tuple[Any, ...]:
        """Return the first row of an answer."""
        row: tuple[Any, ...] = self.opened.execute(query).fetchall()[0]
        return row

    def _column(self, name: str, written: str) -> Column:
        value = sql.name(name)
        if "[" in written or written.startswith(("STRUCT", "MAP", "BLOB", "UNION")):
            return Column(name, "other", 0, 0)
        counts = f"count({value}), count(DISTINCT {value})"
        if written.startswith(("TIMESTAMP", "DATE", "TIME")):
            return Column(name, "time", *self.first(f"SELECT {counts} FROM {self.table}"))
        if written == "VARCHAR":
            filled, levels, times, numbers = self.first(
                f"SELECT {counts}, count(TRY_CAST({value} AS TIMESTAMP)), count(TRY_CAST({value} AS DOUBLE)) "
                f"FROM {self.table}"
            )
            is_time = filled and times == filled and numbers < filled
            return Column(name, "time" if is_time else "text", filled, levels)
        number = f"CAST({value} AS DOUBLE)"
        filled, levels, low, high, zeros, is_whole = self.first(
            f"SELECT {counts}, min({number}) FILTER (isfinite({number})), max({number}) FILTER (isfinite({number})), "
            f"count(*) FILTER ({number} = 0), bool_and({number} = floor({number})) FROM {self.table}"
        )
        form = "truth" if written == "BOOLEAN" else "whole" if is_whole else "number"
        return Column(name, form, filled, levels, low or 0.0, high or 0.0, zeros)

    def is_epoch(self, column: Column) -> bool:
        """Whether whole numbers are seconds since 1970, or thousandths and millionths of them."""
        if column.form != "whole" or column.levels < 2:
            return False
        return any(
            scale * _EPOCH[0] <= column.low
            and column.high <= scale * _EPOCH[1]
            and column.high - column.low <= scale * _LONGEST_LOG
            for scale in (1, 1e3, 1e6)
        )

    def some_groups(self, group: str) -> str:
        """Return the condition that leaves whole groups of about `GROUPED_ROWS` rows."""
        share = max(1, self.rows // GROUPED_ROWS)
        return f"{sql.name(group)} IS NOT NULL AND hash({sql.name(group)}) % {share} = 0"

    def agreement(
        self, group: str, names: Iterable[str], where: str = "true"
    ) -> dict[str, Agreement]:
        """Return of each column in how many groups it has one value, and in how many all of them differ."""
        chosen = list(names)
        if not chosen:
            return {}
        counts = ", ".join(
            f"count(DISTINCT {value}) AS d{i}, count({value}) AS n{i}"
            for i, value in enumerate(map(sql.name, chosen))
        )
        shares = ", ".join(
            f"coalesce(avg(CAST(d{i} <= 1 AS INT)), 0), coalesce(avg(CAST(d{i} = n{i} AS INT)), 0)"
            for i in range(len(chosen))
        )
        row = self.first(
            f"SELECT {shares} FROM (SELECT {counts} FROM {self.table} WHERE {self.some_groups(group)} "
            f"AND {where} GROUP BY {sql.name(group)})"
        )
        return {
            name: Agreement(*pair) for name, *pair in zip(chosen, row[::2], row[1::2], strict=True)
        }

    def numbered(self, group: str, numbers: Iterable[Column]) -> dict[str, float]:
        """Return the share of groups that each column numbers without a gap, of those that number several rows."""
        shares = {}
        for column in numbers:
            if column.name == group:
                continue
            # The first position is 0 where there are zeros, else 1.
            value, start = sql.name(column.name), 0 if column.zeros else 1
            share, size = self.first(
                f"SELECT avg(CAST(n = d AND low = {start} AND high - low + 1 = n AS INT)), avg(n) FROM "
                f"(SELECT count({value}) AS n, count(DISTINCT {value}) AS d, min({value}) AS low, max({value}) AS high "
                f"FROM {self.table} WHERE {value} >= 0 AND {self.some_groups(group)} GROUP BY {sql.name(group)})"
            )
            if size is not None and size >= _SEVERAL:
                shares[column.name] = float(share)
        return shares

    def times(self, names: Iterable[str]) -> list[str]:
        """Return the columns that may be times, the finest first: stamps, seconds since 1970, and what is called so."""
        columns = [self.columns[name] for name in names]
        hinted = named([c.name for c in columns if c.form in ("whole", "text")], "time")
        stamps = [c for c in columns if c.form == "time" or c.name in hinted or self.is_epoch(c)]
        return [column.name for column in sorted(stamps, key=lambda column: -column.levels)]

    def count(self, where: str) -> int:
        """Return the number of rows that fit a condition."""
        return int(self.first(f"SELECT count(*) FROM {self.table} WHERE {where}")[0])

    def text(self, name: str) -> str:
        """Return SQL of a key as text, 7 and 7.0 alike."""
        value = sql.name(name)
        is_whole = self.columns[name].form == "whole"
        return (
            f"CAST(CAST({value} AS BIGINT) AS VARCHAR)" if is_whole else f"CAST({value} AS VARCHAR)"
        )

    def overlap(self, name: str, second: Profile, column: str) -> float:
        """Return the share of the values of one column that the column of another table has, or the other way round."""

        def contained(inner: Profile, key: str, outer: Profile, outer_key: str) -> float:
            share = inner.first(
                f"SELECT avg(CAST(v IN (SELECT {outer.text(outer_key)} FROM {outer.table}) AS INT)) FROM "
                f"(SELECT DISTINCT {inner.text(key)} AS v FROM {inner.table} WHERE {sql.name(key)} IS NOT NULL "
                f"ORDER BY hash(v) LIMIT {LOOKED_UP})"
            )[0]
            return float(share or 0)

        if not (self.columns[name].may_be_key and second.columns[column].may_be_key):
            return 0.0
        return max(contained(second, column, self, name), contained(self, name, second, column))

    def pairs_in(self, names: tuple[str, str], second: Profile, columns: tuple[str, str]) -> float:
        """Return the share of pairs of the other table, of groups that this one has, that stand in this one too."""
        mine_as = ", ".join(f"{self.text(name)} AS k{i}" for i, name in enumerate(names))
        theirs = ", ".join(f"{second.text(name)} AS k{i}" for i, name in enumerate(columns))
        share = self.first(
            f"WITH mine AS (SELECT DISTINCT {mine_as} FROM {self.table}), theirs AS (SELECT DISTINCT {theirs} FROM "
            f"{second.table}), looked AS (SELECT * FROM theirs WHERE k0 IN (SELECT k0 FROM mine) "
            f"ORDER BY hash(k0, k1) LIMIT {LOOKED_UP}) "
            "SELECT count(m.k0) / nullif(count(*), 0) FROM looked l LEFT JOIN mine m ON l.k0 = m.k0 AND l.k1 = m.k1"
        )[0]
        return float(share or 0)


def may_be_position(column: Column) -> bool:
    """Whether a column may number the places of a page: small whole numbers from 0 or 1, -1 for none."""
    small = -1 <= column.low <= 1 and 1 <= column.high <= 1000 and column.levels >= 2
    return column.form == "whole" and small
