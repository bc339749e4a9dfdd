"""What an estimator assumes of users, and what it makes of the sums over a log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from counterrank.common.records import Json
from counterrank.estimators.columns import logged
from counterrank.estimators.weights.moments import Moments
from counterrank.statistics import ColumnSums, Key, Quantity


@dataclass(frozen=True, slots=True)
class Traits:
    """What an estimator assumes of users, and what it can use.

    ===================  =======================================================================
    `assumes`            whose assumption on how items act on each other it makes: the word of
                         the weights ("ips", "rips", "order-2"), or a name of its own
    `interactions`       how many items at a time may act on a reward: 1 for IIPS, infinite for IPS;
                         None for what does not lie on that path
    `weighs_alone`       a mean of weighted rewards, neither normalised nor tamed nor around a model
    `takes_row_weights`  nothing is fitted or chosen, so that rows may have weights
    `uses_weights`       weights of the logged rankings judge what the target would show
    `user_model`         a model of users without any weight, which the log cannot contradict
    ===================  =======================================================================

    >>> Traits("rips").assumes_less(Traits("iips", 1), 4), Traits("iips", 1).assumes_less(Traits("rips"), 4)
    (True, False)
    """

    assumes: str
    interactions: float | None = None
    weighs_alone: bool = False
    takes_row_weights: bool = False
    uses_weights: bool = True
    user_model: bool = False

    def order(self, K: int) -> int | None:
        """Return how many of K items at a time may act on a reward."""
        return None if self.interactions is None else int(min(self.interactions, K))

    def assumes_less(self, than: Traits, K: int) -> bool:
        """Return whether this makes strictly weaker assumptions on how items act on each other.

        IPS assumes nothing; the cascade and the orders contain IIPS; neither contains the other.
        """
        mine, theirs = self.order(K), than.order(K)
        if mine == K:
            return theirs != K
        if self.assumes == "rips":
            return theirs == 1
        if mine is None:
            return False
        # A learnt mixture of behaviours is held against every order above pairs.
        return mine > theirs if theirs is not None else than.assumes != "rips" and mine >= 3

    def same_weights(self, traits: Traits, K: int) -> bool:
        """Return whether both make the same assumption on pages of K items."""
        order = self.order(K)
        return self.assumes == traits.assumes or (order is not None and order == traits.order(K))


#: What weights known by a word assume.
IPS_TRAITS, IIPS_TRAITS = Traits("ips", math.inf, True, True), Traits("iips", 1, True, True)
RIPS_TRAITS, AIPS_TRAITS = Traits("rips", None, True, True), Traits("aips", None, True)


def traits_of_weights(weights: Any) -> Traits:
    """Return the traits of a mean of rewards by these weights: a word, an interaction order, or a mask.

    >>> traits_of_weights(2).interactions, traits_of_weights("ips").order(5)
    (2, 5)
    """
    if isinstance(weights, int):
        return Traits(f"order-{weights}", weights, True, True)
    by_word = {
        traits.assumes: traits for traits in (IPS_TRAITS, IIPS_TRAITS, RIPS_TRAITS, AIPS_TRAITS)
    }
    word = weights if isinstance(weights, str) else "mask"
    return by_word.get(word, Traits(word, None, True, True))


def with_aggregate(traits: Traits, aggregate: str) -> Traits:
    """Return the traits of the same weights in a "mean", a "ratio" of means or a mean with "control" variates.

    >>> with_aggregate(IPS_TRAITS, "ratio").takes_row_weights, with_aggregate(IPS_TRAITS, "ratio").weighs_alone
    (True, False)
    """
    return replace(
        traits,
        weighs_alone=traits.weighs_alone and aggregate == "mean",
        takes_row_weights=traits.takes_row_weights and aggregate != "control",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What an estimator makes of the sums over rows.

    ====================  ==================================================================
    `total`, `logged`     the value of the page under the target and under the logger
    `positions`           the value of each position, first position first; `logged_positions`
                          what the logger earned there
    `ess`                 effective number of rows
    `basis`               the name of the weights that the interval rests on, `traits` what they
                          assume
    `not_estimable`       why the log cannot say anything about the value; empty where it can
    `flags`, `details`    warnings, and what was fitted and chosen, for people
    `moments`             sums of the weights, where there are any
    `controls`            keys of the row totals of mean zero that were regressed out
    `weighted`            the share of the estimate that weights move
    `unreached`           the share of the target that no weight reaches
    `decision`            what was decided on all rows, which groups of rows follow
    ====================  ==================================================================
    """

    total: Quantity
    logged: Quantity
    positions: tuple[Quantity, ...] = ()
    logged_positions: tuple[Quantity, ...] = ()
    ess: float = 0.0
    basis: str = ""
    traits: Traits | None = None
    not_estimable: str = ""
    flags: tuple[str, ...] = ()
    details: Json = field(default_factory=dict)
    moments: Moments | None = None
    weighted: float = 1.0
    unreached: float = 0.0
    controls: frozenset[Key] = frozenset()
    decision: Any = None

    @classmethod
    def unknown(cls, sums: ColumnSums, metric: str, reason: str) -> Self:
        """Return the solution without a value of an estimator that failed."""
        base = sums.mean(logged(metric))
        return cls(replace(base, value=math.nan), base, not_estimable=reason)

    def with_replicas(self, solutions: Sequence[Solution]) -> Solution:
        """Return the same with the values over bootstrap replicas, which have the error of estimated propensities.

        Each replica has resampled units and propensities estimated anew from them, so its spread holds the
        errors of rows and model together. With a correct model the error by rows is already too large
        (Henmi & Eguchi 2004); the larger of the two does not undercut either.
        """

        def carrying(quantity: Quantity, values: Sequence[Quantity]) -> Quantity:
            return replace(quantity, replicas=np.array([draw.value for draw in values]))

        def each_place(name: str) -> tuple[Quantity, ...]:
            columns = zip(*(getattr(solution, name) for solution in solutions), strict=True)
            return tuple(map(carrying, getattr(self, name), columns))

        total = carrying(self.total, [solution.total for solution in solutions])
        spread = float(np.std(total.replicas, ddof=1)) if len(solutions) > 1 else 0.0
        return replace(
            self,
            total=total,
            logged=carrying(self.logged, [solution.logged for solution in solutions]),
            positions=each_place("positions"),
            logged_positions=each_place("logged_positions"),
            details={**self.details, "bootstrap_stderr": spread},
        )
