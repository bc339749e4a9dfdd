"""What is audited, counts that add over batches, and the list people see."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Bools, Floats, Ints, Summed
from counterrank.common.findings import (
    FAILED,
    PASSED,
    SKIPPED,
    WARNED,
    About,
    Example,
    Finding,
    Kind,
    Outcome,
)
from counterrank.common.messages import ESTIMATED, MISSING_PROPENSITY, has
from counterrank.common.records import VERBOSE, Json, Result, value_of
from counterrank.data.log import Propensity, RankingLog
from counterrank.estimators import View
from counterrank.estimators.weights.ratios import Ratios, ratios_of
from counterrank.kernels.jit import jit
from counterrank.policies import Scored

#: The share of each batch that is looked at when the length of the log is not known.
UNKNOWN_SHARE = 1 / 8
#: Rows, in stretches spread over the log, of checks that no verdict rests on ...
SAMPLED_ROWS = 32_768
#: ... and of those that compare groups: an eighth of them shows a mean weight off by a twentieth.
GROUPED_ROWS = 131_072
#: The length of a stretch: each costs the same few calls, however many rows it has.
STRETCH_ROWS = 4096
#: Ways to group rows: by stretches of consecutive ones, and by day.
BLOCK, DAY = "block", "day"
#: Stretches of consecutive rows that are compared, and the rows of one when the length of the log is
#: not known: neighbours are merged at the end.
BLOCKS, STRETCH = 16, 4096
#: Rows of a batch on which checks begin that one row may settle.
HEAD_ROWS = 512


#: A part of the rows: for which target, by which column, in which group.
GroupKey = tuple[str, ...]
Parts = dict[GroupKey, Floats]
Name = TypeVar("Name")
Value = TypeVar("Value")


def formed_once(
    form: Callable[["Subject", RankingLog], Value],
) -> Callable[["Subject", RankingLog], Value]:
    """Form something of a batch once, where checks take turns on the same one."""

    @wraps(form)
    def formed(subject: "Subject", batch: RankingLog) -> Value:
        former, value = subject.formed.get((form.__name__, id(batch)), (None, None))
        # The batch itself is kept, because another one may get its id.
        if former is not batch:
            value = form(subject, batch)
            subject.formed[form.__name__, id(batch)] = batch, value
        return cast(Value, value)

    return formed


@dataclass(slots=True, eq=False)
class Subject:
    """What is audited: facts about the log that every check may need."""

    first: RankingLog
    targets: tuple[str, ...] = ()
    segments: Sequence[Any] = ()
    time: str | None = None
    n: int | None = None
    #: How context columns fall into groups (`weights.ContextCut`).
    cuts: Sequence[Any] = ()
    #: What a pass has formed of the batch and lends, by target.
    lent: Mapping[str, View] = field(default_factory=dict)
    #: Hashes of what each row of the batch showed and earned, where they are known.
    pages: NDArray[np.uint64] | None = None
    #: What was formed of the batches at hand (`formed_once`), by its name and their ids.
    formed: dict[tuple[str, int], tuple[RankingLog, Any]] = field(default_factory=dict)
    #: Parts of the log that some checks need and not every log has; "" is no part.
    has: frozenset[str] = frozenset()
    #: The log was read without propensities, and its numbers are a stand-in; or they were estimated from it.
    without_propensities: bool = False
    estimated_propensities: bool = False
    #: What the logged propensities are: a kind of `Propensity`, "factored" or "policy" for a whole policy.
    kind: str = ""
    #: Weights at a position are those of all items down to it.
    down_the_page: bool = False
    #: How the logger ranks by scores: the kind of its policy; nothing where it has none.
    ranking: str = ""
    #: About how often each position is rewarded (K,), and the mean size of a reward, from the first rows; never 0.
    rates: Floats = field(default_factory=partial(np.empty, 0))
    amount: float = 0.0

    def __post_init__(self) -> None:
        if self.has:  # a copy for another batch
            return
        first, logger = self.first, self.first.propensity
        scored = any(isinstance(policy, Scored) for policy in (logger, *first.targets.values()))
        parts = {
            "": True,
            "columns": first.columns,
            "context": first.context_names,
            "distributions": first.dists,
            "features": first.candidates is not None or first.item_features is not None,
            "numbers": isinstance(logger, Propensity),
            "scores": scored or first.candidates is not None,
            "units": first.unit is not None,
        }
        self.has = frozenset(filter(parts.get, parts))
        self.without_propensities = MISSING_PROPENSITY in first.notes
        self.estimated_propensities = has(first.notes, ESTIMATED)
        self.ranking = logger.spec.kind if isinstance(logger, Scored) else ""
        if isinstance(logger, Propensity):
            self.kind = logger.kind
        else:
            self.kind = "factored" if logger.factored else "policy"
        self.down_the_page = self.kind in ("prefix", "policy")
        hits, shown = self.rewarded(first).sum(axis=0), self.used(first).sum(axis=0)
        common = (hits.sum() + 0.5) / (shown.sum() + 1.0)
        # Ten rankings' worth of the common rate, so that no position has none.
        self.rates = (hits + 10 * common) / (shown + 10)
        self.amount = float(np.abs(first.reward).sum()) / max(float(hits.sum()), 1.0)
        # Other processes get the subject, and need none of this.
        self.formed.clear()

    def ratios(self, batch: RankingLog, name: str) -> Ratios:
        """Return the ratios of a target on a batch: lent ones where there are any."""
        lent = self.lent.get(name)
        return ratios_of(batch, name) if lent is None or lent.batch is not batch else lent.ratios

    def looked_at(self, rows: int, max_rows: int) -> int:
        """Return how many rows of a batch are seen by a check that looks at no more than `most` rows of the log.

        >>> log = RankingLog(action=[[0]], reward=[[1]], propensity=[[1.0]])
        >>> [Subject(log, n=n).looked_at(8000, 500_000) for n in (10_000, 5_000_000, None)]
        [8000, 800, 1000]
        """
        return min(rows, -int(-rows * min(1.0, self._share(max_rows)) // 1))

    def _share(self, max_rows: int) -> float:
        return UNKNOWN_SHARE if self.n is None else max_rows / max(self.n, 1)

    def sampled_stretch(self, batch: RankingLog, max_rows: int | None) -> RankingLog | None:
        """Return the rows of a batch, in stretches, that a check sees which looks at about `max_rows` rows of the log.

        None where no stretch begins here.

        >>> log = RankingLog(action=[[0]] * 9000, reward=[[1]] * 9000, propensity=[[1.0]] * 9000)
        >>> parts = [Subject(log, n=9000).sampled_stretch(part, 4500) for part in log.chunks(1000)]
        >>> [None if part is None else part.n for part in parts]
        [1000, None, 1000, None, 1000, None, 1000, None, 1000]
        """
        share = 1.0 if max_rows is None else self._share(max_rows)
        if share >= 1:
            return batch
        size = min(batch.n, STRETCH_ROWS)
        # How many stretches should have begun before the batch, and by its end.
        before, after = (-int(-row * share // size) for row in (batch.start, batch.start + batch.n))
        rows = min(batch.n, size * (after - before))
        return batch if rows == batch.n else batch.take(slice(0, rows)) if rows else None

    @formed_once
    def used(self, batch: RankingLog) -> Bools:
        """Return which cells (n, K) hold an item."""
        return np.arange(batch.K) < batch.lengths[:, None]

    @formed_once
    def rewarded(self, batch: RankingLog) -> Bools:
        """Return which cells (n, K) hold an item with a reward."""
        rewarded: Bools = (batch.reward != 0) & self.used(batch)
        return rewarded

    @formed_once
    def page_counts(self, batch: RankingLog) -> tuple[Ints, dict[str, Floats]]:
        """Return the rewarded items of each page (n,), and sums of how rewards lie on pages.

        "pages": full pages by how many of their items are rewarded (K + 1,). "beside": of full pages with a
        reward above a position, and of those with one below it, pages, and rewards there (4, K). "early":
        rewards above the last item of their page (1,).
        """
        hits, K = np.zeros(batch.n, np.int64), batch.K
        sums = {"pages": np.zeros(K + 1), "beside": np.zeros((4, K)), "early": np.zeros(1)}
        count_pages(np.ascontiguousarray(batch.reward), batch.lengths, hits, *sums.values())
        return hits, sums

    def stretches(self, batch: RankingLog) -> tuple[list[str], Ints]:
        """Return the numbers of the stretches of consecutive rows in a batch.

        And the place of each row's stretch among them (n,).
        """
        size = STRETCH if self.n is None else -(-self.n // BLOCKS)
        block = batch.numbers // size
        first = int(block.min())
        return [*map(str, range(first, int(block.max()) + 1))], block - first

    def items(self, batch: RankingLog) -> Ints:
        """Return how many items there are at each position (K,).

        >>> log = RankingLog(action=[[0, 1], [1, -1]], reward=[[1, 0], [0, 0]], propensity=[[.5, .5]] * 2)
        >>> Subject(log).items(log).tolist()
        [2, 1]
        """
        if complete(batch):
            return np.full(batch.K, batch.n)
        ended: Ints = np.bincount(batch.lengths, minlength=batch.K + 1).cumsum()
        return batch.n - ended[: batch.K]


def by_label(key: GroupKey, labels: Iterable[str], table: Iterable[Floats]) -> Parts:
    """Return the rows of a table under keys that end with their labels; groups without rows are left out."""
    parts: Parts = {}
    for label, sums in zip(labels, table, strict=True):
        if sums.any():
            parts[*key, label] = sums
    return parts


def families(parts: Mapping[GroupKey, Floats]) -> dict[GroupKey, tuple[list[str], Floats]]:
    """Return labels and tables of what `by_label` made, by how their keys begin.

    Stretches of consecutive rows become at most `BLOCKS`, named by their place in the log.
    """
    rows: dict[GroupKey, dict[str, Floats]] = {}
    for (*key, label), sums in parts.items():
        rows.setdefault(tuple(key), {})[label] = sums
    tables = {}
    for beginning, labelled in rows.items():
        table = list(labelled), np.stack(list(labelled.values()))
        tables[beginning] = stretch_names(*table) if beginning[-1] == BLOCK else table
    return tables


def stretch_names(numbers: Sequence[str], table: Floats) -> tuple[list[str], Floats]:
    """Return at most `BLOCKS` stretches of consecutive rows, named by their place in the log."""
    order = np.argsort([int(number) for number in numbers])
    parts = np.array_split(order, min(BLOCKS, len(order)))
    ends = np.cumsum([0, *map(len, parts)]) * (100 / len(order))
    names = [f"{a:.0f}-{b:.0f} % of the rows" for a, b in itertools.pairwise(ends)]
    return names, np.stack([table[stretch_rows].sum(axis=0) for stretch_rows in parts])


def group_sums(codes: Ints, size: int, values: Floats) -> Floats:
    """Return rows, and sums of a number of each row (n,) and of its square, by the row's code (3, size)."""
    rows, first = np.bincount(codes, minlength=size), np.bincount(codes, values, size)
    return np.stack([rows, first, np.bincount(codes, values**2, size)])


