"""The numbers of learning, each with its unit, its reason and, where there is one, its evidence."""

#: Share of the units that learn. The model needs fewer rows than the certificate (40 development
#: logs: .3 and .4 certify alike, .2 less).
LEARN_SHARE = 0.4
#: Rankings drawn for a row. Twice the largest m, so that its weight is not all or nothing.
DRAWS = 64
#: Largest m: more draws for a page than anyone serves.
LARGEST_M = 32
#: Quantile of predicted list values at which the control variate is capped. The lowest possible
#: lift grows with it, its use does not (a prototype; 40 development logs differ little from .5 to 1).
CAP = 0.8
#: Factor on the expected distance of the bound by which m is chosen: a bound below zero is worth
#: nothing (100 development logs, docs/evidence/appendix.md).
CAUTION = 1.25
#: Standard errors by which the learning rows must show a gain too. Of noise that the other rows
#: would certify, this stops nine tenths (100 development logs, docs/evidence/appendix.md).
AGREE = 1.3
#: Folds of the learning rows: m is chosen on rows that the model was not fitted to.
FOLDS = 4
#: Trees. With the click model's key among the columns few are needed.
TREES = 60
#: Leaves of a tree: products of about four columns.
LEAVES = 15
#: Slots in a leaf at least: a click rate of 50 slots is known within .07.
LEAF_ROWS = 50
#: Learning rate, small enough for 60 trees.
RATE = 0.08
#: Standard errors by which ranks of logged rankings among draws may differ from uniform. Eight
#: tests, false alarms in about 1 of 20,000 logs (3.5 refused 1 good log of 40).
WRONG_SAMPLER = 4.5
#: Rankings drawn for a row for ranks by probability.
LIKELY_DRAWS = 16
#: Units at least on either side of the split.
FEWEST = 20
#: Certifying units at least for a t bound: with 60 it certified noise in 13 % of logs at level 95 %
#: (docs/evidence/appendix.md).
MANY = 150
#: Share of the certifying rows from which a unit is named: the bound allows for all its rows turning
#: out badly at once (with one of 9 % it was half a reward below the estimate).
HEAVY = 0.05
