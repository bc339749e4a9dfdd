"""Every tuned number of the reward models with its unit and its reason; random streams at the end."""

from enum import IntEnum

import numpy as np

# Training rows and sizes of the closed-form model.
#: Rankings: more rows cost time and change a model's last digits.
TRAINING_ROWS = 65_536
#: Products: rows x positions x columns^2 summed into Gram matrices: fewer rows when wide.
GRAM_WORK = 7e9
#: Rankings: used however wide the model is.
LEAST_ROWS = 20_000
#: Numbers: in all Gram matrices; above, positions are tied into counts.
PAIR_NUMBERS = 8_000_000
#: Numbers: above, there is no closed-form model.
LARGEST_GRAM = 30_000_000
#: Positions: fits common to all positions solve for each one's intercept.
LONGEST = 100
#: Columns: of one position's model with an indicator for each pair.
WIDEST_PAIRS = 140
#: Columns: context x counts.
WIDEST_CROSS = 64
#: Actions: with all products of counts; more have squares only.
MOST_SQUARES = 10
#: Actions: context x counts are tried on top of pair indicators.
FEW_ACTIONS = 4
#: Positions x actions: up to which sums over all own actions beat looking each up.
TABLE_CELLS = 256
#: Rankings a row: where a mean under the target has no closed form.
DRAWS = 8
#: Rankings: drawn in all: on long logs fewer per row do.
ALL_DRAWS = 400_000
#: Rankings: a scikit-learn regressor is trained on.
LEARNER_ROWS = 50_000
#: Folds: each costs a fit for every position.
LEARNER_FOLDS = 2

# Penalties of the ridge.
#: Rows: tried on interaction columns: hardly any, or as strong as 30 rows.
PENALTIES = (1.0, 30.0)
#: Rows: on intercepts of fits common to positions or own actions.
POOLED = 3.0
#: A row: on context columns of the pooled fit: next to nothing.
POOLED_CONTEXT = 1e-5
#: Columns: of the ridge that knows a ranking's rewards share noise.
JOINT_COLUMNS = 500
#: Correlation: below it, generalised least squares gains less than its noise.
JOINT_LEAST = 0.05

# Logistic ridge.
#: Steps: before those that leave each fold out.
NEWTON_STEPS = 5
#: Rankings: of these steps; the last ones see all training rows.
NEWTON_ROWS = 50_000
#: Rankings: the same where the log is long.
NEWTON_ROWS_LONG = 12_500
#: Rankings: from which a log is long: its own noise is small.
LONG_LOG = 200_000
#: Rankings: up to which folds take a second step of their own: the common start knew them.
EXACT_ROWS = 10_000
#: Rows: on logits of a position's columns.
LOGIT_PENALTY = 1.0
#: Rows: on the distance from the marginal rate's logit.
LOGIT_INTERCEPT = 0.02
#: Logits: a longer step overshoots: separable cells would run away.
LOGIT_STEP = 4.0
#: Variance: of a 0/1 reward in a Newton step's weights.
LEAST_VARIANCE = 1e-5
#: Probability: of a 0/1 reward in the loss.
LEAST_CHANCE = 1e-9

# Examination models (one class: visibility; several: a mixture). Which are tried.
#: Rankings: the models of whole rankings are fitted to.
MIXTURE_ROWS = 32_768
#: Columns: of their widest step.
MIXTURE_COLUMNS = 1_500
#: Positions: normal equations of examination have their cube.
MIXTURE_LONGEST = 40
#: Error, best = 1: out of fold up to which a log does not tell models apart.
CLOSE_ERROR = 1.02
#: Rankings: of long logs of 0/1 rewards, which are mostly chance.
BINARY_ROWS = 16_384
#: Rankings a column: the same where columns are many.
BINARY_ROWS_COLUMN = 100
#: Rankings: of the rough fits by which links are compared.
ROUGH_ROWS = 2_048
#: Rankings a column: the same where columns are many.
ROUGH_ROWS_COLUMN = 16
#: Error, best = 1: of a rough fit from which a link is left.
HOPELESS = 1.1
#: Error, best = 1: the same for 0/1 rewards: a sum that was best in the end was at most 0.09 %
#: behind, in sigmoid worlds 0.29 % (development draws).
HOPELESS_BINARY = 1.002
#: Actions: up to which three-way effects are tried.
MOST_TRIPLE = 20
#: Positions: classes are looked for in: their steps have K^4.
CLASSES_LONGEST = 16
#: Columns: classes are looked for with.
CLASSES_COLUMNS = 700
#: Rankings: in which classes are looked for.
SEARCH_ROWS = 1_024
#: Rankings a column: the same where columns are many.
SEARCH_ROWS_COLUMN = 4
#: Rankings: at least, to which found classes are fitted.
CLASS_ROWS = 8_192
#: Rankings x K^2: the same for short rankings, of which each costs K^2.
CLASS_CELLS = 524_288
#: Mean log-likelihood: gained by classes that clearly exist: one class is not fitted then.
CLEAR = 0.5
#: Mean log-likelihood: behind the likeliest link, another is left.
CLOSE = 3.0

