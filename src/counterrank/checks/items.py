"""Rewards by item: kinds of items with a part of their rewards, or counted twice; amounts capped or in two units."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.checks.answers import condition
from counterrank.checks.base import BLOCK, DAY, SAMPLED_ROWS, Check, GroupKey, Subject, Tally
from counterrank.checks.scores import shown_scores
from counterrank.checks.weights import row_groups
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.findings import SKIPPED, WARNED, Finding, Findings
from counterrank.common.messages import REWARD_PER_RANKING
from counterrank.common.texts import in_percent
from counterrank.data.log import RankingLog
from counterrank.kernels.jit import jit
from counterrank.policies import Scored
from counterrank.statistics import two_sided

FINDINGS = KIND, POPULAR, TWICE, ITEM, CAPPED, UNITS, MAGNITUDE = (
    "rewards-by-category",
    "rewards-by-popularity",
    "rewards-counted-twice",
    "rewards-by-item",
    "rewards-capped",
    "rewards-in-other-units",
    "rewards-by-magnitude",
)
#: Rewards that are expected where there are hardly any: fewer may be missing by chance.
EXPECTED = 30.0
#: Items are counted in so many bins, by number; a few in one bin only blur each other. Shown scores fall
#: into so many groups.
BINS, DECILES = 16_384, 10
#: Rewards expected of an item that is looked at, and of all items without any.
EXPECTED_OF_ITEM, EXPECTED_OF_ITEMS = 20.0, 200.0
#: Items without any reward, for each that has one to three. Where rates are merely spread, even by a
#: gamma law of shape 0.1, there are no more than about five.
EXCESS = 5.0
#: False alarms per log, Bonferroni over what is tested.
CHANCE = 1e-4
#: A category is apart at this factor from others that are alike within the second one.
APART, ALIKE = 2.5, 1.6
#: Popular items are compared with as many that come after them: at this factor fewer rewards.
FEWER = 0.65
#: Rewards of an item none of which is 1, by chance, and of all such items.
NONE_IS_ONE, SEVERAL = 1e-6, 20


def _count_item_rates(batch: RankingLog, subject: Subject) -> Tally:
    """Sum expected and observed rewards by item and by category, each by group of scores."""
    reward, rates = np.ascontiguousarray(batch.reward), subject.rates
    score, parts = _score_groups(batch, subject), dict[GroupKey, Floats]()
    item_bins = np.where(batch.action < 0, -1, batch.action & (BINS - 1))
    # No more bins than there are items: what other batches count in further ones is added.
    size = int(item_bins.max(initial=0)) + 1
    sums = {"items": np.zeros((2, size, DECILES)), "early": subject.page_counts(batch)[1]["early"]}
    item_sums(item_bins, score, reward, rates, sums["items"])
    if "features" in subject.has:
        features, names = batch.features_of(batch.action), batch.item_feature_names
        for name, labels in batch.categories_of_items.items():
            codes = np.where(batch.action < 0, np.nan, features[:, :, names.index(name)])
            parts[name,] = np.zeros((2, len(labels), DECILES))
            code = np.nan_to_num(codes, nan=-1.0).astype(np.int64)
            item_sums(code, score, reward, rates, parts[name,])
    paid = reward > 0
    values, items = reward[paid], item_bins[paid]
    # A remainder takes NumPy ten times as long.
    even = np.floor(values / 2) == values / 2
    for name, rows in (("positive", values > 0), ("ones", values == 1), ("even", even)):
        sums[name] = np.bincount(items[rows], minlength=size).astype(float)
    sums["whole"] = np.array([(np.floor(values) == values).sum(), len(values)], dtype=float)
    return Tally(sums, parts=parts)


def _judge_item_rates(tally: Tally, subject: Subject) -> Findings:
    """Yield a finding of each kind."""
    if one_per_page(tally, subject):
        yield ITEM_RATES.says(SKIPPED, "there is one reward per page")
        return
    items = tally.sums["items"]
    # By what factor rewards of each group of scores differ from those by position (DECILES,): ten expected
    # rewards at the overall rate keep small groups calm.
    expected, observed = items.sum(axis=1)
    overall = observed.sum() / max(expected.sum(), 1e-300)
    factor = (observed + 10 * overall) / (expected + 10)
    yield from _counted_twice(tally)
    yield from _without_any(*items.sum(axis=2))
    # Without scores nobody knows what should be liked: in search, all results of a query that
    # everyone asks are shown often, and one is wanted.
    if subject.ranking:
        yield from _popular(items, factor)
    for (name, *_), table in tally.parts.items():
        labels = subject.first.categories_of_items[name]
        yield from _categories(name, labels, table, factor, len(tally.parts))


#: No kind of items lost a part of its rewards, or has them counted twice.
#:
#: Expected rewards are those of the position and, where the logger ranks by scores, of its score: a
#: logger that knows what is liked explains most of how items differ.
ITEM_RATES = Check(
    KIND,
    "rewards",
    "",
    _count_item_rates,
    _judge_item_rates,
    explains=("rewards-by-category", "rewards-by-popularity"),
    max_rows=SAMPLED_ROWS,
    passed="no kind of items lost its rewards",
)


def one_per_page(tally: Tally, subject: Subject) -> bool:
    """Return whether there is one reward per page, which stands at its last item: the others have none by nature."""
    told = REWARD_PER_RANKING in subject.first.notes or subject.first.page_reward
    return told or not tally.count("early")


def _score_groups(batch: RankingLog, subject: Subject) -> Ints:
    """Return the group of the logger's score of each shown item (n, K); 0 without scores."""
    first, scores = subject.first.propensity, shown_scores(batch)
    if not isinstance(first, Scored) or scores.shape != batch.action.shape:
        return np.zeros(batch.action.shape, np.int64)
    finite = first.scores[np.isfinite(first.scores)]
    edges = np.quantile(finite, np.arange(1, DECILES) / DECILES)
    return np.searchsorted(edges, np.where(np.isnan(scores), edges[0], scores))


