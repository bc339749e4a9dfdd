"""A reward model of repeated rankings: each shown list has a mean of its own.

Search logs show few lists to many people. The reward of such a list needs no model of its items: it is
the mean of its rows, shrunk towards the mean of its context where its rows are few. With N rows of a
list, variance sigma^2 within lists and tau^2 between lists,

    E[y_k | list] = m_k + N / (N + sigma^2 / tau^2) (mean of y_k - m_k),

where m_k is the mean of the context, shrunk towards that of the log in the same way. sigma^2 / tau^2 is
estimated from the page totals by maximum likelihood (empirical Bayes: Efron & Morris 1975; Robinson
1991). tau^2 may be larger for rare lists: a policy shows most often what is safe.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterrank.common.arrays import Floats, Ints
from counterrank.common.records import Json
from counterrank.kernels.hashing import mixed
from counterrank.models.base import Fold, RewardModel, by_row
from counterrank.models.rankings import Rankings

#: Ratios tau^2 / sigma^2 that are tried, from lists that hardly differ to lists without noise.
RATIOS = np.concatenate([[0.0], np.geomspace(1e-4, 1e2, 61)])
#: Powers of 1 / N that tau^2 may follow: none, or rare lists differ more than frequent ones.
POWERS = (0.0, 0.5, 1.0)


def hashed(
    rankings: Rankings, *, told_apart: bool
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a 64-bit hash of each ranking's context (m,), and of context and items (m,).

    Where contexts are not told apart all rows have one.
    """
    n, d = rankings.x.shape
    context = np.zeros(n, np.uint64)
    if told_apart and d:
        bits = np.ascontiguousarray(np.nan_to_num(rankings.x, nan=np.inf))
        context = _mixed(bits.view(np.uint64), context)
    context_keys = context[rankings.row]
    return context_keys, _mixed(rankings.item.astype(np.uint64), context_keys)


