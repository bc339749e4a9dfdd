"""Checks of an A/B test on its log: whether chance divided the users, and whether the weights are right."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from counterrank.arrays import Floats
from counterrank.estimators import can_model
from counterrank.evaluation.pooling import PooledTest
from counterrank.inference import AdjustedMean, Looks, critical_value, mean_of
from counterrank.messages import Message
from counterrank.policies import Scored, TeamDraft
from counterrank.texts import in_percent, listed

#: A check fails beyond 3.3 standard errors: chance does that in one of a thousand tests, so that the
#: coverage of the headline hardly depends on it.
CHECK = 0.999
#: Weights average one but for roundings.
_ROUNDING = 1e-9
#: An item is a candidate of one arm alone when chance would do that to any item this rarely.
_CHANCE = 1e-6


def reach(mean: AdjustedMean, level: float, n: int, looks: Looks) -> float:
    """Return half the length of an interval: by t for one look, at any time for several."""
    far = critical_value(level, mean.df) if looks.rows is None else looks.critical(level, n)
    return far * mean.stderr


def wrong_weights(test: PooledTest, pair: Sequence[int], looks: Looks) -> list[Message]:
    """Return a note where the weights of one of two arms do not average one.

    No reward enters, so that this finds wrong probabilities long before rewards do.
    """
    for index in pair:
        excess = mean_of(test.weights[:, index] - 1.0, test.strata)
        if abs(excess.value) > reach(excess, CHECK, test.log.n, looks) + _ROUNDING:
            return [
                Message(
                    "arm-weights",
                    f"the weights of '{test.names[index]}' average {1.0 + excess.value:.4g} and not "
                    "1, more than three standard errors away: its probabilities are not those that "
                    "served the pages",
                )
            ]
    return []


def notes_on(test: PooledTest) -> list[Message]:
    """Return what has to be said of the test as a whole."""
    found: list[Message] = []
    log, strata = test.log, test.strata
    if strata.shared_units:
        share = in_percent(strata.shared_units / (int(strata.unit.max()) + 1))
        found.append(
            Message(
                "units-in-several-arms",
                f"{strata.shared_units:,} units ({share}) have rows in more than one arm: what one "
                "ranker taught them the other earns; errors count units all the same",
            )
        )
    elif log.unit is not None:
        found += _visits(test)
    if test.context is not None:
        found += _who(test, test.context.sum(axis=1))
    if not can_model(log, test.names):
        found.append(
            Message(
                "weights-only",
                "no pages of the arms can be drawn from what the log holds of them, so that no "
                "reward model helps; with their scores (NAME_scores and --policy NAME=KIND) it may",
            )
        )
    found += _candidates(test)
    mixed = [name for name in test.names if isinstance(log.target(name), TeamDraft)]
    if mixed:
        found.append(
            Message(
                "interleaved",
                f"pages of {listed(mixed)} are drafted from two rankers: such a row tells of a "
                "ranker as far as that ranker could have shown the whole page; whose items were "
                "clicked says which is liked better, not what a page of its own would earn",
            )
        )
    return found


def _visits(test: PooledTest) -> list[Message]:
    """Return a note where units of one arm have more rows than those of another.

    Visits that the ranking brought are in no difference per ranking.
    """
    rows = np.bincount(test.strata.unit)
    owner = np.zeros(len(rows), dtype=np.int64)
    owner[test.strata.unit] = test.strata.arm
    means, errors = [], []
    for index in range(len(test.names)):
        own = rows[owner == index]
        means.append(float(own.mean()))
        errors.append(float(own.var(ddof=1)) / len(own))
    low, high = int(np.argmin(means)), int(np.argmax(means))
    error = math.sqrt(errors[low] + errors[high])
    if means[high] - means[low] <= critical_value(CHECK) * error:
        return []
    return [
        Message(
            "visits-differ",
            f"units of '{test.names[high]}' have {means[high]:.3g} rankings each and those of "
            f"'{test.names[low]}' {means[low]:.3g}: lifts here are per ranking; compare what users "
            "earned as well",
        )
    ]


def _who(test: PooledTest, expected: Floats) -> list[Message]:
    """Return a note where the arms differ in what their contexts alone would earn: chance did not divide the rows."""
    for index, name in enumerate(test.names):
        coin = (test.strata.arm == index) / test.shares[index] - 1.0
        away = mean_of(coin * (expected - expected.mean()), test.strata)
        if abs(away.value) > critical_value(CHECK, away.df) * away.stderr > 0.0:
            return [
                Message(
                    "arms-differ",
                    f"rows of '{name}' differ from the others in their context, by more than three "
                    "standard errors of what it lets expect: were users divided by chance?",
                )
            ]
    return []


def _candidates(test: PooledTest) -> list[Message]:
    """Return notes where an arm's rows, or an arm's scores, leave out what others could show."""
    found: list[Message] = []
    log, sets = test.log, test.log.candidates
    if sets is None:
        return found
    policies = [log.target(name) for name in test.names]
    barred = [np.isneginf(p.scores) for p in policies if isinstance(p, Scored) and p.candidates is sets]  # fmt: skip
    if len(barred) > 1 and any((one != barred[0]).any() for one in barred):
        some = np.logical_or.reduce([one != barred[0] for one in barred])
        rows = np.unique(np.repeat(np.arange(log.n), sets.counts)[some])
        found.append(
            Message(
                "candidates-differ",
                f"in {in_percent(len(rows) / log.n)} of the rows an arm cannot show what another can: "
                "pages with such items tell of the arms that can show them",
            )
        )
    arm = np.repeat(test.strata.arm, sets.counts)
    counts = np.zeros((int(sets.items.max()) + 1, len(test.names)))
    np.add.at(counts, (sets.items, arm), 1.0)
    total = counts.sum(axis=1)
    # An item of m rows is missing in an arm of share p by chance (1 - p)^m of the time.
    with np.errstate(divide="ignore"):
        rare = total[:, None] * np.log1p(-test.shares) < math.log(
            _CHANCE / max((total > 0).sum(), 1)
        )
    missing = (counts == 0) & rare
    if missing.any():
        index = int(np.argmax(missing.any(axis=0)))
        names = log.action_names or range(len(missing))
        items = [str(names[i]) for i in np.flatnonzero(missing[:, index])]
        found.append(
            Message(
                "candidates-by-arm",
                f"{len(items):,} items are never candidates in rows of '{test.names[index]}' "
                f"({listed(items, most=3)}): list in every row what any arm could have shown, with an "
                "empty score where one could not; otherwise the other arms' probabilities are those "
                "of another page",
            )
        )
    return found
