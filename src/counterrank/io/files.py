"""Files: which a path means, what format each has, and what keeps a bad one from doing harm.

A name tells the format and the first bytes check it. No file takes more than it may: bytes are
unpacked up to a sane amount, tables are held while they fit. Before a run, paths of results are
checked against those of the data.
"""

import errno
import fnmatch
import glob
import io
import os
import re
import zlib
from collections.abc import Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from counterrank.common import atomic, stores
from counterrank.common.errors import (
    ConfigError,
    CounterrankError,
    LogError,
    OutputError,
    out_of_memory,
)
from counterrank.common.messages import say
from counterrank.common.texts import first_line


def not_utf8(what: str) -> LogError:
    """Return the error about bytes that are no UTF-8 text."""
    return LogError(
        f"{what} holds text that is not UTF-8",
        remedy="write it again in UTF-8, with iconv -f latin1 -t utf-8, say",
    )


@contextmanager
def guard(what: str, *, prefix: bool = False) -> Iterator[None]:
    """Turn what Arrow or a codec raises into a LogError about `what`; with `prefix`, also name it in our own."""
    try:
        yield
    except CounterrankError as problem:
        if not prefix or what in str(problem):
            raise
        raise problem.about(what) from None
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise not_utf8(what) from None
    except tuple(_PLAIN) as problem:
        text = next(text for kind, text in _PLAIN.items() if isinstance(problem, kind))
        raise LogError(text.format(what)) from None
    except (pa.ArrowException, OSError, EOFError, zlib.error) as problem:
        raise _damaged(what, problem) from None
    except (OverflowError, ValueError, TypeError, KeyError, IndexError) as problem:
        raise LogError(f"{what} has content that cannot be used: {first_line(problem)}") from None


@contextmanager
def plainly(failed: str) -> Iterator[None]:
    """Turn whatever another library raises into one message that begins with `failed`, without secrets."""
    try:
        yield
    except CounterrankError:
        raise
    except Exception as problem:
        message = stores.without_secrets(first_line(problem))
        raise LogError(f"{failed}: {message}") from None


#: A damaged file may claim to hold anything.
_TOO_MUCH = "{} needs more memory than there is, or is damaged"
#: What errors that say nothing else are called.
_PLAIN: dict[type[Exception], str] = {
    FileNotFoundError: "there is no file {}",
    PermissionError: "no permission to read {}",
    IsADirectoryError: "{} is a folder, not a file",
    MemoryError: _TOO_MUCH,
}


def _damaged(what: str, problem: BaseException) -> LogError:
    if out_of_memory(problem):
        return LogError(_TOO_MUCH.format(what))
    if isinstance(problem, pa.ArrowInvalid) and re.search("utf-?8", str(problem), re.IGNORECASE):
        return not_utf8(what)
    if isinstance(problem, OSError) and problem.errno == errno.ELOOP:
        circle = f"{what} is a symbolic link that leads back to itself"
        return LogError(circle, remedy="name the file that it should lead to")
    return LogError(
        f"{what} cannot be read: it is damaged or of another format ({first_line(problem)})",
        remedy="write the file again, or name it after the format it has",
    )


