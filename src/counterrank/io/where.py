"""Which rows to read: any condition in SQL on one row, as DuckDB reads it.

Comparisons of a column with a value, `in (...)`, `between`, `is null`, `not`, `and` and `or` are
also held against folders, statistics of Parquet files and Spark tables. Any other condition is
computed by DuckDB. Text stands in single quotes, a column name that is no plain word in double
quotes. A comparison with a missing value selects nothing.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.common.arrays import Ints
from counterrank.common.errors import ConfigError
from counterrank.common.records import Json
from counterrank.common.texts import comma_separated, suggestion
from counterrank.io import sql, values

Literal = str | int | float | bool

COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "COMPARE_EQUAL": operator.eq,
    "COMPARE_NOTEQUAL": operator.ne,
    "COMPARE_LESSTHAN": operator.lt,
    "COMPARE_LESSTHANOREQUALTO": operator.le,
    "COMPARE_GREATERTHAN": operator.gt,
    "COMPARE_GREATERTHANOREQUALTO": operator.ge,
}
#: What joins conditions, for expressions of Arrow and of Spark.
JOIN: Mapping[str, Callable[[Any, Any], Any]] = {
    "CONJUNCTION_AND": operator.and_,
    "CONJUNCTION_OR": operator.or_,
}
IN, IS_NULL, NOT = "COMPARE_IN", "OPERATOR_IS_NULL", "OPERATOR_NOT"
_EXAMPLE = "write conditions like day >= '2026-10-01' and country in ('DE', 'AT'), or \"group\" = 1 for a word of SQL"
#: A column that no log has.
_ROW = " row"
#: Values of a list up to which each is compared by itself.
_COMPARED = 50


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition, or a part of one: of a column and values, or of other conditions."""

    #: What DuckDB calls the comparison of a column, or what joins the parts.
    kind: str
    column: str = ""
    values: tuple[Literal, ...] = ()
    parts: "tuple[RowCondition, ...]" = ()

    def expression(self, compared: "Callable[[RowCondition], Any]") -> Any:
        """Return the condition as an expression of Arrow or Spark; `compared` makes that of one column."""
        if not self.parts:
            return compared(self)
        operands = [condition.expression(compared) for condition in self.parts]
        return ~operands[0] if self.kind == NOT else reduce(JOIN[self.kind], operands)

    def columns(self) -> Iterator[str]:
        """Yield the columns it looks at."""
        if self.column:
            yield self.column
        for condition in self.parts:
            yield from condition.columns()


def _condition(node: Json) -> RowCondition:
    """Return a syntax tree as a condition; a KeyError tells that only DuckDB understands it."""
    kind = node["type"]
    if kind in ("COMPARE_NOT_IN", "OPERATOR_IS_NOT_NULL"):
        positive = IN if kind == "COMPARE_NOT_IN" else IS_NULL
        return RowCondition(NOT, parts=(_condition({**node, "type": positive}),))
    if kind in JOIN or kind == NOT:
        return RowCondition(kind, parts=tuple(map(_condition, node["children"])))
    if kind == "COMPARE_BETWEEN":
        ends = {"lower": "COMPARE_GREATERTHANOREQUALTO", "upper": "COMPARE_LESSTHANOREQUALTO"}
        parts = [
            {"type": word, "left": node["input"], "right": node[end]} for end, word in ends.items()
        ]
        return RowCondition("CONJUNCTION_AND", parts=tuple(map(_condition, parts)))
    if kind in COMPARE:
        column, *constants = node["left"], node["right"]
    elif kind in (IN, IS_NULL):
        column, *constants = node["children"]
    else:
        raise KeyError(kind)
    return RowCondition(kind, ".".join(column["column_names"]), tuple(map(_constant, constants)))


