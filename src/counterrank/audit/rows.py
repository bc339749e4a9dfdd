"""Checks of the rows: duplicates, rewards, units, and rewards along time."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.audit.findings import (
    GROUPED_ROWS,
    SAMPLED_ROWS,
    Check,
    Subject,
    Tally,
    complete,
    examples_at,
)
from counterrank.data.columns import as_texts, by_label, column_of, epoch_unit
from counterrank.data.copies import Copies, RowHashes, as_numbers, by_chance, distinct, page_hashes
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, WARNED, Example, Finding
from counterrank.kernels import hashing
from counterrank.messages import rewards_missing, say
from counterrank.policies import Scored
from counterrank.texts import in_percent, listed

#: Columns that look like time, in order of preference.
TIME_NAMES = ("timestamp", "time", "datetime", "date", "day", "ts")
_DAYS = ("date", "day")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def time_column(log: RankingLog) -> str | None:
    """Return a carried column whose name and values say time: seconds on a page do not."""
    lower = {name.lower(): name for name in log.columns}
    named = (lower[name] for name in TIME_NAMES if name in lower)
    return next((name for name in named if _says_time(name, log.columns[name])), None)


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


def _days_of_numbers(values: NDArray[np.float64]) -> NDArray[np.str_]:
    unit, whole = epoch_unit(values), np.nan_to_num(values).astype(np.int64)
    if unit is not None:
        return whole.astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(str)
    # Days are sorted as text.
    return np.char.zfill(whole.astype(str), 6)


def _count_drift(batch: RankingLog, subject: Subject) -> Tally:
    """Sum the rows' rewards by day."""
    if subject.time is None:
        return Tally()
    earned = batch.reward @ batch.position_weights
    sums: dict[str, NDArray[Any]] = {}
    for day, rows in by_label(days_of(batch, subject.time)):
        sums[day] = np.array([len(rows), earned[rows].sum(), (earned[rows] ** 2).sum()])
    return Tally(sums=sums)


def _judge_drift(tally: Tally, subject: Subject) -> list[Finding]:
    """Chi-square of day means about the overall mean; material when two days differ by a fifth."""
    from scipy import special

    if subject.time is None:
        return DRIFT.skipped(f"no time column; name one with {say('--time', 'COLUMN')}")
    days = sorted(day for day, sums in tally.sums.items() if sums[0] >= 30)
    if len(days) < 2:
        return DRIFT.skipped(f"fewer than two days with 30 rankings in '{subject.time}'")
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
        return DRIFT.passed(f"{text}, no more than usual")
    return DRIFT.finds(
        WARNED,
        f"{text}, more than chance allows (p = {p:.1g})",
        cause="seasons, campaigns, a tracking outage, or a change of policy",
        remedy="evaluate a period that is like the one to come; segment by day",
    )


#: What the logger earned, day by day.
DRIFT = Check("drift", _count_drift, _judge_drift, most=SAMPLED_ROWS)


#: Hashes of the lists of a log without propensities are kept up to this many.
ALL_HASHES = 2_000_000
#: Rows whose hashes are compared; copies are kept together.
HASHED_ROWS = 32_768
#: Of a log of unknown length every sixteenth hash is kept: duplicates have equal hashes, so none is
#: split.
_THIN = np.uint64(16)
#: In fewer rows a column may have different values by chance.
FEW = 100
#: Bins in which contexts are counted.
_CONTEXTS = np.uint64(65_536)
#: A share of rankings this large with a robot's context or rewards is worth a warning.
RECURRING = 0.01
#: Pages of a unit from which its habit is seen.
PAGES_EACH = 3
#: Shares of missing rewards that were read as 0, and of zeros beside them, that do not go together.
FILLED = 0.05


