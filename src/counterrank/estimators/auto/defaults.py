"""The numbers of `auto`, each with its reason. None was set to make a study look good."""

from dataclasses import dataclass

from counterrank.estimators.crossfit import CrossFitDefaults


@dataclass(frozen=True, slots=True)
class Defaults(CrossFitDefaults):
    """Numbers of the rule and of its cost, beside those of the models."""

    #: A difference within two standard errors is chance: without a bias 5 % of them are larger.
    chance: float = 2.0
    #: Share of the logged log ratios that is cut at each end, so that a line is not extrapolated.
    tail: float = 0.05
    #: Own-position weights are cut at this part of sqrt(n), so that no row moves the estimate by more
    #: than about a quarter of its standard error.
    clip: float = 0.25
    #: Share of the target that rests on the models alone from which on a flag says so.
    flag_model_share: float = 0.05
    #: The same share beyond which the log is no evidence, and there is no estimate.
    max_model_share: float = 0.8

    #: Rankings whose columns say how the target differs from the log.
    doubt_rows: int = 4_096
    #: Rankings on which fits of different folds are compared, in blocks of so many rows.
    fold_rows: int = 1_024
    fold_block: int = 64
    #: Most columns of a regression on controls.
    controls: int = 128


DEFAULTS = Defaults()
