"""The numbers of the click models, each with its unit and its reason."""

from dataclasses import dataclass

#: Random streams, each apart from the others; all but the last follow the seed. Signs are drawn to
#: measure noise, and the same residuals must give the same answer whatever the seed.
STREAMS = {"training rows": 47, "random signs": 61}


@dataclass(frozen=True, slots=True)
class ClickSettings:
    """Tuned numbers of the click models."""

    #: Logit: examination of a slot before anything was clicked, to which positions are drawn: 73
    #: %, so that a high attraction can still show.
    examined: float = 1.0
    #: Logits: a slot may be seen by 27 % to 95 % within one standard deviation.
    position_sd: float = 2.0
    #: Standard deviations, or logarithms of amounts: positions change numbers directly.
    number_sd: float = 0.5
    #: Logits: one click may end the session (cascade) or change nothing.
    clicked_sd: float = 3.0
    #: Logits: prior spread to start from; the rows then set it (empirical Bayes).
    distance_sd: float = 1.0
    #: Logits: prior spread to start from: pairs (slot, last click) are many and rare.
    cell_sd: float = 0.5
    #: Logits: prior spread to start from: how much an item satisfies.
    after_sd: float = 0.5
    #: Logits: the click rate decides.
    constant_sd: float = 5.0
    #: Logits per standard deviation: prior spread to start from.
    context_sd: float = 0.5
    #: Logits per standard deviation: prior spread to start from.
    feature_sd: float = 0.5
    #: Logits per standard deviation: prior spread to start from.
    product_sd: float = 0.2
    #: Logits per standard deviation: prior spread to start from.
    extra_sd: float = 0.5
    #: Logits per standard deviation and e-fold of the place: prior spread to start from:
    #: features and scores mostly act alike at all places.
    place_sd: float = 0.1
    #: Logits per standard deviation: prior spread to start from: often there is none.
    rival_sd: float = 0.2
    #: Logits: prior spread to start from: items around what their features predict.
    item_sd: float = 1.0
    #: Logits per standard deviation: prior spread to start from.
    slope_sd: float = 0.3
    #: Logits per standard deviation: prior spread to start from: squares of the context, for
    #: all items and for each.
    bend_sd: float = 0.2
    #: Logits: a group is never drawn together more than this.
    least_sd: float = 0.05
    #: Logits: nor left more free.
    most_sd: float = 3.0
    #: Effects: what the starting spread counts against the effects of its group.
    prior_weight: float = 4.0
    #: Updates of the spreads: later ones move them by less than a tenth.
    rounds: int = 3
    #: Share of the rewards: with fewer zeros an amount is a number like others.
    zeros: float = 0.05
    #: Rankings: more rows hardly move a few hundred parameters; all rows are evaluated.
    rows: int = 50_000
    #: Items x context columns: beyond it items have no slopes of their own.
    slopes: float = 200_000.0
    #: Context columns: beyond it relevance is linear in the context: every item has a number for each.
    squares: float = 16.0
    #: Context x feature columns: beyond it features do not bend with the context.
    products: float = 64.0
    #: Feature columns: beyond it features act alike at all places.
    placed: float = 32.0
    #: Of what independent slots have: below it clicks of a page exclude each other, and a choice
    #: among its items is a model worth its cost: pages of one click have 0 to .4, readers who go
    #: on after a click .7 and more (six simulated worlds and real news pages).
    exclude: float = 0.5
    #: Of those who see an item: skip it at least, whatever a first fit says: one skip is no proof
    #: that the reader has left.
    missed: float = 0.05
    #: Power of the place: lower slots ask for less attention; other powers were not tried by themselves.
    rest_discount: float = 0.5
    #: Odds: what a reader does besides, so that a page of nothing has a logarithm.
    rest_floor: float = 0.2
    #: Items: beyond it pairs are too rare to learn from, and their table too large.
    similar_items: float = 500.0
    #: Ways of being alike: what a few thousand rankings can show (develop worlds).
    similar_rank: int = 6
    #: Largest eigenvalue of noise: beyond its own spread, which is a few percent (develop worlds).
    evidence: float = 1.15
    #: Information of a pair: pairs seen once or twice would else be the largest residuals (develop worlds).
    pair_weight: float = 1.0
    #: Nats, and as many per 500 parameters: the first Newton step that promises less is the last:
    #: it leaves about its square, where a parameter's noise is half a nat (folds against tight
    #: fits, see WHY.md).
    enough: float = 0.2
    #: Newton steps: fits end long before by `enough`.
    steps: int = 25
    #: Slots: of the rows on which a fit of many more starts: a fifth off its cost; estimates are
    #: as near to those of fits to a hundredth of `enough` as without: .03 standard errors (five
    #: simulated worlds of 12,000 to 40,000 rankings).
    start_slots: int = 32_768
    #: Slots: of the block of common parameters that scales Newton steps: it need not be exact.
    block_slots: int = 8_192
    #: Products with the Fisher matrix a Newton step: a rough direction is enough.
    inner: int = 20


SETTINGS = ClickSettings()
