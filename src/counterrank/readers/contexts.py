"""Context columns as (n, d) numbers; categories become codes."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.readers import values
from counterrank.readers.spec import LogSpec


def read(table: pa.Table, spec: LogSpec, start: int) -> NDArray[np.float64] | None:
    """Return the context (n, d), NaN where a value is missing."""
    if not spec.context:
        return None
    result = np.empty((table.num_rows, len(spec.context)))  # (n, d)
    for j, name in enumerate(spec.context):
        array = values.one_chunk(table[name])

        def place(index: int) -> str:
            return f"row {start + index}"

        if name in spec.categories:
            found = values.codes(array, spec.categories[name], name, place)
            result[:, j] = np.where(found < 0, np.nan, found)
        elif pa.types.is_temporal(array.type):
            result[:, j] = _seconds(array, name)
        else:
            result[:, j] = values.floats(array, name, place)
    infinite = np.isinf(result)
    if infinite.any():
        row, j = np.argwhere(infinite)[0]
        raise LogError(f"context '{spec.context[j]}' is infinite at row {start + row}; use null for missing values")
    return result


def _seconds(array: pa.Array, name: str) -> NDArray[np.float64]:
    """Points in time as seconds since 1970."""
    if not (pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)):
        raise LogError(f"context column '{name}' holds {array.type}; numbers, categories or times are wanted")
    stamps = array.cast(pa.timestamp("us")).cast(pa.int64())
    return np.asarray(stamps.to_numpy(zero_copy_only=False), dtype=np.float64) / 1e6
