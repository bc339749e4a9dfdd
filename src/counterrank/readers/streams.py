"""Bytes of a file, unpacked on the way, up to a sane amount."""

import os
from typing import Any

import pyarrow as pa

from counterrank.errors import LogError
from counterrank.readers.paths import DataFile

#: Text packs to a tenth, repetitive text to a hundredth; far beyond that a file is made to exhaust memory.
MOST_RATIO = 400
#: Below this size nobody is hurt.
HARMLESS = 1 << 30


class Unpacked:
    """A readable stream of the unpacked bytes of a file, refusing to grow without bound."""

    def __init__(self, file: DataFile) -> None:
        self.name = file.path
        self.limit = max(HARMLESS, MOST_RATIO * os.path.getsize(file.path))
        self.count = 0
        self.closed = False
        self._stream = pa.input_stream(file.path, compression=file.compression)

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` more bytes."""
        chunk = bytes(self._stream.read(None if size is None or size < 0 else size))
        self.count += len(chunk)
        if self.count > self.limit:
            raise LogError(
                f"{self.name} unpacks to more than {self.limit >> 20} MB, {MOST_RATIO} times its size; "
                "if that is right, unpack it yourself or convert it to Parquet"
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


def arrow_stream(file: DataFile) -> Any:
    """Return a stream that Arrow's parsers accept."""
    if file.compression is None:
        return pa.input_stream(file.path, compression=None)
    return pa.PythonFile(Unpacked(file), mode="r")
