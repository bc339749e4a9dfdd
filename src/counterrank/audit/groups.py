"""E[w] = 1, by position, day and segment, and who is to blame when it is not."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.audit.findings import Finding, Subject, Tally, listed
from counterrank.audit.rows import days_of
from counterrank.audit.values import logged_numbers
from counterrank.diagnostics import FAILED, PASSED, SKIPPED, WARNED, by_label
from counterrank.errors import CounterrankError
from counterrank.log import LOGGING, RankingLog
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]
#: Groups with fewer effective rows are not tested: their means are too skewed for a normal test.
TESTED_ESS = 100.0


def weights_of(batch: RankingLog, target: str) -> Floats:
    """Return the lightest weights (n, K) whose mean must be 1 that the propensities allow."""
    ratios = ratios_of(batch, target)
    if ratios.kind != "policy" and "position" in ratios.supports:
        return ratios.position()
    return ratios.prefix() if "prefix" in ratios.supports else ratios.full()


def weight_sums(w: Floats, used: NDArray[np.bool_]) -> Floats:
    """Return count, sum and sum of squares by position (3, K)."""
    w = np.where(used, w, 0.0)
    return np.stack([used.sum(axis=0), w.sum(axis=0), (w**2).sum(axis=0)]).astype(float)


def tested(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, z and two-sided p of E[w] = 1 from (3, ...) sums; NaN where there is too little to test."""
    from scipy import special

    count, first, second = sums
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = first / count
        error = np.sqrt(np.maximum(second / count - mean**2, 0.0) / np.maximum(count - 1, 1))
        z = np.where(np.abs(mean - 1) < 1e-9, 0.0, (mean - 1) / error)
        enough = (first**2 / second >= TESTED_ESS) | (first == 0) & (count >= TESTED_ESS)
        p = np.where(enough, 2 * special.ndtr(-np.abs(z)), np.nan)
    return mean, z, p


class MeanWeight:
    """Weights of each target average 1 at every position."""

    name = "mean-weight"

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Sum weights of each target, and 1/p of the logger, by position."""
        used = subject.used(batch)
        sums: dict[str, Any] = {}
        for name in subject.targets:
            try:
                sums[name] = weight_sums(weights_of(batch, name), used)
            except CounterrankError:
                continue
        mine = logged_numbers(batch, LOGGING)
        if mine is not None and subject.kind in ("factored", "position"):
            sums["1/p"] = weight_sums(1.0 / mine, used)
        return Tally(sums=sums, peaks={"actions": np.array([int(batch.action.max(initial=0)) + 1])})

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Holm over positions; material when the mean is off by 10 %."""
        found = {name: tested(tally.sums[name]) for name in subject.targets if name in tally.sums}
        if not found:
            return [Finding(self.name, SKIPPED, "no target policy was named, or its weights cannot be formed")]
        small = too_small(tally, subject)
        wrong = [name for name, (_, _, p) in found.items() if _family(p) <= 0.01]
        return [self._finding(name, *found[name], wrong=wrong, all_of=len(found), small=small) for name in found]

    def _finding(
        self, name: str, mean: Floats, z: Floats, p: Floats, *, wrong: list[str], all_of: int, small: bool
    ) -> Finding:
        if np.isnan(p).all():
            return Finding(self.name, SKIPPED, f"the weights of '{name}' are too heavy to test their mean")
        if name not in wrong:
            worst = float(np.nanmax(np.abs(mean - 1)))
            return Finding(self.name, PASSED, f"weights of '{name}' average 1 within chance (within {worst:.1%})")
        worst_at = int(np.nanargmin(np.where(np.isnan(p), 2.0, p)))
        weak = [int(k) + 1 for k in np.flatnonzero(p * np.sum(~np.isnan(p)) <= 0.01)]
        off = float(np.abs(mean - 1)[~np.isnan(p)].max())
        text = (
            f"weights of '{name}' average {mean[worst_at]:.3g} instead of 1 at position {worst_at + 1} "
            f"(z = {z[worst_at]:.1f}); positions affected: {listed(weak)}"
        )
        cause, remedy = blame(float(mean[worst_at]), alone=len(wrong) == 1 and all_of > 1, small=small)
        return Finding(self.name, FAILED if off > 0.1 else WARNED, text, cause=cause, remedy=remedy)


def too_small(tally: Tally, subject: Subject) -> bool:
    """Return whether the logger's numbers are too small to be probabilities: mean 1/p above the number of items.

    E[1/p] is the number of items with a chance, whatever the policy, so it cannot exceed A.
    """
    if "1/p" not in tally.sums:
        return False
    size = max(int(tally.peaks["actions"][0]), subject.first.n_actions)
    scaled = tally.sums["1/p"] / np.array([1.0, size, size**2])[:, None]
    if not np.isfinite(scaled).all():  # an item with a chance of 1e-154 or less was shown
        return True
    mean, z, p = tested(scaled)
    return bool(np.any((mean > 1.02) & (z > 0) & (np.nan_to_num(p, nan=1.0) < 0.001)))


