"""Formats of other libraries and public data sets, by name."""

import importlib
import os
from collections.abc import Callable

from counterrank.log import RankingLog
from counterrank.readers.options import ReadOptions

Reader = Callable[[str | os.PathLike[str], ReadOptions], RankingLog]

#: Name of a format: module below `counterrank.readers.adapters` and what it reads. Each module has `load`.
ADAPTERS: dict[str, tuple[str, str]] = {}


def adapter(name: str) -> Reader:
    """Return the reader of a format."""
    module = importlib.import_module(f"counterrank.readers.adapters.{ADAPTERS[name][0]}")
    reader: Reader = module.LOAD[name]
    return reader
