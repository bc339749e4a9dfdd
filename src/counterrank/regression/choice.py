"""Which reward model a log gets: the one with the least squared error on rows it has not seen."""

from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.regression.layout import Layout
from counterrank.regression.linear import LinearModel, Training, fit_linear, logged_values
from counterrank.regression.visibility.fit import ROUGH, alternate, by_fold, carried, with_triples
from counterrank.regression.visibility.links import LOGISTIC, PRODUCT, SUM, Link
from counterrank.regression.visibility.model import VisibilityModel
from counterrank.regression.visibility.parameters import Parameters
from counterrank.regression.visibility.rows import Rows, rows_of
from counterrank.regression.visibility.steps import start

Floats = NDArray[np.float64]
Chosen: TypeAlias = LinearModel | VisibilityModel

#: Rows the visibility model is fitted to at most.
ROWS = 32_768
#: 0/1 rewards are mostly chance: of logs longer than this fewer rows do, where each column has this many.
_LONG, _FEWER_ROWS, _PLENTY = 200_000, 16_384, 100
#: Columns of its widest step, positions (its Grams have their cube), actions up to which three-way effects are tried.
_WIDEST, _LONGEST, _MOST_TRIPLE = 1_500, 40, 20
#: Rows at least of the rough fits by which links are compared, and the error, best = 1, from which one is left. For
#: 0/1 rewards a sum that was best in the end was at most 0.09 % behind, in sigmoid worlds it was 0.29 % or more.
_FEW, _HOPELESS, _HOPELESS_BINARY = 2_048, 1.1, 1.002


def fit_best(training: Training, *, seed: int = 0) -> Chosen:
    """Return the linear (or logistic) model or a visibility model, whichever predicts unseen rows best."""
    linear = fit_linear(training, seed=seed)
    layout = training.layout
    if not 2 <= layout.K <= _LONGEST or columns(layout) > _WIDEST:
        return linear
    sample = training.source.sample(ROWS, np.random.default_rng([seed, 31]))
    rows = rows_of(sample, layout.scale, layout.F)
    losses = {"ridge": _loss(rows, _linear_values(linear, sample))}
    best: Chosen = linear
    for name, model in _candidates(rows, linear, long=(training.rows or 0) > _LONG).items():
        seen = model.parameters.scale(rows.moods)
        losses[name] = _loss(rows, model.values(rows.x, rows.action, rows.fold, seen))
        if losses[name] < min(list(losses.values())[:-1]):
            best = _described(model, name, linear)
    best.details["out_of_fold_mse_of"] = losses
    return best


def _candidates(rows: Rows, linear: LinearModel, *, long: bool) -> dict[str, VisibilityModel]:
    """Return the links worth a fit to all rows, by a rough fit to some, cross-fitted."""
    layout, found = linear.layout, {}
    binary = bool(np.isin(rows.reward, (0.0, 1.0)).all())
    if binary and long:
        rows = rows.take(slice(None, None, max(rows.n // max(_FEWER_ROWS, _PLENTY * columns(layout)), 1)))
    few = rows.take(slice(None, None, max(rows.n // max(_FEW, 16 * columns(layout)), 1)))
    rough = [alternate(few, start(few, link, layout.A), ROUGH) for link in (SUM, LOGISTIC if binary else PRODUCT)]
    errors = [_loss(few, fit.q) for fit in rough]
    for begun, error in zip(rough, errors, strict=True):
        if error > (_HOPELESS_BINARY if binary else _HOPELESS) * min(errors):
            continue
        fit, link = alternate(rows, carried(begun, rows)), begun.link
        parameters = by_fold(fit, rows, layout.F)
        found[f"visibility-{link.name}"] = _model(parameters, link, linear, rows.n)
        if link == SUM and layout.K > 2 and layout.A <= _MOST_TRIPLE:
            triple = with_triples(fit, rows, parameters, layout.F)
            found["visibility-triple"] = _model(triple, link, linear, rows.n)
    return found


def columns(layout: Layout) -> int:
    """Return the number of columns A (p + A) + K of the widest step."""
    return layout.A * (layout.d + 1 + layout.A) + layout.K


def _model(parameters: Parameters, link: Link, linear: LinearModel, rows: int) -> VisibilityModel:
    details = {"training_rows": rows}
    return VisibilityModel(parameters, link, linear.layout.scale, details, draws=linear.draws, seed=linear.seed)


def _described(model: VisibilityModel, name: str, linear: LinearModel) -> VisibilityModel:
    mean = f"average over {model.draws} drawn rankings per row, own action summed out"
    details = {
        "model": name,
        "folds": linear.layout.F,
        "training_rows": model.details["training_rows"],
        "visibility": model.parameters.sight.tolist(),
        "mean_under_target": mean if model.link.curved else "closed form",
    }
    return replace(model, details=details)


def _linear_values(model: LinearModel, sample: RankingLog) -> Floats:
    given = model.layout.arrays(sample)
    return model.link(logged_values(model.layout, given, model.coef[None])[0], given)


def _loss(rows: Rows, q: Floats) -> float:
    error = (rows.reward - q) * rows.present
    return float((error**2).sum() / max(rows.present.sum(), 1.0))
