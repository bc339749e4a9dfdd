"""Lists of a second ranker: a table of query, rank and document, as a target that always shows them."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterrank.arrays import Ints
from counterrank.data.log import RankingLog
from counterrank.data.propensity import Propensity
from counterrank.errors import LogError
from counterrank.io import tables, values
from counterrank.io.files import expand, guard
from counterrank.io.prepare import rankings_in
from counterrank.io.schema import Field, LogSpec
from counterrank.messages import say
from counterrank.policies import Deterministic, Scored
from counterrank.texts import listed

#: The columns of a file of lists.
COLUMNS = ("query", "rank", "document")


def read_lists(
    target: str, path: str | os.PathLike[str], column: str
) -> Callable[[RankingLog], RankingLog]:
    """Return what gives a log the lists in a file as a target.

    `column` is the log's column of queries. Documents that the log never showed become items of it.
    """
    name = os.fspath(path)
    with guard(name, prefix=True):
        lists = _lists(name)
    known: dict[tuple[str, ...] | None, tuple[dict[str, Ints], tuple[str, ...] | None, int]] = {}

    def onto(log: RankingLog) -> RankingLog:
        if column not in log.columns:
            raise LogError(
                f"there is no column '{column}' that says which query a ranking answers; map "
                f"it with {say('--columns', 'query=NAME')}"
            )
        if log.action_names not in known:
            known[log.action_names] = _coded(lists, log.action_names)
        codes, names, most = known[log.action_names]
        ranking = np.full((log.n, log.K), -1, dtype=np.int64)
        queries = values.as_text(pa.array(log.columns[column])).to_pylist()
        for row, query in enumerate(queries):
            if query not in codes:
                shown = "no query" if query is None else f"the query '{query[:60]}'"
                raise LogError(
                    f"row {log.numbers[row]} has {shown}, of which {name} has no list; give a list "
                    f"for every query, or leave such rows out with {say('--where', 'CONDITION')}"
                )
            found = codes[query][: log.K]
            ranking[row, : len(found)] = found
        most = max(most, log.n_actions)
        shows: Any = Deterministic(ranking, most)
        if isinstance(log.propensity, Propensity) and log.propensity.kind == "factored":
            # Slots that were filled one by one, perhaps with one item twice, are compared one by one.
            same = (ranking == log.action) | (log.action < 0)
            shows = Propensity("factored", same.astype(np.float64))
        joined = log.with_targets({target: shows}).changed(action_names=names)
        if joined.candidates is None:
            return joined
        # A logger's candidates get room for items that only the target knows.
        wide, logger = replace(joined.candidates, n_items=most), joined.propensity
        if isinstance(logger, Scored):
            logger = logger.over(wide, slice(0, joined.n))
        return joined.changed(candidates=wide, propensity=logger)

    return onto


def _coded(
    lists: dict[str, list[Any]], known: tuple[str, ...] | None
) -> tuple[dict[str, Ints], tuple[str, ...] | None, int]:
    """Return the codes of documents by query, the names of all items (the log's first) and their number."""
    flat = pa.array([document for one in lists.values() for document in one])
    if known is None:
        codes, names = values.integers(flat, "document", lambda row: f"entry {row}"), None
    else:
        text = values.as_text(flat)
        names = (*known, *sorted(set(text.to_pylist()) - set(known)))
        codes = values.codes(text, names, "document", str)
    ends = np.cumsum([len(one) for one in lists.values()])
    parts = np.split(codes, ends[:-1])
    return dict(zip(lists, parts, strict=True)), names, int(codes.max()) + 1


def _lists(path: str) -> dict[str, list[Any]]:
    """Return the documents of each query in the order of their ranks."""
    pieces = []
    for file in expand(path):
        known = tables.sample(file, 1).column_names
        for name in COLUMNS:
            if name not in known:
                raise LogError(
                    f"{file.path} has no column '{name}'; lists of a ranker have the "
                    f"columns {', '.join(COLUMNS)}, here are {listed(known)}"
                )
        pieces.append(tables.read_table(file, COLUMNS))
    table = pa.concat_tables(pieces, promote_options="permissive")
    if not table.num_rows:
        raise LogError("there is no list: the file has no rows")
    for name in ("document", "rank"):
        if table[name].null_count:
            row = table[name].is_null().index(True).as_py()
            raise LogError(f"row {row}: the {name} is missing")
    document = Field(("document",), "scalar")
    spec = LogSpec(
        layout="long", fields={"action": document, "reward": document}, ranking="query", position="rank"
    )  # fmt: skip
    found = rankings_in(table, spec)
    queries = values.as_text(values.one_chunk(found["query"])).to_pylist()
    lists = dict(zip(queries, found["document"].to_pylist(), strict=True))
    for query, documents in lists.items():
        document, count = Counter(documents).most_common(1)[0]
        if count > 1:
            raise LogError(
                f"the document {document} stands twice in the list of the query '{query[:60]}'"
            )
    return lists
