"""Lists of a second ranker: a table of query, rank and document, as a target that always shows them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from counterrank.common.arrays import Ints
from counterrank.common.errors import LogError
from counterrank.common.messages import say
from counterrank.common.texts import comma_separated
from counterrank.data.log import Probabilities, Propensity, RankingLog
from counterrank.io import tables, values
from counterrank.io.files import expand, guard
from counterrank.policies import Deterministic

#: The columns of a file of lists.
COLUMNS = ("query", "rank", "document")


@dataclass(frozen=True, slots=True)
class TargetLists:
    """A file of a second ranker's lists, as a target that always shows them.

    `codes` are the items of each query's list, once all items are known; `query` is the column that
    says which list is meant.
    """

    path: str
    query: str
    codes: Mapping[str, Ints] = field(default_factory=dict)

    def read(self, names: tuple[str, ...] | None) -> tuple[Self, tuple[str, ...] | None]:
        """Return the lists in the file, and the names of all items, the log's own first.

        `names` are the items' names by id, where they have any.
        """
        with guard(self.path, prefix=True):
            lists = _lists(self.path)
            flat = pa.array([document for documents in lists.values() for document in documents])
            if names is None:
                codes = values.integers(flat, "document", lambda row: f"entry {row}")
            else:
                text = values.as_text(flat)
                names = (*names, *sorted(set(text.to_pylist()) - set(names)))
                codes = values.codes(text, names, "document", str)
        ends = np.cumsum([len(documents) for documents in lists.values()])
        by_query = dict(zip(lists, np.split(codes, ends[:-1]), strict=True))
        return replace(self, codes=by_query), names

    @property
    def n_items(self) -> int:
        """The largest item, and one more."""
        return 1 + max(int(codes.max()) for codes in self.codes.values())

    def bind(self, log: RankingLog) -> Probabilities:
        """Return the policy that shows the list of each row's query."""
        ranking = np.full(log.action.shape, -1, dtype=np.int64)  # (n, K)
        queries = values.as_text(pa.array(log.columns[self.query])).to_pylist()
        for row, query in enumerate(queries):
            if query not in self.codes:
                query_text = "no query" if query is None else f"the query '{query[:60]}'"
                raise LogError(
                    f"row {log.numbers[row]} has {query_text}, of which {self.path} has no list; give a "
                    "list for every query, or leave such rows out with "
                    f"{say('--where', 'CONDITION')}"
                )
            documents = self.codes[query][: log.K]
            ranking[row, : len(documents)] = documents
        if isinstance(log.propensity, Propensity) and log.propensity.kind == "factored":
            # Slots that were filled one by one, perhaps with one item twice, are compared one by one.
            agrees = (ranking == log.action) | (log.action < 0)
            return Propensity("factored", agrees.astype(np.float64))
        policy = Deterministic(ranking, max(self.n_items, log.n_actions))
        policy.rule = self
        return policy


def _lists(path: str) -> dict[str, list[Any]]:
    """Return the documents of each query in the order of their ranks."""
    from counterrank.io.prepare import plain_types, rankings_of
    from counterrank.io.schema import Field, LogSpec

    pieces = []
    for file in expand(path):
        columns = tables.sample(file, 1).column_names
        for name in COLUMNS:
            if name not in columns:
                raise LogError(
                    f"{file.path} has no column '{name}'; lists of a ranker have the "
                    f"columns {', '.join(COLUMNS)}, here are {comma_separated(columns)}"
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
        layout="long",
        fields={"action": document, "reward": document},
        ranking="query",
        position="rank",
    )
    files = tables.written([(plain_types(table), "")])
    rankings = pa.concat_tables(rankings_of(files, spec))
    queries = values.as_text(values.one_chunk(rankings["query"])).to_pylist()
    lists = dict(zip(queries, rankings["document"].to_pylist(), strict=True))
    for query, documents in lists.items():
        document, count = Counter(documents).most_common(1)[0]
        if count > 1:
            raise LogError(
                f"the document {document} stands twice in the list of the query '{query[:60]}'"
            )
    return lists
