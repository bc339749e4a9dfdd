"""Rewards by group of rows, by day and by both: where a part of them was lost, or counted twice.

Groups differ in healthy logs too. So a level is blamed where it has hardly any reward, or where it stands
apart from levels that are alike; a change from one day on is blamed where the other levels did not change.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.audit.conditions import without, without_both
from counterrank.audit.findings import (
    SAMPLED_ROWS,
    Check,
    Subject,
    Tally,
    complete,
    design_effect,
    listed,
    stretch_names,
    unit_sums,
    whole,
)
from counterrank.audit.groups import BLOCK, coded
from counterrank.audit.item_rates import EXPECTED, TWICE, early, one_per_page
from counterrank.audit.rows import days_of
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, PASSED, WARNED, Finding
from counterrank.statistics import two_sided
from counterrank.texts import in_percent

FINDINGS = LEVEL, DAY, BOTH, STRETCH, POSITION, THINNED = (
    "rewards-by-level",
    "rewards-by-day",
    "rewards-by-level-and-day",
    "rewards-by-stretch",
    "rewards-by-position",
    "rewards-by-page",
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
#: A level is apart where its rate is this many times another one's: of two levels, and of several that
#: are alike among themselves within the last factor.
APART_OF_TWO, APART, ALIKE = 1.9, 1.65, 1.3
#: A day is apart at this factor, and at so many times the usual distance of days from their median.
DAY_APART, DAY_SPREADS = 1.6, 5.0
#: From a day on, a level changes by this factor more than the others do.
CHANGED = 1.35
#: Rows of a group that is looked at.
FEWEST = 100
#: Numbers of a group of rows before those of its positions.
COUNTS = 5
#: Sums of each level of each column.
Levels = Mapping[str, Mapping[str, Floats]]


def _count_reward_rates(batch: RankingLog, subject: Subject) -> Tally:
    """Sum, for each group of each column on each day: rows, rewarded items, their squares, and more.

    These are `COUNTS`, then items and rewarded items at each position. The column "" has all rows.
    """
    # Position by position (K, n): sums over short rows take NumPy several times as long.
    used, hit, reward = (
        np.ascontiguousarray(part.T)
        for part in (subject.used(batch), subject.rewarded(batch), batch.reward)
    )
    hits = hit.sum(axis=0).astype(float)
    ones, even = (hit & (reward == 1)).sum(axis=0), (hit & whole(reward / 2)).sum(axis=0)
    rows = np.concatenate([[np.ones(batch.n), hits, hits**2, ones, even], used, hit])
    nobody = [""], np.zeros(batch.n, np.int64)
    days, day = nobody if subject.time is None else coded(days_of(batch, subject.time))
    parts: dict[tuple[str, ...], Floats] = {}
    stretches = BLOCK, *subject.stretches(batch)
    for column, labels, codes in [("", *nobody), stretches, *_levels(batch, subject)]:
        both = _summed(rows, codes * len(days) + day, len(labels) * len(days))
        for at in np.flatnonzero(both[0]):
            level, on = divmod(int(at), len(days))
            parts[column, labels[level], days[on]] = both[:, at]
    full = hit if complete(batch) else hit[:, batch.lengths == batch.K]
    sums = {
        "units": unit_sums(batch, hits),
        "early": early(batch, subject),
        "pages": np.bincount(full.sum(axis=0), minlength=batch.K + 1).astype(float),
        "beside": beside(full),
    }
    return Tally(sums=sums, parts=parts)


def _judge_reward_rates(tally: Tally, subject: Subject) -> list[Finding]:
    """Return a finding of each kind."""
    units = tally.sums["units"]
    if units[1].sum() < FEWEST or subject.first.page_reward:
        return REWARD_RATES.skipped("too few rewards to compare groups of rows")
    design = design_effect(units)
    columns: dict[str, dict[str, dict[str, Floats]]] = {}
    for (column, label, day), sums in tally.parts.items():
        columns.setdefault(column, {}).setdefault(label, {})[day] = sums
    levels = {
        column: {label: np.sum([*by_day.values()], axis=0) for label, by_day in groups.items()}
        for column, groups in columns.items()
    }
    days = {day: sums[:3] for day, sums in columns.pop("")[""].items()}
    shown, hits = levels.pop("")[""][COUNTS:].reshape(2, -1)
    found = []
    if not one_per_page(tally, subject):
        found += [
            *_position(shown, hits),
            *_thinned(tally.sums["pages"], hits / np.maximum(shown, 1.0), tally.sums["beside"]),
        ]
    columns.pop(BLOCK)
    found += [
        *_in_stretches(levels.pop(BLOCK)),
        *_apart(levels, subject, design),
        *_at_positions(levels, subject),
        *_counted_twice(levels, subject),
        *_on_a_day(days, subject, design),
        *_since_a_day(columns, sorted(days), subject, design),
    ]
    return found or [Finding(LEVEL, PASSED, "no group of rows, position or day lost its rewards")]


#: Rewards are not lost in one group, on one day, or in one group from a day on.
REWARD_RATES = Check(LEVEL, _count_reward_rates, _judge_reward_rates, most=SAMPLED_ROWS)


def _levels(batch: RankingLog, subject: Subject) -> Iterator[tuple[str, list[str], Ints]]:
    """Yield columns of the context, cut into groups, and segments."""
    for cut in subject.cuts:
        yield cut.column, list(cut.names), cut.codes(batch)
    for segment in subject.segments:
        if segment.column not in {cut.column for cut in subject.cuts}:
            yield segment.column, *coded(segment.labels(batch))


def _summed(rows: Floats, codes: Ints, size: int) -> Floats:
    if size == 1:
        total: Floats = rows.sum(axis=1, keepdims=True)
        return total
    return np.stack([np.bincount(codes, values, size) for values in rows])


def _log_rate(sums: Floats, design: float) -> tuple[float, float]:
    """Return the logarithm of the rewards of a row and its variance; -inf without any."""
    n, first, second = sums
    if first <= 0:
        return -math.inf, math.inf
    mean = first / n
    return math.log(mean), design * max(second / n - mean**2, 1e-12) / (n * mean**2)


def _apart(levels: Levels, subject: Subject, design: float) -> Iterator[Finding]:
    """Yield the levels with hardly any reward, or far from others that are alike."""
    tests = sum(len(groups) for groups in levels.values())
    for column, every in levels.items():
        groups = {label: sums[:3] for label, sums in every.items() if sums[0] >= FEWEST}
        for label, own in groups.items():
            others = [sums for name, sums in groups.items() if name != label]
            ratio, lost = _stands_apart(own, others, design, tests) if others else (None, False)
            # Rates along a number rise and fall by nature.
            if ratio is None or not (lost or _labelled(column, subject)):
                continue
            yield _lost(
                LEVEL,
                f"where {column} is {label}, a ranking has {_times(ratio)} the rewards of the others",
                without(column, [label], subject),
                fails=lost,
                alternatives="; if people there really act so, evaluate the groups one by one",
            )
            break


def _in_stretches(groups: Mapping[str, Floats]) -> Iterator[Finding]:
    """Yield the stretches of consecutive rows with hardly any reward."""
    names, table = stretch_names(groups)
    rows, hits = table[:, 0], table[:, 1]
    expected = (hits.sum() - hits) / np.maximum(rows.sum() - rows, 1.0) * rows
    bad = np.flatnonzero((expected >= EXPECTED) & (hits < HARDLY_ANY * expected))
    if len(bad):
        yield _lost(
            STRETCH,
            f"{listed([names[i] for i in bad])}: hardly any reward ({int(hits[bad].sum()):,} where about "
            f"{int(expected[bad].sum()):,} were expected); rewards had not come in yet, or rows are sorted by them",
            "",
            fails=True,
        )


def _labelled(column: str, subject: Subject) -> bool:
    return not any(cut.column == column and not cut.labels for cut in subject.cuts)


def _at_positions(levels: Levels, subject: Subject) -> Iterator[Finding]:
    """Yield the level with hardly any item that is rewarded at a position, or not rewarded, where others have many."""
    for column, groups in levels.items():
        total = np.sum([*groups.values()], axis=0)
        for label, own in groups.items():
            shown, hits = own[COUNTS:].reshape(2, -1)
            rest, rest_hits = (total - own)[COUNTS:].reshape(2, -1)
            for counts, others, what in (
                (hits, rest_hits, "a reward"),
                (shown - hits, rest - rest_hits, "an item without a reward"),
            ):
                expected = shown * others / np.maximum(rest, 1.0)
                # Where a level has fewer everywhere, `_apart` tells it.
                scale = float((counts / np.maximum(expected, 1.0)).max(initial=0.0))
                few = counts < HARDLY_ANY_AT * min(1.0, scale) * expected
                bad = np.flatnonzero(few & (min(1.0, scale) * expected >= EXPECTED))
                if len(bad):
                    yield _lost(
                        POSITION,
                        f"position {listed((bad + 1).tolist())} has hardly {what} where {column} is {label}, "
                        "and many elsewhere",
                        without(column, [label], subject),
                        fails=True,
                    )
                    return


def _position(shown: Floats, hits: Floats) -> Iterator[Finding]:
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
        (bad, 0, "hardly any reward", "that position were not joined, or all are recorded one position too low"),
        (drops, 1, "hardly any reward", "lower positions were not tracked or not joined"),
        (always, 0, "hardly an item without a reward", "that position count what nobody chose"),
    )  # fmt: skip
    for which, shift, what, cause in cases:
        at = np.flatnonzero(which) + shift
        if len(at):
            yield Finding(
                POSITION,
                FAILED,
                f"position {listed((at + 1).tolist())} has {what} ({int(hits[at[0]]):,} in {int(shown[at[0]]):,}), "
                f"others have {int(hits.sum() - hits[at].sum()):,}",
                ("check how positions are counted, from 0 or from 1, on both sides of the join; leave out "
                 "positions whose rewards are not known",),
                cause=f"rewards of {cause}",
            )  # fmt: skip
            return


def beside(rewarded: Bools) -> Floats:
    """Return, of pages (K, n) with a reward above a position and below it: pages, and rewards there (4, K)."""
    above, below = np.zeros_like(rewarded), np.zeros_like(rewarded)
    np.logical_or.accumulate(rewarded[:-1], axis=0, out=above[1:])
    np.logical_or.accumulate(rewarded[:0:-1], axis=0, out=below[-2::-1])
    parts = [above, above & rewarded, below, below & rewarded]
    return np.stack([part.sum(axis=1) for part in parts]).astype(float)


def stops(sums: Floats) -> float:
    """Return rewards after a reward, relative to as many rewards before one let expect.

    Pages with a reward at another position are all kept, whatever became of pages without any. Of
    independent positions the ratio is 1, however users differ; users who stop after a click lower it.
    """
    pages_above, after, pages_below, before = sums[:, 1:-1]
    rate = (after + before) / np.maximum(pages_above + pages_below, 1.0)
    expected = float((rate * pages_above).sum())
    return float(after.sum()) / expected if expected > 0 else 1.0


def _thinned(counts: Floats, rates: Floats, beside: Floats) -> Iterator[Finding]:
    """Yield where pages without rewards are fewer than those with one, two and three let expect.

    Of independent positions with odds o, pages with m rewards are as the elementary symmetric
    polynomials e_m(o): n0 n2 / n1^2 is e0 e2 / e1^2, and n1 n3 / n2^2 is e1 e3 / e2^2. Users who differ
    raise both; lost pages without rewards lower the first alone. Users who stop after a click lower it
    too, and then nothing can be told.
    """
    if len(counts) < 4 or counts[1:4].min() < EXPECTED or stops(beside) < STOPPING:
        return
    odds = rates / np.maximum(1 - rates, 1e-9)
    e = np.poly(-odds)[:4]
    first, second = (
        float(np.log(counts[m] * counts[m + 2] / counts[m + 1] ** 2 * e[m + 1] ** 2 / (e[m] * e[m + 2])))
        for m in (0, 1)
    )  # fmt: skip
    error = math.sqrt(1 / counts[0] + 5 / counts[1] + 5 / counts[2] + 1 / counts[3])
    # Many pages with exactly one reward lower the first by twice what they raise the second.
    lost = first < math.log(FEWER) and math.log(0.8) < second < -first / 4
    if lost and second - first >= THINNED_AT * error:
        yield Finding(
            THINNED,
            FAILED,
            f"there are about {100 * math.exp(first):.0f} % of the pages without any reward that those with one, "
            "two and three let expect",
            ("log all pages, or say how many were kept with a weight for each row",),
            cause="pages without rewards were thinned or lost on their way into the log",
        )  # fmt: skip


def _counted_twice(levels: Levels, subject: Subject) -> Iterator[Finding]:
    """Yield the levels of which all rewards are even numbers, where those of others are mostly one."""
    for column, groups in levels.items():
        table = np.stack([*groups.values()])
        hits, ones, even = table[:, 1], table[:, 3], table[:, 4]
        bad = np.flatnonzero((even == hits) & (hits >= EXPECTED))
        if len(bad) and ones.sum() > 0.5 * (hits.sum() - hits[bad].sum()):
            labels = [list(groups)[at] for at in bad]
            text = f"all {hits[bad].sum():,.0f} rewards where {column} is {listed(labels)} are even"
            yield _lost(
                TWICE,
                f"{text}, those of others are not",
                without(column, labels, subject),
                fails=True,
            )


def _stands_apart(
    own: Floats, others: Sequence[Floats], design: float, tests: int
) -> tuple[float | None, bool]:
    """Return the ratio of a level to the others where it is apart, and whether it has hardly any."""
    rest = np.sum(others, axis=0)
    expected = rest[1] / rest[0] * own[0]
    if expected < 30:
        return None, False
    if own[1] < HARDLY_ANY * expected:
        return float(own[1] / expected), True
    (mine, variance), (mean, other_variance) = _log_rate(own, design), _log_rate(rest, design)
    if two_sided(mine - mean, math.sqrt(variance + other_variance)) * tests > CHANCE:
        return None, False
    rates = [_log_rate(one, design)[0] for one in others]
    # The nearest of the others must be far away, and they must be alike.
    gap = min(abs(mine - rate) for rate in rates)
    same_side = all(rate > mine for rate in rates) or all(rate < mine for rate in rates)
    far = math.log(APART_OF_TWO if len(rates) == 1 else APART)
    alike = len(rates) == 1 or max(rates) - min(rates) < math.log(ALIKE)
    # Of two levels the lower one is told, which may have lost its rewards.
    told = len(rates) > 1 or mine < rates[0]
    return (math.exp(mine - mean), False) if same_side and alike and gap > far and told else (None, False)  # fmt: skip


def _on_a_day(every: dict[str, Floats], subject: Subject, design: float) -> Iterator[Finding]:
    """Yield the days with hardly any reward, or far from days that are alike."""
    days = {day: sums for day, sums in every.items() if sums[0] >= FEWEST}
    if len(days) < 4:
        return
    rates = {day: _log_rate(sums, design)[0] for day, sums in days.items()}
    known = np.array([rate for rate in rates.values() if math.isfinite(rate)])
    centre = float(np.median(known))
    # The median distance from the median, as a standard deviation of the normal law.
    spread = 1.4826 * float(np.median(np.abs(known - centre)))
    total = np.sum(list(days.values()), axis=0)
    wrong, worst = [], 0.0
    for day, sums in days.items():
        off = rates[day] - centre
        chance = design * (total[2] / total[1]) / max(math.exp(centre) * sums[0], 1.0)
        error = math.sqrt(spread**2 + chance)
        far = abs(off) > math.log(DAY_APART) and abs(off) > DAY_SPREADS * error
        if far and two_sided(off, error) * len(days) <= CHANCE * 10:
            wrong.append(day)
            worst = max(worst, abs(off))
    # Many days that differ are seasons, which `drift` tells.
    if not wrong or len(wrong) > max(1, len(days) // 5):
        return
    fails = any(rates[day] - centre < math.log(HARDLY_ANY) for day in wrong)
    yield _lost(
        DAY,
        f"on {', '.join(wrong)} a ranking has {_times(math.exp(rates[wrong[0]] - centre))} the rewards of other days",
        without("day", wrong, subject),
        fails=fails,
    )


def _since_a_day(
    columns: dict[str, dict[str, dict[str, Floats]]], days: Sequence[str], subject: Subject, design: float
) -> Iterator[Finding]:  # fmt: skip
    """Yield the level of each column that changed most against the others from one day on, or on one."""
    by_column = {column: rows for column, rows in columns.items() if _labelled(column, subject)}
    windows = [(at, len(days)) for at in range(1, len(days))]
    windows += [(at, at + 1) for at in range(len(days)) if len(days) > 2]
    tests = len(windows) * sum(len(levels) for levels in by_column.values())
    for column, levels in by_column.items():
        tables = {label: _by_day(rows, days) for label, rows in levels.items()}
        worst = None
        for label, own in tables.items():
            rest = np.sum([table for name, table in tables.items() if name != label], axis=0)
            if len(tables) < 2:
                continue
            for start, end in windows:
                change, error = _changed(own, np.asarray(rest), start, end, design)
                if two_sided(change, error) * tests <= CHANCE and abs(change) > math.log(CHANGED):
                    now = _gain(own, np.asarray(rest), start, end), label, start, end, change
                    worst = max(worst or now, now)
        if worst is None:
            continue
        _, label, start, end, change = worst
        when = (
            f"from {days[start]} on"
            if end == len(days) and end - start > 1
            else f"on {days[start]}"
        )
        yield _lost(
            BOTH,
            f"{when}, rankings where {column} is {label} have {_times(math.exp(change))} the rewards "
            "expected from the change of the others",
            without_both(column, label, days[start], subject, onwards=end == len(days)),
            fails=True,
        )


def _by_day(rows: Mapping[str, Floats], days: Sequence[str]) -> Floats:
    return np.stack([rows[day][:3] if day in rows else np.zeros(3) for day in days])


def _changed(own: Floats, rest: Floats, start: int, end: int, design: float) -> tuple[float, float]:
    """Return how much more a level changed than the others inside a window of days, and its error."""
    inside = np.zeros(len(own), bool)
    inside[start:end] = True
    total, variance = 0.0, 0.0
    for table, sign in ((own, 1.0), (rest, -1.0)):
        for rows, side in ((inside, 1.0), (~inside, -1.0)):
            sums = table[rows].sum(axis=0)
            if sums[0] < FEWEST:
                return 0.0, 0.0
            # Half a reward more, so that none at all has a logarithm; the variance is that of the
            # rewards of all days, so that days without any are no less certain.
            rate = math.log((sums[1] + 0.5) / sums[0])
            n, first, second = table.sum(axis=0)
            variance += design * second * n / (max(first, 1.0) ** 2 * sums[0])
            total += sign * side * rate
    return total, math.sqrt(variance)


def _gain(own: Floats, rest: Floats, start: int, end: int) -> float:
    """Return how much better a window explains the rewards: Poisson's deviance of those inside it."""
    inside = np.zeros(len(own), bool)
    inside[start:end] = True
    (n, hits), (others, other_hits) = own[inside].sum(axis=0)[:2], rest[inside].sum(axis=0)[:2]
    outside, before = own[~inside].sum(axis=0), rest[~inside].sum(axis=0)
    expected = (
        n * (outside[1] / outside[0]) * (other_hits / others) / max(before[1] / before[0], 1e-12)
    )
    expected = max(float(expected), 1e-12)
    logged = hits * math.log(hits / expected) if hits > 0 else 0.0
    return 2.0 * float(logged - hits + expected)


def _times(ratio: float) -> str:
    return f"{in_percent(ratio, 0)} of" if ratio < 1 else f"{ratio:.2g} times"


def _lost(code: str, text: str, where: str, *, fails: bool, alternatives: str = "") -> Finding:
    condition = f': --where "{where}"' if where else ""
    return Finding(
        code,
        FAILED if fails else WARNED,
        text,
        (f"check the join and the tracking of rewards there, or leave these rows out{condition}{alternatives}",),
        cause="rewards of these rows were not tracked or not joined, or are counted otherwise",
        where=where,
    )  # fmt: skip
