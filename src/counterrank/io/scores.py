"""Scores of rankers in tables of their own: one row per request and item, one column per ranker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from counterrank.common.errors import ConfigError
from counterrank.io.events import join_keys


@dataclass(frozen=True, slots=True)
class Scores:
    """A table of scores, and how its rows belong to the candidates of a log.

    Parameters
    ----------
    path
        A file, folder or pattern, as for a log, or a table.
    on
        The columns by which a row finds its candidate: ["request_id", "item_id"], or
        "log_name=scores_name" where the names differ. None: the request and the item, by the names that
        both tables have.
    columns
        The columns of scores by the name of their target, {"b": "score_b"}. None: every numeric column
        that is no key and no column of the log; `score_b`, `b_score`, `scores_b` and `b_scores` belong
        to `b`, and a column `score` that is the only one to the target with the name of the file.

    Examples
    --------
    >>> Scores("scores.parquet", on="query=request_id, item", columns={"b": "score_b"}).keys
    (('query', 'request_id'), ('item', 'item'))
    """

    path: Any
    on: str | Iterable[str] | None = None
    columns: Mapping[str, str] | None = None
    keys: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        if isinstance(self.path, (str, os.PathLike)):
            put(self, "path", os.fspath(self.path))
        put(self, "keys", join_keys(self.on, "scores", "--scores-join"))
        columns: Any = self.columns
        if columns is None:
            return
        texts = [*columns.items()] if isinstance(columns, Mapping) else []
        if not texts or not all(isinstance(text, str) and text for pair in texts for text in pair):
            raise ConfigError(
                f"the columns of scores are given by target, {{'b': 'score_b'}}; got {columns!r}"
            )

    @property
    def title(self) -> str:
        """What messages call the table."""
        return self.path if isinstance(self.path, str) else "the table of scores"

    @property
    def said(self) -> dict[str, str]:
        """How it was written, for the record of a result."""
        joined = ", ".join(a if a == b else f"{a}={b}" for a, b in self.keys)
        record = {"path": self.title} | ({"join": joined} if joined else {})
        return record | {
            f"scores of {name}": column for name, column in (self.columns or {}).items()
        }


def scores_of(tables: Any) -> tuple[Scores, ...]:
    """Return tables of scores, given as one, several, or their paths."""
    several = tables if isinstance(tables, (list, tuple)) else [tables]
    if not all(isinstance(table, (Scores, str, os.PathLike)) for table in several):
        raise ConfigError(
            f"scores is counterrank.Scores(path, on=[...]), or several of them; got {tables!r:.200}"
        )
    return tuple(table if isinstance(table, Scores) else Scores(table) for table in several)
