"""Which reward model a log gets: the one with the least squared error on rows it has not seen."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.linear import LinearModel, Training, fit_linear, logged_values
from counterrank.models.mixture import Frame, MixtureModel, columns, fitted, rows_of, squared_error
from counterrank.models.settings import (
    CLOSE_ERROR,
    LONG_LOG,
    MIXTURE_COLUMNS,
    MIXTURE_LONGEST,
    MIXTURE_ROWS,
    Stream,
    stream,
)

Floats = NDArray[np.float64]
Chosen: TypeAlias = LinearModel | MixtureModel


def fit_best(training: Training, *, seed: int = 0) -> Chosen:
    """Return the linear (or logistic) model or one of whole rankings, whichever predicts unseen
    rows best.
    """
    return fit_close(training, seed=seed)[0]


def fit_close(
    training: Training, *, seed: int = 0, within: float = CLOSE_ERROR
) -> tuple[Chosen, ...]:
    """Return every model whose squared error on unseen rows is at most `within` times the least,
    the best first.

    Models that the log cannot tell apart say how far to trust any of them, and their average errs
    less.
    """
    linear = fit_linear(training, seed=seed)
    layout = training.layout
    if not 2 <= layout.K <= MIXTURE_LONGEST or columns(layout) > MIXTURE_COLUMNS:
        return (linear,)
    # The sample's rows keep their folds, so linear and mixture models are compared on the same
    # unseen rows.
    sample = training.source.sample(MIXTURE_ROWS, stream(seed, Stream.MIXTURE_ROWS))
    rows = rows_of(sample, layout.scale, layout.F)
    found: dict[str, Chosen] = {"ridge": linear}
    losses = {"ridge": squared_error(rows, _linear_values(linear, sample))}
    frame = Frame(layout, linear.draws, linear.seed)
    for name, model in fitted(rows, frame, long=(training.rows or 0) > LONG_LOG).items():
        losses[name] = squared_error(rows, model.logged(rows))
        found[name] = _described(model, name, layout.F)
    names = sorted(losses, key=lambda name: losses[name])
    found[names[0]].details["out_of_fold_mse_of"] = losses
    return tuple(found[name] for name in names if losses[name] <= within * losses[names[0]])


def _described(model: MixtureModel, name: str, folds: int) -> MixtureModel:
    drawn = f"average over {model.draws} drawn rankings per row, own action summed out"
    mean = "closed form" if model.exact else drawn
    return replace(
        model, details={"model": name, "folds": folds, **model.details, "mean_under_target": mean}
    )


def _linear_values(model: LinearModel, sample: RankingLog) -> Floats:
    given = model.layout.arrays(sample)
    return model.link(logged_values(model.layout, given, model.coef), given)
