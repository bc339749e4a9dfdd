"""Which rows to read: any condition in SQL, as the reader and the engines use it.

A small part of SQL is understood here, so that folders, statistics and Spark are asked
too: comparisons of a column with a value, `in (...)`, `between`, `is null`, `not`, `and`, `or` and
brackets. Any other condition on one row is DuckDB's. Text stands in single quotes, a column name
that is no plain word in double quotes. A comparison with a missing value selects nothing.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import ConfigError
from counterrank.io import sql
from counterrank.texts import listed, suggestion

Literal = str | int | float | bool | date | datetime

COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_SPELLINGS = {"==": "=", "<>": "!="}
#: Brackets and `not` may nest this deep; parsing recurses.
MOST_LEVELS = 50


#: What joins conditions, for expressions of Arrow and of Spark.
JOIN: Mapping[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_}


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition, or a part of one: of a column and values, or of other conditions."""

    #: A comparison, "in" or "is null" of a column; "not", "and" or "or" of parts.
    word: str
    column: str = ""
    values: tuple[Literal, ...] = ()
    parts: "tuple[RowCondition, ...]" = ()

    def expression(self, schema: pa.Schema) -> Any:
        """Return the condition as Arrow's."""
        if self.parts:
            found = [part.expression(schema) for part in self.parts]
            return ~found[0] if self.word == "not" else reduce(JOIN[self.word], found)
        column = pc.field(self.column)
        if self.word == "is null":
            _type_of(self.column, schema)
            return column.is_null()
        values = [_fitted(value, self.column, schema) for value in self.values]
        return _among(column, values) if self.word == "in" else COMPARE[self.word](column, *values)

    def sql(self) -> str:
        """Return the condition in SQL."""
        if self.parts:
            parts = [f"({part.sql()})" for part in self.parts]
            return f"not {parts[0]}" if self.word == "not" else f" {self.word} ".join(parts)
        values = ", ".join(map(_text, self.values))
        values = f"({values})" if self.word == "in" else values
        return f"{_name(self.column)} {self.word} {values}".rstrip()

    def columns(self) -> Iterator[str]:
        """Yield the columns it looks at."""
        if self.column:
            yield self.column
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on rows, as it was written and as it is used."""

    text: str
    #: The columns it looks at, once each.
    columns: tuple[str, ...]
    #: None where only DuckDB understands it.
    condition: RowCondition | None

    @classmethod
    def of(cls, given: "Where | str | Mapping[str, Any]") -> Self:
        """Return the condition of a text, or of columns and the value or values each must have.

        >>> Where.of("day >= 3 and not country in ('DE', 'AT')").columns
        ('day', 'country')
        >>> str(Where.of({"country": "DE", "day": [1, 2]}))
        "(country = 'DE') and (day in (1, 2))"
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str):
            return cls._of_text(given)
        if isinstance(given, Mapping) and given:
            condition = _from_table(given)
            return cls(condition.sql(), _once(condition), condition)
        raise ConfigError(
            "where is a condition like \"country = 'DE'\", or columns and their values like "
            f"{{'country': 'DE'}}; got {given!r}"
        )

    @classmethod
    def _of_text(cls, given: str) -> Self:
        """Return a condition of the small grammar, or else any condition in SQL."""
        text = given.strip()
        try:
            condition = _Parser(given).condition()
        except ConfigError:
            # What is no SQL either gets the message that says where.
            if not text or not sql.is_expression(given):
                raise
            return cls(text, sql.Expression(text, "the condition").columns, None)
        return cls(text, _once(condition), condition)

    def __str__(self) -> str:
        return self.text

    def expression(self, schema: pa.Schema) -> Any:
        """Return the condition as Arrow's, its values in the types of the schema's columns.

        Folders and statistics do not know SQL, so that nothing is left out by them.
        """
        if self.condition is None:
            self.rows(schema.empty_table())
            return pc.scalar(True)
        return self.condition.expression(schema)

    def rows(self, table: pa.Table) -> NDArray[np.int64]:
        """Return the numbers of the rows of a table that fit.

        >>> Where.of("a > 1").rows(pa.table({"a": [1, 2, None, 3]})).tolist()
        [1, 3]
        """
        if self.condition is None:
            return self._rows_in_sql(table)
        condition = self.expression(table.schema)
        number = pa.array(np.arange(table.num_rows))
        looked_at = table.select(list(self.columns)).append_column(_ROW, number)
        found: NDArray[np.int64] = looked_at.filter(condition)[_ROW].to_numpy()
        return found

    def _rows_in_sql(self, table: pa.Table) -> NDArray[np.int64]:
        import duckdb

        for name in self.columns:
            if name not in table.column_names:
                raise _no_column(name, table.column_names, "; text stands in single quotes")
        looked_at = table.select(list(self.columns))
        looked_at = looked_at.append_column(_ROW, pa.array(np.arange(table.num_rows)))
        try:
            with sql.connection() as opened:
                opened.register("log", looked_at)
                query = f"SELECT {sql.name(_ROW)}, ({self.text}\n) AS fits FROM log"
                answer = sql.table(opened, query)
        except duckdb.Error as problem:
            raise ConfigError(
                f"the condition {self.text[:200]!r} cannot be used: {sql.reason(problem)}"
            ) from None
        kind = answer.schema.types[1]
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise ConfigError(f"the condition {self.text[:200]!r} gives {kind}, not true or false")
        found: NDArray[np.int64] = answer.filter(answer["fits"].cast(pa.bool_()))[_ROW].to_numpy()
        return np.sort(found)


