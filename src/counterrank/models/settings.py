"""Every tuned number of the closed-form and examination models, with its unit and its reason."""

# The closed-form model: training rows and sizes.
#: Rankings it is trained on. More cost time and change its last digits.
TRAINING_ROWS = 65_536
#: Products summed into Gram matrices, rows x positions x columns^2. Wide models see fewer rows.
GRAM_WORK = 7e9
#: Rankings it is trained on at least, however wide it is.
LEAST_ROWS = 20_000
#: Numbers in all Gram matrices. Beyond it positions share counts in place of indicators by pair.
PAIR_NUMBERS = 8_000_000
#: Numbers in all Gram matrices beyond which there is no closed-form model.
LARGEST_GRAM = 30_000_000
#: Positions of a ranking at most: fits common to all positions solve for an intercept of each.
LONGEST = 100
#: Columns at most of one position's model with an indicator for each pair.
WIDEST_PAIRS = 140
#: Columns at most of context x counts.
WIDEST_CROSS = 64
#: Actions up to which all products of counts are columns. More have squares only.
MOST_SQUARES = 10
#: Actions up to which context x counts are tried on top of pair indicators.
FEW_ACTIONS = 4
#: Positions x actions up to which a table of all own actions is faster than looking each one up.
TABLE_CELLS = 256
#: Rankings drawn for a row where a mean under the target has no closed form.
DRAWS = 8
#: Rankings drawn in all. Long logs draw fewer for a row.
ALL_DRAWS = 400_000
#: Rankings that a scikit-learn regressor is trained on.
LEARNER_ROWS = 50_000
#: Folds of a scikit-learn regressor. Each costs a fit for every position.
LEARNER_FOLDS = 2

# The ridge: penalties, in units of rows.
#: Tried on interaction columns: nearly none, and as strong as 30 rows.
PENALTIES = (1.0, 30.0)
#: On intercepts of fits common to positions or to own actions.
POOLED = 3.0
#: On context columns of the pooled fit, for each row: nearly none.
POOLED_CONTEXT = 1e-5

# The logistic ridge.
#: Newton steps on all folds before the steps that leave each fold out.
NEWTON_STEPS = 5
#: Rankings that these steps read. The steps that leave a fold out read all training rows.
NEWTON_ROWS = 50_000
#: The same on a long log.
NEWTON_ROWS_LONG = 12_500
#: Rankings from which a log is long: its sampling noise is small.
LONG_LOG = 200_000
#: Rankings up to which each fold takes a second step, because the common start had seen its rows.
EXACT_ROWS = 10_000
#: Penalty (rows) on logits of a position's columns.
LOGIT_PENALTY = 1.0
#: Penalty (rows) on the distance of an intercept from the logit of the mean reward.
LOGIT_INTERCEPT = 0.02
#: Longest step (logits). Cells without any click have their optimum at infinity.
LOGIT_STEP = 4.0
#: Least variance of a 0/1 reward in the weights of a Newton step.
LEAST_VARIANCE = 1e-5
#: Least probability of a 0/1 reward in the loss.
LEAST_CHANCE = 1e-9

# Examination models (one class: visibility; several: a mixture): which are tried.
#: Rankings that they are fitted to.
MIXTURE_ROWS = 32_768
#: Columns at most of their widest step.
MIXTURE_COLUMNS = 1_500
#: Positions at most: the normal equations of examination cost their cube.
MIXTURE_LONGEST = 40
#: Relative error out of fold up to which a log does not tell models apart.
CLOSE_ERROR = 1.02
#: Rankings read of a long log of 0/1 rewards: most of it is noise that more rows do not reduce.
BINARY_ROWS = 16_384
#: The same for each column, where columns are many.
BINARY_ROWS_COLUMN = 100
#: Rankings of the rough fits by which links are compared.
ROUGH_ROWS = 2_048
#: The same for each column, where columns are many.
ROUGH_ROWS_COLUMN = 16
#: Relative error of a rough fit beyond which its link is dropped.
HOPELESS = 1.1
#: The same for 0/1 rewards: a sum that was best in the end was at most 0.09 % behind, in sigmoid
#: worlds 0.29 % (development draws).
HOPELESS_BINARY = 1.002
#: Actions up to which three-way effects are tried.
MOST_TRIPLE = 20
#: Positions up to which classes are searched: their steps cost K^4.
CLASSES_LONGEST = 16
#: Columns up to which classes are searched.
CLASSES_COLUMNS = 700
#: Rankings in which classes are searched.
SEARCH_ROWS = 1_024
#: The same for each column, where columns are many.
SEARCH_ROWS_COLUMN = 4
#: Rankings at least to which the classes found are fitted.
CLASS_ROWS = 8_192
#: Rankings x K^2 to which they are fitted: a short ranking costs less.
CLASS_CELLS = 524_288
#: Gain in mean log-likelihood from which classes clearly exist, and one class is not fitted.
CLEAR = 0.5
#: Distance in mean log-likelihood from the likeliest link beyond which a link is dropped.
CLOSE = 3.0

