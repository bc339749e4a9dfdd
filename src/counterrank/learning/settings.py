"""The numbers of learning, each with its unit, its reason and, where there is one, its evidence."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """Tuned numbers of learning."""

    #: Of the units: the model needs fewer rows than the certificate (40 development logs: .3 and
    #: .4 certify alike, .2 less).
    learn_share: float = 0.4
    #: Rankings a row: reference draws of the logger: twice the largest m, so that its weight is not all or nothing.
    draws: int = 64
    #: Rankings: more draws for a page than anyone serves.
    largest_m: int = 32
    #: Quantile of predicted list values: the control variate ends here: the bound's lower end
    #: grows with it, its use does not (a prototype; 40 development logs differ little from .5 to
    #: 1).
    cap: float = 0.8
    #: Of the bound's usual distance: m is chosen for the bound to expect: a bound missed is worth
    #: nothing (100 development logs, docs/evidence/learning.md).
    caution: float = 1.25
    #: Standard errors: the learning rows must show a gain too: of noise that the others would
    #: certify nine tenths end here (100 development logs, docs/evidence/learning.md).
    agree: float = 1.3
    #: Folds of the learning rows: m is chosen on rows that did not fit the model.
    folds: int = 4
    #: Trees: with the click model's key among the columns few are needed.
    trees: int = 60
    #: Leaves of a tree: products of about four columns.
    leaves: int = 15
    #: Slots in a leaf, at least: a click rate of 50 slots is known within .07.
    leaf_rows: int = 50
    #: Step of a tree: slow enough for 60 trees to be few.
    rate: float = 0.08
    #: Standard errors: ranks of the logged rankings among drawn ones are uniform if the sampler is
    #: the logger's; eight tests, false alarms about 1 in 20,000 logs (3.5 refused 1 good log of
    #: 40).
    wrong_sampler: float = 4.5
    #: Rankings a row: enough for ranks by probability.
    likely_draws: int = 16
    #: Units on either side: with fewer nothing can be learned or certified.
    fewest: int = 20
    #: Certifying units: a t bound needs many: with 60 it certified noise in 13 % of logs at level
    #: 95 % (docs/evidence/learning.md).
    many: int = 150
    #: Of the certifying rows: a unit with more is named: the bound allows for all its rows turning
    #: out badly at once (reasoned: with one of 9 % it was half a reward below the estimate).
    heavy: float = 0.05
    #: Rows: rows from which exposure of items is averaged.
    exposed: int = 4_000


SETTINGS = LearningSettings()
