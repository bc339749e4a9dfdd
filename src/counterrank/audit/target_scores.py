"""Scores of targets: missing, filled with one value where they were missing, or of another request."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from counterrank.arrays import Bools, Floats, Ints
from counterrank.audit.findings import SAMPLED_ROWS, Check, Subject, Tally
from counterrank.data.log import RankingLog
from counterrank.data.source import FilteredSource, MemorySource, Source
from counterrank.errors import CounterrankError, LogError
from counterrank.findings import FAILED, PASSED, WARNED, Finding
from counterrank.policies import Scored
from counterrank.texts import in_percent

#: Bins of Fisher's z of the correlations of a row, from -4 to 4.
BINS, REACH = 80, 4.0
#: Candidates of a row whose correlation says something.
FEWEST = 5
#: Rows with scores of another request, as a share, and in standard errors.
SHARE, BEYOND = 0.08, 6.0
#: Standard errors from the mean correlation with another row that are no correlation at all, and rows
#: that would show one of 0.03.
NOTHING, RANDOM_ROWS = 3.0, 2000
#: Distance of the usual correlation from none, in widths of its distribution.
NARROW = 3.0
#: Scores that equal one value, as a share of all, and so many times as many as the next value has.
EQUAL, TIMES = 0.01, 10.0
#: Scores with two values are not cut at them: a smaller share is.
MOST = 0.9
#: Groups of rows whose scores spread differently: their least share, how far apart (log2), and what is
#: between them as a part of the smaller one.
OF_ROWS, APART, BETWEEN = 0.05, 1.5, 0.25
#: Rows of a batch that are looked at.
LOOKED = 4096
#: With a smaller share of rankings the answer is about another population than the log's.
LEAST = 0.5
#: With a smaller share the evidence is directional at best.
NEARLY_ALL = 0.99


def _count_target_scores(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows by the correlation of their scores, and scores that are equal."""
    parts: dict[tuple[str, ...], Floats] = {}
    batch = batch if batch.n <= LOOKED else batch.take(slice(0, LOOKED))
    for name in subject.targets:
        target, logger = batch.targets.get(name), batch.propensity
        if not isinstance(target, Scored) or target.candidates.n != batch.n:
            continue
        parts |= _equal_values(name, target)
        if isinstance(logger, Scored) and logger.candidates.n == batch.n:
            parts["rows", name], parts["spreads", name] = _correlations(target, logger)
    return Tally(parts=parts)


def _judge_target_scores(tally: Tally, subject: Subject) -> list[Finding]:
    """Fail on scores of other rows, warn of filled ones."""
    found: list[Finding] = []
    names = {key[1] for key in tally.parts}
    for name in sorted(names):
        found += [
            *_filled(name, tally),
            *_of_other_rows(name, tally),
            *_of_two_scales(name, tally.parts.get(("spreads", name))),
        ]
    if not names:
        return []
    return found or TARGET_SCORES.passed("scores of targets fit their rows")


#: A target's scores belong to the candidates they stand at, and are scores.
#:
#: What the logger's scores and an item's mean score say of a target's scores in a row is compared with
#: what those of the next row say. Rows with scores of another request are correlated like the latter.
TARGET_SCORES = Check(
    "target-scores", _count_target_scores, _judge_target_scores, most=SAMPLED_ROWS
)


def _equal_values(name: str, target: Scored) -> dict[tuple[str, ...], Floats]:
    """Return the three most common scores of many items, and how many scores there are."""
    finite = np.isfinite(target.scores)
    values, back, counts = np.unique(target.scores[finite], return_inverse=True, return_counts=True)
    found: dict[tuple[str, ...], Floats] = {("scores", name): np.array([float(finite.sum())])}
    items = target.candidates.items[finite]
    for at in np.argsort(-counts)[:3]:
        of_items = len(np.unique(items[back == at]))
        found["equal", name, repr(float(values[at]))] = np.array(
            [counts[at], of_items], dtype=float
        )
    return found


def _filled(name: str, tally: Tally) -> Iterator[Finding]:
    total = float(tally.parts["scores", name][0])
    equal = sorted(
        ((float(sums[0]), float(sums[1]), key[2]) for key, sums in tally.parts.items() if key[:2] == ("equal", name)),
        reverse=True,
    )  # fmt: skip
    if not equal:
        return
    (count, items, value), after = equal[0], equal[1:] or [(0.0, 0.0, "")]
    # Scores that are cut at both ends have two such values, and others between them.
    both = count + after[0][0] < MOST * total and len(after) > 1 and after[0][1] >= 10
    next_count = after[1][0] if both else after[0][0]
    # An item of fixed score has it in all its rows; a value of many items was filled in. Scores of few
    # steps (stars, grades) have more such values.
    if count > EQUAL * total and items >= 10 and count > TIMES * next_count:
        yield Finding(
            TARGET_SCORES.name,
            WARNED,
            f"{in_percent(count / total)} of the scores of '{name}' are exactly {float(value):g}",
            ("leave out rankings whose candidates are not all scored, or score them",),
            cause="missing scores were filled with one value, or scores were cut at it",
            target=name,
        )


