"""The numbers of a plan, each with its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes of samples, and what is tried."""

    #: Rankings that models are fitted to, and that costs are estimated on.
    rows: int = 20_000
    #: Requests whose pages are drawn, and pages drawn for each from an option.
    requests: int = 256
    draws: int = 6
    #: Shares of the shown places that hold another item under a future ranker: small, medium and
    #: large changes of a ranker.
    changes: tuple[float, ...] = (0.2, 0.35, 0.5)
    #: Future rankers of each size whose pages are drawn for the optimum: fewer, and it would prepare
    #: for those alone.
    rankers: int = 6
    #: Costs that options are tuned to, as parts of the budget.
    levels: tuple[float, ...] = (0.25, 1.0, 4.0)
    #: Temperatures are looked for between these multiples of the scores' spread on a page.
    coldest: float = 1e-3
    hottest: float = 30.0
    #: Points of a curve of cost over a knob.
    points: int = 11
    #: Steps of the optimum: no more change the fourth decimal of a share that matters.
    steps: int = 100
    #: Places above the fold, as a part of the page: what is seen without scrolling.
    fold: float = 0.3
    #: Logs that are drawn to see what `auto` would say, and their rows at most.
    logs: int = 2
    log_rows: int = 4_000
    #: Models have an entry for each pair of positions: longer pages have none.
    longest: int = 100


SETTINGS = Settings()
