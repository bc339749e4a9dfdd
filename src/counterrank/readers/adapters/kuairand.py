"""KuaiRand (Gao et al. 2022, arXiv:2208.08696): short videos, some of them inserted at random.

In the random log each video was drawn uniformly from a pool of 7,583, so its propensity is known;
each row is one decision, a ranking with one position. The standard logs have no propensities.
"""

import os
from dataclasses import replace
from typing import Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.errors import PropensityError
from counterrank.log import RankingLog
from counterrank.readers.adapters import common
from counterrank.readers.files import expand
from counterrank.readers.messages import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.reading import from_table
from counterrank.texts import STANDARD_DROPPED

#: Videos in the pool of the random intervention, as the data set's own description says.
POOL = 7583
_ROLES = {"action": "video_id", "reward": "is_click", "unit": "user_id"}
_NEEDED = ("user_id", "video_id", "is_click", "is_rand", "tab")
_CARRIED = (
    "date",
    "hourmin",
    "is_like",
    "is_follow",
    "is_comment",
    "is_forward",
    "is_hate",
    "long_view",
)


def read_kuairand(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return the randomly exposed rows as rankings of one position.

    The reward is `is_click`, or another signal with columns={"reward": "long_view"}. Rows of the
    standard policy are left out, and a note says so; with require_propensity=False every row is
    read and none has a propensity.
    """
    return load_kuairand(path, ReadOptions.of(**options))


def load_kuairand(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the log at `path`."""
    files = expand(path)
    with guard(os.fspath(path), prefix=True):
        table = common.read_columns(
            files, common.wanted(options, [*_NEEDED, *_CARRIED]), _NEEDED, "a KuaiRand log"
        )
        notes: tuple[str, ...] = ()
        if options.require_propensity:
            table, notes = _random_rows(table)
        merged = common.merged(options, _ROLES, ("tab",), "factored")
        log = from_table(table, replace(merged, encode_actions=True))
    object.__setattr__(log, "notes", (*log.notes, *notes))
    return log


def _random_rows(table: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    random = table.filter(pc.equal(table["is_rand"], 1))
    if random.num_rows == 0:
        raise PropensityError(
            "no row has is_rand = 1: these are videos of the standard policy, whose propensities "
            "were not logged. "
            "Use the log_random file, or --estimate-propensity (estimate_propensity=True in Python)"
        )
    if "propensity" not in random.column_names:
        random = random.append_column("propensity", pa.array(np.full(random.num_rows, 1.0 / POOL)))
    return random, ((STANDARD_DROPPED,) if random.num_rows < table.num_rows else ())