#: Keys of the folders above a file and what they say.
Partitions = tuple[tuple[str, pa.Scalar], ...]


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file: where it is, its format and compression, and what the folders above it say.

    `stamp` is size, time of change and identity when the file was found; `decimal` the sign in CSV
    numbers. `table` are the columns of the table it belongs to, where one says so: those that were
    added after the file was written are null in it.
    """

    path: str
    format: str
    compression: str | None = None
    partitions: Partitions = ()
    decimal: str = "."
    stamp: stores.Stamp | None = None
    table: pa.Schema | None = field(default=None, compare=False)
    #: What messages call it, where that is not its path: the data it was made of.
    shown: str = ""
    #: The temporary folder it lies in, if any, which lasts as long as its files.
    room: Any = field(default=None, compare=False)
    #: The Parquet file that was made of it, once it was read.
    as_parquet: "list[DataFile]" = field(default_factory=list, compare=False, repr=False)

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.shown or self.path

    @property
    def size(self) -> int:
        """Bytes of the file when it was found."""
        return (self.stamp or stores.stamp(self.path))[0]

    def refuse_change(self) -> None:
        """Raise if the file is no longer the one that was found: sums over two versions of it mean nothing."""
        if self.stamp is not None and stores.stamp(self.path) != self.stamp:
            raise LogError(
                f"{self.title} was changed while it was being read",
                remedy="read a copy that nobody writes to",
            )


@contextmanager
def steady(file: DataFile) -> Iterator[None]:
    """Check that the file is the one that was found, also after the block, whatever happened in it."""
    if not stores.is_url(file.path):
        file.refuse_change()
    # A store is asked once: what was replaced before is still another after.
    try:
        yield
    except (CounterrankError, OSError, pa.ArrowException):
        file.refuse_change()
        raise
    file.refuse_change()


def expand(
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    decimal: str = ".",
    version: int | None = None,
) -> list[DataFile]:
    """Return the data files a path stands for, in the order of their names.

    Of a Delta table, those of one version.
    """
    remote = stores.is_url(path)
    text = os.fspath(path) if remote else os.path.expanduser(os.fspath(path))
    # A file of this machine may be called "log[1].csv".
    kind = "" if remote and stores.has_pattern(text) else stores.kind_of(text)
    if kind == "folder":
        from counterrank.io import warehouses

        if warehouses.is_delta(text):
            entries, schema = warehouses.delta_files(text, version)
            paths, partitions = zip(*entries, strict=True)
            files = _files(list(paths), "parquet", decimal, list(partitions))
            return [replace(file, table=schema) for file in files]
        warehouses.refuse_iceberg(text)
    if version is not None:
        refuse_version(version)
    if kind == "file":
        # One file alone has no partitions: a "day=3" above it says nothing that tells its rows apart.
        return [_file(text, format, (), decimal)]
    if kind == "device":
        raise LogError(
            f"{text} is a pipe or a device, and a log is read more than once; write it to a file"
        )
    if remote:
        pattern = stores.has_pattern(text)
        folder, names = stores.found_at(text)
        inside = [stores.joined(folder, name) for name in names if _is_data(name)]
    else:
        pattern = glob.has_magic(text)
        names = [text] if kind else glob.glob(text, recursive=True)
        inside = [str(file) for name in sorted(map(Path, names)) for file in _data_in(name)]
    if not names:
        raise LogError(f"there is no file {text}" + (" that matches" if pattern else ""))
    if not inside:
        raise LogError(f"the folder {text} holds no data files ({', '.join(EXTENSIONS)})")
    return _files(inside, format, decimal)


def refuse_version(version: int) -> None:
    """Raise where a version is asked of what has none."""
    raise ConfigError(
        f"{say('--version', str(version), str(version))} is for Delta tables; this log has no versions"
    )


def _is_data(path: str) -> bool:
    """Whether a file in a folder is data; Spark and others keep markers and temporary files beside it."""
    names = path.split("/")
    return has_known_extension(names[-1]) and not any(name[:1] in (".", "_") for name in names)


def _files(
    paths: list[str], format: str | None, decimal: str, partitions: list[Partitions] | None = None
) -> list[DataFile]:
    """Return files of several paths, and what is said of each: by its folders, unless it is given."""
    pairs = _typed([_partitions(path) for path in paths]) if partitions is None else partitions
    # A store answers many at a time; files of this machine are there at once.
    with ThreadPoolExecutor(_ASKED_AT_ONCE if stores.is_url(paths[0]) else 1) as pool:
        return list(pool.map(lambda path, pair: _file(path, format, pair, decimal), paths, pairs))


#: Files of a store that are looked at together.
_ASKED_AT_ONCE = 16


def _data_in(path: Path) -> list[Path]:
    """Return the data files in a folder, or the one file."""
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if _is_data(file.relative_to(path).as_posix()) and file.is_file()
    )


def _file(path: str, format: str | None, partitions: Partitions, decimal: str) -> DataFile:
    with guard(path):
        stamp, head = stores.glance(path, 16)
    detected, compression = recognise(path, head, format)
    return DataFile(path, detected, compression, partitions, decimal, stamp)


def _partitions(path: str) -> list[tuple[str, str]]:
    pairs = (folder.partition("=") for folder in path.partition("?")[0].split("/")[:-1])
    return [(key, unquote(value)) for key, sign, value in pairs if sign and key]


def _typed(all_pairs: list[list[tuple[str, str]]]) -> list[Partitions]:
    """Partition values as integers where every one of a key is, as text otherwise; Hive's name for null is null."""
    texts: dict[str, set[str]] = {}
    for pairs in all_pairs:
        for key, value in pairs:
            texts.setdefault(key, set()).add(value)
    null = "__HIVE_DEFAULT_PARTITION__"
    kinds = {
        # Longer ones are names: a column of numbers does not hold them.
        key: pa.int64()
        if all(re.fullmatch(r"-?\d{1,18}", value) for value in texts_of_key - {null})
        else pa.string()
        for key, texts_of_key in texts.items()
    }

    def typed(key: str, value: str) -> pa.Scalar:
        return pa.scalar(None if value == null else value).cast(kinds[key])

    return [tuple((key, typed(key, value)) for key, value in pairs) for pairs in all_pairs]


