"""The certificate: a step chosen on the learning rows, whose lift is bounded once on the others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.learning import settings
from counterrank.learning.guardrails import GuardrailBound, WatchedRewards
from counterrank.learning.paths import Side
from counterrank.learning.result import Certificate, CertifiedLift, Heaviest, Step
from counterrank.statistics import betting_lower_bound

#: Guardrails on the learning rows and on the others.
Rails = tuple[Sequence[WatchedRewards], Sequence[WatchedRewards]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The m that the learning rows chose: spread of its lifts, their mean and its error."""

    m: int
    spread: float
    lift: float
    error: float
    path: tuple[Step, ...]

    @property
    def agreed(self) -> bool:
        """Whether the learning rows show a gain too."""
        return self.lift > settings.AGREE * self.error


def certified(
    learning: Side,
    certifying: Side,
    cap: float,
    rng: np.random.Generator,
    *,
    grade: str,
    level: float,
    declared: bool,
    rails: Rails,
) -> Certificate:
    """Choose m on the learning rows, then bound its lift once on the others.

    `declared`: the log says which rows belong to one visitor, by units or by a declaration.
    """
    rows, units = certifying.log.n, units_of(certifying.log)
    counts = None if units is None else units[1]
    size = rows if counts is None else len(counts)
    reach = _reach(level, grade, size, counts)
    choice = _chosen(learning, cap, reach, size, rails[0])
    gains = certifying.lifts(choice.m, cap)
    sums = summed(gains, units)
    value = float(gains.mean())
    stderr = float(sums.std(ddof=1)) * math.sqrt(len(sums)) / rows
    about = (certifying.lowest(choice.m, cap), choice.spread, choice.lift)
    low = lower_bound(sums, rows, 1.0 - level, about if grade == "free" else None, counts, rng)
    seen = (value, stderr, rows) if choice.agreed else (choice.lift, choice.error, learning.log.n)
    total = learning.log.n + rows
    short = low <= 0 or not choice.agreed
    more = _more_rows(*seen, reach, total=total, away=value - low) if short else None
    # Both sides must show a gain, and visitors must be known. Lowering a bound keeps it valid.
    if not (choice.agreed and declared):
        low = min(low, 0.0)
    earned = float(certifying.totals.mean())
    guarded = _guarded(learning, certifying, choice, rng, grade, level, rails)
    return Certificate(
        certified=low > 0 and all(rail.safe for rail in guarded),
        grade=grade,
        # No policy can lose more than the logger earns.
        lift=CertifiedLift(value, stderr, max(low, -earned), level),
        logger={"value": earned + certifying.shift},
        name=f"best of {choice.m}",
        m=choice.m,
        step=1.0 - 1.0 / choice.m,
        path=choice.path,
        rows={"learn": learning.log.n, "choose": learning.log.n, "certify": rows},
        more_rows=more,
        agreed=choice.agreed,
        declared=declared,
        heaviest=_heaviest(certifying.log),
        guardrails=guarded,
    )


