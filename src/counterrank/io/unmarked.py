"""Rows that are positions of rankings though nobody says so: known by the names or the content of columns."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from counterrank.errors import LogError
from counterrank.io import values
from counterrank.io.options import ReadOptions
from counterrank.io.roles import named
from counterrank.messages import say

_LONG_ROLES = ("ranking", "position", "action", "reward", "propensity")
#: Rows in which positions are looked for by content; rankings stand together, or the log is small.
_SEEN = 1000


@dataclass(frozen=True)
class UsualColumns:
    """The columns of a table by the names that people give to roles, without those an option names."""

    table: pa.Table
    options: ReadOptions

    def of(self, role: str) -> str | None:
        """Return the column that has one of the names people give to a role, unless it is spoken for."""
        given = self.options.columns.get(role)
        if isinstance(given, str) and given in self.table.column_names:
            return given
        return next(iter(named(self._unspoken, role)), None)

    @cached_property
    def _unspoken(self) -> list[str]:
        """Columns that no option names."""
        options = self.options
        # A column the user gave a part has that part, however telling its name is: a "rank" that is
        # context must not be taken for the position.
        spoken = {
            *(options.context or ()),
            *(options.segments or ()),
            *options.keep,
            options.unit,
            *options.columns.values(),
        }
        return [name for name in self.table.column_names if name not in spoken]

    def refuse_positions(self) -> None:
        """Raise when rows look like positions: read as rankings of one item, they would give a wrong answer."""
        position, ranking = self.of("position"), self.of("ranking")
        if position is not None and _counts_up(self.table[position]):
            raise self._unmarked(f"'{position}' counts them", say("--context", position))
        if ranking is not None and _repeats(self.table[ranking]):
            raise self._unmarked(f"'{ranking}' repeats from row to row", say("--unit", ranking))
        counted = self._counted()
        if counted is not None:
            ranking, position = counted
            raise self._unmarked(
                f"'{position}' counts them within each '{ranking}'",
                say("--unit", ranking),
                ranking=ranking,
                position=position,
            )

    def _counted(self) -> tuple[str, str] | None:
        """Return a column whose every value has rows numbered from 0 or 1 on, and the column of those numbers.

        Positions, whatever they are called.
        """
        start = self.table.slice(0, _SEEN)
        roles = {self.options.column(role) for role in ("action", "reward", "propensity")}
        free = [name for name in self._unspoken if name not in roles]
        plain = [name for name in free if not pa.types.is_nested(start[name].type)]
        for position in plain:
            if not _counts_up(start[position]) or start[position].null_count:
                continue
            for ranking in plain:
                if ranking != position and _numbers_within(start[ranking], start[position]):
                    return ranking, position
        return None

    def _unmarked(self, seen: str, own: str, **known: str) -> LogError:
        """The way out for rows that are positions, and `own` for rows that only look like it."""
        found = {role: known.get(role) or self.of(role) or "NAME" for role in _LONG_ROLES}
        columns = ",".join(f"{role}={name}" for role, name in found.items() if role != name)
        return LogError(
            f"each row seems to be one position of a ranking ({seen}), not a ranking. Say "
            f"{say('--columns', columns)} to have them put together",
            remedy=f"if each row is a ranking of its own, say {own}",
        )


def _counts_up(column: pa.ChunkedArray) -> bool:
    """Whether a column holds small whole numbers from 0 or 1 upwards, more than one of them."""
    if not pa.types.is_integer(column.type):
        return False
    found = pc.unique(column).drop_null().to_pylist()
    return 1 < len(found) <= 1000 and min(found) in (0, 1) and max(found) <= 1000


def _numbers_within(groups: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Whether the rows of each group are numbered without a gap, all from 0 or all from 1.

    Groups have at least two rows on average; the last one may be cut.
    """
    rows = pa.table({"group": values.plain(values.one_chunk(groups)), "number": numbers})
    kinds = ("min", "max", "count", "count_distinct")
    found = rows.group_by("group").aggregate([("number", kind) for kind in kinds])
    low, high, count, distinct = (found[f"number_{kind}"].to_numpy() for kind in kinds)
    gapless = (low == low.min()) & (high - low + 1 == count) & (distinct == count)
    return bool(gapless.all()) and 2 <= len(low) <= rows.num_rows / 2


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether at least a fifth of the rows have the value of the row above."""
    array = values.plain(values.one_chunk(column))
    if len(array) < 2 or pa.types.is_nested(array.type):
        return False
    same = pc.sum(pc.equal(array.slice(1), array.slice(0, len(array) - 1))).as_py() or 0
    return bool(same * 5 >= len(array))
