"""Checks of the rows: rewards, units, robots, and rewards along time; a column that looks like the user's id."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.checks.base import (
    GROUPED_ROWS,
    SAMPLED_ROWS,
    Check,
    Subject,
    Tally,
    complete,
    examples_at,
    group_sums,
    neighbours,
    sums_by,
)
from counterrank.checks.copies import as_numbers, hashed
from counterrank.common.arrays import Floats, Ints
from counterrank.common.findings import FAILED, PASSED, SKIPPED, WARNED, Findings
from counterrank.common.messages import rewards_missing, say
from counterrank.common.texts import comma_separated, in_percent
from counterrank.data.columns import as_texts, column_of, epoch_unit
from counterrank.data.log import RankingLog
from counterrank.kernels import hashing

#: Columns that look like time, in order of preference.
TIME_NAMES = ("timestamp", "time", "datetime", "date", "day", "ts")
_DAYS = ("date", "day")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def time_column(log: RankingLog) -> str | None:
    """Return a carried column whose name and values say time: seconds on a page do not."""
    for time_name in TIME_NAMES:
        for name, values in log.columns.items():
            if name.lower() == time_name and _says_time(name, values):
                return name
    return None


def _says_time(name: str, values: NDArray[Any]) -> bool:
    if values.dtype.kind in "iuf":
        # Plain numbers of days are so called.
        return epoch_unit(values.astype(np.float64)) is not None or name.lower() in _DAYS
    return values.dtype.kind == "M" or bool(_DATE.match(str(values[0]) if len(values) else ""))


def days_of(batch: RankingLog, name: str) -> NDArray[np.str_]:
    """Return the day of each row (n,) as text.

    Dates, seconds or milliseconds since 1970, or the values as they are.
    """
    values = column_of(batch, name)
    if values.dtype.kind == "M":
        return values.astype("datetime64[D]").astype(str)
    if values.dtype.kind in "iuf":
        return _days_of_numbers(values.astype(np.float64))
    texts = as_texts(values)
    return texts.astype("<U10") if len(texts) and _DATE.match(str(texts[0])) else texts


def _days_of_numbers(values: Floats) -> NDArray[np.str_]:
    unit, whole_days = epoch_unit(values), np.nan_to_num(values).astype(np.int64)
    if unit is not None:
        return whole_days.astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(str)
    # Days are sorted as text.
    return np.char.zfill(whole_days.astype(str), 6)


def _count_drift(batch: RankingLog, subject: Subject) -> Tally:
    """Sum the rows' rewards by day."""
    if subject.time is None:
        return Tally()
    earned = batch.reward @ batch.position_weights
    days, codes = np.unique(days_of(batch, subject.time), return_inverse=True)
    table = group_sums(codes, len(days), earned)
    return Tally(sums=dict(zip(days.tolist(), table.T, strict=True)))


def _judge_drift(tally: Tally, subject: Subject) -> Findings:
    """Chi-square of day means about the overall mean; material when two days differ by a fifth."""
    from scipy import special

    days = sorted(day for day, sums in tally.sums.items() if sums[0] >= 30)
    if len(days) < 2:
        yield DRIFT.says(SKIPPED, f"fewer than two days with 30 rankings in '{subject.time}'")
        return
    table = np.stack([tally.sums[day] for day in days])
    mean = table[:, 1] / table[:, 0]
    # No division by zero on a day on which all earned the same.
    error = np.maximum(table[:, 2] / table[:, 0] - mean**2, 1e-300) / table[:, 0]
    centre = float((mean / error).sum() / (1 / error).sum())
    p = float(special.chdtrc(len(days) - 1, ((mean - centre) ** 2 / error).sum()))
    scale = abs(centre) or 1.0
    size = float(mean.max() - mean.min()) / scale
    text = (
        f"the logger earned between {mean.min():.4g} ({days[int(mean.argmin())]}) and "
        f"{mean.max():.4g} ({days[int(mean.argmax())]}) a day"
    )
    if p > 0.001 or size < 0.2:
        yield DRIFT.says(PASSED, f"{text}, no more than usual")
        return
    yield DRIFT.says(
        WARNED,
        f"{text}, more than chance allows (p = {p:.1g})",
        "seasons, campaigns, a tracking outage, or a change of policy",
        "evaluate a period that is like the one to come; segment by day",
    )