#: Extension to format.
EXTENSIONS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow-stream",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
FORMATS = ("parquet", "arrow", "arrow-stream", "csv", "jsonl")
#: Other names of formats.
ALIASES = {
    "feather": "arrow",
    "ipc": "arrow",
    "tsv": "csv",
    "ndjson": "jsonl",
    "json": "jsonl",
    "pq": "parquet",
}

_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow-stream"}
#: Formats that never go without their mark.
_BINARY = {"parquet": ("a Parquet", "PAR1"), "arrow": ("an Arrow", "ARROW1")}
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_FOREIGN = {
    b"PK\x03\x04": "a zip archive or spreadsheet; unpack it or save it as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV or Parquet",
    b"\x89HDF": "an HDF5 file; save the table as Parquet",
    b"\x93NUMPY": "a NumPy array; use counterrank.RankingLog(action=..., ...)",
    b"BZh": "a bzip2 archive; unpack it first or use gzip",
    b"\xfd7zXZ": "an xz archive; unpack it first or use gzip",
    b"PARE": "an encrypted Parquet file; decrypt it, or write it without encryption",
    b"Obj\x01": "an Avro file; save the table as Parquet",
    b"ORC": "an ORC file; save the table as Parquet",
    b"FEA1": "a Feather file of version 1; write it again with a recent pyarrow or pandas",
    b"%PDF": "a PDF",
    b"\x80\x04\x95": "a pickle, which is never opened; save the table as Parquet",
}


def has_known_extension(name: str) -> bool:
    """Whether a file in a folder is taken for data.

    >>> has_known_extension("part-0.csv.gz"), has_known_extension("_SUCCESS")
    (True, False)
    """
    return _extension(name) in EXTENSIONS


def recognise(path: str, head: bytes, format: str | None) -> tuple[str, str | None]:
    """Return the format and the compression of a file by its first bytes.

    They decide where its name is silent or wrong.
    """
    if not head:
        raise LogError(f"{path} is empty (0 bytes)")
    foreign, packed, binary = (
        next((kind for magic, kind in marks.items() if head.startswith(magic)), None)
        for marks in (_FOREIGN, _PACKED, _MAGIC)
    )
    if foreign is not None:
        raise LogError(f"{path} is {foreign}")
    # Over what the name or the user says: these marks do not begin a text by chance.
    if binary is not None:
        return binary, None
    name = os.path.basename(path.partition("?")[0] if stores.is_url(path) else path)
    named = ALIASES.get(format, format) if format else EXTENSIONS.get(_extension(name))
    if named in _BINARY:
        what, mark = _BINARY[named]
        raise LogError(
            f"{path} is not {what} file: it does not start with {mark}, but with {head[:8]!r}"
            + (f"; it is packed with {packed}, unpack it first" if packed else "")
        )
    # Text without a known name: JSON shows in its first byte, CSV looks like any other text.
    if named is None and packed is None:
        named = "jsonl" if head.lstrip()[:1] == b"{" else None
    if named is None:
        raise LogError(
            f"{path}: the format of '{name}' is not known",
            remedy=(
                f"use one of {', '.join(EXTENSIONS)} or say "
                f"{say('--format', 'parquet|arrow|csv|jsonl', 'format=')}"
            ),
        )
    return named, packed


def _extension(name: str) -> str:
    """Return the ending of a name, without that of a packed file."""
    return Path(re.sub(r"\.(gz|zst)$", "", name.lower())).suffix


