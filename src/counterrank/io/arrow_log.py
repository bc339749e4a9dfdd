"""A piece of Arrow data, whose spec is known, as a RankingLog.

Candidates, their scores and the features of items become what policies are made of. Scores lie
beside the candidates, one list per row, and become policies batch by batch, so that memory is that of
a batch however many requests there are.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import LogError
from counterrank.common.messages import (
    MISSING_PROPENSITY,
    TIES_DROPPED,
    missing_rewards,
    naming_rows,
    row_name,
    say,
)
from counterrank.data.log import LOGGING, Probabilities, Propensity, RankingLog
from counterrank.io import tables, values
from counterrank.io.files import expand
from counterrank.io.roles import PANDAS_INDEX, no_column
from counterrank.io.schema import Field, LogSpec
from counterrank.policies import (
    Candidates,
    ItemFeatures,
    Scored,
    TeamDraft,
    load_policy,
    parse_policy,
)

#: Turns values of a column, its name and their places into an array.
Convert = Callable[[pa.Array, str, values.Place], NDArray[Any]]


def decode(
    table: pa.Table, spec: LogSpec, *, start: int = 0, numbers: Ints | None = None, before: int = 0
) -> RankingLog | None:
    """Return the rankings of `table`, a piece that begins at row `start` of the whole data set.

    `numbers` (n,) are the rows' numbers there, where some were left out; messages count rows from
    `before` on. None where rows whose order equal scores decide are to be left out, and no other is
    there.
    """
    ids = [] if spec.ranking is None else table[spec.ranking]

    def name(row: int) -> str:
        """Return "ranking 'r7'": its rows stand elsewhere in the file."""
        index = row - start
        if 0 <= index < len(ids):
            return f"ranking {ids[index].as_py()!r}"
        return f"row {(row if numbers is None else numbers[index]) - before}"

    with naming_rows(name, spec.action_names):
        log = RankingRows(table, spec, start).log(numbers)
    return _without_ties(log) if TIES_DROPPED in spec.notes else log


def _without_ties(log: RankingLog) -> RankingLog | None:
    """Return the rows in which the logger's scores decide; None if there are none.

    Which rows those are hangs on the scores alone, not on what was shown: nothing is biased for the
    rows that stay.
    """
    logger = log.propensity
    tied = logger.tied(log.K) if isinstance(logger, Scored) else np.zeros(log.n, dtype=bool)
    if not tied.any():
        return log
    return None if tied.all() else log.take(np.flatnonzero(~tied))


class RankingRows:
    """Rows of a table, one per ranking: how long each is, and what its fields hold.

    `raw` and `used` (n,) are the entries and the items of each ranking, None where all have K.
    """

    def __init__(self, table: pa.Table, spec: LogSpec, start: int = 0) -> None:
        self.table, self.spec, self.start = table, spec, start
        self.action, self.raw = self._by_place(spec.fields["action"], self.item_ids, -1)
        ragged = self.raw is not None or int(self.action.min()) < 0
        self.used = (self.action >= 0).sum(axis=1) if ragged else None
        self.order: Ints | None = None
        if spec.renumber and ragged:
            # Items move up over empty positions; other fields follow through `_by_position`.
            self.order = np.argsort(self.action < 0, axis=1, kind="stable")  # (n, K)
            self.action = np.take_along_axis(self.action, self.order, axis=1)

    def place(self, row: int) -> str:
        """Return what messages call a row."""
        return row_name(self.start + row)

    def column(self, name: str) -> pa.Array:
        """Return a column as one array."""
        return values.one_chunk(self.table[name])

    def lists(self, field: Field) -> tuple[pa.Array, Ints]:
        """Return a field of lists, also where they are written as text, and their lengths (n,)."""
        array = values.as_lists(self.table[field.name], field.name, self.start)
        return array, values.entry_counts(array)

    def item_ids(self, array: pa.Array, name: str, place: values.Place) -> Ints:
        """Return item ids (m,), -1 where null: codes of names, or the numbers themselves."""
        if self.spec.action_names is not None:
            return values.codes(array, self.spec.action_names, name, place)
        result = values.integers(array, name, place)
        if len(result) and int(result.min()) < -1:
            index = int(np.argmax(result < -1))
            raise LogError(
                f"'{name}' is {result[index]} at {place(index)}; ids start at 0 and -1 pads a shorter "
                "ranking",
                remedy=(
                    f"other ids are read with {say('--encode-actions', python='encode_actions=True')}"
                ),
            )
        return result

    def log(self, numbers: Ints | None) -> RankingLog:
        """Return the rankings; `numbers` (n,) are theirs in the whole data set."""
        spec, parts = self.spec, self.spec.candidates
        reward, notes = self._rewards()
        context = self._context() if spec.context else None
        columns = {name: values.objects(self.column(name)) for name in spec.segments}
        unit, bucket = self._units(spec.unit) if spec.unit else (None, np.empty(0, np.int64))
        choices, scored = None, dict[str, Probabilities]()
        if parts.items or parts.scores:
            choices = CandidateRows(self)
            scored = choices.policies()
        propensity = scored.pop(LOGGING, None)
        targets = {**scored, **self._targets()}
        if propensity is None and MISSING_PROPENSITY in spec.notes:
            propensity = Propensity("factored", np.ones(self.action.shape))
        log = RankingLog(
            action=self.action,
            reward=reward,
            propensity=propensity or self._policy(spec.fields[LOGGING]),
            candidates=None if choices is None else choices.candidates,
            item_features=parts.item_features,
            context=context,
            context_names=spec.context,
            categories=spec.categories,
            action_names=spec.action_names,
            unit=unit,
            weight=self._column_numbers(spec.weight) if spec.weight else None,
            behavior=values.objects(self.column(spec.behavior)) if spec.behavior else None,
            behavior_masks=spec.behavior_masks,
            targets=targets,
            dists={name: self._distribution(field) for name, field in spec.dists.items()},
            columns=columns,
            position_weights=spec.position_weights,
            bucket=bucket,
            start=self.start,
            selected=numbers,
            notes=(*spec.notes, *notes),
        )
        further = spec.events or spec.scores or spec.depth or spec.lists or parts.policies
        return self._completed(log) if further else log

    def _completed(self, log: RankingLog) -> RankingLog:
        """Return the log with what was joined, its first positions, and the targets that are made of its rows."""
        spec, parts = self.spec, self.spec.candidates
        if spec.events is not None or spec.scores:
            log = log.changed(events=spec.events, scores=spec.scores)
        if spec.depth is not None:
            log = log.first_positions(spec.depth)
        # Target policies that are rules or lists in files are bound to the rows.
        rules: dict[str, Probabilities] = {
            name: _rule(text).bind(log)
            for name, text in parts.policies.items()
            if name != LOGGING and name not in parts.scores
        }
        rules |= {name: lists.bind(log) for name, lists in spec.lists.items()}
        return log.with_targets(rules) if rules else log

    def _by_place(
        self, field: Field, convert: Convert, pad: float
    ) -> tuple[NDArray[Any], Ints | None]:
        """Return a field as a fresh array (n, K), `pad` behind shorter lists, and their lengths if they differ."""
        if not field.has_lists:
            columns = [convert(self.column(name), name, self.place) for name in field.columns]
            return np.stack(columns, axis=1), None
        array, counts = self.lists(field)
        size, longest = self.spec.K, int(counts.max(initial=0))
        if longest > size:
            raise LogError(
                f"{self.place(int(counts.argmax()))}: '{field.name}' has {longest} entries, but "
                f"rankings have {size} positions",
                remedy="pad shorter rankings with nulls",
            )
        flat = convert(array.flatten(), field.name, values.place_in_lists(counts, self.start))
        if int(counts.min(initial=longest)) == size:
            return flat.reshape(-1, size).copy(), None
        result = np.full((len(array), size), pad, dtype=flat.dtype)  # (n, K)
        result[np.arange(size) < counts[:, None]] = flat
        return result, counts

    def _column_numbers(self, name: str) -> Floats:
        """Return one scalar column as fresh floats (n,)."""
        return values.floats(self.column(name), name, self.place).copy()

    def _rewards(self) -> tuple[Floats | dict[str, Floats], list[str]]:
        """Return the reward, or every reward by name where there are several, and what is to be said."""
        spec, by_name, filled, cells = self.spec, dict[str, Floats](), 0, 0
        for name, field in (spec.rewards or {"": spec.fields["reward"]}).items():
            if field.form == "scalar" and spec.fields["action"].form != "scalar":
                rewards = self._column_numbers(field.name)
            else:
                rewards = self._matrix(field, 0.0)
            if spec.missing_reward == "zero":
                missing = np.isnan(rewards)
                filled, cells = filled + int(missing.sum()), cells + missing.size
                rewards[missing] = 0.0
            by_name[name] = rewards
        notes: list[str] = [missing_rewards(filled, cells)] if filled else []
        return by_name if spec.rewards else by_name[""], notes

    def _targets(self) -> dict[str, Propensity]:
        policies = {}
        for name, field in self.spec.targets.items():
            try:
                policy = self._policy(field)
            except LogError:
                if name not in self.spec.guessed:
                    raise
                continue
            # A column nobody named is a target only if every number in it could be a probability.
            inside = (policy.values >= 0) & (policy.values <= 1)
            if name not in self.spec.guessed or inside.all():
                policies[name] = policy
        return policies

    def _policy(self, field: Field) -> Propensity:
        kind = self.spec.kind
        if kind == "joint" and field.form == "scalar":
            return Propensity(kind, self._column_numbers(field.name))
        if kind == "joint":
            # Given at every position: the padding repeats the first.
            matrix = self._matrix(field, np.nan)
            return Propensity(kind, np.where(np.isnan(matrix), matrix[:, :1], matrix))
        return Propensity(kind, self._matrix(field, 1.0))

    def _distribution(self, field: Field) -> Floats:
        """Return a policy's whole distributions, (n, A) or (n, K, A)."""
        if not field.has_lists:
            return self._by_place(field, values.floats, np.nan)[0]
        array, outer = self.lists(field)
        if not values.is_list(array.type.value_type):
            return _probabilities(array, field, self.place)
        items = np.full(len(array), self.spec.K)
        if self.used is not None and self.order is None:
            items = self.used
        wrong = (outer != items) & (outer != self.spec.K)
        if wrong.any():
            index = int(np.argmax(wrong))
            raise LogError(
                f"{self.place(index)}: '{field.name}' has {outer[index]} lists, the ranking has "
                f"{items[index]} items"
            )
        row, position = values.places(outer)
        shown = position < items[row]
        place = values.place_in_lists(np.bincount(row[shown], minlength=len(outer)), self.start)
        # Behind a shorter ranking nothing is drawn; a uniform row keeps every row a distribution.
        length = int(max(outer.max(initial=0), items.max(initial=0)))
        result = np.full((len(outer), length, field.size), 1.0 / max(field.size, 1))  # (n, K, A)
        inner = array.flatten().filter(pa.array(shown))
        result[row[shown], position[shown]] = _probabilities(inner, field, place)
        return (
            result if self.order is None else np.take_along_axis(result, self.order[..., None], 1)
        )

    def _matrix(self, field: Field, fill: float) -> Floats:
        """Return numbers by position (n, K) in the order of the items, `fill` behind shorter rankings."""
        spec = self.spec
        matrix, lengths = self._by_place(field, values.floats, np.nan)
        if lengths is not None or self.raw is not None:
            self._refuse_lengths(lengths, field.name)
        if matrix.shape[1] != spec.K:
            raise LogError(
                f"'{field.name}' has {matrix.shape[1]} columns, but rankings have {spec.K} "
                f"positions ('{spec.fields['action'].name}')"
            )
        if self.order is not None:
            matrix = np.take_along_axis(matrix, self.order, axis=1)
        if self.used is not None:
            matrix[np.arange(spec.K) >= self.used[:, None]] = fill
        return matrix

    def _refuse_lengths(self, lengths: Ints | None, name: str) -> None:
        """Raise for lists that have neither an entry for each of the actions' nor one per item."""
        full = np.full(len(self.action), self.spec.K)
        mine, action, items = (
            full if counts is None else counts for counts in (lengths, self.raw, self.used)
        )
        wrong = (mine != action) & (mine != items)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise LogError(
                f"{self.place(row)}: '{name}' has {mine[row]} entries, '"
                f"{self.spec.fields['action'].name}' has {action[row]}",
                remedy="they must have one each per position",
            )

    def _context(self) -> Floats:
        """Return the context (n, d), NaN where a value is missing."""
        spec = self.spec
        result = np.empty((self.table.num_rows, len(spec.context)))  # (n, d)
        for j, name in enumerate(spec.context):
            array, labels = self.column(name), spec.categories.get(name)
            if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
                # Seconds since 1970.
                stamps = array.cast(pa.timestamp("us")).cast(pa.int64())
                result[:, j] = values.floats(stamps, name, self.place) / 1e6
            elif pa.types.is_temporal(array.type):
                raise LogError(
                    f"context column '{name}' holds {array.type}",
                    remedy="numbers, categories or times are wanted",
                )
            else:
                result[:, j] = _feature(array, labels, name, self.place, "context ")
        return result

    def _units(self, name: str) -> tuple[NDArray[Any], Ints]:
        """Return the units (n,) and their buckets (n,), where those are not for the log to make."""
        array = values.plain(self.column(name))
        if array.null_count:
            row = pc.index(pc.is_null(array), True).as_py()
            raise LogError(
                f"unit '{name}' is missing at {self.place(row)}",
                remedy=(
                    "each ranking needs its user or session (give anonymous ones an id of their own)"
                ),
            )
        if not values.is_text(array.type):
            return values.objects(array), np.empty(0, np.int64)
        from counterrank.kernels import hashing

        buckets = np.empty(len(array), dtype=np.int64)
        text = array.cast(pa.large_string())
        single_list = pa.LargeListArray.from_arrays(pa.array([0, len(text)], pa.int64()), text)
        joined = pc.binary_join(single_list, pa.scalar("", text.type))[0].as_buffer()
        ends = np.append(0, np.cumsum(pc.binary_length(text).to_numpy(zero_copy_only=False)))
        # A copy: views of Arrow memory are read-only, and the kernel would be compiled a second time.
        hashing.string_buckets(ends, np.frombuffer(joined, dtype=np.uint8).copy(), buckets)
        return values.objects(array), buckets


