"""A log as a source of batches: in memory, in files, changed on the way, on a cluster."""

from counterrank.source import MemorySource
from counterrank.sources.files import FileSource, scan_log
from counterrank.sources.opening import IN_MEMORY_BYTES, open_source, opened

__all__ = [
    "IN_MEMORY_BYTES",
    "FileSource",
    "MemorySource",
    "open_source",
    "opened",
    "scan_log",
]
