"""The numbers of the click models, each with its unit and its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClickSettings:
    """Tuned numbers of the click models."""

    # Prior standard deviations, in logits (for columns: logits per standard deviation of the column).
    # Except for positions, clicked and constant the rows replace them (empirical Bayes).
    #: Mean of a position's logit of examination before any click: 73 %, so that a high attraction can
    #: still show.
    examined: float = 1.0
    #: Within one standard deviation 27 % to 95 % of readers see a slot.
    position_sd: float = 2.0
    #: Positions of models of numbers: in standard deviations, or logarithms of amounts.
    number_sd: float = 0.5
    #: One click may end the session (cascade) or change nothing.
    clicked_sd: float = 3.0
    #: Effect of the distance from the last click.
    distance_sd: float = 1.0
    #: Effect of a pair (slot, last click): pairs are many and rare.
    cell_sd: float = 0.5
    #: How much a clicked item satisfies.
    after_sd: float = 0.5
    #: The click rate decides the constant.
    constant_sd: float = 5.0
    context_sd: float = 0.5
    feature_sd: float = 0.5
    #: Products of features and context.
    product_sd: float = 0.2
    #: Extra numbers of a slot, such as scores.
    extra_sd: float = 0.5
    #: Features and scores by the logarithm of the place: they mostly act alike at all places.
    place_sd: float = 0.1
    #: Competition: often there is none.
    rival_sd: float = 0.2
    #: Items around what their features predict.
    item_sd: float = 1.0
    #: Slopes of an item in the context.
    slope_sd: float = 0.3
    #: Squares of the context, for all items and for each.
    square_sd: float = 0.2
    #: Least and largest standard deviation that the rows may choose.
    least_sd: float = 0.05
    most_sd: float = 3.0
    #: Effects that the starting standard deviation counts for against those of its group.
    prior_weight: float = 4.0

    # The fit.
    #: Updates of the standard deviations. Later ones move them by less than a tenth.
    rounds: int = 3
    #: Rankings that a fit reads. More hardly move a few hundred parameters.
    rows: int = 50_000
    #: The last Newton step leaves less than this (nats): predictions out of fold are within a tenth of what
    #: leaving the fold out changes of those of fits to 1e-9 nats.
    enough: float = 0.03
    #: The same for each slot of a short log.
    enough_slot: float = 1e-6
    #: Times as much while spreads still move.
    rough: float = 3.0
    #: Newton steps at most. `enough` ends fits long before.
    steps: int = 40
    #: Products with the Fisher matrix in a Newton step: a rough direction is enough.
    inner: int = 20
    #: Slots on which the fit of a longer log starts. That saves a fifth of its cost, and estimates
    #: stay within .03 standard errors of fits to a hundredth of `enough` (five simulated worlds of
    #: 12,000 to 40,000 rankings).
    start_slots: int = 32_768
    #: Squared length of a ranking up to which pairs of positions are common parameters.
    pairs: int = 144
    #: Numbers up to which common parameters and items are solved for together.
    between: int = 4_000_000
    #: Slots of which blocks of the Fisher matrix are made, at least so many for each item: blocks only
    #: scale steps.
    block_slots: int = 49_152
    block_item_slots: int = 64

    #: Slots up to which folds are fitted one after the other: threads would cost more than they save.
    slots_alone: int = 10_000

    # Which columns a model has.
    #: Items x context columns up to which each item has slopes of its own.
    slopes: float = 200_000.0
    #: Context columns up to which their squares are columns: every item has a number for each.
    squares: float = 16.0
    #: Context x feature columns up to which products are columns.
    products: float = 64.0
    #: Feature columns up to which features by place are columns.
    placed: float = 32.0

    # Which model the rewards get.
    #: Least share of zeros with which nonnegative rewards are amounts of clicks.
    zeros: float = 0.05

    #: Nats by which clicks must prefer the models with all extra numbers for the others to be left out: with
    #: the power of the likelihood by which models count, 1 / 8, their share would be below 1e-6.
    contradicted: float = 120.0

    # Competition.
    #: Least share of readers who skip an item they see, whatever a first fit says: one skip does not
    #: prove that the reader has left.
    missed: float = 0.05
    #: Odds of doing something else, so that a page of unattractive items has a logarithm.
    rest_floor: float = 0.2


SETTINGS = ClickSettings()
