"""Rewards that were lost or misplaced on their way into the log.

By position, by stretch of rows, by item, by neighbour, by magnitude.

A join that fails for some rows leaves zeros, which look like people who did not click. Each check asks
where rewards are missing altogether although those around them are not; none asks for equal rates, which
no healthy log has. Whether a reward is there is all that counts, but for the magnitude.
"""

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.audit.findings import (
    SAMPLED_ROWS,
    Check,
    Subject,
    Tally,
    complete,
    listed,
)
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, PASSED, SKIPPED, Finding
from counterrank.messages import REWARD_PER_RANKING

#: Rewards that are expected where there are hardly any: fewer may be missing by chance.
EXPECTED = 30.0
#: Fewer than this share of what is expected in a stretch of rows, or at a position compared with one
#: further down, are hardly any.
HARDLY_ANY, HARDLY_ANY_AT = 0.1, 0.02
#: Rewards of a position relative to those of the position above it, below which they were lost.
FADES = 0.02
#: Items are counted in so many bins, by number; a few in one bin only blur each other.
ITEM_BINS = 16_384
#: Rewards expected of an item that is looked at, and of all items without any.
EXPECTED_OF_ITEM, EXPECTED_OF_ITEMS = 20.0, 200.0
#: Items without any reward, for each that has one to three. Where rates are merely spread, even by a
#: gamma law of shape 0.1, there are no more than about five.
EXCESS = 5.0


def _count_lost_rewards(batch: RankingLog, subject: Subject) -> Tally:
    """Count items and rewarded ones by position, stretch, item, and item of the slot above."""
    # Position by position (K, n): sums over short rows take NumPy several times as long.
    used, rewarded = (np.ascontiguousarray(f(batch).T) for f in (subject.used, subject.rewarded))
    last = np.arange(batch.K)[:, None] == batch.lengths - 1
    bins = np.ascontiguousarray(batch.action.T) & (ITEM_BINS - 1)
    full = rewarded if complete(batch) else rewarded[:, batch.lengths == batch.K]
    expected = used * subject.rates[:, None]
    return Tally(
        sums={
            "position": np.stack([used.sum(axis=1), rewarded.sum(axis=1)]).astype(float),
            "early": np.array([float((rewarded & ~last).sum())]),
            "items": np.stack(
                [
                    np.bincount(np.where(used, bins, 0).ravel(), expected.ravel(), ITEM_BINS),
                    np.bincount(bins[rewarded], minlength=ITEM_BINS),
                ]
            ),
            "neighbours": _by_neighbour(bins, rewarded - expected, used),
            "pages": np.bincount(full.sum(axis=0), minlength=batch.K + 1).astype(float),
            "beside": _beside(full),
        }
    )


def _judge_lost_rewards(tally: Tally, subject: Subject) -> list[Finding]:
    """Return a finding of each kind."""
    # One reward per page stands at its last item: the others have none by nature.
    of_page = REWARD_PER_RANKING in subject.first.notes or not tally.sums["early"][0]
    return [
        _position(tally.sums["position"], of_page=of_page),
        _items(tally.sums["items"], of_page=of_page),
        _neighbours(tally.sums["neighbours"], of_page=of_page),
        _thinned(
            tally.sums["pages"],
            _kept_rates(tally.sums["position"]),
            of_page=of_page,
            stops=_stops(tally.sums["beside"]),
        ),
    ]


#: Rewards that are missing, one slot off, or in another unit somewhere.
LOST_REWARDS = Check("lost-rewards", _count_lost_rewards, _judge_lost_rewards, most=SAMPLED_ROWS)


#: What `LostRewards` finds: it speaks of one reward, all else of the log.
FINDINGS = POSITION, ITEM, NEIGHBOUR, THINNED = (
    "rewards-by-position",
    "rewards-by-item",
    "rewards-by-neighbour",
    "rewards-by-page",
)
_JOIN = "check the join of rewards with rankings; leave out what was not joined"
_COUNTING = "check how positions are counted, from 0 or from 1, on both sides of the join"
_OF_PAGE = "there is one reward per page"


def _lost(check: str, found: str, cause: str, remedy: str) -> Finding:
    return Finding(check, FAILED, found, (remedy,), cause=cause)


