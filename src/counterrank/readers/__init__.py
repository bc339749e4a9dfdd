"""From data outside to RankingLog: files, tables in memory, other libraries' formats."""

from counterrank.readers.adapters import (
    ADAPTERS,
    from_obp,
    read_amazon_music,
    read_kuairand,
    read_open_bandit,
    read_seznam,
    read_vw_ccb,
    read_vw_slates,
)
from counterrank.readers.decoding import decode
from counterrank.readers.files import TooLargeError, expand
from counterrank.readers.outputs import check_outputs
from counterrank.readers.reading import (
    as_table,
    concat,
    from_frame,
    from_table,
    read_log,
    read_part,
)
from counterrank.readers.schema import resolve
from counterrank.readers.spec import (
    Field,
    LogSpec,
    Options,
    ReadOptions,
    load_toml,
    log_table,
    refuse_unread,
)
from counterrank.readers.survey import (
    Part,
    Survey,
    Where,
    allowed,
    batch_rows,
    plan,
    pruned,
    rows_each,
    sample_rows,
)
from counterrank.readers.tables import read_table
from counterrank.readers.values import action_ids, numbers

__all__ = [
    "ADAPTERS",
    "Field",
    "LogSpec",
    "Options",
    "Part",
    "ReadOptions",
    "Survey",
    "TooLargeError",
    "Where",
    "action_ids",
    "allowed",
    "as_table",
    "batch_rows",
    "check_outputs",
    "concat",
    "decode",
    "expand",
    "from_frame",
    "from_obp",
    "from_table",
    "load_toml",
    "log_table",
    "numbers",
    "plan",
    "pruned",
    "read_amazon_music",
    "read_kuairand",
    "read_log",
    "refuse_unread",
    "read_open_bandit",
    "read_part",
    "read_seznam",
    "read_table",
    "read_vw_ccb",
    "read_vw_slates",
    "resolve",
    "rows_each",
    "sample_rows",
]
