"""Public data sets of logged rankings, each in the columns it was published with."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.common.errors import LogError, PropensityError
from counterrank.common.messages import SINGLE_POSITION, STANDARD_DROPPED, say
from counterrank.common.texts import comma_separated
from counterrank.io import tables
from counterrank.io.files import DataFile, expand
from counterrank.io.options import UNIFORM, ReadOptions
from counterrank.io.readers import Converted, Path, adapter


def read_columns(
    files: Sequence[DataFile],
    options: ReadOptions,
    optional: Sequence[str],
    required: Sequence[str],
    what: str,
) -> pa.Table:
    """Return the files' rows: the columns of the format and those the user names; `required` must be there."""
    named = [
        name
        for value in options.columns.values()
        for name in ([value] if isinstance(value, str) else value)
    ]
    extra = (options.context, options.segments, options.keep, options.targets)
    columns = dict.fromkeys([*optional, *named, *(name for names in extra for name in names or ())])
    pieces = []
    for file in files:
        names = tables.sample(file, 1).column_names
        missing = [name for name in required if name not in names]
        if missing:
            raise LogError(
                f"{file.path} is not {what}: there is no column '{missing[0]}'; columns are "
                f"{comma_separated(names)}"
            )
        pieces.append(tables.read_table(file, [name for name in columns if name in names]))
    return pa.concat_tables(pieces, promote_options="permissive")


# The Open Bandit Dataset (Saito et al. 2021, arXiv:2008.07146): one CSV row per position of one
# impression.
#
# The three positions of an impression cannot be put together again, and the propensity is that of the
# item at its own position. So each row is one decision: a ranking with one position. Values are per
# shown item, and the position on the page is context and a segment. Features of users are context;
# those of items stand in `item_context.csv` beside the log, which `items` names. Logs of the same
# columns from elsewhere are read too, whatever the number of features.

_BANDIT = {"action": "item_id", "reward": "click"}
_BANDIT_COLUMNS = (*_BANDIT.values(), "position")
#: The files say propensity_score, their description action_prob.
_PROPENSITY = ("propensity_score", "action_prob")
_USER = "user_feature_"


@adapter
def read_open_bandit(path: Path, options: ReadOptions) -> Converted:
    """Return an Open Bandit log as rankings of one position.

    Targets are columns of the file or "uniform", `items` is the path of its item_context.csv.
    """
    files = expand(path)
    names = tables.sample(files[0], 1).column_names
    users = [name for name in names if name.startswith(_USER)]
    propensity = next((name for name in _PROPENSITY if name in names), _PROPENSITY[0])
    required = (*_BANDIT_COLUMNS, *([propensity] if options.require_propensity else []))
    columns = [*required, propensity, "timestamp", *users]
    table = read_columns(files, options, columns, required, "an Open Bandit log")
    roles = {**_BANDIT, **({"propensity": propensity} if propensity in names else {})}
    read_options = options.over(roles, ["position", *users], "factored")
    if UNIFORM in (read_options.targets or ()) and UNIFORM not in table.column_names:
        items = pc.max(table["item_id"]).as_py() + 1
        table = table.append_column(UNIFORM, pa.array(np.full(table.num_rows, 1.0 / items)))
    return table, read_options, (SINGLE_POSITION,)


# KuaiRand (Gao et al. 2022, arXiv:2208.08696): short videos, some of them inserted at random.
#
# In the random log each video was drawn uniformly from a pool of 7,583, so its propensity is known;
# each row is one decision, a ranking with one position. The standard logs have no propensities.

#: Videos in the pool of the random intervention, as the data set's own description says.
POOL = 7583
_VIDEO = {"action": "video_id", "reward": "is_click", "unit": "user_id"}
_VIDEO_COLUMNS = ("user_id", "video_id", "is_click", "is_rand", "tab")
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


@adapter
def read_kuairand(path: Path, options: ReadOptions) -> Converted:
    """Return the randomly exposed rows as rankings of one position.

    The reward is `is_click`, or another signal with columns={"reward": "long_view"}. Rows of the
    standard policy are left out, and a note says so; with require_propensity=False every row is
    read and none has a propensity.
    """
    columns = [*_VIDEO_COLUMNS, *_CARRIED]
    table = read_columns(expand(path), options, columns, _VIDEO_COLUMNS, "a KuaiRand log")
    notes: tuple[str, ...] = ()
    if options.require_propensity:
        random = table.filter(pc.equal(table["is_rand"], 1))
        if random.num_rows == 0:
            raise PropensityError(
                "no row has is_rand = 1: these are videos of the standard policy, whose propensities "
                "were not logged. "
                "Use the log_random file, or "
                + say("--estimate-propensity", python="estimate_propensity=True")
            )
        notes = (STANDARD_DROPPED,) if random.num_rows < table.num_rows else ()
        table = random
        if "propensity" not in table.column_names:
            known_shares = pa.array(np.full(table.num_rows, 1.0 / POOL))
            table = table.append_column("propensity", known_shares)
    read_options = options.over(_VIDEO, ("tab",), "factored")
    return table, replace(read_options, encode_actions=True), notes
