"""An A/B test read with its log: every row tells about every ranker that could have shown its page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from counterrank.checks import context_cuts
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.blas import single_blas_thread
from counterrank.common.errors import ConfigError, LogError
from counterrank.common.findings import FAILED, WARNED, Finding
from counterrank.common.messages import say
from counterrank.common.options import LEVEL, SEED
from counterrank.common.records import Json, Record, RecordResult
from counterrank.common.texts import in_percent, listed
from counterrank.data.encoding import context_columns
from counterrank.data.log import RankingLog
from counterrank.estimators import (
    balance_weights,
    can_model,
    model_control,
    page_log_probs,
    refuse_unserved,
)
from counterrank.evaluation.arms import labels_of, with_arms
from counterrank.statistics import (
    Looks,
    Number,
    Quantity,
    Strata,
    adjusted_mean,
    check_level,
    critical_value,
    mean_of,
    two_sided,
)

if TYPE_CHECKING:
    from counterrank.io import LogLike

#: Below this share of rows that both rankers could have shown, rows say nothing of each other.
HARDLY = 0.01
#: Distances of mean weights from one, and differences below this part of an interval, are roundings.
_ROUNDING = 1e-9
#: A check warns beyond 3.3 standard errors: chance does that in one of a thousand tests, so that the
#: coverage of the headline hardly depends on it.
CHECK = 0.999
#: False alarms per test of the shares of arms: over all rows, and over every group of every context
#: column together. At 52 to 48 of 20,000 rows the first finds 99 of 100.
MISMATCH, MISMATCH_BY_GROUP = 9.5e-4, 5e-5
#: Shares of the smaller of two arms that people plan.
PLANNED = (1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 10, 1 / 20, 1 / 50, 1 / 100)


#: Folds of the prediction from the context.
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Arm(Record):
    """An arm: its rows, its units, and what it earned per ranking on them."""

    name: str
    rows: int
    units: int
    earned: float
    stderr: float


@dataclass(frozen=True, slots=True)
class ArmLift(Record):
    """What an arm earns more than another, per ranking.

    `plain` is the difference of the two means; `pooled` uses every row for both arms; `apart` is
    plain - pooled with the error of pairs, its interval three standard errors long to either side.
    `headline` names the one to report, `saved` the share of the traffic that it saves: the plain
    difference is as sharp with 1 / (1 - saved) times the rows. `shared` is the share of rows whose
    page both arms could have shown.
    """

    source: str = field(metadata={"key": "from"})
    to: str
    plain: Number
    pooled: Number
    apart: Number
    headline: Literal["plain", "pooled"]
    saved: float
    shared: float
    notes: tuple[Finding, ...] = ()

    @property
    def lift(self) -> Number:
        """The headline's difference."""
        return self.plain if self.headline == "plain" else self.pooled

    @property
    def agree(self) -> bool:
        """Whether plain and pooled agree within three standard errors of their difference."""
        return self.apart.low <= 0.0 <= self.apart.high

    def to_dict(self) -> Json:
        """Return the JSON form."""
        return {**Record.to_dict(self), "agree": self.agree}


