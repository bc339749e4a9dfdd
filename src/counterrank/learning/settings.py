"""The numbers of learning: one table, each with its unit, its reason and what it was set on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that somebody chose."""

    value: float
    unit: str
    why: str
    set_on: str


SETTINGS = {
    "learn_share": Setting(
        0.4, "of the units", "the model needs fewer rows than the certificate", "measurements in docs/evidence"
    ),
    "draws": Setting(
        64, "rankings a row", "reference draws of the logger: twice the largest m, so that its weight is not all or "
        "nothing", "reasoned",
    ),
    "largest_m": Setting(32, "rankings", "more draws for a page than anyone serves", "reasoned"),
    "cap": Setting(
        0.8, "quantile of predicted list values", "the control variate ends here: the bound's lower end grows "
        "with it, its use does not", "measurements in docs/evidence",
    ),
    "folds": Setting(4, "folds of the learning rows", "m is chosen on rows that did not fit the model", "reasoned"),
    "wrong_sampler": Setting(
        3.5, "standard errors", "ranks of the logged rankings among drawn ones are uniform if the sampler is the "
        "logger's; four tests, false alarms below 1 in 500", "reasoned",
    ),
    "fewest": Setting(50, "units on either side", "with fewer nothing can be learned or certified", "reasoned"),
    "exposed": Setting(4000, "rows", "rows from which exposure of items is averaged", "reasoned"),
}  # fmt: skip
