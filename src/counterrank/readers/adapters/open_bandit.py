"""The Open Bandit Dataset (Saito et al. 2021, arXiv:2008.07146): one CSV row a position of one
impression.

The three positions of an impression cannot be put together again, and the propensity is that of the
item at its own position. So each row is one decision: a ranking with one position. Values are per
shown item, and the position on the page is context and a segment.
"""

import os
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.log import RankingLog
from counterrank.readers.adapters import common
from counterrank.readers.files import expand
from counterrank.readers.messages import SINGLE_POSITION, guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.reading import from_table

_ROLES = {"action": "item_id", "reward": "click", "propensity": "propensity_score"}
_NEEDED = (*_ROLES.values(), "position")
_USER = tuple(f"user_feature_{j}" for j in range(4))


def read_open_bandit(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return an Open Bandit log as rankings of one position; targets are columns of the file or
    "uniform".
    """
    return load_open_bandit(path, ReadOptions.of(**options))


def load_open_bandit(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the log at `path`."""
    files = expand(path)
    with guard(os.fspath(path), prefix=True):
        columns = common.wanted(options, [*_NEEDED, "timestamp", *_USER])
        table = common.read_columns(files, columns, _NEEDED, "an Open Bandit log")
        context = [name for name in ("position", *_USER) if name in table.column_names]
        options = common.merged(options, _ROLES, context, "factored")
        log = from_table(_with_uniform(table, options), options)
    object.__setattr__(log, "notes", (*log.notes, SINGLE_POSITION))
    return log


def _with_uniform(table: pa.Table, options: ReadOptions) -> pa.Table:
    if common.UNIFORM not in (options.targets or ()) or common.UNIFORM in table.column_names:
        return table
    items = pc.max(table["item_id"]).as_py() + 1
    return table.append_column(common.UNIFORM, pa.array(np.full(table.num_rows, 1.0 / items)))
