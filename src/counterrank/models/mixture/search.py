"""Which examination models a log gets a fit of: links by rough fits, classes from several
beginnings on few rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.models.layout import Layout
from counterrank.models.mixture.fit import (
    Effects,
    alternate,
    by_fold,
    first_classes,
    improved,
    one_class_triples,
    with_room_for_triples,
)
from counterrank.models.mixture.model import MixtureModel, described
from counterrank.models.mixture.rows import Rows
from counterrank.models.mixture.state import Fit, Link, carried, start
from counterrank.models.mixture.steps import posterior_step
from counterrank.models.settings import (
    BINARY_ROWS,
    BINARY_ROWS_COLUMN,
    CLASS_CELLS,
    CLASS_ROWS,
    CLASSES_COLUMNS,
    CLASSES_LONGEST,
    CLEAR,
    CLOSE,
    FIRST_ROUNDS,
    HOPELESS,
    HOPELESS_BINARY,
    LEVELS,
    LEVELS_ACTIONS,
    MOST_TRIPLE,
    ROUGH,
    ROUGH_ROWS,
    ROUGH_ROWS_COLUMN,
    SEARCH_ROWS,
    SEARCH_ROWS_COLUMN,
    TRIAL_ROUNDS,
    TRIPLES_WORTH,
    Stream,
    stream,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Frame:
    """What all models of a log have in common."""

    layout: Layout
    draws: int
    seed: int

    @property
    def triples(self) -> bool:
        """Whether three-way effects are tried."""
        return self.layout.K > 2 and self.layout.A <= MOST_TRIPLE


def fitted(rows: Rows, frame: Frame, *, long: bool) -> dict[str, MixtureModel]:
    """Return models by name with the links worth a fit to all rows, by a rough fit to some."""
    layout = frame.layout
    found: dict[str, MixtureModel] = {}
    binary = bool(np.isin(rows.reward, (0.0, 1.0)).all())
    if binary and long:
        rows = rows.thinned(max(BINARY_ROWS, BINARY_ROWS_COLUMN * columns(layout)))
    few = rows.thinned(max(ROUGH_ROWS, ROUGH_ROWS_COLUMN * columns(layout)))
    # Rewards of any size add up or multiply; 0/1 rewards add up or are chances.
    links = (Link.SUM, Link.LOGISTIC if binary else Link.PRODUCT)
    rough = [alternate(few, start(few, link, layout.A), ROUGH) for link in links]
    errors = [squared_error(few, fit.q[:, 0]) for fit in rough]
    hopeless = (HOPELESS_BINARY if binary else HOPELESS) * min(errors)
    kept = [fit for fit, error in zip(rough, errors, strict=True) if error <= hopeless]
    if not binary and layout.K <= CLASSES_LONGEST and columns(layout) <= CLASSES_COLUMNS:
        alike = max(posterior_step(fit, few).likelihood for fit in kept)
        classes = _classes(rows, kept, frame)
        for fit in classes:
            found |= _with_classes(rows, fit, frame)
        # Where classes clearly exist, one class is a worse model of the same kind: its fit is
        # saved.
        if max((fit.likelihood for fit in classes), default=-np.inf) - alike > CLEAR:
            return found
    for fit in kept:
        found |= _of_one_class(rows, fit, frame)
    return found


def columns(layout: Layout) -> int:
    """Return the number of columns A (p + A) + K of the widest step."""
    return layout.A * (layout.d + 1 + layout.A) + layout.K


def squared_error(rows: Rows, q: Floats) -> float:
    """Return the mean squared error of a prediction."""
    error = (rows.reward - q) * rows.present
    return float((error**2).sum() / max(rows.present.sum(), 1.0))


def _of_one_class(rows: Rows, rough: Fit, frame: Frame) -> dict[str, MixtureModel]:
    fit = alternate(rows, carried(rough, rows))
    effects = by_fold(fit, rows, frame.layout.F)
    found = {f"visibility-{fit.link}": _model(effects, fit, rows, frame)}
    if fit.link is Link.SUM and frame.triples:
        effects = effects._replace(triple=one_class_triples(fit, rows, frame.layout.F))
        found["visibility-triple"] = _model(effects, fit, rows, frame)
    return found


def _with_classes(rows: Rows, fit: Fit, frame: Frame) -> dict[str, MixtureModel]:
    rows = rows.thinned(max(CLASS_ROWS, CLASS_CELLS // frame.layout.K**2))
    fit = improved(rows, carried(fit, rows))
    name = f"behaviors-{'triple' if len(fit.triple) else fit.link}"
    return {name: _model(by_fold(fit, rows, frame.layout.F), fit, rows, frame)}


def _model(effects: Effects, fit: Fit, rows: Rows, frame: Frame) -> MixtureModel:
    seen = np.tensordot(fit.posterior.mean(axis=0), fit.examined, axes=1)
    details: dict[str, Any] = {"training_rows": rows.n, "visibility": seen.tolist()}
    if len(fit.examined) > 1:
        details["behaviors"] = described(fit)
    return MixtureModel(
        effects, fit.examined, fit.tilt, fit.shares, fit.link, frame.layout.scale, details,
        draws=frame.draws, seed=frame.seed,
    )  # fmt: skip


def _classes(rows: Rows, kept: list[Fit], frame: Frame) -> list[Fit]:
    """Return fits with classes of users to some rows: the likeliest link's, and those it does not
    leave far behind.
    """
    few = rows.thinned(max(SEARCH_ROWS, SEARCH_ROWS_COLUMN * columns(frame.layout)))
    rng = stream(frame.seed, Stream.CLASSES)
    alike = {fit.link: carried(fit, few) for fit in kept}
    fits = found_classes(few, list(alike.values()), rng)
    if frame.triples:
        fits = [
            (fit.link is Link.SUM and found_triples(few, fit, alike[Link.SUM], rng)) or fit
            for fit in fits
        ]
    most = max((fit.likelihood for fit in fits), default=0.0)
    return [fit for fit in fits if fit.likelihood > most - CLOSE]


def found_classes(few: Rows, alike: list[Fit], rng: np.random.Generator) -> list[Fit]:
    """Return the likeliest classes in some rows, one for each fit of one class that stays close to
    the likeliest.
    """
    # A race from one beginning decides which links get the others: likelihoods have many local
    # maxima, and each beginning costs as much as the race.
    races = [improved(few, first_classes(few, one, 0.0, rng), FIRST_ROUNDS) for one in alike]
    most = max(fit.likelihood for fit in races)
    out = []
    for one, fit in zip(alike, races, strict=True):
        if fit.likelihood > most - CLOSE:
            beginnings = [first_classes(few, one, level, rng) for level in LEVELS]
            tried = [fit, *(improved(few, other, FIRST_ROUNDS) for other in beginnings)]
            out.append(improved(few, _likeliest(tried), FIRST_ROUNDS))
    return out


def found_triples(few: Rows, fit: Fit, alike: Fit, rng: np.random.Generator) -> Fit | None:
    """Return the likeliest fit with three-way effects, or nothing where they gain little on `fit`.

    Classes found without them may owe their existence to them: some beginnings have them from the
    first round.
    """
    _, K, A, _ = fit.shape
    grown = improved(few, with_room_for_triples(few, fit), TRIAL_ROUNDS)
    # Many effects always gain something: as many as they are, divided by the rows (Akaike 1974).
    if grown.likelihood - fit.likelihood < TRIPLES_WORTH * K + grown.freedom / few.n:
        return None
    levels = (0.0, *LEVELS) if A <= LEVELS_ACTIONS else (0.0,)
    begun = [with_room_for_triples(few, first_classes(few, alike, level, rng)) for level in levels]
    tried = [improved(few, one, FIRST_ROUNDS) for one in [grown, *begun]]
    return improved(few, _likeliest(tried), FIRST_ROUNDS)


def _likeliest(fits: list[Fit]) -> Fit:
    return max(fits, key=lambda fit: fit.likelihood)