def blame(mean: float, *, alone: bool, small: bool) -> tuple[str, str]:
    """Return likely cause and remedy of a mean weight off 1."""
    if alone:
        return (
            "this target alone is off, so its probabilities are wrong: another version, candidate set or normalisation",
            "score the target policy on the logged candidates, each row summing to 1 over them",
        )
    if small:
        return (
            "the logged propensities are too small: joint or cumulative probabilities, or a policy with more "
            "candidates than were eligible",
            "log P(a_k | x) of the item at its own position; see --propensity-kind",
        )
    if mean < 1:
        return (
            "the target shows items the logger never shows, or the propensities are too large, or the target's "
            "probabilities do not sum to 1",
            "compare candidate sets of both policies; log propensities after filtering",
        )
    return (
        "the propensities are too small for how often items are shown, or the target's probabilities sum to over 1",
        "check that propensities and target probabilities are of the same event (item at its position)",
    )


class InversePropensity:
    """The logger alone: the mean of 1/p is the number of items with a chance, so never more than there are."""

    name = "inverse-propensity"

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Sum 1/p by position."""
        mine = logged_numbers(batch, LOGGING)
        if mine is None or subject.kind not in ("factored", "position"):
            return Tally()
        sums = {"1/p": weight_sums(1.0 / mine, subject.used(batch))}
        return Tally(sums=sums, peaks={"actions": np.array([int(batch.action.max(initial=0)) + 1])})

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Fail when it is significantly more at some position."""
        if "1/p" not in tally.sums:
            return [Finding(self.name, SKIPPED, f"'{subject.kind}' propensities are not of single items")]
        size = max(int(tally.peaks["actions"][0]), subject.first.n_actions)
        mean = tally.sums["1/p"][1] / np.maximum(tally.sums["1/p"][0], 1)
        text = f"the mean of 1/propensity is at most {mean.max():.4g}, with {size:,} items"
        if not too_small(tally, subject):
            return [Finding(self.name, PASSED, text)]
        cause, remedy = blame(2.0, alone=False, small=True)
        return [Finding(self.name, FAILED, f"{text}: more than probabilities allow", cause=cause, remedy=remedy)]


class MeanWeightByGroup:
    """The same by day and by segment: a join or a policy change shows up in one of them only."""

    name = "mean-weight-by-group"

    def partial(self, batch: RankingLog, subject: Subject) -> Tally:
        """Sum each row's mean weight by group."""
        sums: dict[str, Any] = {}
        for name in subject.targets:
            try:
                w = weights_of(batch, name)
            except CounterrankError:
                continue
            used = subject.used(batch)
            row = np.where(used, w, 0.0).sum(axis=1) / np.maximum(batch.lengths, 1)
            for kind, label, rows in _groups(batch, subject):
                part = row[rows]
                sums[f"{name}\t{kind}\t{label}"] = np.array([len(part), part.sum(), (part**2).sum()])
        return Tally(sums=sums)

    def finish(self, tally: Tally, subject: Subject) -> list[Finding]:
        """Holm over the groups of each target and column."""
        families: dict[tuple[str, str], dict[str, Floats]] = {}
        for key, sums in tally.sums.items():
            name, kind, label = key.split("\t", 2)
            families.setdefault((name, kind), {})[label] = sums
        found = [self._finding(name, kind, groups) for (name, kind), groups in sorted(families.items())]
        missing = "no time column or segment to look at; name one with --time or --segment"
        if not subject.targets:
            missing = "no target to look at; name one with --target"
        return found or [Finding(self.name, SKIPPED, missing)]

    def _finding(self, name: str, kind: str, groups: dict[str, Floats]) -> Finding:
        labels = sorted(groups)
        mean, z, p = tested(np.stack([groups[label] for label in labels], axis=1))
        check = f"mean-weight-by-{kind}"
        if np.isnan(p).all():
            return Finding(check, SKIPPED, f"groups of '{kind}' are too small to test the weights of '{name}'")
        adjusted = p * np.sum(~np.isnan(p))
        bad = [i for i in range(len(labels)) if adjusted[i] <= 0.01]
        if not bad:
            return Finding(check, PASSED, f"weights of '{name}' average 1 in each of {len(labels)} groups of '{kind}'")
        worst = min(bad, key=lambda i: p[i])
        text = (
            f"weights of '{name}' average {mean[worst]:.3g} instead of 1 where {kind} is {labels[worst]} "
            f"(z = {z[worst]:.1f}); groups affected: {listed([labels[i] for i in bad])} of {len(labels)}"
        )
        off = max(abs(float(mean[i]) - 1) for i in bad)
        everywhere = len(bad) == len(labels)
        cause = (
            "propensities or target probabilities are wrong everywhere; see mean-weight"
            if everywhere
            else "a policy, candidate set or join that changed there and was logged as if it had not"
        )
        return Finding(check, FAILED if off > 0.1 else WARNED, text, cause=cause, remedy="" if everywhere else
                       "leave these groups out, or log the policy that really ran there")  # fmt: skip


def _groups(batch: RankingLog, subject: Subject) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    if subject.time is not None:
        for label, rows in by_label(days_of(batch, subject.time)):
            yield "day", label, rows
    for cut in subject.segments:
        for label, rows in cut.groups(batch):
            yield cut.column, label, rows


def _family(p: Floats) -> float:
    good = p[~np.isnan(p)]
    return float(min(1.0, good.min() * len(good))) if len(good) else 1.0
