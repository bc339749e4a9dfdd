"""Where the sums are made: here, or on a cluster."""

from counterrank.sources.local import MemorySource, default_threads
from counterrank.sources.opening import IN_MEMORY_BYTES, open_source, opened

__all__ = [
    "IN_MEMORY_BYTES",
    "MemorySource",
    "default_threads",
    "open_source",
    "opened",
]
