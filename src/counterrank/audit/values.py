"""Checks of the numbers themselves: range, rounding, constancy, what they are probabilities of."""

from typing import Any

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
from counterrank.audit.kernels import steps
from counterrank.diagnostics import FAILED, PASSED, SKIPPED, WARNED
from counterrank.log import LOGGING, RankingLog
from counterrank.propensity import Propensity

Floats = NDArray[np.float64]
#: Rounded numbers are recognised up to this many decimals.
DECIMALS = 4


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
    inside: Floats = values[subject.used(batch)]
    return inside


class Range:
    """Probabilities lie in (0, 1]; a target's may be 0."""

    name = "probabilities"
    most: int | None = SAMPLED_ROWS

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Return extremes and zeros of each policy's numbers."""
        peaks, sums = {}, {}
        for name in (LOGGING, *subject.targets):
            values = logged_numbers(batch, name)
            if values is not None:
                inside = of_items(batch, values, subject)
                peaks[name] = np.array([inside.max(), -inside.min()])
                sums[name] = np.array([float((inside == 0).sum()), float(inside.size)])
        return Tally(sums=sums, peaks=peaks)

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """A log that could be read has numbers in range; targets that never show the logged items
        are suspect.
        """
        found = []
        for name, (high, low) in tally.peaks.items():
            zeros, cells = tally.sums[name]
            text = f"'{name}' lies between {-low:.4g} and {high:.4g}"
            if zeros > 0.5 * cells:
                found.append(
                    Finding(
                        self.name,
                        WARNED,
                        f"'{name}' gives {zeros / cells:.0%} of the shown items probability 0",
                        cause="the target was joined to other rankings, or is (nearly) "
                        "deterministic",
                        remedy="check the join; a deterministic target keeps only the rows that "
                        "show its own items",
                    )
                )
            else:
                found.append(Finding(self.name, PASSED, text))
        return found or [
            Finding(self.name, SKIPPED, "policies were given as a whole, not as numbers")
        ]


class Rounding:
    """Numbers rounded to few decimals: small probabilities lose their digits."""

    name = "rounding"
    most: int | None = SAMPLED_ROWS

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count the logger's numbers on the grid of 1/10,000 and those that are not multiples of
        10^-d.
        """
        values = logged_numbers(batch, LOGGING)
        if values is None:
            return Tally()
        inside = of_items(batch, values, subject)
        off = np.array(
            [
                (np.abs(inside * 10**d - np.rint(inside * 10**d)) > 1e-7).sum()
                for d in range(DECIMALS + 1)
            ]
        )
        grid = np.bincount(
            np.rint(inside * 10**DECIMALS).astype(np.int64), minlength=10**DECIMALS + 1
        )
        return Tally(
            sums={"off": off.astype(float), "grid": grid}, peaks={"low": np.array([-inside.min()])}
        )

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Warn when all numbers are multiples of 10^-d, many differ, and the smallest has a large
        rounding error.
        """
        if not tally.sums:
            return [
                Finding(
                    self.name, SKIPPED, "the logging policy was given as a whole, not as numbers"
                )
            ]
        digits = np.flatnonzero(tally.sums["off"] == 0)
        distinct = int((tally.sums["grid"] > 0).sum())
        lowest = -float(tally.peaks["low"][0])
        if len(digits) == 0 or distinct < 20:
            return [
                Finding(
                    self.name,
                    PASSED,
                    f"propensities have enough digits ({distinct:,} different values)",
                )
            ]
        error = 0.5 * 10.0 ** -int(digits[0]) / lowest
        status = WARNED if error > 0.05 else PASSED
        return [
            Finding(
                self.name,
                status,
                f"all propensities are multiples of {10.0 ** -int(digits[0]):g}; the smallest, "
                f"{lowest:g}, may be off by {error:.0%}",
                cause=""
                if status == PASSED
                else "probabilities were rounded when they were written",
                remedy=""
                if status == PASSED
                else "log full precision: weights divide by these numbers",
            )
        ]