#: Text packs to a tenth, repetitive text to a hundredth; far beyond that a file is made to exhaust
#: memory.
MOST_RATIO = 400
#: Below this size nobody is hurt.
HARMLESS = 1 << 30


class TooLargeError(LogError):
    """A file that does not fit into memory whole; a stream of it may."""


class Unpacked(io.RawIOBase):
    """A readable stream of the unpacked bytes of a file, refusing to grow without bound."""

    def __init__(self, file: DataFile) -> None:
        self.path = file.path
        self.limit = max(HARMLESS, MOST_RATIO * file.size)
        self.count = 0
        self._stream = byte_stream(file)

    def readable(self) -> bool:
        """Always: it is open for reading."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with more bytes and return their number."""
        chunk = self._stream.read(len(buffer))
        self.count += len(chunk)
        if self.count > self.limit:
            raise LogError(
                f"{self.path} unpacks to more than {self.limit >> 20} MB, {MOST_RATIO} times its "
                "size",
                remedy="if that is right, unpack it yourself or convert it to Parquet",
            )
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()


def byte_stream(file: DataFile) -> Any:
    """Return the bytes of a file from its start, unpacked."""
    # Given a path, Arrow reads ahead; given a file of a store, which buffers, it need not.
    source = stores.opened(file.path) if stores.is_url(file.path) else file.path
    return pa.input_stream(source, compression=file.compression, buffer_size=_BUFFER)


#: Bytes asked of a file at a time where it is read from its start.
_BUFFER = 4 << 20


def refuse_endless(file: DataFile) -> None:
    """Raise for a packed file that unpacks to more than it may."""
    with Unpacked(file) as stream:
        while stream.read(_BUFFER):
            pass


#: Environment variable with the bytes a log may take in memory; without it, what is free now.
LIMIT = "COUNTERRANK_MEMORY_LIMIT"
#: Decoded numbers per byte of file above which a Parquet file is made to exhaust memory.
MOST_EXPANSION = 5_000
HARMLESS_VALUES = 1 << 24
#: Text that was packed so much more tightly is one long value, which each row may repeat.
MOST_PACKED, HARMLESS_TEXT = 1_000, 1 << 30


def limit() -> int | None:
    """Return how many bytes a log may take: what the user allows, else what is free; None where that is not known."""
    setting = os.environ.get(LIMIT)
    if setting is not None:
        if not setting.isdecimal() or int(setting) == 0:
            raise ConfigError(f"{LIMIT} is {setting!r}; give a number of bytes, such as 8000000000")
        return int(setting)
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = next(line for line in file if line.startswith("MemAvailable"))
        return int(available.split()[1]) * 1024
    except (OSError, StopIteration, ValueError):
        # Not Linux: the pass over the file still ends in a clear message.
        return None


def column_chunks(meta: Any, names: Container[str] | None = None) -> Iterator[Any]:
    """Yield the metadata of the stored parts of some columns, or of all."""
    for group in range(meta.num_row_groups):
        for j in range(meta.num_columns):
            chunk = meta.row_group(group).column(j)
            if names is None or chunk.path_in_schema.partition(".")[0] in names:
                yield chunk


def refuse_bomb(opened: Any, file: DataFile, columns: Iterable[str] | None) -> None:
    """Raise before anything is allocated when a Parquet file declares more than a log may hold.

    A number takes eight bytes in memory however well it was packed, text at least its unpacked
    size.
    """
    numbers = memory = 0
    for chunk in column_chunks(opened.metadata, None if columns is None else set(columns)):
        numbers += max(chunk.num_values, 0)
        memory += max(8 * chunk.num_values, chunk.total_uncompressed_size, 0)
    size = file.size
    if numbers > max(HARMLESS_VALUES, MOST_EXPANSION * size):
        raise LogError(
            f"{file.title} has {_size(size)} but claims {numbers:,} values, {_size(8 * numbers)} in memory",
            remedy="it is damaged or made to harm",
        )
    allowed = limit()
    if allowed is not None and memory > allowed:
        raise too_large(file, memory, allowed)


