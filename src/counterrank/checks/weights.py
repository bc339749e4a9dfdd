"""E[w] = 1, everywhere: at every position, in every stretch of the log, in every group of every context column.

True propensities make weights average 1 whatever the context. A policy that changed half way, a
join that failed for one device or a reason for showing an item that was not logged (a confounder)
leave the overall mean at 1 and move the means of groups. One pass, additive, at any size. And the lift
by weights in both halves of the log: where it changes, tomorrow's is not the mean.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.checks.base import (
    BLOCK,
    DAY,
    GROUPED_ROWS,
    SAMPLED_ROWS,
    Check,
    Parts,
    Subject,
    Tally,
    by_label,
    complete,
    design_effect,
    families,
    first_items,
    formed_once,
    group_sums,
)
from counterrank.checks.conditions import left_out
from counterrank.checks.propensities import number_sums
from counterrank.checks.rows import days_of
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import CounterrankError
from counterrank.common.findings import FAILED, PASSED, SKIPPED, WARNED, Finding, Findings
from counterrank.common.messages import say
from counterrank.common.texts import in_percent, in_z
from counterrank.data.columns import interval_names
from counterrank.data.log import RankingLog
from counterrank.estimators.weights.thresholds import LIMITING, THRESHOLDS
from counterrank.kernels.jit import jit
from counterrank.policies import Policy, TeamDraft
from counterrank.statistics import two_sided

#: Groups with fewer effective rows are not tested: their means are too skewed for any of these
#: tests. A sorted list may well match no logged item at a position: a mean of 0 without any spread says
#: nothing about propensities.
TESTED_ESS = 100.0
#: A position at which one row makes this share of all squared weights shows no variance to test
#: with.
DOMINATED = 0.2
#: Quantiles of a number, labels of a category (the rest stand together).
QUANTILES, LABELS = 8, 40
#: By what rows are grouped: the labels, and the label's number of each row (n,).
RowGroups = dict[str, tuple[list[str], Ints]]
#: Standard errors from the common mean at which a group may be left out.
APART = 4.0


@dataclass(frozen=True, slots=True)
class ContextCut:
    """How one context column falls into groups: edges of a number, or the labels of a category."""

    column: str
    index: int
    edges: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The groups by number; missing values come last."""
        labels = self.labels[:LABELS]
        named = (
            (*labels, *(["other"] if len(self.labels) > LABELS else []))
            if self.labels
            else interval_names(self.edges)
        )
        return (*named, "missing")

    def codes(self, batch: RankingLog) -> Ints:
        """Return the group of each row (n,)."""
        assert batch.context is not None
        values = batch.context[:, self.index]
        if self.labels:
            # Labels beyond the kept ones share "other", the last but one.
            code = np.minimum(np.nan_to_num(values, nan=0.0).astype(np.int64), len(self.names) - 2)
        else:
            # A handful of comparisons of whole columns is quicker than a search for each value.
            values = np.ascontiguousarray(values)
            small = np.zeros(len(values), np.int8)
            for edge in self.edges:
                small += values >= edge
            code = small.astype(np.int64)
        missing = np.isnan(values)
        if missing.any():
            code[missing] = len(self.names) - 1
        return code


def context_cuts(sample: RankingLog) -> tuple[ContextCut, ...]:
    """Return a cut for every context column that varies, with the quantiles of a sample of rows."""
    cuts = []
    for index, name in enumerate(sample.context_names):
        if name in sample.categories:
            cuts.append(ContextCut(name, index, labels=tuple(sample.categories[name])))
        elif sample.context is not None:
            values = sample.context[:, index]
            present = values[~np.isnan(values)]
            # An edge at the smallest value would leave an empty group below it; where every quantile is
            # that value (a rare flag), the group above it begins at the next.
            above = present[present > present.min(initial=math.inf)]
            if len(above):
                shares = np.arange(1, QUANTILES) / QUANTILES
                edges = np.unique(np.quantile(present, shares, method="higher"))
                inner = edges[edges >= above.min()].tolist() or [float(above.min())]
                cuts.append(ContextCut(name, index, tuple(inner)))
    return tuple(cuts)