# Examination models: their fits.
#: Classes: too many do no harm: they coincide, or nobody is of them.
CLASSES = 8
#: Sd of pair effects: means of pair effects to begin with: only classes tell it.
LEVELS = (-1.5, 1.5)
#: Actions: up to which three-way effects are cheap enough to begin from all levels.
LEVELS_ACTIONS = 4
#: Average = 1: how far a class examines what it examines, at first.
FIRST_SEEN = 1.6
#: Noise variances: penalty of examination before anything is known.
FIRST_EXAMINED = 10.0
#: Noise variances: the same for classes, which differ.
FIRST_CLASS_EXAMINED = 4.0
#: Noise variances: the same for its dependence on the context.
FIRST_TILT = 100.0
#: Rows: penalty of three-way effects before anything is known.
FIRST_TRIPLE = 30.0
#: Rows: least penalty of three-way effects: without any, effects that no ranking shows have no solution.
LEAST_TRIPLE = 1e-6
#: Rows: penalty of a position's shift, and the most on an action's intercept.
SHIFT = 3.0
#: Rows: penalty of how classes depend on the context.
SHARE = 5.0
#: Rows: penalty of how common a class is.
SIZE = 0.1
#: Steps: of the multinomial regression in one round.
SHARE_STEPS = 3
#: Rounds: of the one-class fit, at most.
ROUNDS = 20
#: Rounds: of expectation and maximisation, at most.
CLASS_ROUNDS = 12
#: Rounds: of each beginning.
FIRST_ROUNDS = 6
#: Rounds: that show whether three-way effects gain.
TRIAL_ROUNDS = 3
#: Relative loss: a round must gain in the end.
SETTLED = 1e-4
#: Relative loss: the same where fits are only compared.
ROUGH = 1e-2
#: Mean log-likelihood: a round of classes must gain.
CLASS_SETTLED = 3e-3
#: Mean log-likelihood a position: three-way effects must gain beyond their number.
TRIPLES_WORTH = 0.05
#: Steps: that leave a fold out where one is not exact.
FOLD_STEPS = 3
#: Rankings a column: from which one logistic step leaves a fold out as well as several.
ONE_STEP_ROWS = 400
#: Rounds: of the variance of three-way effects of one class.
TRIPLE_ROUNDS = 4
#: Times: a step is halved before it is given up.
HALVINGS = 6
#: Products: of one solution for three-way effects.
CONJUGATE_STEPS = 12
#: Relative: how exact it is: the next round corrects it.
CONJUGATE_EXACT = 1e-3
#: Correlation: of a ranking's errors from which it is worth knowing.
LEAST_SHARED = 0.02
#: Correlation: of a ranking's errors that is believed: at 1 all but their mean would be free of
#: noise; with classes known, nearly all noise of the published world is shared.
MOST_SHARED = 0.999
#: Variances of the rewards: noise of rewards that fit exactly.
LEAST_NOISE = 1e-6
#: Noise variances: of a group of effects: none is its mean altogether.
LEAST_EFFECT = 1e-6
#: Average^2: the same for examination on one side.
LEAST_EXAMINED = 1e-4
#: Times the average: nobody examines more, or less than nothing.
MOST_SEEN = 5.0
#: Context columns: with all products among a user's traits.
TRAIT_PRODUCTS = 6
#: Context columns: with squares among them; more stand alone.
TRAIT_SQUARES = 20
#: Log: a pair part beyond it is no effect a log could show.
LARGEST_EXPONENT = 20.0
#: Probability: of a ranking's class that adds nothing to a step's sums.
RARE_STEP = 1e-2


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
