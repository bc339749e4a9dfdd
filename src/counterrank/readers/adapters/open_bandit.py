"""The Open Bandit Dataset (Saito et al. 2021, arXiv:2008.07146): one CSV row a position of one
impression.

The three positions of an impression cannot be put together again, and the propensity is that of the
item at its own position. So each row is one decision: a ranking with one position. Values are per
shown item, and the position on the page is context and a segment. Features of users are context;
those of items stand in `item_context.csv` beside the log, which `items` names. Logs of the same
columns from elsewhere are read too, whatever the number of features.
"""

import os
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.log import RankingLog
from counterrank.readers import tables
from counterrank.readers.adapters import common
from counterrank.readers.files import expand
from counterrank.readers.messages import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.reading import from_table
from counterrank.texts import SINGLE_POSITION

_ROLES = {"action": "item_id", "reward": "click"}
_NEEDED = (*_ROLES.values(), "position")
#: The files say propensity_score, their description action_prob.
_PROPENSITY = ("propensity_score", "action_prob")
_USER = "user_feature_"


def read_open_bandit(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return an Open Bandit log as rankings of one position; targets are columns of the file or
    "uniform", `items` is the path of its item_context.csv.
    """
    return load_open_bandit(path, ReadOptions.of(**options))


def load_open_bandit(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the log at `path`."""
    files = expand(path)
    with guard(os.fspath(path), prefix=True):
        names = tables.sample(files[0], 1).column_names
        users = [name for name in names if name.startswith(_USER)]
        propensity = next((name for name in _PROPENSITY if name in names), _PROPENSITY[0])
        needed = (*_NEEDED, *([propensity] if options.require_propensity else []))
        columns = common.wanted(options, [*needed, propensity, "timestamp", *users])
        table = common.read_columns(files, columns, needed, "an Open Bandit log")
        roles = {**_ROLES, **({"propensity": propensity} if propensity in names else {})}
        options = common.merged(options, roles, ["position", *users], "factored")
        log = from_table(_with_uniform(table, options), options)
    object.__setattr__(log, "notes", (*log.notes, SINGLE_POSITION))
    return log


def _with_uniform(table: pa.Table, options: ReadOptions) -> pa.Table:
    if common.UNIFORM not in (options.targets or ()) or common.UNIFORM in table.column_names:
        return table
    items = pc.max(table["item_id"]).as_py() + 1
    return table.append_column(common.UNIFORM, pa.array(np.full(table.num_rows, 1.0 / items)))
