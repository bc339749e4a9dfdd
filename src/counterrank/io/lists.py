"""Rankings as lists made into one row per candidate, so that one look serves all layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from counterrank.io import prepare, sql, tables, values
from counterrank.io.files import DataFile
from counterrank.io.roles import named

#: Rankings that are looked at.
_RANKINGS = 20_000
#: Share of rankings in which an item stands once, or that show nothing but candidates.
_NEARLY = 0.99


@dataclass(frozen=True, slots=True)
class Exploded:
    """Files of one row per candidate, and what their columns were: the number of the ranking, the place, the item."""

    files: list[DataFile]
    page: str
    place: str
    item: str
    #: The roles of the lists of items.
    columns: dict[str, str]
    #: Columns with an entry for each candidate.
    by_candidate: frozenset[str]
    #: Columns with an entry for each shown item or candidate.
    entries: frozenset[str]


def exploded(files: Sequence[DataFile], stated: Mapping[str, str]) -> Exploded | None:
    """Return rankings in lists or numbered columns as rows, or nothing where cells hold single values."""
    table = tables.sample(files[0], _RANKINGS)
    table, kinds, stems = _with_lists(table)
    if not kinds:
        return None
    single = [
        sql.name(n) for n in table.column_names if n not in (*kinds, *sum(stems.values(), []))
    ]
    runs = [f"[{', '.join(map(sql.name, run))}] AS {sql.name(stem)}" for stem, run in stems.items()]
    listed = [sql.name(name) for name in kinds if name not in stems]
    with sql.connection() as opened, sql.plainly("the lists cannot be taken apart"):
        opened.register("pages", prepare.plain_types(table))
        opened.execute(
            'CREATE TEMP TABLE lists AS SELECT row_number() OVER () - 1 AS " request", '
            f"{', '.join([*listed, *runs, *single])} FROM pages"
        )
        shown, candidates = _items(opened, kinds, stated)
        if not shown:
            return None
        base = candidates or shown
        place = f"nullif(list_position({_texts(shown)}, CAST(item AS VARCHAR)), 0)"
        columns = {" position": f"list_transform({sql.name(base)}, lambda item: {place})"}
        of_base = [name for name in kinds if _lengths_agree(opened, name, base)]
        of_shown = [name for name in kinds if _lengths_agree(opened, name, shown)]
        for name in kinds:
            if name in of_base:
                columns[name] = sql.name(name)
            elif name in of_shown and name != shown:
                entry = f"{sql.name(name)}[{place}]"
                columns[name] = f"list_transform({sql.name(base)}, lambda item: {entry})"
        unnested = [f"unnest({text}) AS {sql.name(name)}" for name, text in columns.items()]
        rows = sql.table(
            opened, f'SELECT " request", {", ".join([*unnested, *single])} FROM lists ORDER BY 1'
        )
    roles = {"action": shown} | ({"candidates": candidates} if candidates else {})
    return Exploded(
        tables.written([(prepare.plain_types(rows), "the log")]),
        " request",
        " position",
        base,
        roles,
        frozenset(of_base),
        frozenset([" request", *columns]),
    )


def _with_lists(
    table: pa.Table,
) -> tuple[pa.Table, dict[str, pa.DataType], dict[str, list[str]]]:
    """Return a table whose lists are no text, the types of their entries, and runs of numbered columns."""
    kinds, numbered = {}, dict[str, list[str]]()
    for place, name in enumerate(table.column_names):
        kind = table.schema.field(name).type
        cells = table[name].slice(0, 100).to_pylist() if values.is_text(kind) else []
        listed = values.is_list(kind) and not pa.types.is_nested(kind.value_type)
        if listed or any(cell and values.looks_like_list(cell) for cell in cells):
            table = table.set_column(place, name, values.as_lists(table[name], name))
            kinds[name] = table.schema.field(name).type.value_type
        elif number := re.fullmatch(r"(.+)_(\d+)", name):
            numbered.setdefault(number[1], []).append(name)
    # A single numbered column is a list where the items are one.
    fewest, stems = 1 if "action_1" in table.column_names else 2, {}
    for stem, names in numbered.items():
        run = [name for k in range(len(names) + 1) if (name := f"{stem}_{k}") in names]
        entries = {table.schema.field(name).type for name in run}
        if len(run) == len(names) >= fewest and len(entries) == 1 and stem not in (*kinds, "x"):
            stems[stem] = run
            (kinds[stem],) = entries
    return table, kinds, stems


def _items(
    opened: Any, kinds: Mapping[str, pa.DataType], stated: Mapping[str, str]
) -> tuple[str, str]:
    """Return the lists of shown items and of candidates, empty where there is none."""
    lengths = {name: _first(opened, f"sum(len({sql.name(name)}))") or 0 for name in kinds}
    hinted = [name for name in (stated.get("action", ""), *named(kinds, "action")) if name in kinds]
    longer = [name for name in (stated.get("candidates", ""), "candidates") if name in kinds]
    fits = [
        name
        for name, kind in kinds.items()
        if name not in longer
        and (values.is_text(kind) or pa.types.is_integer(kind))
        and _never_twice(opened, name, lengths[name])
    ]
    shown = hinted[0] if hinted else min(fits, key=lengths.__getitem__, default="")
    if not shown or longer:
        return shown, longer[0] if longer and shown else ""
    containing = (
        name
        for name in fits
        if lengths[name] > lengths[shown]
        and _first(opened, f"sum(len(list_intersect({_texts(name)}, {_texts(shown)})))")
        >= _NEARLY * lengths[shown]
    )
    return shown, next(containing, "")


def _never_twice(opened: Any, name: str, length: int) -> bool:
    """Whether lists hold ids that stand once in a list and return in others."""
    column = sql.name(name)
    once = _first(opened, f"sum(len(list_distinct({column})))") or 0
    (levels,) = opened.execute(
        f"SELECT count(DISTINCT entry) FROM (SELECT unnest({column}) AS entry FROM lists)"
    ).fetchall()[0]
    return bool(length and once >= _NEARLY * length and levels < length)


def _lengths_agree(opened: Any, name: str, base: str) -> bool:
    lengths = (f"coalesce(len({sql.name(column)}), 0)" for column in (name, base))
    return bool(_first(opened, f"bool_and({' = '.join(lengths)})"))


def _texts(name: str) -> str:
    return f"CAST({sql.name(name)} AS VARCHAR[])"


def _first(opened: Any, value: str) -> Any:
    return opened.execute(f"SELECT {value} FROM lists").fetchall()[0][0]