def _by_neighbour(bins: Ints, off: Floats, used: NDArray[np.bool_]) -> Floats:
    """Return sums (3, 3, bins) of reward residuals (K, n) by bins of an item (K, n).

    The item is the one at the own slot, above it, or below it; the sums are the count of cells,
    reward - rate, and its square.
    """
    # Only slots that have both neighbours, so that all three see the same rewards.
    inner = used[1:-1] & used[2:]
    every = bool(inner.all())
    residual = off[1:-1].ravel() if every else off[1:-1][inner]
    square, K = residual**2, len(bins)
    table = np.zeros((3, 3, ITEM_BINS))
    for sums, shift in zip(table, (0, -1, 1), strict=True):
        part = bins[1 + shift : K - 1 + shift]
        at = part.ravel() if every else part[inner]
        sums[0] = np.bincount(at, minlength=ITEM_BINS)
        sums[1], sums[2] = (np.bincount(at, one, ITEM_BINS) for one in (residual, square))
    return table


def _beside(rewarded: NDArray[np.bool_]) -> Floats:
    """Return, of pages (K, n) with a reward above a position and below it: pages, and rewards there (4, K)."""
    above, below = np.zeros_like(rewarded), np.zeros_like(rewarded)
    np.logical_or.accumulate(rewarded[:-1], axis=0, out=above[1:])
    np.logical_or.accumulate(rewarded[:0:-1], axis=0, out=below[-2::-1])
    parts = [above, above & rewarded, below, below & rewarded]
    return np.stack([part.sum(axis=1) for part in parts]).astype(float)


def _stops(sums: Floats) -> float:
    """Return rewards after a reward, relative to as many rewards before one let expect.

    Pages with a reward at another position are all kept, whatever became of pages without any. Of
    independent positions the ratio is 1, however users differ; users who stop after a click lower it.
    """
    pages_above, after, pages_below, before = sums[:, 1:-1]
    rate = (after + before) / np.maximum(pages_above + pages_below, 1.0)
    expected = float((rate * pages_above).sum())
    return float(after.sum()) / expected if expected > 0 else 1.0


def _kept_rates(sums: Floats) -> Floats:
    rates: Floats = sums[1] / np.maximum(sums[0], 1.0)
    return rates


def _position(sums: Floats, *, of_page: bool) -> Finding:
    """Clicks fall with the position, or rise where a page is read otherwise.

    They are not absent above a position that has many.
    """
    if of_page:
        return Finding(POSITION, SKIPPED, _OF_PAGE)
    shown, rewarded = sums
    rate = rewarded / np.maximum(shown, 1.0)
    bad = []
    for k in range(len(rate) - 1):
        # As many as there would be here at the best rate further down.
        expected = float(rate[k + 1 :].max()) * shown[k]
        if expected >= EXPECTED and rewarded[k] < HARDLY_ANY_AT * expected:
            bad.append(k + 1)
    # A fiftieth of what it was, from one position to the next, is no attention that fades.
    drops = np.flatnonzero((rewarded[:-1] >= 10 * EXPECTED) & (rate[1:] < FADES * rate[:-1]))
    if len(drops) and not bad:
        return _lost(
            POSITION,
            f"position {int(drops[0]) + 2} has hardly any reward ({int(rewarded[drops[0] + 1]):,}), the one "
            f"above it has {int(rewarded[drops[0]]):,}",
            "rewards of lower positions were not tracked or not joined",
            "leave out positions whose rewards are not known",
        )
    if not bad:
        return Finding(POSITION, PASSED, "no position is without rewards above one that has many")
    return _lost(
        POSITION,
        f"position {listed(bad)} has hardly any reward ({int(rewarded[bad[0] - 1]):,}), those below it "
        f"have {int(rewarded[bad[-1] :].sum()):,}",
        "rewards of that position were not joined, or all are recorded one position too low",
        _COUNTING,
    )


def _items(sums: Floats, *, of_page: bool) -> Finding:
    if of_page:
        return Finding(ITEM, SKIPPED, _OF_PAGE)
    expected, rewarded = sums
    scale = rewarded.sum() / max(expected.sum(), 1e-300)
    expected = expected * scale
    tested = expected >= EXPECTED_OF_ITEM
    none, few = tested & (rewarded == 0), tested & (rewarded > 0) & (rewarded <= 3)
    lost = float(expected[none].sum())
    if not tested.any():
        return Finding(ITEM, SKIPPED, "no item is shown often enough to miss its rewards")
    # One item that nobody wants may be shown often; several are.
    several = none.sum() >= 2 or lost >= 5 * EXPECTED_OF_ITEMS
    material = lost >= max(EXPECTED_OF_ITEMS, 0.1 * expected[tested].sum())
    if not (several and material) or none.sum() <= EXCESS * few.sum():
        return Finding(ITEM, PASSED, "items that are shown often have rewards")
    return _lost(
        ITEM,
        f"{int(none.sum()):,} of {int(tested.sum()):,} items that are shown often have no reward at all, "
        f"only {int(few.sum()):,} have one to three",
        "items are called differently where rewards come from, or part of the catalogue was not joined",
        _JOIN,
    )


