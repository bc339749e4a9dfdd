"""Candidates, scores and features of items: from columns to what policies are made of.

Scores lie beside the candidates, one list a row. They become policies batch by batch, so that
memory is that of a batch however many requests there are.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.errors import LogError
from counterrank.log import LOGGING, RankingLog
from counterrank.policies import Candidates, ItemFeatures, Policy, load_policy, parse_policy
from counterrank.readers import columns, tables, values
from counterrank.readers.files import expand
from counterrank.readers.spec import CandidateSpec, Field, LogSpec
from counterrank.texts import listed, suggestion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The column of an items file that says whose features a row holds, and what else it is called.
ITEM = "item"
_ITEMS = (ITEM, "item_id")
#: What pandas calls the index that it writes as a column of its own.
_INDEX = ("", "Unnamed: 0", "__index_level_0__")


class Listed:
    """The candidates of some rows, and what stands beside them; entries without an item are left
    out.
    """

    def __init__(self, table: pa.Table, spec: LogSpec, start: int) -> None:
        assert spec.candidates is not None
        self.table, self.spec, self.start, self.parts = table, spec, start, spec.candidates
        if self.parts.items is None:
            self._every_item()
        else:
            self._listed_items(self.parts.items)
        features = {field.name: self._feature(field) for field in self.parts.features}
        offsets = np.concatenate([[0], np.cumsum(self.counts)])
        categories = {
            name: labels for name, labels in self.parts.categories.items() if name in features
        }
        self.candidates = Candidates(
            offsets, self.items, features, categories, self.parts.n_items, start
        )

    def policy(self, name: str) -> Policy:
        """Return the policy made of the scores of `name`."""
        field = self.parts.scores[name]
        scores = values.floats(self._beside(field, "scores"), field.name, self._place)
        return parse_policy(self.parts.policies[name]).bind(
            candidates=self.candidates, scores=scores, name=field.name
        )

    def _listed_items(self, field: Field) -> None:
        array = _lists(self.table, field, self.start)
        self.raw = columns.entry_counts(array)
        flat = array.flatten()
        self.kept = (
            None
            if flat.null_count == 0
            else np.asarray(pc.is_valid(flat).to_numpy(zero_copy_only=False))
        )
        self.counts = self.raw
        if self.kept is not None:
            row = np.repeat(np.arange(len(self.raw)), self.raw)
            self.counts = np.bincount(row[self.kept], minlength=len(self.raw))
            flat = flat.filter(pa.array(self.kept))
        self.items = columns.item_ids(flat, field.name, self.spec, self._place).astype(np.int32)

    def _every_item(self) -> None:
        """Without a list of candidates every item is one: scores stand by item id."""
        if self.spec.action_names is not None:
            raise LogError(
                "scores without candidates stand by item id, but these items have names; add a "
                "column 'candidates' that lists the items in the order of their scores"
            )
        first = next(iter(self.parts.scores.values()))
        self.raw = columns.entry_counts(_lists(self.table, first, self.start))
        width = max(self.parts.n_items, int(self.raw.max(initial=0)))
        if (self.raw != width).any():
            row = int(np.argmax(self.raw != width))
            raise LogError(
                f"row {self.start + row}: '{first.name}' has {self.raw[row]} scores, but there are "
                f"{width} items; without a column 'candidates' every item needs a score"
            )
        self.counts, self.kept = self.raw, None
        self.items = np.tile(np.arange(width, dtype=np.int32), len(self.raw))

    def _beside(self, field: Field, what: str) -> pa.Array:
        """Return the entries of a column that has one for each candidate."""
        array = _lists(self.table, field, self.start)
        counts = columns.entry_counts(array)
        if (counts != self.raw).any():
            row = int(np.argmax(counts != self.raw))
            raise LogError(
                f"row {self.start + row}: '{field.name}' has {counts[row]} {what}, but there are "
                f"{self.raw[row]} candidates; give one for each candidate, in their order"
            )
        flat = array.flatten()
        return flat if self.kept is None else flat.filter(pa.array(self.kept))

    def _feature(self, field: Field) -> NDArray[Any]:
        flat = self._beside(field, "values")
        if field.name in self.parts.categories:
            return values.codes(flat, self.parts.categories[field.name], field.name, self._place)
        if pa.types.is_float32(flat.type):
            return np.array(flat.to_numpy(zero_copy_only=False))
        return values.floats(flat, field.name, self._place)

    def _place(self, index: int) -> str:
        ends = np.cumsum(self.counts)
        row = int(np.searchsorted(ends, index, side="right"))
        return f"row {self.start + row}, candidate {index - int(ends[row] - self.counts[row]) + 1}"


def _lists(table: pa.Table, field: Field, start: int) -> pa.Array:
    array = values.one_chunk(table[field.name])
    return array if values.is_list(array.type) else values.parse_lists(array, field.name, start)


def with_saved_policies(log: RankingLog, parts: CandidateSpec) -> RankingLog:
    """Return the log with those target policies that are rules in files, bound to its rows."""
    rules = {
        name: _rule(text)
        for name, text in parts.policies.items()
        if name != LOGGING and name not in parts.scores
    }
    return (
        log.with_targets({name: rule.bind(log) for name, rule in rules.items()}) if rules else log
    )


@lru_cache(maxsize=16)
def _rule(path: str) -> Any:
    rule = load_policy(path)
    if not hasattr(rule, "bind"):
        raise LogError(
            f"{path} holds a policy of other rows; save a rule that can be bound to a log, as .json"
        )
    return rule


def read_item_features(path: str, names: tuple[str, ...] | None, n_items: int) -> ItemFeatures:
    """Return the features in a file with a column `item` (or `item_id`) and one column a feature;
    categories become codes.

    `names` are the items' names by id, where they have any; rows about items that the log does not
    know are left out.
    """
    table = pa.concat_tables(
        [tables.read_table(file) for file in expand(path)], promote_options="permissive"
    )
    key = next((name for name in _ITEMS if name in table.column_names), None)
    if key is None:
        near = suggestion(ITEM, table.column_names)
        raise LogError(
            f"{path} has no column '{ITEM}'{near}; columns are {listed(table.column_names)}"
        )
    ids = _ids(values.one_chunk(table[key]), names, path)
    _refuse_twice(ids, path)
    features = [name for name in table.column_names if name not in (key, *_INDEX)]
    if not features:
        raise LogError(f"{path} has no column but '{key}'; add one for each feature")
    size = max(n_items, len(names or ()), int(ids.max(initial=-1)) + 1, 1)
    result = np.full((size, len(features)), np.nan)  # (A, d)
    categories: dict[str, tuple[str, ...]] = {}
    known = ids >= 0
    for j, name in enumerate(features):
        array = values.one_chunk(table[name])
        if values.is_text(array.type):
            labels = tuple(
                sorted(values.as_text(pc.unique(values.plain(array))).drop_null().to_pylist())
            )
            codes = values.codes(array, labels, name, _row_of(path))
            categories[name] = labels
            column = np.where(codes < 0, np.nan, codes)
        else:
            column = values.floats(array, name, _row_of(path))
        result[ids[known], j] = column[known]
    return ItemFeatures(result, tuple(features), categories)


def _row_of(path: str) -> values.Place:
    return lambda index: f"row {index} of {path}"


def _ids(array: pa.Array, names: tuple[str, ...] | None, path: str) -> Ints:
    if names is None:
        return values.integers(array, ITEM, _row_of(path))
    text = values.as_text(array)
    found = pc.fill_null(pc.index_in(text, value_set=pa.array(names, type=text.type)), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def _refuse_twice(ids: Ints, path: str) -> None:
    order = np.argsort(ids, kind="stable")
    again = np.flatnonzero((np.diff(ids[order]) == 0) & (ids[order][1:] >= 0))
    if len(again):
        one, two = sorted((int(order[again[0]]), int(order[again[0] + 1])))
        raise LogError(
            f"{path}: rows {one} and {two} are about the same item; keep one row an item"
        )
