"""An A/B test read with its log: every row tells about every ranker that could have shown its page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from counterrank.errors import ConfigError
from counterrank.evaluation.arm_checks import CHECK, checks_of, planned_shares, wrong_weights
from counterrank.evaluation.arms import labels_of, with_arms
from counterrank.evaluation.lifts import ABTest, ArmLift
from counterrank.evaluation.pooling import PooledTest
from counterrank.findings import WARNED, Finding
from counterrank.messages import say
from counterrank.options import LEVEL, SEED
from counterrank.statistics import Looks, check_level
from counterrank.texts import in_percent, listed

if TYPE_CHECKING:
    from counterrank.io import LogLike, OpenOptions

#: Below this share of rows that both rankers could have shown, rows say nothing of each other.
HARDLY = 0.01
#: Differences below this part of an interval are roundings.
_ROUNDING = 1e-9


def abtest(
    log: LogLike,
    arm: str,
    *,
    baseline: str | None = None,
    level: float = LEVEL,
    sequential: int | bool | None = None,
    top_down: bool = False,
    seed: int = SEED,
    **reading: Unpack[OpenOptions],
) -> ABTest:
    """Return what each arm of an A/B test earns more than the baseline, from the rows of all arms.

    Parameters
    ----------
    log
        A `RankingLog`, a pandas, polars or pyarrow table, a path, a Spark or Dask frame, or a source.
        Each arm has a column (or a target) of its own name: its probabilities of the shown items in
        all rows, or a policy by its scores. `propensity` is not needed.
    arm
        The column that says which arm served a row. "variant:a=60,b=40" also says the planned shares of the
        arms (default: equal ones, or other usual ones).
    baseline
        The arm that others are compared with (default: the first by name).
    level
        Confidence of the intervals.
    sequential
        True, or a number of rows: the intervals hold at every look at a growing test, and are
        shortest at about that many rows (10,000).
    top_down
        You declare that what stands below a place does not change its reward. Pages that begin alike
        then share their upper places, which helps rankers of fixed orders most. The declaration is
        held against the log, and dropped where the log contradicts it.
    seed
        Every random stream follows it.
    **reading
        What the reader is told about a log that is not in memory yet: `columns`, `context`, `unit`,
        `policies`, ... as in `counterrank.io.ReadOptions`; `format`; `engine`; `where`, a mapping
        that keeps some rows, {"device": "mobile"}.

    Returns
    -------
    ABTest
        For each arm but the baseline the plain difference in means, the pooled lift, which of them
        is the headline, and how much traffic it saved.

    Raises
    ------
    CounterrankError
        There are not two arms, one has no policy, served what it never shows, or has too few rows.

    Examples
    --------
    >>> import numpy as np
    >>> import counterrank as cr
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=4000)
    >>> chance = np.array([[0.4, 0.6], [0.5, 0.5]])  # of items 0 and 1, by arm
    >>> action = (rng.random(4000) < chance[arm, 1]).astype(int)[:, None]
    >>> reward = (rng.random((4000, 1)) < 0.3 + 0.2 * action).astype(float)
    >>> log = cr.RankingLog(
    ...     action=action, reward=reward, propensity=np.take_along_axis(chance[arm], action, 1),
    ...     targets={"a": chance[0][action], "b": chance[1][action]},
    ...     columns={"arm": np.array(["a", "b"])[arm]},
    ... )
    >>> found = cr.abtest(log, "arm").lift("b")
    >>> found.headline, found.saved > 0.9
    ('pooled', True)
    """
    check_level(level)
    looks = Looks(10_000 if sequential is True else sequential or None)
    column, _, shares = arm.partition(":")
    whole, names = with_arms(log, column, {"require_propensity": False, **reading})
    planned = planned_shares(shares, names)
    test = PooledTest.of(whole, labels_of(whole, column), names, seed)
    base = names[0] if baseline is None else baseline
    if base not in names:
        raise ConfigError(f"there is no arm '{base}' to compare with; arms are {listed(names)}")
    if top_down and whole.page_reward:
        raise ConfigError(
            "there is one reward per ranking, which has no places: what is below a place cannot be "
            f"left out; do without {say('--top-down', python='top_down=True')}"
        )
    source, notes = names.index(base), tuple(checks_of(test, planned))
    lifts = tuple(
        _lift(test, source, to, level, looks, top_down=top_down)
        for to in range(len(names))
        if to != source
    )
    return ABTest(test.earned(), lifts, base, level, looks.rows, top_down, notes)


def _lift(
    test: PooledTest, source: int, to: int, level: float, looks: Looks, *, top_down: bool
) -> ArmLift:
    plain, pooled = test.plain(source, to), test.pooled(source, to)
    doubts, notes = list(wrong_weights(test, (source, to), looks)), []
    if top_down:
        upper = test.pooled(source, to, top_down=True)
        away = pooled - upper
        if abs(away.value) > away.half(CHECK, looks) + _ROUNDING * pooled.stderr:
            notes.append(Finding("not-top-down", WARNED, _NOT_TOP_DOWN))
        else:
            pooled = upper
    one, other = (mean.number(level, looks) for mean in (plain, pooled))
    found, rounding = (plain - pooled).number(CHECK, looks), _ROUNDING * one.width
    apart = replace(found, low=found.low - rounding, high=found.high + rounding)
    if not apart.low <= 0.0 <= apart.high:
        doubts.append(Finding("arms-contradict", WARNED, _CONTRADICT))
    # An honest log makes the pooled interval shorter; a longer one is chance, and no reason to change.
    trusted = not doubts and other.width < one.width
    shared = float((test.weights[:, [source, to]] > 0.0).all(axis=1).mean())
    if shared < HARDLY:
        notes.append(Finding("no-common-pages", WARNED, _ALONE.format(share=in_percent(shared))))
    return ArmLift(
        test.names[source],
        test.names[to],
        plain=one,
        pooled=other,
        apart=apart,
        headline="pooled" if trusted else "plain",
        saved=1.0 - (other.width / one.width) ** 2 if trusted else 0.0,
        shared=shared,
        notes=(*doubts, *notes),
    )


_CONTRADICT = (
    "the plain difference and the pooled lift are further apart than three standard errors of their "
    "difference: the arms' probabilities are not those that served the pages, or the arms differ in "
    "more than the ranking"
)
_NOT_TOP_DOWN = (
    "items further down do change a reward: the top-down lift is more than three standard errors from "
    "that of whole pages, which is used instead"
)
_ALONE = (
    "both rankers could have shown the page in only {share} of the rows, so rows of one ranker say "
    "little about the other; only context and models make the interval shorter"
)
