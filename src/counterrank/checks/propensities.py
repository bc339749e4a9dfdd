"""Checks of the logged probabilities: of the numbers themselves, and against whole distributions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.checks.base import (
    HEAD_ROWS,
    SAMPLED_ROWS,
    Check,
    Subject,
    Tally,
    complete,
    examples_at,
    first_items,
    formed_once,
)
from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.findings import FAILED, PASSED, SKIPPED, WARNED, Findings
from counterrank.common.messages import say
from counterrank.common.texts import in_percent
from counterrank.data.log import LOGGING, Propensity, RankingLog
from counterrank.kernels.jit import jit

#: Rounded numbers are recognised up to this many decimals.
DECIMALS = 4
_WHOLE = "the logging policy was given as a whole, not as numbers"
#: Full rankings laid side by side.
_BESIDE = 16
#: Full rankings from which numbers may show what they mean.
FULL = 50


def logged_numbers(batch: RankingLog, name: str) -> Floats | None:
    """Return a policy's numbers (n, K) or (n, 1), or None when it is a whole policy."""
    policy = batch.propensity if name == LOGGING else batch.targets[name]
    if not isinstance(policy, Propensity):
        return None
    return policy.values.reshape(batch.n, -1)


def of_items(batch: RankingLog, values: Floats, subject: Subject) -> Floats:
    """Return the numbers that belong to an item, in a row."""
    if values.shape[1] != batch.K or complete(batch):
        return values.reshape(-1)
    return values[subject.used(batch)]


def _count_targets(batch: RankingLog, subject: Subject) -> Tally:
    """Count numbers of each target: zeros, all, and those that differ from the logger's where both have any."""
    mine = logged_numbers(batch, LOGGING)
    sums: dict[str, NDArray[Any]] = {}
    for name in subject.targets:
        if (values := logged_numbers(batch, name)) is not None:
            inside = of_items(batch, values, subject)
            differ = inside.size
            if mine is not None and values.shape == mine.shape:
                differ = int((np.abs(values - mine) > 1e-12 * mine).sum())
            sums[name] = np.array([(inside == 0).sum(), inside.size, differ])
    return Tally(sums=sums)


def _judge_targets(tally: Tally, subject: Subject) -> Findings:
    """Warn of a target that never shows the logged items, and of one that is the logger."""
    for name, (zeros, cells, differ) in tally.sums.items():
        if zeros > 0.5 * cells:
            yield TARGETS.says(
                WARNED,
                f"'{name}' gives {in_percent(zeros / cells, 0)} of the shown items probability 0",
                "the target was joined to other rankings, or is (nearly) deterministic",
                "check the join; a deterministic target keeps only the rows that show its own items",
                code="probabilities",
            )
        if differ:
            yield TARGETS.says(PASSED, f"'{name}' differs from the logging policy")
        else:
            yield TARGETS.says(
                WARNED,
                f"'{name}' is the logging policy itself, number by number",
                "the logger's own column was named as the target, or the new policy was not scored",
                "name the column with the new policy's probabilities",
            )


#: Targets give the logged items a chance, and are not the logger.
TARGETS = Check(
    "target-differs",
    "targets",
    "",
    _count_targets,
    _judge_targets,
    kind="note",
    max_rows=SAMPLED_ROWS,
    skip_reason="no target given as numbers",
)


def _count_rounding(batch: RankingLog, subject: Subject) -> Tally:
    """Count the logger's numbers on the grid of 1/10,000, and say for which d one is no multiple of 10^-d."""
    values = logged_numbers(batch, LOGGING)
    assert values is not None
    inside = of_items(batch, values, subject)
    off = np.zeros(DECIMALS + 1)
    for decimals in range(DECIMALS + 1):
        # One number that is no multiple settles it: mostly among the first ones.
        for numbers in (inside[:HEAD_ROWS], inside):
            scaled = numbers * 10**decimals
            if (np.abs(scaled - np.rint(scaled)) > 1e-7).any():
                off[decimals] = 1.0
                break
    grid = np.bincount(np.rint(inside * 10**DECIMALS).astype(np.int64), minlength=10**DECIMALS + 1)
    return Tally({"off": off, "grid": grid}, {"low": np.array([-inside.min()])})