def _probabilities(array: pa.Array, field: Field, place: values.Place) -> Floats:
    """Return lists of as many probabilities as there are actions, (n, A)."""
    counts = values.entry_counts(array)
    if (counts != field.size).any():
        row = int(np.argmax(counts != field.size))
        raise LogError(
            f"'{field.name}' has {counts[row]} probabilities at {place(row)}, elsewhere "
            f"{field.size}"
        )
    flat = values.floats(
        array.flatten(), field.name, lambda index: place(index // max(field.size, 1))
    )
    return flat.reshape(len(array), field.size).copy()


#: The column of an items file that says whose features a row holds, and what else it is called.
ITEM = "item"
_ITEMS = (ITEM, "item_id")


class CandidateRows:
    """The candidates of some rows, and what stands beside them; entries without an item are left out."""

    def __init__(self, rows: RankingRows) -> None:
        self.rows, self.spec, self.parts = rows, rows.spec, rows.spec.candidates
        #: Which entries hold an item, where some do not.
        self.kept: Bools | None = None
        if self.parts.items is None:
            self._every_item()
        else:
            self._listed_items(self.parts.items)
        features = {field.label: self._feature(field) for field in self.parts.features}
        offsets = np.concatenate([[0], np.cumsum(self.counts)])
        labels = self.parts.categories
        categories = {field.label: labels[field.name] for field in self.parts.named}
        self.candidates = Candidates(
            offsets, self.items, features, categories, self.parts.n_items, rows.start
        )

    def policies(self) -> dict[str, Probabilities]:
        """Return the policies made of scores, by name; a draft places what two rankers score."""

        def scores(name: str) -> Floats:
            field = parts.scores[name]
            return values.floats(self._per_candidate(field, "scores"), field.name, self._place)

        parts = self.parts
        specs = {name: parse_policy(text) for name, text in parts.policies.items()}
        policies: dict[str, Probabilities] = {
            name: specs[name].bind(
                candidates=self.candidates,
                scores=scores(name),
                name=field.name,
                partly=name != LOGGING,
            )
            for name, field in parts.scores.items()
            if name in specs
        }
        if LOGGING in specs and (teams := specs[LOGGING].teams):
            policies[LOGGING] = TeamDraft.by_scores(self.candidates, *map(scores, teams))
        return policies

    def _listed_items(self, field: Field) -> None:
        array, self.raw = self.rows.lists(field)
        flat, self.counts = array.flatten(), self.raw
        if flat.null_count:
            self.kept = np.asarray(pc.is_valid(flat).to_numpy(zero_copy_only=False))
            row = np.repeat(np.arange(len(self.raw)), self.raw)
            self.counts = np.bincount(row[self.kept], minlength=len(self.raw))
            flat = flat.drop_null()
        self.items = self.rows.item_ids(flat, field.name, self._place).astype(np.int32)

    def _every_item(self) -> None:
        """Without a list of candidates every item is one: scores stand by item id."""
        if self.spec.action_names is not None:
            raise LogError(
                "scores without candidates stand by item id, but these items have names",
                remedy=(
                    "add a column 'candidates' that lists the items in the order of their scores"
                ),
            )
        first = next(iter(self.parts.scores.values()))
        _, self.raw = self.rows.lists(first)
        width = max(self.parts.n_items, int(self.raw.max(initial=0)))
        if (self.raw != width).any():
            row = int(np.argmax(self.raw != width))
            raise LogError(
                f"{self.rows.place(row)}: '{first.name}' has {self.raw[row]} scores, but "
                f"there are {width} items",
                remedy="without a column 'candidates' every item needs a score",
            )
        self.counts = self.raw
        self.items = np.tile(np.arange(width, dtype=np.int32), len(self.raw))

    def _per_candidate(self, field: Field, what: str) -> pa.Array:
        """Return the entries of a column that has one for each candidate."""
        array, counts = self.rows.lists(field)
        if (counts != self.raw).any():
            row = int(np.argmax(counts != self.raw))
            raise LogError(
                f"{self.rows.place(row)}: '{field.name}' has {counts[row]} {what}, but there "
                f"are {self.raw[row]} candidates",
                remedy="give one for each candidate, in their order",
            )
        flat = array.flatten()
        return flat if self.kept is None else flat.filter(pa.array(self.kept))

    def _feature(self, field: Field) -> NDArray[Any]:
        flat = self._per_candidate(field, "values")
        if field.name in self.parts.categories:
            return values.codes(flat, self.parts.categories[field.name], field.name, self._place)
        if pa.types.is_float32(flat.type):
            return np.array(values.as_numpy(flat))
        numbers = values.floats(flat, field.name, self._place)
        # What is infinite is told where candidates are checked.
        finite = np.where(np.isinf(numbers), 0.0, numbers)
        values.refuse_huge(finite, f"'{field.name}'", self._place)
        return numbers

    @property
    def _place(self) -> values.Place:
        return values.place_in_lists(self.counts, self.rows.start, "candidate")


@lru_cache(maxsize=16)
def _rule(path: str) -> Any:
    rule = load_policy(path)
    if not hasattr(rule, "bind"):
        raise LogError(
            f"{path} holds a policy of other rows",
            remedy="save a rule that can be bound to a log, as .json",
        )
    return rule


def read_item_features(path: str, names: tuple[str, ...] | None, n_items: int) -> ItemFeatures:
    """Return the features in a file with a column `item` (or `item_id`) and one column a feature.

    Categories become codes.

    `names` are the items' names by id, where they have any; rows about items that the log does not
    know are left out.
    """
    table = pa.concat_tables(
        [tables.read_table(file) for file in expand(path)], promote_options="permissive"
    )
    columns = table.column_names
    key = next((name for name in _ITEMS if name in columns), None)
    if key is None:
        raise no_column(path, ITEM, "", columns)
    array = values.one_chunk(table[key])
    if names is None:
        ids = values.integers(array, ITEM, _row_of(path))
    else:
        ids = values.codes(array, names)
    items, counts = np.unique(ids[ids >= 0], return_counts=True)
    if (counts > 1).any():
        first, second = np.flatnonzero(ids == items[counts > 1][0])[:2]
        raise LogError(
            f"{path}: rows {first} and {second} are about the same item",
            remedy="keep one row per item",
        )
    features = [name for name in table.column_names if name not in (key, *PANDAS_INDEX)]
    if not features:
        raise LogError(
            f"{path} has no column but '{key}'",
            remedy="add one for each feature",
        )
    size = max(n_items, len(names or ()), int(ids.max(initial=-1)) + 1, 1)
    result = np.full((size, len(features)), np.nan)  # (A, d)
    categories: dict[str, tuple[str, ...]] = {}
    in_log = ids >= 0
    for j, name in enumerate(features):
        array = values.one_chunk(table[name])
        if values.is_text(array.type):
            # Sorted: codes must not change with the order of the file's rows.
            categories[name] = tuple(sorted(values.distinct(array)))
        column = _feature(array, categories.get(name), name, _row_of(path))
        result[ids[in_log], j] = column[in_log]
    return ItemFeatures(result, tuple(features), categories)


def _feature(
    array: pa.Array, labels: tuple[str, ...] | None, name: str, place: values.Place, what: str = ""
) -> Floats:
    """Return a feature's numbers (n,), those of its labels where it is a category, NaN where it is missing."""
    if labels is not None:
        codes = values.codes(array, labels, name, place)
        return np.where(codes < 0, np.nan, codes)
    numbers = values.floats(array, name, place)
    values.refuse_huge(numbers, f"{what}'{name}'", place)
    return numbers


def _row_of(path: str) -> values.Place:
    return lambda index: f"{row_name(index)} of {path}"