def _mixed(columns: NDArray[np.uint64], state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the state after taking in each column in turn."""
    for column in columns.T:
        state = np.asarray(mixed(state ^ column))
    return state


def _find(keys: NDArray[np.uint64], queries: NDArray[np.uint64]) -> Ints:
    place = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[place] == queries, place, -1)


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedLists(RewardModel):
    """Means of contexts and lists, fitted once without each fold.

    `contexts` and `lists` are sorted 64-bit keys of the contexts and of the lists in their context that the
    fit has seen; `told_apart` says whether the same items in another context are another list.
    `mean` (F + 1, L + 1, K) is the expected reward at each position of each list; the last list stands
    for all unknown ones and has the mean of the log. `by_context` (F + 1, C, K) is the mean of an
    unknown list in a known context. `spread` (L + 1,) is the variance of a page's total between
    lists as rare as each, `kept` (L,) the share of its own mean that a list keeps.
    """

    contexts: NDArray[np.uint64]
    lists: NDArray[np.uint64]
    told_apart: bool
    mean: Floats
    by_context: Floats
    spread: Floats
    shrinkage: Floats
    details: Json = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.mean) - 1

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return the expected reward of each position (m, K), zero in the padding."""
        keys = hashed(rankings, told_apart=self.told_apart)
        context, lists = _find(self.contexts, keys[0]), _find(self.lists, keys[1])
        fit = by_row(fold, self.folds, rankings.m)
        means = np.where(
            (lists < 0)[:, None] & (context >= 0)[:, None],
            self.by_context[fit, context],
            self.mean[fit, lists],
        )
        return np.where(rankings.item >= 0, means, 0.0)

    def unknown(self, logged: Rankings, drawn: Rankings) -> float:
        """Return the variance of the predicted change that comes from what list means do not know.

        Let d_l be the share of list l among the drawn rankings less that among the logged ones. A list
        that keeps the share `kept_share` of its own mean contributes d_l^2 spread_l (1 - kept_l).
        """
        _, before = hashed(logged, told_apart=self.told_apart)
        _, after = hashed(drawn, told_apart=self.told_apart)
        lists, number = np.unique(np.concatenate([before, after]), return_inverse=True)
        share = np.bincount(number[logged.m :], minlength=len(lists)) / drawn.m
        share -= np.bincount(number[: logged.m], minlength=len(lists)) / logged.m
        place = _find(self.lists, lists)
        kept_share = np.where(place >= 0, self.shrinkage[place], 0.0)
        return float((share**2 * self.spread[place] * (1.0 - kept_share)).sum())


def fit_lists(rankings: Rankings, reward: Floats, fold: Ints, folds: int) -> RepeatedLists | None:
    """Return the model of repeated lists; None where fewer than half of the rows share their list.

    Without repeats a log does not show how much lists differ. Contexts that differ in every row hide
    repeats, so lists are then compared without their contexts.

    A list of one item that stands in one context is the item itself: click models know it, and what
    the policies think of it. They would count little beside its mean, which often knows the level of
    its context better, but not the difference between two items.
    """
    items = len(np.unique(rankings.item))
    for told_apart in (True, False):
        keys = hashed(rankings, told_apart=told_apart)
        (contexts, c), (list_keys, lists) = (
            np.unique(key_column, return_inverse=True) for key_column in keys
        )
        if rankings.K == 1 and len(list_keys) <= items:
            return None
        counts = np.bincount(lists)
        if counts[counts > 1].sum() >= rankings.m / 2:
            break
    else:
        return None
    context_of = np.zeros(len(list_keys), dtype=np.int64)
    context_of[lists] = c
    mean = np.empty((folds + 1, len(list_keys) + 1, rankings.K))
    by_context = np.empty((folds + 1, len(contexts), rankings.K))
    spread, kept_share = np.zeros(len(list_keys) + 1), np.zeros(len(list_keys))
    for left_out in range(folds + 1):
        rows = np.flatnonzero(fold != left_out)
        y = reward[rows]
        level = np.broadcast_to(y.mean(axis=0) if len(rows) else 0.0, (1, rankings.K))
        above, _, _ = _shrunk(y, c[rows], len(contexts), level[np.zeros(len(rows), np.int64)])
        by_context[left_out] = level + above
        below, spread, kept_share = _shrunk(
            y, lists[rows], len(list_keys), by_context[left_out][c[rows]]
        )
        mean[left_out, :-1] = by_context[left_out][context_of] + below
        mean[left_out, -1] = level
    details = {"kind": "repeated lists", "lists": len(list_keys), "spread": float(spread[-1])}
    return RepeatedLists(
        contexts, list_keys, told_apart, mean, by_context, spread, kept_share, details
    )


def _shrunk(y: Floats, group: Ints, size: int, prior: Floats) -> tuple[Floats, Floats, Floats]:
    """Return shrunken differences (size, K) of group means to their prior, their spread and the share kept.

    All positions share one ratio, estimated from page totals, so that positions add up to the total.
    """
    count = np.bincount(group, minlength=size).astype(float)
    deviation = y - prior
    sums = np.stack([np.bincount(group, column, size) for column in deviation.T], axis=1)
    total = deviation.sum(axis=1)
    by_group = sums.sum(axis=1)
    several = count > 1
    free = float((count[several] - 1).sum())
    squares = np.bincount(group, total**2, size)
    within = float((squares[several] - by_group[several] ** 2 / count[several]).sum())
    noise = within / free if free else 0.0
    present = count > 0
    if noise <= 0.0 or not present.any():
        return np.zeros((size, y.shape[1])), np.zeros(size + 1), np.zeros(size)
    squared = (by_group[present] / count[present]) ** 2 / noise
    # The last group stands for those that were never seen: as rare as a group of one row.
    rows = np.append(np.maximum(count, 1.0), 1.0)
    best = np.inf, rows
    for power in POWERS:
        rarity = (count[present].mean() / rows) ** power
        variance = RATIOS[:, None] * rarity[:-1][present] + 1.0 / count[present]
        loss = (np.log(variance) + squared / variance).sum(axis=1)
        best = min(
            best, (float(loss.min()), RATIOS[loss.argmin()] * rarity), key=lambda fit: fit[0]
        )
    ratio = best[1]
    kept_share = count * ratio[:-1] / (1.0 + count * ratio[:-1])
    return sums / rows[:-1, None] * kept_share[:, None], ratio * noise, kept_share
