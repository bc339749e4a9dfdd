"""The numbers of `auto`: one table, each with its unit, its reason and what it was set on."""

from counterrank.settings import Setting

SETTINGS: dict[str, Setting[float]] = {
    "folds": Setting(
        5,
        "folds",
        "a fit sees four fifths of the rows, and five fits make a jackknife",
        "reasoned",
    ),
    "close": Setting(
        1.05,
        "of the least error on unseen rows",
        "closed-form models up to here say how far to trust any of them; each counts by its "
        "likelihood: where there are several, the median error was .6 of an A/B test's half-width, "
        "1.3 when they counted alike, .7 to .8 when those within .5 to 2 % did",
        "101 logs of the factored study that had been looked at before, 32 with several models",
    ),
    "likelihood": Setting(
        0.125,
        "power of the likelihood by which click models count",
        "of unseen rewards in what the logger shows, which says only in part how right a model is "
        "about the target: 1 errs by .65 half-widths of an A/B test, 1/4 to 1/32 by .56 to .59",
        "36 development worlds, n 2,000 and 20,000, two logs each",
    ),
    "training_rows": Setting(
        32_768,
        "rankings",
        "more change the last digits of a model; every row is evaluated",
        "reasoned",
    ),
    "asked_rows": Setting(
        32_768,
        "rankings",
        "as many as models are trained on: asking more would not take off what the fits' own "
        "error leaves; half-widths at 32, 65 and 131 thousand of a million rows: .0225, .0244, "
        ".0248",
        "a dbn world of 100 items, 10 positions, a million rankings",
    ),
    "draws": Setting(
        4,
        "rankings of the target a row",
        "their noise is a quarter of the models' spread between rankings, little beside that of "
        "rewards",
        "reasoned",
    ),
    "draws_together": Setting(
        200_000,
        "drawn rankings",
        "on long logs the rows average out what fewer draws leave",
        "reasoned",
    ),
    "pool": Setting(
        32,
        "candidates",
        "as many a reader may see on one page, whether their rewards are logged or not",
        "reasoned",
    ),
    "same_amount": Setting(
        0.1,
        "standard deviation of log amounts between items",
        "items whose clicks earn about the same need no price",
        "reasoned",
    ),
    "often": Setting(
        10,
        "clicks",
        "an item that was clicked as often has shown what a click on it earns",
        "reasoned",
    ),
    "fold_rows": Setting(
        1_024,
        "rankings",
        "rows on which fits of different folds are compared: pairs, so few do; the "
        "policies' weights are looked at on the same rows",
        "reasoned",
    ),
    "fold_block": Setting(
        64,
        "rankings in a row",
        "of which those rows are made: calls of models cost more than rows",
        "reasoned",
    ),
    "fold_draws": Setting(
        2,
        "rankings of the target a row",
        "as for the rows",
        "reasoned",
    ),
    "fold_share": Setting(
        0.001,
        "of the average",
        "a model that counts less moves what the fits' error does to the estimate by no more",
        "reasoned",
    ),
    "clip": Setting(
        0.25,
        "of sqrt(n)",
        "no row moves the estimate by more than a quarter of its standard error's unit",
        "the study's development draws",
    ),
    "longest": Setting(
        100,
        "positions",
        "models have an entry for each pair of positions",
        "reasoned",
    ),
    "controls": Setting(
        128,
        "columns",
        "a regression of n rows on more would cost more than it gains",
        "reasoned",
    ),
    "spread": Setting(
        0.5,
        "half-ranges of the models' estimates",
        "models that agree may still share an error",
        "36 development worlds, n 2,000 and 8 at 20,000, replayed clicks, 14 factored",
    ),
    "effect": Setting(
        0.15,
        "of the change by position that the models expect",
        "models are made of what the logger showed, and err in proportion to how far the target "
        "leaves it: .1 to .3 cover them all, widths 1.5 to 2.2 of an A/B test",
        "36 development worlds, n 2,000 and 20,000, two logs each",
    ),
    "interactions": Setting(
        0.05,
        "of what the models say that own-position weights alone miss",
        "what items do for themselves and to each other may cancel in the change by position, and "
        "with it the allowance, while a model errs in both: coverage .92 without, .955 with .05 to "
        ".15, widths 2.1 and 2.3 to 2.8 of an A/B test",
        "66 logs of the factored study that had been looked at before",
    ),
    "bare": Setting(
        0.75,
        "of the change by position that the target makes",
        "without a model nothing stands for interactions",
        "development draws",
    ),
    "alone": Setting(
        0.1,
        "of the value, for the share of the target that rests on the models alone",
        "where nothing was shown, models of one log are all wrong in the same way: with 40 % of the "
        "target resting on them they were off by 3 to 5 % of the value; .05 and .1 err alike, "
        "widths 1.90 and 1.97 of an A/B test",
        "34 development worlds, n 2,000 and 20,000, and 13 more of swaps and UBM at 2,000",
    ),
    "told": Setting(
        0.05,
        "of the target",
        "from here on a flag tells how much rests on the models alone",
        "reasoned",
    ),
    "reach": Setting(
        0.8,
        "of the target",
        "beyond it the log is no evidence: what models say of items that were hardly ever shown "
        "missed the truth",
        "development draws",
    ),
    "usual": Setting(
        0.15,
        "of the allowance",
        "the bias one usually has, against the most one allows for: .1, .15, .2, .3 and .5 err by "
        ".57, .58, .59, .62 and .67 half-widths of an A/B test",
        "36 development worlds, n 2,000 and 20,000, two logs each",
    ),
    "bare-usual": Setting(
        0.1,
        "of the allowance",
        "the same without a model, where the allowance is made of noise",
        "development draws",
    ),
    "bare-iips": Setting(
        0.9, "of the first allowance", "own items alone tell little of interactions", "reasoned"
    ),
    "evidence": Setting(
        9.0,
        "variances",
        "a difference to a richer member is bias beyond three standard errors: heavy tails make "
        "smaller ones by chance",
        "development draws",
    ),
    "left-iips": Setting(
        0.5, "of the first allowance", "own items are right, how they interact is not", "reasoned"
    ),
    "left-order-2": Setting(
        0.5, "of the first allowance", "pairs are right, more items at a time are not", "reasoned"
    ),
    "left-order-3": Setting(0.2, "of the first allowance", "as for pairs, one further", "reasoned"),
    "left-rips": Setting(
        0.3, "of the first allowance", "people mostly read from the top, not always", "reasoned"
    ),
}
