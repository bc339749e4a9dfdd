"""Clicks that fit another page of the same visitor better than the one they stand at."""

import math

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally
from counterrank.data.log import RankingLog
from counterrank.findings import FAILED, Finding
from counterrank.messages import REWARD_PER_RANKING
from counterrank.texts import in_percent

#: Standard errors of the part that another page explains (1e-4 on one side), and the least part that
#: matters.
BEYOND, LEAST = 3.7, 0.1
#: Standard errors of what the other page's items explain where the own ones explain less than a third.
ALL_BEYOND = 6.0
#: Items are counted in so many bins.
BINS = 4096
#: Pairs of pages of one visitor from which something can be seen.
PAIRS = 300


def _count_other_page(batch: RankingLog, subject: Subject) -> Tally:
    """Sum the normal equations of both regressions."""
    if batch.unit is None or batch.K < 2 or REWARD_PER_RANKING in subject.first.notes:
        return Tally()
    unit = np.unique(batch.unit, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((np.arange(batch.n), unit))
    same = unit[order[1:]] == unit[order[:-1]]
    earlier, later = order[:-1][same], order[1:][same]
    if not len(earlier):
        return Tally()
    used = subject.used(batch)
    hit = (batch.reward != 0) & used
    off = np.where(used, hit - hit.sum(axis=0) / np.maximum(used.sum(axis=0), 1), 0.0)
    effects = _item_effects(batch.action, off, used, unit)
    sums: dict[str, Floats] = {"pairs": np.array([float(len(earlier))])}
    for name, rows, others in (("later", earlier, later), ("earlier", later, earlier)):
        both = used[rows] & used[others] & (batch.action[rows] != batch.action[others])
        own = _effect(effects, batch.action[rows], unit[rows])
        other = _effect(effects, batch.action[others], unit[rows])
        rest = (other.sum(axis=1, keepdims=True) - other) / max(batch.K - 1, 1)
        x = np.stack([own[both], other[both], rest[both]])
        y = off[rows][both]
        sums[name] = np.concatenate([(x @ x.T).reshape(-1), x @ y, [float(y @ y), float(len(y))]])
        # Where all rewards stand at another page, none tells of its own items: effects are those
        # of the other page's items then.
        theirs = _item_effects(batch.action[others], off[rows], both, unit[rows])
        alone = _effect(theirs, batch.action[others], unit[rows])[both]
        sums[f"{name} alone"] = np.array([
            x[0] @ x[0], x[0] @ y, alone @ alone, alone @ y, y @ y, float(len(y))
        ])  # fmt: skip
    return Tally(sums=sums)


def _judge_other_page(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail where the other page explains a part of the rewards beyond chance."""
    if tally.count("pairs") < PAIRS:
        return OTHER_PAGE.skipped("too few visitors come twice to compare their pages")
    for name in ("later", "earlier"):
        part, z = _explained(tally.sums[name])
        own, other = _alone(tally.sums[f"{name} alone"])
        if other > ALL_BEYOND and own < other / 3:
            part, z = 1.0, other
        if z > BEYOND and part > LEAST:
            return OTHER_PAGE.finds(
                FAILED,
                f"about {in_percent(min(part, 1.0), 0)} of the rewards go with the {name} page of "
                f"the same visitor (z = {z:.1f}), not with the one they stand at",
                cause="clicks were joined to another request of the same user",
                remedy="join rewards by the id of the request, not by the user and the time",
            )
    return OTHER_PAGE.passed("rewards go with the page they stand at")


#: Rewards go with the page they stand at, not with the visitor's page before or after it.
#:
#: Item effects are estimated on one half of the visitors and used on the other. A reward, less the
#: rate of its position, is regressed on the effect of its own item, on that of the item at the same
#: position of the visitor's other page, and on the mean effect of that page's other positions, which
#: stands for what visitors have in common with all their pages.
OTHER_PAGE = Check("rewards-by-visit", _count_other_page, _judge_other_page, most=SAMPLED_ROWS)


def _item_effects(
    action: Ints, off: Floats, used: NDArray[np.bool_], unit: NDArray[np.int64]
) -> Floats:
    """Return the mean (2, BINS) of reward - rate of each bin of items, by the other half of the visitors."""
    means = np.zeros((2, BINS))
    for side in (0, 1):
        rows = unit % 2 == side
        cells = used[rows]
        at = action[rows][cells] % BINS
        count = np.bincount(at, minlength=BINS)
        # Shrunk by five cells: items that were hardly seen say nothing.
        means[1 - side] = np.bincount(at, off[rows][cells], BINS) / (count + 5.0)
    return means


def _effect(means: Floats, action: Ints, unit: NDArray[np.int64]) -> Floats:
    found: Floats = means[(unit % 2)[:, None], action % BINS]
    return found


def _explained(sums: Floats) -> tuple[float, float]:
    """Return the other page's part of what items explain, and its coefficient in standard errors."""
    gram, moments, (square, n) = sums[:9].reshape(3, 3), sums[9:12], sums[12:]
    if n < 100 or np.linalg.matrix_rank(gram) < 3:
        return 0.0, 0.0
    slope = np.linalg.solve(gram, moments)
    residual = max(float(square - slope @ moments), 0.0) / n
    error = float(np.sqrt(residual * np.linalg.inv(gram)[1, 1]))
    part = slope[1] / max(abs(slope[0]) + abs(slope[1]), 1e-12)
    return float(part), float(slope[1] / error) if error > 0 else 0.0


def _alone(sums: Floats) -> tuple[float, float]:
    """Return how well own items and those of the other page explain rewards, in standard errors."""
    own, own_y, other, other_y, square, n = sums
    scale = math.sqrt(max(float(square) / max(float(n), 1.0), 1e-300))
    pairs = ((own, own_y), (other, other_y))
    first, second = (float(y) / (scale * math.sqrt(x)) if x > 0 else 0.0 for x, y in pairs)
    return first, second
