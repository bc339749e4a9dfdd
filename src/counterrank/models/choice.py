"""Which reward model a log gets: the one with the least squared error on rows it has not seen."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.behaviors.model import BehaviorModel
from counterrank.models.candidates import Model, columns, fitted, squared_error
from counterrank.models.linear import LinearModel, Training, fit_linear, logged_values
from counterrank.models.visibility.model import VisibilityModel
from counterrank.models.visibility.rows import rows_of

Floats = NDArray[np.float64]
Chosen: TypeAlias = LinearModel | VisibilityModel | BehaviorModel
#: The same for isinstance.
CHOSEN = (LinearModel, VisibilityModel, BehaviorModel)

#: Rows the models of whole rankings are fitted to at most.
ROWS = 32_768
#: Columns of their widest step; positions (their Grams have their cube).
_WIDEST, _LONGEST = 1_500, 40
#: Rows from which a log is long.
_LONG = 200_000


def fit_best(training: Training, *, seed: int = 0) -> Chosen:
    """Return the linear (or logistic) model or one of whole rankings, whichever predicts unseen rows best."""
    linear = fit_linear(training, seed=seed)
    layout = training.layout
    if not 2 <= layout.K <= _LONGEST or columns(layout) > _WIDEST:
        return linear
    sample = training.source.sample(ROWS, np.random.default_rng([seed, 31]))
    rows = rows_of(sample, layout.scale, layout.F)
    losses = {"ridge": squared_error(rows, _linear_values(linear, sample))}
    best: Chosen = linear
    for name, model in fitted(rows, linear, long=(training.rows or 0) > _LONG).items():
        losses[name] = squared_error(rows, model.logged(rows))
        if losses[name] < min(list(losses.values())[:-1]):
            best = _described(model, name, linear)
    best.details["out_of_fold_mse_of"] = losses
    return best


def _described(model: Model, name: str, linear: LinearModel) -> Model:
    drawn = f"average over {model.draws} drawn rankings per row, own action summed out"
    exact = isinstance(model, BehaviorModel) or not model.link.curved
    details = {
        "model": name,
        "folds": linear.layout.F,
        **model.details,
        "mean_under_target": "closed form" if exact else drawn,
    }
    return replace(model, details=details)


def _linear_values(model: LinearModel, sample: RankingLog) -> Floats:
    given = model.layout.arrays(sample)
    return model.link(logged_values(model.layout, given, model.coef[None])[0], given)
