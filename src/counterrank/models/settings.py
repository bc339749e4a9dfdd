"""Every tuned number of the closed-form models, with its unit and its reason."""

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
#: Rankings drawn for a row where a mean under the target has no closed form.
DRAWS = 8
#: Rankings drawn in all. Long logs draw fewer for a row.
ALL_DRAWS = 400_000
#: Rankings that a scikit-learn regressor is trained on.
LEARNER_ROWS = 50_000
#: Folds of a scikit-learn regressor. Each costs a fit for every position.
LEARNER_FOLDS = 2

# The ridge.
#: Context columns up to which all products are curves. More have squares only.
FEW_CURVES = 6
#: Standard deviations of the context beyond which curves stay as they are.
CURVED = 3.0
#: Penalty (rows) at which empirical Bayes starts, and its least and largest.
FIRST_PENALTY = 10.0
PENALTY_RANGE = (1e-2, 1e8)
#: Cells (positions, own actions, groups) from which a variance is estimated.
SHRINKAGE_CELLS = 24
#: Its steps: more change estimates by less than their noise.
SHRINKAGE_STEPS = 3
#: Groups that one context column makes, and rows of a group at least.
GROUPS = 3
GROUP_ROWS = 50
#: Rankings from which the column is chosen.
GROUPING_ROWS = 8_192
#: Numbers in all Gram matrices beyond which requests have no groups.
GROUP_NUMBERS = 16_000_000
#: Share of a fit by the likelihood of unseen rows that is none: it would change little, and groups on their own
#: beside it cost as much as beside the best.
LEAST_SHARE = 0.05

# The logistic ridge.
#: Newton steps on all folds before the steps that leave each fold out.
NEWTON_STEPS = 5
#: Change of every coefficient after which no further of these steps is made: what it would change is about the square.
NEWTON_ENOUGH = 1e-5
#: Rankings that these steps read. The steps that leave a fold out read all training rows.
NEWTON_ROWS = 50_000
#: The same on a long log.
NEWTON_ROWS_LONG = 12_500
#: Rankings from which a log is long: its sampling noise is small.
LONG_LOG = 200_000
#: Penalty (rows) on logits of a position's columns.
LOGIT_PENALTY = 1.0
#: Penalty (rows) on the distance of an intercept from the logit of the mean reward.
LOGIT_INTERCEPT = 0.02
#: Longest step (logits). Cells without any click have their optimum at infinity.
LOGIT_STEP = 4.0
#: Least variance of a 0/1 reward in the weights of a Newton step.
LEAST_VARIANCE = 1e-5

# The visibility model.
#: Rankings that it is fitted to.
VISIBILITY_ROWS = 32_768
#: Columns at most of its widest step.
VISIBILITY_COLUMNS = 1_500
#: Positions at most: the normal equations of visibility cost their cube.
VISIBILITY_LONGEST = 40
#: Relative error out of fold up to which a log does not tell models apart.
CLOSE_ERROR = 1.05
#: Rankings of the rough fits by which sum and product are compared.
ROUGH_ROWS = 2_048
#: The same for each column, where columns are many.
ROUGH_ROWS_COLUMN = 16
#: Relative error of a rough fit beyond which it is dropped.
HOPELESS = 1.1
#: Penalty (noise variances) on visibility at the start.
FIRST_VISIBLE = 10.0
#: Penalty (rows) on a position's shift, and largest penalty on an action's intercept.
SHIFT = 3.0
#: Rounds at most.
ROUNDS = 20
#: Relative change of the squared errors below which rounds end.
SETTLED = 1e-4
#: The same for fits that are only compared.
ROUGH = 1e-2
#: Steps that leave a fold out where one step is not exact.
FOLD_STEPS = 3
#: Times that a step is halved before it is dropped.
HALVINGS = 6
#: Least noise, in variances of the rewards: rewards may fit exactly.
LEAST_NOISE = 1e-6
#: Least variance of a group of effects, in noise variances: no group equals its mean.
LEAST_EFFECT = 1e-6
#: The same for visibility above or below, relative to the squared average.
LEAST_VISIBLE = 1e-4
#: Largest pair part in an exponent.
LARGEST_EXPONENT = 20.0
