"""From data outside to RankingLog: files, tables in memory, streams, other libraries' formats."""

from counterrank._lazy import attach

__getattr__, __dir__, __all__ = attach(
    {
        "files": ["read_log"],
        "fingerprint": ["fingerprint"],
        "frames": ["from_frame"],
        "options": ["ReadOptions"],
        "scan": ["FileSource", "scan_log"],
        "spec": ["LogSpec"],
    },
    package="counterrank.readers",
)
