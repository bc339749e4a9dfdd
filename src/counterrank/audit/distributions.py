"""Checks against whole distributions and candidate sets."""

import numpy as np
from numpy.typing import NDArray

from counterrank.audit.findings import (
    SAMPLED_ROWS,
    Finding,
    Subject,
    Tally,
    complete,
    examples_at,
    listed,
)
from counterrank.audit.kernels import count_items
from counterrank.audit.values import logged_numbers
from counterrank.diagnostics import FAILED, PASSED, SKIPPED, WARNED
from counterrank.log import LOGGING, RankingLog

Floats = NDArray[np.float64]


def shown(batch: RankingLog, name: str) -> tuple[Floats, NDArray[np.bool_]] | None:
    """Return the distribution's probability of each shown item (n, K), and where the item has no
    entry in it.
    """
    table = batch.dists.get(name)
    if table is None:
        return None
    cube = table[:, None, :] if table.ndim == 2 else table
    outside = batch.action >= cube.shape[-1]
    items = np.where((batch.action < 0) | outside, 0, batch.action)
    # Places in the flat table; one row of it serves all positions where they are alike.
    rows = np.arange(cube.shape[0] * cube.shape[1]).reshape(cube.shape[:2])
    values = cube.reshape(-1)[rows * cube.shape[2] + items]
    return np.where(outside, 0.0, values), outside


def items_seen(batch: RankingLog, size: int) -> tuple[NDArray[np.int64], int]:
    """Return how often each item 0..size-1 stands at each position (K, size), and how many rankings
    show one of them twice.

    >>> log = RankingLog(action=[[0, 0], [1, -1]], reward=[[1, 0], [0, 0]], propensity=[[.5, .5]] * 2)
    >>> seen, repeats = items_seen(log, 2)
    >>> seen.tolist(), repeats
    ([[1, 1], [1, 0]], 1)
    """
    seen = np.zeros((batch.K, size), np.int64)
    action = np.ascontiguousarray(batch.action)
    return seen, count_items(action, batch.lengths, np.zeros(size, np.int64), seen)


