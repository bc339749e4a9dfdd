"""From data outside to RankingLog: files, tables in memory, streams, other libraries' formats."""

from counterrank._lazy import attach

__getattr__, __dir__, __all__ = attach(
    {
        "adapters.kuairand": ["read_kuairand"],
        "adapters.obp": ["from_obp"],
        "adapters.open_bandit": ["read_open_bandit"],
        "adapters.seznam": ["read_seznam"],
        "adapters.vowpal": ["read_vw_ccb", "read_vw_slates"],
        "files": ["read_log"],
        "frames": ["from_frame"],
        "options": ["ReadOptions"],
        "scan": ["FileSource", "scan_log"],
        "spec": ["LogSpec"],
    },
    package="counterrank.readers",
)
