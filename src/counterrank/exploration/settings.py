"""Tuned numbers of plans, each with its reason."""

#: Number of rankings on which models are fitted and costs are estimated.
ROWS = 20_000
#: Number of requests for which pages are drawn, and of pages drawn from an option for each.
REQUESTS = 256
DRAWS = 6
#: Largest number of rankings that are drawn from an option to ask `auto`.
SIMULATED = 2000
#: Shares of the shown positions that a future ranker changes: small, medium and large.
CHANGES = (0.2, 0.35, 0.5)
#: Number of future rankers of each size for the optimum, which would overfit to fewer.
RANKERS = 6
#: Costs to which options are tuned, as multiples of the budget.
LEVELS = (0.25, 1.0, 4.0)
#: Range of temperatures, as multiples of the spread of scores on a page.
COLDEST = 1e-3
HOTTEST = 30.0
#: Number of points of a curve of cost over a parameter.
POINTS = 11
#: Share of the positions that are above the fold, that is, visible without scrolling.
FOLD = 0.3
#: Longest page, because models have a coefficient for each pair of positions.
LONGEST = 100