#: A column that no log has.
_ROW = " row"
#: Values of a list up to which each is compared by itself.
_COMPARED = 50


def _once(condition: RowCondition) -> tuple[str, ...]:
    return tuple(dict.fromkeys(condition.columns()))


def _among(column: pc.Expression, found: list[pa.Scalar]) -> Any:
    """Return `column in (values)` as Arrow's."""
    # Comparisons, where `isin` would do: only they are held against folders and statistics.
    if len(found) <= _COMPARED:
        return reduce(operator.or_, [column == value for value in found])
    # An expression of thousands of comparisons is so deep that Arrow would crash.
    values = pa.array([value.as_py() for value in found])
    ends, unknown = pc.min_max(values), pa.scalar(None, pa.bool_())
    among = pc.if_else(column.is_null(), unknown, column.isin(values))
    return (column >= ends["min"]) & (column <= ends["max"]) & among


def _from_table(given: Mapping[str, Any]) -> RowCondition:
    parts: list[RowCondition] = []
    for name, wanted in given.items():
        if isinstance(wanted, (list, tuple, set, frozenset)):
            if not wanted:
                raise ConfigError(f"where: no value is given for '{name}'")
            values = tuple(_plain(name, value) for value in wanted)
            parts.append(RowCondition("in", str(name), values))
        else:
            parts.append(RowCondition("=", str(name), (_plain(name, wanted),)))
    return parts[0] if len(parts) == 1 else RowCondition("and", parts=tuple(parts))


def _plain(name: object, value: Any) -> Literal:
    found = value.item() if isinstance(value, np.generic) else value
    if isinstance(found, (str, int, float, bool, date, datetime)):
        return found
    raise ConfigError(
        f"where: '{name}' must be a text, a number, a date, true or false, got {value!r}"
    )


def _type_of(column: str, schema: pa.Schema) -> pa.DataType:
    if column not in schema.names:
        raise _no_column(column, schema.names)
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(kind):
        raise ConfigError(
            f"rows cannot be selected by '{column}', which holds {kind}; a condition needs one "
            "value per row"
        )
    return kind


def _no_column(column: str, names: list[str], hint: str = "") -> ConfigError:
    return ConfigError(
        f"there is no column '{column}' to select by{suggestion(column, names)}; columns are "
        f"{listed(names)}{hint}"
    )


def _fitted(value: Literal, column: str, schema: pa.Schema) -> pa.Scalar:
    """Return a value as the column's type would write it, so that both compare."""
    kind = _type_of(column, schema)
    if pa.types.is_null(kind):  # nothing is known of it, and nothing fits
        return pa.scalar(value)
    holds_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    holds_text = holds_text or bool(pa.types.is_string_view(kind))
    if isinstance(value, bool) or pa.types.is_boolean(kind):
        fits = isinstance(value, bool) and pa.types.is_boolean(kind)
    elif isinstance(value, (int, float)):
        fits = not holds_text and not pa.types.is_temporal(kind)
    else:
        fits = True
    scalar = pa.scalar(value)
    try:
        if not fits:
            raise pa.ArrowInvalid
        # A number stays as it is written: 2.5 is no whole number, but may well stand between two.
        return scalar if isinstance(value, (bool, int, float)) else _as_type(scalar, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        hint = f"; write '{value}' in single quotes" if holds_text else ""
        raise ConfigError(
            f"column '{column}' holds {kind}, and {_text(value)} is none{hint}"
        ) from None


def _as_type(scalar: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    # A moment without a zone is one of UTC, as the days of a log usually are.
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        moment = scalar.cast(pa.timestamp(kind.unit))
        return pc.assume_timezone(moment, "UTC").cast(kind)
    return scalar.cast(kind)


def _name(column: str) -> str:
    if _WORD.fullmatch(column) and column.lower() not in _WORDS:
        return column
    quoted = column.replace('"', '""')
    return f'"{quoted}"'


def _text(value: Literal) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    quoted = str(value).replace("'", "''")
    return f"'{quoted}'"


_WORDS = ("and", "or", "not", "in", "is", "null", "between", "true", "false")
_WORD = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])
    | (?P<word>[^\W\d]\w*(?:\.\w+)*)
    | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_EXAMPLE = "write conditions like day >= '2026-10-01' and country in ('DE', 'AT')"