# Examination models: their fits.
#: Classes of users. Too many do no harm: some become equal, or no user belongs to them.
CLASSES = 8
#: Means of the pair effects (in their standard deviations) that searches start from. With one class
#: a shift of all pair effects cannot be told from one of the positions.
LEVELS = (-1.5, 1.5)
#: Actions up to which searches with three-way effects start from all levels.
LEVELS_ACTIONS = 4
#: How far a class examines its items at the start, relative to the average.
FIRST_SEEN = 1.6
#: Penalty (noise variances) on examination at the start.
FIRST_EXAMINED = 10.0
#: The same for classes, which differ from each other.
FIRST_CLASS_EXAMINED = 4.0
#: The same for how examination depends on the context.
FIRST_TILT = 100.0
#: Penalty (rows) on three-way effects at the start.
FIRST_TRIPLE = 30.0
#: Least penalty (rows) on three-way effects, so that effects that no ranking shows have a solution.
LEAST_TRIPLE = 1e-6
#: Penalty (rows) on a position's shift, and largest penalty on an action's intercept.
SHIFT = 3.0
#: Penalty (rows) on how the chances of classes depend on the context.
SHARE = 5.0
#: Penalty (rows) on how common a class is.
SIZE = 0.1
#: Steps of the multinomial regression of classes in one round.
SHARE_STEPS = 3
#: Rounds at most of the fit of one class.
ROUNDS = 20
#: Rounds at most of expectation and maximisation.
CLASS_ROUNDS = 12
#: Rounds from each start of a search.
FIRST_ROUNDS = 6
#: Rounds that show whether three-way effects gain.
TRIAL_ROUNDS = 3
#: Relative change of the loss below which rounds end.
SETTLED = 1e-4
#: The same for fits that are only compared.
ROUGH = 1e-2
#: Gain in mean log-likelihood below which rounds of classes end.
CLASS_SETTLED = 3e-3
#: Gain in mean log-likelihood of a position that three-way effects need beyond their number.
TRIPLES_WORTH = 0.05
#: Steps that leave a fold out where one step is not exact.
FOLD_STEPS = 3
#: Rankings for each column from which one logistic step leaves a fold out as well as several.
ONE_STEP_ROWS = 400
#: Rounds for the variance of three-way effects of one class.
TRIPLE_ROUNDS = 4
#: Times that a step is halved before it is dropped.
HALVINGS = 6
#: Conjugate-gradient steps for three-way effects.
CONJUGATE_STEPS = 12
#: Relative tolerance of these steps. The next round corrects what is left.
CONJUGATE_EXACT = 1e-3
#: Least correlation of the errors of a ranking that is modelled.
LEAST_SHARED = 0.02
#: Largest correlation of the errors of a ranking: at 1 all but their mean would be free of noise.
#: With classes known, nearly all noise of the published world is shared.
MOST_SHARED = 0.999
#: Least noise, in variances of the rewards: rewards may fit exactly.
LEAST_NOISE = 1e-6
#: Least variance of a group of effects, in noise variances: no group equals its mean.
LEAST_EFFECT = 1e-6
#: The same for examination on one side, relative to the squared average.
LEAST_EXAMINED = 1e-4
#: Largest examination, relative to the average. The least is zero.
MOST_SEEN = 5.0
#: Context columns up to which all their products are traits of a user.
TRAIT_PRODUCTS = 6
#: Context columns up to which their squares are traits.
TRAIT_SQUARES = 20
#: Largest pair part in an exponent.
LARGEST_EXPONENT = 20.0
#: Probability of a class below which a ranking adds nothing to the sums of a step.
RARE_STEP = 1e-2
