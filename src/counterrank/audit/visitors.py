"""A column that looks like the user's id, where rows are taken as independent or a unit is a session."""

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally, neighbours
from counterrank.data.copies import as_numbers
from counterrank.data.log import RankingLog
from counterrank.findings import WARNED, Finding
from counterrank.messages import say
from counterrank.texts import in_percent

#: Parts of names of users, and of what repeats for other reasons.
USERS = (
    "user", "visitor", "customer", "member", "client", "account", "person", "cookie", "uid", "shopper",
)  # fmt: skip
OTHERS = (
    "query", "search", "item", "page", "product", "request", "ranking", "day", "date", "time",
    "position", "order", "experiment", "arm",
)  # fmt: skip
#: Values of an id: not fewer than this share of the rows, nor this number, and not one for each row.
LEAST_SHARE, LEAST, MOST_SHARE = 0.005, 50, 0.8
#: Contexts agree in this share of the pairs of rows with one value, and this much more often than
#: those of any two rows.
AGREE, MORE = 0.95, 0.3
#: Share of the values of an id that have several units: then a unit is less than a user.
SEVERAL = 0.1


def _count_user_column(batch: RankingLog, subject: Subject) -> Tally:
    """Count, for each carried column, pairs of rows with one value and how often contexts agree."""
    context = None if batch.context is None else np.nan_to_num(batch.context, nan=-1.25)
    unit = None if batch.unit is None else np.unique(batch.unit, return_inverse=True)[1]
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
        shifted = np.roll(np.arange(batch.n), 1)
        sums[name] = np.array(
            [
                batch.n,
                codes.max(initial=-1) + 1,
                len(first),
                *_units(codes, unit),
                *_agreeing(context, first, second),
                *_agreeing(context, np.arange(batch.n), shifted),
            ],
            dtype=float,
        )
    return Tally(sums=sums)


def _judge_user_column(tally: Tally, subject: Subject) -> list[Finding]:
    """Warn of the column with the fewest values that looks like a user and is not the unit."""
    suspects = [
        (sums[1], name)
        for name, sums in tally.sums.items()
        if _like_users(name, sums, subject.first.context is not None)
        and (subject.first.unit is None or (sums[3] > SEVERAL * sums[1] and sums[4] == 0))
    ]
    if not suspects:
        return []
    values, name = min(suspects)
    rows = tally.sums[name][0]
    whose = "are taken as independent" if subject.first.unit is None else "have smaller units"
    agree = float(np.max(_within(tally.sums[name])[0], initial=0.0))
    known = (
        f", and contexts agree within it ({in_percent(agree, 0)})"
        if subject.first.context is not None
        else ""
    )
    return USER_COLUMN.finds(
        WARNED,
        f"rows {whose}, but '{name}' looks like a user: {values:,.0f} values in {rows:,.0f} rows{known}",
        cause="rows of one user are alike; taken as independent they make intervals too short",
        remedy=f"name the user: {say('--columns', f'unit={name}', f'unit={name!r}')}",
    )  # fmt: skip


#: Rows of one user are known to belong together.
USER_COLUMN = Check("user-column", _count_user_column, _judge_user_column, most=SAMPLED_ROWS)


def _like_users(name: str, sums: Floats, known: bool) -> bool:
    rows, values, pairs = sums[:3]
    repeats = max(LEAST, LEAST_SHARE * rows) <= values <= MOST_SHARE * rows
    if not repeats or not pairs:
        return False
    if not known:
        return _named(name, USERS)
    within, between = _within(sums)
    # What a visit changes (the hour) differs within a user, so not every column has to agree.
    named = _named(name, USERS)
    agree = (within >= (0.8 if named else AGREE)) & (within - between >= MORE)
    return bool(agree.any() if named else 2 * agree.sum() > len(agree))


def _within(sums: Floats) -> tuple[Floats, Floats]:
    """Return how often each column of the context agrees, within one value and in any two rows."""
    within, between = np.split(sums[5:], 2)
    return within / max(sums[2], 1.0), between / sums[0]


def _named(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)


def _agreeing(context: Floats | None, first: Ints, second: Ints) -> Floats:  # fmt: skip
    """Return in how many pairs of rows each column of the context is the same."""
    if context is None:
        return np.zeros(0)
    found: Floats = (context[first] == context[second]).sum(axis=0).astype(float)
    return found


def _units(codes: Ints, unit: Ints | None) -> tuple[int, int]:
    """Return how many values have several units, and how many units several values."""
    if unit is None:
        return 0, 0
    pairs = np.unique(np.stack([codes, unit]), axis=1)
    return tuple(int((np.bincount(one) > 1).sum()) for one in pairs)  # type: ignore[return-value]