def _judge_rounding(tally: Tally, subject: Subject) -> Findings:
    """Warn when all numbers are multiples of 10^-d, many differ, and the smallest has a large rounding error."""
    digits = np.flatnonzero(tally.sums["off"] == 0)
    distinct, lowest = int((tally.sums["grid"] > 0).sum()), -float(tally.peaks["low"][0])
    # Few different values are a policy of few levels (.25, .5), exact as they stand; of one digit
    # there are nine in all.
    if len(digits) == 0 or distinct < (6 if digits[0] <= 1 else 20):
        text = f"propensities have enough digits ({distinct:,} different values)"
        yield ROUNDING.says(PASSED, text)
        return
    step = 10.0 ** -int(digits[0])
    error = 0.5 * step / lowest
    text = f"all propensities are multiples of {step:g}; the smallest, {lowest:g}, may be off by {in_percent(error, 0)}"
    advice = (
        "probabilities were rounded when they were written",
        "log full precision: weights divide by these numbers",
    )
    yield ROUNDING.says(WARNED, text, *advice) if error > 0.05 else ROUNDING.says(PASSED, text)


#: Numbers rounded to few decimals: small probabilities lose their digits.
ROUNDING = Check(
    "rounding",
    "propensities",
    "numbers",
    _count_rounding,
    _judge_rounding,
    max_rows=SAMPLED_ROWS,
    skip_reason=_WHOLE,
)


def _count_exploration(batch: RankingLog, subject: Subject) -> Tally:
    """Count propensities of 1 and items by position."""
    sums = number_sums(subject, batch)
    return Tally(sums={"one": sums[3], "cells": sums[0]})


def _judge_exploration(tally: Tally, subject: Subject) -> Findings:
    """Fail when all are 1, warn when a position has nothing but ones."""
    certain, cells = tally.sums["one"], np.maximum(tally.sums["cells"], 1)
    explored = in_percent(1 - certain.sum() / cells.sum())
    # In a ranking without replacement the last of the candidates is certain.
    fixed = np.flatnonzero(certain == cells) + 1
    if certain.sum() == cells.sum():
        yield EXPLORATION.says(
            FAILED,
            "every propensity is 1",
            "the logging policy is deterministic, or the column holds no propensities",
            "no other policy can be evaluated from it; log the probabilities of a "
            "policy that explores, "
            "estimate them if the same context saw different lists, or run an A/B test",
        )
    elif len(fixed) and not (subject.kind == "prefix" and [*fixed] == [subject.first.K]):
        yield EXPLORATION.says(
            WARNED,
            f"every propensity at position {first_items(list(fixed))} is 1",
            "the logger does not explore there",
            "the target must show the same items there; explore these positions too",
        )
    else:
        yield EXPLORATION.says(PASSED, f"{explored} of shown items were a random choice")


#: A deterministic logger: the log has no evidence on other choices.
EXPLORATION = Check(
    "exploration",
    "propensities",
    "numbers",
    _count_exploration,
    _judge_exploration,
    kind="note",
    explains=("mean-weight*", "calibration", "propensity-*", "candidates"),
    skip_reason=_WHOLE,
)


@formed_once
def number_sums(subject: Subject, batch: RankingLog) -> Floats:
    """Return how many numbers p the logger has at each position, sums of 1/p and 1/p^2, and how many are 1 (4, K)."""
    values = logged_numbers(batch, LOGGING)
    assert values is not None
    width = values.shape[1]
    lengths = batch.lengths if width == batch.K else np.ones(batch.n, np.int64)
    even = batch.n // _BESIDE * _BESIDE if lengths.min() == width else 0
    # Full rankings side by side: loops over a handful of positions are short.
    wide = np.ascontiguousarray(values[:even]).reshape(-1, _BESIDE * width)
    out = np.zeros((4, width))
    out[0] = subject.items(batch)[:width]
    for rows, ends in (
        (wide, np.full(len(wide), wide.shape[1])),
        (np.ascontiguousarray(values[even:]), lengths[even:]),
    ):
        sums = np.zeros((3, rows.shape[1]))
        inverse_sums(rows, ends, sums)
        out[1:] += sums.reshape(3, -1, width).sum(axis=1)
    return out


@jit
def inverse_sums(values: Floats, lengths: Ints, out: Floats) -> None:
    """Add 1/p, 1/p^2 and how many are 1 to out (3, K), by position, for numbers p (n, K) from 0 to 1."""
    for i in range(values.shape[0]):
        for k in range(lengths[i]):
            value = values[i, k]
            inverse = 1.0 / value
            out[0, k] += inverse
            out[1, k] += inverse * inverse
            # A comparison would not vectorise.
            out[2, k] += np.floor(value)