@jit
def count_pages(
    reward: Floats, lengths: Ints, hits: Ints, pages: Floats, neighbours: Floats, early: Floats
) -> None:
    """Fill the arrays of `Subject.page_counts` for rewards (n, K)."""
    width = reward.shape[1]
    for i in range(reward.shape[0]):
        first, last = width, -1
        for k in range(lengths[i]):
            if reward[i, k] != 0:
                hits[i] += 1
                first, last = min(first, k), k
        early[0] += hits[i] - (last >= 0 and last == lengths[i] - 1)
        if lengths[i] < width:
            continue
        pages[hits[i]] += 1
        for k in range(width if hits[i] else 0):
            rewarded = reward[i, k] != 0
            neighbours[0, k] += k > first
            neighbours[1, k] += k > first and rewarded
            neighbours[2, k] += k < last
            neighbours[3, k] += k < last and rewarded


def neighbours(codes: Ints) -> tuple[Ints, Ints]:
    """Return pairs of rows that follow each other among those of one code (n,): the earlier and the later ones."""
    order = np.argsort(codes, kind="stable")
    adjacent = codes[order[1:]] == codes[order[:-1]]
    return order[:-1][adjacent], order[1:][adjacent]


def sums_by(codes: Ints, size: int, rows: Iterable[Floats]) -> Floats:
    """Return the sums (V, size) of numbers of each row (V, n) by the row's code (n,)."""
    return np.stack([np.bincount(codes, values, size) for values in rows])


