"""The numbers of learning, each with its unit, its reason and, where there is one, its evidence."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Tuned numbers of learning."""

    #: Share of the units that learn. The model needs fewer rows than the certificate (40 development
    #: logs: .3 and .4 certify alike, .2 less).
    learn_share: float = 0.4
    #: Rankings drawn for a row. Twice the largest m, so that its weight is not all or nothing.
    draws: int = 64
    #: Largest m: more draws for a page than anyone serves.
    largest_m: int = 32
    #: Quantile of predicted list values at which the control variate is capped. The lowest possible
    #: lift grows with it, its use does not (a prototype; 40 development logs differ little from .5 to 1).
    cap: float = 0.8
    #: Factor on the expected distance of the bound by which m is chosen: a bound below zero is worth
    #: nothing (100 development logs, docs/evidence/appendix.md).
    caution: float = 1.25
    #: Standard errors by which the learning rows must show a gain too. Of noise that the other rows
    #: would certify, this stops nine tenths (100 development logs, docs/evidence/appendix.md).
    agree: float = 1.3
    #: Folds of the learning rows: m is chosen on rows that the model was not fitted to.
    folds: int = 4
    #: Trees. With the click model's key among the columns few are needed.
    trees: int = 60
    #: Leaves of a tree: products of about four columns.
    leaves: int = 15
    #: Slots in a leaf at least: a click rate of 50 slots is known within .07.
    leaf_rows: int = 50
    #: Learning rate, small enough for 60 trees.
    rate: float = 0.08
    #: Standard errors by which ranks of logged rankings among draws may differ from uniform. Eight
    #: tests, false alarms in about 1 of 20,000 logs (3.5 refused 1 good log of 40).
    wrong_sampler: float = 4.5
    #: Rankings drawn for a row for ranks by probability.
    likely_draws: int = 16
    #: Units at least on either side of the split.
    fewest: int = 20
    #: Certifying units at least for a t bound: with 60 it certified noise in 13 % of logs at level 95 %
    #: (docs/evidence/appendix.md).
    many: int = 150
    #: Share of the certifying rows from which a unit is named: the bound allows for all its rows turning
    #: out badly at once (with one of 9 % it was half a reward below the estimate).
    heavy: float = 0.05
    #: Rows over which the exposure of items is averaged.
    exposed: int = 4_000


SETTINGS = LearningSettings()
