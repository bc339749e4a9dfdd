"""What adapters of tables share: known columns, a uniform target, the user's options on top."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from counterrank.errors import LogError
from counterrank.readers import tables
from counterrank.readers.names import listed
from counterrank.readers.options import ReadOptions
from counterrank.readers.paths import DataFile

#: A target policy that needs no column: every candidate equally likely.
UNIFORM = "uniform"


def merged(options: ReadOptions, columns: Mapping[str, str], context: Sequence[str], kind: str) -> ReadOptions:
    """Return the user's options over what the format implies."""
    return replace(
        options,
        columns={**columns, **options.columns},
        context=tuple(context) if options.context is None else options.context,
        propensity_kind=options.propensity_kind or kind,
    )


def wanted(options: ReadOptions, known: Sequence[str]) -> list[str]:
    """Return the columns to read: those of the format and those the user names."""
    named = [name for value in options.columns.values() for name in ([value] if isinstance(value, str) else value)]
    extra = [*(options.context or ()), *(options.segments or ()), *(options.targets or ())]
    return list(dict.fromkeys([*known, *named, *extra]))


def read(files: Sequence[DataFile], columns: Sequence[str], needed: Sequence[str], what: str) -> pa.Table:
    """Return the files' rows, the columns that are there of those asked for; `needed` must be."""
    pieces = []
    for file in files:
        names = tables.sample(file, 1).column_names
        missing = [name for name in needed if name not in names]
        if missing:
            raise LogError(f"{file.path} is not {what}: there is no column '{missing[0]}'; columns are {listed(names)}")
        pieces.append(tables.read_table(file, [name for name in columns if name in names]))
    return pa.concat_tables(pieces, promote_options="permissive")