def _not(part: RowCondition) -> RowCondition:
    return RowCondition("not", parts=(part,))


class _Parser:
    """Reads one condition from the left to the right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0
        self.depth = 0

    def _tokens(self) -> Iterator[tuple[str, str, int]]:
        end = len(self.text.rstrip())
        at = 0
        while at < end:
            found = _TOKEN.match(self.text, at)
            if found is None:
                rest = self.text[at:].strip()
                self._refuse(f"'{rest[:20]}' is not understood", at)
            kind = str(found.lastgroup)
            value, start = found.group(kind), found.start(kind)
            if kind == "word" and value.lower() in _WORDS:
                kind, value = "keyword", value.lower()
            yield kind, _SPELLINGS.get(value, value), start
            at = found.end()

    def condition(self) -> RowCondition:
        if not self.tokens:
            raise ConfigError(f"where is empty; {_EXAMPLE}")
        found = self._either()
        if self.at < len(self.tokens):
            self._expected("'and', 'or' or the end")
        return found

    def _either(self) -> RowCondition:
        return self._joined("or", self._both)

    def _both(self) -> RowCondition:
        return self._joined("and", self._one)

    def _joined(self, word: str, part: Callable[[], RowCondition]) -> RowCondition:
        parts = [part()]
        while self._take("keyword", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else RowCondition(word, parts=tuple(parts))

    def _one(self) -> RowCondition:
        self.depth += 1
        if self.depth > MOST_LEVELS:
            self._refuse(f"brackets and 'not' nest more than {MOST_LEVELS} deep", 0)
        if self._take("keyword", "not"):
            found = _not(self._one())
        elif self._take("sign", "("):
            found = self._either()
            if not self._take("sign", ")"):
                self._expected("a closing bracket")
        else:
            found = self._about(self._column())
        self.depth -= 1
        return found

    def _column(self) -> str:
        kind, value, _ = self._peek()
        if kind not in ("word", "quoted"):
            self._expected("the name of a column")
        self.at += 1
        return value if kind == "word" else value[1:-1].replace('""', '"')

    def _about(self, column: str) -> RowCondition:
        kind, value, _ = self._peek()
        if kind == "sign" and value in COMPARE:
            self.at += 1
            return RowCondition(value, column, (self._literal(),))
        if self._take("keyword", "is"):
            turned = self._take("keyword", "not")
            if not self._take("keyword", "null"):
                self._expected("null")
            found = RowCondition("is null", column)
            return _not(found) if turned else found
        turned = self._take("keyword", "not")
        if self._take("keyword", "in"):
            found = RowCondition("in", column, self._list())
        elif self._take("keyword", "between"):
            low = self._literal()
            if not self._take("keyword", "and"):
                self._expected("'and' and the upper end")
            ends = ((">=", low), ("<=", self._literal()))
            parts = tuple(RowCondition(sign, column, (end,)) for sign, end in ends)
            found = RowCondition("and", parts=parts)
        else:
            self._expected("a comparison (=, !=, <, <=, >, >=, in, between, is null)")
        return _not(found) if turned else found

    def _list(self) -> tuple[Literal, ...]:
        if not self._take("sign", "("):
            self._expected("a list in brackets")
        values = [self._literal()]
        while self._take("sign", ","):
            values.append(self._literal())
        if not self._take("sign", ")"):
            self._expected("a comma or a closing bracket")
        return tuple(values)

    def _literal(self) -> Literal:
        kind, value, _ = self._peek()
        self.at += 1
        if kind == "text":
            return value[1:-1].replace("''", "'")
        if kind == "number":
            return int(value) if re.fullmatch(r"[-+]?\d{1,18}", value) else float(value)
        if kind == "keyword" and value in ("true", "false"):
            return value == "true"
        self.at -= 1
        self._expected("a value: a number, true, false, or text in single quotes like 'DE'")

    def _peek(self) -> tuple[str, str, int]:
        end = ("end", "", len(self.text))
        return self.tokens[self.at] if self.at < len(self.tokens) else end

    def _take(self, kind: str, value: str) -> bool:
        found = self._peek()[:2] == (kind, value)
        self.at += found
        return found

    def _expected(self, what: str) -> NoReturn:
        kind, value, at = self._peek()
        seen = "it ends" if kind == "end" else f"{value} stands"
        self._refuse(f"{what} is expected where {seen}", at)

    def _refuse(self, problem: str, at: int) -> NoReturn:
        raise ConfigError(
            f"the condition {self.text.strip()[:200]!r} is not understood at character {at + 1}: "
            f"{problem}; {_EXAMPLE}"
        )
