"""Rewards that stand at the wrong page: at another page of the visitor, at another row, or anywhere."""

from collections.abc import Iterator

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally, neighbours, sums_by
from counterrank.audit.item_rates import one_per_page
from counterrank.audit.propensities import logged_numbers
from counterrank.audit.scores import shown_scores
from counterrank.data.log import LOGGING, RankingLog
from counterrank.findings import FAILED, WARNED, Finding
from counterrank.kernels.jit import jit
from counterrank.texts import in_percent

#: Standard errors of the part that another page explains (1e-4 on one side), and the least part that
#: matters.
BEYOND, LEAST = 3.7, 0.1
#: Standard errors of what the other page's items explain where the own ones explain less than a third.
ALL_BEYOND = 6.0
#: Items are counted in so many bins.
BINS = 4096
#: Pairs of pages, and rewards, from which something can be seen.
PAIRS, SOME = 300, 200
#: By how many positions the item above or below a slot is moved to stand at it.
SLOTS = {"above": 1, "below": -1}
FINDINGS = PAGE, NEIGHBOUR = "rewards-by-visit", "rewards-by-neighbour"
#: Rewards from which something must explain them, and standard errors that are an explanation.
REWARDS, EXPLAINED = 1000, 3.0


def _count_other_page(batch: RankingLog, subject: Subject) -> Tally:
    """Sum the normal equations of the regressions, and what goes with rewards at all."""
    if batch.K < 2:
        return Tally()
    used, hit = subject.used(batch), subject.rewarded(batch)
    shown, hits = subject.items(batch), hit.sum(axis=0)
    off = (hit - hits / np.maximum(shown, 1)) * used
    # Effects of items are of the other half of the visitors, or of every second pair of rows.
    side = np.arange(batch.n) // 2 % 2
    every = np.arange(batch.n)
    earlier, later = every[:-1], every[1:]
    pairs = [(f"item {where} it", every, every, shift) for where, shift in SLOTS.items()]
    pairs += [("row below", earlier, later, 0), ("row above", later, earlier, 0)]
    if batch.unit is not None:
        unit = np.unique(batch.unit, return_inverse=True)[1]
        side = unit % 2
        name, (earlier, later) = "page of the same visitor", neighbours(unit)
        pairs += [(f"later {name}", earlier, later, 0), (f"earlier {name}", later, earlier, 0)]
    # Each item in a bin of its side.
    at = (np.ascontiguousarray(batch.action) & (BINS - 1)) + BINS * side[:, None]
    means = _effects(at, off, used)
    parts: dict[tuple[str, ...], Floats] = {}
    for name, rows, others, shift in pairs:
        parts[name,] = np.array(page_sums(at, off, used, means, rows, others, shift))
    page = off.sum(axis=1)
    going = {
        **_going_with(batch, subject, off, page, used),
        "items": _moments(means[at] * off),
        "visitors": _moments(page[earlier] * page[later]),
        "positions": np.stack([shown, hits, hits]).astype(float),
        "early": subject.page_counts(batch).early,
    }
    return Tally(sums=going, parts=parts)


def _moments(values: Floats) -> Floats:
    flat = values.reshape(-1)
    return np.array([flat.sum(), flat @ flat])


def _effects(at: Ints, off: Floats, used: Bools) -> Floats:
    """Return the mean of reward - rate of each bin of items on each side, by the rows of the other side."""
    count = np.bincount(at.reshape(-1), used.reshape(-1), 2 * BINS)
    total = np.bincount(at.reshape(-1), (off * used).reshape(-1), 2 * BINS)
    # Shrunk by five cells: items that were hardly seen say nothing.
    return np.roll(total / (count + 5.0), BINS)


@jit
def page_sums(
    at: Ints, off: Floats, used: Bools, means: Floats, rows: Ints, others: Ints, shift: int
) -> tuple[float, ...]:
    """Return the sums of both regressions for rows and their other pages, or the slot above or below.

    What may explain a reward y: the effect of its own item (a), that of the other page's item (b), the mean
    of that page's other positions (c), and the other page's where all rewards stand there (d).
    """
    width, size = at.shape[1], means.shape[0]
    count, alone = np.zeros(size), np.zeros(size)
    cells, aa, ab, ac, bb, bc, cc, dd = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    ay, by, cy, dy, yy = 0.0, 0.0, 0.0, 0.0, 0.0
    # Where all rewards stand at another page, none tells of its own items: effects are those of the other
    # page's items then, which the first turn sums.
    for turn in range(2):
        for i in range(rows.shape[0]):
            row, other = rows[i], others[i]
            # The other page's items, on the side of the row.
            side = at[row, 0] & ~(BINS - 1)
            page = 0.0
            for k in range(width if turn else 0):
                page += means[(at[other, k] & (BINS - 1)) + side]
            for k in range(max(shift, 0), width + min(shift, 0)):
                item = (at[other, k - shift] & (BINS - 1)) + side
                # A factor of 0 or 1, because branches that cannot be foreseen cost more.
                both = 1.0 * ((item != at[row, k]) & used[row, k] & used[other, k - shift])
                y = off[row, k] * both
                if not turn:
                    count[item] += both
                    alone[item] += y
                    continue
                a, b, d = (
                    both * means[at[row, k]],
                    both * means[item],
                    both * alone[(item + BINS) % size],
                )
                c = (both * page - b) / max(width - 1, 1)
                aa, ab, ac, ay = aa + a * a, ab + a * b, ac + a * c, ay + a * y
                bb, bc, by = bb + b * b, bc + b * c, by + b * y
                cc, cy, dd, dy = cc + c * c, cy + c * y, dd + d * d, dy + d * y
                yy, cells = yy + y * y, cells + both
        for item in range(size):
            alone[item] /= count[item] + 5.0
    return aa, ab, ac, ab, bb, bc, ac, bc, cc, ay, by, cy, yy, cells, dd, dy, rows.shape[0]


