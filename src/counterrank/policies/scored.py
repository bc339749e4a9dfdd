"""Policies over ragged candidates: scores beside them, and a spec that says how they become a policy.

`candidate_fit` asks whether what was shown agrees with the policy that is said to have shown it:
sums of one pass, for the audit.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.messages import row_name
from counterrank.policies.arrays import as_actions, as_masks
from counterrank.policies.base import CAPABILITIES, Policy, Rows, SubsetResult
from counterrank.policies.candidates import Candidates
from counterrank.policies.factored import LARGEST_SCORE, not_scores
from counterrank.policies.row_random import RowRandom
from counterrank.policies.specs import FACTORED_KINDS, PolicySpec

#: Most items for which a factored policy writes its probabilities as a table of all items.
MAX_TABLE = 1000


class Scored(Policy):
    """Scores (N,) of candidates, turned into a policy by `spec`; a score of -inf is not eligible.

    With `partly` some scores may be missing (NaN): the policy of such a row is refused when it is asked
    for, and `unscored` says which rows to leave out.

    Items go in and out by their ids. Inside, a block of rows at a time becomes a padded table of
    scores over the places in each row's list, and the policy of that table answers: every kind of
    policy works over ragged lists, with the same numbers, and memory does not grow with the
    catalogue.

    >>> from counterrank.policies.specs import parse_policy
    >>> sets = Candidates.from_lists([[30, 10], [20, 10, 40]])
    >>> policy = Scored(sets, np.log([1.0, 3.0, 1.0, 1.0, 2.0]), parse_policy("plackett-luce"))
    >>> np.exp(policy.prefix_log_prob(np.array([[10, 30], [40, 20]]))).round(3).tolist()
    [[0.75, 0.75], [0.5, 0.25]]
    """

    def __init__(
        self,
        candidates: Candidates,
        scores: ArrayLike,
        spec: PolicySpec,
        *,
        name: str = "scores",
        partly: bool = False,
    ) -> None:
        self.candidates, self.spec, self.name = candidates, spec, name
        self.scores: Floats = _checked(candidates, scores, name, partly=partly)
        self.factored, self.deterministic = spec.kind in FACTORED_KINDS, spec.deterministic
        listed = self.factored and candidates.n_items <= MAX_TABLE
        self.capabilities = CAPABILITIES if listed else CAPABILITIES - {"dist"}

    def tied(self, length: int) -> Bools:
        """Return in which rows (n,) equal scores decide what a ranking of `length` can show.

        >>> from counterrank.policies.specs import parse_policy
        >>> sets = Candidates.from_lists([[0, 1, 2], [0, 1, 2]])
        >>> Scored(sets, [3.0, 1.0, 1.0, 3.0, 3.0, 1.0], parse_policy("top")).tied(1).tolist()
        [False, True]
        """
        if self.spec.parts:
            parts = [self._as(part).tied(length) for share, part in self.spec.parts if share > 0]
            some: Bools = np.any(parts, axis=0)
            return some
        options, kind = self.spec.options, self.spec.kind
        # Ties matter between the places `first` and `last`, from 0, and the one below each. Other kinds
        # draw between equals.
        first, last = 0, length
        if kind == "rand-top-n":
            first, last = int(options["n"]) - 1, int(options["n"])
        elif kind == "swap":
            last = max(int(options.get("places", length)), length)
        elif kind == "below":
            last = min(int(options["after"]), length)
        elif kind not in ("top", "epsilon"):
            return np.zeros(self.n_rows, dtype=bool)
        counts, offsets = self.candidates.counts, self.candidates.offsets
        row = np.repeat(np.arange(self.n_rows), counts)
        ordered = self.scores[np.lexsort((-self.scores, row))]
        place = np.arange(len(row)) - offsets[row]
        equal = np.zeros(len(row), dtype=bool)
        equal[:-1] = (
            (ordered[:-1] == ordered[1:]) & (row[:-1] == row[1:]) & np.isfinite(ordered[:-1])
        )
        found: Bools = (
            np.bincount(row[equal & (first <= place) & (place < last)], minlength=self.n_rows) > 0
        )
        return found

    @property
    def unscored(self) -> Bools:
        """In which rows (n,) some candidate has no score."""
        missing = np.isnan(self.scores)
        if not missing.any():
            return np.zeros(self.n_rows, dtype=bool)
        found: Bools = np.logical_or.reduceat(missing, self.candidates.offsets[:-1])
        return found

    def _as(self, spec: PolicySpec) -> Self:
        """Return another kind of policy by the same scores."""
        other = copy.copy(self)
        other.spec = spec
        return other

    @property
    def n_rows(self) -> int:
        return self.candidates.n

    @property
    def n_actions(self) -> int:
        return self.candidates.n_items

    def take(self, rows: Rows) -> Self:
        return self.over(self.candidates.take(rows), rows)

    def over(self, candidates: Candidates, rows: Rows) -> Self:
        """Return the policy of the selected rows, whose candidates were cut before: several policies share them."""
        chosen = copy.copy(self)
        chosen.scores = self.candidates.take_values(self.scores, rows)
        chosen.candidates = candidates
        return chosen

    @staticmethod
    def concat(parts: "Sequence[Scored]", candidates: Candidates | None = None) -> "Scored":
        """Return the policy of all parts' rows; `candidates` are theirs together, where they were joined before."""
        joined = copy.copy(parts[0])
        joined.scores = np.concatenate([part.scores for part in parts])
        joined.candidates = candidates or Candidates.concat([part.candidates for part in parts])
        return joined

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return self._answer(actions, lambda policy, places: policy.prefix_log_prob(places))

    def position_log_prob(self, actions: Ints) -> Floats:
        return self._answer(actions, lambda policy, places: policy.position_log_prob(places))

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        shape = (len(items), sets.shape[-2])
        log_prob, rel_var = np.empty(shape), np.empty(shape)
        every = self._for(len(items))
        for block in every.candidates.blocks():
            part, places = every._block(block, items.shape[1], items[block])
            found = part.subset_log_prob(places, sets if sets.ndim == 2 else sets[block])
            log_prob[block], rel_var[block] = found.log_prob, found.rel_var
        return SubsetResult(log_prob, rel_var)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        """Draw (n, size, length); rows with fewer eligible candidates are padded with -1 at the end."""
        out = np.empty((self.n_rows, size, length), np.int64)
        call = rng.next_call() if isinstance(rng, RowRandom) else 0
        for block in self.candidates.blocks():
            rows = self.candidates.take(block)
            own = rng.part(block, call) if isinstance(rng, RowRandom) else rng
            places = self._dense(block, rows, length).sample(length, own, size=size)
            # The column beyond the longest list has a score of -inf and is never drawn.
            out[block] = rows.global_items(places)
        return out

    def candidate_probs(self) -> Floats:
        """Return each candidate's probability at any one position (N,); factored kinds only."""
        if not self.factored:
            raise PolicyError(
                f"'{self.spec.kind}' has no per-position distribution: its positions depend on "
                "each other"
            )
        out = np.empty(len(self.scores))
        for block in self.candidates.blocks():
            rows = self.candidates.take(block)
            table = self._dense(block, rows, 1).dist()
            ends = self.candidates.offsets[[block.start, block.stop]]
            out[ends[0] : ends[1]] = table[np.arange(table.shape[1]) < rows.counts[:, None]]
        return out

    def dist(self) -> Floats:
        """Return probabilities of all items (n, A), zero for those that are no candidates."""
        if "dist" not in self.capabilities:
            return super().dist()
        table = np.zeros((self.n_rows, self.n_actions))
        rows = np.repeat(np.arange(self.n_rows), self.candidates.counts)
        table[rows, self.candidates.items] = self.candidate_probs()
        return table

    def _answer(self, actions: Ints, ask: Callable[[Policy, Ints], Floats]) -> Floats:
        items = as_actions(actions, self)
        out = np.empty(items.shape)
        every = self._for(len(items))
        for block in every.candidates.blocks():
            policy, places = every._block(block, items.shape[1], items[block])
            out[block] = ask(policy, places)
        return out

    def _for(self, n: int) -> Self:
        """Return the policy with n rows: its only row serves them all."""
        return self if self.n_rows == n else self.take(np.zeros(n, np.int64))

    def _block(self, block: slice, length: int, items: Ints) -> tuple[Policy, Ints]:
        """Return the dense policy of a block, and items as places in it; what is no candidate has its last place."""
        rows = self.candidates.take(block)
        policy = self._dense(block, rows, length)
        places = rows.locate(items)
        return policy, np.where(places == -2, policy.n_actions - 1, places)

    def _dense(self, block: slice, rows: Candidates, length: int) -> Policy:
        ends = self.candidates.offsets[[block.start, block.stop]]
        # At least as wide as the ranking, because policies refuse more positions than items; one
        # more column, of score -inf, answers for items that are no candidates.
        width = max(int(rows.counts.max()), length) + 1
        scores = self.scores[ends[0] : ends[1]]
        if np.isnan(scores).any():
            _refuse(rows, scores, self.name, np.isnan(scores))
        table = rows.dense(scores, -np.inf, width)
        for spec in (self.spec, *(part for _, part in self.spec.parts)):
            if spec.kind == "swap":
                self._check_swaps(table, length, spec)
        return self.spec.dense(table, length)

    def _check_swaps(self, table: Floats, length: int, spec: PolicySpec) -> None:
        reach = max(int(spec.options.get("places", length)), length)
        eligible = (table > -np.inf).sum(axis=1)
        if (eligible < reach).any():
            row = int(np.argmax(eligible < reach))
            raise PolicyError(
                f"{row_name(self.candidates.start + row)}: a swap among {reach} places needs as "
                f"many candidates, there are {eligible[row]}",
                remedy="list more candidates or set places=",
            )


