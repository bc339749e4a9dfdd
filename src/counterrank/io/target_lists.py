"""Lists of a second ranker: a table of query, rank and document, as a target that always shows them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterrank.arrays import Ints
from counterrank.data.log import RankingLog
from counterrank.data.propensity import Propensity
from counterrank.errors import LogError
from counterrank.io import tables, values
from counterrank.io.files import expand, guard
from counterrank.io.prepare import rankings_in
from counterrank.io.spec import Field, LogSpec
from counterrank.messages import say
from counterrank.policies import Deterministic, Scored
from counterrank.texts import listed

#: The columns of a file of lists.
COLUMNS = ("query", "rank", "document")


@dataclass(frozen=True, slots=True)
class TargetLists:
    """What a ranker shows for each query: documents (N,) in the order of their ranks, list after list.

    `places` is where each query's list starts and how long it is; `column` the log's column of
    queries.
    """

    target: str
    path: str
    documents: pa.Array
    places: Mapping[str, tuple[int, int]]
    column: str = "query"
    #: Codes of the documents under the names that a log's items have, once they were looked up.
    _codes: dict[Any, tuple[Ints, tuple[str, ...] | None]] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, target: str, path: str | os.PathLike[str], column: str) -> Self:
        """Return the lists in a file with the columns query, rank and document."""
        name = os.fspath(path)
        with guard(name, prefix=True):
            pieces = []
            for file in expand(path):
                known = tables.sample(file, 1).column_names
                missing = [one for one in COLUMNS if one not in known]
                if missing:
                    raise LogError(
                        f"{file.path} has no column '{missing[0]}'; lists of a ranker have the "
                        f"columns {', '.join(COLUMNS)}, here are {listed(known)}"
                    )
                pieces.append(tables.read_table(file, COLUMNS))
            table = pa.concat_tables(pieces, promote_options="permissive")
            return cls(target, name, *_lists(table), column)

    def onto(self, log: RankingLog) -> RankingLog:
        """Return the log with the lists as a target; documents that it never showed become items of it."""
        if self.column not in log.columns:
            raise LogError(
                f"there is no column '{self.column}' that says which query a ranking answers; map "
                f"it with {say('--columns', 'query=NAME')}"
            )
        codes, names = self._looked_up(log.action_names)
        ranking = np.full((log.n, log.K), -1, dtype=np.int64)
        queries = values.as_text(pa.array(log.columns[self.column])).to_pylist()
        for row, query in enumerate(queries):
            start, size = self._place(query, int(log.numbers[row]))
            size = min(size, log.K)
            ranking[row, :size] = codes[start : start + size]
        most = max(int(codes.max()) + 1, log.n_actions) if names is None else len(names)
        shows: Any = Deterministic(ranking, most)
        if isinstance(log.propensity, Propensity) and log.propensity.kind == "factored":
            # Slots that were filled one by one, perhaps with one item twice, are compared one by one.
            same = (ranking == log.action) | (log.action < 0)
            shows = Propensity("factored", same.astype(np.float64))
        return _widened(log.with_targets({self.target: shows}).changed(action_names=names), most)

    def _looked_up(self, known: tuple[str, ...] | None) -> tuple[Ints, tuple[str, ...] | None]:
        """Return the documents' codes, and the names of all items: those of the log come first."""
        if known not in self._codes:
            if known is None:
                codes = values.integers(self.documents, "document", lambda row: f"entry {row}")
                self._codes[known] = codes, None
            else:
                text = values.as_text(self.documents)
                new = sorted(set(text.to_pylist()) - set(known))
                names = (*known, *new)
                found = pc.index_in(text, value_set=pa.array(names, text.type))
                self._codes[known] = found.to_numpy().astype(np.int64), names
        return self._codes[known]

    def _place(self, query: str | None, row: int) -> tuple[int, int]:
        if query is None or query not in self.places:
            shown = "no query" if query is None else f"the query '{query[:60]}'"
            raise LogError(
                f"row {row} has {shown}, of which {self.path} has no list; give a list for every "
                f"query, or leave such rows out with {say('--where', 'CONDITION')}"
            )
        return self.places[query]


def _widened(log: RankingLog, most: int) -> RankingLog:
    """Return a log with room among a logger's candidates for items that only the target knows."""
    if log.candidates is None:
        return log
    wide, logger = replace(log.candidates, n_items=most), log.propensity
    if isinstance(logger, Scored):
        logger = logger.over(wide, slice(0, log.n))
    return log.changed(candidates=wide, propensity=logger)


def _lists(table: pa.Table) -> tuple[pa.Array, dict[str, tuple[int, int]]]:
    """Return the documents by query and rank, and where each query's list lies among them."""
    if not table.num_rows:
        raise LogError("there is no list: the file has no rows")
    for name in ("document", "rank"):
        if table[name].null_count:
            row = pc.index(table[name].is_null(), True).as_py()
            raise LogError(f"row {row}: the {name} is missing")
    document = Field(("document",), "scalar")
    spec = LogSpec(
        layout="long", fields={"action": document, "reward": document}, ranking="query", position="rank"
    )  # fmt: skip
    found = rankings_in(table, spec)
    queries = values.as_text(values.one_chunk(found["query"])).to_pylist()
    lists = values.one_chunk(found["document"])
    documents, sizes = lists.flatten(), values.entry_counts(lists)
    row, _ = values.places(sizes)
    pairs = pa.table({"query": row, "document": documents}).group_by(["query", "document"])
    counts = pairs.aggregate([([], "count_all")])
    if pc.max(counts["count_all"]).as_py() > 1:
        one = counts.filter(pc.greater(counts["count_all"], 1)).slice(0, 1).to_pylist()[0]
        raise LogError(
            f"the document {one['document']} stands twice in the list of the query "
            f"'{queries[one['query']][:60]}'"
        )
    starts = np.cumsum(sizes) - sizes
    places = zip(starts.tolist(), sizes.tolist(), strict=True)
    return documents, dict(zip(queries, places, strict=True))