def _correlations(target: Scored, logger: Scored) -> tuple[Floats, Floats]:
    """Return rows by Fisher's z of what goes with a row's scores: by its own, and by the next row's (2, BINS).

    And by log2 of how much wider the target's scores spread than the logger's (BINS,).
    """
    sets = target.candidates
    counts = sets.counts
    width = int(counts.max(initial=0))
    inside = np.arange(width) < counts[:, None]
    new, old = (
        sets.dense(np.where(np.isfinite(one.scores), one.scores, 0.0), 0.0)
        for one in (target, logger)
    )
    items = sets.dense(sets.items, 0.0).astype(np.int64)
    half = (np.arange(len(counts)) % 2)[:, None]
    means = _item_means(items, new, inside, half)
    parts = [_standard(one, inside) for one in (old, means)]
    y = _standard(new, inside)
    # How much each of the two says of the scores, from all rows.
    gram = np.array([[(a * b).sum() for b in parts] for a in parts])
    slope = np.linalg.lstsq(gram, np.array([(a * y).sum() for a in parts]), rcond=None)[0]
    said = _standard(slope[0] * parts[0] + slope[1] * parts[1], inside)
    table = np.zeros((2, BINS))
    for row, other in enumerate((said, np.roll(said, 1, axis=0))):
        fits = (counts >= FEWEST) & (counts == (counts if row == 0 else np.roll(counts, 1)))
        r = np.clip((y * other).sum(axis=1)[fits], -0.9993, 0.9993)
        at = ((np.arctanh(r) + REACH) * BINS / (2 * REACH)).astype(np.int64)
        table[row] = np.bincount(np.clip(at, 0, BINS - 1), minlength=BINS)
    lengths = [np.sqrt((_centred(one, inside) ** 2).sum(axis=1)) for one in (new, old)]
    wider = lengths[0] / np.maximum(lengths[1], 1e-300)
    usable = (counts >= FEWEST) & (np.minimum(*lengths) > 1e-4)
    at = (np.log2(wider[usable]) / (4 * REACH) + 0.5) * BINS
    spreads = np.bincount(np.clip(at, 0, BINS - 1).astype(np.int64), minlength=BINS)
    return table, spreads.astype(float)


def _item_means(items: Ints, new: Floats, inside: Bools, half: Ints) -> Floats:
    """Return the mean score of each item in the other half of the rows."""
    size = int(items.max(initial=0)) + 1
    centred = _centred(new, inside)
    out = np.zeros_like(new)
    for side in (0, 1):
        rows = (half == side) & inside
        total = np.bincount(items[rows], centred[rows], size)
        mean = total / (np.bincount(items[rows], minlength=size) + 1.0)
        out = np.where(half != side, mean[items], out)
    return out


def _centred(values: Floats, inside: Bools) -> Floats:
    """Return rows less their means, and zeros outside."""
    kept = np.where(inside, values, 0.0)
    mean = kept.sum(axis=1, keepdims=True) / np.maximum(inside.sum(axis=1, keepdims=True), 1)
    return np.where(inside, values - mean, 0.0)


def _standard(values: Floats, inside: Bools) -> Floats:
    """Return rows with mean zero and length one; zeros where a row does not vary."""
    centred = _centred(values, inside)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    found: Floats = centred / np.where(length > 1e-12, length, 1.0)
    return found


def _of_other_rows(name: str, tally: Tally) -> Iterator[Finding]:
    """Yield where more rows are uncorrelated than the spread above the usual correlation lets expect."""
    table = tally.parts.get(("rows", name))
    if table is None or table[0].sum() < 200:
        return
    own, other = table
    # Sums of Fisher's z of rows with the same law: no better than with another row.
    at = np.arange(BINS)
    means = [float(one @ at) / one.sum() for one in table]
    variance = float(own @ (at - means[0]) ** 2) / float(own.sum())
    spread = math.sqrt(variance * (1 / own.sum() + 1 / other.sum()))
    if own.sum() >= RANDOM_ROWS and means[0] - means[1] < NOTHING * spread:
        yield _of_others(name, 1.0)
        return
    smooth = np.convolve(own, np.full(5, 0.2), mode="same")
    mode = int(smooth.argmax())
    middle = int(np.searchsorted(np.cumsum(other), other.sum() / 2))
    # Correlations must usually be far above those with another row.
    spread = int(np.searchsorted(np.cumsum(other), 0.975 * other.sum())) - middle
    if mode - middle < max(spread, 3):
        return
    below, mirrored = own[: middle + 1].sum(), own[min(2 * mode - middle, BINS) :].sum()
    share = 2 * float(below - mirrored) / float(own.sum())
    error = 2 * math.sqrt(float(below + mirrored) + 1.0) / float(own.sum())
    # Rows whose correlations differ much among themselves may have none as well.
    right = own[mode:]
    width = math.sqrt(float(right @ np.arange(len(right)) ** 2) / float(right.sum()))
    if mode - middle < NARROW * width:
        return
    if share > SHARE and share > BEYOND * error:
        yield _of_others(name, min(share, 1.0))


