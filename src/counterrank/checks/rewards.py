"""Rewards by group of rows, by day and by both, where a part was lost; and rewards that stand at the wrong page.

Groups differ in healthy logs too: a promotion, a quiet night and phones that show four items look like lost
rewards. So what is seen of groups is a question. It is asked where a smaller part of the rows has fewer
rewards than the others at the same positions, hardly any or far fewer than groups that are alike; more is no
loss. A change from one day on is asked about where the level fell and the others did not.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.checks.answers import SIZE, condition
from counterrank.checks.base import (
    BLOCK,
    SAMPLED_ROWS,
    Check,
    GroupKey,
    Parts,
    Subject,
    Tally,
    complete,
    design_effect,
    first_items,
    group_sums,
    neighbours,
    stretch_names,
)
from counterrank.checks.base import DAY as TIME
from counterrank.checks.conditions import option, without, without_both
from counterrank.checks.items import EXPECTED, TWICE, one_per_page, outlier
from counterrank.checks.propensities import logged_numbers
from counterrank.checks.scores import shown_scores
from counterrank.checks.weights import row_groups
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.findings import FAILED, SKIPPED, WARNED, Finding, Findings
from counterrank.common.texts import in_percent
from counterrank.data.columns import column_of
from counterrank.data.log import LOGGING, RankingLog
from counterrank.kernels.jit import jit, vector_jit

FINDINGS = LEVEL, DAY, BOTH, STRETCH, POSITION, THINNED, COUNT, PAGE, NEIGHBOUR = (
    "rewards-by-level",
    "rewards-by-day",
    "rewards-by-level-and-day",
    "rewards-by-stretch",
    "rewards-by-position",
    "rewards-by-page",
    "rewards-by-count",
    "rewards-by-visit",
    "rewards-by-neighbour",
)
#: False alarms per log of each test, Bonferroni over all that is tested.
CHANCE = 1e-4
#: A group with fewer than this share of the rewards of the others has hardly any; at a position, with fewer
#: than the second one. Rewards that fall so much from a position to the next were lost.
HARDLY_ANY, HARDLY_ANY_AT = 0.1, 0.02
#: Pages without rewards as a share of those expected, and the distance of both ratios in standard errors.
FEWER, THINNED_AT = 0.65, 3.5
#: Below this ratio of rewards after a reward, positions are not independent.
STOPPING = 0.95
#: A level is apart where others have this many times its rewards: of two levels, and of several that are
#: alike among themselves within the last factor.
APART_OF_TWO, APART, ALIKE = 1.7, 1.5, 1.3
#: A day is apart at this factor, and at so many times the usual distance of days from their median.
DAY_APART, DAY_SPREADS = 1.9, 5.0
#: A day with this share of the usual rows is a day of its own.
QUIET_DAY = 0.6
#: From a day on, a level falls by this factor more than the others do, and by the second one itself.
CHANGED, FALLEN = 1.5, 1.3
#: A run of pages without rewards is too long where even this share of the usual rate makes it so rare, and
#: where so many rewarded pages are missing in it.
QUIET, RARE_RUN, MISSING = 0.35, 1e-4, 20.0
#: Rows of a group that is looked at.
FEWEST = 100
#: Numbers of a group of rows before those of its positions.
COUNTS = 5
#: Labels and sums of the groups of each column.
Columns = dict[str, tuple[list[str], Floats]]


def _count_reward_rates(batch: RankingLog, subject: Subject) -> Tally:
    """Sum, for each group of each column on each day: rows, rewarded items, their squares, and more.

    These are `COUNTS` (the last two: rewards of 1, and even ones), then items and rewarded items at each
    position.
    """
    groups = {**row_groups(subject, batch)}
    days, day = groups.pop(TIME, ([""], np.zeros(batch.n, np.int64)))
    reward = np.ascontiguousarray(batch.reward)
    parts: Parts = {}
    for column, (labels, codes) in groups.items():
        table = np.zeros((len(labels) * len(days), COUNTS + 2 * batch.K))
        reward_sums(reward, batch.lengths, codes * len(days) + day, table)
        cube = table.reshape(len(labels), len(days), -1)
        for level, on in np.argwhere(cube[:, :, 0]).tolist():
            parts[column, labels[level], days[on]] = cube[level, on]
    hits, counts = subject.page_counts(batch)
    empty = np.array([(hits == 0).sum(), batch.n], dtype=float)
    sums = {"units": group_sums(batch.bucket, 1024, hits.astype(float)), "empty": empty, **counts}
    return Tally(sums, lists={"run": _longest_run(batch, hits, subject.time)}, parts=parts)


def _longest_run(batch: RankingLog, hits: Ints, time: str | None) -> Floats:
    """Return the longest run of pages without rewards (1, 2): its length, and the number of its first row.

    Pages that follow each other in time, or in the log; those of one visitor count once.
    """
    order = (
        np.arange(batch.n) if time is None else np.argsort(column_of(batch, time), kind="stable")
    )
    new = np.ones(batch.n)
    if batch.unit is not None:
        new[1:] = batch.unit[order][1:] != batch.unit[order][:-1]
    ends = np.concatenate([[-1], np.flatnonzero(hits[order] > 0), [batch.n]])
    visitors = np.append(0.0, np.cumsum(new))
    # Pages between two rewarded ones.
    lengths = visitors[ends[1:]] - visitors[ends[:-1] + 1]
    longest = int(lengths.argmax())
    first = batch.numbers[order[min(ends[longest] + 1, batch.n - 1)]]
    return np.array([[lengths[longest], float(first)]])


@jit
def reward_sums(reward: Floats, lengths: Ints, code: Ints, out: Floats) -> None:
    """Add the numbers of each row of rewards (n, K) to those of its group, out (G, COUNTS + 2 K)."""
    width = reward.shape[1]
    for i in range(reward.shape[0]):
        sums, hits = out[code[i]], 0
        for k in range(lengths[i]):
            value = reward[i, k]
            sums[COUNTS + k] += 1
            if value != 0:
                hits += 1
                sums[3] += value == 1
                sums[4] += np.floor(value / 2) == value / 2
                sums[COUNTS + width + k] += 1
        sums[0] += 1
        sums[1] += hits
        sums[2] += hits * hits


def _judge_reward_rates(tally: Tally, subject: Subject) -> Findings:
    """Yield a finding of each kind."""
    units = tally.sums["units"]
    if units[1].sum() < FEWEST or subject.first.page_reward:
        yield REWARD_RATES.says(SKIPPED, "too few rewards to compare groups of rows")
        return
    design = design_effect(units)
    days, columns = _columns(tally.parts)
    overall = columns[BLOCK][1].sum(axis=0)
    shown, hits = overall.sum(axis=0)[COUNTS:].reshape(2, -1)
    if not one_per_page(tally, subject):
        rates = hits / np.maximum(shown, 1.0)
        yield from _position(shown, hits)
        yield from _thinned(tally.sums["pages"], rates, tally.sums["beside"])
        yield from _cut(tally.sums["pages"], rates)
    yield from _run(tally.lists["run"], *tally.sums["empty"])
    tests = sum(len(labels) for labels, _ in columns.values())
    # Rates along numbers and rows rise and fall by nature.
    unlabelled = {BLOCK, *(cut.column for cut in subject.cuts if not cut.labels)}
    for column, (labels, cube) in columns.items():
        table, chance = cube.sum(axis=1), 0.0 if column in unlabelled else CHANCE / tests
        yield from _fewer(column, labels, table, subject, design, chance)
        if column != BLOCK:
            yield from _at_positions(column, labels, table)
            yield from _counted_twice(column, labels, table, subject)
    yield from _on_a_day(np.array(days), overall[:, :3], subject, design)
    for column in unlabelled & columns.keys():
        del columns[column]
    yield from _since_a_day(columns, days, subject, design)


#: What rewards that a part of the rows lost, or has too many of, bring about.
LOST_ELSEWHERE = (
    "rewards-by-level-and-day",
    "rewards-by-level",
    "rewards-by-day",
    "rewards-by-stretch",
    "rewards-by-page",
    "drift",
    "lift-by-halves",
)
#: Rewards are not lost in one group, on one day, or in one group from a day on.
REWARD_RATES = Check(
    LEVEL,
    "rewards",
    "",
    _count_reward_rates,
    _judge_reward_rates,
    explains=LOST_ELSEWHERE,
    max_rows=SAMPLED_ROWS,
    passed="no group of rows, position or day lost its rewards",
)


def _columns(parts: Mapping[GroupKey, Floats]) -> tuple[list[str], Columns]:
    """Return the days, and the labels of each column with their sums by day (L, D, V)."""
    *_, on = zip(*parts, strict=True)
    days, cubes = sorted(set(on)), dict[str, dict[str, Floats]]()
    for (column, label, day), sums in parts.items():
        levels = cubes.setdefault(column, {})
        levels.setdefault(label, np.zeros((len(days), len(sums))))[days.index(day)] = sums
    columns: Columns = {}
    for name, levels in cubes.items():
        columns[name] = [*levels], np.stack([*levels.values()])
    return days, {**columns, BLOCK: stretch_names(*columns[BLOCK])}


def _fewer(
    column: str,
    labels: Sequence[str],
    table: Floats,
    subject: Subject,
    design: float,
    chance: float,
) -> Findings:
    """Yield the groups with hardly any reward, or the level with far fewer than others that are alike by `chance`."""
    rows, hits, squares = table.T[:3]
    shown, rewarded = table[:, COUNTS:].reshape(len(table), 2, -1).transpose(1, 0, 2)
    # What the others have at the positions of a group: pages of one place have fewer rewards than pages of eight,
    # and say nothing of places that they do not have.
    elsewhere = shown.sum(axis=0) - shown
    rates = (rewarded.sum(axis=0) - rewarded) / np.maximum(elsewhere, 1.0)
    expected = (shown * rates * (elsewhere > 0)).sum(axis=1)
    compared = (rewarded * (elsewhere > 0)).sum(axis=1)
    minor = rows <= rows.sum() / 2
    judged = np.flatnonzero((rows >= FEWEST) & (expected >= EXPECTED))
    bad = judged[(compared < HARDLY_ANY * expected)[judged] & minor[judged]]
    if not len(bad) and chance:
        # Half a reward more, so that none at all has a logarithm.
        n, mean = rows[judged], (hits[judged] + 0.5) / rows[judged]
        variance = design * np.maximum(squares[judged] / n - mean**2, 1e-12) / (n * mean**2)
        limit = APART_OF_TWO if len(judged) == 2 else APART
        # Against one rate for all: against each other's, two levels would be twice as far apart.
        usual = (shown * rewarded.sum(axis=0) / np.maximum(shown.sum(axis=0), 1.0)).sum(axis=1)
        logs = np.log((hits + 0.5) / np.maximum(usual, 1e-300))[judged]
        outlying = outlier(logs, variance, limit, ALIKE, chance)
        bad = judged[[index for index in outlying if logs[index] < 0 and minor[judged[index]]]]
    if len(bad):
        names, hardly = (
            [labels[index] for index in bad],
            compared[bad].sum() < HARDLY_ANY * expected[bad].sum(),
        )
        ratio, by_rows = float(compared[bad].sum() / expected[bad].sum()), column == BLOCK
        where = first_items(names) if by_rows else f"where {column} is {first_items(names)}"
        yield _lost(
            STRETCH if by_rows else LEVEL,
            f"{where}, pages have {_times(ratio)} the rewards of others at the same positions",
            condition("rows" if by_rows else column, names, ratio),
            # People who only act otherwise are not to be left out.
            without(column, names, subject) if hardly else "",
            # A level that lost its rewards on some days has fewer on the whole.
            explains=LOST_ELSEWHERE if hardly else LOST_ELSEWHERE[1:],
        )


def _at_positions(column: str, labels: Sequence[str], table: Floats) -> Findings:
    """Yield the level with hardly any item that is rewarded at a position, or not rewarded, where others have many."""
    shown, hits = table[:, COUNTS:].reshape(len(table), 2, -1).transpose(1, 0, 2)
    for counts, what in ((hits, "a reward"), (shown - hits, "an item without a reward")):
        shown_elsewhere = shown.sum(axis=0) - shown
        expected = shown * (counts.sum(axis=0) - counts) / np.maximum(shown_elsewhere, 1.0)
        # Where a level has fewer everywhere, `_fewer` tells it.
        scale = (counts / np.maximum(expected, 1.0)).max(axis=1, initial=0.0, keepdims=True)
        expected = expected * np.minimum(scale, 1.0)
        bad = (expected >= EXPECTED) & (counts < HARDLY_ANY_AT * expected)
        for affected in np.flatnonzero(bad.any(axis=1))[:1]:
            positions = (np.flatnonzero(bad[affected]) + 1).tolist()
            yield _lost(
                POSITION,
                f"position {first_items(positions)} has hardly {what} where {column} is {labels[affected]}, and many "
                "elsewhere",
                f"{condition(column, [labels[affected]])} and {_placed(positions, len(bad[affected]))}",
                # Every row of the level would go with the few places that nobody saw.
                "",
            )


def _placed(positions: Sequence[int], last: int) -> str:
    """Return positions as a condition.

    >>> _placed([5, 6, 7, 8], 8), _placed([1], 8), _placed([2, 4], 8)
    ('position >= 5', 'position = 1', 'position in (2, 4)')
    """
    if len(positions) == 1:
        return f"position = {positions[0]}"
    if list(positions) == [*range(positions[0], last + 1)]:
        return f"position >= {positions[0]}"
    return f"position in ({', '.join(map(str, positions))})"


def _position(shown: Floats, hits: Floats) -> Findings:
    """Yield positions without rewards above one that has many, or below; and one that is always rewarded.

    Clicks fall with the position, or rise where a page is read otherwise. They are not absent above a
    position that has many, and attention does not fade to a fiftieth from a position to the next.
    """
    rate = hits / np.maximum(shown, 1.0)
    best_below = np.append(np.maximum.accumulate(rate[::-1])[::-1][1:], 0.0)
    expected = best_below * shown
    bad = (expected >= EXPECTED) & (hits < HARDLY_ANY_AT * expected)
    drops = (hits[:-1] >= 10 * EXPECTED) & (rate[1:] < HARDLY_ANY_AT * rate[:-1])
    always = (shown[:-1] >= FEWEST) & (rate[:-1] > 1 - HARDLY_ANY_AT) & (rate[1:] < 0.5)
    cases = (
        (
            bad,
            0,
            "hardly any reward",
            "that position were not joined, or all are recorded one position too low",
        ),
        (drops, 1, "hardly any reward", "lower positions were not tracked or not joined"),
        (always, 0, "hardly an item without a reward", "that position count what nobody chose"),
    )
    for which, shift, what, cause in cases:
        places = np.flatnonzero(which) + shift
        if len(places):
            yield REWARD_RATES.says(
                WARNED,
                f"position {first_items((places + 1).tolist())} has {what} ({int(hits[places[0]]):,} in "
                f"{int(shown[places[0]]):,}), others have {int(hits.sum() - hits[places].sum()):,}",
                f"rewards of {cause}",
                "check how positions are counted, from 0 or from 1, on both sides of the join; leave out "
                "positions whose rewards are not known",
                pattern=_placed((places + 1).tolist(), len(shown)),
                code=POSITION,
            )
            return


def stops(sums: Floats) -> float:
    """Return rewards after a reward, relative to as many rewards before one let expect.

    Pages with a reward at another position are all kept, whatever became of pages without any. Of
    independent positions the ratio is 1, however users differ; users who stop after a click lower it.
    """
    pages_above, after, pages_below, before = sums[:, 1:-1]
    rate = (after + before) / np.maximum(pages_above + pages_below, 1.0)
    expected = float((rate * pages_above).sum())
    return float(after.sum()) / expected if expected > 0 else 1.0


def _thinned(counts: Floats, rates: Floats, pairs: Floats) -> Findings:
    """Yield where pages without rewards are fewer than those with one, two and three let expect.

    Of independent positions with odds o, pages with m rewards are as the elementary symmetric
    polynomials e_m(o): n0 n2 / n1^2 is e0 e2 / e1^2, and n1 n3 / n2^2 is e1 e3 / e2^2. Users who differ
    raise both; lost pages without rewards lower the first alone. Users who stop after a click lower it
    too, and then nothing can be told.
    """
    if len(counts) < 4 or counts[1:4].min() < EXPECTED or stops(pairs) < STOPPING:
        return
    # Where all pages without rewards are gone, half a page stands for them.
    counts = np.maximum(counts, 0.5)
    odds = rates / np.maximum(1 - rates, 1e-9)
    e = np.poly(-odds)[:4]
    first, second = (
        float(
            np.log(
                counts[m] * counts[m + 2] / counts[m + 1] ** 2 * e[m + 1] ** 2 / (e[m] * e[m + 2])
            )
        )
        for m in (0, 1)
    )
    error = math.sqrt(1 / counts[0] + 5 / counts[1] + 5 / counts[2] + 1 / counts[3])
    # Many pages with exactly one reward lower the first by twice what they raise the second.
    lost = first < math.log(FEWER) and math.log(0.8) < second < -first / 4
    if lost and second - first >= THINNED_AT * error:
        yield REWARD_RATES.says(
            WARNED,
            f"pages without a reward are about {100 * math.exp(first):.0f} % of the number expected from those "
            "with one, two and three",
            "pages without rewards were thinned or lost on their way into the log",
            "log all pages, or say how many were kept with a weight for each row",
            code=THINNED,
        )


def _cut(counts: Floats, rates: Floats) -> Findings:
    """Yield where no page has m rewards or more, and many do by pages with one and two fewer.

    Of independent positions with odds o, pages with m rewards are as the elementary symmetric polynomials
    e_m(o), so n_m = n_(m-1)^2 / n_(m-2) * e_m e_(m-2) / e_(m-1)^2; of users who differ there are more.
    """
    odds = rates / np.maximum(1 - rates, 1e-9)
    e = np.poly(-odds)
    for m in range(3, len(counts)):
        if min(counts[m - 1], counts[m - 2]) < EXPECTED or e[m] <= 0:
            continue
        expected = float(counts[m - 1] ** 2 / counts[m - 2] * e[m] * e[m - 2] / e[m - 1] ** 2)
        if expected >= EXPECTED and counts[m:].sum() < HARDLY_ANY_AT * expected:
            yield REWARD_RATES.says(
                WARNED,
                f"no page has {m} rewards or more, where about {expected:,.0f} are expected with {m} from those with "
                f"{m - 2} and {m - 1}",
                "people may take no more; or rewards were cut, capped or dropped as robots'",
                "use all rewards of a page, or name a metric that is meant to be capped",
                pattern=f"rewards >= {m}",
                code=COUNT,
            )
            return


def _run(runs: Floats, empty: float, rows: float) -> Findings:
    """Yield a run of pages without any reward that would be rare even in much quieter hours."""
    length, first = runs[int(runs[:, 0].argmax())]
    rewarded = 1.0 - empty / rows
    quiet = QUIET * rewarded
    if not 0.0 < quiet < 1.0 or length * rewarded < MISSING:
        return
    if math.log(rows * quiet) + length * math.log1p(-quiet) < math.log(RARE_RUN):
        usual = math.log(rows * rewarded) / -math.log1p(-rewarded) if rewarded < 1 else 1.0
        yield REWARD_RATES.says(
            WARNED,
            f"{length:,.0f} pages in a row have no reward (from row {first:,.0f} on), where at most about {usual:,.0f} "
            "are usual",
            "nobody was there; or rewards were not tracked or not joined for a while",
            "check the tracking and the join of that time, or leave these rows out",
            pattern=f"row >= {first:.0f}",
            code=STRETCH,
        )


def _counted_twice(column: str, labels: Sequence[str], table: Floats, subject: Subject) -> Findings:
    """Yield the levels of which all rewards are even numbers, where those of others are mostly one."""
    hits, ones, even = table[:, 1], table[:, 3], table[:, 4]
    bad = np.flatnonzero((even == hits) & (hits >= EXPECTED))
    if len(bad) and ones.sum() > 0.5 * (hits.sum() - hits[bad].sum()):
        names = [labels[level] for level in bad.tolist()]
        text = f"all {hits[bad].sum():,.0f} rewards where {column} is {first_items(names)} are even"
        where = without(column, names, subject)
        yield _lost(TWICE, f"{text}, those of others are not", condition(column, names), where)


def _on_a_day(names: NDArray[np.str_], table: Floats, subject: Subject, design: float) -> Findings:
    """Yield the days with hardly any reward, or far from days that are alike."""
    enough = table[:, 0] >= FEWEST
    if enough.sum() < 4:
        return
    names, (rows, hits, squares) = names[enough], table[enough].T
    with np.errstate(divide="ignore"):
        rates = np.log(hits / rows)
    positive = rates[hits > 0]
    centre = float(np.median(positive))
    # The median distance from the median, as a standard deviation of the normal law.
    spread = 1.4826 * float(np.median(np.abs(positive - centre)))
    chance = design * squares.sum() / hits.sum() / np.maximum(math.exp(centre) * rows, 1.0)
    off = rates - centre
    # At five standard errors, so that no test of its own is needed. More is no loss.
    # On a holiday, or before a launch, fewer people come and others: then only hardly any is a loss.
    limit = np.where(rows < QUIET_DAY * np.median(rows), -math.log(HARDLY_ANY), math.log(DAY_APART))
    apart = -off > np.maximum(limit, DAY_SPREADS * np.sqrt(spread**2 + chance))
    wrong = np.flatnonzero(apart)
    # Many days that differ are seasons, which `drift` tells.
    if len(wrong) and len(wrong) <= max(1, len(names) // 5):
        days = names[wrong].tolist()
        yield _lost(
            DAY,
            f"on {', '.join(days)} a ranking has {_times(math.exp(off[wrong[0]]))} the rewards of other days",
            condition("day", days, math.exp(off[wrong[0]])),
            without("day", days, subject),
        )


def _since_a_day(
    columns: Columns, days: Sequence[str], subject: Subject, design: float
) -> Findings:
    """Yield the level of each column that changed most against the others from one day on, or on one."""
    last = len(days)
    windows = [(start, last) for start in range(1, last)]
    windows += [(start, start + 1) for start in range(last if last > 2 else 0)]
    day = np.arange(last)
    within = np.array([(start <= day) & (day < end) for start, end in windows], dtype=float)
    tests = len(windows) * sum(len(labels) for labels, _ in columns.values())
    for column, (labels, cube) in columns.items():
        if len(labels) < 2 or not windows:
            continue
        change, gain = _changes(cube[:, :, :3], within, design, CHANCE / tests)
        if not (gain > 0).any():
            continue
        level, window = divmod(int(gain.argmax()), len(windows))
        start, end = windows[window]
        onwards, ratio = end == last, math.exp(change[level, window])
        when = f"from {days[start]} on" if onwards and end - start > 1 else f"on {days[start]}"
        yield _lost(
            BOTH,
            f"{when}, rankings where {column} is {labels[level]} have {_times(ratio)} the rewards expected from the "
            "change of the others",
            f"{condition(column, [labels[level]])} and day {'>=' if onwards else '='} '{days[start]}' and "
            f"{SIZE} = {max(ratio, 0.001):.2g}",
            without_both(column, labels[level], days[start], subject, onwards=onwards),
        )


def _changes(
    counted: Floats, within: Floats, design: float, chance: float
) -> tuple[Floats, Floats]:
    """Return how rewards change in windows of days (W, D) against other levels, and what this explains (L, W).

    Of rows, rewards and their squares (L, D, 3). The change is a logarithm; what it explains is Poisson's
    deviance of the rewards inside the window, nothing where they do not fall, or by chance.
    """
    from scipy import special

    inside = np.einsum("wd,ldv->lwv", within, counted)
    outside = counted.sum(axis=1)[:, None] - inside
    # Inside and outside of each window (4, L, W, 3): of the level, then of the others.
    parts = np.stack([inside, outside, *(side.sum(axis=0) - side for side in (inside, outside))])
    n, hits = parts[..., 0], parts[..., 1]
    # Where a level hardly had any before, nothing was lost since.
    judged = (n >= FEWEST).all(axis=0) & (hits[1] >= EXPECTED)
    n = np.maximum(n, 1.0)
    # Half a reward more, so that none at all has a logarithm; the variance is that of the rewards of
    # all days, so that days without any are no less certain.
    logs = np.log((hits + 0.5) / n)
    change = logs[0] - logs[1] - logs[2] + logs[3]
    total = np.stack([parts[:2].sum(axis=0), parts[2:].sum(axis=0)])
    spread = design * total[..., 2] * total[..., 0] / np.maximum(total[..., 1], 1.0) ** 2
    error = np.sqrt((spread * (1 / n[::2] + 1 / n[1::2])).sum(axis=0))
    by_chance = 2 * special.ndtr(-np.abs(change) / np.maximum(error, 1e-300)) > chance
    fell = (change < -math.log(CHANGED)) & (logs[0] - logs[1] < -math.log(FALLEN))
    expected = n[0] * np.exp(logs[1] + logs[2] - logs[3])
    gain = special.xlogy(hits[0], hits[0] / expected) - hits[0] + expected
    return change, np.where(judged & fell & ~by_chance, gain, 0.0)


def _times(ratio: float) -> str:
    return f"{in_percent(ratio, 0)} of" if ratio < 1 else f"{ratio:.2g} times"


def _lost(code: str, text: str, pattern: str, where: str, **fields: Any) -> Finding:
    return REWARD_RATES.says(
        WARNED,
        f"{text}; do people act so there?",
        "if they do not, rewards of these rows were not tracked or not joined, or are counted otherwise",
        "check the join and the tracking of rewards there"
        + (f", or leave these rows out{option(where)}" if where else ""),
        where=where,
        pattern=pattern,
        **fields,
        code=code,
    )


#: Standard errors of the part that another page explains (1e-4 on one side), and the least part that
#: matters.
BEYOND, LEAST = 4.5, 0.1
#: Standard errors of what the other page's items explain where the own ones explain less than a third.
ALL_BEYOND = 6.0
#: Items are counted in so many bins.
BINS = 4096
#: Pairs of pages, and rewards, from which something can be seen.
PAIRS, SOME = 300, 200
#: By how many positions the item above or below a slot is moved to stand at it.
SLOTS = {"above": 1, "below": -1}
#: Rows whose terms stand side by side.
TERM_ROWS = 64
#: Rewards from which something must explain them, and standard errors that are an explanation.
REWARDS, EXPLAINED = 1000, 3.0


def _count_other_page(batch: RankingLog, subject: Subject) -> Tally:
    """Sum the normal equations of the regressions, and what goes with rewards at all."""
    if batch.K < 2:
        return Tally()
    used, hit = subject.used(batch), subject.rewarded(batch)
    shown, hits = subject.items(batch), hit.sum(axis=0)
    off = hit - hits / np.maximum(shown, 1)
    if not complete(batch):
        off *= used
    # Effects of items are of the other half of the visitors, or of every second pair of rows.
    side = np.arange(batch.n) // 2 % 2
    numbers = np.arange(batch.n)
    earlier, later = numbers[:-1], numbers[1:]
    pairs = [(f"item {where} it", numbers, numbers, shift) for where, shift in SLOTS.items()]
    pairs += [("row below", earlier, later, 0), ("row above", later, earlier, 0)]
    if batch.unit is not None:
        unit = np.unique(batch.unit, return_inverse=True)[1]
        side = unit % 2
        name, (earlier, later) = "page of the same visitor", neighbours(unit)
        pairs += [(f"later {name}", earlier, later, 0), (f"earlier {name}", later, earlier, 0)]
    # Each item in a bin of its side.
    bins = (np.ascontiguousarray(batch.action) & (BINS - 1)) + BINS * side[:, None]
    means = _effects(bins, off, used)
    parts: Parts = {}
    for name, rows, paired, shift in pairs:
        gram = np.zeros((5, 5))
        by_item, terms = np.zeros((2, 2 * BINS)), np.zeros((5, TERM_ROWS * batch.K))
        cells = page_sums(bins, off, used, means, rows, paired, shift, by_item, terms, gram)
        parts[name,] = np.array([*gram.reshape(-1), cells, len(rows)])
    page = off.sum(axis=1)
    going = {
        **_going_with(batch, subject, off, page, used),
        "items": _moments(means[bins] * off),
        "visitors": _moments(page[earlier] * page[later]),
        "positions": np.stack([shown, hits, hits]).astype(float),
        "early": subject.page_counts(batch)[1]["early"],
    }
    return Tally(sums=going, parts=parts)


def _moments(values: Floats) -> Floats:
    flat = values.reshape(-1)
    return np.array([flat.sum(), flat @ flat])


def _effects(bins: Ints, off: Floats, used: Bools) -> Floats:
    """Return the mean of reward - rate of each bin of items on each side, by the rows of the other side."""
    count = np.bincount(bins.reshape(-1)[used.reshape(-1)], minlength=2 * BINS)
    total = np.bincount(bins.reshape(-1), off.reshape(-1), 2 * BINS)
    # Shrunk by five cells: items that were hardly seen say nothing.
    return np.roll(total / (count + 5.0), BINS)


@vector_jit
def page_sums(  # noqa: PLR0913 - a kernel in one piece
    items: Ints,
    off: Floats,
    used: Bools,
    means: Floats,
    rows: Ints,
    paired: Ints,
    shift: int,
    by_item: Floats,
    x: Floats,
    gram: Floats,
) -> float:
    """Add products of what may explain a reward to the lower half of gram (5, 5), and return the number of cells.

    For rows and their other pages, or the slot above or below: the effect of the own item, that of the other
    page's item, the mean of that page's other positions, the other page's where all rewards stand there,
    and the reward itself. by_item (2, 2 BINS) and x (5, TERM_ROWS K) are zeros to work with: terms of some
    rows stand side by side, because sums over a handful of positions are slow.
    """
    n, width, cells = rows.shape[0], items.shape[1], 0.0
    count, alone = by_item[0], by_item[1]
    # Where all rewards stand at another page, none tells of its own items: effects are those of the other
    # page's items then, which the first turn sums.
    for turn in range(2):
        for i in range(n):
            row, paired_row, first = rows[i], paired[i], i % TERM_ROWS * width
            # The other page's items, on the side of the row.
            side = items[row, 0] & ~(BINS - 1)
            page = 0.0
            for k in range(width if turn else 0):
                page += means[(items[paired_row, k] & (BINS - 1)) + side]
            for k in range(max(shift, 0), width + min(shift, 0)):
                item = (items[paired_row, k - shift] & (BINS - 1)) + side
                # A factor of 0 or 1, because branches that cannot be foreseen cost more.
                valid = 1.0 * ((item != items[row, k]) & used[row, k] & used[paired_row, k - shift])
                if not turn:
                    count[item] += valid
                    alone[item] += valid * off[row, k]
                    continue
                cell = first + k
                x[0, cell], x[1, cell] = valid * means[items[row, k]], valid * means[item]
                x[2, cell] = (valid * page - x[1, cell]) / max(width - 1, 1)
                x[3, cell], x[4, cell] = valid * alone[item ^ BINS], valid * off[row, k]
                cells += valid
            filled = turn and (i == n - 1 or i % TERM_ROWS == TERM_ROWS - 1)
            for a in range(5 if filled else 0):
                for b in range(a + 1):
                    product = 0.0
                    for j in range(first + width):
                        product += x[a, j] * x[b, j]
                    gram[a, b] += product
        for item in range(count.shape[0]):
            alone[item] /= count[item] + 5.0
    return cells


def _going_with(
    batch: RankingLog, subject: Subject, off: Floats, page: Floats, used: Bools
) -> dict[str, Floats]:
    """Return sums of what may go with rewards: of products with scores, and of pages by groups."""
    sums = {}
    numbers = logged_numbers(batch, LOGGING)
    values = shown_scores(batch) if numbers is None else numbers
    if values.shape == off.shape:
        scores = np.where(used & np.isfinite(values), values, 0.0)
        sums["scores"] = _moments(off * (scores - scores.mean(axis=0)))
    for cut in subject.cuts:
        sums[f"context {cut.column}"] = group_sums(cut.codes(batch), len(cut.names), page)
    return sums


def _judge_other_page(tally: Tally, subject: Subject) -> Findings:
    """Fail where another page explains a part of the rewards beyond chance, warn where nothing does."""
    rewards = tally.sums["positions"][1].sum() if tally.parts else 0
    if rewards < SOME or one_per_page(tally, subject):
        yield OTHER_PAGE.skipped()
        return
    for (name,), sums in tally.parts.items():
        gram, (cells, pairs) = sums[:25].reshape(5, 5), sums[25:]
        share, z = _explained(gram + np.tril(gram, -1).T, cells)
        if pairs >= PAIRS and z > BEYOND and share > LEAST:
            nearby = name.startswith("item ")
            place, code, cause, remedy = _MISPLACED[nearby]
            # People may look at what stands beside an item; nobody clicks for another request.
            yield OTHER_PAGE.says(
                WARNED if nearby else FAILED,
                f"about {in_percent(min(share, 1.0), 0)} of the rewards depend on the {name} "
                f"(z = {z:.1f}), not on the {place} at which they are recorded",
                cause,
                remedy,
                code=code,
            )
            return
    if rewards >= REWARDS and not any(_explanations(tally)):
        yield OTHER_PAGE.says(
            WARNED,
            "rewards depend on nothing in the log: not on items, scores, visitors or the context",
            "rewards are recorded in the wrong rows, or are random",
            "join rewards by the id of the request",
        )


#: What rewards stand at that depend on another page, or on another item of their page: its name, the code of
#: the finding, the cause and the remedy.
_MISPLACED = (
    (
        "page",
        PAGE,
        "clicks were joined to another request of the same user, or are some rows off",
        "join rewards by the id of the request, not by the user, the time or the row",
    ),
    (
        "item",
        NEIGHBOUR,
        "rewards are recorded one position too high or too low",
        "check how positions are counted, from 0 or from 1, on both sides of the join",
    ),
)
#: Rewards go with the page they stand at, not with the visitor's page before or after it or another row.
#:
#: Item effects are estimated on one half of the visitors and used on the other. A reward, less the
#: rate of its position, is regressed on the effect of its own item, on that of the item at the same
#: position of the other page, and on the mean effect of that page's other positions, which
#: stands for what visitors have in common with all their pages.
OTHER_PAGE = Check(
    PAGE,
    "rewards",
    "",
    _count_other_page,
    _judge_other_page,
    explains=(
        "rewards-by-neighbour",
        "rewards-by-stretch",
        "rewards-by-popularity",
        "rewards-by-page",
    ),
    max_rows=SAMPLED_ROWS // 2,
    skip_reason="too few rewards, or one per page, to compare pages",
    passed="rewards fit the page they are recorded at",
)


def _explanations(tally: Tally) -> Iterator[bool]:
    """Yield whether each thing goes with rewards; True where the log has nothing but items to look at.

    Rewards that do not even go with the position are chance, and stand nowhere wrong.
    """
    cut_names = [name for name in tally.sums if name.startswith("context ")]
    yield not cut_names or not _differ(tally.sums["positions"])
    for name in ("items", "scores", "visitors"):
        total, square = tally.sums.get(name, np.zeros(2))
        yield abs(total) > EXPLAINED * np.sqrt(square)
    yield from (_differ(tally.sums[name]) for name in cut_names)


def _differ(sums: Floats) -> bool:
    """Return whether the means of groups, from counts and sums of y and y^2 (3, G), differ beyond chance."""
    from scipy import special

    rows, first, second = sums[:, sums[0] > 0]
    mean = first.sum() / rows.sum()
    variance = max(second.sum() / rows.sum() - mean**2, 1e-300)
    spread = float(((first - rows * mean) ** 2 / rows).sum() / variance)
    # As rare as the standard errors of the others.
    return bool(special.chdtrc(max(len(rows) - 1, 1), spread) < 2 * special.ndtr(-EXPLAINED))


def _explained(gram: Floats, n: float) -> tuple[float, float]:
    """Return the other page's part of what items explain, and its coefficient in standard errors.

    All of it where the other page's items alone explain rewards, and the own ones hardly.
    """
    # How well own items and those of the other page alone explain rewards, in standard errors.
    scale = np.sqrt(np.maximum(np.diag(gram) * gram[4, 4] / max(n, 1.0), 1e-300))
    of_item, _, _, of_page, _ = gram[4] / scale
    if of_page > ALL_BEYOND and of_item < of_page / 3:
        return 1.0, float(of_page)
    regressors, moments = gram[:3, :3], gram[:3, 4]
    if n < 100 or np.linalg.matrix_rank(regressors) < 3:
        return 0.0, 0.0
    slope = np.linalg.solve(regressors, moments)
    residual = max(float(gram[4, 4] - slope @ moments), 0.0) / n
    error = float(np.sqrt(residual * np.linalg.inv(regressors)[1, 1]))
    share = slope[1] / max(abs(slope[0]) + abs(slope[1]), 1e-12)
    return float(share), float(slope[1] / error) if error > 0 else 0.0
