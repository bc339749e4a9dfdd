"""Rewards by group of rows, by day and by both: where a part of them was lost, or counted twice.

Groups differ in healthy logs too. So a level is blamed where it has hardly any reward, or where it stands
apart from levels that are alike; a change from one day on is blamed where the other levels did not change.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.audit.conditions import without, without_both
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally
from counterrank.audit.groups import coded
from counterrank.audit.rows import days_of
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, PASSED, WARNED, Finding
from counterrank.statistics import two_sided
from counterrank.texts import in_percent

FINDINGS = LEVEL, DAY, BOTH = (
    "rewards-by-level",
    "rewards-by-day",
    "rewards-by-level-and-day",
)
#: False alarms per log of each test, Bonferroni over all that is tested.
CHANCE = 1e-4
#: A group with fewer than this share of the rewards of the others has hardly any.
HARDLY_ANY = 0.1
#: A level is apart where its rate is this many times another one's: of two levels, and of several that
#: are alike among themselves within the last factor.
APART_OF_TWO, APART, ALIKE = 1.9, 1.65, 1.3
#: A day is apart at this factor, and at so many times the usual distance of days from their median.
DAY_APART, DAY_SPREADS = 1.6, 5.0
#: From a day on, a level changes by this factor more than the others do.
CHANGED = 1.35
#: Rows of a group that is looked at.
FEWEST = 100


def _count_reward_rates(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows and sum rewarded items and their squares, by level, by day and by both."""
    hits = ((batch.reward != 0) & subject.used(batch)).sum(axis=1).astype(float)
    rows = np.stack([np.ones(batch.n), hits, hits**2])
    parts: dict[tuple[str, ...], Floats] = {}
    day = None if subject.time is None else coded(days_of(batch, subject.time))
    levels = list(_levels(batch, subject))
    for column, labels, codes in [*levels, *([("", *day)] if day else [])]:
        table = _summed(rows, codes, len(labels))
        for label, sums in zip(labels, table.T, strict=True):
            if sums[0]:
                parts[(DAY, label) if not column else (LEVEL, column, label)] = sums
    for column, labels, codes in levels if day else ():
        assert day is not None
        both = _summed(rows, codes * len(day[0]) + day[1], len(labels) * len(day[0]))
        for at in np.flatnonzero(both[0]):
            level, on = divmod(int(at), len(day[0]))
            parts[BOTH, column, labels[level], day[0][on]] = both[:, at]
    return Tally(sums=_unit_sums(batch, hits), parts=parts)


def _judge_reward_rates(tally: Tally, subject: Subject) -> list[Finding]:
    """Return a finding of each kind."""
    total = tally.sums["units"]
    if total[1].sum() < FEWEST or subject.first.page_reward:
        return REWARD_RATES.skipped("too few rewards to compare groups of rows")
    design = design_effect(total)
    found = [
        *_apart(tally, subject, design),
        *_on_a_day(tally, subject, design),
        *_since_a_day(tally, subject, design),
    ]
    return found or [Finding(LEVEL, PASSED, "no group of rows and no day lost its rewards")]


#: Rewards are not lost in one group, on one day, or in one group from a day on.
REWARD_RATES = Check(LEVEL, _count_reward_rates, _judge_reward_rates, most=2 * SAMPLED_ROWS)


def _levels(
    batch: RankingLog, subject: Subject
) -> Iterator[tuple[str, list[str], "np.ndarray[tuple[int], np.dtype[np.int64]]"]]:
    """Yield columns with labels: categories of the context, and segments."""
    cuts = [cut for cut in subject.cuts if cut.labels]
    for cut in cuts:
        yield cut.column, list(cut.names), cut.codes(batch)
    for segment in subject.segments:
        if segment.column not in {cut.column for cut in subject.cuts}:
            yield segment.column, *coded(segment.labels(batch))


def _summed(rows: Floats, codes: Ints, size: int) -> Floats:
    return np.stack([np.bincount(codes, values, size) for values in rows])


def _unit_sums(batch: RankingLog, hits: Floats) -> dict[str, Floats]:
    sums = [np.bincount(batch.bucket, values, 1024) for values in (np.ones(batch.n), hits, hits**2)]
    return {"units": np.stack(sums)}


def design_effect(units: Floats) -> float:
    """Return how much larger the variance of the mean is over units than over rows, at least 1."""
    rows, first, second = units[:, units[0] > 0]
    n, mean = rows.sum(), first.sum() / rows.sum()
    plain = max(second.sum() - n * mean**2, 1e-300)
    clustered = float(((first - rows * mean) ** 2).sum())
    return max(1.0, clustered / float(plain))


def _log_rate(sums: Floats, design: float) -> tuple[float, float]:
    """Return the logarithm of the rewards of a row and its variance; -inf without any."""
    n, first, second = sums
    if first <= 0:
        return -math.inf, math.inf
    mean = first / n
    return math.log(mean), design * max(second / n - mean**2, 1e-12) / (n * mean**2)


def _apart(tally: Tally, subject: Subject, design: float) -> Iterator[Finding]:
    """Yield the levels with hardly any reward, or far from others that are alike."""
    columns: dict[str, dict[str, Floats]] = {}
    for key, sums in tally.parts.items():
        if key[0] == LEVEL and sums[0] >= FEWEST:
            columns.setdefault(key[1], {})[key[2]] = sums
    tests = sum(len(groups) for groups in columns.values())
    for column, groups in columns.items():
        if len(groups) < 2:
            continue
        for label, own in groups.items():
            others = [sums for name, sums in groups.items() if name != label]
            ratio, lost = _stands_apart(own, others, design, tests)
            if ratio is None:
                continue
            yield _lost(
                LEVEL,
                f"where {column} is {label}, a ranking has {_times(ratio)} the rewards of the others",
                without(column, [label], subject),
                fails=lost,
                alternatives="; if people there really act so, evaluate the groups one by one",
            )
            break


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


def _on_a_day(tally: Tally, subject: Subject, design: float) -> Iterator[Finding]:
    """Yield the days with hardly any reward, or far from days that are alike."""
    days = {
        key[1]: sums for key, sums in tally.parts.items() if key[0] == DAY and sums[0] >= FEWEST
    }
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


def _since_a_day(tally: Tally, subject: Subject, design: float) -> Iterator[Finding]:
    """Yield the level of each column that changed most against the others from one day on, or on one."""
    by_column: dict[str, dict[str, dict[str, Floats]]] = {}
    for key, sums in tally.parts.items():
        if key[0] == BOTH:
            by_column.setdefault(key[1], {}).setdefault(key[2], {})[key[3]] = sums
    days = sorted({key[3] for key in tally.parts if key[0] == BOTH})
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
            f"{when}, rankings where {column} is {label} have {_times(math.exp(change))} the rewards that "
            "the change of the others lets expect",
            without_both(column, label, days[start], subject, onwards=end == len(days)),
            fails=True,
        )


def _by_day(rows: Mapping[str, Floats], days: Sequence[str]) -> Floats:
    return np.stack([rows.get(day, np.zeros(3)) for day in days])


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
