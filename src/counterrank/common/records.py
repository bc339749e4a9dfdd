"""Results as frozen dataclasses: one way into JSON and one way back.

A row of a result is a dataclass that inherits from `Record`: its fields are the keys of its JSON form.
What a command returns inherits from `Result`, which writes files and shows itself; if it is a record
as well, from `RecordResult`. So `to_dict`, `from_dict`, `to_json` and `to_html` are written once.
"""

from __future__ import annotations

import json
import math
import os
import types
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from functools import cache
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from counterrank.common.atomic import write_text
from counterrank.common.errors import ConfigError, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console, ConsoleOptions, RenderResult

    from counterrank.report.document import Document

Path = str | os.PathLike[str]

#: A JSON object on its way to or from a file.
Json = dict[str, Any]

_UNIONS = (Union, types.UnionType)

#: Where a block of a report is shown: in every terminal, in a terminal with `--verbose`, on the page alone.
BRIEF, VERBOSE, PAGE = range(3)


def optional(**default: Any) -> Any:
    """Return a field that JSON leaves out where it is None, empty or an empty text."""
    return field(**(default or {"default": None}), metadata={"optional": True})


class Record:
    """A frozen dataclass whose fields are the keys of its JSON form.

    It can be read by key as well: `row["value"]` is `row.value`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point(Record):
    ...     x: float
    ...     names: tuple[str, ...] = ()
    >>> Point.from_dict({"x": None, "names": ["a"]})
    Point(x=nan, names=('a',))
    >>> Point(1.0)["x"], Point(float("inf")).to_dict()
    (1.0, {'x': None, 'names': []})
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def to_dict(self) -> Json:
        """Return the JSON form: plain types only, NaN and infinities as null."""
        return {
            _key(entry): plain(value)
            for entry in fields(self)
            if not _left_out(entry, value := getattr(self, entry.name))
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote.

        Raises
        ------
        ConfigError
            A key is missing or holds something else; the message says which.
        """
        instance: Self = _record(cls, content, "")
        return instance

    def flaw(self) -> tuple[str, str] | None:
        """Return a field that does not fit the others, and what it is not; None where all fit."""
        return None

    @classmethod
    def updated(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a JSON object that an older version wrote under the names of today's fields."""
        return record

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(entry.name for entry in fields(self))

    def get(self, key: str, default: Any = None) -> Any:
        """Return a field by its name, or the default where there is none."""
        return getattr(self, key) if key in self.keys() else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(key)
        return getattr(self, key)


def unequal(record: Record, first: str, second: str) -> tuple[str, str] | None:
    """Return the flaw of two lists that are not of one length; None where they are."""
    if len(record[first]) == len(record[second]):
        return None
    return second, f"as long as '{first}'"


def square(rows: Sequence[Sequence[float]]) -> bool:
    """Return whether rows are a square matrix of finite numbers.

    >>> square([[1.0, 2.0], [3.0, 4.0]]), square([[1.0], [2.0]]), square([[math.nan]])
    (True, False, False)
    """
    return all(len(row) == len(rows) and all(map(math.isfinite, row)) for row in rows)


class Result:
    """What a command returns: `summary()`, `table`, `plot()`, `to_html(path)`, `to_markdown(path)`, `save(path)`.

    `counterrank.load(path)` reads it back. In notebooks and terminals it shows itself.
    """

    __slots__ = ()
    #: The name and version of its JSON form.
    SCHEMA: ClassVar[str]
    #: What people call it.
    NAME: ClassVar[str]
    #: The key of the JSON form whose rows are its table.
    ROWS: ClassVar[str]
    #: The module whose `document` makes blocks of it; it reads results, so it is imported when it is asked.
    REPORT: ClassVar[str]

    @abstractmethod
    def to_dict(self) -> Json:
        """Return the JSON form."""

    def document(self, detail: int = PAGE) -> Document:
        """Return what the result says as blocks, from which page, terminal and notebook are made.

        A terminal shows what is `BRIEF` or `VERBOSE`; blocks of more detail are then not made.
        """
        shown: Document = import_module(self.REPORT).document(self, detail)
        return shown

    def summary(self) -> str:
        """Return what the result says in a few sentences, one per line."""
        return "\n".join(self.document(BRIEF).sentences())

    @property
    def table(self) -> Any:
        """The main numbers as a pandas data frame (extra `frames`)."""
        return require("pandas", extra="frames").json_normalize(self._rows(), sep="_")

    def _rows(self) -> list[Json]:
        """Return the rows of the table as JSON has them."""
        rows: list[Json] = self.to_dict()[self.ROWS]
        return rows

    def save(self, path: Path) -> None:
        """Write the result as JSON, whole or not at all; `counterrank.load` reads it."""
        self.to_json(path)

    def to_json(self, path: Path | None = None) -> str:
        """Return the result as JSON, and write it to `path` if one is given."""
        return write_json(self.to_dict(), path)

    def to_html(self, path: Path | None = None) -> str:
        """Return one self-contained page, and write it to `path` if one is given."""
        from counterrank.report.html import page

        text = page(self.document())
        if path is not None:
            write_text(path, text)
        return text

    def to_markdown(self, path: Path | None = None) -> str:
        """Return what a terminal shows as Markdown, and write it to `path` if one is given."""
        from counterrank.report.markdown import markdown

        text = markdown(self.document(BRIEF))
        if path is not None:
            write_text(path, text)
        return text

    def plot(self, kind: str = "") -> Figure:
        """Return charts of the report as a matplotlib figure; `figure.savefig("lift.svg")` keeps it.

        Without a kind the first chart; a kind that does not exist is answered with those that do.
        Needs the extra `plots`.
        """
        from counterrank.report.pictures import draw

        return draw(self.document(), kind)

    def _repr_html_(self) -> str:
        from counterrank.report.html import fragment

        return fragment(self.document())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from counterrank.report.terminal import renderables

        yield from renderables(self.document(BRIEF))

    def __str__(self) -> str:
        """Return what a terminal shows."""
        return printed(self)

    @classmethod
    def schemas(cls) -> tuple[str, ...]:
        """Return the schema that is written, and those of older versions, which can be read as well."""
        name, _, version = cls.SCHEMA.rpartition("/")
        return tuple(f"{name}/{number}" for number in range(int(version), 0, -1))

    @classmethod
    def check_schema(cls, content: Mapping[str, Any]) -> None:
        """Raise a ConfigError where a JSON object is no result of this kind, also not of an older version."""
        if content.get("schema") not in cls.schemas():
            raise ConfigError(
                f"a result of the schema '{cls.SCHEMA}' is expected here, not {content.get('schema')!r}"
            )


class RecordResult(Result, Record):
    """A result whose fields are the keys of its JSON form, beside `schema`."""

    __slots__ = ()

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {"schema": self.SCHEMA, **Record.to_dict(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the result that `to_dict` wrote.

        Raises
        ------
        ConfigError
            It is a result of another kind, or a damaged one.
        """
        cls.check_schema(content)
        return super().from_dict(content)


def printed(result: object, width: int = 110) -> str:
    """Return what a terminal of so many columns shows of a result, without colours."""
    import io

    from rich.console import Console

    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(result)
    return stream.getvalue()


def write_json(document: Json, path: Path | None = None) -> str:
    """Return a JSON document, and write it to `path` if one is given."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if path is not None:
        write_text(path, text)
    return text


def plain(value: Any) -> Any:
    """Return a value as JSON has it.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(value, RecordResult):
        return Record.to_dict(value)  # inside another result it has no schema of its own
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _left_out(entry: Field[Any], value: Any) -> bool:
    return bool(entry.metadata.get("optional")) and not value and not isinstance(value, float)


def _key(entry: Field[Any]) -> str:
    """Return what JSON calls a field: its name, unless Python does not allow that."""
    return str(entry.metadata.get("key", entry.name))


@cache
def _hints(kind: type) -> Json:
    return get_type_hints(kind)


def _record(kind: Any, document: Any, where: str) -> Any:
    """Return a record of this kind; a key that is missing or null takes the field's default."""
    if not isinstance(document, Mapping):
        raise _damaged(where, "an object")
    document = kind.updated(document)
    hints: Json = _hints(kind)
    read: Json = {}
    for entry in fields(kind):
        key, hint = _key(entry), hints[entry.name]
        place, value = f"{where}.{key}".lstrip("."), document.get(key)
        required = entry.default is MISSING and entry.default_factory is MISSING
        # A number that is written as null is not known; one that is not written has its default.
        unknown = hint in (float, object, Any) and (required or key in document)
        if value is None and not unknown:
            if not required:
                continue
            origin: Any = get_origin(hint)
            if origin not in _UNIONS:
                raise _damaged(place, "there")
        read[entry.name] = value_of(hint, value, place)
    record: Record = kind(**read)
    if wrong := record.flaw():
        raise _damaged(f"{where}.{wrong[0]}".lstrip("."), wrong[1])
    return record


def value_of(hint: Any, value: Any, where: str) -> Any:
    """Return a JSON value as the type that a field is annotated with.

    >>> value_of(tuple[float, ...], [1, None], "shares")
    (1.0, nan)
    """
    if hint is Any or hint is object:
        return value
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        if value not in inner:
            raise _damaged(where, f"one of {', '.join(map(repr, inner))}")
        return value
    if origin in _UNIONS:
        alternative = next(element for element in inner if element is not types.NoneType)
        return None if value is None else value_of(alternative, value, where)
    if origin is tuple:
        return tuple(
            value_of(inner[0], element, f"{where}[{index}]")
            for index, element in enumerate(_checked(value, list, where, "a list"))
        )
    if origin is dict:
        members = _checked(value, dict, where, "an object")
        return {
            key: value_of(inner[1], element, f"{where}.{key}") for key, element in members.items()
        }
    if isinstance(hint, type) and issubclass(hint, Record):
        return _record(hint, value, where)
    if isinstance(hint, type) and issubclass(hint, tuple):
        # A class of its own for a list of records.
        of_list: Any = hint
        return of_list(value_of(of_list.__orig_bases__[0], value, where))
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    # JSON may hold a whole number of 400 digits, which is none that anybody measured.
    huge = isinstance(value, int) and abs(value) >= 2**63
    if hint is float:
        if isinstance(value, bool) or huge or not isinstance(value, (int, float, types.NoneType)):
            raise _damaged(where, "a number")
        return math.nan if value is None else float(value)
    if hint is int and (isinstance(value, bool) or huge):
        raise _damaged(where, "a whole number")
    if hint in (bool, int, str):
        return _checked(
            value, hint, where, {bool: "true or false", int: "a whole number"}.get(hint, "a text")
        )
    try:
        return hint(value)  # a name of an enumeration
    except ValueError:
        raise _damaged(where, f"one of {', '.join(map(str, hint))}") from None


def _checked(value: Any, kind: type, where: str, words: str) -> Any:
    if not isinstance(value, kind):
        raise _damaged(where, words)
    return value


def _damaged(where: str, words: str) -> ConfigError:
    return ConfigError(f"this result is damaged: '{where}' is not {words}")
