"""Which examination models are fitted to a log, and how.

One class is fitted by alternating steps. Several classes are fitted by expectation and maximisation
from several starts on few rows, then by fold.
"""

from dataclasses import dataclass, replace

import numpy as np

from counterrank.arrays import Floats
from counterrank.models import settings
from counterrank.models.columns import Layout, blocks_of
from counterrank.models.draws import Stream, stream
from counterrank.models.mixture.model import Beside, Effects, Link, MixtureModel, Rows
from counterrank.models.mixture.state import Fit, carried, moved, start
from counterrank.models.mixture.steps import (
    effect_grams,
    effect_pull,
    effects_step,
    examination_step,
    noise_step,
    posterior_step,
    shares_step,
    tilt_step,
    triples_step,
)
from counterrank.models.ridge import by_action, others
from counterrank.records import Json


@dataclass(frozen=True, slots=True)
class Frame:
    """What all models of a log have in common."""

    layout: Layout
    draws: int
    seed: int

    @property
    def triples(self) -> bool:
        """Whether three-way effects are tried."""
        return self.layout.K > 2 and self.layout.A <= settings.MOST_TRIPLE


def fitted(rows: Rows, frame: Frame, *, long: bool) -> dict[str, MixtureModel]:
    """Return models by name, with the links that a rough fit to some rows has not ruled out."""
    layout = frame.layout
    found: dict[str, MixtureModel] = {}
    binary = bool(np.isin(rows.reward, (0.0, 1.0)).all())
    if binary and long:
        rows = rows.thinned(
            max(settings.BINARY_ROWS, settings.BINARY_ROWS_COLUMN * columns(layout))
        )
    few = rows.thinned(max(settings.ROUGH_ROWS, settings.ROUGH_ROWS_COLUMN * columns(layout)))
    # Rewards of any size add up or multiply; 0/1 rewards add up or are chances.
    links = (Link.SUM, Link.LOGISTIC if binary else Link.PRODUCT)
    rough = [alternate(few, start(few, link, layout.A), settings.ROUGH) for link in links]
    errors = [squared_error(few, fit.q[:, 0]) for fit in rough]
    hopeless = (settings.HOPELESS_BINARY if binary else settings.HOPELESS) * min(errors)
    kept = [fit for fit, error in zip(rough, errors, strict=True) if error <= hopeless]
    if (
        not binary
        and layout.K <= settings.CLASSES_LONGEST
        and columns(layout) <= settings.CLASSES_COLUMNS
    ):
        alike = max(posterior_step(fit, few).likelihood for fit in kept)
        classes = _classes(rows, kept, frame)
        for fit in classes:
            found |= _with_classes(rows, fit, frame)
        # Where classes clearly exist, one class would be a worse model of the same kind.
        if max((fit.likelihood for fit in classes), default=-np.inf) - alike > settings.CLEAR:
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
    rows = rows.thinned(max(settings.CLASS_ROWS, settings.CLASS_CELLS // frame.layout.K**2))
    fit = improved(rows, carried(fit, rows))
    name = f"behaviors-{'triple' if len(fit.triple) else fit.link}"
    return {name: _model(by_fold(fit, rows, frame.layout.F), fit, rows, frame)}


def _model(effects: Effects, fit: Fit, rows: Rows, frame: Frame) -> MixtureModel:
    seen = np.tensordot(fit.posterior.mean(axis=0), fit.examined, axes=1)
    details: Json = {"training_rows": rows.n, "visibility": seen.tolist()}
    if len(fit.examined) > 1:
        details["behaviors"] = described(fit)
    return MixtureModel(
        effects, fit.examined, fit.tilt, fit.shares, fit.link, frame.layout.scale, details,
        draws=frame.draws, seed=frame.seed,
    )  # fmt: skip


def _classes(rows: Rows, kept: list[Fit], frame: Frame) -> list[Fit]:
    """Return fits of several classes to some rows: the likeliest link's, and those close to it."""
    few = rows.thinned(
        max(settings.SEARCH_ROWS, settings.SEARCH_ROWS_COLUMN * columns(frame.layout))
    )
    rng = stream(frame.seed, Stream.CLASSES)
    alike = {fit.link: carried(fit, few) for fit in kept}
    fits = found_classes(few, list(alike.values()), rng)
    if frame.triples:
        fits = [
            (fit.link is Link.SUM and found_triples(few, fit, alike[Link.SUM], rng)) or fit
            for fit in fits
        ]
    most = max((fit.likelihood for fit in fits), default=0.0)
    return [fit for fit in fits if fit.likelihood > most - settings.CLOSE]


def found_classes(few: Rows, alike: list[Fit], rng: np.random.Generator) -> list[Fit]:
    """Return the likeliest classes in some rows, one for each fit of one class that stays close to the likeliest."""
    # The likelihood has many local maxima, so several starts are tried. The first start decides which
    # links get the others.
    races = [
        improved(few, first_classes(few, one, 0.0, rng), settings.FIRST_ROUNDS) for one in alike
    ]
    most = max(fit.likelihood for fit in races)
    out = []
    for one, fit in zip(alike, races, strict=True):
        if fit.likelihood > most - settings.CLOSE:
            beginnings = [first_classes(few, one, level, rng) for level in settings.LEVELS]
            tried = [fit, *(improved(few, other, settings.FIRST_ROUNDS) for other in beginnings)]
            out.append(improved(few, _likeliest(tried), settings.FIRST_ROUNDS))
    return out


def found_triples(few: Rows, fit: Fit, alike: Fit, rng: np.random.Generator) -> Fit | None:
    """Return the likeliest fit with three-way effects, or nothing where they gain little on `fit`.

    Classes may appear only because three-way effects are missing, so some starts have these effects
    from the first round.
    """
    _, K, A, _ = fit.shape
    grown = improved(few, with_room_for_triples(few, fit), settings.TRIAL_ROUNDS)
    # Any effects gain something: about their number divided by the rows (Akaike 1974).
    if grown.likelihood - fit.likelihood < settings.TRIPLES_WORTH * K + grown.freedom / few.n:
        return None
    levels = (0.0, *settings.LEVELS) if A <= settings.LEVELS_ACTIONS else (0.0,)
    begun = [with_room_for_triples(few, first_classes(few, alike, level, rng)) for level in levels]
    tried = [improved(few, one, settings.FIRST_ROUNDS) for one in [grown, *begun]]
    return improved(few, _likeliest(tried), settings.FIRST_ROUNDS)


def _likeliest(fits: list[Fit]) -> Fit:
    return max(fits, key=lambda fit: fit.likelihood)


def described(fit: Fit) -> list[Json]:
    """Return each class with its share of the rankings and what it examines, the most common first."""
    share = fit.posterior.mean(axis=0)
    order = np.argsort(-share)
    return [{"share": float(share[z]), "sees": fit.examined[z].tolist()} for z in order]


def alternate(rows: Rows, fit: Fit, settled: float = settings.SETTLED) -> Fit:
    """Return the fit of one class: effects, examination and tilt in turn until the loss changes little."""
    last = np.inf
    for turn in range(settings.ROUNDS):
        fit = tilt_step(examination_step(effects_step(fit, rows), rows), rows)
        loss = fit.errors(rows)
        if turn and abs(last - loss) < settled * abs(loss):
            break
        last = loss
    return fit


def improved(rows: Rows, fit: Fit, rounds: int = settings.CLASS_ROUNDS) -> Fit:
    """Return classes after rounds of expectation and maximisation, until the likelihood gains too little."""
    last = -np.inf
    for _ in range(rounds):
        # The posterior first: rounds stop by the likelihood of the parameters so far.
        fit = posterior_step(fit, rows)
        if fit.likelihood - last < settings.CLASS_SETTLED:
            break
        last = fit.likelihood
        fit = effects_step(examination_step(shares_step(fit, rows), rows), rows)
        if len(fit.triple):
            fit = triples_step(fit, rows)
        fit = noise_step(fit, rows)
    return fit


def first_classes(rows: Rows, alike: Fit, level: float, rng: np.random.Generator) -> Fit:
    """Return equally common classes that examine all, no, upper, lower, adjacent or random items.

    They start at a fit of one class whose pair effects are moved to a mean of `level` standard
    deviations. With one class such a shift is the same as a shift of the positions; only several
    classes can tell the two apart.
    """
    (_, K, _, p), Z = alike.shape, settings.CLASSES
    pair = alike.effect[:, p:]
    raised = level * float(pair.std()) - float(pair.mean())
    effect, centre = alike.effect.copy(), alike.prior.effect.copy()
    effect[:, p:] += raised
    centre[:, p:] += raised
    # In a sum the positions give back what the pair effects gained, so that rewards stay the same.
    shift = alike.shift - (0.0 if alike.link.curved else raised * alike.examined[0].sum(axis=1))
    everything, nothing = 1.0 - np.eye(K), np.empty((0, 0))
    prior = replace(
        alike.prior, effect=centre, examined=np.tile(everything, (Z, 1, 1)), triple_penalty=settings.FIRST_TRIPLE,
        examined_penalty=np.full((Z, K, K), settings.FIRST_CLASS_EXAMINED * alike.noise),
    )  # fmt: skip
    fit = replace(
        alike, effect=effect, shift=shift, examined=_looks(alike.examined[0], rng) * everything, prior=prior,
        tilt=np.zeros(alike.tilt.shape), shares=np.zeros((Z, rows.traits.shape[1] + 1)), common=0.0,
        shared=np.zeros(rows.n), posterior=np.full((rows.n, Z), 1.0 / Z), scale=nothing, own=nothing,
    )  # fmt: skip
    return moved(fit, rows)


def _looks(examined: Floats, rng: np.random.Generator) -> Floats:
    """Return what the classes examine (Z, K, K) at the start, with small random differences."""
    K = len(examined)
    away = np.arange(K) - np.arange(K)[:, None]
    # Everything, nothing (no position is K away), above, below, next door.
    plain = np.stack([away != 0, away > K, away < 0, away > 0, np.abs(away) == 1]).astype(
        np.float64
    )
    # A share 1 / FIRST_SEEN of the items at FIRST_SEEN each: these classes examine 1 on average.
    scattered = examined * (
        rng.random((settings.CLASSES - len(plain), K, K)) < 1.0 / settings.FIRST_SEEN
    )
    # Expectation and maximisation keeps classes equal that start equal.
    apart = np.exp(0.2 * rng.standard_normal((settings.CLASSES, K, K)))
    return np.asarray(settings.FIRST_SEEN * np.concatenate([plain, scattered]) * apart)


def with_room_for_triples(rows: Rows, fit: Fit) -> Fit:
    """Return the fit with three-way effects of zero, which later steps estimate."""
    A = fit.shape[2]
    return moved(replace(fit, triple=np.zeros((A, A, A))), rows)


def by_fold(fit: Fit, rows: Rows, folds: int) -> Effects:
    """Return the effects, each fold left out in turn.

    Classes and what they examine stay those of all rows: they are few numbers, on which no fold has
    much influence.
    """
    _, K, A, p = fit.shape
    penalty, away = effect_pull(fit)
    plenty = fit.link is Link.LOGISTIC and rows.n >= settings.ONE_STEP_ROWS * len(penalty)
    if (fit.link.curved and not plenty) or len(fit.triple):
        return _by_steps(fit, rows, folds)
    # One step from the sums of all folds but one.
    gram, right = effect_grams(fit, rows, rows.fold, folds)
    step = np.linalg.solve(
        others(gram) + np.diag(penalty), (others(right) - penalty * away)[..., None]
    )[..., 0]
    effect = fit.effect + step[:, :-K].reshape(folds, A, p + A)
    return _split(effect, fit.shift + step[:, -K:], np.zeros((folds, 0, 0, 0)))


def _by_steps(fit: Fit, rows: Rows, folds: int) -> Effects:
    """Return the same by some steps on the rows of the other folds, started at the fit to all."""
    out = []
    for f in range(folds):
        # A posterior of zero leaves a row out of every sum without copying rows.
        part = replace(fit, posterior=fit.posterior * (rows.fold != f)[:, None])
        for _ in range(settings.FOLD_STEPS):
            part = effects_step(part, rows)
            part = triples_step(part, rows) if len(fit.triple) else part
        out.append((part.effect, part.shift, part.triple))
    effect, shift, triple = (np.stack(parts) for parts in zip(*out, strict=True))
    return _split(effect, shift, triple)


def _split(effect: Floats, shift: Floats, triple: Floats) -> Effects:
    p = effect.shape[2] - effect.shape[1]
    return Effects(
        np.ascontiguousarray(effect[..., :p]), shift, np.ascontiguousarray(effect[..., p:]), triple
    )


def one_class_triples(fit: Fit, rows: Rows, folds: int) -> Floats:
    """Return three-way effects (F, A, A, A) on the residuals of one class, each fold left out in turn."""
    error = (rows.reward - fit.q[:, 0]) * rows.present
    gram, right = triple_grams(fit, rows, error, folds)
    # Empirical Bayes on the sums: a round costs a solution, not a pass over the rows.
    noise, penalty = float((error**2).sum() / max(rows.present.sum(), 1.0)), settings.FIRST_TRIPLE
    A, eye = fit.shape[2], np.eye(gram.shape[-1])
    for _ in range(settings.TRIPLE_ROUNDS):
        inverse = np.linalg.inv(gram.sum(axis=0) + penalty * eye)
        found = (inverse @ right.sum(axis=0)[..., None])[..., 0]
        tau2 = float(np.mean(found**2 + noise * np.diagonal(inverse, axis1=1, axis2=2)))
        # Without residuals the noise is zero, and without a penalty the matrix could be singular.
        penalty = max(noise / max(tau2, 1e-8 * noise, 1e-300), settings.LEAST_TRIPLE)
    solved = np.linalg.solve(others(gram) + penalty * eye, others(right)[..., None])[
        ..., 0
    ]  # (F, A, Q)
    # Columns are the packed lower triangle: (high, low) is at high (high + 1) / 2 + low.
    low, high = np.tril_indices(A)[::-1]
    triple = np.empty((folds, A, A, A))
    triple[:, :, low, high] = triple[:, :, high, low] = solved[..., high * (high + 1) // 2 + low]
    return triple


def triple_grams(fit: Fit, rows: Rows, error: Floats, folds: int) -> tuple[Floats, Floats]:
    """Return gram (F, A, Q, Q) and right side (F, A, Q) of one class, by own action.

    There is a column for each unordered pair of actions, few enough for normal equations.
    """
    _, K, A, _ = fit.shape
    size = A * (A + 1) // 2
    gram, right = np.zeros((folds, A, size, size)), np.zeros((folds, A, size))
    for f, block in blocks_of(rows.fold):
        beside, n = Beside(rows.action[block], 0, A), len(block)
        for k in range(K):
            one, two = beside.threes(k)
            side = fit.scale[block].T[(np.arange(K) > k).astype(int)]
            seen = fit.examined[0, k][:, None] * side
            low = np.minimum(beside.shown[one], beside.shown[two])
            high = np.maximum(beside.shown[one], beside.shown[two])
            # The packed lower triangle. Padding is the last action: its columns are the last.
            cell = (high * (high + 1) // 2 + low) * n + np.arange(n)
            amounts = (seen[one] * seen[two]).ravel()
            columns = np.bincount(cell.ravel(), amounts, (size + A + 1) * n).reshape(-1, n)[:size]
            whole = np.concatenate([columns, error[block, k][None]])
            for u, mine in by_action(rows.action[block, k], whole):
                product = mine @ mine.T
                gram[f, u] += product[:-1, :-1]
                right[f, u] += product[-1, :-1]
    return gram, right