@jit
def item_sums(code: Ints, score: Ints, reward: Floats, rates: Floats, out: Floats) -> None:
    """Add expected and observed rewards to out (2, size, DECILES), by code and group of scores (n, K).

    Cells with a code below 0 are left out; `rates` (K,) are the rewards expected at a position.
    """
    for i in range(code.shape[0]):
        for k in range(code.shape[1]):
            if code[i, k] >= 0:
                out[0, code[i, k], score[i, k]] += rates[k]
                out[1, code[i, k], score[i, k]] += reward[i, k] != 0


def _categories(
    name: str, labels: tuple[str, ...], table: Floats, factor: Floats, kinds: int
) -> Findings:
    """Yield the category that stands apart from others that are alike."""
    expected, observed = table[0] @ factor, table[1].sum(axis=1)
    frequent = np.flatnonzero(expected >= 50)
    if len(frequent) < 3:
        return
    logs = np.log((observed[frequent] + 0.5) / expected[frequent])
    chance = CHANCE / (len(frequent) * kinds)
    for place in outlier(logs, 2.25 / expected[frequent], APART, ALIKE, chance):
        ratio = math.exp(logs[place] - np.median(np.delete(logs, place)))
        label = labels[frequent[place]]
        yield ITEM_RATES.says(
            WARNED,
            f"items of {name} {label} have {in_percent(ratio, 0)} of the rewards of others at their positions and "
            "scores",
            "rewards of a part of the catalogue were not joined, or are counted otherwise",
            "check how rewards of these items are tracked",
            pattern=condition(name, [label], ratio),
            code=KIND,
        )


