"""Units (users, sessions) and their hash buckets, the same however the log is read."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.readers import values

Ints = NDArray[np.int64]


def read(table: pa.Table, name: str | None, start: int, bucket: Ints | None) -> tuple[NDArray[Any] | None, Ints | None]:
    """Return the units (n,) and their buckets (n,); without units, the given buckets."""
    if name is None:
        return None, bucket
    array = values.plain(values.one_chunk(table[name]))
    if array.null_count:
        row = pc.index(pc.is_null(array), True).as_py()
        raise LogError(
            f"unit '{name}' is missing at row {start + row}; each ranking needs its user or session "
            "(give anonymous ones an id of their own)"
        )
    return values.objects(array), _buckets(array)


def _buckets(array: pa.Array) -> Ints | None:
    from counterrank.kernels import hashing

    result = np.empty(len(array), dtype=np.int64)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        offsets, data = _text_buffers(array)
        hashing.string_buckets(offsets, data, result)
        return result
    return None


def _text_buffers(array: pa.Array) -> tuple[Ints, NDArray[np.uint8]]:
    wide = pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    kind = np.int64 if wide else np.int32
    # Copies: views of Arrow memory are read-only, and the kernel would be compiled a second time for them.
    ends = np.frombuffer(offsets, dtype=kind)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first = int(ends[0]) if len(ends) else 0
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, dtype=np.uint8)
    return ends - first, content[first : int(ends[-1])].copy()
