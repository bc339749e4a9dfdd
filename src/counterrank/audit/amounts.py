"""Amounts of money: capped at one value, or in another unit for some rows or items."""

from collections.abc import Iterator

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally
from counterrank.audit.item_rates import EXPECTED
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, WARNED, Finding
from counterrank.texts import in_percent

FINDINGS = CAPPED, UNITS, MAGNITUDE = (
    "rewards-capped",
    "rewards-in-other-units",
    "rewards-by-magnitude",
)
#: Amounts by item bin and eighth of a decade, from 1e-4 to 1e8.
AMOUNT_BINS, LOWEST, PER_DECADE, DECADES = 2048, -4, 8, 12
#: Amounts at the maximum: so many, and this share of all.
AT_MAXIMUM, SHARE = 10, 0.01
#: Items with two amounts that are 10, 100 or 1,000 times apart, and items that are so far from others.
WITH_BOTH, FAR_ITEMS = 5, 3
#: Amounts that are kept of a batch.
KEPT = 4096


def _count_amounts(batch: RankingLog, subject: Subject) -> Tally:
    """Keep positive amounts with their items, and what features say of them."""
    paid = subject.used(batch) & (batch.reward > 0)
    # Of the whole batch, evenly.
    few = slice(None, None, 1 + int(paid.sum()) // KEPT)
    values = batch.reward[paid][few]
    # Clicks and counts are no amounts.
    if not len(values) or bool((values == np.rint(values)).all() and values.max() <= 100):
        return Tally()
    lists = {"amount": values, "item": batch.action[paid][few]}
    names = batch.item_feature_names
    numbers = [n for n, name in enumerate(names) if name not in batch.categories_of_items]
    if numbers:
        features = batch.features_of(batch.action)[paid][few]
        lists |= {f"feature {names[n]}": features[:, n] for n in numbers}
    return Tally(lists=lists)


def _judge_amounts(tally: Tally, subject: Subject) -> list[Finding]:
    """Return a finding of each kind."""
    if not tally.lists:  # clicks and counts, of which there is nothing to say
        return []
    if len(tally.lists["amount"]) < 200:
        return AMOUNTS.skipped("too few amounts")
    # By item, each item's by size.
    order = np.lexsort((tally.lists["amount"], tally.lists["item"]))
    lists = {name: values[order] for name, values in tally.lists.items()}
    amount, item = lists.pop("amount"), lists.pop("item")
    found = [
        *_capped(amount, item),
        *_two_units(amount, item),
        *_units_of_items(amount, item, lists),
        *_magnitude(amount, item),
    ]
    return found or AMOUNTS.passed("amounts have no mass at the largest one")


#: Amounts have no mass at their maximum and come in one unit.
AMOUNTS = Check(CAPPED, _count_amounts, _judge_amounts, most=SAMPLED_ROWS)


def _capped(amount: Floats, item: Ints) -> Iterator[Finding]:
    """Yield where many different items have the one largest amount."""
    top = float(amount.max())
    at_top = amount == top
    if at_top.sum() < max(AT_MAXIMUM, SHARE * len(amount)):
        return
    values, back = np.unique(amount, return_inverse=True)
    pairs = np.unique(np.stack([back, item]), axis=1)[0]
    items_of = np.bincount(pairs, minlength=len(values))
    others = int(items_of[:-1].max(initial=1))
    times = np.bincount(back)
    # Prices that several items share come again below the largest one; a cap does not.
    if items_of[-1] >= max(4, 3 * others) or (
        items_of[-1] >= 4 and times[-1] > 5 * times[:-1].max(initial=1)
    ):
        yield Finding(
            CAPPED,
            WARNED,
            f"{in_percent(float(at_top.mean()))} of the amounts are exactly {top:g}, the largest, of "
            f"{int(items_of[-1]):,} different items",
            ("use the amounts as they were, or name a metric that is meant to be capped",),
            cause="amounts were capped; a policy that sells dearer things looks worse than it is",
        )  # fmt: skip


def _two_units(amount: Floats, item: Ints) -> Iterator[Finding]:
    """Yield where several items have amounts that are exactly 10, 100 or 1,000 times apart."""
    pairs = np.stack([item.astype(float), amount])
    pairs = pairs[:, np.append(True, (np.diff(pairs, axis=1) != 0).any(axis=0))]
    if pairs.shape[1] > 20 * len(np.unique(item)):
        return  # amounts vary freely: `rewards-by-magnitude` compares their sizes
    known = {(int(i), f"{v:.6g}") for i, v in pairs.T.tolist()}
    for factor in (10, 100, 1000):
        both = {i for i, v in pairs.T.tolist() if (int(i), f"{v * factor:.6g}") in known}
        if len(both) >= WITH_BOTH and len(both) >= 0.02 * len(np.unique(item)):
            yield _other_units(
                f"{len(both):,} items have amounts that are exactly {factor:,} times apart"
            )
            return


def _units_of_items(amount: Floats, item: Ints, features: dict[str, Floats]) -> Iterator[Finding]:
    """Yield where amounts of some items are powers of ten away from a feature that fits the others.

    Without such a feature: where they are two or three decades above all others.
    """
    _, starts, counts = np.unique(item, return_index=True, return_counts=True)
    middle = starts + counts // 2
    for name, values in features.items():
        far = _off_by_decades(amount[middle], values[middle])
        if far >= FAR_ITEMS:
            what = name.removeprefix("feature ")
            yield _other_units(
                f"amounts of {far:,} items are powers of ten away from what {what} says"
            )
            return
    logs = np.sort(np.log10(amount[middle]))
    if len(logs) < 20:
        return
    gaps = np.diff(logs)
    at = int(gaps[FAR_ITEMS - 1 : len(gaps) - FAR_ITEMS + 1].argmax()) + FAR_ITEMS - 1
    apart = float(logs[at + 1 :].mean() - logs[: at + 1].mean())
    decades = min((2, 3), key=lambda one: abs(apart - one))
    if gaps[at] > 0.4 and gaps[at] > 8 * np.median(gaps) and abs(apart - decades) < 0.3:
        fewer = min(at + 1, len(logs) - at - 1)
        text = f"amounts of {fewer:,} items are about {10**decades:,} times away from all others"
        yield _other_units(text)


def _off_by_decades(amount: Floats, feature: Floats) -> int:
    """Return how many amounts are powers of ten away from a feature that fits the others."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log10(amount / feature)
    ratio = ratio[np.isfinite(ratio)]
    if len(ratio) < 10:
        return 0
    off = ratio - np.median(ratio)
    decades = np.rint(off)
    fits = np.median(np.abs(off)) < 0.02
    return int(((decades != 0) & (np.abs(off - decades) < 0.02)).sum()) if fits else 0


def _other_units(text: str, code: str = UNITS) -> Finding:
    return Finding(
        code,
        FAILED,
        text,
        ("bring all amounts to one unit",),
        cause="cents in some rows and whole units in others, or two currencies",
    )


def _magnitude(amount: Floats, item: Ints) -> Iterator[Finding]:
    """Yield where amounts of one item come in two sizes that are a hundred or a thousand times apart."""
    size = PER_DECADE * DECADES
    decade = np.floor((np.log10(amount) - LOWEST) * PER_DECADE).astype(np.int64)
    cells = (item % AMOUNT_BINS) * size + np.clip(decade, 0, size - 1)
    table = (
        np.bincount(cells, minlength=AMOUNT_BINS * size).reshape(AMOUNT_BINS, size).astype(float)
    )
    table = table[table.any(axis=1)]
    # A click counts 1 and a purchase 100: a few sizes are meant.
    if (table.sum(axis=0) > 0).sum() < 6:
        return
    shapes = _distances(table), _above_median(table)
    for factor, lag in ((100, 2 * PER_DECADE), (1000, 3 * PER_DECADE)):
        if any(_second_peak(one, lag) for one in shapes):
            text = f"amounts of the same items come in two sizes, about {factor} times apart"
            yield _other_units(text, MAGNITUDE)
            return


#: Distances between amounts that are looked at, in eighths of a decade.
_LAGS = 4 * PER_DECADE


def _distances(table: Floats) -> Floats:
    """Return pairs of amounts of the same bin of items by their distance (lags,).

    Sharp where an item has one price, however rarely it is bought.
    """
    products = table.T @ table
    return np.array([np.trace(products, offset=lag) for lag in range(_LAGS)])


def _above_median(table: Floats) -> Floats:
    """Return amounts by their distance above the median of their bin of items (lags,).

    Sharp where amounts vary, for items with eight or more of them.
    """
    counts = table.sum(axis=1)
    often = table[counts >= 8]
    median = (np.cumsum(often, axis=1) >= often.sum(axis=1, keepdims=True) / 2).argmax(axis=1)
    padded = np.pad(often, ((0, 0), (0, _LAGS)))
    shifted = np.take_along_axis(padded, median[:, None] + np.arange(_LAGS), axis=1)
    total: Floats = shifted.sum(axis=0)
    return total


def _second_peak(counts: Floats, lag: int) -> bool:
    """Return whether counts fall off from 0 and rise again to a peak at the lag.

    To twice the valley, and to a fiftieth of the start.
    """
    smooth = np.convolve(counts, np.full(3, 1 / 3), mode="same")
    peak, valley = smooth[lag - 1 : lag + 2].max(), smooth[PER_DECADE // 2 : lag - 1].min()
    return bool(peak >= EXPECTED / 3 and peak > 2 * valley and peak > 0.02 * counts[0])