def outlier(logs: Floats, variance: Floats, apart: float, alike: float, chance: float) -> list[int]:
    """Return the one rate, by its logarithm, that is a factor away from all others, which are alike; or none.

    >>> outlier(np.log([1.0, 1.1, 2.0]), np.full(3, 1e-3), 1.65, 1.3, 1e-4)
    [2]
    """
    order = np.argsort(logs)
    if len(order) < 2:
        return []
    for end, remaining in ((order[0], order[1:]), (order[-1], order[:-1])):
        off = float(logs[end] - np.median(logs[remaining]))
        error = math.sqrt(variance[end] + 1 / (1 / variance[remaining]).sum())
        gap = float(np.abs(logs[end] - logs[remaining]).min())
        alike_remaining = float(np.ptp(logs[remaining])) < math.log(alike)
        if gap > math.log(apart) and alike_remaining and two_sided(off, error) <= chance:
            return [int(end)]
    return []


def _without_any(expected: Floats, rewarded: Floats) -> Findings:
    """Yield where many items that are shown often have no reward at all, and few have some."""
    expected = expected * rewarded.sum() / max(expected.sum(), 1e-300)
    tested = expected >= EXPECTED_OF_ITEM
    none, rarely = tested & (rewarded == 0), tested & (rewarded > 0) & (rewarded <= 3)
    lost = float(expected[none].sum())
    material = lost >= max(EXPECTED_OF_ITEMS, 0.1 * expected[tested].sum())
    # Two items that nobody wants may be shown often.
    if material and none.sum() > EXCESS * max(rarely.sum(), 0.5):
        yield ITEM_RATES.says(
            WARNED,
            f"{int(none.sum()):,} of {int(tested.sum()):,} items that are shown often have no reward at all, "
            f"only {int(rarely.sum()):,} have one to three",
            "items are called differently where rewards come from, or part of the catalogue was not joined",
            "check the join of rewards with rankings; leave out what was not joined",
            code=ITEM,
        )