def _neighbours(table: Floats, *, of_page: bool) -> Finding:
    """The own item explains a reward better than the item above or below it does."""
    if of_page:
        return Finding(NEIGHBOUR, SKIPPED, _OF_PAGE)
    own, above, below = (_explained(one) for one in table)
    if not np.isfinite([own, above, below]).all():
        return Finding(
            NEIGHBOUR,
            SKIPPED,
            "rankings are too short, or items too rare, to tell neighbours apart",
        )
    for where, z in (("above", above), ("below", below)):
        if z > SHIFTED and z > 4 * max(own, 1.0):
            other = "low" if where == "above" else "high"
            return _lost(
                NEIGHBOUR,
                f"rewards depend on the item {where} (z = {z:.0f}), not on the item at which they are recorded "
                f"(z = {own:.0f})",
                f"rewards are recorded one position too {other}",
                _COUNTING,
            )
    return Finding(NEIGHBOUR, PASSED, "rewards depend on the item at which they are recorded")


def _thinned(counts: Floats, rates: Floats, *, of_page: bool, stops: float) -> Finding:
    """Pages without rewards are as many as those with one, two and three let expect.

    Of independent positions with odds o, pages with m rewards are as the elementary symmetric
    polynomials e_m(o): n0 n2 / n1^2 is e0 e2 / e1^2, and n1 n3 / n2^2 is e1 e3 / e2^2. Users who differ
    raise both; lost pages without rewards lower the first alone. Users who stop after a click lower it
    too, and then nothing can be told.
    """
    if of_page or len(counts) < 4 or counts[1:4].min() < EXPECTED:
        return Finding(THINNED, SKIPPED, "too few pages with one, two and three rewards")
    if stops < STOPPING:
        return Finding(
            THINNED, SKIPPED, "users stop after a reward: pages without any cannot be counted"
        )
    odds = rates / np.maximum(1 - rates, 1e-9)
    e = np.poly(-odds)[:4]
    first = float(np.log(counts[0] * counts[2] / counts[1] ** 2 / (e[2] / e[1] ** 2)))
    second = float(np.log(counts[1] * counts[3] / counts[2] ** 2 / (e[1] * e[3] / e[2] ** 2)))
    error = float(np.sqrt(1 / counts[0] + 4 / counts[1] + 1 / counts[2]))
    other = float(np.sqrt(1 / counts[1] + 4 / counts[2] + 1 / counts[3]))
    # Many pages with exactly one reward lower the first by twice what they raise the second.
    lost = first < np.log(FEWER) and np.log(0.8) < second < -first / 4
    if not lost or second - first < THINNED_AT * float(np.hypot(error, other)):
        return Finding(
            THINNED, PASSED, "there are as many pages without rewards as expected from the others"
        )
    return _lost(
        THINNED,
        f"pages without a reward are about {100 * np.exp(first):.0f} % of the number expected from those with "
        "one, two and three",
        "pages without rewards were thinned or lost on their way into the log",
        "log all pages, or say how many were kept with a weight for each row",
    )


#: Pages without rewards as a share of those expected, and the distance of both ratios in standard errors.
FEWER, THINNED_AT = 0.65, 3.5
#: Below this ratio of rewards after a reward, positions are not independent.
STOPPING = 0.95
#: Standard errors by which items must explain the rewards of a neighbouring slot.
SHIFTED = 8.0


def _explained(sums: Floats) -> float:
    """Return how far item means of (reward - rate) spread beyond chance, in standard errors.

    NaN where items do not recur.

    sum_i S_i^2 / n_i has mean m s^2 and about variance 2 m s^4 for m items and variance s^2 of a cell.
    """
    count, first, second = sums[:, sums[0] >= 20]
    if len(count) < 2:
        return float("nan")
    variance = float(second.sum() / count.sum() - (first.sum() / count.sum()) ** 2)
    if variance <= 0:
        return float("nan")
    centred = first - count * first.sum() / count.sum()
    found = float((centred**2 / count).sum()) / variance
    return (found - len(count)) / float(np.sqrt(2 * len(count)))
