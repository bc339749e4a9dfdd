"""The numbers of the click models: one table, each with its unit, its reason and what it was set on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that somebody chose."""

    name: str
    value: float
    unit: str
    why: str
    set_on: str


_TABLE = (
    Setting(
        "examined", 1.0, "logit", "examination of a slot before anything was clicked, to which positions are drawn: "
        "73 %, so that a high attraction can still show", "reasoned",
    ),
    Setting(
        "position_sd", 2.0, "logits", "a slot may be seen by 27 % to 95 % within one standard deviation", "reasoned",
    ),
    Setting(
        "number_sd", 0.5, "standard deviations, or logarithms of amounts", "positions change numbers directly",
        "reasoned",
    ),
    Setting(
        "clicked_sd", 3.0, "logits", "one click may end the session (cascade) or change nothing", "reasoned",
    ),
    Setting(
        "distance_sd", 1.0, "logits", "start of what the rows then say (empirical Bayes)", "reasoned",
    ),
    Setting(
        "cell_sd", 0.5, "logits", "start of what the rows then say; pairs (slot, last click) are many and rare",
        "reasoned",
    ),
    Setting(
        "after_sd", 0.5, "logits", "start of what the rows then say: how much an item satisfies", "reasoned",
    ),
    Setting(
        "constant_sd", 5.0, "logits", "the click rate decides", "reasoned",
    ),
    Setting(
        "context_sd", 0.5, "logits per standard deviation", "start of what the rows then say", "reasoned",
    ),
    Setting(
        "feature_sd", 0.5, "logits per standard deviation", "start of what the rows then say", "reasoned",
    ),
    Setting(
        "product_sd", 0.2, "logits per standard deviation", "start of what the rows then say", "reasoned",
    ),
    Setting(
        "extra_sd", 0.5, "logits per standard deviation", "start of what the rows then say", "reasoned",
    ),
    Setting(
        "rival_sd", 0.2, "logits per standard deviation", "start of what the rows then say: often there is none",
        "reasoned",
    ),
    Setting(
        "item_sd", 1.0, "logits", "start of what the rows then say: items around what their features predict",
        "reasoned",
    ),
    Setting(
        "slope_sd", 0.3, "logits per standard deviation", "start of what the rows then say", "reasoned",
    ),
    Setting(
        "least_sd", 0.05, "logits", "a group is never drawn together more than this", "reasoned",
    ),
    Setting(
        "most_sd", 3.0, "logits", "nor left more free", "reasoned",
    ),
    Setting(
        "prior_weight", 4.0, "effects", "what the starting spread counts against the effects of its group", "reasoned",
    ),
    Setting(
        "rounds", 3.0, "updates of the spreads", "later ones move them by less than a tenth", "reasoned",
    ),
    Setting(
        "zeros", 0.05, "share of the rewards", "with fewer zeros an amount is a number like others", "reasoned",
    ),
    Setting(
        "rows", 50_000.0, "rankings", "more rows hardly move a few hundred parameters; all rows are evaluated",
        "reasoned",
    ),
    Setting(
        "slopes", 200_000.0, "items x context columns", "beyond it items have no slopes of their own", "reasoned",
    ),
    Setting(
        "products", 64.0, "context x feature columns", "beyond it features do not bend with the context", "reasoned",
    ),
    Setting(
        "similar_items", 500.0, "items", "beyond it pairs are too rare to learn from, and their table too large",
        "reasoned",
    ),
    Setting(
        "similar_rank", 6.0, "ways of being alike", "what a few thousand rankings can show", "develop worlds",
    ),
    Setting(
        "evidence", 1.15, "largest eigenvalue of noise", "beyond its own spread, which is a few percent",
        "develop worlds",
    ),
    Setting(
        "pair_weight", 1.0, "information of a pair", "pairs seen once or twice would else be the largest residuals",
        "develop worlds",
    ),
    Setting(
        "trees", 60.0, "trees", "with the first model's key among the columns few are needed", "reasoned",
    ),
    Setting(
        "leaves", 15.0, "leaves of a tree", "products of about four columns", "reasoned",
    ),
    Setting(
        "leaf_rows", 50.0, "slots in a leaf, at least", "a click rate from 50 slots is known within .07", "reasoned",
    ),
    Setting(
        "rate", 0.08, "step of a tree", "slow enough for 60 trees to be few", "reasoned",
    ),
    Setting(
        "labels", 20.0, "indicator columns", "as for the context: more labels share hashed columns", "reasoned",
    ),
    Setting(
        "far", 8.0, "standard deviations", "outliers of a column are moved here: a ridge is no guard against them",
        "reasoned",
    ),
    Setting(
        "enough", 0.2, "nats, and as many per 500 parameters", "the first Newton step that promises less is the last: "
        "it leaves about its square, where a parameter's noise is half a nat", "folds against tight fits, see WHY.md",
    ),
    Setting(
        "steps", 25.0, "Newton steps", "fits end long before by `enough`", "reasoned",
    ),
    Setting(
        "inner", 20.0, "products with the Fisher matrix a Newton step", "a rough direction is enough", "reasoned",
    ),
)  # fmt: skip

SETTINGS: dict[str, Setting] = {row.name: row for row in _TABLE}