def design_effect(units: Floats | None) -> float:
    """Return how much larger the variance of a mean is over units than over rows, at least 1."""
    if units is None:
        return 1.0
    rows, first, second = units[:, units[0] > 0]
    n, mean = rows.sum(), first.sum() / rows.sum()
    plain = max(second.sum() - n * mean**2, 1e-300)
    clustered = float(((first - rows * mean) ** 2).sum())
    return max(1.0, clustered / float(plain))


def complete(batch: RankingLog) -> bool:
    """Whether every cell holds an item: picking out those that do costs more than most checks."""
    return int(batch.lengths.min(initial=batch.K)) == batch.K


def kind_of(status: Outcome, kind: Kind = "refuted") -> Kind:
    """Return what a finding of this status does, of a check that does no more than `kind`."""
    if status is FAILED:
        return "refuted"
    return "question" if status is WARNED and kind != "note" else "note"


#: Example rows kept for each disease.
KEPT = 3


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Counts of a batch: `sums` and those of `parts` add (shorter arrays are padded with zeros).

    `peaks` take the larger, `lists` and `examples` follow each other.
    """

    sums: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    peaks: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    lists: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    examples: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)
    parts: Mapping[GroupKey, NDArray[Any]] = field(default_factory=dict)

    def __add__(self, other: Self) -> Self:
        return type(self)(
            _joined(self.sums, other.sums, padded_sum),
            _joined(self.peaks, other.peaks, np.maximum),
            _joined(self.lists, other.lists, lambda a, b: np.concatenate([a, b])),
            _joined(self.examples, other.examples, lambda a, b: (*a, *b)[:KEPT]),
            _joined(self.parts, other.parts, padded_sum),
        )

    def count(self, name: str) -> int:
        """Return a count, 0 when nothing was counted."""
        counts = self.sums.get(name)
        return 0 if counts is None else int(np.sum(counts))


@dataclass(frozen=True, slots=True, eq=False)
class Tallies(Summed):
    """The tallies of all checks, in order, and how many rankings each has looked at."""

    parts: tuple[Tally, ...]
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """One check: counts that add over batches, and what they mean."""

    code: str
    #: What it speaks of; this chooses the headline.
    about: About
    #: The part of a log (in `Subject.has`) without which there is nothing to look at; "" for none.
    needs: str
    #: The counts of a batch.
    count: Callable[[RankingLog, Subject], Tally]
    #: What the counts of the whole log mean: what is wrong, or else nothing where `passed` says it.
    judge: Callable[[Tally, Subject], Iterable[Finding]]
    #: The most that a finding does: "refuted" may fail; a warning is a question then, and of a "note" a note.
    kind: Kind = "refuted"
    #: Patterns of the codes that it is the cause of; a finding may name others.
    explains: tuple[str, ...] = ()
    #: Rows of the log that are looked at; None for all of them.
    max_rows: int | None = None
    #: What is said where the log has nothing to count, a function where it names an option, which depends on
    #: the command; nothing where people need not be told.
    skip_reason: str | Callable[[], str] = ""
    #: What is said where nothing is wrong; nothing where people need not be told.
    passed: str = ""

    def findings(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Return what the counts mean."""
        counted = tally.sums or tally.lists or tally.parts
        if self.needs not in subject.has or not counted:
            return [self.skipped()] if self.skip_reason else []
        passed = [self.says(PASSED, self.passed)] if self.passed else []
        return [*self.judge(tally, subject)] or passed

    def skipped(self) -> Finding:
        """Return why there is nothing to look at."""
        reason = self.skip_reason
        return self.says(SKIPPED, reason if isinstance(reason, str) else reason())

    def says(
        self, status: Outcome, text: str, cause: str = "", remedy: str = "", **fields: Any
    ) -> Finding:
        """Return a finding with one cause and one remedy, under the code of the check unless it has another one."""
        fields = {"code": self.code, "about": self.about, "explains": self.explains, **fields}
        remedies = (remedy,) if remedy else ()
        kind = kind_of(status, self.kind)
        return Finding(
            status=status, text=text, remedies=remedies, cause=cause, kind=kind, **fields
        )


