"""From data outside to a RankingLog in memory or a source of batches, here or on a cluster."""

from counterrank.io.file_source import FileSource, open_source, opened, scan_log
from counterrank.io.files import check_outputs
from counterrank.io.guess import JobGuess, guess_job
from counterrank.io.joined_tables import Events, Scores
from counterrank.io.options import ROLES, LogLike, ReadOptions, columns_of, load_toml
from counterrank.io.readers import adapter, concat, from_frame, in_memory, read_log
from counterrank.io.warehouses import Query
from counterrank.io.where import Where

__all__ = [
    "ROLES",
    "Events",
    "FileSource",
    "JobGuess",
    "LogLike",
    "Query",
    "ReadOptions",
    "Scores",
    "Where",
    "adapter",
    "check_outputs",
    "columns_of",
    "concat",
    "from_frame",
    "guess_job",
    "in_memory",
    "load_toml",
    "open_source",
    "opened",
    "read_log",
    "scan_log",
]
