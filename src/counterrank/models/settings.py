"""Every tuned number of the reward models: its value, unit, reason, and what it was set on.

`set_on` is one of: "cost" (time or memory, results hardly move), "arithmetic" (keeps numbers
finite), "scale" (a penalty of order one, next to rows in the hundreds), "development draws"
(benchmarks/accuracy_study.py --draws dev), or "not recorded" (chosen while the model was built;
nobody wrote down on what). Random streams are at the end.
"""

from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from counterrank.settings import Setting

Value = TypeVar("Value")


TABLE: dict[str, Setting[Any]] = {}


def _set(name: str, value: Value, unit: str, why: str, set_on: str) -> Value:
    """Enter a setting into the table, and return its value."""
    TABLE[name] = Setting(value, unit, why, set_on)
    return value


# Training rows and sizes of the closed-form model.
TRAINING_ROWS = _set(
    "TRAINING_ROWS",
    65_536,
    "rankings",
    "more rows cost time and change a model's last digits",
    "cost",
)
GRAM_WORK = _set(
    "GRAM_WORK",
    7e9,
    "products",
    "rows x positions x columns^2 summed into Gram matrices: fewer rows when wide",
    "cost",
)
LEAST_ROWS = _set("LEAST_ROWS", 20_000, "rankings", "used however wide the model is", "cost")
PAIR_NUMBERS = _set(
    "PAIR_NUMBERS",
    8_000_000,
    "numbers",
    "in all Gram matrices; above, positions are tied into counts",
    "cost",
)
LARGEST_GRAM = _set(
    "LARGEST_GRAM", 30_000_000, "numbers", "above, there is no closed-form model", "cost"
)
LONGEST = _set(
    "LONGEST",
    100,
    "positions",
    "fits common to all positions solve for each one's intercept",
    "cost",
)
WIDEST_PAIRS = _set(
    "WIDEST_PAIRS",
    140,
    "columns",
    "of one position's model with an indicator for each pair",
    "cost",
)
WIDEST_CROSS = _set("WIDEST_CROSS", 64, "columns", "context x counts", "cost")
MOST_SQUARES = _set(
    "MOST_SQUARES", 10, "actions", "with all products of counts; more have squares only", "cost"
)
FEW_ACTIONS = _set(
    "FEW_ACTIONS", 4, "actions", "context x counts are tried on top of pair indicators", "cost"
)
MOST_LABELS = _set(
    "MOST_LABELS", 20, "labels", "of a category that becomes indicators; others stay codes", "cost"
)
TABLE_CELLS = _set(
    "TABLE_CELLS",
    256,
    "positions x actions",
    "up to which sums over all own actions beat looking each up",
    "cost",
)
DRAWS = _set(
    "DRAWS", 8, "rankings a row", "where a mean under the target has no closed form", "cost"
)
ALL_DRAWS = _set(
    "ALL_DRAWS", 400_000, "rankings", "drawn in all: on long logs fewer per row do", "cost"
)
LEARNER_ROWS = _set(
    "LEARNER_ROWS", 50_000, "rankings", "a scikit-learn regressor is trained on", "cost"
)
LEARNER_FOLDS = _set("LEARNER_FOLDS", 2, "folds", "each costs a fit for every position", "cost")

# Penalties of the ridge.
PENALTIES = _set(
    "PENALTIES",
    (1.0, 30.0),
    "rows",
    "tried on interaction columns: hardly any, or as strong as 30 rows",
    "scale",
)
POOLED = _set(
    "POOLED", 3.0, "rows", "on intercepts of fits common to positions or own actions", "scale"
)
POOLED_CONTEXT = _set(
    "POOLED_CONTEXT",
    1e-5,
    "a row",
    "on context columns of the pooled fit: next to nothing",
    "scale",
)
JOINT_COLUMNS = _set(
    "JOINT_COLUMNS",
    500,
    "columns",
    "of the ridge that knows a ranking's rewards share noise",
    "cost",
)
JOINT_LEAST = _set(
    "JOINT_LEAST",
    0.05,
    "correlation",
    "below it, generalised least squares gains less than its noise",
    "scale",
)

# Logistic ridge.
NEWTON_STEPS = _set("NEWTON_STEPS", 5, "steps", "before those that leave each fold out", "cost")
NEWTON_ROWS = _set(
    "NEWTON_ROWS", 50_000, "rankings", "of these steps; the last ones see all training rows", "cost"
)
NEWTON_ROWS_LONG = _set(
    "NEWTON_ROWS_LONG", 12_500, "rankings", "the same where the log is long", "cost"
)
LONG_LOG = _set(
    "LONG_LOG", 200_000, "rankings", "from which a log is long: its own noise is small", "cost"
)
EXACT_ROWS = _set(
    "EXACT_ROWS",
    10_000,
    "rankings",
    "up to which folds take a second step of their own: the common start knew them",
    "cost",
)
LOGIT_PENALTY = _set("LOGIT_PENALTY", 1.0, "rows", "on logits of a position's columns", "scale")
LOGIT_INTERCEPT = _set(
    "LOGIT_INTERCEPT", 0.02, "rows", "on the distance from the marginal rate's logit", "scale"
)
LOGIT_STEP = _set(
    "LOGIT_STEP",
    4.0,
    "logits",
    "a longer step overshoots: separable cells would run away",
    "arithmetic",
)
LEAST_VARIANCE = _set(
    "LEAST_VARIANCE", 1e-5, "variance", "of a 0/1 reward in a Newton step's weights", "arithmetic"
)
LEAST_CHANCE = _set(
    "LEAST_CHANCE", 1e-9, "probability", "of a 0/1 reward in the loss", "arithmetic"
)