def _count_duplicates(batch: RankingLog, subject: Subject) -> Tally:
    """Collect hashes of some rows; those that show and earned the same are kept together."""
    page = page_hashes(batch) if subject.pages is None else subject.pages
    thin = _THIN if subject.n is None else np.uint64(max(1, subject.n // HASHED_ROWS))
    # A quotient by one number vectorises, a remainder does not.
    rows = np.flatnonzero(page // thin * thin == page)
    some = batch.changed(targets={}).take(rows)
    hashes = hashing.RowHashes(len(rows))
    identified = _absorb_identity(hashes, some, subject.time)
    key = hashes.values
    if identified:
        hashes.absorb(some.lengths, some.action, some.reward)
    found = RowHashes.of(some, page[rows])
    lists = {f"without {name}": words for name, words in found.keys.items()}
    return Tally(
        sums={"identified": np.array([int(identified)])},
        lists={
            "whole": hashes.values if identified else found.shown, "key": key, "row": rows + batch.start,
            "shown": found.shown, "owner": found.owner, "chance": found.chance, **lists,
        },
    )  # fmt: skip


def _judge_duplicates(tally: Tally, subject: Subject) -> list[Finding]:
    """Warn from 1 in 200 with the same ids, or 1 in 100 with others; fail from 1 in 20."""
    if not len(tally.lists["whole"]):
        return DUPLICATES.skipped("too few rankings to look for duplicates")
    copied = _copies(tally)
    if copied is not None:
        but = "" if copied.column is None else f" in all but {copied.column}"
        return DUPLICATES.finds(
            FAILED if copied.share > 0.05 else WARNED,
            f"{in_percent(copied.share)} of rankings equal another one{but}, far more than the logger's "
            "probabilities allow",
            cause="rows were delivered twice or multiplied by a join, under new ids",
            remedy="drop repeated rows: they make intervals too short",
        )
    return _same_ids(tally)


def _copies(tally: Tally) -> Copies | None:
    keys = {
        n.removeprefix("without "): w for n, w in tally.lists.items() if n.startswith("without ")
    }
    shown, owner, chance = (tally.lists[name] for name in ("shown", "owner", "chance"))
    return RowHashes(shown, owner, chance, keys).worst(0.01)


def _same_ids(tally: Tally) -> list[Finding]:
    whole, keys, rows = (tally.lists[name] for name in ("whole", "key", "row"))
    repeats = len(whole) - distinct(whole)
    share = repeats / len(whole)
    # A context of a few categories repeats by nature: equal rows are evidence only where keys
    # differ.
    if not tally.count("identified") or distinct(keys) < 0.2 * len(keys):
        return DUPLICATES.skipped(
            f"{in_percent(share)} of rankings equal another one, but nothing (context, unit, time) "
            "tells rankings apart, so they need not be duplicates"
        )
    # Rows with the same ids and context may show the same page by chance.
    if share < max(0.005, 3 * by_chance(keys, tally.lists["chance"])):
        return DUPLICATES.passed(f"{repeats:,} of {len(whole):,} rankings equal another one")
    _, where, back = np.unique(whole, return_index=True, return_inverse=True)
    first = where[back]
    second = np.flatnonzero(first != np.arange(len(whole)))
    original = first[second[:3]]
    examples: tuple[Example, ...] = tuple(
        {"row": int(rows[i]), "equals": int(rows[j])}
        for i, j in zip(second[:3], original, strict=True)
    )
    return DUPLICATES.finds(
        FAILED if share > 0.05 else WARNED,
        f"{in_percent(share)} of rankings equal an earlier one, context and all",
        examples,
        "events delivered twice, or a join that multiplied rows",
        "drop repeated rows: they make intervals too short",
    )


#: Rankings that occur twice: with the same ids, or with new ones.
DUPLICATES = Check("duplicates", _count_duplicates, _judge_duplicates)


def _absorb_identity(hashes: hashing.RowHashes, batch: RankingLog, time: str | None) -> bool:
    """Add context, unit and carried columns to hashes of rows; return whether there are any.

    Ids of rows, which are all different, would tell copies under new ids from their originals.
    """
    others = [
        as_numbers(batch.columns[n])
        for n in sorted({*batch.columns} - {*batch.context_names, time})
    ]
    kept = [values for values in others if len(np.unique(values)) < batch.n or batch.n < FEW]
    kept += [] if time is None else [as_numbers(column_of(batch, time))]
    kept += [] if batch.unit is None else [as_numbers(batch.unit)]
    parts = [] if batch.context is None else [batch.context]
    parts += [np.ascontiguousarray(values, dtype=np.float64)[:, None] for values in kept]
    for part in parts:
        hashes.absorb(None, part)
    return bool(parts)


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


def _judge_rewards(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail when all are equal; warn on one dominating ranking or a few negative ones among clicks."""
    (high, low), total = tally.peaks["span"], float(tally.sums["total"][0])
    if high + low == 0:
        return REWARDS.finds(
            FAILED,
            f"every reward is {high:g}",
            cause="the join with the outcomes failed, or a constant column was read",
            remedy="check the reward column and its join",
        )
    n = float(tally.sums["total"][1])
    share = float(tally.peaks["row"][0]) / total if total > 0 else 0.0
    if share > 0.05 and n >= 100:
        example = tally.examples.get(f"{float(tally.peaks['row'][0]):.17g}", ())
        return REWARDS.finds(
            WARNED,
            f"one ranking has {in_percent(share, 0)} of all reward",
            example,
            "an outlier, a test order, or another unit of money",
            "cap rewards at a sensible value, or check that row",
        )
    negative = tally.count("negative")
    # All that is neither 0 nor 1 is -1: a code, not a loss.
    if negative and tally.count("binary") == negative and low == 1:
        return REWARDS.finds(
            WARNED,
            f"{negative:,} rewards are -1 among zeros and ones",
            cause="-1 codes a missing outcome",
            remedy="drop those rankings, or set the reward to what it means",
        )
    zeros, filled = (
        part[0] / max(part[1], 1) for part in (tally.sums["zeros"], tally.sums["filled"])
    )
    if min(filled, zeros - filled) > FILLED:
        return REWARDS.finds(
            WARNED,
            f"{in_percent(filled)} of the rewards are missing and were read as 0, but {in_percent(zeros - filled)} "
            "are zeros of their own: so missing means something else",
            cause="outcomes of a part of the rows were not tracked or not joined",
            remedy="leave rows without outcomes out; read missing rewards as 0 only where none means 0",
        )
    empty = [int(k) + 1 for k in np.flatnonzero(tally.sums["nonzero"] == 0)]
    text = f"rewards lie between {-low:.4g} and {high:.4g}"
    if empty:
        text += f"; none at position {', '.join(map(str, empty))}"
    if filled:
        text += f"; {in_percent(filled)} were missing and are read as 0"
    return REWARDS.passed(text)


#: Rewards that vary, and that no single ranking dominates.
REWARDS = Check("rewards", _count_rewards, _judge_rewards, most=SAMPLED_ROWS)


def _count_units(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows by bucket of units."""
    if batch.unit is None:
        return Tally()
    return Tally(sums={"rows": np.bincount(batch.bucket, minlength=1024)})


def _judge_units(tally: Tally, subject: Subject) -> list[Finding]:
    """Warn when one bucket holds a tenth of the rows, or few are used."""
    if not tally.sums:
        return UNITS.skipped("no unit column: rankings are taken as independent")
    rows = tally.sums["rows"]
    share, used = float(rows.max() / rows.sum()), int((rows > 0).sum())
    if used < 50 or share > 0.1:
        return UNITS.finds(
            WARNED,
            f"one of {used:,} groups of units has {in_percent(share, 0)} of the rankings",
            cause="few users, a robot, or a default id for unknown users",
            remedy="drop robots and default ids; with few units intervals are only rough",
        )
    return UNITS.passed("no unit has a large share of the rankings")


#: No user or session has a large part of the rows.
UNITS = Check("units", _count_units, _judge_units, most=SAMPLED_ROWS)


def _count_context(batch: RankingLog, subject: Subject) -> Tally:
    """Count missing values by column."""
    if batch.context is None or not batch.context_names:
        return Tally()
    missing = np.isnan(batch.context).sum(axis=0)
    return Tally(sums={"missing": missing, "rows": np.array([batch.n])})


def _judge_context(tally: Tally, subject: Subject) -> list[Finding]:
    """Warn of every column with holes: models fill them in, in silence."""
    if not tally.sums:
        return []
    rows, missing = tally.count("rows"), tally.sums["missing"]
    order = np.argsort(-missing, kind="stable")
    holes = [
        f"{subject.first.context_names[j]} in {in_percent(missing[j] / rows)}"
        for j in order
        if missing[j]
    ]
    if not holes:
        return CONTEXT.passed("no value of the context is missing")
    return CONTEXT.finds(
        WARNED,
        f"values of the context are missing: {listed(holes, most=5)} of {rows:,} rankings",
        cause="a join that found nothing, or a field that is not always known",
        remedy="reward models read a missing number as the column's mean and a missing category "
        "as its first; if that is wrong, add a column that says whether it was known, or leave "
        f"the column out: {say('--context', 'COLUMNS')}",
    )


#: Values of context columns that are missing.
CONTEXT = Check("context", _count_context, _judge_context, most=SAMPLED_ROWS)


def _count_robots(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows by a hash of their context, and full rankings by how many of their items were rewarded."""
    sums: dict[str, NDArray[Any]] = {}
    if batch.context is not None and batch.unit is None:
        hashes = hashing.RowHashes(batch.n)
        hashes.absorb(None, batch.context)
        sums["context"] = np.bincount(
            (hashes.values % _CONTEXTS).astype(np.int64), minlength=int(_CONTEXTS)
        )
    counts = subject.page_counts(batch)
    sums["rewarded"] = counts.pages
    if batch.unit is not None and complete(batch):
        unit = np.unique(batch.unit, return_inverse=True)[1]
        pages, clicked = np.bincount(unit), np.bincount(unit, counts.hits)
        share = clicked[pages >= PAGES_EACH] / (batch.K * pages[pages >= PAGES_EACH])
        sums["greedy"] = np.array([(share == 1.0).sum(), ((share > 0.7) & (share < 1.0)).sum()])
    return Tally(sums=sums)


def _judge_robots(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail when a few contexts recur among many that do not, or when whole pages are rewarded too often.

    Contexts are counted in 65,536 bins, in which those that occur once are spread evenly.
    People who click on everything are rarer than people who click on all but one item; robots
    make a second peak at the end.
    """
    found = []
    share, count = _recurring(tally.sums.get("context"))
    if share > RECURRING:
        found += ROBOTS.finds(
            FAILED,
            f"{in_percent(share, 0)} of the rankings have one of {count:,} contexts that recur again "
            "and again, while most contexts do not",
            cause="robots, or users who come often and whose rows belong together",
            remedy="drop robots; name the user or session with " + say("--columns", "unit=COLUMN"),
        )
    rewarded = tally.sums["rewarded"]
    n, K = float(rewarded.sum()), len(rewarded) - 1
    typical = float(rewarded @ np.arange(K + 1)) / max(n, 1.0)
    if (
        K >= 3
        and n >= 100
        and typical < K / 2
        and rewarded[K] > max(RECURRING * n, 3 * rewarded[K - 1])
    ):
        found += ROBOTS.finds(
            FAILED,
            f"{in_percent(rewarded[K] / n)} of rankings are rewarded at every position, but only "
            f"{in_percent(rewarded[K - 1] / n)} at all but one, and {typical:.2g} of {K} is usual",
            cause="robots that click on everything, or a page view counted as a click on each item",
            remedy="drop these rankings, or correct the rewards",
        )
    every, nearly = tally.sums.get("greedy", np.zeros(2))
    # People who click on nearly everything are more than those who click on everything, on all pages.
    if K >= 3 and every >= 5 and every > 3 * nearly:
        found += ROBOTS.finds(
            FAILED,
            f"{int(every):,} units are rewarded at every position of all their pages (three or more), and "
            f"only {int(nearly):,} at most positions",
            cause="robots that click on everything",
            remedy="drop the rows of these units",
        )
    return found or ROBOTS.passed("no context and no pattern of rewards looks like a robot's")


#: No visitor comes again and again under one context, and pages are clicked as people click them.
ROBOTS = Check("robots", _count_robots, _judge_robots, most=GROUPED_ROWS)


def _recurring(bins: NDArray[Any] | None) -> tuple[float, int]:
    """Return the share of rows in bins that hold far more than an even spread would put there, and their number.

    Nothing where most rows are in such bins: then contexts are few, and recur by nature.
    """
    if bins is None:
        return 0.0, 0
    n = float(bins.sum())
    even = n / len(bins)
    # Six standard deviations of a Poisson count, and at least a thousandth of the log.
    heavy = bins > max(even + 6 * np.sqrt(even) + 20, n / 1000)
    share = float(bins[heavy].sum()) / n
    return (share, int(heavy.sum())) if share < 0.5 else (0.0, 0)


def _count_logged(batch: RankingLog, subject: Subject) -> Tally:
    """Collect a hash of each list when there are none, to say how many different ones were shown."""
    if not subject.without_propensities or subject.n is None or subject.n > ALL_HASHES:
        return Tally()
    hashes = hashing.RowHashes(batch.n)
    hashes.absorb(batch.lengths, batch.action)
    return Tally(lists={"list": hashes.values})


def _judge_logged(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail when there are none, and say what can be done with this log."""
    if subject.estimated_propensities:
        return LOGGED.finds(
            WARNED,
            "the log has no propensities; they were estimated",
            cause="they were not logged, or not joined",
            remedy="log the probability of each shown item when it is shown",
        )
    if not subject.without_propensities:
        return LOGGED.passed("the log has propensities of the logging policy")
    found, remedy = (
        "the log has no propensities",
        f"{say('--estimate-propensity', python='estimate_propensity=True')} learns them from the "
        "context",
    )
    if isinstance(subject.first.propensity, Scored):
        found = "the log has scores of the logger, but no propensities"
        remedy = (
            f"say how it ranks by them, for example {say('--logger', 'plackett-luce:temperature=1')}, or "
            f"estimate it: {say('--estimate-propensity', 'plackett-luce')}"
        )
    lists = tally.lists.get("list")
    if lists is not None:
        distinct = len(np.unique(lists))
        found += f"; it shows {distinct:,} different lists in {len(lists):,} rankings"
        if distinct < len(lists) / 5 and not isinstance(subject.first.propensity, Scored):
            remedy = (
                f"few lists recur often: {say('--estimate-propensity', 'by-list:COLUMNS')} takes "
                "their frequencies by context"
            )
    return LOGGED.finds(FAILED, found, cause="they were not logged, or not joined", remedy=remedy)


#: The log has propensities.
LOGGED = Check("logged-propensities", _count_logged, _judge_logged)