@jit
def steps(values: Floats, lengths: Ints, counts: Ints, span: Floats) -> None:
    """Add to counts (3,) the full rankings, those of equal numbers, and those whose numbers only fall.

    Numbers are (n, K); those that only fall never rise and fall somewhere. Span (2,) holds the
    extremes of their first ones.
    """
    length = values.shape[1]
    for i in range(values.shape[0]):
        if lengths[i] < length:
            continue
        fell, k, before = False, 1, values[i, 0]
        while k < length and values[i, k] <= before:
            fell = fell or values[i, k] < before
            before = values[i, k]
            k += 1
        counts[0] += 1
        counts[1] += k == length and not fell
        counts[2] += k == length and fell
        span[0], span[1] = max(span[0], values[i, 0]), min(span[1], values[i, 0])


def _count_meaning(batch: RankingLog, subject: Subject) -> Tally:
    """Count rows whose numbers are all equal, or never rise and fall somewhere."""
    values = logged_numbers(batch, LOGGING)
    if values is None or values.shape[1] < 2:
        return Tally()
    # The extremes of first numbers are those of all, where rankings hold one number each.
    values = np.ascontiguousarray(values)
    for rows in (min(batch.n, HEAD_ROWS), batch.n):
        counts, span = np.zeros(3, np.int64), np.array([0.0, 1.0])
        steps(values[:rows], batch.lengths[:rows], counts, span)
        # One ranking that is neither settles it for the whole log.
        settled = counts[0] >= FULL and counts[0] > counts[1] + counts[2]
        if settled:
            break
    return Tally(
        sums=dict(zip(("full", "same", "falling"), counts[:, None], strict=True)),
        peaks={"span": span * (1, -1)},
        examples={}
        if settled
        else {"same": examples_at(batch.lengths == batch.K, values, batch.start)},
    )


def _judge_meaning(tally: Tally, subject: Subject) -> Findings:
    """Fail on one number for all positions, warn on products."""
    full, examples = tally.count("full"), tally.examples.get("same", ())
    if full < FULL or subject.kind == "joint":
        yield MEANING.skipped()
    # One number in the whole log is a uniform policy, not a joint probability repeated.
    elif tally.count("same") == full and float(tally.peaks["span"].sum()) != 0.0:
        yield MEANING.says(
            FAILED,
            "each ranking has the same number at all positions",
            "the whole ranking's probability was repeated at each position",
            f"read it with {say('--propensity-kind', 'joint')}",
            examples=examples,
        )
    elif tally.count("falling") == full and subject.first.K >= 3 and subject.kind != "position":
        yield MEANING.says(
            WARNED,
            "propensities fall from position to position in every ranking",
            "cumulative products P(a_1..a_k) were logged instead of factors",
            "divide each number by the one before it and read them with "
            + say("--propensity-kind", "prefix"),
            examples=examples,
        )
    else:
        yield MEANING.says(PASSED, f"numbers vary by position as '{subject.kind}' propensities do")


#: One number repeated at every position is a joint; numbers that only fall are cumulative products.
MEANING = Check(
    "propensity-kind",
    "propensities",
    "",
    _count_meaning,
    _judge_meaning,
    explains=(
        "mean-weight*",
        "inverse-propensity",
        "repeated-items",
        "propensity-vs-*",
        "rounding",
        "lift-by-halves",
    ),
    skip_reason="too few full rankings, or one number for each, to tell",
)


def shown(batch: RankingLog, name: str) -> Floats | None:
    """Return the distribution's probability of each shown item (n, K); None without a distribution."""
    table = batch.dists.get(name)
    if table is None:
        return None
    items = np.maximum(batch.action, 0)
    if table.ndim == 2:
        return np.take_along_axis(table, items, axis=1)
    return np.take_along_axis(table, items[:, :, None], axis=2)[:, :, 0]


def items_seen(batch: RankingLog, size: int) -> tuple[Ints, int]:
    """Return how often each item 0..size-1 stands at each position (K, size).

    Also how many rankings show one of them twice.

    >>> log = RankingLog(action=[[0, 0], [1, -1]], reward=[[1, 0], [0, 0]], propensity=[[.5, .5]] * 2)
    >>> seen, repeats = items_seen(log, 2)
    >>> seen.tolist(), repeats
    ([[1, 1], [1, 0]], 1)
    """
    shown_times = np.zeros((batch.K, size), np.int64)
    action = np.ascontiguousarray(batch.action)
    return shown_times, count_items(action, batch.lengths, np.zeros(size, np.int64), shown_times)