@dataclass(frozen=True, slots=True)
class ABTest(RecordResult):
    """The arms of a test, the lift of each over the baseline, and what has to be said of both."""

    SCHEMA, NAME, ROWS = "counterrank/abtest/1", "A/B test", "lifts"
    REPORT = "counterrank.report.abtesting"

    arms: tuple[Arm, ...]
    lifts: tuple[ArmLift, ...]
    baseline: str
    level: float
    #: Intervals hold at every look, and are shortest at about so many rows; None: one look.
    sequential: int | None = None
    notes: tuple[Finding, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether no check says that the arms cannot be compared."""
        return not any(one.status is FAILED for one in self.notes)

    def lift(self, to: str) -> ArmLift:
        """Return the lift of an arm over the baseline."""
        for one in self.lifts:
            if one.to == to:
                return one
        known = ", ".join(one.to for one in self.lifts)
        raise ConfigError(f"there is no lift of '{to}' over '{self.baseline}'; known: {known}")

    def __repr__(self) -> str:
        """Return the lifts in a line."""
        lifts = ", ".join(
            f"{one.to}: {one.lift.value:+.4g} ({one.lift.low:+.4g} to {one.lift.high:+.4g})"
            for one in self.lifts
        )
        return f"ABTest(baseline={self.baseline!r}, {lifts})"


@dataclass(frozen=True, slots=True, eq=False)
class PooledTest:
    """A test made ready: the reward of each row, its arm and unit, and each arm's weight."""

    log: RankingLog
    names: Sequence[str]
    strata: Strata
    #: (n,) reward of each ranking; (A,) shares of the rows; (n, A) weights of the pages.
    y: Floats
    shares: Floats
    weights: Floats
    #: (n,) reward expected from the context alone, by rows that do not hold it; None without any.
    context: Floats | None
    seed: int

    @classmethod
    def of(
        cls, log: RankingLog, labels: NDArray[np.str_], names: Sequence[str], seed: int
    ) -> PooledTest:
        """Return the test of a log; pages that their own arm never shows are refused."""
        strata = Strata.of(labels, log.unit)
        few = np.flatnonzero(strata.units_by_arm < 2)
        if len(few):
            raise LogError(
                f"arm '{names[few[0]]}' has one unit: how much units differ cannot be seen; a test "
                "needs several users in each arm"
            )
        log_prob = page_log_probs(log, names)
        for index, name in enumerate(names):
            rows = np.flatnonzero(strata.arm == index)
            refuse_unserved(log, name, rows, log_prob[rows, index])
        y: Floats = log.reward @ log.position_weights
        if float(np.ptp(y)) == 0.0:
            raise LogError(
                f"every ranking earned {y[0]:g}: a test without any difference in rewards says "
                "nothing of its rankers"
            )
        shares = np.bincount(strata.arm) / log.n
        weights = balance_weights(log_prob, shares)
        return cls(log, names, strata, y, shares, weights, _by_context(log, y), seed)

    def earned(self) -> tuple[Arm, ...]:
        """Return what each arm earned on its own rows."""
        units, found = self.strata.units_by_arm, []
        for index, name in enumerate(self.names):
            own = self.strata.arm == index
            alone = Strata.of(self.strata.arm[own], self.strata.unit[own])
            mean = mean_of(self.y[own], alone)
            found.append(Arm(name, int(own.sum()), int(units[index]), mean.value, mean.stderr))
        return tuple(found)

    def plain(self, source: int, to: int) -> Quantity:
        """Return the difference of the two arms' means."""
        coin = (self.strata.arm == to) / self.shares[to]
        other = (self.strata.arm == source) / self.shares[source]
        return mean_of((coin - other) * self.y, self.strata)

    def pooled(self, source: int, to: int) -> Quantity:
        """Return the difference of weighted means of all rows, less what controls of mean zero explain."""
        new, old = self.weights[:, to], self.weights[:, source]
        change = new - old
        # Constants, what the context says, and what a model says of the page.
        controls = [new - 1.0, old - 1.0]
        if self.context is not None:
            controls.append(change * self.context)
        if can_model(self.log, self.names):
            pair = (to, source)
            controls.append(model_control(self.log, self.names, pair, self.shares, seed=self.seed))
        return adjusted_mean(change * self.y, np.column_stack(controls), self.strata)


def _by_context(log: RankingLog, y: Floats) -> Floats | None:
    """Return the rewards (n,) that a ridge on the context expects, fitted without a row's fold."""
    x = context_columns(log)
    if x.shape[1] == 0 or log.n < 2 * x.shape[1]:
        return None
    known = ~np.isnan(x)
    mean = np.where(known, x, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    centred = np.where(known, x - mean, 0.0)
    spread = np.sqrt((centred**2).mean(axis=0))
    centred = centred[:, spread > 0] / spread[spread > 0]
    fold = log.bucket % _FOLDS
    out = np.full(log.n, y.mean())
    for f in range(_FOLDS):
        rest, own = fold != f, fold == f
        if own.any() and rest.any():
            level, away = y[rest].mean(), centred[rest]
            gram = away.T @ away + np.eye(away.shape[1])
            out[own] = level + centred[own] @ np.linalg.solve(gram, away.T @ (y[rest] - level))
    return out


@single_blas_thread
def abtest(
    log: LogLike,
    arm: str,
    *,
    baseline: str | None = None,
    level: float = LEVEL,
    sequential: int | bool | None = None,
    seed: int = SEED,
    **reading: Any,
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
    source, notes = names.index(base), tuple(checks_of(test, planned))
    lifts = tuple(_lift(test, source, to, level, looks) for to in range(len(names)) if to != source)
    return ABTest(test.earned(), lifts, base, level, looks.rows, notes)


def _lift(test: PooledTest, source: int, to: int, level: float, looks: Looks) -> ArmLift:
    plain, pooled = test.plain(source, to), test.pooled(source, to)
    doubts, notes = list(wrong_weights(test, (source, to), looks)), []
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
_ALONE = (
    "both rankers could have shown the page in only {share} of the rows, so rows of one ranker say "
    "little about the other; only context and models make the interval shorter"
)


def wrong_weights(test: PooledTest, pair: Sequence[int], looks: Looks) -> Iterator[Finding]:
    """Warn where the weights of one of two arms do not average one.

    No reward enters, so that this finds wrong probabilities long before rewards do.
    """
    for index in pair:
        excess = mean_of(test.weights[:, index] - 1.0, test.strata)
        if abs(excess.value) > excess.half(CHECK, looks) + _ROUNDING:
            yield Finding(
                "arm-weights",
                WARNED,
                f"the weights of '{test.names[index]}' average {1.0 + excess.value:.4g} and not "
                "1, more than three standard errors away: its probabilities are not those that "
                "served the pages",
            )
            return


def checks_of(test: PooledTest, planned: Mapping[str, float]) -> Iterator[Finding]:
    """Yield what has to be said of the test as a whole; what invalidates it comes first."""
    yield from sample_ratio(test, planned)
    yield from sample_ratio_by_group(test)
    log, strata = test.log, test.strata
    if strata.shared_units:
        share = in_percent(strata.shared_units / (int(strata.unit.max()) + 1))
        yield Finding(
            "units-in-several-arms",
            WARNED,
            f"{strata.shared_units:,} units ({share}) have rows in more than one arm, so "
            "effects of one ranker may carry over to the other; standard errors are by unit",
        )
    elif log.unit is not None:
        yield from _visits(test)
    if not can_model(log, test.names):
        yield Finding(
            "weights-only",
            WARNED,
            "the log has no scores of the arms, so no reward model can make the interval shorter; log "
            "them (NAME_scores) and give --policy NAME=KIND",
        )


def planned_shares(given: str, names: Sequence[str]) -> dict[str, float]:
    """Return the planned share of each arm, from "a=60,b=40"; none where nothing was said.

    >>> planned_shares("a=60,b=40", ["a", "b"])
    {'a': 60.0, 'b': 40.0}
    """
    found: dict[str, float] = {}
    for part in filter(None, given.split(",")):
        name, _, share = part.partition("=")
        with suppress(ValueError):
            found[name.strip()] = float(share)
    if given and (
        set(found) != set(names) or not all(0 < one < math.inf for one in found.values())
    ):
        raise ConfigError(
            f"'{given}' does not give each of the arms {listed(names)} a planned share",
            remedy=f"write {','.join(f'{name}=1' for name in names)} with the planned shares",
        )
    return found


def sample_ratio(test: PooledTest, planned: Mapping[str, float]) -> Iterator[Finding]:
    """Fail where two arms have other shares of the rows, or of the units, than were planned.

    Where no plan was given, one of the shares that people plan is taken for it.

    Rows of a unit come together: with m_u rows of unit u, the number of rows in an arm of share p has
    variance p (1 - p) sum m_u^2 (Fabijan et al. 2019 on why such a test says nothing).
    """
    sizes = np.bincount(test.strata.arm)
    units = test.strata.units_by_arm
    # Where each unit has one row, both counts are the same.
    by_unit = int(units.sum()) < len(test.strata.arm) and not test.strata.shared_units
    pairs = list(combinations(range(len(sizes)), 2))
    tests = len(pairs) * (2 if by_unit else 1)
    plan = say("--arm", "COLUMN:" + ",".join(f"{name}=SHARE" for name in test.names))
    for pair in map(list, pairs):
        names = [test.names[index] for index in pair]
        share = planned[names[0]] / sum(planned[name] for name in names) if planned else None
        counted = [("rankings", sizes[pair], _squares(test, pair))]
        if by_unit:
            counted.append(("units", units[pair], float(units[pair].sum())))
        for what, (left, right), squares in counted:
            p = _mismatch(int(left), int(right), squares, share)
            if p * tests <= MISMATCH:
                yield _invalid(
                    "sample-ratio",
                    f"'{names[0]}' has {left:,} {what} and '{names[1]}' {right:,}, which is "
                    f"unlikely by chance (p = {p:.1g})",
                    "" if planned else f"; if other shares were planned, say so: {plan}",
                )
                return


def _squares(test: PooledTest, pair: Sequence[int]) -> float:
    """Return the sum of squared rows of each unit in two arms; of each row where units are in both."""
    own = np.isin(test.strata.arm, pair)
    if test.strata.shared_units:
        return float(own.sum())
    return float((np.bincount(test.strata.unit[own]).astype(np.float64) ** 2).sum())


def _mismatch(left: int, right: int, squares: float, plan: float | None = None) -> float:
    """Return the p-value of the shares of two arms, against the first one's plan or the nearest usual share.

    >>> round(_mismatch(10_000, 10_100, 20_100.0), 2), _mismatch(9_600, 10_400, 20_000.0) < 1e-7
    (0.48, True)
    """
    total = left + right
    if plan is not None:
        return two_sided(left - total * plan, math.sqrt(plan * (1 - plan) * squares))
    share = min(left, right) / total
    planned = min(PLANNED, key=lambda one: abs(one - share))
    # Within chance of a planned share that is not the nearest one, nothing is wrong either.
    return max(
        two_sided(total * (share - one), math.sqrt(one * (1 - one) * squares))
        for one in (planned, 0.5)
    )


def sample_ratio_by_group(test: PooledTest) -> Iterator[Finding]:
    """Fail where an arm has another share of the rows in a group of the context than in all."""
    arm, strata = test.strata.arm, test.strata
    cuts = context_cuts(test.log)
    tests = sum(len(cut.names) for cut in cuts) * len(test.names)
    for cut in cuts:
        codes = cut.codes(test.log)
        for code, label in enumerate(cut.names):
            inside = codes == code
            for index, name in enumerate(test.names):
                p, share = _share_inside(inside, arm == index, strata.unit)
                if p * tests <= MISMATCH_BY_GROUP:
                    yield _invalid(
                        "sample-ratio-by-group",
                        f"where {cut.column} is {label}, '{name}' has {in_percent(share)} of the "
                        f"rankings and {in_percent(float(np.mean(arm == index)))} of all, which is "
                        f"unlikely by chance (p = {p:.1g})",
                    )
                    return


def _share_inside(inside: Bools, own: Bools, unit: Ints) -> tuple[float, float]:
    """Return the p-value of an arm's share of a group of rows, given its share of all, and that share."""
    rows = int(inside.sum())
    if rows < 100:
        return 1.0, math.nan
    share, overall = float(own[inside].mean()), float(own.mean())
    # Each row of the group adds its distance from the share of all rows, which is estimated too.
    weight = inside / rows - 1.0 / len(inside)
    by_unit = np.bincount(unit, weights=weight * (own - overall))
    return two_sided(share - overall, math.sqrt(float((by_unit**2).sum()))), share


def _invalid(code: str, text: str, more: str = "") -> Finding:
    repeat = "find out where rows of one arm were lost, or who was assigned otherwise, and repeat the test"
    return Finding(
        code,
        FAILED,
        text,
        (f"{repeat}{more}",),
        cause="rows of one arm were lost or counted twice, or users were not assigned by chance; then "
        "no difference between the arms can be believed",
        fatal=True,
    )  # fmt: skip


def _visits(test: PooledTest) -> Iterator[Finding]:
    """Warn where units of one arm have more rows than those of another.

    Visits that the ranking brought are in no difference per ranking.
    """
    rows = np.bincount(test.strata.unit)
    owner = np.zeros(len(rows), dtype=np.int64)
    owner[test.strata.unit] = test.strata.arm
    each = [rows[owner == index] for index in range(len(test.names))]
    means = [float(own.mean()) for own in each]
    low, high = int(np.argmin(means)), int(np.argmax(means))
    error = math.sqrt(sum(float(each[at].var(ddof=1)) / len(each[at]) for at in (low, high)))
    if means[high] - means[low] > critical_value(CHECK) * error:
        yield Finding(
            "visits-differ",
            WARNED,
            f"units of '{test.names[high]}' have {means[high]:.3g} rankings each and those of "
            f"'{test.names[low]}' {means[low]:.3g}: lifts here are per ranking; compare what users "
            "earned as well",
        )
