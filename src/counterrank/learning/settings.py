"""Tuned numbers of learning, each with its unit, its reason and its evidence."""

#: Share of the units that learn. The model needs fewer rows than the certificate (40 development
#: logs: .3 and .4 certify alike, .2 less).
LEARN_SHARE = 0.4
#: Number of rankings drawn for a row: twice the largest m, so that weights are not all or nothing.
DRAWS = 64
#: Largest m: more draws for a page than are served in practice.
LARGEST_M = 32
#: Quantile of predicted list values at which the control variate is capped. A larger one makes the
#: bound wider without reducing the variance (40 development logs differ little from .5 to 1).
CAP = 0.8
#: Factor of the expected distance of the bound by which m is chosen, because a bound below zero has no
#: use (100 development logs, docs/evidence/appendix.md).
CAUTION = 1.25
#: Standard errors by which the lift on the learning rows must exceed zero. It stops nine tenths of the
#: noise that the other rows would certify (100 development logs, docs/evidence/appendix.md).
AGREE = 1.3
#: Folds of the learning rows, so that m is chosen on rows to which the model was not fitted.
FOLDS = 4
#: Number of trees. Few are enough because the click model's score is among the columns.
TREES = 60
#: Leaves of a tree: products of about four columns.
LEAVES = 15
#: Minimum number of slots in a leaf: the standard error of a click rate of 50 slots is at most .07.
LEAF_ROWS = 50
#: Learning rate, small enough for 60 trees.
RATE = 0.08
#: Standard errors by which ranks of logged rankings among draws may differ from uniform. With eight
#: tests this gives false alarms in about 1 of 20,000 logs (3.5 refused 1 good log of 40).
WRONG_SAMPLER = 4.5
#: Number of rankings drawn for a row to rank by probability.
LIKELY_DRAWS = 16
#: Minimum number of units on either side of the split.
FEWEST = 20
#: Minimum number of certifying units for a t bound: with 60 it certified noise in 13 % of logs at level
#: 95 % (docs/evidence/appendix.md).
MANY = 150
#: Share of the certifying rows from which a unit is reported, because the bound allows for a bad
#: outcome of all its rows (with one of 9 % it was half a reward below the estimate).
HEAVY = 0.05
