"""Formats of other libraries and public data sets, by name."""

from counterrank.errors import ConfigError
from counterrank.readers.adapters.datasets import (
    read_amazon_music,
    read_kuairand,
    read_open_bandit,
    read_seznam,
)
from counterrank.readers.adapters.libraries import from_obp, read_vw_ccb, read_vw_slates
from counterrank.readers.files import ALIASES, FORMATS
from counterrank.readers.reading import Adapter
from counterrank.texts import suggestion

#: Name of a format: its reader and what it reads.
ADAPTERS: dict[str, tuple[Adapter, str]] = {
    "vw-ccb": (
        read_vw_ccb,
        "Vowpal Wabbit conditional contextual bandit log, JSON or dsjson lines",
    ),
    "vw-slates": (read_vw_slates, "Vowpal Wabbit Slates log, JSON or dsjson lines"),
    "amazon-music": (
        read_amazon_music,
        "Music Off-Policy Evaluation Benchmark (Amazon), Parquet",
    ),
    "open-bandit": (read_open_bandit, "Open Bandit Dataset CSV, one row a position"),
    "kuairand": (read_kuairand, "KuaiRand log CSV, randomly exposed rows"),
    "seznam": (read_seznam, "Seznam vertical-blending TSV, 63 columns"),
}


def adapter_of(name: str) -> Adapter | None:
    """Return the reader of another library's format; None for a plain file format.

    >>> adapter_of("csv") is None
    True
    """
    if name in FORMATS or name in ALIASES:
        return None
    if name not in ADAPTERS:
        known = [*FORMATS, *ALIASES, *ADAPTERS]
        raise ConfigError(
            f"format '{name}' is unknown{suggestion(name, known)}; use one of {', '.join(known)}"
        )
    return ADAPTERS[name][0]


__all__ = [
    "ADAPTERS",
    "adapter_of",
    "from_obp",
    "read_amazon_music",
    "read_kuairand",
    "read_open_bandit",
    "read_seznam",
    "read_vw_ccb",
    "read_vw_slates",
]
