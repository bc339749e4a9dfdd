"""The numbers of learning: one table, each with its unit, its reason and what it was set on."""

from counterrank.settings import Setting

SETTINGS: dict[str, Setting[float]] = {
    "learn_share": Setting(
        0.4,
        "of the units",
        "the model needs fewer rows than the certificate",
        "40 development logs: .3 and .4 certify alike, .2 less",
    ),
    "draws": Setting(
        64,
        "rankings a row",
        "reference draws of the logger: twice the largest m, so that its weight is not all or "
        "nothing",
        "reasoned",
    ),
    "largest_m": Setting(32, "rankings", "more draws for a page than anyone serves", "reasoned"),
    "cap": Setting(
        0.8,
        "quantile of predicted list values",
        "the control variate ends here: the bound's lower end grows with it, its use does not",
        "a prototype; 40 development logs differ little from .5 to 1",
    ),
    "caution": Setting(
        1.25,
        "of the bound's usual distance",
        "m is chosen for the bound to expect: a bound missed is worth nothing",
        "100 development logs, docs/evidence/learning.md",
    ),
    "agree": Setting(
        1.3,
        "standard errors",
        "the learning rows must show a gain too: of noise that the others would certify nine "
        "tenths end here",
        "100 development logs, docs/evidence/learning.md",
    ),
    "folds": Setting(
        4,
        "folds of the learning rows",
        "m is chosen on rows that did not fit the model",
        "reasoned",
    ),
    "trees": Setting(
        60, "trees", "with the click model's key among the columns few are needed", "reasoned"
    ),
    "leaves": Setting(15, "leaves of a tree", "products of about four columns", "reasoned"),
    "leaf_rows": Setting(
        50, "slots in a leaf, at least", "a click rate of 50 slots is known within .07", "reasoned"
    ),
    "rate": Setting(0.08, "step of a tree", "slow enough for 60 trees to be few", "reasoned"),
    "wrong_sampler": Setting(
        4.5,
        "standard errors",
        "ranks of the logged rankings among drawn ones are uniform if the sampler is the logger's; "
        "eight tests, false alarms about 1 in 20,000 logs (3.5 refused 1 good log of 40)",
        "reasoned",
    ),
    "likely_draws": Setting(16, "rankings a row", "enough for ranks by probability", "reasoned"),
    "fewest": Setting(
        20, "units on either side", "with fewer nothing can be learned or certified", "reasoned"
    ),
    "many": Setting(
        150,
        "certifying units",
        "a t bound needs many: with 60 it certified noise in 13 % of logs at level 95 %",
        "docs/evidence/learning.md",
    ),
    "heavy": Setting(
        0.05,
        "of the certifying rows",
        "a unit with more is named: the bound allows for all its rows turning out badly at once",
        "reasoned: with one of 9 % it was half a reward below the estimate",
    ),
    "exposed": Setting(4000, "rows", "rows from which exposure of items is averaged", "reasoned"),
}
