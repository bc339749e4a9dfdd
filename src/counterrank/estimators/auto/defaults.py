"""The numbers of `auto`: frozen defaults, each with its reason. None was set to make a study look well."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Defaults:
    """Numbers of the rule, of the models and of the cost."""

    #: A difference within two standard errors is chance: without a bias 5 % of them are larger.
    chance: float = 2.0
    #: Share of the logged log ratios cut at each end: a line fitted to nine tenths of them is not
    #: read beyond.
    tail: float = 0.05
    #: Own-position weights are cut at this part of sqrt(n): no row moves the estimate by more than a
    #: quarter of a standard deviation's error.
    clip: float = 0.25
    #: From this share of the target on a flag says that it rests on the models alone.
    told: float = 0.05
    #: Beyond this share of the target the log is no evidence, and there is no estimate.
    reach: float = 0.8

    #: A fit sees four fifths of the rows, and five fits make a jackknife.
    folds: int = 5
    #: Closed-form models within 5 % of the least error on unseen rows say how far to trust any.
    close: float = 1.05
    #: Power of the likelihood by which models count: all are wrong, and how well they predict what the
    #: logger shows says only in part how right they are about the target (Grunwald & van Ommen 2017).
    likelihood: float = 0.125
    #: A model of a smaller share is refuted: what it says is no evidence of disagreement, and its fits
    #: are not compared.
    least_share: float = 0.001
    #: Standard deviation of log amounts between items below which no price is missed.
    same_amount: float = 0.1
    #: Clicks after which an item has shown what a click on it earns.
    often: int = 10
    #: Candidates that a reader may see on one page, whether their rewards are logged or not.
    pool: int = 32
    #: Models have an entry for each pair of positions: longer rankings have none.
    longest: int = 100

    #: Rankings that models are trained on. More help on long logs (all of 100,000 rows: a third less
    #: error in one world) at twice the time.
    training_rows: int = 32_768
    #: Rankings that models are asked about; the fits' own error is larger than what more take off.
    asked_rows: int = 32_768
    #: Rankings drawn for a row: their noise is a quarter of the models' spread between rankings.
    draws: int = 4
    #: Rankings drawn in all: on long logs the rows average out what fewer a row leave.
    draws_together: int = 200_000
    #: Rankings on which fits of different folds are compared, and how many stand side by side.
    fold_rows: int = 1_024
    fold_block: int = 64
    #: Rankings of the target a row in that comparison.
    fold_draws: int = 2
    #: Columns of a regression on controls; more would cost more than they gain.
    controls: int = 128


DEFAULTS = Defaults()