class Deterministic:
    """A logger that leaves nothing to chance has nothing to say about other choices."""

    name = "exploration"
    most: int | None = None

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count propensities of 1 and items by position."""
        values = logged_numbers(batch, LOGGING)
        if values is None:
            return Tally()
        cells = subject.items(batch) if values.shape[1] == batch.K else np.array([batch.n])
        if values.max(initial=0.0) < 1.0:
            return Tally(sums={"one": np.zeros_like(cells), "cells": cells})
        certain = values >= 1.0
        if values.shape[1] == batch.K:
            certain &= subject.used(batch)
        return Tally(sums={"one": certain.sum(axis=0), "cells": cells})

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Fail when all are 1, warn when a position has nothing but ones."""
        if not tally.sums:
            return [
                Finding(
                    self.name, SKIPPED, "the logging policy was given as a whole, not as numbers"
                )
            ]
        one, cells = tally.sums["one"], np.maximum(tally.sums["cells"], 1)
        share = one / cells
        if one.sum() == cells.sum():
            return [
                Finding(
                    self.name,
                    FAILED,
                    "every propensity is 1",
                    cause="the logging policy is deterministic, or the column holds no "
                    "propensities",
                    remedy="no other policy can be evaluated from it; log the probabilities of a "
                    "policy that explores, "
                    "estimate them if the same context saw different lists, or run an A/B test",
                )
            ]
        # In a ranking without replacement the last of the candidates is certain.
        fixed = np.flatnonzero(share == 1.0) + 1
        if subject.kind == "prefix" and len(fixed) == 1 and fixed[0] == subject.first.K:
            fixed = fixed[:0]
        if len(fixed):
            return [
                Finding(
                    self.name, WARNED, f"every propensity at position {listed(list(fixed))} is 1",
                    cause="the logger does not explore there",
                    remedy="the target must show the same items there; explore these positions too",
                )
            ]  # fmt: skip
        return [
            Finding(
                self.name,
                PASSED,
                f"{1 - one.sum() / cells.sum():.1%} of shown items were a random choice",
            )
        ]


class Meaning:
    """One number repeated at every position is a joint; numbers that only fall are cumulative
    products.
    """

    name = "propensity-kind"
    most: int | None = None

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count rows whose numbers are all equal, or never rise and fall somewhere."""
        values = logged_numbers(batch, LOGGING)
        if values is None or values.shape[1] < 2:
            return Tally()
        # The extremes of first numbers are those of all, where rankings hold one number each.
        counts, span = np.zeros(3, np.int64), np.array([0.0, 1.0])
        steps(np.ascontiguousarray(values), batch.lengths, counts, span)
        return Tally(
            sums=dict(zip(("full", "same", "falling"), counts[:, None], strict=True)),
            peaks={"span": span * (1, -1)},
            examples={"same": examples_at(batch.lengths == batch.K, values, batch.start)},
        )

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Fail on one number for all positions, warn on products."""
        full = tally.count("full")
        if full < 50 or subject.kind == "joint":
            return [
                Finding(
                    self.name, SKIPPED, "too few full rankings, or one number for each, to tell"
                )
            ]
        constant = float(tally.peaks["span"].sum()) == 0.0
        if tally.count("same") == full and not constant:
            return [
                Finding(
                    self.name,
                    FAILED,
                    "each ranking has the same number at all positions",
                    tally.examples.get("same", ()),
                    "the whole ranking's probability was repeated at each position",
                    "read it with --propensity-kind joint",
                )
            ]
        if tally.count("falling") == full and subject.first.K >= 3 and subject.kind != "position":
            return [
                Finding(
                    self.name,
                    WARNED,
                    "propensities fall from position to position in every ranking",
                    tally.examples.get("same", ()),
                    "cumulative products P(a_1..a_k) were logged instead of factors",
                    "divide each number by the one before it and read them with --propensity-kind "
                    "prefix",
                )
            ]
        return [
            Finding(
                self.name, PASSED, f"numbers vary by position as '{subject.kind}' propensities do"
            )
        ]


class SameAsLogger:
    """A target column that repeats the logger's numbers."""

    name = "target-differs"
    most: int | None = SAMPLED_ROWS

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Count numbers of each target that differ from the logger's."""
        mine = logged_numbers(batch, LOGGING)
        sums: dict[str, Any] = {}
        for name in subject.targets:
            values = logged_numbers(batch, name)
            if mine is not None and values is not None and values.shape == mine.shape:
                sums[name] = np.array([(np.abs(values - mine) > 1e-12 * mine).sum()])
        return Tally(sums=sums)

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Warn when nothing differs."""
        found = []
        for name in tally.sums:
            if tally.count(name):
                found.append(
                    Finding(self.name, PASSED, f"'{name}' differs from the logging policy")
                )
            else:
                found.append(
                    Finding(
                        self.name,
                        WARNED,
                        f"'{name}' is the logging policy itself, number by number",
                        cause="the logger's own column was named as the target, or the new policy "
                        "was not scored",
                        remedy="name the column with the new policy's probabilities",
                    )
                )
        return found or [Finding(self.name, SKIPPED, "no target given as numbers")]
