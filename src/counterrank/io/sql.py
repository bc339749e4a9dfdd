"""DuckDB inside this process, locked: it sees the tables and files that it is given, and nothing else."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa

from counterrank.common.errors import ConfigError, CounterrankError
from counterrank.common.records import Json
from counterrank.common.texts import first_line
from counterrank.data.source import default_threads

#: What DuckDB may hold in memory; beyond, it uses the folder it is given.
MEMORY = "256MB"
#: Rows of a batch that it hands over.
BATCH = 65_536
#: Words that look like columns and are the present day or moment.
_PRESENT = ("current_date", "current_time", "current_timestamp", "localtime", "localtimestamp")

_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}


@contextmanager
def connection(
    files: Sequence[str] = (), *, folder: str = "", database: str = ":memory:", reads: bool = False
) -> Iterator[Any]:
    """Open a connection that reads `files` (any, where `reads`) and spills into `folder` alone.

    Nothing that runs in it can write, attach, load an extension or change these settings.
    """
    import duckdb

    memory = database == ":memory:"
    limits = {"memory_limit": MEMORY, "threads": str(default_threads())} if memory else {}
    opened = duckdb.connect(
        database, read_only=not memory, config={**_CONFIG, **limits, "temp_directory": folder}
    )
    try:
        opened.execute("SET TimeZone = 'UTC'")
        if not reads:
            opened.execute(f"SET allowed_paths = [{', '.join(map(literal, files))}]")
            opened.execute("SET enable_external_access = false")
        opened.execute("SET lock_configuration = true")
        yield opened
    finally:
        opened.close()


def batches(opened: Any, query: str) -> Any:
    """Return a reader of the batches of a query."""
    answer = opened.sql(query)
    if answer is None:
        raise ConfigError("the query gives no rows; it must be one SELECT")
    # The name of older versions.
    read = getattr(answer, "to_arrow_reader", None) or answer.fetch_record_batch
    return read(BATCH)


def table(opened: Any, query: str) -> pa.Table:
    """Return the answer to a query."""
    return batches(opened, query).read_all()


def name(column: str) -> str:
    """Return the name of a column in double quotes."""
    return '"' + column.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def refuse_other_than_select(query: str) -> None:
    """Raise unless a text is one statement that reads: COPY, EXPORT, ATTACH and the like are not."""
    import duckdb

    with plainly("the query is no SQL"):
        statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        kinds = (
            ", ".join(str(statement.type).rpartition(".")[2] for statement in statements)
            or "nothing"
        )
        raise ConfigError(f"the query must be one SELECT, which only reads; it holds {kinds}")


def parsed(
    text: str, what: str, *, remedy: str = "", one_row: bool = False
) -> tuple[Json, tuple[str, ...]]:
    """Return the syntax tree of a condition on one row, or of an aggregate of rows, and its columns.

    What may not run is refused; with `one_row` also what takes several rows together, or makes several of one.
    """
    expression = f"{what} {text[:200]!r}"
    node = _select_node(text, expression, remedy)
    nodes = list(_inside(node))
    if any(item.get("class") in ("SUBQUERY", "WINDOW") for item in nodes):
        raise ConfigError(f"{expression} looks at rows of its own; it may not")
    # In front of a text, an arrow takes a part of JSON.
    if any(
        item.get("syntax_type", KEYWORD) != KEYWORD and item["expr"]["class"] != "CONSTANT"
        for item in nodes
    ):
        raise ConfigError(
            f"{expression} has an arrow; a function of one value is written lambda x: x > 0"
        )
    columns = tuple(
        dict.fromkeys(item["column_names"][0] for item in nodes if item.get("column_names"))
    )
    functions = {str(item["function_name"]).lower() for item in nodes if "function_name" in item}
    changing = set(map(str.lower, columns)) & {*_PRESENT}
    if functions:
        changing |= functions & _changing()
    if one_row and (several := functions & _of_several_rows()):
        raise ConfigError(
            f"{expression} uses {min(several)}, which is not about one row; a condition keeps "
            "each row once or not at all"
        )
    if changing:
        raise ConfigError(
            f"{expression} uses {min(changing)}, which may change while the log is read; "
            "write the day itself (job files know {date} and {yesterday})"
        )
    return node["select_list"][0], columns


def _select_node(text: str, expression: str, remedy: str) -> Json:
    """Return the tree of `SELECT (text) FROM log`; raise, about `expression`, unless it is that and no more."""
    # The line end closes a comment, should there be one.
    before = "SELECT ("
    with connection() as opened:
        answer = opened.execute(
            "SELECT json_serialize_sql(?)", [f"{before}{text}\n) FROM log"]
        ).fetchall()
    try:
        tree = json.loads(answer[0][0])
    except RecursionError:
        raise ConfigError(f"{expression} nests too deep") from None
    if tree["error"]:
        # Positions are bytes of the whole query; some errors have none.
        end = int(tree.get("position", 0))
        character = len(f"{before}{text}".encode()[:end].decode(errors="ignore")) - len(before)
        cause = tree["error_message"].partition("\n")[0]
        if end > len(f"{before}{text}".encode()):
            cause = "it ends too early"
        place = f" (character {character + 1})" if character >= 0 else ""
        raise ConfigError(f"{expression} is no SQL expression: {cause}{place}", remedy=remedy)
    node: Json = tree["statements"][0]["node"]
    # Whatever closes the bracket and goes on would show here.
    if (
        len(tree["statements"]) != 1
        or node["type"] != "SELECT_NODE"
        or node["from_table"]["type"] != "BASE_TABLE"
        or len(node["select_list"]) != 1
        or node["modifiers"]
        or node.get("where_clause")
    ):
        raise ConfigError(f"{expression} must be one SQL expression", remedy=remedy)
    return node


#: How a lambda is written that is no arrow.
KEYWORD = "LAMBDA_KEYWORD"


def _inside(node: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a syntax tree but parameters of lambdas; a loop, since trees may be deep."""
    waiting: list[tuple[Any, frozenset[str]]] = [(node, frozenset())]
    while waiting:
        branch, parameters = waiting.pop()
        if isinstance(branch, list):
            waiting.extend((element, parameters) for element in reversed(branch))
        elif isinstance(branch, dict):
            if branch.get("syntax_type") == KEYWORD:
                named = (inner.get("column_names") for inner in _inside(branch["lhs"]))
                parameters |= {names[0] for names in named if names}
            if (branch.get("column_names") or [None])[0] not in parameters:
                yield branch
                waiting.extend((element, parameters) for element in branch.values())