@jit
def grouped_sums(w: Floats, lengths: Ints, code: Ints, out: Floats) -> None:
    """Add count, w, w^2 and w^3 of weights (n, K) to out (G, 5, K), by group `code` (n,); the largest w comes last."""
    for i in range(w.shape[0]):
        sums = out[code[i]]
        for k in range(lengths[i]):
            value = w[i, k]
            sums[0, k] += 1.0
            sums[1, k] += value
            sums[2, k] += value * value
            sums[3, k] += value * value * value
            sums[4, k] = max(sums[4, k], value)


def _count_weights(batch: RankingLog, subject: Subject) -> Tally:
    """Sum count, w and w^2 by position; 1/p of the logger too."""
    items, one_group = subject.items(batch), np.zeros(batch.n, np.int64)
    factors = "numbers" in subject.has and subject.kind in ("factored", "position")
    sums = {"1/p": number_sums(subject, batch)[:3]} if factors else {}
    parts: Parts = {}
    for name, lent in subject.lent.items():
        if name in subject.targets and (sums_of_w := lent.position_sums) is not None:
            # Padding was summed as ones.
            parts[name,] = np.concatenate([items[None], sums_of_w - (batch.n - items)])
    # Only weights of policies without repeats, which no pass lends, are so skewed that cubes matter.
    weighed = [name for name in subject.targets if (name,) not in parts]
    for name, w in formed_weights(batch, subject, weighed):
        table = np.zeros((1, 5, batch.K))
        grouped_sums(w, batch.lengths, one_group, table)
        parts[name,] = table[0, :4]
    actions = max(int(batch.action.max(initial=0)) + 1, subject.first.n_actions)
    return Tally(sums, {"actions": np.array([actions])}, parts=parts)


def _judge_weights(tally: Tally, subject: Subject) -> Findings:
    """Yield the findings on the logger's numbers and on each target's mean weight.

    Bonferroni over positions; material when the mean is off by 10 %.
    """
    inverse = _inverse(tally, subject)
    yield inverse
    tests, weak = {}, {}
    for name in subject.targets:
        if (name,) in tally.parts:
            sums = tally.parts[name,]
            tests[name] = mean_tests(sums, down_the_page=subject.down_the_page)
            p = tests[name][2]
            weak[name] = p * np.sum(~np.isnan(p)) <= LIMITING
    if not tests:
        text = "no target policy was named, or its weights cannot be formed"
        yield WEIGHTS.says(SKIPPED, text)
    alone = len(tests) > 1 == sum(map(np.any, weak.values()))
    for name, (mean, z, p) in tests.items():
        rows, first = tally.parts[name,][:2]
        # No weight at all, where there are enough rows for one.
        if not first.any() and rows.max() >= TESTED_ESS:
            yield _unmatched(name, subject)
        elif isinstance(subject.first.propensity, TeamDraft) and weak[name].any():
            yield _drafted(name, mean, weak[name])
        else:
            small = inverse.status is FAILED
            yield _overall(name, mean, z, p, weak[name], alone=alone, small=small)


#: The mean weight at each position, and what the logger's numbers alone give away.
WEIGHTS = Check(
    "mean-weight",
    "propensities",
    "",
    _count_weights,
    _judge_weights,
    explains=("mean-weight*", "lift-by-halves"),
)


def _count_group_weights(batch: RankingLog, subject: Subject) -> Tally:
    """Sum count, w, w^2 and w^3 by group and position."""
    parts: Parts = {}
    sums: dict[str, Floats] = {}
    peaks: dict[str, Floats] = {}
    for name, w in formed_weights(batch, subject, subject.targets):
        if batch.unit is not None:
            per_item = w.sum(axis=1) / np.maximum(batch.lengths, 1)
            sums[name] = group_sums(batch.bucket, 1024, per_item)
        for kind, (labels, codes) in row_groups(subject, batch).items():
            table = np.zeros((len(labels), 5, batch.K))
            grouped_sums(w, batch.lengths, codes, table)
            parts |= by_label((name, kind), labels, table[:, :4])
            peaks[name] = table[:, 4].max(axis=0)
    return Tally(sums, peaks, parts=parts)


