"""Rewards by kind of item: categories and popular items with a part of their rewards, or counted twice."""

import math
from collections.abc import Iterator

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally, whole
from counterrank.audit.scores import shown_scores
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, WARNED, Finding
from counterrank.kernels.jit import jit
from counterrank.messages import REWARD_PER_RANKING
from counterrank.policies import Scored
from counterrank.statistics import two_sided
from counterrank.texts import in_percent

FINDINGS = KIND, POPULAR, TWICE, ITEM = (
    "rewards-by-category",
    "rewards-by-popularity",
    "rewards-counted-twice",
    "rewards-by-item",
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
#: Popular items are compared with as many that come after them: at this factor fewer rewards, and from
#: this many items on.
FEWER, FEWEST = 0.75, 8
#: Rewards of an item none of which is 1, by chance, and of all such items.
NONE_IS_ONE, SEVERAL = 1e-6, 20


def _count_item_rates(batch: RankingLog, subject: Subject) -> Tally:
    """Sum expected and observed rewards by item and by category, each by group of scores."""
    reward, rates = np.ascontiguousarray(batch.reward), subject.rates
    score = _score_groups(batch, subject)
    at = np.where(batch.action < 0, -1, batch.action & (BINS - 1))
    # No more bins than there are items: what other batches count in further ones is added.
    size = int(at.max(initial=0)) + 1
    sums = {"items": np.zeros((2, size, DECILES)), "early": subject.page_counts(batch).early}
    item_sums(at, score, reward, rates, sums["items"])
    names = batch.item_feature_names
    labels = batch.categories_of_items
    if labels:
        features = batch.features_of(batch.action)
        for name, known in labels.items():
            codes = np.where(batch.action < 0, np.nan, features[:, :, names.index(name)])
            sums[f"kind {name}"] = np.zeros((2, len(known), DECILES))
            code = np.nan_to_num(codes, nan=-1.0).astype(np.int64)
            item_sums(code, score, reward, rates, sums[f"kind {name}"])
    paid = reward > 0
    values, items = reward[paid], at[paid]
    sums["positive"] = np.bincount(items, minlength=size).astype(float)
    for name, rows in (("ones", values == 1), ("even", whole(values / 2))):
        sums[name] = np.bincount(items[rows], minlength=size).astype(float)
    sums["whole"] = np.array([whole(values).sum(), len(values)], dtype=float)
    return Tally(sums=sums)


def _judge_item_rates(tally: Tally, subject: Subject) -> list[Finding]:
    """Return a finding of each kind."""
    if one_per_page(tally, subject):
        return ITEM_RATES.skipped("there is one reward per page")
    factor = _by_score(tally.sums["items"])
    found = [*_counted_twice(tally), *_without_any(*tally.sums["items"].sum(axis=2))]
    # Without scores nobody knows what should be liked: in search, all results of a query that
    # everyone asks are shown often, and one is wanted.
    if isinstance(subject.first.propensity, Scored):
        found += _popular(tally.sums["items"], factor)
    kinds = [name for name in tally.sums if name.startswith("kind ")]
    for name in kinds:
        labels = subject.first.categories_of_items[name.removeprefix("kind ")]
        found += _categories(name, labels, tally.sums[name], factor, len(kinds))
    return found or ITEM_RATES.passed("no kind of items lost its rewards")


#: No kind of items lost a part of its rewards, or has them counted twice.
#:
#: Expected rewards are those of the position and, where the logger ranks by scores, of its score: a
#: logger that knows what is liked explains most of how items differ.
ITEM_RATES = Check(KIND, _count_item_rates, _judge_item_rates, most=SAMPLED_ROWS)


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


def _by_score(items: Floats) -> Floats:
    """Return by what factor rewards of each group of scores differ from those by position (DECILES,)."""
    expected, observed = items.sum(axis=1)
    overall = observed.sum() / max(expected.sum(), 1e-300)
    # Ten expected rewards at the overall rate keep small groups calm.
    factor: Floats = (observed + 10 * overall) / (expected + 10)
    return factor


def _categories(
    name: str, labels: tuple[str, ...], table: Floats, factor: Floats, kinds: int
) -> Iterator[Finding]:
    """Yield the category that stands apart from others that are alike."""
    expected, observed = table[0] @ factor, table[1].sum(axis=1)
    known = np.flatnonzero(expected >= 50)
    if len(known) < 3:
        return
    logs = np.log((observed[known] + 0.5) / expected[known])
    chance = CHANCE / (len(known) * kinds)
    for place in outlier(logs, 2.25 / expected[known], APART, ALIKE, chance):
        off = float(logs[place] - np.median(np.delete(logs, place)))
        yield Finding(
            KIND,
            WARNED,
            f"items of {name.removeprefix('kind ')} {labels[known[place]]} have {in_percent(math.exp(off), 0)} of the "
            "rewards of others at their positions and scores",
            ("check how rewards of these items are tracked; if they are right, ignore this",),
            cause="rewards of a part of the catalogue were not joined, or are counted otherwise",
        )  # fmt: skip


def outlier(logs: Floats, variance: Floats, apart: float, alike: float, chance: float) -> list[int]:
    """Return the one rate, by its logarithm, that is a factor away from all others, which are alike; or none.

    >>> outlier(np.log([1.0, 1.1, 2.0]), np.full(3, 1e-3), 1.65, 1.3, 1e-4)
    [2]
    """
    order = np.argsort(logs)
    if len(order) < 2:
        return []
    for at, others in ((order[0], order[1:]), (order[-1], order[:-1])):
        off = float(logs[at] - np.median(logs[others]))
        error = math.sqrt(variance[at] + 1 / (1 / variance[others]).sum())
        gap = float(np.abs(logs[at] - logs[others]).min())
        same = float(np.ptp(logs[others])) < math.log(alike)
        if gap > math.log(apart) and same and two_sided(off, error) <= chance:
            return [int(at)]
    return []


def _without_any(expected: Floats, rewarded: Floats) -> Iterator[Finding]:
    """Yield where many items that are shown often have no reward at all, and few have some."""
    expected = expected * rewarded.sum() / max(expected.sum(), 1e-300)
    tested = expected >= EXPECTED_OF_ITEM
    none, few = tested & (rewarded == 0), tested & (rewarded > 0) & (rewarded <= 3)
    lost = float(expected[none].sum())
    material = lost >= max(EXPECTED_OF_ITEMS, 0.1 * expected[tested].sum())
    # Two items that nobody wants may be shown often.
    if material and none.sum() > EXCESS * max(few.sum(), 0.5):
        yield Finding(
            ITEM,
            FAILED,
            f"{int(none.sum()):,} of {int(tested.sum()):,} items that are shown often have no reward at all, "
            f"only {int(few.sum()):,} have one to three",
            ("check the join of rewards with rankings; leave out what was not joined",),
            cause="items are called differently where rewards come from, or part of the catalogue was not joined",
        )  # fmt: skip


def _popular(items: Floats, factor: Floats) -> Iterator[Finding]:
    """Yield where the items that are shown most have fewer rewards than those after them."""
    shown, expected, observed = items[0].sum(axis=1), items[0] @ factor, items[1].sum(axis=1)
    order = np.argsort(-shown, kind="stable")
    order = order[expected[order] >= 5]
    sizes = [size for size in (8, 12, 20, 30, 50, 80) if FEWEST <= size <= len(order) // 2]
    for size in sizes:
        rates = [
            _ratio(expected[part], observed[part])
            for part in (order[:size], order[size : 2 * size])
        ]
        (top, error), (after, other) = rates
        p = two_sided(top - after, math.hypot(error, other))
        if top - after < math.log(FEWER) and p * len(sizes) <= CHANCE * 10:
            yield Finding(
                POPULAR,
                WARNED,
                f"the {size} items that are shown most have {in_percent(math.exp(top - after), 0)} of the rewards of "
                "the items after them",
                ("check how rewards of the most popular items are counted",),
                cause="rewards of popular items were cut, thinned or deduplicated",
            )  # fmt: skip
            return


def _ratio(expected: Floats, observed: Floats) -> tuple[float, float]:
    """Return the log of observed over expected rewards, and its error by items, which differ."""
    ratio = max(float(observed.sum()), 0.5) / float(expected.sum())
    spread = float(((observed - ratio * expected) ** 2).sum()) * len(expected) / (len(expected) - 1)
    return math.log(ratio), math.sqrt(spread) / (ratio * float(expected.sum()))


def _counted_twice(tally: Tally) -> Iterator[Finding]:
    """Yield where rewards of some items are even numbers only, and those of others mostly one."""
    whole, paid = tally.sums["whole"]
    positive, ones, even = (tally.sums[name].astype(float) for name in ("positive", "ones", "even"))
    if paid < 100 or whole < paid or ones.sum() < 0.3 * paid:
        return
    suspects = (ones == 0) & (even == positive) & (positive > 0)
    share = ones.sum() / max(positive[~suspects].sum(), 1.0)
    surely = suspects & (positive * math.log(max(1 - share, 1e-3)) < math.log(NONE_IS_ONE))
    if positive[surely].sum() >= SEVERAL:
        yield Finding(
            TWICE,
            FAILED,
            f"all {positive[surely].sum():,.0f} rewards of {int(surely.sum()):,} items are even, and "
            "those of others are mostly 1",
            ("count each reward of these items once",),
            cause="events of some items are delivered twice",
        )  # fmt: skip