def _popular(items: Floats, factor: Floats) -> Findings:
    """Yield where the items that are shown most have fewer rewards than those after them."""
    shown, expected, observed = items[0].sum(axis=1), items[0] @ factor, items[1].sum(axis=1)
    order = np.argsort(-shown, kind="stable")
    order = order[expected[order] >= 5]
    sizes = [size for size in (8, 12, 20, 30, 50, 80) if size <= len(order) // 2]
    for size in sizes:
        (top, error), (after, after_error) = (
            _ratio(expected[group], observed[group])
            for group in (order[:size], order[size : 2 * size])
        )
        p = two_sided(top - after, math.hypot(error, after_error))
        if top - after < math.log(FEWER) and p * len(sizes) <= CHANCE * 10:
            yield ITEM_RATES.says(
                WARNED,
                f"the {size} items that are shown most have {in_percent(math.exp(top - after), 0)} of the rewards of "
                "the items after them",
                "rewards of popular items were cut, thinned or deduplicated",
                "check how rewards of the most popular items are counted",
                code=POPULAR,
            )
            return


def _ratio(expected: Floats, observed: Floats) -> tuple[float, float]:
    """Return the log of observed over expected rewards, and its error by items, which differ."""
    ratio = max(float(observed.sum()), 0.5) / float(expected.sum())
    spread = float(((observed - ratio * expected) ** 2).sum()) * len(expected) / (len(expected) - 1)
    return math.log(ratio), math.sqrt(spread) / (ratio * float(expected.sum()))


def _counted_twice(tally: Tally) -> Findings:
    """Yield where rewards of some items are even numbers only, and those of others mostly one."""
    whole_amounts, paid = tally.sums["whole"]
    positive, ones, even = (tally.sums[name].astype(float) for name in ("positive", "ones", "even"))
    if paid < 100 or whole_amounts < paid or ones.sum() < 0.3 * paid:
        return
    suspects = (ones == 0) & (even == positive) & (positive > 0)
    share = ones.sum() / max(positive[~suspects].sum(), 1.0)
    surely = suspects & (positive * math.log(max(1 - share, 1e-3)) < math.log(NONE_IS_ONE))
    if positive[surely].sum() >= SEVERAL:
        yield ITEM_RATES.says(
            WARNED,
            f"all {positive[surely].sum():,.0f} rewards of {int(surely.sum()):,} items are even, and "
            "those of others are mostly 1",
            "events of some items are delivered twice",
            "count each reward of these items once",
            code=TWICE,
        )


#: Amounts by item bin and eighth of a decade, from 1e-4 to 1e8.
AMOUNT_BINS, LOWEST, PER_DECADE, DECADES = 2048, -4, 8, 12
#: Amounts at the maximum: so many, and this share of all.
AT_MAXIMUM, SHARE = 10, 0.01
#: Items with two amounts that are 10, 100 or 1,000 times apart, at least, and the part of those expected if
#: all items had them alike. Items that are paid so often show it, of which so many have one price otherwise.
WITH_BOTH, ALL_ITEMS, OFTEN, ONE_PRICE = 5, 0.75, 3, 0.8
#: Amounts of a level that is compared, and how many times those of the same items elsewhere they are.
FEWEST_AMOUNTS, CURRENCY = 50, 3.5
#: Items that are decades away from what others let expect, and their least share.
FAR_ITEMS, FAR_SHARE = 3, 0.05
#: Amounts that are kept of a batch.
KEPT = 4096


def _count_amounts(batch: RankingLog, subject: Subject) -> Tally:
    """Keep positive amounts with their items, and what features say of them."""
    paid = subject.used(batch) & (batch.reward > 0)
    # Of the whole batch, evenly.
    sampled = slice(None, None, 1 + int(paid.sum()) // KEPT)
    values = batch.reward[paid][sampled]
    # Clicks and counts are no amounts.
    if not len(values) or bool((values == np.rint(values)).all() and values.max() <= 100):
        return Tally()
    lists = {"amount": values, "item": batch.action[paid][sampled]}
    if "features" in subject.has:
        features = batch.features_of(batch.action)[paid][sampled].T
        named = zip(batch.item_feature_names, features, strict=True)
        kinds = batch.categories_of_items
        lists |= {f"feature {name}": values for name, values in named if name not in kinds}
    paid_rows = np.nonzero(paid)[0][sampled]
    numbers = {cut.column for cut in subject.cuts if not cut.labels}
    for column, (labels, codes) in row_groups(subject, batch).items():
        if column not in (BLOCK, DAY) and column not in numbers and len(labels) > 1:
            lists[f"group {column}"] = np.array(labels)[codes[paid_rows]]
    return Tally(lists=lists)


def _judge_amounts(tally: Tally, subject: Subject) -> Findings:
    """Yield a finding of each kind."""
    if len(tally.lists["amount"]) < 200:
        yield AMOUNTS.says(SKIPPED, "too few amounts")
        return
    # By item, each item's by size.
    order = np.lexsort((tally.lists["amount"], tally.lists["item"]))
    amount, item = tally.lists["amount"][order], tally.lists["item"][order]
    named: dict[str, dict[str, NDArray[Any]]] = {"feature": {}, "group": {}}
    for name, values in tally.lists.items():
        what, _, column = name.partition(" ")
        if column:
            named[what][column] = values[order]
    starts = np.flatnonzero(np.append(True, np.diff(item) != 0))
    yield from _other_currency(amount, item, named["group"])
    yield from _capped(amount, item)
    yield from _two_units(amount, starts)
    yield from _units_of_items(amount, starts, named["feature"])
    yield from _magnitude(amount, item)


#: Amounts have no mass at their maximum and come in one unit.
AMOUNTS = Check(
    CAPPED,
    "rewards",
    "",
    _count_amounts,
    _judge_amounts,
    explains=("rewards", "rewards-capped", "rewards-by-magnitude", "drift"),
    max_rows=SAMPLED_ROWS,
    passed="amounts have no mass at the largest one",
)


def _capped(amount: Floats, item: Ints) -> Findings:
    """Yield where many different items have the one largest amount."""
    values, back, times = np.unique(amount, return_inverse=True, return_counts=True)
    pairs = np.unique(np.stack([back, item]), axis=1)[0]
    *items_below, items = np.bincount(pairs, minlength=len(values)).tolist()
    # Prices that several items share come again below the largest one; a cap does not.
    shared = items >= 3 * max(items_below, default=1) or times[-1] > 5 * times[:-1].max(initial=1)
    if items >= 4 and shared and times[-1] >= max(AT_MAXIMUM, SHARE * len(amount)):
        yield AMOUNTS.says(
            WARNED,
            f"{in_percent(times[-1] / len(amount))} of the amounts are exactly {values[-1]:g}, the largest, of "
            f"{items:,} different items",
            "amounts were capped; a policy that sells dearer things looks worse than it is",
            "use the amounts as they were, or name a metric that is meant to be capped",
            code=CAPPED,
        )


def _other_currency(amount: Floats, item: Ints, groups: dict[str, NDArray[np.str_]]) -> Findings:
    """Yield the level at which the same items cost several times as much as at the others, or as little.

    Of items that are paid at one level alone all amounts are compared, where they are most.
    """
    logs, place = np.log(amount), np.unique(item, return_inverse=True)[1]
    count, total = np.bincount(place), np.bincount(place, logs)
    for column, labels in groups.items():
        best, name = 0.0, ""
        for label in np.unique(labels):
            inside = labels == label
            mine, items = logs[inside], place[inside]
            if not FEWEST_AMOUNTS <= len(mine) <= len(logs) / 2:
                continue
            outside = (count - np.bincount(items, minlength=len(count)))[items]
            compared = (total - np.bincount(items, mine, len(count)))[items]
            usable = outside > 0
            factor = mine[usable] - compared[usable] / outside[usable]
            if 2 * len(factor) < len(mine):
                factor = mine - logs[~inside].mean()
            off, error = float(factor.mean()), float(factor.std()) / math.sqrt(len(factor))
            if abs(off) > max(math.log(CURRENCY), 6 * error, abs(best)):
                best, name = off, str(label)
        if best:
            times = math.exp(best)
            yield AMOUNTS.says(
                WARNED,
                f"where {column} is {name}, amounts are {times:.2g} times those of the same items elsewhere",
                "another currency or unit there; or prices that differ so much",
                "bring all amounts to one unit",
                pattern=condition(column, [name], times),
                code=UNITS,
            )
            return


def _two_units(amount: Floats, starts: Ints) -> Findings:
    """Yield where items of one price are paid at ten, a hundred or a thousand times that price, alike for all items.

    Cents in a part of the rows concern all items alike: with a share q of large amounts, an item that is paid
    n times has both with chance 1 - q^n - (1 - q)^n. Packs and offers are of some items alone, and where an
    item has many amounts (seconds of watching, tips), two that are ten times apart mean nothing.
    """
    low, high = np.minimum.reduceat(amount, starts), np.maximum.reduceat(amount, starts)
    times = np.diff(np.append(starts, len(amount)))
    at_low, at_high = (
        np.add.reduceat(np.isclose(amount, np.repeat(ends, times), rtol=1e-6).astype(float), starts)
        for ends in (low, high)
    )
    # Items of one price: all amounts, or all but a few, are one of two.
    simple = np.where(low == high, times, at_low + at_high) >= 0.9 * times
    often = times >= OFTEN
    of_one_price = simple[often].sum() >= ONE_PRICE * often.sum()
    for factor in (10, 100, 1000):
        with_both = np.isclose(high, factor * low, rtol=1e-6)
        paid_at_both = with_both & simple
        if not of_one_price or paid_at_both.sum() < WITH_BOTH:
            continue
        large = at_high[with_both].sum()
        share = _of_large(float(large / (large + at_low[paid_at_both].sum())), times, paid_at_both)
        expected = float((1 - share**times - (1 - share) ** times)[simple].sum())
        if paid_at_both.sum() >= ALL_ITEMS * expected:
            yield _other_units(
                f"{int(paid_at_both.sum()):,} items are paid at two prices that are exactly {factor:,} times apart"
            )
            return


def _of_large(q: float, times: Ints, with_both: Bools) -> float:
    """Return the share of large amounts among all, from that among items which have both.

    Items with both have more of the rarer ones than others: the share that gives the observed one is found.
    """
    n = times[with_both].astype(float)
    low, high = 0.0, max(q, 1e-6)
    for _ in range(40):
        share = (low + high) / 2
        paid = 1 - share**n - (1 - share) ** n
        # Of n amounts of which at least one is large and one is not.
        mean = float((n * (share - share**n) / np.maximum(paid, 1e-12)).sum() / n.sum())
        low, high = (share, high) if mean < q else (low, share)
    return (low + high) / 2


def _units_of_items(amount: Floats, starts: Ints, features: dict[str, Floats]) -> Findings:
    """Yield where all amounts of some items are powers of ten away from a feature that fits the others.

    Without such a feature: where they are two or three decades above all others.
    """
    counts = np.diff(np.append(starts, len(amount)))
    # Items with one price; packs have several.
    one_price = np.isclose(amount[starts], amount[starts + counts - 1], rtol=1e-6) & (counts > 1)
    middle = (starts + counts // 2)[one_price]
    for what, values in features.items():
        distant = _off_by_decades(amount[middle], values[middle])
        if distant >= max(FAR_ITEMS, FAR_SHARE * len(middle)):
            yield _other_units(
                f"amounts of {distant:,} items are powers of ten away from what {what} says"
            )
            return
    logs = np.sort(np.log10(amount[middle]))
    if len(logs) < 20:
        return
    gaps = np.diff(logs)
    split = int(gaps[FAR_ITEMS - 1 : 1 - FAR_ITEMS].argmax()) + FAR_ITEMS
    apart = float(logs[split:].mean() - logs[:split].mean())
    decades, gap = 3 if apart > 2.5 else 2, gaps[split - 1]
    if gap > max(0.4, 8 * np.median(gaps)) and abs(apart - decades) < 0.3:
        fewer = min(split, len(logs) - split)
        yield _other_units(
            f"amounts of {fewer:,} items are about {10**decades:,} times away from all others"
        )


def _off_by_decades(amount: Floats, feature: Floats) -> int:
    """Return how many amounts are powers of ten away from a feature that fits the others."""
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.log10(amount / feature)
    off = off[np.isfinite(off)]
    if len(off) < 10:
        return 0
    off = off - np.median(off)
    decades, fits = np.rint(off), np.median(np.abs(off)) < 0.02
    return int((fits & (decades != 0) & (np.abs(off - decades) < 0.02)).sum())


def _other_units(text: str, code: str = UNITS) -> Finding:
    return AMOUNTS.says(
        WARNED,
        text,
        "cents in some rows and whole units in others, or two currencies",
        "bring all amounts to one unit",
        code=code,
    )


def _magnitude(amount: Floats, item: Ints) -> Findings:
    """Yield where amounts of one item come in two sizes that are a hundred or a thousand times apart."""
    size = PER_DECADE * DECADES
    decade = np.floor((np.log10(amount) - LOWEST) * PER_DECADE).astype(np.int64)
    table = np.zeros((AMOUNT_BINS, size))
    np.add.at(table, (item % AMOUNT_BINS, np.clip(decade, 0, size - 1)), 1.0)
    table = table[table.any(axis=1)]
    # A click counts 1 and a purchase 100: a few sizes are meant.
    if table.any(axis=0).sum() < 6:
        return
    shapes = _distances(table), _above_median(table)
    for factor, lag in ((100, 2 * PER_DECADE), (1000, 3 * PER_DECADE)):
        if any(_second_peak(shape, lag) for shape in shapes):
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