# Examination models (one class: visibility; several: a mixture). Which are tried.
MIXTURE_ROWS = _set(
    "MIXTURE_ROWS", 32_768, "rankings", "the models of whole rankings are fitted to", "cost"
)
MIXTURE_COLUMNS = _set("MIXTURE_COLUMNS", 1_500, "columns", "of their widest step", "cost")
MIXTURE_LONGEST = _set(
    "MIXTURE_LONGEST", 40, "positions", "normal equations of examination have their cube", "cost"
)
CLOSE_ERROR = _set(
    "CLOSE_ERROR",
    1.02,
    "error, best = 1",
    "out of fold up to which a log does not tell models apart",
    "scale",
)
BINARY_ROWS = _set(
    "BINARY_ROWS",
    16_384,
    "rankings",
    "of long logs of 0/1 rewards, which are mostly chance",
    "cost",
)
BINARY_ROWS_COLUMN = _set(
    "BINARY_ROWS_COLUMN", 100, "rankings a column", "the same where columns are many", "cost"
)
ROUGH_ROWS = _set(
    "ROUGH_ROWS", 2_048, "rankings", "of the rough fits by which links are compared", "cost"
)
ROUGH_ROWS_COLUMN = _set(
    "ROUGH_ROWS_COLUMN", 16, "rankings a column", "the same where columns are many", "cost"
)
HOPELESS = _set(
    "HOPELESS", 1.1, "error, best = 1", "of a rough fit from which a link is left", "not recorded"
)
HOPELESS_BINARY = _set(
    "HOPELESS_BINARY", 1.002, "error, best = 1",
    "the same for 0/1 rewards: a sum that was best in the end was at most 0.09 % behind, in "
    "sigmoid worlds 0.29 %",
    "development draws",
)  # fmt: skip
MOST_TRIPLE = _set("MOST_TRIPLE", 20, "actions", "up to which three-way effects are tried", "cost")
CLASSES_LONGEST = _set(
    "CLASSES_LONGEST", 16, "positions", "classes are looked for in: their steps have K^4", "cost"
)
CLASSES_COLUMNS = _set("CLASSES_COLUMNS", 700, "columns", "classes are looked for with", "cost")
SEARCH_ROWS = _set(
    "SEARCH_ROWS", 1_024, "rankings", "in which classes are looked for", "not recorded"
)
SEARCH_ROWS_COLUMN = _set(
    "SEARCH_ROWS_COLUMN", 4, "rankings a column", "the same where columns are many", "cost"
)
CLASS_ROWS = _set(
    "CLASS_ROWS", 8_192, "rankings", "at least, to which found classes are fitted", "cost"
)
CLASS_CELLS = _set(
    "CLASS_CELLS",
    524_288,
    "rankings x K^2",
    "the same for short rankings, of which each costs K^2",
    "cost",
)
CLEAR = _set(
    "CLEAR",
    0.5,
    "mean log-likelihood",
    "gained by classes that clearly exist: one class is not fitted then",
    "not recorded",
)
CLOSE = _set(
    "CLOSE",
    3.0,
    "mean log-likelihood",
    "behind the likeliest link, another is left",
    "not recorded",
)

