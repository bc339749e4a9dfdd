"""The numbers of a plan, each with its reason."""

#: Rankings that models are fitted to, and that costs are estimated on.
ROWS = 20_000
#: Requests whose pages are drawn, and pages drawn for each from an option.
REQUESTS = 256
DRAWS = 6
#: Shares of the shown places that hold another item under a future ranker: small, medium and
#: large changes of a ranker.
CHANGES = (0.2, 0.35, 0.5)
#: Future rankers of each size whose pages are drawn for the optimum: fewer, and it would prepare
#: for those alone.
RANKERS = 6
#: Costs that options are tuned to, as parts of the budget.
LEVELS = (0.25, 1.0, 4.0)
#: Temperatures are looked for between these multiples of the scores' spread on a page.
COLDEST = 1e-3
HOTTEST = 30.0
#: Points of a curve of cost over a knob.
POINTS = 11
#: Places above the fold, as a part of the page: what is seen without scrolling.
FOLD = 0.3
#: Models have an entry for each pair of positions: longer pages have none.
LONGEST = 100