def _going_with(
    batch: RankingLog, subject: Subject, off: Floats, page: Floats, used: Bools
) -> dict[str, Floats]:
    """Return sums of what may go with rewards: of products with scores, and of pages by groups."""
    found = {}
    numbers = logged_numbers(batch, LOGGING)
    known = shown_scores(batch) if numbers is None else numbers
    if known.shape == off.shape:
        scores = np.where(used & np.isfinite(known), known, 0.0)
        found["scores"] = _moments(off * (scores - scores.mean(axis=0)))
    for cut in subject.cuts:
        codes, size = cut.codes(batch), len(cut.names)
        found[f"context {cut.column}"] = sums_by(codes, size, (np.ones(batch.n), page, page**2))
    return found


def _judge_other_page(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail where another page explains a part of the rewards beyond chance, warn where nothing does."""
    if not tally.parts or tally.sums["positions"][1].sum() < SOME or one_per_page(tally, subject):
        return OTHER_PAGE.skipped("too few rewards, or one per page, to compare pages")
    for (name,), sums in tally.parts.items():
        part, z = _explained(sums[:14])
        own, other = _alone(sums)
        if other > ALL_BEYOND and own < other / 3:
            part, z = 1.0, other
        if sums[-1] >= PAIRS and z > BEYOND and part > LEAST:
            slot = name.startswith("item ")
            return [
                Finding(
                    NEIGHBOUR if slot else PAGE,
                    FAILED,
                    f"about {in_percent(min(part, 1.0), 0)} of the rewards depend on the {name} "
                    f"(z = {z:.1f}), not on the {'item' if slot else 'page'} at which they are recorded",
                    ("check how positions are counted, from 0 or from 1, on both sides of the join",)
                    if slot
                    else ("join rewards by the id of the request, not by the user, the time or the row",),
                    cause="rewards are recorded one position too high or too low"
                    if slot
                    else "clicks were joined to another request of the same user, or are some rows off",
                )
            ]  # fmt: skip
    if tally.sums["positions"][1].sum() >= REWARDS and not any(_explanations(tally)):
        return OTHER_PAGE.finds(
            WARNED,
            "rewards depend on nothing in the log: not on items, scores, visitors or the context",
            cause="rewards are recorded in the wrong rows, or are random",
            remedy="join rewards by the id of the request",
        )
    return OTHER_PAGE.passed("rewards fit the page they are recorded at")


#: Rewards go with the page they stand at, not with the visitor's page before or after it or another row.
#:
#: Item effects are estimated on one half of the visitors and used on the other. A reward, less the
#: rate of its position, is regressed on the effect of its own item, on that of the item at the same
#: position of the other page, and on the mean effect of that page's other positions, which
#: stands for what visitors have in common with all their pages.
OTHER_PAGE = Check(PAGE, _count_other_page, _judge_other_page, most=SAMPLED_ROWS // 2)


def _explanations(tally: Tally) -> Iterator[bool]:
    """Yield whether each thing goes with rewards; True where the log has nothing but items to look at.

    Rewards that do not even go with the position are chance, and stand nowhere wrong.
    """
    seen = [name for name in tally.sums if name.startswith("context ")]
    yield not seen or not _differ(tally.sums["positions"])
    for name in ("items", "scores", "visitors"):
        total, square = tally.sums.get(name, np.zeros(2))
        yield abs(total) > EXPLAINED * np.sqrt(square)
    yield from (_differ(tally.sums[name]) for name in seen)


def _differ(sums: Floats) -> bool:
    """Return whether the means of groups, from counts and sums of y and y^2 (3, G), differ beyond chance."""
    from scipy import special

    rows, first, second = sums[:, sums[0] > 0]
    mean = first.sum() / rows.sum()
    variance = max(second.sum() / rows.sum() - mean**2, 1e-300)
    spread = float(((first - rows * mean) ** 2 / rows).sum() / variance)
    # As rare as the standard errors of the others.
    return bool(special.chdtrc(max(len(rows) - 1, 1), spread) < 2 * special.ndtr(-EXPLAINED))


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
    scale = np.sqrt(max(float(sums[12]) / max(float(sums[13]), 1.0), 1e-300))
    pairs = ((sums[0], sums[9]), (sums[14], sums[15]))
    own, other = (float(y / (scale * np.sqrt(x))) if x > 0 else 0.0 for x, y in pairs)
    return own, other
