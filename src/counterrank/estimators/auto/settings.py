"""The numbers of `auto`: one table, each with its unit, its reason and what it was set on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that somebody chose."""

    name: str
    value: float
    unit: str
    why: str
    set_on: str


_TABLE = (
    Setting(
        "folds", 5, "folds", "a fit sees four fifths of the rows, and five fits make a jackknife", "reasoned",
    ),
    Setting(
        "close", 1.05, "of the least error on unseen rows", "closed-form models up to here are averaged: 1.02 and the "
        "best alone were a third worse", "20 development draws of the factored study",
    ),
    Setting(
        "training_rows", 32_768, "rankings", "more change the last digits of a model; every row is evaluated",
        "reasoned",
    ),
    Setting(
        "draws", 4, "rankings of the target a row", "their noise is a quarter of the models' spread between "
        "rankings, little beside that of rewards", "reasoned",
    ),
    Setting(
        "draws_together", 200_000, "drawn rankings", "on long logs the rows average out what fewer draws leave",
        "reasoned",
    ),
    Setting(
        "fold_rows", 1_024, "rankings", "rows on which fits of different folds are compared: pairs, so few do; the "
        "policies' weights are looked at on the same rows", "reasoned",
    ),
    Setting(
        "fold_block", 64, "rankings in a row", "of which those rows are made: calls of models cost more than rows",
        "reasoned",
    ),
    Setting(
        "fold_draws", 2, "rankings of the target a row", "as for the rows", "reasoned",
    ),
    Setting(
        "clip", 0.25, "of sqrt(n)", "no row moves the estimate by more than a quarter of its standard error's unit",
        "the study's development draws",
    ),
    Setting(
        "longest", 100, "positions", "models have an entry for each pair of positions", "reasoned",
    ),
    Setting(
        "controls", 128, "columns", "a regression of n rows on more would cost more than it gains", "reasoned",
    ),
    Setting(
        "spread", 1.5, "half-ranges of the models' estimates", "models that agree may still share an error",
        "development draws",
    ),
    Setting(
        "effect", 0.15, "of the change by position that the target makes", "models are made of what the logger showed, "
        "and err in proportion to how far the target leaves it", "development draws",
    ),
    Setting(
        "bare", 0.75, "of the change by position that the target makes",
        "without a model nothing stands for interactions", "development draws",
    ),
    Setting(
        "alone", 0.05, "of the value, for the share of the target that rests on the models alone",
        "where nothing was shown, models of one log can all be wrong in the same way", "development draws",
    ),
    Setting(
        "told", 0.05, "of the target", "from here on a flag tells how much rests on the models alone", "reasoned",
    ),
    Setting(
        "reach", 0.8, "of the target", "beyond it the log is no evidence: what models say of items that were "
        "hardly ever shown missed the truth", "development draws",
    ),
    Setting(
        "usual", 0.1, "of the allowance", "the bias one usually has, against the most one allows for",
        "development draws",
    ),
    Setting(
        "evidence", 9.0, "variances", "a difference to a richer member is bias beyond three standard errors: heavy "
        "tails make smaller ones by chance", "development draws",
    ),
    Setting("left-iips", 0.9, "of the first allowance", "own items alone tell little of interactions", "reasoned"),
    Setting("left-order-2", 0.5, "of the first allowance", "pairs are right, more items at a time are not", "reasoned"),
    Setting("left-order-3", 0.2, "of the first allowance", "as for pairs, one further", "reasoned"),
    Setting("left-rips", 0.3, "of the first allowance", "people mostly read from the top, not always", "reasoned"),
)  # fmt: skip

SETTINGS: dict[str, Setting] = {row.name: row for row in _TABLE}
