"""The numbers of `auto`: frozen defaults, each with its reason. None was set to make a study look well."""

from dataclasses import dataclass

from counterrank.estimators.crossfit import CrossFitDefaults


@dataclass(frozen=True, slots=True)
class Defaults(CrossFitDefaults):
    """Numbers of the rule and of its cost, beside those of the models."""

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

    #: Closed-form models within 5 % of the least error on unseen rows say how far to trust any.
    close: float = 1.05
    #: Rankings on which fits of different folds are compared, and how many stand side by side.
    fold_rows: int = 1_024
    fold_block: int = 64
    #: Columns of a regression on controls; more would cost more than they gain.
    controls: int = 128


DEFAULTS = Defaults()
