"""Logs that come as a stream of Arrow batches: queries, tables of a catalogue, other libraries' frames.

A stream is read once, so that every pass sees the same rows. What fits is kept in memory; what does
not goes to a file of this machine that lasts as long as the source.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from counterrank.data.log import RankingLog
from counterrank.data.source import MemorySource, Source, default_threads
from counterrank.errors import LogError
from counterrank.io.files import guard
from counterrank.io.options import ReadOptions
from counterrank.io.prepare import columns_to_read
from counterrank.io.reading import from_table
from counterrank.io.schema import resolve
from counterrank.io.survey import BATCH_ROWS
from counterrank.io.tables import written
from counterrank.io.warehouses import Query

#: Streams up to this size stay in memory.
IN_MEMORY_BYTES = 256 * 2**20
#: Rows by which columns are told apart.
_FIRST = 1000


def is_stream(log: Any) -> bool:
    """Whether a log hands over batches rather than holding a table in memory."""
    if type(log).__name__ == "LazyFrame" or isinstance(log, Query):
        return True
    if isinstance(log, (pa.Table, pa.RecordBatch)) or hasattr(log, "reduce"):
        return False
    # Frames in memory can hand over batches too, and know how many rows they hold; those of
    # clusters are read where they are.
    other = type(log).__module__.partition(".")[0] in ("pandas", "polars", "pyspark", "dask")
    return not other and hasattr(log, "__arrow_c_stream__")


def tables_of(log: Any) -> Iterator[pa.Table]:
    """Yield the batches of anything that has some, as tables of plain types."""
    if isinstance(log, Query):
        pieces = log.tables()
    elif type(log).__name__ == "LazyFrame":
        found = log.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
        pieces = (piece.to_arrow() for piece in found)
    else:
        reader = pa.RecordBatchReader.from_stream(log)
        pieces = (pa.Table.from_batches([batch], reader.schema) for batch in reader)
    for table in pieces:
        if table.num_rows:
            # Files and older kernels do not know views of text.
            kinds = [
                (one.name, pa.large_string() if pa.types.is_string_view(one.type) else one.type)
                for one in table.schema
            ]
            yield table.cast(pa.schema(kinds, metadata=table.schema.metadata))


def read_stream(log: Any, options: ReadOptions) -> RankingLog:
    """Return a stream whole, as a log in memory."""
    with guard("the table"):
        return from_table(_whole(list(tables_of(log))), options)


def stream_source(log: Any, options: ReadOptions, segments: tuple[str, ...]) -> Source:
    """Return a stream as a source: in memory if it is small, else from a file made of it."""
    with guard("the table"):
        pieces: list[pa.Table] = []
        taken, rest = 0, tables_of(log)
        for table in rest:
            pieces.append(table)
            taken += table.nbytes
            if taken > IN_MEMORY_BYTES:
                return _kept_on_disk(pieces, rest, options, segments)
        carried = replace(options, keep=(*options.keep, *segments))
        return MemorySource(from_table(_whole(pieces), carried))


def _whole(pieces: list[pa.Table]) -> pa.Table:
    if not pieces:
        raise LogError("the log is empty: there are no rows")
    return pa.concat_tables(pieces, promote_options="permissive")


def _kept_on_disk(
    pieces: list[pa.Table], rest: Iterator[pa.Table], options: ReadOptions,
    segments: tuple[str, ...],
) -> Source:  # fmt: skip
    from counterrank.io.scanning import scan

    if options.segments is None:
        options = replace(options, segments=segments)
    spec = resolve(pieces[0].slice(0, _FIRST), options, in_memory=False)
    columns = list(columns_to_read(spec, options.events, options.where))

    def every() -> Iterator[tuple[pa.Table, str]]:
        while pieces:
            yield pieces.pop(0).select(columns), "the table"
        for table in rest:
            yield table.select(columns), "the table"

    return scan(written(every()), options, workers=default_threads())
