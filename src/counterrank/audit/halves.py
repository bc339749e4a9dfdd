"""The lift in both halves of the log: where it changes, tomorrow's is not the mean."""

import math
from collections.abc import Iterator

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.audit.findings import (
    SAMPLED_ROWS,
    Check,
    Subject,
    Tally,
    design_effect,
)
from counterrank.audit.groups import BLOCK, DAY, formed_weights, row_groups
from counterrank.data.log import RankingLog
from counterrank.findings import WARNED, Finding
from counterrank.kernels.jit import jit
from counterrank.statistics import two_sided

#: False alarms per log, over all targets and both statistics: by time, and by the order of rows, which may
#: be any order.
CHANCE, CHANCE_OF_ROWS = 1e-3, 1e-5
#: Rows of a half.
FEWEST = 500
#: Logarithms of weights are cut here: heavy weights would decide alone.
CUT = 2.0
#: The halves differ by at least this part of their mean.
MATERIAL = 0.3


def _count_lift_by_halves(batch: RankingLog, subject: Subject) -> Tally:
    """Sum both statistics, their squares and the rewards, by day or stretch of rows."""
    labels, codes = row_groups(batch, subject)[BLOCK if subject.time is None else DAY]
    reward = np.ascontiguousarray(batch.reward)
    parts: dict[tuple[str, ...], Floats] = {}
    for name in subject.targets:
        w = formed_weights(batch, name, subject)
        if w is None:
            continue
        w = np.ascontiguousarray(w)
        cells = (w, np.log(w), reward, subject.rates * subject.amount, batch.position_weights)
        if batch.unit is not None:
            parts["units", name] = np.zeros((1024, 6))
            lift_sums(*cells, batch.lengths, batch.bucket, parts["units", name])
        table = np.zeros((len(labels), 6))
        lift_sums(*cells, batch.lengths, codes, table)
        for label, sums in zip(labels, table, strict=True):
            if sums[0]:
                parts["by", name, label] = sums
    return Tally(parts=parts)


@jit
def lift_sums(
    w: Floats, away: Floats, reward: Floats, rates: Floats, alpha: Floats, lengths: Ints, code: Ints, out: Floats
) -> None:  # fmt: skip
    """Add 1, what was earned, and both statistics with their squares to out (G, 6), by code (n,).

    `away` are the logarithms of the weights w (n, K), which are cut in place.
    """
    n, width = w.shape
    mean = np.zeros(width)
    for i in range(n):
        for k in range(width):
            away[i, k] = min(max(away[i, k], -CUT), CUT)
            mean[k] += away[i, k] / n
    for i in range(n):
        earned, weighed, local = 0.0, 0.0, 0.0
        # Padding has no reward; only its weights have to be kept out.
        for k in range(lengths[i]):
            earned += alpha[k] * reward[i, k]
            weighed += alpha[k] * w[i, k] * reward[i, k]
            local += alpha[k] * (reward[i, k] - rates[k]) * (away[i, k] - mean[k])
        lift, sums = weighed - earned, out[code[i]]
        sums[0] += 1.0
        sums[1] += earned
        sums[2] += lift
        sums[3] += lift * lift
        sums[4] += local
        sums[5] += local * local


def _judge_lift_by_halves(tally: Tally, subject: Subject) -> list[Finding]:
    """Warn where the lift changes along the log beyond chance."""
    found: list[Finding] = []
    names = list(dict.fromkeys(key[1] for key in tally.parts))
    for name in names:
        rows = {key[2]: sums for key, sums in tally.parts.items() if key[:2] == ("by", name)}
        order = sorted(rows, key=int if subject.time is None else str)
        table = np.stack([rows[label] for label in order])
        chance = (CHANCE_OF_ROWS if subject.time is None else CHANCE) / (2 * len(names))
        found += _changed(name, table, tally.parts.get(("units", name)), chance)
    if not names:
        return []
    return found or LIFT_BY_HALVES.passed("the lift is alike in both halves of the log")


#: The lift does not change in the course of the log.
#:
#: Two statistics: the lift by weights, and how rewards go with the logarithm of the weight (how the value
#: begins to change on the way from the logger to the target), which is far less noisy.
LIFT_BY_HALVES = Check(
    "lift-by-halves", _count_lift_by_halves, _judge_lift_by_halves, most=2 * SAMPLED_ROWS
)


def _changed(name: str, table: Floats, units: Floats | None, chance: float) -> Iterator[Finding]:
    """Yield where a statistic, as a share of the rewards, has a trend along the days or stretches (D, 6)."""
    n = table[:, 0]
    # The middle of each day among the rows: 0 in the middle of the log.
    moment = (np.cumsum(n) - n / 2) / n.sum() - 0.5
    first, second = (table[side].sum(axis=0) for side in (moment < 0, moment >= 0))
    if min(first[0], second[0]) < FEWEST or min(first[1], second[1]) <= 0:
        return
    total = table.sum(axis=0)
    for at in (2, 4):
        halves = [float(half[at] / half[1]) for half in (first, second)]
        spread = max(total[at + 1] / total[0] - (total[at] / total[0]) ** 2, 0.0)
        # Rows of one user are alike, and count for less.
        design = design_effect(None if units is None else units.T[[0, at, at + 1]])
        trend = float(moment @ (table[:, at] - table[:, 1] * total[at] / total[1]))
        p = two_sided(trend, math.sqrt(design * spread * float(moment**2 @ n)))
        if p <= chance and abs(halves[0] - halves[1]) > MATERIAL * abs(sum(halves)) / 2:
            lifts = [100 * float(half[2] / half[1]) for half in (first, second)]
            yield Finding(
                LIFT_BY_HALVES.name,
                WARNED,
                f"the lift of '{name}' changes in the course of the log (p = {p:.1g}): by weights it is "
                f"{lifts[0]:+.1f} % in the first half and {lifts[1]:+.1f} % in the second",
                ("evaluate the latest days alone, and look again with later ones",),
                cause="what people like changes, and the target likes what is on the rise or in decline",
                target=name,
            )
            return
