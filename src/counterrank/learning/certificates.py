"""The certificate: m is chosen on the learning rows, and its lift is bounded on the certifying rows."""

import math
from dataclasses import dataclass

import numpy as np

from counterrank.common.arrays import Floats
from counterrank.data.log import RankingLog
from counterrank.learning import settings
from counterrank.learning.paths import Side
from counterrank.learning.result import (
    Certificate,
    CertifiedLift,
    GuardrailBound,
    Heaviest,
    Step,
)
from counterrank.statistics import betting_lower_bound


@dataclass(frozen=True, slots=True)
class Choice:
    """The m chosen on the learning rows, with the spread, the mean and the standard error of its lifts."""

    m: int
    spread: float
    lift: float
    error: float
    path: tuple[Step, ...]

    @property
    def agreed(self) -> bool:
        """Whether the lift on the learning rows is large enough to be believed."""
        return self.lift > settings.AGREE * self.error


def certify(
    learning: Side,
    certifying: Side,
    cap: float,
    rng: np.random.Generator,
    *,
    grade: str,
    level: float,
    declared: bool,
) -> Certificate:
    """Choose m on the learning rows and bound its lift once on the certifying rows.

    `declared` tells whether the log identifies visitors, by units or by a declaration.
    """
    rows, counts = certifying.log.n, certifying.counts
    reach = _reach(level, grade, counts)
    choice = _choose_step(learning, cap, reach, len(counts))
    gains = certifying.lifts(choice.m, cap)
    sums, value = certifying.unit_sums(gains), float(gains.mean())
    stderr = _error(sums, rows)
    expectation = (certifying.lowest(choice.m, cap), choice.spread, choice.lift)
    low = lower_bound(sums, counts, 1.0 - level, expectation if grade == "free" else None, rng)
    evidence = (
        (value, stderr, rows) if choice.agreed else (choice.lift, choice.error, learning.log.n)
    )
    more_rows = None
    if low <= 0 or not choice.agreed:
        more_rows = _more_rows(*evidence, reach, learning.log.n + rows, value - low)
    # Without a gain on both sides or without known visitors nothing is certified; a lower bound stays
    # valid when it is lowered.
    if not (choice.agreed and declared):
        low = min(low, 0.0)
    earned = float(certifying.totals.mean())
    guarded = _guardrail_bounds(learning, certifying, choice, rng, grade, level)
    return Certificate(
        certified=low > 0 and all(rail.safe for rail in guarded),
        grade=grade,
        # A policy cannot lose more than the logger earns.
        lift=CertifiedLift(value, stderr, max(low, -earned), level),
        logger={"value": earned + certifying.shift},
        name=f"best of {choice.m}",
        m=choice.m,
        step=1.0 - 1.0 / choice.m,
        path=choice.path,
        rows={"learn": learning.log.n, "choose": learning.log.n, "certify": rows},
        more_rows=more_rows,
        agreed=choice.agreed,
        declared=declared,
        heaviest=_heaviest_unit(certifying.log),
        guardrails=guarded,
    )


def lower_bound(
    sums: Floats,
    counts: Floats,
    delta: float,
    expectation: tuple[float, float, float] | None,
    rng: np.random.Generator,
) -> float:
    """Return a lower confidence bound of the mean per row, with error probability `delta`.

    `sums` and `counts` are the totals and the numbers of rows of each unit. With `expectation` (lowest
    possible value, expected spread, expected mean) the bound holds for any number of units. Without
    it, it is a t bound.
    """
    if expectation is None:
        rows = int(counts.sum())
        return float(sums.sum()) / rows - _t_value(1.0 - delta, len(sums)) * _error(sums, rows)
    lowest, spread, mean = expectation
    # Random order, because the bound depends on the order and rows may be sorted by time.
    order = rng.permutation(len(sums))
    return betting_lower_bound(
        sums[order], lowest, delta, spread=spread, centre=mean, counts=counts[order]
    )


def _error(sums: Floats, rows: int) -> float:
    """Return the standard error of the mean per row, from sums over units."""
    return float(sums.std(ddof=1)) * math.sqrt(len(sums)) / rows


def _t_value(level: float, units: int) -> float:
    from scipy import special

    return float(special.stdtrit(max(units - 1, 1), level))


