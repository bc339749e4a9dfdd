"""Policies over ragged candidates: scores beside them, and a spec that says how they become a policy.

`candidate_fit` asks whether what was shown agrees with the policy that is said to have shown it:
sums of one pass, for the audit.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.arrays import Bools, Floats, Ints
from counterrank.errors import PolicyError
from counterrank.messages import item_name, row_name
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
            tied = np.zeros(self.n_rows, dtype=bool)
            for share, part in self.spec.parts:
                if share > 0:
                    tied |= Scored(self.candidates, self.scores, part, partly=True).tied(length)
            return tied
        options, kind = self.spec.options, self.spec.kind
        # Ties matter between the places `first` and `last`, from 0, and the one below each. Other kinds
        # draw between equals.
        first, last = {
            "top": (0, length),
            "epsilon": (0, length),
            "rand-top-n": (int(options.get("n", 0)) - 1, int(options.get("n", 0))),
            "swap": (0, max(int(options.get("places", length)), length)),
            "below": (0, min(int(options.get("after", length)), length)),
        }.get(kind, (0, 0))
        row = np.repeat(np.arange(self.n_rows), self.candidates.counts)
        ordered = self.scores[np.lexsort((-self.scores, row))]
        place = np.arange(len(row)) - self.candidates.offsets[row]
        equal = (ordered[1:] == ordered[:-1]) & (row[1:] == row[:-1]) & np.isfinite(ordered[1:])
        matters = (first <= place[:-1]) & (place[:-1] < last)
        return np.bincount(row[:-1][equal & matters], minlength=self.n_rows) > 0

    @property
    def unscored(self) -> Bools:
        """In which rows (n,) some candidate has no score."""
        missing: Bools = np.logical_or.reduceat(np.isnan(self.scores), self.candidates.offsets[:-1])
        return missing

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
        blocks = self._blocks(as_actions(actions, self))
        return np.concatenate([policy.prefix_log_prob(places) for _, policy, places in blocks])

    def position_log_prob(self, actions: Ints) -> Floats:
        blocks = self._blocks(as_actions(actions, self))
        return np.concatenate([policy.position_log_prob(places) for _, policy, places in blocks])

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        found = [
            policy.subset_log_prob(places, sets if sets.ndim == 2 else sets[block])
            for block, policy, places in self._blocks(items)
        ]
        return SubsetResult(
            np.concatenate([part.log_prob for part in found]),
            np.concatenate([part.rel_var for part in found]),
        )

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        """Draw (n, size, length); rows with fewer eligible candidates are padded with -1 at the end."""
        out = np.empty((self.n_rows, size, length), np.int64)
        call = rng.next_call() if isinstance(rng, RowRandom) else 0
        for block in self.candidates.blocks():
            part = self.take(block)
            own = rng.part(block, call) if isinstance(rng, RowRandom) else rng
            # The column beyond the longest list has a score of -inf and is never drawn.
            places = part._dense(length).sample(length, own, size=size)
            out[block] = part.candidates.global_items(places)
        return out

    def dist(self) -> Floats:
        """Return probabilities of all items (n, A), zero for those that are no candidates."""
        if "dist" not in self.capabilities:
            return super().dist()
        out = np.zeros((self.n_rows, self.n_actions))
        for block in self.candidates.blocks():
            part = self.take(block)
            table, counts = part._dense(1).dist(), part.candidates.counts
            rows = block.start + np.repeat(np.arange(part.n_rows), counts)
            out[rows, part.candidates.items] = table[np.arange(table.shape[1]) < counts[:, None]]
        return out

    def _blocks(self, items: Ints) -> Iterator[tuple[slice, Policy, Ints]]:
        """Yield blocks of rows, their dense policies, and items as places in them.

        An only row serves all items; what is no candidate has the last place.
        """
        n, length = items.shape
        every = self if self.n_rows == n else self.take(np.zeros(n, np.int64))
        for block in every.candidates.blocks():
            part = every.take(block)
            policy, places = part._dense(length), part.candidates.locate(items[block])
            yield block, policy, np.where(places == -2, policy.n_actions - 1, places)

    def _dense(self, length: int) -> Policy:
        """Return the policy of all rows as a table, for rankings of `length`."""
        rows, missing = self.candidates, np.isnan(self.scores)
        if missing.any():
            _refuse(rows, self.scores, self.name, missing)
        # At least as wide as the ranking, because policies refuse more positions than items; one
        # more column, of score -inf, answers for items that are no candidates.
        table = rows.dense(self.scores, -np.inf, max(int(rows.counts.max()), length) + 1)
        eligible = (table > -np.inf).sum(axis=1)
        for spec in (self.spec, *(part for _, part in self.spec.parts)):
            reach = max(int(spec.options.get("places", length)), length)
            if spec.kind == "swap" and (eligible < reach).any():
                row = int(np.argmax(eligible < reach))
                raise PolicyError(
                    f"{row_name(rows.start + row)}: a swap among {reach} places needs as "
                    f"many candidates, there are {eligible[row]}",
                    remedy="list more candidates or set places=",
                )
        return self.spec.dense(table, length)


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
        f"{item_name(int(candidates.items[at]))}",
        remedy=(
            f"scores are numbers between -{LARGEST_SCORE:.0e} and {LARGEST_SCORE:.0e}, or -inf for "
            "a candidate that is not eligible"
        ),
    )


#: Score ranks that are told apart; all further ones share the last cell.
RANKS = 20


def candidate_fit(policy: Scored, actions: Ints) -> tuple[Floats, Ints]:
    """Return the counts of rankings (n, K) shown by a policy over candidates; those of two batches add.

    The sums (3, RANKS): how often the item shown next had score rank r among what was left, how often
    Plackett-Luce expects it at the spec's temperature (1 for other kinds), and the variance of that count.
    Each choice among what was left is a draw with known chances, so observed minus expected is a
    martingale whatever the rows. The counts (2,): shown items of score -inf, and rows in which an item
    stands above one of a higher score.
    """
    from counterrank.policies.kernels.rows import choices

    sets = policy.candidates
    sums, counts = np.zeros((3, RANKS)), np.zeros(2, np.int64)
    slope = 1.0 / policy.spec.options.get("temperature", 1.0)
    choices(sets.offsets, policy.scores, sets.locate(actions), slope, sums, counts)
    return sums, counts
