"""Formats of other libraries and public data sets, by name."""

import importlib
import os
from collections.abc import Callable

from counterrank.errors import ConfigError
from counterrank.log import RankingLog
from counterrank.readers.names import suggestion
from counterrank.readers.options import ReadOptions
from counterrank.readers.sniff import ALIASES, FORMATS

Reader = Callable[[str | os.PathLike[str], ReadOptions], RankingLog]

#: Name of a format: its module below `counterrank.readers.adapters` and what it reads.
ADAPTERS: dict[str, tuple[str, str]] = {
    "vw-ccb": ("vowpal", "Vowpal Wabbit conditional contextual bandit log, JSON or dsjson lines"),
    "vw-slates": ("vowpal", "Vowpal Wabbit Slates log, JSON or dsjson lines"),
    "open-bandit": ("open_bandit", "Open Bandit Dataset CSV, one row a position"),
    "kuairand": ("kuairand", "KuaiRand log CSV, randomly exposed rows"),
    "seznam": ("seznam", "Seznam vertical-blending TSV, 63 columns"),
}


def names() -> list[str]:
    """Return every name that `format` may have."""
    return [*FORMATS, *ALIASES, *ADAPTERS]


def adapter(name: str) -> Reader | None:
    """Return the reader of another library's format; None for a plain file format.

    >>> adapter("csv") is None
    True
    """
    if name in FORMATS or name in ALIASES:
        return None
    if name not in ADAPTERS:
        raise ConfigError(f"format '{name}' is unknown{suggestion(name, names())}; use one of {', '.join(names())}")
    module = importlib.import_module(f"counterrank.readers.adapters.{ADAPTERS[name][0]}")
    reader: Reader = module.LOAD[name]
    return reader
