"""From data outside to a RankingLog in memory or a source of batches, here or on a cluster."""

from counterrank.io.adapters import is_adapter
from counterrank.io.decoding import decode
from counterrank.io.events import Events
from counterrank.io.files import TooLargeError, expand
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
from counterrank.io.outputs import check_outputs
from counterrank.io.reading import (
    adapter,
    as_table,
    concat,
    from_frame,
    from_table,
    in_memory,
    read_log,
    read_part,
)
from counterrank.io.roles import EventsGuess, LogGuess, guess_events, guess_log, sample_of
from counterrank.io.scanning import FileSource, is_small, open_source, opened, scan_log
from counterrank.io.schema import resolve
from counterrank.io.spec import Field, LogSpec
from counterrank.io.streams import is_stream, stream_source
from counterrank.io.survey import (
    FilePart,
    Survey,
    batch_rows,
    plan,
    sample_rows,
)
from counterrank.io.tables import read_table
from counterrank.io.values import action_ids, numbers
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
    "ReadOptions",
    "Survey",
    "TooLargeError",
    "Where",
    "action_ids",
    "adapter",
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
    "is_adapter",
    "is_small",
    "is_stream",
    "load_toml",
    "numbers",
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
    "stream_source",
]