def formed_weights(
    batch: RankingLog, subject: Subject, names: Iterable[str]
) -> Iterator[tuple[str, Floats]]:
    """Yield targets with the lightest weights (n, K) whose mean must be 1, 0 at padding, where these can be formed."""
    for name in names:
        with suppress(CounterrankError):
            ratios = subject.ratios(batch, name)
            if ratios.kind != "policy" and "position" in ratios.supports:
                w = ratios.position()
            else:
                w = ratios.prefix() if "prefix" in ratios.supports else ratios.full()
            if not complete(batch):
                w = np.where(subject.used(batch), w, 0.0)
            yield name, np.ascontiguousarray(w)


def effective(first: Floats, second: Floats, *, down_the_page: bool) -> Floats:
    """Return effective rows (..., K) from sums of w and of w^2.

    Weights of all items down to a position have squares that grow with it in the mean: where there seem to be
    more effective rows than above, the rare large weights have not come.
    """
    rows: Floats = first**2 / second
    return np.minimum.accumulate(rows, axis=-1) if down_the_page else rows


def mean_tests(sums: Floats, *, down_the_page: bool = False) -> tuple[Floats, Floats, Floats]:
    """Return mean, z and two-sided p of E[w] = 1 from (3, ...) sums; NaN where there is too little to test.

    Where the rare large weights have not come, mean and error are both too small. With a fourth sum, of
    w^3, a mean below 1 is tested by Hall's (1992) statistic ((1 + a z)^3 - 1) / (3 a) + a / 2, a = g / (3 sqrt(n))
    with the skewness g, which rises with z everywhere.
    """
    from scipy import special

    count, first, second = sums[:3]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = first / count
        spread = np.maximum(second / count - mean**2, 0.0)
        error = np.sqrt(spread / np.maximum(count - 1, 1))
        # A target that is the logger has weights of one without spread: 0 / 0 is no alarm.
        z = np.where(np.abs(mean - 1) < 1e-9, 0.0, (mean - 1) / error)
        if len(sums) > 3:
            skew = _skewness(sums, mean, spread)
            a = np.maximum(skew / (3 * np.sqrt(count)), 1e-9)
            milder = np.minimum(z + a * z**2 + a**2 * z**3 / 3 + a / 2, 0.0)
            z = np.where((z < 0) & np.isfinite(z), milder, z)
        enough = effective(first, second, down_the_page=down_the_page) >= TESTED_ESS
        p = np.where(enough, 2 * special.ndtr(-np.abs(z)), np.nan)
    return mean, z, p


