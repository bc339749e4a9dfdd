"""The reward models that look at a whole ranking, fitted to a sample and cross-fitted."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.models.behaviors import search as behaviors
from counterrank.models.behaviors.model import BehaviorModel, described
from counterrank.models.behaviors.state import Fit as Classes
from counterrank.models.layout import Layout
from counterrank.models.linear import LinearModel
from counterrank.models.visibility import fit as visibility
from counterrank.models.visibility.links import LOGISTIC, PRODUCT, SUM
from counterrank.models.visibility.model import VisibilityModel
from counterrank.models.visibility.parameters import Parameters
from counterrank.models.visibility.rows import Rows
from counterrank.models.visibility.steps import Fit, start

Floats = NDArray[np.float64]
Model = VisibilityModel | BehaviorModel

#: 0/1 rewards are mostly chance: of long logs fewer rows do, where each column has this many.
_FEWER_ROWS, _PLENTY = 16_384, 100
#: Actions up to which three-way effects are tried.
_MOST_TRIPLE = 20
#: Rows at least of the rough fits by which links are compared, and the error, best = 1, from which one is left. For
#: 0/1 rewards a sum that was best in the end was at most 0.09 % behind, in sigmoid worlds it was 0.29 % or more.
_FEW, _HOPELESS, _HOPELESS_BINARY = 2_048, 1.1, 1.002
#: Classes are looked for in rankings up to this long, with up to this many columns.
_LONGEST_CLASSES, _WIDEST_CLASSES = 16, 700
#: Rows of the search, at least, and for each column; rows of the fit, at least, and times K^2 (what one costs).
_SEARCHED, _FOR_COLUMN, _CLASS_ROWS, _CLASS_CELLS = 1_024, 4, 8_192, 524_288
#: Gain in mean log-likelihood by which classes clearly exist: models without them are not fitted then. And the
#: distance to the likeliest link from which another is left.
_CLEAR, _CLOSE = 0.5, 3.0


def fitted(rows: Rows, linear: LinearModel, *, long: bool) -> dict[str, Model]:
    """Return models with the links worth a fit to all rows, by a rough fit to some."""
    layout = linear.layout
    found: dict[str, Model] = {}
    binary = bool(np.isin(rows.reward, (0.0, 1.0)).all())
    if binary and long:
        rows = thinned(rows, max(_FEWER_ROWS, _PLENTY * columns(layout)))
    few = thinned(rows, max(_FEW, 16 * columns(layout)))
    links = (SUM, LOGISTIC if binary else PRODUCT)
    rough = [visibility.alternate(few, start(few, link, layout.A), visibility.ROUGH) for link in links]
    errors = [squared_error(few, fit.q) for fit in rough]
    hopeless = (_HOPELESS_BINARY if binary else _HOPELESS) * min(errors)
    kept = [fit for fit, error in zip(rough, errors, strict=True) if error <= hopeless]
    if not binary and layout.K <= _LONGEST_CLASSES and columns(layout) <= _WIDEST_CLASSES:
        alike = max(behaviors.one_class_likelihood(fit, few) for fit in kept)
        classes = _classes(rows, kept, linear)
        for fit in classes:
            found |= _behaviors(rows, fit, linear)
        if max((fit.likelihood for fit in classes), default=-np.inf) - alike > _CLEAR:
            return found
    for begun in kept:
        found |= _visibility(rows, begun, linear)
    return found


def thinned(rows: Rows, count: int) -> Rows:
    """Return every j-th row, such that about `count` are left."""
    return rows.take(slice(None, None, max(rows.n // count, 1)))


def columns(layout: Layout) -> int:
    """Return the number of columns A (p + A) + K of the widest step."""
    return layout.A * (layout.d + 1 + layout.A) + layout.K


def squared_error(rows: Rows, q: Floats) -> float:
    """Return the mean squared error of a prediction."""
    error = (rows.reward - q) * rows.present
    return float((error**2).sum() / max(rows.present.sum(), 1.0))


def _visibility(rows: Rows, begun: Fit, linear: LinearModel) -> dict[str, Model]:
    layout, link = linear.layout, begun.link
    fit = visibility.alternate(rows, visibility.carried(begun, rows))
    parameters = visibility.by_fold(fit, rows, layout.F)
    found: dict[str, Model] = {f"visibility-{link.name}": _of_parameters(parameters, fit, linear, rows.n)}
    if link == SUM and layout.K > 2 and layout.A <= _MOST_TRIPLE:
        triple = visibility.with_triples(fit, rows, parameters, layout.F)
        found["visibility-triple"] = _of_parameters(triple, fit, linear, rows.n)
    return found


def _of_parameters(parameters: Parameters, fit: Fit, linear: LinearModel, rows: int) -> VisibilityModel:
    details = {"training_rows": rows, "visibility": parameters.sight.tolist()}
    return VisibilityModel(parameters, fit.link, linear.layout.scale, details, draws=linear.draws, seed=linear.seed)


def _classes(rows: Rows, kept: list[Fit], linear: LinearModel) -> list[Classes]:
    """Return fits with classes of users to some rows: the likeliest link's, and those it does not leave far behind."""
    few = thinned(rows, max(_SEARCHED, _FOR_COLUMN * columns(linear.layout)))
    rng = np.random.default_rng([linear.seed, 53])
    begun = {one.link: visibility.carried(one, few) for one in kept}
    fits = behaviors.found_classes(few, list(begun.values()), rng, _CLOSE)
    if linear.layout.K > 2 and linear.layout.A <= _MOST_TRIPLE:
        fits = [(fit.link == SUM and behaviors.found_triples(few, fit, begun[SUM], rng)) or fit for fit in fits]
    most = max((fit.likelihood for fit in fits), default=0.0)
    return [fit for fit in fits if fit.likelihood > most - _CLOSE]


def _behaviors(rows: Rows, fit: Classes, linear: LinearModel) -> dict[str, Model]:
    rows = thinned(rows, max(_CLASS_ROWS, _CLASS_CELLS // linear.layout.K**2))
    fit = behaviors.improved(rows, behaviors.carried(fit, rows))
    return {f"behaviors-{'triple' if len(fit.triple) else fit.link.name}": _of_classes(fit, rows, linear)}


def _of_classes(fit: Classes, rows: Rows, linear: LinearModel) -> BehaviorModel:
    effect, shift, triple = behaviors.by_fold(fit, rows, linear.layout.F)
    p = fit.shape[3]
    classes = described(fit)
    details: dict[str, Any] = {
        "training_rows": rows.n,
        "visibility": np.tensordot(fit.posterior.mean(axis=0), fit.sight, axes=1).tolist(),
        "behaviors": classes,
    }
    return BehaviorModel(
        np.ascontiguousarray(effect[..., :p]), shift, np.ascontiguousarray(effect[..., p:]),
        triple, fit.sight, fit.shares, fit.link, linear.layout.scale, details,
        draws=linear.draws, seed=linear.seed,
    )  # fmt: skip
