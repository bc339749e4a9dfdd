"""Policies over ragged candidates: a score for each, and a spec that turns scores into a policy.

`candidate_fit` returns the sums with which the audit tests whether the shown items agree with the
policy that is said to have shown them.
"""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import PolicyError
from counterrank.common.messages import item_name, row_name
from counterrank.policies.arrays import EVERYTHING, as_actions, as_masks
from counterrank.policies.base import CAPABILITIES, Policy, Rows, SubsetResult, finite_only
from counterrank.policies.candidates import Candidates
from counterrank.policies.factored import LARGEST_SCORE, not_scores
from counterrank.policies.row_random import RowRandom
from counterrank.policies.specs import FACTORED_KINDS, PolicySpec

#: The largest catalogue for which a factored policy provides a table of item probabilities.
MAX_TABLE = 1000


class Scored(Policy):
    """Scores (N,) of candidates, turned into a policy by `spec`; a score of -inf is not eligible.

    With `partly` some scores may be missing (NaN). Calls for such rows raise PolicyError, and
    `unscored` tells which rows to leave out.

    The methods take and return item ids. Internally, a block of rows becomes a padded table of scores
    over the places in each row's list, and the dense policy of that table computes the result. Every
    kind of policy therefore works over ragged lists, and memory does not grow with the catalogue.

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
        self.scores: Floats = _check_scores(candidates, scores, name, partly=partly)
        self.factored, self.deterministic = spec.kind in FACTORED_KINDS, spec.deterministic
        has_table = self.factored and candidates.n_items <= MAX_TABLE
        self.capabilities = CAPABILITIES if has_table else EVERYTHING

    def tied(self, length: int) -> Bools:
        """Return True for the rows (n,) in which tied scores affect rankings of `length` positions.

        >>> from counterrank.policies.specs import parse_policy
        >>> sets = Candidates.from_lists([[0, 1, 2], [0, 1, 2]])
        >>> Scored(sets, [3.0, 1.0, 1.0, 3.0, 3.0, 1.0], parse_policy("top")).tied(1).tolist()
        [False, True]
        """
        if self.spec.parts:
            components = (
                Scored(self.candidates, self.scores, component, partly=True)
                for _, component in self.spec.parts
            )
            tied: Bools = np.any([component.tied(length) for component in components], axis=0)
            return tied
        options, kind = self.spec.options, self.spec.kind
        # Ties matter between a place in [first, last) and the next one. Other kinds of policies draw
        # between equal scores at random.
        first, last = {
            "top": (0, length),
            "epsilon": (0, length),
            "rand-top-n": (int(options.get("n", 0)) - 1, int(options.get("n", 0))),
            "swap": (0, max(int(options.get("places", length)), length)),
            "below": (0, min(int(options.get("after", length)), length)),
        }.get(kind, (0, 0))
        row = np.repeat(np.arange(self.n_rows), self.candidates.counts)
        ordered = self.scores[np.lexsort((-self.scores, row))]
        place = (np.arange(len(row)) - self.candidates.offsets[row])[:-1]
        equal = (ordered[1:] == ordered[:-1]) & (row[1:] == row[:-1]) & np.isfinite(ordered[1:])
        return np.isin(np.arange(self.n_rows), row[:-1][equal & (first <= place) & (place < last)])

    @property
    def unscored(self) -> Bools:
        """True for the rows (n,) that have a candidate without score."""
        return np.logical_or.reduceat(np.isnan(self.scores), self.candidates.offsets[:-1])

    @property
    def n_rows(self) -> int:
        return self.candidates.n

    @property
    def n_actions(self) -> int:
        return self.candidates.n_items

    def take(self, rows: Rows) -> Self:
        return self.over(self.candidates.take(rows), rows)

    def over(self, candidates: Candidates, rows: Rows) -> Self:
        """Return the policy of the selected rows over `candidates`, which several policies share."""
        chosen = copy.copy(self)
        chosen.scores = self.candidates.take_values(self.scores, rows)
        chosen.candidates = candidates
        return chosen

    @staticmethod
    def concat(parts: "Sequence[Scored]", candidates: Candidates | None = None) -> "Scored":
        """Return the policy of the rows of all parts; `candidates` are theirs if already joined."""
        joined = copy.copy(parts[0])
        joined.scores = np.concatenate([policy.scores for policy in parts])
        joined.candidates = candidates or Candidates.concat([policy.candidates for policy in parts])
        return joined

    def prefix_log_prob(self, actions: Ints) -> Floats:
        items = as_actions(actions, self)
        out = np.empty(items.shape)
        for rows, policy, places in self._blocks(items):
            out[rows] = policy.prefix_log_prob(places)
        return out

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        log_prob, rel_var = np.empty((2, len(items), sets.shape[-2]))
        for rows, policy, places in self._blocks(items):
            result = policy.subset_log_prob(places, sets if sets.ndim == 2 else sets[rows])
            log_prob[rows], rel_var[rows] = result.log_prob, result.rel_var
        return SubsetResult(log_prob, rel_var)

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        """Draw (n, size, length) items; rows with fewer eligible candidates are padded with -1."""
        out = np.empty((self.n_rows, size, length), np.int64)
        call = rng.next_call() if isinstance(rng, RowRandom) else 0
        for rows, policy in self._by_length(length):
            block_rng = rng.for_rows(rows, call) if isinstance(rng, RowRandom) else rng
            # The column beyond the longest list has a score of -inf and is never drawn.
            places = policy._dense(length).sample(length, block_rng, size=size)
            out[rows] = policy.candidates.global_items(places)
        return out

    def dist(self) -> Floats:
        """Return the probabilities of all items (n, A), zero for items that are not candidates."""
        if "dist" not in self.capabilities:
            return super().dist()
        out = np.zeros((self.n_rows, self.n_actions))
        for block in self.candidates.blocks():
            policy = self.take(block)
            table, counts = policy._dense(1).dist(), policy.candidates.counts
            rows, places = np.nonzero(np.arange(table.shape[1]) < counts[:, None])
            out[block.start + rows, policy.candidates.items] = table[rows, places]
        return out

    def attraction(self, items: Ints) -> Floats:
        bound = self.of_rows(len(items))
        shown = bound.candidates.values_at(bound.scores, bound.candidates.locate(items))
        first, finite = bound.candidates.offsets[:-1], np.isfinite(bound.scores)
        sums = np.add.reduceat(np.where(finite, bound.scores, 0.0), first)
        mean = sums / np.maximum(np.add.reduceat(finite, first, dtype=np.int64), 1)
        return finite_only(items, shown - mean[:, None, None])

    def _by_length(self, length: int) -> Iterator[tuple[slice | Ints, Self]]:
        """Yield blocks of rows with their policies; rows too short for a swap form their own blocks."""
        swaps = "swap" in (self.spec.kind, *(component.kind for _, component in self.spec.parts))
        for block in self.candidates.blocks():
            policy = self.take(block)
            if not swaps:
                yield block, policy
                continue
            eligible = np.add.reduceat(policy.scores != -np.inf, policy.candidates.offsets[:-1])
            specs = [_narrowed(self.spec, int(count), length) for count in eligible]
            for spec in {candidate.text: candidate for candidate in specs}.values():
                rows = np.array([row for row, row_spec in enumerate(specs) if row_spec == spec])
                same_length = policy.take(rows)
                same_length.spec = spec
                yield block.start + rows, same_length

    def _blocks(self, items: Ints) -> Iterator[tuple[slice | Ints, Policy, Ints]]:
        """Yield blocks of rows, their dense policies, and the items as columns of those policies.

        A policy of one row serves all rows of `items`. Items that are not candidates get the last
        column.
        """
        n, length = items.shape
        for rows, block_policy in self.of_rows(n)._by_length(length):
            policy, places = (
                block_policy._dense(length),
                block_policy.candidates.locate(items[rows]),
            )
            yield rows, policy, np.where(places == -2, policy.n_actions - 1, places)

    def _dense(self, length: int) -> Policy:
        """Return the dense policy of all rows, for rankings of `length` positions."""
        rows, missing = self.candidates, np.isnan(self.scores)
        if missing.any():
            _refuse(rows, self.scores, self.name, missing)
        # At least as wide as the ranking, because policies refuse more positions than items. An
        # additional column of score -inf stands for items that are not candidates.
        table = rows.dense(self.scores, -np.inf, max(int(rows.counts.max()), length) + 1)
        return self.spec.dense(table, length)


def _narrowed(spec: PolicySpec, eligible: int, length: int) -> PolicySpec:
    """Return the spec for rows with `eligible` candidates: a swap exchanges the places that exist.

    >>> from counterrank.policies.specs import parse_policy
    >>> [_narrowed(parse_policy("swap:probability=1,places=4"), n, 4).text for n in (5, 3, 1)]
    ['swap:probability=1,places=4', 'swap:probability=1,places=3', 'top']
    """
    if spec.parts:
        parts = tuple(
            (share, _narrowed(component, eligible, length)) for share, component in spec.parts
        )
        return replace(spec, parts=parts)
    if spec.kind != "swap" or int(spec.options.get("places", length)) <= eligible:
        return spec
    if eligible <= int(spec.options.get("first", 1)):
        return PolicySpec("top")
    return replace(spec, options={**spec.options, "places": float(eligible)})


def _check_scores(candidates: Candidates, scores: ArrayLike, name: str, *, partly: bool) -> Floats:
    """Return the scores (N,) as floats; raise PolicyError for invalid scores and rows without eligible item.

    NaN is accepted if `partly`.
    """
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
    # `reduceat` requires that no list is empty, which Candidates ensures.
    eligible = np.logical_or.reduceat(values != -np.inf, candidates.offsets[:-1])
    if not eligible.all():
        row = candidates.start + int(np.argmin(eligible))
        raise PolicyError(
            f"{row_name(row)}: every '{name}' is -inf, so that no item could be shown",
            remedy="drop the row",
        )
    return values


def _refuse(candidates: Candidates, values: Floats, name: str, bad: Bools) -> NoReturn:
    entry = int(np.argmax(bad))
    row = int(np.searchsorted(candidates.offsets, entry, side="right")) - 1
    raise PolicyError(
        f"{row_name(candidates.start + row)}: '{name}' is {values[entry]} for item "
        f"{item_name(int(candidates.items[entry]))}",
        remedy=(
            f"scores are numbers between -{LARGEST_SCORE:.0e} and {LARGEST_SCORE:.0e}, or -inf for "
            "a candidate that is not eligible"
        ),
    )


#: Number of cells by score rank; all further ranks share the last cell.
RANKS = 20


def candidate_fit(policy: Scored, actions: Ints) -> tuple[Floats, Ints]:
    """Return sums (3, RANKS) and counts (2,) that compare rankings (n, K) with a policy over candidates.

    The sums are, by score rank r among the remaining candidates: how often the item of rank r was
    shown next, how often Plackett-Luce expects it at the temperature of the spec (1 for other kinds),
    and the variance of that number. Observed minus expected is a martingale, whatever the rows. The
    counts are the shown items of score -inf, and the rows in which an item is shown above one of a
    higher score. Sums and counts of two batches add.
    """
    from counterrank.policies.kernels.rows import choices

    sets = policy.candidates
    sums, counts = np.zeros((3, RANKS)), np.zeros(2, np.int64)
    slope = 1.0 / policy.spec.options.get("temperature", 1.0)
    choices(sets.offsets, policy.scores, sets.locate(actions), slope, sums, counts)
    return sums, counts
