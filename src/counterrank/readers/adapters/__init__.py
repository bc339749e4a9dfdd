"""Formats of other libraries and public data sets, by name."""

import os
from collections.abc import Callable

from counterrank.errors import ConfigError
from counterrank.log import RankingLog
from counterrank.readers.adapters.amazon_music import load_amazon_music, read_amazon_music
from counterrank.readers.adapters.kuairand import load_kuairand, read_kuairand
from counterrank.readers.adapters.obp import from_obp
from counterrank.readers.adapters.open_bandit import load_open_bandit, read_open_bandit
from counterrank.readers.adapters.seznam import load_seznam, read_seznam
from counterrank.readers.adapters.vowpal import (
    load_vw_ccb,
    load_vw_slates,
    read_vw_ccb,
    read_vw_slates,
)
from counterrank.readers.files import ALIASES, FORMATS
from counterrank.readers.options import ReadOptions
from counterrank.texts import suggestion

Reader = Callable[[str | os.PathLike[str], ReadOptions], RankingLog]

#: Name of a format: its reader and what it reads.
ADAPTERS: dict[str, tuple[Reader, str]] = {
    "vw-ccb": (
        load_vw_ccb,
        "Vowpal Wabbit conditional contextual bandit log, JSON or dsjson lines",
    ),
    "vw-slates": (load_vw_slates, "Vowpal Wabbit Slates log, JSON or dsjson lines"),
    "amazon-music": (
        load_amazon_music,
        "Music Off-Policy Evaluation Benchmark (Amazon), Parquet",
    ),
    "open-bandit": (load_open_bandit, "Open Bandit Dataset CSV, one row a position"),
    "kuairand": (load_kuairand, "KuaiRand log CSV, randomly exposed rows"),
    "seznam": (load_seznam, "Seznam vertical-blending TSV, 63 columns"),
}


def adapter(name: str) -> Reader | None:
    """Return the reader of another library's format; None for a plain file format.

    >>> adapter("csv") is None
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
    "adapter",
    "from_obp",
    "read_amazon_music",
    "read_kuairand",
    "read_open_bandit",
    "read_seznam",
    "read_vw_ccb",
    "read_vw_slates",
]