@jit
def count_items(action: Ints, lengths: Ints, last: Ints, shown: Ints) -> int:
    """Add how often each item stands at each position to shown (K, A).

    Return in how many rankings one stands twice; `last` (A,) holds zeros.
    """
    repeats = 0
    for i in range(action.shape[0]):
        twice = False
        for k in range(lengths[i]):
            item = action[i, k]
            shown[k, item] += 1
            twice = twice or last[item] == i + 1
            last[item] = i + 1
        repeats += twice
    return repeats


def _count_distributions(batch: RankingLog, subject: Subject) -> Tally:
    """Count shown items with probability 0 in the logger's distribution.

    And, of each policy with both, numbers that differ from their entry by more than one in a million.
    """
    used = subject.used(batch)
    bad: dict[str, tuple[Bools, NDArray[Any]]] = {}
    for name in (LOGGING, *subject.targets):
        chance, values = shown(batch, name), logged_numbers(batch, name)
        if chance is None:
            continue
        if name == LOGGING:
            bad["never "] = (chance <= 0) & used, batch.action
        if values is not None and values.shape == chance.shape and subject.kind == "factored":
            differs = np.abs(values - chance) > 1e-6 * np.maximum(values, 1e-12)
            bad[f"differs {name}"] = differs & used, values
    return Tally(
        sums={key: np.array([cells.sum(), used.sum()]) for key, (cells, _) in bad.items()},
        examples={key: examples_at(*pair, batch.start) for key, pair in bad.items()},
    )


def _judge_distributions(tally: Tally, subject: Subject) -> Findings:
    """Fail on any of them."""
    for key, (wrong, cells) in tally.sums.items():
        what, _, name = key.partition(" ")
        code, right, text, *advice = _DISTRIBUTION[what]
        if wrong:
            text = text.format(count=wrong, share=in_percent(wrong / cells), name=name)
            yield DISTRIBUTIONS.says(FAILED, text, *advice, examples=tally.examples[key], code=code)
        else:
            yield DISTRIBUTIONS.says(PASSED, right.format(name=name), code=code)


#: What is right or wrong with an entry of a distribution: the code, both texts, the cause and the remedy.
_DISTRIBUTION = {
    "never": (
        "candidates",
        "all shown items have a chance in 'propensity_dist'",
        "{count:,} shown items have probability 0 in 'propensity_dist'",
        "the item came from outside the candidate set (a filter, a pinned item, a fallback), or the "
        "distribution belongs to another request",
        "log the distribution that was really drawn from; drop pinned positions",
    ),
    "differs": (
        "propensity-vs-distribution",
        "'{name}' agrees with '{name}_dist'",
        "'{name}' differs from its entry in '{name}_dist' for {share} of shown items",
        "the two were written at different moments, after different filters, or numbered differently",
        "log both from the same draw",
    ),
}
#: Shown items are among those the distributions know and give a chance, and have the logged one.
DISTRIBUTIONS = Check(
    "candidates",
    "propensities",
    "distributions",
    _count_distributions,
    _judge_distributions,
    explains=("calibration", "mean-weight*", "inverse-propensity", "lift-by-halves"),
    max_rows=SAMPLED_ROWS,
    skip_reason="the log has no distribution of a policy ('propensity_dist')",
)


def _count_calibration(batch: RankingLog, subject: Subject) -> Tally:
    """Sum expected and observed counts and the variance (K, A)."""
    table = batch.dists.get(LOGGING)
    if table is None:
        return Tally()
    cube = table[:, None, :] if table.ndim == 2 else table
    spread = cube * (1 - cube)
    if not complete(batch):
        used = subject.used(batch)[:, :, None]
        cube, spread = np.where(used, cube, 0.0), np.where(used, spread, 0.0)
    sums = {"expected": cube.sum(axis=0), "spread": spread.sum(axis=0)}
    if table.ndim == 2:
        sums = {key: np.broadcast_to(v, (batch.K, v.shape[1])) for key, v in sums.items()}
    shown_times, _ = items_seen(batch, table.shape[-1])
    return Tally(sums={**sums, "seen": shown_times.astype(float)})


