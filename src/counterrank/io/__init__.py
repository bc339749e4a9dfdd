"""From data outside to a RankingLog in memory or a source of batches, here or on a cluster."""

from counterrank.io.decoding import RankingRows, decode
from counterrank.io.events import Events
from counterrank.io.files import TooLargeError, check_outputs, expand
from counterrank.io.options import (
    ROLES,
    LogLike,
    OpenOptions,
    ReadKeywords,
    ReadOptions,
    columns_of,
    load_toml,
    refuse_unread,
)
from counterrank.io.reading import (
    adapter,
    adapter_of,
    as_table,
    concat,
    from_frame,
    from_table,
    in_memory,
    is_stream,
    read_log,
    read_part,
)
from counterrank.io.roles import EventsGuess, LogGuess, guess_events, guess_log, sample_of
from counterrank.io.scanning import FileSource, is_small, open_source, opened, scan_log
from counterrank.io.schema import Field, LogSpec, resolve
from counterrank.io.survey import (
    FilePart,
    Survey,
    batch_rows,
    plan,
    sample_rows,
)
from counterrank.io.tables import read_table
from counterrank.io.warehouses import Query
from counterrank.io.where import Where

__all__ = [
    "ROLES",
    "EventsGuess",
    "LogGuess",
    "guess_events",
    "guess_log",
    "sample_of",
    "Events",
    "Field",
    "FileSource",
    "LogLike",
    "LogSpec",
    "OpenOptions",
    "ReadKeywords",
    "FilePart",
    "Query",
    "RankingRows",
    "ReadOptions",
    "Survey",
    "TooLargeError",
    "Where",
    "adapter",
    "adapter_of",
    "as_table",
    "batch_rows",
    "check_outputs",
    "columns_of",
    "concat",
    "decode",
    "expand",
    "from_frame",
    "from_table",
    "in_memory",
    "is_small",
    "is_stream",
    "load_toml",
    "open_source",
    "opened",
    "plan",
    "read_log",
    "refuse_unread",
    "read_part",
    "read_table",
    "resolve",
    "sample_rows",
    "scan_log",
]