def _choose_step(learning: Side, cap: float, reach: float, size: int) -> Choice:
    """Return the m with the highest expected bound on `size` certifying units."""
    n = learning.log.n
    steps = [2**j for j in range(settings.LARGEST_M.bit_length())]
    gains = {m: learning.unit_sums(learning.lifts(m, cap)) for m in steps}
    spread = {m: float(g.std(ddof=1)) if len(g) > 1 else 0.0 for m, g in gains.items()}
    promise: dict[int, float] = {}
    path = []
    for m, unit_gains in gains.items():
        lift, w = float(unit_gains.sum()) / n, learning.drawn.weight(m)
        # The mean lift is noisy and the model's expectation too optimistic, so they are averaged.
        expected = 0.5 * (learning.expected(m) + lift)
        # Divided by the rows per unit, because the spread is that of sums over units.
        distance = settings.CAUTION * reach * spread[m] / (n / len(unit_gains))
        promise[m] = expected - distance / math.sqrt(size)
        ess = float(w.sum() ** 2 / (w**2).sum()) if (w > 0).any() else 0.0
        path.append(Step(m, lift, promise[m], ess))
    # m = 1 is the logger. Steps that break a guardrail on these rows are unlikely to be certified.
    allowed = [
        m
        for m in steps[1:]
        if all(float(rail.margins(learning.drawn.weight(m)).mean()) >= 0 for rail in learning.rails)
    ]
    best = max(allowed or steps[1:], key=lambda m: promise[m])
    error = spread[best] * math.sqrt(len(gains[best])) / n
    return Choice(best, spread[best], float(gains[best].sum()) / n, error, tuple(path))


def _guardrail_bounds(
    learning: Side,
    certifying: Side,
    choice: Choice,
    rng: np.random.Generator,
    grade: str,
    level: float,
) -> tuple[GuardrailBound, ...]:
    """Return the bounds of all guardrails at the chosen m, from the certifying rows only."""
    weight, counts = certifying.drawn.weight(choice.m), certifying.counts
    before = {
        (rail.guardrail.text, rail.group): learning.unit_sums(
            rail.margins(learning.drawn.weight(choice.m))
        )
        for rail in learning.rails
    }
    error_share = (1.0 - level) / max(len(certifying.rails), 1)
    bounds = []
    for rail in certifying.rails:
        expectation = None
        if grade == "free":
            learning_sums = before.get((rail.guardrail.text, rail.group), np.empty(0))
            spread, mean = 1.0, 0.0
            if len(learning_sums) > 1:
                spread, mean = float(learning_sums.std(ddof=1)) or 1.0, float(learning_sums.mean())
            # The largest possible weight of best of m is m.
            expectation = rail.lowest(float(choice.m)), spread, mean
        sums = certifying.unit_sums(rail.margins(weight))
        low = lower_bound(sums, counts, error_share, expectation, rng)
        bounds.append(rail.bound(weight, low))
    return tuple(bounds)


def _reach(level: float, grade: str, counts: Floats) -> float:
    """Return the distance of the bound from the estimate in standard errors (approximate for "free")."""
    from scipy import special

    if grade != "free":
        return _t_value(level, len(counts))
    # With units of different sizes, `betting_lower_bound` uses one stake: about Hoeffding's bound.
    if np.ptp(counts) > 0:
        return math.sqrt(2.0 * math.log(1.0 / (1.0 - level)))
    return float(special.ndtri(level)) + 0.15


def _more_rows(
    value: float, stderr: float, rows: int, reach: float, total: int, distance: float
) -> int | None:
    """Return the approximate number of rows of a log that certifies this gain, or None without a gain.

    `distance` is the estimate minus the bound on `total` rows, which decreases with the square root
    of the rows. If the bound is not above zero, more rows than `total` are required.
    """
    if value <= 0 or stderr <= 0:
        return None
    # Twice the number of rows at which the bound is above zero with probability one half.
    certify = 2.0 * rows * (reach * stderr / value) ** 2
    required = certify / (1.0 - settings.LEARN_SHARE)
    return math.ceil(max(required, total * max(distance / value, 1.0) ** 2))


def _heaviest_unit(log: RankingLog) -> Heaviest | None:
    """Return the unit with the most rows if its share of the rows is large."""
    if log.unit is None:
        return None
    labels, counts = np.unique(log.unit, return_counts=True)
    largest = int(np.argmax(counts))
    share = float(counts[largest] / log.n)
    return Heaviest(str(labels[largest]), share) if share > settings.HEAVY else None