class Candidates:
    """Shown items are among those the distributions know and give a chance."""

    name = "candidates"
    most: int | None = SAMPLED_ROWS

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count shown items without an entry, or with probability 0, in the logger's distribution."""
        found = shown(batch, LOGGING)
        if found is None:
            return Tally()
        used = subject.used(batch)
        outside, never = found[1] & used, (found[0] <= 0) & ~found[1] & used
        return Tally(
            sums={
                "outside": np.array([outside.sum()]),
                "never": np.array([never.sum()]),
                "all": np.array([used.sum()]),
            },
            examples={
                "outside": examples_at(outside, batch.action, batch.start),
                "never": examples_at(never, batch.action, batch.start),
            },
        )

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Fail on either."""
        if not tally.sums:
            return [
                Finding(
                    self.name,
                    SKIPPED,
                    "the log has no distribution of the logging policy ('propensity_dist')",
                )
            ]
        size = subject.first.dists[LOGGING].shape[-1]
        if tally.count("outside"):
            return [
                Finding(
                    self.name,
                    FAILED,
                    f"{tally.count('outside'):,} shown items have ids beyond the {size} candidates "
                    "of 'propensity_dist'",
                    tally.examples["outside"],
                    "actions are numbered differently from the distribution, or candidates are "
                    "missing from it",
                    "number actions 0..A-1 in the order of the distribution",
                )
            ]
        if tally.count("never"):
            return [
                Finding(
                    self.name,
                    FAILED,
                    f"{tally.count('never'):,} shown items have probability 0 in 'propensity_dist'",
                    tally.examples["never"],
                    "the item came from outside the candidate set (a filter, a pinned item, a "
                    "fallback), or the distribution belongs to another request",
                    "log the distribution that was really drawn from; drop pinned positions",
                )
            ]
        return [Finding(self.name, PASSED, f"all shown items are among the {size} candidates")]


class Consistency:
    """The logged number of a shown item is its entry in the distribution."""

    name = "propensity-vs-distribution"
    most: int | None = SAMPLED_ROWS

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count entries that differ by more than one in a million, for each policy with both."""
        sums, examples = {}, {}
        for name in (LOGGING, *subject.targets):
            found, values = shown(batch, name), logged_numbers(batch, name)
            if (
                found is None
                or values is None
                or values.shape != found[0].shape
                or subject.kind != "factored"
            ):
                continue
            differs = (np.abs(values - found[0]) > 1e-6 * np.maximum(values, 1e-12)) & subject.used(
                batch
            )
            sums[name] = np.array([differs.sum(), subject.used(batch).sum()])
            examples[name] = examples_at(differs, values, batch.start)
        return Tally(sums=sums, examples=examples)

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Fail when any differ."""
        found = []
        for name, (wrong, cells) in tally.sums.items():
            if not wrong:
                found.append(Finding(self.name, PASSED, f"'{name}' agrees with '{name}_dist'"))
                continue
            found.append(
                Finding(
                    self.name,
                    FAILED,
                    f"'{name}' differs from its entry in '{name}_dist' for {wrong / cells:.1%} of "
                    "shown items",
                    tally.examples[name],
                    "the two were written at different moments, after different filters, or "
                    "numbered differently",
                    "log both from the same draw",
                )
            )
        return found or [
            Finding(self.name, SKIPPED, "no policy has both factored numbers and a distribution")
        ]


class Calibration:
    """Items are shown as often as the logger's distribution says."""

    name = "calibration"
    most: int | None = SAMPLED_ROWS

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Sum expected and observed counts and the variance (K, A)."""
        table = batch.dists.get(LOGGING)
        if table is None or (batch.action >= table.shape[-1]).any():
            return Tally()
        cube = table[:, None, :] if table.ndim == 2 else table
        spread = cube * (1 - cube)
        if not complete(batch):
            used = subject.used(batch)[:, :, None]
            cube, spread = np.where(used, cube, 0.0), np.where(used, spread, 0.0)
        sums = {"expected": cube.sum(axis=0), "spread": spread.sum(axis=0)}
        if table.ndim == 2:
            sums = {key: np.broadcast_to(v, (batch.K, v.shape[1])) for key, v in sums.items()}
        seen, _ = items_seen(batch, table.shape[-1])
        return Tally(sums={**sums, "seen": seen.astype(float)})

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Z = (seen - expected) / sqrt(sum p (1-p)), Bonferroni over items and positions, for
        expectations above 5.
        """
        from scipy import special

        if not tally.sums:
            return [
                Finding(
                    self.name, SKIPPED, "the log has no usable distribution of the logging policy"
                )
            ]
        expected, spread, seen = (tally.sums[key] for key in ("expected", "spread", "seen"))
        tested = (spread > 5) & (expected > 5)
        z = np.divide(seen - expected, np.sqrt(spread), out=np.zeros_like(expected), where=tested)
        p = 2 * special.ndtr(-np.abs(z)) * max(int(tested.sum()), 1)
        if not tested.any() or p.min() > 0.01:
            return [
                Finding(self.name, PASSED, "items are shown as often as 'propensity_dist' says")
            ]
        off = np.divide(
            np.abs(seen - expected),
            expected,
            out=np.zeros_like(expected),
            where=tested & (p <= 0.01),
        )
        k, a = np.unravel_index(int(np.argmax(np.abs(z))), z.shape)
        positions = sorted({int(row) + 1 for row in np.argwhere(p <= 0.01)[:, 0]})
        names = subject.first.action_names
        label = names[a] if names is not None else str(a)
        return [
            Finding(
                self.name, FAILED if off.max() > 0.1 else WARNED,
                f"item {label} stands at position {k + 1} {seen[k, a]:,.0f} times, where "
                f"{expected[k, a]:,.0f} are "
                f"expected (z = {z[k, a]:.1f}); positions affected: {listed(positions)}",
                cause="the logged distribution is not the one that was drawn from",
                remedy="log the probabilities after all filters, boosts and deduplication, at the "
                       "moment of the draw",
            )
        ]  # fmt: skip


class Replacement:
    """Independent positions repeat items now and then; a ranking without repeats is drawn without
    replacement.
    """

    name = "repeated-items"
    most: int | None = None

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count rankings with a repeat, pairs, and items by position."""
        if subject.kind != "factored":
            return Tally()
        seen, repeats = items_seen(batch, int(batch.action.max(initial=0)) + 1)
        return Tally(
            sums={"repeats": np.array([repeats]), "n": np.array([batch.n]), "seen": seen},
            examples={
                "any": examples_at(np.ones(min(batch.n, 1), bool), batch.action[:1], batch.start)
            },
        )

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Under independence n sum_{k<l} sum_a f_k(a) f_l(a) repeats are expected: none among 20
        has chance 2e-9.
        """
        if subject.kind != "factored" or subject.first.K < 2:
            return [
                Finding(
                    self.name,
                    SKIPPED,
                    f"propensities are '{subject.kind}', or rankings have one item",
                )
            ]
        seen, n, repeats = (
            tally.sums["seen"].astype(float),
            tally.count("n"),
            tally.count("repeats"),
        )
        share = seen / n
        total = share.sum(axis=0)
        expected = n * float((total**2 - (share**2).sum(axis=0)).sum()) / 2
        if repeats == 0 and expected > 20:
            return [
                Finding(
                    self.name,
                    FAILED,
                    "no ranking repeats an item, where independent positions would give about "
                    f"{expected:,.0f} repeats",
                    tally.examples.get("any", ()),
                    "items were drawn without replacement, so positions are not independent",
                    "if the numbers are P(a_k | items above), use --propensity-kind prefix; if "
                    "they are marginals, use --propensity-kind position",
                )
            ]
        return [
            Finding(
                self.name,
                PASSED,
                f"{repeats:,} of {n:,} rankings repeat an item, as independent draws may",
            )
        ]