def _checked(candidates: Candidates, scores: ArrayLike, name: str, *, partly: bool) -> Floats:
    """Return scores (N,) that are numbers or -inf, with at least one number per row; NaN if `partly`."""
    values = np.ascontiguousarray(scores, dtype=np.float64)
    if values.shape != candidates.items.shape:
        raise PolicyError(
            f"'{name}' has {values.size} values for {len(candidates.items)} candidates",
            remedy="give one each",
        )
    bad = not_scores(values)
    if partly:
        bad &= ~np.isnan(values)
    if bad.any():
        _refuse(candidates, values, name, bad)
    if (values == -np.inf).any():
        # `reduceat` is right only because no row's list is empty, which Candidates refuses.
        eligible = np.logical_or.reduceat(values != -np.inf, candidates.offsets[:-1])
        if not eligible.all():
            row = candidates.start + int(np.argmin(eligible))
            raise PolicyError(
                f"{row_name(row)}: every '{name}' is -inf, so that nothing could be shown",
                remedy="drop the row",
            )
    return values


def _refuse(candidates: Candidates, values: Floats, name: str, bad: Bools) -> NoReturn:
    at = int(np.argmax(bad))
    row = int(np.searchsorted(candidates.offsets, at, side="right")) - 1
    raise PolicyError(
        f"{row_name(candidates.start + row)}: '{name}' is {values[at]} for item "
        f"{candidates.items[at]}",
        remedy=(
            f"scores are numbers between -{LARGEST_SCORE:.0e} and {LARGEST_SCORE:.0e}, or -inf for "
            "a candidate that is not eligible"
        ),
    )


