"""Seznam's vertical-blending data (SIGIR 2019, doi:10.1145/3331184.3331345): 63 tab-separated
columns, no header.

serp_id, query, num_tokens, num_skips, timestamp, alternative_actions, hardware, then for each of 14
positions click, propensity, action, domain. A position is filled after those above it, so the
propensities are read as conditional on the items above ("prefix"): IPS and RIPS can use them; say
propensity_kind="factored" to assume more.
"""

import os
from dataclasses import replace
from typing import Any, Unpack

import pyarrow as pa

from counterrank.errors import LogError
from counterrank.log import RankingLog
from counterrank.readers import bounds
from counterrank.readers.adapters import common
from counterrank.readers.files import DataFile, expand
from counterrank.readers.messages import guard
from counterrank.readers.options import Options, ReadOptions
from counterrank.readers.reading import from_table

POSITIONS = 14
HEAD = (
    "serp_id",
    "query",
    "num_tokens",
    "num_skips",
    "timestamp",
    "alternative_actions",
    "hardware",
)
NAMES = (
    *HEAD,
    *(
        f"{what}_{k}"
        for k in range(1, POSITIONS + 1)
        for what in ("click", "propensity", "action", "domain")
    ),
)
_TYPES: dict[str, Any] = {
    **{name: pa.string() for name in ("serp_id", "query", "alternative_actions", "hardware")},
    **{name: pa.float64() for name in NAMES if name.startswith(("click_", "propensity_"))},
    **{name: pa.string() for name in NAMES if name.startswith(("action_", "domain_"))},
}


def read_seznam(path: str | os.PathLike[str], **options: Unpack[Options]) -> RankingLog:
    """Return search pages of up to 14 positions; context is tokens, skips and hardware."""
    return load_seznam(path, ReadOptions.of(**options))


def load_seznam(path: str | os.PathLike[str], options: ReadOptions) -> RankingLog:
    """Return the log at `path`."""
    files = expand(path, "csv")
    with guard(os.fspath(path), prefix=True):
        table = pa.concat_tables([_read(file) for file in files])
        context = ("num_tokens", "num_skips", "hardware")
        merged = common.merged(options, {"action": "action", "reward": "click"}, context, "prefix")
        if merged.segments is None:
            merged = replace(merged, segments=("query", *context, "timestamp"))
        return from_table(table, replace(merged, targets=merged.targets or ()))


def _read(file: DataFile) -> pa.Table:
    from pyarrow import csv

    with bounds.Unpacked(file) as stream:
        first = (
            stream.read(1 << 16)
            .partition(b"\n")[0]
            .decode("utf-8", "replace")
            .rstrip("\r")
            .split("\t")
        )
    if len(first) != len(NAMES):
        raise LogError(
            f"{file.path} has {len(first)} tab-separated columns, Seznam's format has {len(NAMES)}"
        )
    with bounds.arrow_stream(file) as stream:
        return csv.read_csv(
            stream,
            read_options=csv.ReadOptions(column_names=NAMES, skip_rows=int(first[0] == "serp_id")),
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(column_types=_TYPES, strings_can_be_null=True),
        )
