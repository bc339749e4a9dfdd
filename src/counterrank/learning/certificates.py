"""The certificate: a step chosen on the learning rows, whose lift is bounded once on the others."""

import math
from dataclasses import dataclass

import numpy as np

from counterrank.arrays import Floats
from counterrank.data.log import RankingLog
from counterrank.learning import settings
from counterrank.learning.guardrails import GuardrailBound
from counterrank.learning.paths import Side
from counterrank.learning.result import Certificate, CertifiedLift, Heaviest, Step
from counterrank.statistics import betting_lower_bound


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
) -> Certificate:
    """Choose m on the learning rows, then bound its lift once on the others.

    `declared`: the log says which rows belong to one visitor, by units or by a declaration.
    """
    rows, counts = certifying.log.n, certifying.counts
    reach = _reach(level, grade, counts)
    choice = _chosen(learning, cap, reach, len(counts))
    gains = certifying.lifts(choice.m, cap)
    sums, value = certifying.summed(gains), float(gains.mean())
    stderr = _error(sums, rows)
    about = (certifying.lowest(choice.m, cap), choice.spread, choice.lift)
    low = lower_bound(sums, counts, 1.0 - level, about if grade == "free" else None, rng)
    seen = (value, stderr, rows) if choice.agreed else (choice.lift, choice.error, learning.log.n)
    total = learning.log.n + rows
    short = low <= 0 or not choice.agreed
    more = _more_rows(*seen, reach, total=total, away=value - low) if short else None
    # Both sides must show a gain, and visitors must be known. Lowering a bound keeps it valid.
    if not (choice.agreed and declared):
        low = min(low, 0.0)
    earned = float(certifying.totals.mean())
    guarded = _guarded(learning, certifying, choice, rng, grade, level)
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
    counts: Floats,
    delta: float,
    about: tuple[float, float, float] | None,
    rng: np.random.Generator,
) -> float:
    """Return a lower bound of a row's mean from sums over units of so many rows, wrong with probability `delta`.

    `about` has the lowest value that is possible, and the spread and mean to expect, for a bound that
    holds for any number of units; without it they are taken for normal.
    """
    if about is None:
        rows = int(counts.sum())
        return float(sums.sum()) / rows - _t_value(1.0 - delta, len(sums)) * _error(sums, rows)
    lowest, spread, around = about
    # Bets are made row by row, in a random order, so that no time of day comes first.
    order = rng.permutation(len(sums))
    return betting_lower_bound(
        sums[order], lowest, delta, spread=spread, around=around, counts=counts[order]
    )


def _error(sums: Floats, rows: int) -> float:
    """Return the standard error of a row's mean from sums over units."""
    return float(sums.std(ddof=1)) * math.sqrt(len(sums)) / rows


def _t_value(level: float, units: int) -> float:
    from scipy import special

    return float(special.stdtrit(max(units - 1, 1), level))


def _chosen(learning: Side, cap: float, reach: float, size: int) -> Choice:
    """Return the m with the highest expected bound on `size` certifying units."""
    n = learning.log.n
    steps = [2**j for j in range(settings.LARGEST_M.bit_length())]
    gains = {m: learning.summed(learning.lifts(m, cap)) for m in steps}
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
        path.append(Step(m, lift, promise[m], ess))
    # m = 1 is the logger itself. A step that seems to break a guardrail on these rows would hardly
    # be certified on the others.
    kept = [
        m
        for m in steps[1:]
        if all(float(rail.margins(learning.drawn.weight(m)).mean()) >= 0 for rail in learning.rails)
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
) -> tuple[GuardrailBound, ...]:
    """Return the bounds of all guardrails at the chosen m, from the certifying rows alone."""
    weight, counts = certifying.drawn.weight(choice.m), certifying.counts
    before = {
        (rail.guardrail.text, rail.group): learning.summed(
            rail.margins(learning.drawn.weight(choice.m))
        )
        for rail in learning.rails
    }
    each = (1.0 - level) / max(len(certifying.rails), 1)
    found = []
    for rail in certifying.rails:
        about = None
        if grade == "free":
            seen = before.get((rail.guardrail.text, rail.group), np.empty(0))
            known = len(seen) > 1
            spread, mean = (float(seen.std(ddof=1)), float(seen.mean())) if known else (1.0, 0.0)
            # Weights of best of m are at most m.
            about = rail.lowest(float(choice.m)), spread or 1.0, mean
        sums = certifying.summed(rail.margins(weight))
        low = lower_bound(sums, counts, each, about, rng)
        found.append(rail.bound(weight, low))
    return tuple(found)


def _reach(level: float, grade: str, counts: Floats) -> float:
    """Return how many standard errors the bound lies below the estimate; for grade "free" approximately."""
    from scipy import special

    if grade != "free":
        return _t_value(level, len(counts))
    # Units of different sizes allow one stake only (`betting_lower_bound`): about Hoeffding's bound.
    if np.ptp(counts) > 0:
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