def _constant(node: Json) -> Literal:
    """Return a value that stands in a condition; before DuckDB 2, it has the value in its type."""
    if "value" in node:
        kind, text = node["value"]["type"]["id"], str(node["value"]["value"])
        if kind == "DECIMAL":
            text += f"e-{node['value']['type']['type_info']['scale']}"
    else:
        kind, text = node["literal"]["kind"], node["literal"]["text"]
    if kind in ("STRING", "VARCHAR"):
        return text
    if kind == "BOOLEAN":
        return text.lower() == "true"
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else float(text)


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on rows, as it was written and as it is used."""

    text: str
    #: The columns it looks at, once each.
    columns: tuple[str, ...]
    #: None where only DuckDB understands it.
    condition: RowCondition | None

    @classmethod
    def parse(cls, clause: "Where | str") -> Self:
        """Return the condition of a text.

        >>> Where.parse("day >= 3 and not country in ('DE', 'AT')").columns
        ('day', 'country')
        """
        if isinstance(clause, cls):
            return clause
        if not isinstance(clause, str):
            raise ConfigError(f"where is a condition like \"country = 'DE'\"; got {clause!r}")
        text = clause.strip()
        if not text:
            raise ConfigError(f"where is empty; {_EXAMPLE}")
        node, columns = sql.parsed(text, "the condition", remedy=_EXAMPLE, one_row=True)
        try:
            condition = _condition(node)
        except (KeyError, ValueError, RecursionError):
            return cls(text, columns, None)
        return cls(text, tuple(dict.fromkeys(condition.columns())), condition)

    def __str__(self) -> str:
        return self.text

    def expression(self, schema: pa.Schema) -> Any:
        """Return the condition as Arrow's, its values in the types of the schema's columns.

        Folders and statistics do not know SQL, so that nothing is left out by them.
        """
        if self.condition is None:
            self.rows(schema.empty_table())
            return pc.scalar(True)
        return self.condition.expression(partial(_compared, schema))

    def rows(self, table: pa.Table) -> Ints:
        """Return the numbers of the rows of a table that fit.

        >>> Where.parse("a > 1").rows(pa.table({"a": [1, 2, None, 3]})).tolist()
        [1, 3]
        """
        for name in self.columns:
            if name not in table.column_names:
                raise no_column(name, table.column_names)
        looked_at = table.select(list(self.columns))
        looked_at = looked_at.append_column(_ROW, pa.array(np.arange(table.num_rows)))
        if self.condition is None:
            looked_at, fits = self._in_sql(looked_at), pc.field("fits")
        else:
            fits = self.expression(table.schema)
        numbers: Ints = looked_at.filter(fits)[_ROW].to_numpy()
        return np.sort(numbers)

    def _in_sql(self, table: pa.Table) -> pa.Table:
        """Return the numbers of rows, and whether they fit by DuckDB."""
        subject = f"the condition {self.text[:200]!r}"
        with sql.connection() as opened, sql.plainly(f"{subject} cannot be used"):
            opened.register("log", table)
            answer = sql.table(opened, f"SELECT {sql.name(_ROW)}, ({self.text}\n) AS fits FROM log")
        if answer.num_rows != table.num_rows:
            raise ConfigError(f"{subject} makes other rows; it keeps each row once or not at all")
        kind = answer.schema.types[1]
        if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise ConfigError(f"{subject} gives {kind}, not true or false")
        return answer.set_column(1, "fits", answer["fits"].cast(pa.bool_()))


def _compared(schema: pa.Schema, condition: RowCondition) -> Any:
    """Return the comparison of a column as Arrow's."""
    column, kind = pc.field(condition.column), _type_of(condition.column, schema)
    if condition.kind == IS_NULL:
        return column.is_null()
    fitted = [_fitted(value, condition.column, kind) for value in condition.values]
    return (
        _among(column, fitted) if condition.kind == IN else COMPARE[condition.kind](column, *fitted)
    )


def _among(column: pc.Expression, scalars: list[pa.Scalar]) -> Any:
    """Return `column in (values)` as Arrow's."""
    # Comparisons, where `isin` would do: only they are held against folders and statistics.
    if len(scalars) <= _COMPARED:
        return reduce(operator.or_, [column == value for value in scalars])
    # An expression of thousands of comparisons is so deep that Arrow would crash.
    array = pa.array([value.as_py() for value in scalars])
    ends, unknown = pc.min_max(array), pa.scalar(None, pa.bool_())
    among = pc.if_else(column.is_null(), unknown, column.isin(array))
    return (column >= ends["min"]) & (column <= ends["max"]) & among


def _type_of(column: str, schema: pa.Schema) -> pa.DataType:
    if column not in schema.names:
        raise no_column(column, schema.names)
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(kind):
        raise ConfigError(
            f"rows cannot be selected by '{column}', which holds {kind}; a condition needs one "
            "value per row"
        )
    return kind


def no_column(column: str, names: list[str]) -> ConfigError:
    """Return the error about a condition on a column that no file has."""
    return ConfigError(
        f"there is no column '{column}' to select by{suggestion(column, names)}; columns are "
        f"{comma_separated(names)}; text stands in single quotes"
    )


def _fitted(value: Literal, column: str, kind: pa.DataType) -> pa.Scalar:
    """Return a value as the column's type would write it, so that both compare."""
    scalar = pa.scalar(value)
    if pa.types.is_null(kind):  # nothing is known of it, and nothing fits
        return scalar
    holds_text = values.is_text(kind)
    try:
        # A number stays as it is written: 2.5 is no whole number, but may well stand between two.
        if isinstance(value, bool) or pa.types.is_boolean(kind):
            fits = isinstance(value, bool) and pa.types.is_boolean(kind)
        elif isinstance(value, (int, float)):
            fits = not holds_text and not pa.types.is_temporal(kind)
        elif pa.types.is_timestamp(kind) and kind.tz is not None:
            # A moment without a zone is one of UTC, as the days of a log usually are.
            moment = scalar.cast(pa.timestamp(kind.unit))
            return pc.assume_timezone(moment, "UTC").cast(kind)
        else:
            return scalar.cast(kind)
        if fits:
            return scalar
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    hint = f"; write '{value}' in single quotes" if holds_text else ""
    shown = sql.literal(value) if isinstance(value, str) else str(value).lower()
    raise ConfigError(f"column '{column}' holds {kind}, and {shown} is none{hint}")