@cache
def _changing() -> frozenset[str]:
    """Return the functions whose value is another each time: random(), now()."""
    with connection() as opened:
        rows = opened.execute(
            "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "
            "WHERE stability IS NOT NULL AND stability <> 'CONSISTENT'"
        ).fetchall()
    return frozenset(row[0] for row in rows)


@cache
def _of_several_rows() -> frozenset[str]:
    """Return the functions that take several rows, or give several: sum(), unnest()."""
    with connection() as opened:
        kinds = opened.execute(
            "SELECT lower(function_name) FROM duckdb_functions() GROUP BY 1 "
            "HAVING bool_and(function_type IN ('aggregate', 'table', 'window', 'table_macro'))"
        ).fetchall()
    return frozenset(row[0] for row in kinds)


@contextmanager
def plainly(
    failed: str, error: type[CounterrankError] = ConfigError, *, remedy: str = ""
) -> Iterator[None]:
    """Turn what DuckDB raises into one message that begins with `failed`."""
    import duckdb

    try:
        yield
    except duckdb.Error as problem:
        raise error(f"{failed}: {reason(problem)}", remedy=remedy) from None


def reason(problem: BaseException) -> str:
    """Return what DuckDB says, without the kind of its error.

    >>> reason(ValueError('Binder Error: Referenced column "a" not found'))
    'Referenced column "a" not found'
    """
    told = first_line(problem)
    kind, sign, detail = told.partition(" Error: ")
    return detail if sign and kind.replace(" ", "").isalpha() else told
