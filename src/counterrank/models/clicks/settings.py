"""The numbers of the click models: one table, each with its unit, its reason and what it was set
on.
"""

from counterrank.settings import Setting

#: Random streams, each apart from the others; all but the last follow the seed. Signs are drawn to
#: measure noise, and the same residuals must give the same answer whatever the seed.
STREAMS = {"training rows": 47, "random signs": 61}

SETTINGS: dict[str, Setting[float]] = {
    "examined": Setting(
        1.0,
        "logit",
        "examination of a slot before anything was clicked, to which positions are drawn: "
        "73 %, so that a high attraction can still show",
        "reasoned",
    ),
    "position_sd": Setting(
        2.0,
        "logits",
        "a slot may be seen by 27 % to 95 % within one standard deviation",
        "reasoned",
    ),
    "number_sd": Setting(
        0.5,
        "standard deviations, or logarithms of amounts",
        "positions change numbers directly",
        "reasoned",
    ),
    "clicked_sd": Setting(
        3.0,
        "logits",
        "one click may end the session (cascade) or change nothing",
        "reasoned",
    ),
    "distance_sd": Setting(
        1.0,
        "logits",
        "start of what the rows then say (empirical Bayes)",
        "reasoned",
    ),
    "cell_sd": Setting(
        0.5,
        "logits",
        "start of what the rows then say; pairs (slot, last click) are many and rare",
        "reasoned",
    ),
    "after_sd": Setting(
        0.5,
        "logits",
        "start of what the rows then say: how much an item satisfies",
        "reasoned",
    ),
    "constant_sd": Setting(
        5.0,
        "logits",
        "the click rate decides",
        "reasoned",
    ),
    "context_sd": Setting(
        0.5,
        "logits per standard deviation",
        "start of what the rows then say",
        "reasoned",
    ),
    "feature_sd": Setting(
        0.5,
        "logits per standard deviation",
        "start of what the rows then say",
        "reasoned",
    ),
    "product_sd": Setting(
        0.2,
        "logits per standard deviation",
        "start of what the rows then say",
        "reasoned",
    ),
    "extra_sd": Setting(
        0.5,
        "logits per standard deviation",
        "start of what the rows then say",
        "reasoned",
    ),
    "place_sd": Setting(
        0.1,
        "logits per standard deviation and e-fold of the place",
        "start of what the rows then say: features and scores mostly act alike at all places",
        "reasoned",
    ),
    "rival_sd": Setting(
        0.2,
        "logits per standard deviation",
        "start of what the rows then say: often there is none",
        "reasoned",
    ),
    "item_sd": Setting(
        1.0,
        "logits",
        "start of what the rows then say: items around what their features predict",
        "reasoned",
    ),
    "slope_sd": Setting(
        0.3,
        "logits per standard deviation",
        "start of what the rows then say",
        "reasoned",
    ),
    "bend_sd": Setting(
        0.2,
        "logits per standard deviation",
        "start of what the rows then say: squares of the context, for all items and for each",
        "reasoned",
    ),
    "least_sd": Setting(
        0.05,
        "logits",
        "a group is never drawn together more than this",
        "reasoned",
    ),
    "most_sd": Setting(
        3.0,
        "logits",
        "nor left more free",
        "reasoned",
    ),
    "prior_weight": Setting(
        4.0,
        "effects",
        "what the starting spread counts against the effects of its group",
        "reasoned",
    ),
    "rounds": Setting(
        3.0,
        "updates of the spreads",
        "later ones move them by less than a tenth",
        "reasoned",
    ),
    "zeros": Setting(
        0.05,
        "share of the rewards",
        "with fewer zeros an amount is a number like others",
        "reasoned",
    ),
    "rows": Setting(
        50_000.0,
        "rankings",
        "more rows hardly move a few hundred parameters; all rows are evaluated",
        "reasoned",
    ),
    "slopes": Setting(
        200_000.0,
        "items x context columns",
        "beyond it items have no slopes of their own",
        "reasoned",
    ),
    "squares": Setting(
        16.0,
        "context columns",
        "beyond it relevance is linear in the context: every item has a number for each",
        "reasoned",
    ),
    "products": Setting(
        64.0,
        "context x feature columns",
        "beyond it features do not bend with the context",
        "reasoned",
    ),
    "placed": Setting(
        32.0,
        "feature columns",
        "beyond it features act alike at all places",
        "reasoned",
    ),
    "exclude": Setting(
        0.5,
        "of what independent slots have",
        "below it clicks of a page exclude each other, and a choice among its items is a model worth "
        "its cost: pages of one click have 0 to .4, readers who go on after a click .7 and more",
        "six simulated worlds and real news pages",
    ),
    "missed": Setting(
        0.05,
        "of those who see an item",
        "skip it at least, whatever a first fit says: one skip is no proof that the reader has left",
        "reasoned",
    ),
    "rest_discount": Setting(
        0.5,
        "power of the place",
        "lower slots ask for less attention; other powers were not tried by themselves",
        "reasoned",
    ),
    "rest_floor": Setting(
        0.2,
        "odds",
        "what a reader does besides, so that a page of nothing has a logarithm",
        "reasoned",
    ),
    "similar_items": Setting(
        500.0,
        "items",
        "beyond it pairs are too rare to learn from, and their table too large",
        "reasoned",
    ),
    "similar_rank": Setting(
        6.0,
        "ways of being alike",
        "what a few thousand rankings can show",
        "develop worlds",
    ),
    "evidence": Setting(
        1.15,
        "largest eigenvalue of noise",
        "beyond its own spread, which is a few percent",
        "develop worlds",
    ),
    "pair_weight": Setting(
        1.0,
        "information of a pair",
        "pairs seen once or twice would else be the largest residuals",
        "develop worlds",
    ),
    "labels": Setting(
        20.0,
        "indicator columns",
        "as for the context: more labels share hashed columns",
        "reasoned",
    ),
    "far": Setting(
        8.0,
        "standard deviations",
        "outliers of a column are moved here: a ridge is no guard against them",
        "reasoned",
    ),
    "enough": Setting(
        0.2,
        "nats, and as many per 500 parameters",
        "the first Newton step that promises less is the last: "
        "it leaves about its square, where a parameter's noise is half a nat",
        "folds against tight fits, see WHY.md",
    ),
    "steps": Setting(
        25.0,
        "Newton steps",
        "fits end long before by `enough`",
        "reasoned",
    ),
    "start_slots": Setting(
        32_768.0,
        "slots",
        "of the rows on which a fit of many more starts: a fifth off its cost; estimates "
        "are as near to those of fits to a hundredth of `enough` as without: .03 standard errors",
        "five simulated worlds of 12,000 to 40,000 rankings",
    ),
    "block_slots": Setting(
        8_192.0,
        "slots",
        "of the block of common parameters that scales Newton steps: it need not be exact",
        "reasoned",
    ),
    "inner": Setting(
        20.0,
        "products with the Fisher matrix a Newton step",
        "a rough direction is enough",
        "reasoned",
    ),
}