def padded_sum(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a + b where the shorter last axis is padded with zeros.

    >>> padded_sum(np.array([1, 2]), np.array([1, 1, 1])).tolist()
    [2, 3, 1]
    """
    if a.shape == b.shape:
        total: NDArray[Any] = a + b
        return total
    shape = tuple(max(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    total = np.zeros(shape, dtype=np.result_type(a, b))
    for term in (a, b):
        total[tuple(slice(0, size) for size in term.shape)] += term
    return total


def examples_at(bad: Bools, values: NDArray[Any], start: int) -> tuple[Example, ...]:
    """Return the first few places where `bad` (n,) or (n, K) is true, counted from row `start`."""
    examples = []
    for flat in np.flatnonzero(bad)[:KEPT]:
        place = np.unravel_index(flat, bad.shape)
        example: Example = {"row": int(place[0]) + start}
        if len(place) > 1:
            example["position"] = int(place[1]) + 1
        example["value"] = values[tuple(place)].tolist()
        examples.append(example)
    return tuple(examples)


def _joined(
    left: Mapping[Name, Value], right: Mapping[Name, Value], merge: Callable[[Value, Value], Value]
) -> dict[Name, Value]:
    if not (left and right):
        return {**left, **right}
    joined = dict(left)
    for key, value in right.items():
        joined[key] = merge(joined[key], value) if key in joined else value
    return joined


def first_items(items: Sequence[Any], limit: int = 5) -> str:
    """Return the first few items as text; unlike those of `texts.comma_separated`, numbered ones stay apart.

    >>> first_items([1, 2, 3], limit=2)
    '1, 2 and 1 more'
    """
    shown = ", ".join(str(item) for item in items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"


class Audit(tuple[Finding, ...], Result):
    """What the checks of a log found: a `Finding` for each.

    What another finding explains stands in the list and under neither `failed` nor `warned`.

    >>> audit = Audit([Finding("units", PASSED, "900 users"), Finding("drift", WARNED, "day 3 differs")])
    >>> audit, audit.warned[0].text, audit[0]["status"]
    (Audit(warned=['drift'], passed=1), 'day 3 differs', <Outcome.PASSED: 'passed'>)
    """

    __slots__ = ()
    SCHEMA, NAME, ROWS = "counterrank/audit/2", "audit", "audit"
    REPORT = "counterrank.report.health"

    @property
    def failed(self) -> Self:
        """The checks that failed: an estimate from such a log is not to be believed."""
        return self._with(FAILED)

    @property
    def warned(self) -> Self:
        """The checks that warn."""
        return self._with(WARNED)

    @property
    def passed(self) -> Self:
        """The checks that found nothing wrong."""
        return self._with(PASSED)

    @property
    def skipped(self) -> Self:
        """The checks that this log gives no occasion for."""
        return self._with(SKIPPED)

    @property
    def questions(self) -> Self:
        """The patterns that a broken pipeline and a healthy service share, and that nobody answered."""
        return type(self)(
            finding for finding in self if finding.stands and finding.kind == "question"
        )

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {"schema": self.SCHEMA, "audit": [finding.to_dict() for finding in self]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the audit that `to_dict` wrote."""
        cls.check_schema(content)
        return cls(value_of(tuple[Finding, ...], content.get("audit"), "audit"))

    def __repr__(self) -> str:
        """Return the names of what failed and warned, and how many passed."""
        named = {"failed": self.failed, "warned": self.warned}
        not_passed = [
            f"{status}={[row.code for row in rows]}" for status, rows in named.items() if rows
        ]
        return f"Audit({', '.join([*not_passed, f'passed={len(self.passed)}'])})"

    def _repr_html_(self) -> str:
        from counterrank.report.html import fragment

        return fragment(self.document(VERBOSE))

    def _with(self, status: Outcome) -> Self:
        return type(self)(
            finding for finding in self if finding.status is status and not finding.explained_by
        )