#: Score ranks that are told apart; all further ones share the last cell.
RANKS = 20


@dataclass(frozen=True, slots=True, eq=False)
class CandidateFit:
    """What a pass over the rows counted; two of them add.

    `rows`; `outside`: shown items that were no candidates, and the first such row; `ineligible`:
    shown items of score -inf; `contradicted`: rows in which an item stands above one of a higher
    score; `observed`, `expected` and `variance` (RANKS,): how often the item shown next had score
    rank r among what was left, how often Plackett-Luce expects it, and the variance of that count.
    """

    rows: int
    outside: int
    first_outside: int
    ineligible: int
    contradicted: int
    observed: Floats
    expected: Floats
    variance: Floats

    def __add__(self, other: Self) -> Self:
        first = [at for at in (self.first_outside, other.first_outside) if at >= 0]
        return type(self)(
            self.rows + other.rows,
            self.outside + other.outside,
            min(first, default=-1),
            self.ineligible + other.ineligible,
            self.contradicted + other.contradicted,
            self.observed + other.observed,
            self.expected + other.expected,
            self.variance + other.variance,
        )

    @property
    def z(self) -> Floats:
        """Observed minus expected in standard deviations, by score rank (RANKS,); 0 where nothing is expected."""
        # Certain choices have a variance of rounding errors only, on which no z is based.
        sd = np.sqrt(self.variance)
        return np.divide(self.observed - self.expected, sd, out=np.zeros_like(sd), where=sd > 1e-9)

    @property
    def p_value(self) -> float:
        """Chance of a largest |z| like this one, were the policy true; Bonferroni over the ranks that can vary."""
        from math import erfc, sqrt

        tried = int((self.variance > 1e-9).sum())
        return (
            min(1.0, tried * erfc(float(np.abs(self.z).max(initial=0.0)) / sqrt(2)))
            if tried
            else 1.0
        )


def candidate_fit(policy: Scored, actions: Ints, *, start: int = 0) -> CandidateFit:
    """Return the counts of rankings (n, K) shown by a policy over candidates.

    The frequencies are those of Plackett-Luce at the spec's temperature (1 for other kinds): each
    choice among what was left is a draw with known chances, so observed minus expected is a
    martingale whatever the rows.
    """
    from counterrank.policies.kernels.rows import choices

    sets = policy.candidates
    places = sets.locate(actions)
    temperature = policy.spec.options.get("temperature", 1.0)
    sums = np.zeros((3, RANKS))
    counts = np.zeros(2, np.int64)
    choices(sets.offsets, policy.scores, places, 1.0 / temperature, sums, counts)
    outside = np.flatnonzero((places == -2).any(axis=1))
    first = start + int(outside[0]) if len(outside) else -1
    ineligible, contradicted = (int(count) for count in counts)
    return CandidateFit(
        len(places), int((places == -2).sum()), first, ineligible, contradicted, *sums
    )