#: What the logger earned, day by day.
DRIFT = Check(
    "drift",
    "rewards",
    "",
    _count_drift,
    _judge_drift,
    "note",
    max_rows=SAMPLED_ROWS,
    skip_reason=lambda: f"no time column; name one with {say('--time', 'COLUMN')}",
)


#: Hashes of the lists of a log without propensities are kept up to this many.
ALL_HASHES = 2_000_000
#: Bins in which contexts are counted.
_CONTEXTS = np.uint64(65_536)
#: A share of rankings this large with a robot's context or rewards is worth a warning.
RECURRING = 0.01
#: Units that are looked at have so many rows, and so many times the usual number. Those of a robot have so
#: many times the usual rewards for each page, and together at least this share of all.
BUSY_ROWS, BUSY, GREEDY, GREEDY_SHARE = 20, 3.0, 2.5, 0.05
#: Units are counted in so many places.
UNITS_TOLD_APART = 32_768
#: Pages of a unit from which it is seen that it clicks on everything, or on one position; units that do so
#: always, for each that nearly does, and the fewest.
PAGES_EACH, PAGES_OF_HABIT = 3, (6, 8)
ALWAYS, FEWEST_ROBOTS = 2.0, 8
#: Units, and one unit alone, with so many times the pages of the next one.
ACTIVE, ACTIVE_ALONE = 3.0, 6.0
#: Shares of missing rewards that were read as 0, and of zeros beside them, that do not go together.
FILLED = 0.05


def _count_rewards(batch: RankingLog, subject: Subject) -> Tally:
    """Sum absolute rewards and non-zero ones; keep extremes."""
    earned = batch.reward @ batch.position_weights
    inside = batch.reward.reshape(-1) if complete(batch) else batch.reward[subject.used(batch)]
    largest = np.abs(earned) == np.abs(earned).max()
    return Tally(
        sums={
            "total": np.array([np.abs(earned).sum(), float(batch.n)]),
            "nonzero": subject.rewarded(batch).sum(axis=0),
            "negative": np.array([(inside < 0).sum()]),
            "binary": np.array([((inside != 0) & (inside != 1)).sum()]),
            "zeros": np.array([(inside == 0).sum(), inside.size]),
            "filled": np.array(rewards_missing(batch.notes)),
        },
        peaks={
            "row": np.array([np.abs(earned).max()]),
            "span": np.array([inside.max(), -inside.min()]),
        },
        examples={f"{np.abs(earned).max():.17g}": examples_at(largest, earned, batch.start)[:1]},
    )


def _judge_rewards(tally: Tally, subject: Subject) -> Findings:
    """Fail when all are equal; warn on one dominating ranking or a few negative ones among clicks."""
    (high, low), (total, n) = tally.peaks["span"], tally.sums["total"]
    largest, negative = tally.peaks["row"][0], tally.count("negative")
    (zeros, cells), (filled, cells_read) = tally.sums["zeros"], tally.sums["filled"]
    zeros, filled = zeros / max(cells, 1), filled / max(cells_read, 1)
    if high + low == 0:
        yield REWARDS.says(
            FAILED,
            f"every reward is {high:g}",
            "the join with the outcomes failed, or a constant column was read",
            "check the reward column and its join",
        )
    elif n >= 100 and largest > 0.05 * total:
        yield REWARDS.says(
            WARNED,
            f"one ranking has {in_percent(largest / total, 0)} of all reward",
            "an outlier, a test order, or another unit of money",
            "cap rewards at a sensible value, or check that row",
            examples=tally.examples.get(f"{largest:.17g}", ()),
        )
    # All that is neither 0 nor 1 is -1: a code, not a loss.
    elif negative and tally.count("binary") == negative and low == 1:
        yield REWARDS.says(
            WARNED,
            f"{negative:,} rewards are -1 among zeros and ones",
            "-1 codes a missing outcome",
            "drop those rankings, or set the reward to what it means",
        )
    elif min(filled, zeros - filled) > FILLED:
        yield REWARDS.says(
            WARNED,
            f"{in_percent(filled)} of the rewards are missing and were read as 0, but {in_percent(zeros - filled)} "
            "are zeros of their own: so missing means something else",
            "outcomes of a part of the rows were not tracked or not joined",
            "leave rows without outcomes out; read missing rewards as 0 only where none means 0",
        )
    else:
        text = f"rewards lie between {-low:.4g} and {high:.4g}"
        if len(empty := np.flatnonzero(tally.sums["nonzero"] == 0) + 1):
            text += f"; none at position {', '.join(map(str, empty))}"
        if filled:
            text += f"; {in_percent(filled)} were missing and are read as 0"
        yield REWARDS.says(PASSED, text)