def _of_two_scales(name: str, counts: Floats | None) -> Iterator[Finding]:
    """Yield where rows fall into two groups by how much the target's scores spread."""
    if counts is None or counts.sum() < 200:
        return
    smooth = np.convolve(counts, np.full(3, 1 / 3), mode="same")
    peak = np.minimum(np.maximum.accumulate(smooth), np.maximum.accumulate(smooth[::-1])[::-1])
    # The lowest place between two peaks; outside of them there is none.
    depth = np.divide(smooth, peak, out=np.ones(BINS), where=peak > 0)
    valley = max(int(depth.argmin()), 1)
    fewer = min(counts[:valley].sum(), counts[valley:].sum()) / counts.sum()
    bins = valley + int(smooth[valley:].argmax()) - int(smooth[:valley].argmax())
    apart = bins * 4 * REACH / BINS
    if fewer >= OF_ROWS and apart >= APART and depth[valley] < BETWEEN:
        yield Finding(
            TARGET_SCORES.name,
            WARNED,
            f"in {in_percent(fewer, 0)} of the rows the scores of '{name}' spread about {2**apart:.2g} times as much "
            "as in the others, or as little",
            ("score all rows by one model in one unit; if two models are meant, evaluate their rows one by one",),
            cause="logits in some rows and probabilities in others, or scores of two models",
            target=name,
        )  # fmt: skip


def _of_others(name: str, share: float) -> Finding:
    return Finding(
        TARGET_SCORES.name,
        FAILED,
        f"in about {in_percent(share, 0)} of the rows the scores of '{name}' fit the candidates of "
        "another row as well as their own",
        ("join the target's scores by the id of the request and of the item",),
        cause="scores of another request, or in another order of the candidates",
        target=name,
    )


@dataclass
class Coverage:
    """How many rankings a target scores in full; known after a pass."""

    target: str
    rows: int = 0
    kept: int = 0

    def counted(self, rows: int, kept: int) -> None:
        """Take the counts of a pass; too small a share is refused."""
        self.rows, self.kept = rows, kept
        if kept < LEAST * rows:
            raise self.refusal()

    def refusal(self) -> CounterrankError:
        """Return the error for a target that scores too few rankings."""
        return LogError(
            f"'{self.target}' scores all candidates in {self.kept:,} of {self.rows:,} rankings; at "
            f"least {in_percent(LEAST, 0)} must be scored in full",
            remedy="score every candidate, also those that were not shown; -inf stands for a "
            "candidate that the target never shows",
        )

    def findings(self) -> Iterator[Finding]:
        """Yield what was left out, where anything was."""
        left = self.rows - self.kept
        if not left:
            return
        yield Finding(
            TARGET_SCORES.name,
            PASSED if self.kept >= NEARLY_ALL * self.rows else WARNED,
            f"'{self.target}' scores all candidates in {in_percent(self.kept / self.rows)} of the "
            f"rankings; the other {left:,} of {self.rows:,} are left out",
            ("score every candidate, also those that were not shown",),
            cause="the value is that of the rankings scored in full, which may differ from the others",
            target=self.target,
        )


def _scored(batch: RankingLog, target: str) -> Bools:
    """Return in which rows (n,) the target scores every candidate."""
    policy = batch.targets[target]
    if not isinstance(policy, Scored) or policy.n_rows != batch.n:
        return np.ones(batch.n, dtype=bool)
    return ~policy.unscored


def scored_rows(source: Source, targets: Iterable[str]) -> tuple[Source, list[Coverage]]:
    """Return the source of the rankings that the targets score in full, and the coverage of each target."""
    found = []
    for target in targets:
        if not isinstance(source.first.targets.get(target), Scored):
            continue
        one = Coverage(target)
        found.append(one)
        if isinstance(source, MemorySource):
            keep = _scored(source.log, target)
            one.counted(len(keep), int(keep.sum()))
            if not keep.all():
                source = MemorySource(source.log.where(keep), threads=source.threads)
        else:
            chosen = partial(_scored, target=target)
            source = FilteredSource(source, chosen, one.refusal, one.counted, source.n)
    return source, found