# Examination models: their fits.
CLASSES = _set(
    "CLASSES",
    8,
    "classes",
    "too many do no harm: they coincide, or nobody is of them",
    "not recorded",
)
LEVELS = _set(
    "LEVELS",
    (-1.5, 1.5),
    "sd of pair effects",
    "means of pair effects to begin with: only classes tell it",
    "not recorded",
)
LEVELS_ACTIONS = _set(
    "LEVELS_ACTIONS",
    4,
    "actions",
    "up to which three-way effects are cheap enough to begin from all levels",
    "cost",
)
FIRST_SEEN = _set(
    "FIRST_SEEN", 1.6, "average = 1", "how far a class examines what it examines, at first", "scale"
)
FIRST_EXAMINED = _set(
    "FIRST_EXAMINED",
    10.0,
    "noise variances",
    "penalty of examination before anything is known",
    "scale",
)
FIRST_CLASS_EXAMINED = _set(
    "FIRST_CLASS_EXAMINED", 4.0, "noise variances", "the same for classes, which differ", "scale"
)
FIRST_TILT = _set(
    "FIRST_TILT", 100.0, "noise variances", "the same for its dependence on the context", "scale"
)
FIRST_TRIPLE = _set(
    "FIRST_TRIPLE", 30.0, "rows", "penalty of three-way effects before anything is known", "scale"
)
LEAST_TRIPLE = _set(
    "LEAST_TRIPLE",
    1e-6,
    "rows",
    "least penalty of three-way effects: without any, effects that no ranking shows have no solution",
    "scale",
)
SHIFT = _set(
    "SHIFT",
    3.0,
    "rows",
    "penalty of a position's shift, and the most on an action's intercept",
    "scale",
)
SHARE = _set("SHARE", 5.0, "rows", "penalty of how classes depend on the context", "scale")
SIZE = _set("SIZE", 0.1, "rows", "penalty of how common a class is", "scale")
SHARE_STEPS = _set("SHARE_STEPS", 3, "steps", "of the multinomial regression in one round", "cost")
ROUNDS = _set("ROUNDS", 20, "rounds", "of the one-class fit, at most", "cost")
CLASS_ROUNDS = _set(
    "CLASS_ROUNDS", 12, "rounds", "of expectation and maximisation, at most", "cost"
)
FIRST_ROUNDS = _set("FIRST_ROUNDS", 6, "rounds", "of each beginning", "not recorded")
TRIAL_ROUNDS = _set("TRIAL_ROUNDS", 3, "rounds", "that show whether three-way effects gain", "cost")
SETTLED = _set("SETTLED", 1e-4, "relative loss", "a round must gain in the end", "cost")
ROUGH = _set("ROUGH", 1e-2, "relative loss", "the same where fits are only compared", "cost")
CLASS_SETTLED = _set(
    "CLASS_SETTLED", 3e-3, "mean log-likelihood", "a round of classes must gain", "cost"
)
TRIPLES_WORTH = _set(
    "TRIPLES_WORTH",
    0.05,
    "mean log-likelihood a position",
    "three-way effects must gain beyond their number",
    "not recorded",
)
FOLD_STEPS = _set("FOLD_STEPS", 3, "steps", "that leave a fold out where one is not exact", "cost")
ONE_STEP_ROWS = _set(
    "ONE_STEP_ROWS",
    400,
    "rankings a column",
    "from which one logistic step leaves a fold out as well as several",
    "cost",
)
TRIPLE_ROUNDS = _set(
    "TRIPLE_ROUNDS", 4, "rounds", "of the variance of three-way effects of one class", "cost"
)
HALVINGS = _set("HALVINGS", 6, "times", "a step is halved before it is given up", "arithmetic")
CONJUGATE_STEPS = _set(
    "CONJUGATE_STEPS", 12, "products", "of one solution for three-way effects", "cost"
)
CONJUGATE_EXACT = _set(
    "CONJUGATE_EXACT", 1e-3, "relative", "how exact it is: the next round corrects it", "cost"
)
LEAST_SHARED = _set(
    "LEAST_SHARED",
    0.02,
    "correlation",
    "of a ranking's errors from which it is worth knowing",
    "scale",
)
MOST_SHARED = _set(
    "MOST_SHARED", 0.999, "correlation",
    "of a ranking's errors that is believed: at 1 all but their mean would be free of noise; with "
    "classes known, nearly all noise of the published world is shared",
    "arithmetic",
)  # fmt: skip
LEAST_NOISE = _set(
    "LEAST_NOISE",
    1e-6,
    "variances of the rewards",
    "noise of rewards that fit exactly",
    "arithmetic",
)
LEAST_EFFECT = _set(
    "LEAST_EFFECT",
    1e-6,
    "noise variances",
    "of a group of effects: none is its mean altogether",
    "arithmetic",
)
LEAST_EXAMINED = _set(
    "LEAST_EXAMINED", 1e-4, "average^2", "the same for examination on one side", "arithmetic"
)
MOST_SEEN = _set(
    "MOST_SEEN",
    5.0,
    "times the average",
    "nobody examines more, or less than nothing",
    "arithmetic",
)
TRAIT_PRODUCTS = _set(
    "TRAIT_PRODUCTS", 6, "context columns", "with all products among a user's traits", "cost"
)
TRAIT_SQUARES = _set(
    "TRAIT_SQUARES", 20, "context columns", "with squares among them; more stand alone", "cost"
)
LARGEST_EXPONENT = _set(
    "LARGEST_EXPONENT",
    20.0,
    "log",
    "a pair part beyond it is no effect a log could show",
    "arithmetic",
)
RARE_STEP = _set(
    "RARE_STEP",
    1e-2,
    "probability",
    "of a ranking's class that adds nothing to a step's sums",
    "cost",
)


class Stream(IntEnum):
    """What random numbers are for: each use has a stream of its own, and all follow the seed."""

    TRAINING_ROWS = 9
    LEARNER_ROWS = 13
    NEWTON_ROWS = 17
    MIXTURE_ROWS = 31
    CLASSES = 53
    TARGET_RANKINGS = 101


def stream(seed: int, use: Stream) -> np.random.Generator:
    """Return the random numbers of one use.

    >>> float(stream(0, Stream.CLASSES).random()) == float(stream(1, Stream.CLASSES).random())
    False
    """
    return np.random.default_rng([seed, int(use)])