def lower_bound(
    sums: Floats,
    rows: int,
    delta: float,
    about: tuple[float, float, float] | None,
    counts: Floats | None,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound of a row's mean from sums over units, wrong with probability `delta`.

    `about` has the lowest value that is possible, and the spread and mean to expect, for a bound that
    holds for any number of units; without it they are taken for normal.
    """
    from scipy import special

    if about is None:
        error = float(sums.std(ddof=1)) * math.sqrt(len(sums)) / rows
        reach = float(special.stdtrit(max(len(sums) - 1, 1), 1.0 - delta))
        return float(sums.sum()) / rows - reach * error
    lowest, spread, around = about
    # Bets are made row by row, in a random order, so that no time of day comes first.
    order = rng.permutation(len(sums))
    ordered = None if counts is None else counts[order]
    return betting_lower_bound(
        sums[order], lowest, delta, spread=spread, around=around, counts=ordered
    )


def _chosen(
    learning: Side, cap: float, reach: float, size: int, rails: Sequence[WatchedRewards]
) -> Choice:
    """Return the m with the highest expected bound on `size` certifying units."""
    n, units = learning.log.n, units_of(learning.log)
    steps = [2**j for j in range(settings.LARGEST_M.bit_length())]
    gains = {m: summed(learning.lifts(m, cap), units) for m in steps}
    spread = {m: float(g.std(ddof=1)) if len(g) > 1 else 0.0 for m, g in gains.items()}
    promise: dict[int, float] = {}
    path = []
    for m, found in gains.items():
        lift, w = float(found.sum()) / n, learning.drawn.weight(m)
        # The mean of these rows is noisy, and the model expects too much: average both.
        expected = 0.5 * (learning.expected(m) + lift)
        # The spread is that of sums over units; lifts are by row. Divide by the rows of a unit.
        away = settings.CAUTION * reach * spread[m] / (n / len(found))
        promise[m] = expected - away / math.sqrt(size)
        ess = float(w.sum() ** 2 / (w**2).sum()) if (w > 0).any() else 0.0
        path.append(Step(m, float(learning.lifts(m, cap).mean()), promise[m], ess))
    # m = 1 is the logger itself. A step that seems to break a guardrail on these rows would hardly
    # be certified on the others.
    kept = [
        m
        for m in steps[1:]
        if all(float(rail.margins(learning.drawn.weight(m)).mean()) >= 0 for rail in rails)
    ]
    best = max(kept or steps[1:], key=lambda m: promise[m])
    error = spread[best] * math.sqrt(len(gains[best])) / n
    return Choice(best, spread[best], float(gains[best].sum()) / n, error, tuple(path))


def _guarded(
    learning: Side,
    certifying: Side,
    choice: Choice,
    rng: np.random.Generator,
    grade: str,
    level: float,
    rails: Rails,
) -> tuple[GuardrailBound, ...]:
    """Return the bounds of all guardrails at the chosen m, from the certifying rows alone."""
    units, weight = units_of(certifying.log), certifying.drawn.weight(choice.m)
    counts = None if units is None else units[1]
    before = {
        (rail.guardrail.text, rail.group): summed(
            rail.margins(learning.drawn.weight(choice.m)), units_of(learning.log)
        )
        for rail in rails[0]
    }
    each = (1.0 - level) / max(len(rails[1]), 1)
    found = []
    for rail in rails[1]:
        about = None
        if grade == "free":
            seen = before.get((rail.guardrail.text, rail.group), np.empty(0))
            known = len(seen) > 1
            spread, mean = (float(seen.std(ddof=1)), float(seen.mean())) if known else (1.0, 0.0)
            # Weights of best of m are at most m.
            about = rail.lowest(float(choice.m)), spread or 1.0, mean
        margins = rail.margins(weight)
        low = lower_bound(summed(margins, units), len(margins), each, about, counts, rng)
        found.append(rail.bound(weight, low))
    return tuple(found)


def _reach(level: float, grade: str, size: int, counts: Floats | None) -> float:
    """Return how many standard errors the bound lies below the estimate; for grade "free" approximately."""
    from scipy import special

    if grade != "free":
        return float(special.stdtrit(max(size - 1, 1), level))
    # Units of different sizes allow one stake only (`betting_lower_bound`): about Hoeffding's bound.
    if counts is not None and np.ptp(counts) > 0:
        return math.sqrt(2.0 * math.log(1.0 / (1.0 - level)))
    return float(special.ndtri(level)) + 0.15


def _more_rows(
    value: float, stderr: float, rows: int, reach: float, *, total: int, away: float
) -> int | None:
    """Return about how many rows of the whole log would certify this gain; None where there is no gain.

    `away` is the distance from the bound up to the estimate on `total` rows, which falls with the root
    of the rows. Where the bound is at zero or below, more rows than `total` are needed.
    """
    if value <= 0 or stderr <= 0:
        return None
    spread = stderr * math.sqrt(rows)
    # Twice the least number, with which the bound is above zero half of the time.
    certify = 2.0 * (reach * spread / value) ** 2
    needed = certify / (1.0 - settings.LEARN_SHARE)
    return math.ceil(max(needed, total * max(away / value, 1.0) ** 2))


def _heaviest(part: RankingLog) -> Heaviest | None:
    """Return the unit with the most rows and its share, where that is large."""
    if part.unit is None:
        return None
    labels, counts = np.unique(part.unit, return_counts=True)
    most = int(np.argmax(counts))
    share = float(counts[most] / part.n)
    return Heaviest(str(labels[most]), share) if share > settings.HEAVY else None


def units_of(part: RankingLog) -> tuple[Ints, Floats] | None:
    """Return the unit of each row and the number of rows of each unit; None where there are no units."""
    if part.unit is None:
        return None
    _, group, counts = np.unique(part.unit, return_inverse=True, return_counts=True)
    return group.astype(np.int64), counts.astype(np.float64)


def summed(values: Floats, units: tuple[Ints, Floats] | None) -> Floats:
    """Return sums over units, or the values themselves where there are no units."""
    if units is None:
        return values
    return np.bincount(units[0], weights=values, minlength=len(units[1])).astype(np.float64)
