"""No file takes more than it may: bytes are unpacked up to a sane amount, tables are held while
they fit.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from counterrank.errors import ConfigError, LogError
from counterrank.readers.files import DataFile

#: Text packs to a tenth, repetitive text to a hundredth; far beyond that a file is made to exhaust
#: memory.
MOST_RATIO = 400
#: Below this size nobody is hurt.
HARMLESS = 1 << 30


class TooLargeError(LogError):
    """A file that does not fit into memory whole; a stream of it may."""


class Unpacked:
    """A readable stream of the unpacked bytes of a file, refusing to grow without bound."""

    def __init__(self, file: DataFile, *, growth: float = 0.0) -> None:
        self.file, self.growth, self.allowed = file, growth, limit() if growth else None
        self.name = file.path
        self.limit = max(HARMLESS, MOST_RATIO * os.path.getsize(file.path))
        self.count = 0
        self.closed = False
        self._stream = pa.input_stream(file.path, compression=file.compression)

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` more bytes."""
        chunk = bytes(self._stream.read(None if size is None or size < 0 else size))
        self.count += len(chunk)
        _refuse(self.file, int(self.growth * self.count), self.allowed)
        if self.count > self.limit:
            raise LogError(
                f"{self.name} unpacks to more than {self.limit >> 20} MB, {MOST_RATIO} times its "
                "size; if that is right, unpack it yourself or convert it to Parquet"
            )
        return chunk

    def readable(self) -> bool:
        """Always: it is open for reading."""
        return True

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._stream.close()

    def __enter__(self) -> "Unpacked":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()


def arrow_stream(file: DataFile, *, growth: float = 0.0) -> Any:
    """Return a stream that Arrow's parsers accept; `growth` is bytes in memory per byte read, where
    all are kept.
    """
    if file.compression is None:
        _refuse(file, int(growth * os.path.getsize(file.path)), limit() if growth else None)
        return pa.input_stream(file.path, compression=None)
    return pa.PythonFile(Unpacked(file, growth=growth), mode="r")


def unpacked_size(file: DataFile, most: int) -> int:
    """Return how many bytes the file unpacks to, counting no further than `most`."""
    if file.compression is None:
        return min(os.path.getsize(file.path), most)
    with Unpacked(file) as stream:
        return len(stream.read(most))


#: Environment variable with the bytes a log may take in memory; without it, what is free now.
LIMIT = "COUNTERRANK_MEMORY_LIMIT"
#: Decoded numbers per byte of file above which a Parquet file is made to exhaust memory.
MOST_EXPANSION = 20_000
HARMLESS_VALUES = 1 << 27


def limit() -> int | None:
    """Return how many bytes a log may take: what the user allows, else what is free; None where
    that is not known.
    """
    given = os.environ.get(LIMIT)
    if given is None:
        return _free()
    if not given.isdecimal() or int(given) == 0:
        raise ConfigError(f"{LIMIT} is {given!r}; give a number of bytes, such as 8000000000")
    return int(given)


def _free() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = {line.split(":")[0]: int(line.split()[1]) for line in file if line.split()[1:]}
        return found["MemAvailable"] * 1024
    except (
        OSError,
        KeyError,
        ValueError,
    ):  # not Linux: the pass over the file still ends in a clear message
        return None


def refuse_bomb(opened: Any, file: DataFile, columns: "Iterable[str] | None") -> None:
    """Raise before anything is allocated when a Parquet file declares more than a log may hold.

    A number takes eight bytes in memory however well it was packed, text at least its unpacked
    size.
    """
    meta = opened.metadata
    wanted = None if columns is None else set(columns)
    numbers = taken = 0
    for group in range(meta.num_row_groups):
        for j in range(meta.num_columns):
            chunk = meta.row_group(group).column(j)
            if wanted is None or chunk.path_in_schema.partition(".")[0] in wanted:
                numbers += max(chunk.num_values, 0)
                taken += max(8 * chunk.num_values, chunk.total_uncompressed_size, 0)
    size = os.path.getsize(file.path)
    if numbers > max(HARMLESS_VALUES, MOST_EXPANSION * size):
        raise LogError(
            f"{file.path} has {size} bytes but claims {numbers:,} values; it is damaged or made "
            "to harm"
        )
    _refuse(file, taken, limit())


def bounded(tables: Iterable[pa.Table], file: DataFile) -> Iterator[pa.Table]:
    """Yield the tables of a file as long as they fit together: what text unpacks to shows only
    while it is read.
    """
    allowed, taken = limit(), 0
    for table in tables:
        taken += table.nbytes
        _refuse(file, taken, allowed)
        yield table


def _refuse(file: DataFile, taken: int, allowed: int | None) -> None:
    if allowed is not None and taken > allowed:
        raise TooLargeError(
            f"{file.path} has {_size(os.path.getsize(file.path))} but takes {_size(taken)} or more "
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