def refuse_packed_text(opened: Any, file: DataFile) -> None:
    """Raise where one long value stands for gigabytes of text: a few hundred bytes of the file hold it."""
    text = sum(
        chunk.num_values * chunk.total_uncompressed_size
        for chunk in column_chunks(opened.metadata)
        if chunk.physical_type == "BYTE_ARRAY"
        and chunk.total_uncompressed_size > MOST_PACKED * chunk.total_compressed_size
    )
    if text > HARMLESS_TEXT:
        raise LogError(
            f"{file.title} has {_size(file.size)} but may unpack to {_size(text)} of text",
            remedy="it is damaged or made to harm",
        )


def bounded(tables: Iterable[pa.Table], file: DataFile) -> Iterator[pa.Table]:
    """Yield the tables of a file as long as they fit together: what text unpacks to shows only while it is read."""
    allowed, memory = limit(), 0
    for table in tables:
        memory += table.nbytes
        if allowed is not None and memory > allowed:
            raise too_large(file, memory, allowed)
        yield table


def too_large(file: DataFile, memory: int, allowed: int) -> TooLargeError:
    """Return the error about a file that takes more memory than it may."""
    return TooLargeError(
        f"{file.title} has {_size(file.size)} but takes {_size(memory)} or more "
        f"in memory, and {_size(allowed)} can be used; read it in parts with scan_log (folders "
        f"and patterns of files are), or allow more with {LIMIT}=BYTES"
    )


def _size(number: int) -> str:
    """Return bytes as people write them.

    >>> _size(512), _size(3_400_000), _size(12 * 10**9)
    ('512 bytes', '3.4 MB', '12 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number} bytes"


def check_outputs(
    inputs: Iterable[str | os.PathLike[str] | None],
    outputs: Mapping[str, str | os.PathLike[str] | None],
) -> None:
    """Raise when an output is an input, would be read as one next time, is named twice, or cannot be made.

    `outputs` maps what a user calls an output, "--json", to its path; None and "-" are no files.
    """
    sources = [os.path.expanduser(os.fspath(path)) for path in inputs if path is not None]
    options: dict[str, str] = {}
    for option, path in outputs.items():
        name = None if path is None else os.fspath(path)
        if name is None or name == "-" or atomic.is_device(name):
            continue
        remote = stores.is_url(name)
        real = name if remote else os.path.realpath(name)
        for source in sources:
            clash = _clash(name, real, source)
            if clash:
                raise OutputError(f"{option} {name} {clash}; write it elsewhere")
        if real in options:
            raise OutputError(
                f"{options[real]} and {option} would both write {name}; give each per file of its own"
            )
        options[real] = option
        if remote:
            stores.refuse_unwritable(name)
            continue
        obstacle = _obstacle(real)
        if obstacle:
            raise OutputError(f"cannot write {option} {name}: {obstacle}")


def _clash(output: str, real: str, source: str) -> str:
    """Say how an output is an input, or would be one next time; nothing where it is not."""
    remote = stores.is_url(source)
    if remote != stores.is_url(real):
        return ""
    place = (source if remote else os.path.realpath(source)).rstrip("/")
    folder = os.path.isdir(place)
    # Links: two names of one file differ as paths.
    if not folder and (real.rstrip("/") == place or _is_same(real, place)):
        return f"is the input {source}, which would be lost"
    inside = (remote or folder) and real.startswith(f"{place}/")
    if (inside or (remote and fnmatch.fnmatch(real, source))) and has_known_extension(real):
        return f"lies in {source} and would be read as part of it"
    if remote or not glob.has_magic(source) or os.path.exists(source):
        return ""
    if any(_is_same(real, matching) for matching in glob.iglob(source, recursive=True)):
        return f"is one of the inputs {source} and would be lost"
    next_time = fnmatch.fnmatch(os.path.abspath(output), os.path.abspath(source))
    return f"would be one of {source} next time" if next_time else ""


def _obstacle(real: str) -> str:
    """Say why a file of this machine cannot be written; nothing where it can."""
    if os.path.isdir(real):
        return "it is a folder"
    if os.path.exists(real) and _is_read_only(real):
        return "the file is read-only"
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        return f"{folder} is no folder"
    return f"no permission to write in {folder}" if _is_read_only(folder) else ""


def _is_read_only(path: str) -> bool:
    # The superuser may write anywhere; who took every permission to write away meant it all the
    # same.
    return not os.access(path, os.W_OK) or not os.stat(path).st_mode & 0o222


def _is_same(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False