def _judge_calibration(tally: Tally, subject: Subject) -> Findings:
    """Z = (seen - expected) / sqrt(sum p (1-p)) for expectations above 5.

    Bonferroni over items and positions.
    """
    from scipy import special

    expected, spread, shown_times = (tally.sums[key] for key in ("expected", "spread", "seen"))
    # Below, counts are too skewed for z.
    tested = (spread > 5) & (expected > 5)
    off = np.where(tested, shown_times - expected, 0.0)
    z = off / np.sqrt(np.where(tested, spread, 1.0))
    wrong = tested & (2 * special.ndtr(-np.abs(z)) * tested.sum() <= 0.01)
    if wrong.any():
        k, a = np.unravel_index(int(np.argmax(np.abs(z))), z.shape)
        names = subject.first.action_names
        yield CALIBRATION.says(
            FAILED if (np.abs(off) > 0.1 * expected)[wrong].any() else WARNED,
            f"item {a if names is None else names[a]} stands at position {k + 1} {shown_times[k, a]:,.0f} times, "
            f"where {expected[k, a]:,.0f} are expected (z = {z[k, a]:.1f}); positions affected: "
            + first_items((np.flatnonzero(wrong.any(axis=1)) + 1).tolist()),
            "the logged distribution is not the one that was drawn from",
            "log the probabilities after all filters, boosts and deduplication, at the "
            "moment of the draw",
        )


#: Items are shown as often as the logger's distribution says.
CALIBRATION = Check(
    "calibration",
    "propensities",
    "distributions",
    _count_calibration,
    _judge_calibration,
    explains=("mean-weight*", "inverse-propensity", "lift-by-halves"),
    max_rows=SAMPLED_ROWS,
    skip_reason="the log has no usable distribution of the logging policy",
    passed="items are shown as often as 'propensity_dist' says",
)


def _count_replacement(batch: RankingLog, subject: Subject) -> Tally:
    """Count rankings with a repeat, pairs, and items by position."""
    if subject.kind != "factored":
        return Tally({"n": np.array([batch.n])})
    # One repeat settles it for the whole log: only where the first rows have none, all are
    # looked at.
    for rows in (batch.take(slice(0, HEAD_ROWS)), batch):
        shown_times, repeats = items_seen(rows, int(rows.action.max(initial=0)) + 1)
        if repeats:
            break
    first = examples_at(np.ones(min(batch.n, 1), bool), batch.action[:1], batch.start)
    sums = {"repeats": np.array([repeats]), "n": np.array([rows.n]), "seen": shown_times}
    return Tally(sums, examples={"any": first})


def _judge_replacement(tally: Tally, subject: Subject) -> Findings:
    """Under independence n sum_{k<l} sum_a f_k(a) f_l(a) repeats are expected: none among 20 has chance 2e-9."""
    if subject.kind != "factored" or subject.first.K < 2:
        text = f"propensities are '{subject.kind}', or rankings have one item"
        yield REPLACEMENT.says(SKIPPED, text)
        return
    n, repeats = tally.count("n"), tally.count("repeats")
    share = tally.sums["seen"] / n
    # sum_{k<l} f_k f_l = ((sum f)^2 - sum f^2) / 2: K terms an item, not K^2.
    expected = n * float((share.sum(axis=0) ** 2 - (share**2).sum(axis=0)).sum()) / 2
    if repeats == 0 and expected > 20:
        yield REPLACEMENT.says(
            FAILED,
            "no ranking repeats an item, where independent positions would give about "
            f"{expected:,.0f} repeats",
            "items were drawn without replacement, so positions are not independent",
            "if the numbers are P(a_k | items above), use "
            f"{say('--propensity-kind', 'prefix')}; if they are marginals, use "
            + say("--propensity-kind", "position"),
            examples=tally.examples["any"],
        )
    else:
        # How many do was counted as far as the first: a number would depend on the batches.
        text = f"{'some' if repeats else f'none of {n:,}'} rankings repeat an item, as independent draws may"
        yield REPLACEMENT.says(PASSED, text)


#: Independent positions repeat items now and then; a ranking without repeats is drawn without replacement.
REPLACEMENT = Check(
    "repeated-items",
    "propensities",
    "",
    _count_replacement,
    _judge_replacement,
    explains=("mean-weight*", "inverse-propensity", "lift-by-halves"),
)
