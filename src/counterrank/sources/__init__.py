"""A log as a source of batches: in memory, in files, changed on the way, on a cluster."""

from counterrank.source import MemorySource
from counterrank.sources.files import (
    IN_MEMORY_BYTES,
    FileSource,
    is_small,
    open_source,
    opened,
    scan_log,
)

__all__ = [
    "IN_MEMORY_BYTES",
    "FileSource",
    "MemorySource",
    "is_small",
    "open_source",
    "opened",
    "scan_log",
]