def _skewness(sums: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return the skewness (K,) of weights, at least 0, from count and sums of w, w^2 and w^3 (4, K)."""
    third = sums[3] / sums[0] - 3 * mean * sums[2] / sums[0] + 2 * mean**3
    return np.where(variance > 0, np.maximum(third, 0.0) / variance**1.5, 0.0)


def groups_tested(
    groups: Floats, total: Floats, largest: Floats, design: float, *, down_the_page: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Return mean, z and two-sided p (G, K) of E[w] = 1 in groups (G, 3, K), given the sums of all rows (4, K).

    A group is compared with 1. One below 1 must be below the mean of all rows as well, because an
    unseen tail lowers both. Its variance is the larger of
    its own and the common one, times the design effect of units: a group without large weights has
    a small mean and a small variance at once, and would else be called low. Means of right-skewed
    weights exceed the normal law's upper tail; there the gamma law with the weights' skewness is
    used where it is the heavier. Positions at which one row makes the variance are not tested.
    """
    from scipy import special

    count, first, second = groups[:, :3].transpose(1, 0, 2)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        n, centre = total[0], total[1] / total[0]
        common = np.maximum(total[2] / n - centre**2, 0.0)
        skew = _skewness(total, centre, common)
        mean = first / count
        spread = np.maximum(np.maximum(second / count - mean**2, 0.0), common) * design
        near, from_one = mean - centre, mean - 1.0
        low = np.where(near < 0, np.maximum(near, from_one), 0.0)
        off = np.where(from_one > 0, from_one, low)
        off = np.where(np.abs(off) < 1e-9, 0.0, off)
        z = np.where(off == 0, 0.0, off / np.sqrt(spread / count))
        shape = (
            4.0 * count / np.maximum(skew, 1e-6) ** 2
        )  # of the gamma law of a mean with skewness skew / sqrt(count)
        upper = special.gammaincc(shape, np.maximum(shape + z * np.sqrt(shape), 0.0))
        normal = special.ndtr(-np.abs(z))
        p = 2 * np.where(z > 0, np.maximum(normal, upper), normal)
        calm = largest**2 <= DOMINATED * total[2]
        rows = effective(first, second, down_the_page=down_the_page)
        enough = (rows >= TESTED_ESS) & calm & (count > 1)
    return mean, z, np.where(enough, np.minimum(p, 1.0), np.nan)


def _judge_group_weights(tally: Tally, subject: Subject) -> Findings:
    """Yield a finding for each target and way to group the rows.

    Bonferroni over every group, position, column and target of the log: one false alarm in a thousand logs.
    """
    tables, results, tests = families(tally.parts), {}, 0
    for name, kind in sorted(tables):
        total, design = tables[name, BLOCK][1].sum(axis=0), design_effect(tally.sums.get(name))
        results[name, kind] = groups_tested(
            tables[name, kind][1],
            total,
            tally.peaks[name],
            design,
            down_the_page=subject.down_the_page,
        )
        tests += int((~np.isnan(results[name, kind][2])).sum())
    low, blamed = {}, set()
    for name, kind in results:
        p = results[name, kind][2]
        low[name, kind] = np.nan_to_num(p, nan=1.0) * max(tests, 1) <= LIMITING
        if low[name, kind].any():
            blamed.add(name)
    # Where one target alone is off, its probabilities are wrong and not the log.
    alone = len(blamed) == 1 < len(subject.targets)
    for (name, kind), tested in results.items():
        table = tables[name, kind]
        told = _group_finding(name, kind, *table, tested, low[name, kind], subject)
        yield replace(told, target=name) if alone and told.blamed else told


#: The mean weight at each position in every group of rows.
GROUP_WEIGHTS = Check(
    "mean-weight-by-group",
    "propensities",
    "",
    _count_group_weights,
    _judge_group_weights,
    explains=("mean-weight*", "scores", "inverse-propensity", "calibration", "lift-by-halves"),
    max_rows=GROUPED_ROWS,
    skip_reason=lambda: (
        f"no target to check; name one with {say('--target', 'NAME', 'targets=[NAME]')} or "
        f"{say('--segment', 'COLUMN', 'segments=[COLUMN]')}"
    ),
)


def _group_finding(
    name: str,
    kind: str,
    labels: list[str],
    table: Floats,
    tested: tuple[Floats, Floats, Floats],
    low: Bools,
    subject: Subject,
) -> Finding:
    (mean, z, p), check = tested, f"mean-weight-by-{kind}"
    if not low.any():
        if np.isnan(p).all():
            text = (
                f"groups of '{kind}' are too small, or the weights of '{name}' too heavy, to test"
            )
            return GROUP_WEIGHTS.says(SKIPPED, text, code=check)
        text = f"weights of '{name}' average 1 in each of {len(labels)} groups of '{kind}'"
        return GROUP_WEIGHTS.says(PASSED, text, code=check)
    share = table[:, 0, :] / np.maximum(table[:, 0, :].sum(axis=0), 1.0)
    # What such weights may do to the value: their distance from 1, by the rows and positions it
    # concerns.
    size = float((np.where(low, share * np.abs(mean - 1.0), 0.0)).sum(axis=0).mean())
    g, k = np.unravel_index(int(np.nanargmin(p)), p.shape)
    bad = np.flatnonzero(low.any(axis=1))
    worst = bad[np.argsort(np.nanmin(p[bad], axis=1), kind="stable")].tolist()
    line = THRESHOLDS["mean-weight-by-group"].status(size)
    apart = [labels[place] for place in _apart(worst, table, mean, z)]
    # Groups that are off as all rows are need no remedy of their own.
    cause, where, remedy = EVERYWHERE, "", ""
    if apart:
        cause = SINCE_THEN if kind in (BLOCK, DAY) else DIFFERS_THERE
        honest = "log the policy that really ran there"
        where, remedy = left_out(kind, apart, subject, "these groups", honest)
    return GROUP_WEIGHTS.says(
        WARNED if line is PASSED else FAILED,
        f"weights of '{name}' average {mean[g, k]:.3g} instead of 1 where {kind} is {labels[g]} (position {k + 1}, "
        f"{in_z(z[g, k])}); {kind} affected: {first_items([labels[place] for place in worst])}",
        cause,
        remedy,
        where=where,
        fatal=line is FAILED,
        code=check,
    )


#: Why weights of groups do not average 1.
EVERYWHERE = "weights are off in the other rows too: these groups are not the cause"
SINCE_THEN = "the policy, a candidate set or a join changed in the course of the log and was logged as if it had not"
DIFFERS_THERE = "a policy, candidate set or join differs there, or items were shown for a reason that was not logged"


def _apart(bad: list[int], table: Floats, mean: Floats, z: Floats) -> list[int]:
    """Return the groups that differ from the others, not from 1 alone; none where they are most rows."""
    count = table[:, 0, :]
    centre = table[:, 1, :].sum(axis=0) / np.maximum(count.sum(axis=0), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The distance from the common mean, in the same standard errors.
        from_centre = np.where(mean != 1.0, z * (mean - centre) / (mean - 1.0), 0.0)
    distinct = [place for place in bad if np.nanmax(np.abs(from_centre[place])) > APART]
    # Without them weights average 1; otherwise the fault is everywhere, and no group's.
    _, _, p = mean_tests(np.delete(table, distinct, axis=0).sum(axis=0))
    everywhere = bool((np.nan_to_num(p, nan=1.0) * len(p) <= LIMITING).any())
    return [] if everywhere or count[distinct].sum() > count.sum() / 2 else distinct


def _unmatched(name: str, subject: Subject) -> Finding:
    """A target that gives no logged item a chance anywhere.

    Numbers of it may belong to other rows, a policy of the log's own candidates cannot.
    """
    is_policy = isinstance(subject.first.target(name), Policy)
    return WEIGHTS.says(
        WARNED if is_policy else FAILED,
        f"'{name}' gives probability 0 to every logged item",
        "it sorts, and the logger never showed its lists"
        if is_policy
        else "its column belongs to other rows or items, or it never shows what was logged",
        "a logging policy that explores more, near what this target shows"
        if is_policy
        else "join the target to the rankings by their ids, with the same item ids",
        target=name,
    )


def _drafted(name: str, mean: Floats, weak: Bools) -> Finding:
    """Say how deep a draft shows the list of a target: its chances are exact, and below they are zero."""
    depth, lowest = int(np.argmax(weak)), int(np.argmin(mean))
    return WEIGHTS.says(
        WARNED,
        f"the draft supports '{name}' to position {depth} of {len(mean)}: at position {lowest + 1} it could show "
        f"the item of '{name}' in {in_percent(mean[lowest], 0)} of the rankings",
        "a page drafted from two rankers shows about half of each list",
        f"evaluate the supported positions with {say('--depth', str(max(depth, 1)))}, or judge below them by models of "
        f"clicks ({say('--estimators', 'pbm,click-model')})",
        # What weights miss would be read as a loss.
        fatal=True,
        target=name,
    )


def _overall(
    name: str, mean: Floats, z: Floats, p: Floats, weak: Bools, *, alone: bool, small: bool
) -> Finding:
    off = np.abs(mean - 1)
    if np.isnan(p).all():
        return WEIGHTS.says(SKIPPED, f"the weights of '{name}' are too heavy to test their mean")
    if not weak.any():
        within = in_percent(float(np.nanmax(off)))
        return WEIGHTS.says(
            PASSED, f"weights of '{name}' average 1 within chance (within {within})"
        )
    worst = int(np.nanargmin(p))
    return WEIGHTS.says(
        FAILED if off[~np.isnan(p)].max() > 0.1 else WARNED,
        f"weights of '{name}' average {mean[worst]:.3g} instead of 1 at position {worst + 1} "
        f"({in_z(z[worst])}); positions affected: {first_items((np.flatnonzero(weak) + 1).tolist())}",
        *blame(float(mean[worst]), alone=alone, small=small),
        target=name if alone else None,
    )


def _inverse(tally: Tally, subject: Subject) -> Finding:
    """The logger alone: the mean of 1/p is the number of items with a chance, so never more than there are.

    E[1/p] is that number whatever the policy. It fails where the logger's numbers are too small to be
    probabilities.
    """
    check = "inverse-propensity"
    if "1/p" not in tally.sums:
        text = f"'{subject.kind}' propensities are not of single items"
        return WEIGHTS.says(SKIPPED, text, code=check)
    sums, size = tally.sums["1/p"], int(tally.peaks["actions"][0])
    largest = (sums[1] / np.maximum(sums[0], 1)).max()
    text = f"the mean of 1/propensity is at most {largest:.4g}, with {size:,} items"
    # In units of the number of items: then the law to test is a mean of 1, as for weights.
    scaled = sums / np.array([1.0, size, size**2])[:, None]
    mean, z, p = mean_tests(scaled)
    # Two percent on top of significance: in a large log mere rounding is significant.
    small = (mean > 1.02) & (z > 0) & (np.nan_to_num(p, nan=1.0) < 0.001)
    # An item with a chance of 1e-154 or less was shown: then the sums are no numbers.
    if np.isfinite(scaled).all() and not small.any():
        return WEIGHTS.says(PASSED, text, code=check)
    text = f"{text}: more than probabilities allow"
    return WEIGHTS.says(FAILED, text, *blame(2.0, alone=False, small=True), code=check)


def blame(mean: float, *, alone: bool, small: bool) -> tuple[str, str]:
    """Return likely cause and remedy of a mean weight off 1."""
    if alone:
        return (
            "this target alone is off, so its probabilities are wrong: another version, candidate "
            "set or normalisation",
            "score the target policy on the logged candidates, each row summing to 1 over them",
        )
    if small:
        return (
            "the logged propensities are too small: joint or cumulative probabilities, or a policy "
            "with more candidates than were eligible",
            "log P(a_k | x) of the item at its own position; see "
            + say("--propensity-kind", python="propensity_kind="),
        )
    if mean < 1:
        return (
            "the target shows items the logger never shows, or the propensities are too large, or "
            "the target's probabilities do not sum to 1",
            "compare candidate sets of both policies; log propensities after filtering",
        )
    return (
        "the propensities are too small for how often items are shown, or the target's "
        "probabilities sum to over 1",
        "check that propensities and target probabilities are of the same event (item at its "
        "position)",
    )


@formed_once
def row_groups(subject: Subject, batch: RankingLog) -> RowGroups:
    """Return each way to group the rows."""
    groups: RowGroups = {BLOCK: subject.stretches(batch)}
    for cut in subject.cuts:
        groups[cut.column] = list(cut.names), cut.codes(batch)
    if subject.time is not None and DAY not in groups:
        groups[DAY] = coded(days_of(batch, subject.time))
    for segment in subject.segments:
        if segment.column not in groups:
            groups[segment.column] = coded(segment.labels(batch))
    return groups


def coded(labels: NDArray[Any]) -> tuple[list[str], Ints]:
    """Return the different labels, and the place of each row's among them (n,)."""
    names, codes = np.unique(labels, return_inverse=True)
    return [str(name) for name in names], codes


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
    labels, codes = row_groups(subject, batch)[BLOCK if subject.time is None else DAY]
    reward, expected = np.ascontiguousarray(batch.reward), subject.rates * subject.amount
    sums: dict[str, Floats] = {}
    parts: Parts = {}
    for name, w in formed_weights(batch, subject, subject.targets):
        logs = np.clip(np.log(w), -CUT, CUT)
        logs -= logs.mean(axis=0)
        cells = (w, logs, reward, expected, batch.position_weights, batch.lengths)
        if batch.unit is not None:
            sums[name] = np.zeros((1024, 6))
            lift_sums(*cells, batch.bucket, sums[name])
        table = np.zeros((len(labels), 6))
        lift_sums(*cells, codes, table)
        parts |= by_label((name, ""), labels, table)
    return Tally(sums, parts=parts)


@jit
def lift_sums(
    w: Floats,
    logs: Floats,
    reward: Floats,
    rates: Floats,
    alpha: Floats,
    lengths: Ints,
    code: Ints,
    out: Floats,
) -> None:
    """Add 1, what was earned, and both statistics with their squares to out (G, 6), by code (n,).

    `logs` are the logarithms of the weights w (n, K), cut and less their means.
    """
    for i in range(w.shape[0]):
        earned, weighed, local = 0.0, 0.0, 0.0
        # Padding has no reward; only its weights have to be kept out.
        for k in range(lengths[i]):
            earned += alpha[k] * reward[i, k]
            weighed += alpha[k] * w[i, k] * reward[i, k]
            local += alpha[k] * (reward[i, k] - rates[k]) * logs[i, k]
        lift, sums = weighed - earned, out[code[i]]
        sums[0] += 1.0
        sums[1] += earned
        sums[2] += lift
        sums[3] += lift * lift
        sums[4] += local
        sums[5] += local * local


def _judge_lift_by_halves(tally: Tally, subject: Subject) -> Findings:
    """Warn where the lift changes along the log beyond chance."""
    tables = families(tally.parts)
    chance = (CHANCE_OF_ROWS if subject.time is None else CHANCE) / (2 * len(tables))
    for (name, _), (labels, table) in tables.items():
        order = np.argsort(labels if subject.time else np.array(labels, dtype=np.int64))
        yield from _changed(name, table[order], tally.sums.get(name), chance)


#: The lift does not change in the course of the log.
#:
#: Two statistics: the lift by weights, and how rewards go with the logarithm of the weight (how the value
#: begins to change on the way from the logger to the target), which is far less noisy.
LIFT_BY_HALVES = Check(
    "lift-by-halves",
    "targets",
    "",
    _count_lift_by_halves,
    _judge_lift_by_halves,
    kind="question",
    max_rows=2 * SAMPLED_ROWS,
    passed="the lift is alike in both halves of the log",
)


def _changed(name: str, table: Floats, units: Floats | None, chance: float) -> Findings:
    """Yield where a statistic, as a share of the rewards, has a trend along the days or stretches (D, 6)."""
    n = table[:, 0]
    # The middle of each day among the rows: 0 in the middle of the log.
    moment = (np.cumsum(n) - n / 2) / n.sum() - 0.5
    first, second = (table[side].sum(axis=0) for side in (moment < 0, moment >= 0))
    if min(first[0], second[0]) < FEWEST or min(first[1], second[1]) <= 0:
        return
    total = table.sum(axis=0)
    for split in (2, 4):
        halves = [float(half[split] / half[1]) for half in (first, second)]
        spread = max(total[split + 1] / total[0] - (total[split] / total[0]) ** 2, 0.0)
        # Rows of one user are alike, and count for less.
        design = design_effect(None if units is None else units.T[[0, split, split + 1]])
        trend = float(moment @ (table[:, split] - table[:, 1] * total[split] / total[1]))
        p = two_sided(trend, math.sqrt(design * spread * float(moment**2 @ n)))
        if p <= chance and abs(halves[0] - halves[1]) > MATERIAL * abs(sum(halves)) / 2:
            lifts = [100 * float(half[2] / half[1]) for half in (first, second)]
            yield LIFT_BY_HALVES.says(
                WARNED,
                f"the lift of '{name}' changes in the course of the log (p = {p:.1g}): by weights it is "
                f"{lifts[0]:+.1f} % in the first half and {lifts[1]:+.1f} % in the second",
                "what people like changes, and the target likes what is on the rise or in decline",
                "evaluate the latest days alone, and look again with later ones",
                target=name,
            )
            return