#: Rewards that vary, and that no single ranking dominates.
REWARDS = Check(
    "rewards",
    "rewards",
    "",
    _count_rewards,
    _judge_rewards,
    explains=("rewards-*", "drift"),
    max_rows=SAMPLED_ROWS,
)


def _count_units(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows by bucket of units."""
    return Tally(sums={"rows": np.bincount(batch.bucket, minlength=1024)})


def _judge_units(tally: Tally, subject: Subject) -> Findings:
    """Warn when one bucket holds a tenth of the rows, or few are used."""
    rows = tally.sums["rows"]
    share, used = float(rows.max() / rows.sum()), int((rows > 0).sum())
    if used < 50 or share > 0.1:
        yield UNITS.says(
            WARNED,
            f"one of {used:,} groups of units has {in_percent(share, 0)} of the rankings",
            "few users, a robot, or a default id for unknown users",
            "drop robots and default ids; with few units intervals are only rough",
        )


#: No user or session has a large part of the rows.
UNITS = Check(
    "units",
    "users",
    "units",
    _count_units,
    _judge_units,
    "note",
    max_rows=SAMPLED_ROWS,
    skip_reason="no unit column: rankings are taken as independent",
    passed="no unit has a large share of the rankings",
)


def _count_context(batch: RankingLog, subject: Subject) -> Tally:
    """Count missing values by column."""
    missing = np.isnan(np.asarray(batch.context)).sum(axis=0)
    return Tally(sums={"missing": missing, "rows": np.array([batch.n])})


def _judge_context(tally: Tally, subject: Subject) -> Findings:
    """Warn of every column with holes: models fill them in, in silence."""
    rows, missing = tally.count("rows"), tally.sums["missing"]
    if missing.any():
        holes = [
            f"{subject.first.context_names[j]} in {in_percent(missing[j] / rows)}"
            for j in np.argsort(-missing, kind="stable")
            if missing[j]
        ]
        yield CONTEXT.says(
            WARNED,
            f"values of the context are missing: {comma_separated(holes, limit=5)} of {rows:,} rankings",
            "a join that found nothing, or a field that is not always known",
            "reward models read a missing number as the column's mean and a missing category "
            "as its first; if that is wrong, add a column that says whether it was known, or leave "
            f"the column out: {say('--context', 'COLUMNS')}",
        )


#: Values of context columns that are missing.
CONTEXT = Check(
    "context",
    "rows",
    "context",
    _count_context,
    _judge_context,
    "note",
    max_rows=SAMPLED_ROWS,
    passed="no value of the context is missing",
)


def _count_robots(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows by a hash of their context, and full rankings by how many of their items were rewarded."""
    sums: dict[str, NDArray[Any]] = {}
    if batch.context is not None and batch.unit is None:
        bins = hashed(batch.n, None, batch.context) % _CONTEXTS
        sums["context"] = np.bincount(bins.astype(np.int64), minlength=int(_CONTEXTS))
    hits, counts = subject.page_counts(batch)
    sums["rewarded"] = counts["pages"]
    if batch.unit is not None:
        sums["habits"] = _habits(batch, subject, hits)
    return Tally(sums=sums)


def _habits(batch: RankingLog, subject: Subject, hits: Ints) -> Floats:
    """Return pages, rewards, and rewards at each position of units (2 + K, UNITS_TOLD_APART), by a hash of the unit.

    A fixed number of places, however long the log is; units that share one are taken together.
    """
    unit = as_numbers(np.asarray(batch.unit)).astype(np.int64).astype(np.uint64)
    place = (np.asarray(hashing.mixed(unit)) % np.uint64(UNITS_TOLD_APART)).astype(np.int64)
    numbers = [np.ones(batch.n), hits.astype(float), *subject.rewarded(batch).T.astype(float)]
    return sums_by(place, UNITS_TOLD_APART, numbers)


def _judge_robots(tally: Tally, subject: Subject) -> Findings:
    """Warn when a few contexts recur among many that do not, or when whole pages are rewarded too often.

    People who click on everything are rarer than people who click on all but one item; robots
    make a second peak at the end.
    """
    if "context" in tally.sums:
        yield from _recurring(tally.sums["context"])
    rewarded = tally.sums["rewarded"]
    n, K = float(rewarded.sum()), len(rewarded) - 1
    typical = float(rewarded @ np.arange(K + 1)) / max(n, 1.0)
    often = rewarded[K] > max(RECURRING * n, 3 * rewarded[K - 1])
    if K >= 3 and n >= 100 and typical < K / 2 and often:
        yield ROBOTS.says(
            WARNED,
            f"{in_percent(rewarded[K] / n)} of rankings are rewarded at every position, but only "
            f"{in_percent(rewarded[K - 1] / n)} at all but one, and {typical:.2g} of {K} is usual",
            "robots that click on everything, or a page view counted as a click on each item",
            "drop these rankings, or correct the rewards",
        )
    if "habits" in tally.sums:
        units = tally.sums["habits"].T
        units = units[units[:, 0] > 0]
        yield from _always(units)
        yield from _apart(units)


#: No visitor comes again and again under one context, and pages are clicked as people click them.
ROBOTS = Check(
    "robots",
    "users",
    "",
    _count_robots,
    _judge_robots,
    explains=("units", "rewards-by-*", "rewards", "drift", "lift-by-halves", "duplicates"),
    max_rows=GROUPED_ROWS,
    passed="no context and no pattern of rewards looks like a robot's",
)


def _always(units: Floats) -> Findings:
    """Yield where units that are rewarded on all of their pages are more than those that miss one page let expect.

    Everywhere, or at one position. However people differ, those who do something nearly always are not
    far fewer than those who always do it, and these fall off as those do that miss two; robots make a
    second peak.
    """
    pages, hits, *by_position = units.T
    K = len(by_position)
    cases = [("at every position", hits, K * pages, 0.3 * K * pages, PAGES_EACH)] if K >= 3 else []
    cases += [
        (f"at position {k + 1}", rewarded, pages, np.ones_like(pages), least)
        for least in PAGES_OF_HABIT
        for k, rewarded in enumerate(by_position if K > 1 else [])
    ]
    for where, rewarded, possible, step, least in cases:
        missed = (possible - rewarded)[pages >= least] / step[pages >= least]
        always, nearly, seldom = (
            float(((missed > low) & (missed <= low + 1)).sum()) for low in (-1, 0, 1)
        )
        falling = min(1.0, max(nearly, 1.0) / max(seldom, 1.0)) if possible is pages else 1.0
        expected = ALWAYS * nearly * falling
        if always >= FEWEST_ROBOTS and always > expected + 4 * np.sqrt(expected + 1):
            yield ROBOTS.says(
                WARNED,
                f"{always:,.0f} units are rewarded {where} of all their pages ({least} or more), and only "
                f"{nearly:,.0f} of nearly all",
                "robots, or a page view counted as a click",
                "drop the rows of these units unless people are behind them",
                pattern=f"units = {always:.0f}",
            )
            return


def _apart(units: Floats) -> Findings:
    """Yield a few units with a part of all rewards that stand apart: the next ones are far behind.

    By rewards for each page, of the busiest units; or by pages. People differ, but those who come often or
    like much are followed by others who nearly do.
    """
    pages, hits = units[:, :2].T
    busy = np.flatnonzero(pages >= max(BUSY_ROWS, BUSY * float(np.median(pages))))
    greedy, active = busy[np.argsort(-hits[busy] / pages[busy])], np.argsort(-pages)
    for order in (greedy, active):
        ahead = np.cumsum(units[order, :2], axis=0)
        if order is greedy:
            rate = np.append(hits[order] / pages[order], 0.0)
            shown, liked = (units[:, :2].sum(axis=0) - ahead).T
            usual = np.maximum(liked / np.maximum(shown, 1.0), 1e-9)
            stand = (rate[:-1] > GREEDY * usual) & (rate[:-1] > 1.5 * rate[1:])
        else:
            gap = np.where(np.arange(len(order) - 1) == 0, ACTIVE_ALONE, ACTIVE)
            after = np.maximum(pages[order[1:]], BUSY_ROWS / gap)
            stand = np.append(pages[order[:-1]] > gap * after, False)
        stand &= ahead[:, 1] > GREEDY_SHARE * hits.sum()
        for size in np.flatnonzero(stand[: max(1, len(units) // 100)])[:1] + 1:
            share_of_pages, share_of_hits = ahead[size - 1] / units[:, :2].sum(axis=0)
            yield ROBOTS.says(
                WARNED,
                f"{size:,} of {len(units):,} units have {in_percent(share_of_pages)} of the rankings and "
                f"{in_percent(share_of_hits, 0)} of the rewards",
                "robots, test accounts, or people for whom the page is work",
                "drop the rows of these units unless people are behind them",
                pattern=f"units = {size}",
            )
            return


def _recurring(bins: Floats) -> Findings:
    """Yield the share of rows in bins of contexts that hold far more than an even spread would put there.

    Contexts that occur once are spread evenly. Nothing where most rows are in such bins: then contexts are
    few, and recur by nature.
    """
    n = float(bins.sum())
    even = n / len(bins)
    # Six standard deviations of a Poisson count, and at least a thousandth of the log.
    heavy = bins > max(even + 6 * np.sqrt(even) + 20, n / 1000)
    share = float(bins[heavy].sum()) / n
    if RECURRING < share < 0.5:
        yield ROBOTS.says(
            WARNED,
            f"{in_percent(share, 0)} of the rankings have one of {int(heavy.sum()):,} contexts that recur again "
            "and again, while most contexts do not",
            "robots, or users who come often and whose rows belong together",
            "drop robots; name the user or session with " + say("--columns", "unit=COLUMN"),
        )


def _count_logged(batch: RankingLog, subject: Subject) -> Tally:
    """Collect a hash of each list when there are none, to say how many different ones were shown."""
    unknown = not subject.without_propensities or subject.n is None or subject.n > ALL_HASHES
    lists = {} if unknown else {"list": hashed(batch.n, batch.lengths, batch.action)}
    return Tally(sums={"rows": np.array([batch.n])}, lists=lists)


def _judge_logged(tally: Tally, subject: Subject) -> Findings:
    """Fail when there are none, and say what can be done with this log."""
    why = "they were not logged, or not joined"
    if subject.estimated_propensities:
        text = "the log has no propensities; they were estimated"
        yield LOGGED.says(
            WARNED, text, why, "log the probability of each shown item when it is shown"
        )
    if subject.estimated_propensities or not subject.without_propensities:
        return
    lists = tally.lists.get("list", np.empty(0))
    several = len(np.unique(lists))
    if subject.ranking:
        text = "the log has scores of the logger, but no propensities"
        remedy = (
            f"say how it ranks by them, for example {say('--logger', 'plackett-luce:temperature=1')}, or "
            f"estimate it: {say('--estimate-propensity', 'plackett-luce')}"
        )
    else:
        text = "the log has no propensities"
        remedy = (
            f"few lists recur often: {say('--estimate-propensity', 'by-list:COLUMNS')} takes "
            "their frequencies by context"
            if several < len(lists) / 5
            else f"{say('--estimate-propensity', python='estimate_propensity=True')} learns them from the context"
        )
    if len(lists):
        text += f"; it shows {several:,} different lists in {len(lists):,} rankings"
    yield LOGGED.says(FAILED, text, why, remedy)


#: The log has propensities.
LOGGED = Check(
    "logged-propensities",
    "propensities",
    "",
    _count_logged,
    _judge_logged,
    "note",
    passed="the log has propensities of the logging policy",
)


#: Parts of names of users, and of what repeats for other reasons.
USERS = (
    "user",
    "visitor",
    "customer",
    "member",
    "client",
    "account",
    "person",
    "cookie",
    "uid",
    "shopper",
)
OTHERS = (
    "query",
    "search",
    "item",
    "page",
    "product",
    "request",
    "ranking",
    "day",
    "date",
    "time",
    "position",
    "order",
    "experiment",
    "arm",
)
#: Values of an id: not fewer than this share of the rows, nor this number, and not one for each row.
LEAST_SHARE, LEAST, MOST_SHARE = 0.005, 50, 0.8
#: Contexts agree in this share of the pairs of rows with one value, and this much more often than
#: those of any two rows.
AGREE, MORE = 0.95, 0.3
#: Share of the values of an id that have several units: then a unit is less than a user.
SEVERAL = 0.1


def _count_user_column(batch: RankingLog, subject: Subject) -> Tally:
    """Count, for each carried column, pairs of rows with one value and how often contexts agree."""
    context = np.zeros((batch.n, 0)) if batch.context is None else batch.context
    context = np.nan_to_num(context, nan=-1.25)
    unit = np.zeros(batch.n, np.int64)
    if batch.unit is not None:
        unit = np.unique(batch.unit, return_inverse=True)[1]
    sums: dict[str, Floats] = {}
    for name, values in batch.columns.items():
        # Categories of the context are groups of users.
        if (
            name == subject.time
            or name in batch.categories
            or values.dtype.kind not in "iuUSOT"
            or _named(name, OTHERS)
        ):
            continue
        codes = np.unique(as_numbers(values), return_inverse=True)[1]
        first, second = neighbours(codes)
        within = (context[first] == context[second]).sum(axis=0)
        between = (context == np.roll(context, 1, axis=0)).sum(axis=0)
        counts = [batch.n, codes.max(initial=-1) + 1, len(first), *_several(codes, unit)]
        sums[name] = np.array([*counts, *within, *between], dtype=float)
    return Tally(sums=sums)


def _judge_user_column(tally: Tally, subject: Subject) -> Findings:
    """Warn of the column with the fewest values that looks like a user and is not the unit."""
    first = subject.first
    suspects = [
        (sums[1], name)
        for name, sums in tally.sums.items()
        if _like_users(name, sums, first.context is not None)
        and (first.unit is None or (sums[3] > SEVERAL * sums[1] and sums[4] == 0))
    ]
    for values, name in sorted(suspects)[:1]:
        sums = tally.sums[name]
        whose = "are taken as independent" if first.unit is None else "have smaller units"
        agree = in_percent(float(np.max(_agreement(sums)[0], initial=0.0)), 0)
        agreement = "" if first.context is None else f", and contexts agree within it ({agree})"
        yield USER_COLUMN.says(
            WARNED,
            f"rows {whose}, but '{name}' looks like a user: {values:,.0f} values in {sums[0]:,.0f} rows{agreement}",
            "rows of one user are alike; taken as independent they make intervals too short",
            f"name the user: {say('--columns', f'unit={name}', f'unit={name!r}')}",
        )


#: Rows of one user are known to belong together.
USER_COLUMN = Check(
    "user-column", "users", "columns", _count_user_column, _judge_user_column, max_rows=SAMPLED_ROWS
)


def _like_users(name: str, sums: Floats, has_context: bool) -> bool:
    rows, values, pairs = sums[:3]
    repeats = max(LEAST, LEAST_SHARE * rows) <= values <= MOST_SHARE * rows
    if not repeats or not pairs:
        return False
    named = _named(name, USERS)
    if not has_context:
        return named
    within, between = _agreement(sums)
    # What a visit changes (the hour) differs within a user, so not every column has to agree.
    agree = (within >= (0.8 if named else AGREE)) & (within - between >= MORE)
    return bool(agree.any() if named else 2 * agree.sum() > len(agree))


def _agreement(sums: Floats) -> tuple[Floats, Floats]:
    """Return how often each column of the context agrees, within one value and in any two rows."""
    within, between = np.split(sums[5:], 2)
    return within / max(sums[2], 1.0), between / sums[0]


def _named(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)


def _several(codes: Ints, unit: Ints) -> tuple[int, int]:
    """Return how many values have several units, and how many units several values."""
    pairs = np.unique(np.stack([codes, unit]), axis=1)
    values, units = (int((np.bincount(codes_of) > 1).sum()) for codes_of in pairs)
    return values, units
