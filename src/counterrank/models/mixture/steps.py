"""The steps of a fit: the posterior of classes, and each block of parameters given the others (../WHY.md).

Normal equations are sums over rankings and classes of J' M J and J' M e, with M = weight (diag(v) -
shared 11'). `weight` is the probability of the class, `shared` models the noise that the errors of a
ranking have in common. v is 1; for 0/1 rewards it is q (1 - q), and nothing is shared. Blocks of rows
are stored as columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from counterrank.arrays import Floats, Ints
from counterrank.models import settings
from counterrank.models.columns import blocks_of, indicators
from counterrank.models.mixture.model import Beside, Link, Rows, chances, padded, pair_parts
from counterrank.models.mixture.state import Fit, Prior, moved, shared_by
from counterrank.models.ridge import by_action

#: Rows whose columns are held at once.
_ROWS = 2048


def shrinkage(
    values: Floats, spread: Floats, noise: float, least: float = 0.0
) -> tuple[float, float]:
    """Return a group's mean and the ridge penalty noise / tau^2, tau^2 = mean of (value - mean)^2 + spread.

    Empirical Bayes: one step of EM for normal coefficients with posterior variances `spread`
    (Morris 1983); tau^2 is at least `least`.

    >>> shrinkage(np.array([-1.0, 1.0]), np.zeros(2), 0.5)
    (0.0, 0.5)
    """
    mean = float(values.mean())
    tau2 = float(np.mean((values - mean) ** 2 + spread))
    return mean, noise / max(tau2, least, 1e-300)


def posterior_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit with the probability of every class given context and rewards, and its likelihood."""
    # The inverse covariance of a ranking's errors is (I - shared 11') / noise: squares less a square of
    # the sum, and log det = count log noise - log(1 - count shared).
    (square, total), count = fit.squares(rows), rows.present.sum(axis=1)
    distance = (square - fit.shared[:, None] * total) / fit.noise
    level = np.log(np.maximum(chances(fit.shares, rows.traits), 1e-300)) - 0.5 * distance
    # Log-sum-exp: K squared errors over small noise would underflow.
    most = level.max(axis=1, keepdims=True)
    weight = np.exp(level - most)
    sums = weight.sum(axis=1, keepdims=True)
    size = 0.5 * np.log(np.maximum(1.0 - count * fit.shared, 1e-12)) - 0.5 * count * np.log(
        fit.noise
    )
    likelihood = float((most[:, 0] + np.log(sums[:, 0]) + size).mean())
    return replace(fit, posterior=weight / sums, likelihood=likelihood)


def shares_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after some steps of the multinomial regression of classes on the context.

    The curvature is at most X'X / 2 (Boehning 1992), which makes every step an improvement.
    """
    phi = np.concatenate([np.ones((rows.n, 1)), rows.traits], axis=1)
    penalty = np.full(phi.shape[1], settings.SHARE)
    penalty[0] = settings.SIZE
    # A bound of the Hessian is inverted once, and no step can overshoot.
    inverse = np.linalg.inv(0.5 * phi.T @ phi + np.diag(penalty))
    shares = fit.shares
    for _ in range(settings.SHARE_STEPS):
        slope = (fit.posterior - chances(shares, rows.traits)).T @ phi - penalty * shares
        shares = shares + slope @ inverse
    return replace(fit, shares=shares)


def examination_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of what each class examines, shrunk to the class's mean above and below."""
    penalty, centre = fit.prior.examined_penalty, fit.prior.examined
    inverse_times, spread = _examination_equations(fit, rows)
    step = inverse_times(penalty * (fit.examined - centre))
    found = _search(fit, rows, examined=step * (1.0 - np.eye(fit.shape[1])))
    return _rescaled(replace(found, prior=_examination_prior(found, found.noise * spread)))


def _examination_equations(fit: Fit, rows: Rows) -> tuple[Callable[[Floats], Floats], Floats]:
    """Return a function that solves for a step given the prior's pull, and the diagonal of the inverse (Z, K, K).

    With several classes the shared noise couples the equations of all positions (K^2 of them). With one
    class each position is solved by itself, without shared noise, for rankings of any length.
    """
    Z, K, _, _ = fit.shape
    together = Z > 1
    gram, right, joint = examination_sums(fit, rows, together=together)
    gram[..., np.arange(K), np.arange(K)] += fit.prior.examined_penalty
    # Without shared noise the equations of different positions are separate.
    if not together:
        inverse = np.linalg.inv(gram)
        return (
            lambda pull: (inverse @ (right - pull)[..., None])[..., 0],
            np.diagonal(inverse, axis1=2, axis2=3),
        )
    for k in range(K):
        own = slice(k * K, (k + 1) * K)
        joint[:, own, own] += gram[:, k]
    inverse = np.linalg.inv(joint)
    return (
        lambda pull: (inverse @ (right - pull).reshape(Z, -1, 1)).reshape(Z, K, K),
        np.diagonal(inverse, axis1=1, axis2=2).reshape(Z, K, K),
    )


def examination_sums(fit: Fit, rows: Rows, *, together: bool) -> tuple[Floats, Floats, Floats]:
    """Return gram (Z, K, K, K) and right side (Z, K, K) by class and position, a column for each other position.

    `together` also returns what shared noise subtracts from all columns at once (Z, K^2, K^2).
    """
    Z, K, A, _ = fit.shape
    gram, right = np.zeros((Z, K, K, K)), np.zeros((Z, K, K))
    joint = np.zeros((Z, K * K, K * K) if together else (0, 0, 0))
    shared = fit.shared if together else np.zeros(rows.n)
    effects = padded(fit.pair[None]), padded(fit.triple[None])
    for block in _blocks(rows.n):
        beside, scale = Beside(rows.action[block], 0, A), fit.scale[block].T
        slopes = np.stack([_examined_columns(fit, effects, beside, scale, k) for k in range(K)])
        for z in range(Z):
            used = block.start + np.flatnonzero(fit.posterior[block, z] >= settings.RARE_STEP)
            # Without three-way effects all classes have the same columns.
            columns = slopes[:, min(z, slopes.shape[1] - 1)][..., used - block.start]
            weight, q = fit.posterior[used, z], fit.q[used, z].T
            if fit.link is Link.PRODUCT:
                columns *= q[:, None]
            weighed = columns * (weight * _variance(fit.link, q))[:, None]
            gram[z] += weighed @ columns.swapaxes(1, 2)
            rest = _rests(fit, rows, used, np.full(len(used), z), shared)
            right[z] += (columns @ rest[..., None])[..., 0]
            if together:
                flat = columns.reshape(K * K, -1)
                joint[z] -= (flat * (weight * shared[used])) @ flat.T
    return gram, right, joint


def _blocks(count: int) -> Iterator[slice]:
    return (slice(first, min(first + _ROWS, count)) for first in range(0, count, _ROWS))


def _variance(link: Link, q: Floats) -> Floats:
    """Return v, the variance of a reward in units of the noise."""
    return (
        np.maximum(q * (1.0 - q), settings.LEAST_VARIANCE)
        if link is Link.LOGISTIC
        else np.ones(q.shape)
    )


def _rests(fit: Fit, rows: Rows, used: Ints, of_class: Ints, shared: Floats) -> Floats:
    """Return M e (K, R) of rankings and classes.

    v times the working error (r - q) / v is r - q; the shared noise needs only the sum of the errors.
    """
    error = ((rows.reward[used] - fit.q[used, of_class]) * rows.present[used]).T
    rest: Floats = fit.posterior[used, of_class] * (error - shared[used] * error.sum(axis=0))
    return rest


def _examined_columns(
    fit: Fit, effects: tuple[Floats, Floats], beside: Beside, scale: Floats, k: int
) -> Floats:
    """Return the derivative of the pair part at k by the examination of each other position.

    It is (Z, K, n), or (1, K, n) where all classes have the same.
    """
    Z, K, _, _ = fit.shape
    side = scale[(np.arange(K) > k).astype(int)]
    out = (beside.pairs(effects[0], k) * side)[None]
    if not len(fit.triple):
        return np.asarray(out)
    one, two = beside.threes(k)
    effect = beside.triples(effects[1], k) * side[one] * side[two]
    # A three-way effect is a product: the derivative by one item contains the other's examination.
    third, pairs = np.zeros((Z, K, len(one))), np.arange(len(one))
    third[:, one, pairs], third[:, two, pairs] = fit.examined[:, k, two], fit.examined[:, k, one]
    return np.asarray(out + third @ effect)


def _examination_prior(fit: Fit, spread: Floats) -> Prior:
    centre, penalty = fit.prior.examined.copy(), fit.prior.examined_penalty.copy()
    off = ~np.eye(fit.shape[1], dtype=bool)
    for z in range(len(centre)):
        for side in (np.triu(off), np.tril(off)):
            # A side of one cell (K = 2) has no spread to shrink by.
            if side.sum() > 1:
                group = fit.examined[z][side]
                centre[z][side], penalty[z][side] = shrinkage(
                    group, spread[z][side], fit.noise, settings.LEAST_EXAMINED
                )
    return replace(fit.prior, examined=centre, examined_penalty=penalty)


def _rescaled(fit: Fit) -> Fit:
    """Return the same rewards with examination 1 on average over classes and positions."""
    _, K, _, p = fit.shape
    average = np.tensordot(fit.posterior.mean(axis=0), fit.examined, axes=1)
    # Rewards depend on examination x pair effect and examination^2 x three-way effect only. Scaling one
    # up scales the others down, and penalties by the squares (../WHY.md).
    size = float(np.abs(average[~np.eye(K, dtype=bool)]).mean())
    if not 1e-6 < size < 1e6:
        return fit
    at, effect = fit.prior, fit.effect.copy()
    centre, penalty = at.effect.copy(), at.effect_penalty.copy()
    effect[:, p:] *= size
    centre[:, p:] *= size
    penalty[:, p:] /= size**2
    prior = replace(
        at, effect=centre, effect_penalty=penalty, examined=at.examined / size,
        examined_penalty=at.examined_penalty * size**2, triple_penalty=at.triple_penalty / size**4,
    )  # fmt: skip
    return replace(
        fit, effect=effect, examined=fit.examined / size, triple=fit.triple * size**2, prior=prior
    )


def effects_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of own effects, pair effects and shifts, with their prior updated.

    One class updates its noise at once. Several classes keep the noise of their posterior until the end
    of the round.
    """
    gram, right = effect_grams(fit, rows, np.zeros(rows.n, dtype=np.int64), 1)
    penalty, away = effect_pull(fit)
    # Empirical Bayes needs the diagonal of the inverse, the posterior variances.
    inverse = np.linalg.inv(gram[0] + np.diag(penalty))
    Z, K, A, p = fit.shape
    step = inverse @ (right[0] - penalty * away)
    found = _search(fit, rows, effect=step[:-K].reshape(A, p + A), shift=step[-K:])
    if Z == 1:
        found = noise_step(found, rows)
    spread = found.noise * np.diag(inverse)[:-K].reshape(A, p + A)
    return replace(found, prior=_effect_prior(found, spread))


def effect_grams(fit: Fit, rows: Rows, fold: Ints, folds: int) -> tuple[Floats, Floats]:
    """Return curvature (F, S, S) and gradient (F, S) by fold, without the prior's part."""
    _, K, A, p = fit.shape
    width = p + A
    gram, right = np.zeros((folds, A * width + K, A * width + K)), np.zeros((folds, A * width + K))
    for f, block in blocks_of(fold):
        # One column for each ranking and class that is not improbable.
        row, of_class = np.nonzero(fit.posterior[block] >= settings.RARE_STEP)
        used = block[row]
        weight, shared = fit.posterior[used, of_class], fit.shared[used]
        own, others, variance = _slopes(fit, rows, used, of_class)
        # With M e / v as another column, one product gives both J' M J and J' M e.
        rest = _rests(fit, rows, used, of_class, fit.shared) / (weight * variance)
        root, x = np.sqrt(weight * variance), np.ascontiguousarray(rows.x[used].T)
        shown = indicators(rows.action[used], A)
        beside = [others[k] * one for k, one in enumerate(_examined(fit, shown, used, of_class))]
        for k in range(K):
            columns = np.concatenate([own[k] * x, beside[k], own[k : k + 1], rest[k : k + 1]])
            columns *= root[k]
            for u, mine in by_action(rows.action[used, k], columns):
                at = np.r_[u * width : (u + 1) * width, A * width + k]
                product = mine @ mine.T
                gram[f][np.ix_(at, at)] += product[:-1, :-1]
                right[f, at] += product[-1, :-1]
        if shared.any():
            sums = np.zeros((A, width, len(used)))
            np.multiply((shown * own[:, None]).sum(axis=0)[:, None], x, out=sums[:, :p])
            for k in range(K):
                sums[:, p:] += shown[k][:, None] * beside[k]
            joint = np.concatenate([sums.reshape(A * width, -1), own])
            gram[f] -= (joint * (weight * shared)) @ joint.T
    return gram, right


def _examined(fit: Fit, shown: Floats, used: Ints, of_class: Ints) -> Iterator[Floats]:
    """Return how often each action stands beside each position (A, R), weighed by its examination."""
    above, below = fit.scale[used].T
    for k in range(fit.shape[1]):
        seen = fit.examined[:, k].T.take(of_class, axis=1)
        seen[:k] *= above
        seen[k] = 0.0
        seen[k + 1 :] *= below
        yield np.einsum("lr,lar->ar", seen, shown)


def _slopes(fit: Fit, rows: Rows, used: Ints, of_class: Ints) -> tuple[Floats, Floats, Floats]:
    """Return the derivatives of rewards by own part and pair part, and v, (K, R) each; zero in the padding."""
    present, q = rows.present[used].T, fit.q[used, of_class].T
    if fit.link is Link.PRODUCT:
        # d(own exp(part)) = exp(part) d own + q d part.
        part = np.clip(
            fit.part[used, of_class].T, -settings.LARGEST_EXPONENT, settings.LARGEST_EXPONENT
        )
        return present * np.exp(part), present * q, np.ones(q.shape)
    return present, present, _variance(fit.link, q)


def effect_pull(fit: Fit) -> tuple[Floats, Floats]:
    """Return penalties (S,) of own effects, pair effects and shifts, and how far they are from their centres."""
    penalty = np.concatenate(
        [fit.prior.effect_penalty.ravel(), np.full(len(fit.shift), settings.SHIFT)]
    )
    return penalty, np.concatenate([(fit.effect - fit.prior.effect).ravel(), fit.shift])


def _effect_prior(fit: Fit, spread: Floats) -> Prior:
    """Return the prior that shrinks context columns to their mean over actions, pair effects to their overall mean."""
    p = fit.shape[3]
    centre, penalty = fit.prior.effect.copy(), fit.prior.effect_penalty.copy()
    for j in range(p):
        centre[:, j], strength = shrinkage(
            fit.effect[:, j], spread[:, j], fit.noise, settings.LEAST_EFFECT * fit.noise
        )
        # Actions may differ in level by far more than a normal prior of their spread would like: an
        # intercept is never held harder than a position's shift.
        penalty[:, j] = min(strength, settings.SHIFT) if j == 0 else strength
    # In a product pair effects are logarithms: they have no unit.
    least = settings.LEAST_EFFECT * (1.0 if fit.link is Link.PRODUCT else fit.noise)
    centre[:, p:], penalty[:, p:] = shrinkage(fit.effect[:, p:], spread[:, p:], fit.noise, least)
    return replace(fit.prior, effect=centre, effect_penalty=penalty)


def tilt_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after one step of how the one class's examination varies with the context."""
    m = rows.traits.shape[1]
    if m == 0:
        return fit
    sides = _sides(fit, rows)
    gram, right = _tilt_grams(fit, rows, sides)
    penalty = np.full(2 * m, fit.prior.tilt_penalty)
    inverse = np.linalg.inv(gram + np.diag(penalty))
    step = inverse @ (right - penalty * fit.tilt.ravel())
    found = _search(fit, rows, sides, tilt=step.reshape(2, m))
    # Centred at zero, not at its mean: no tilt is the natural default.
    tau2 = float(np.mean(found.tilt.ravel() ** 2 + found.noise * np.diag(inverse)))
    return replace(
        found,
        prior=replace(found.prior, tilt_penalty=found.noise / max(tau2, settings.LEAST_EFFECT)),
    )


def _sides(fit: Fit, rows: Rows) -> Floats:
    """Return the pair parts of one class from the items above and from those below (n, 2, K)."""
    one_way, average = (
        np.stack([np.tril(fit.examined[0]), np.triu(fit.examined[0])]),
        np.ones((rows.n, 2)),
    )
    return pair_parts(
        rows.action,
        np.zeros(rows.n, dtype=np.int64),
        average,
        fit.pair[None],
        one_way,
        fit.triple[None],
    )


def _tilt_grams(fit: Fit, rows: Rows, sides: Floats) -> tuple[Floats, Floats]:
    """Return normal equations (2m, 2m), (2m,) of the tilt: how items above are examined, then those below."""
    q = fit.q[:, 0]
    variance, used = _variance(fit.link, q), rows.present * fit.posterior
    slope = q if fit.link is Link.PRODUCT else np.ones(q.shape)
    error = (rows.reward - q) / variance * used
    return tilt_sums(rows.traits, sides * slope[:, None], variance * used, error, fit.shared)


def tilt_sums(
    traits: Floats, sides: Floats, weight: Floats, error: Floats, shared: Floats
) -> tuple[Floats, Floats]:
    """Return J' M J and J' M e of traits (n, m) times what they scale, `sides` (n, 2, K).

    `weight` and working `error` (n, K), zero in the padding.
    """
    # A tilt is the same at all positions of a ranking. Sums over positions come first, so that the m^2
    # products are taken once for a ranking.
    (above, below), ones = sides.swapaxes(0, 1), np.ones(sides.shape[2])
    up, down, errors = above @ ones, below @ ones, error @ ones
    squares = (
        (weight * above**2) @ ones - shared * up**2,
        (weight * above * below) @ ones - shared * up * down,
        (weight * below**2) @ ones - shared * down**2,
    )
    first, both, second = ((traits.T * square) @ traits for square in squares)
    along = np.stack([
        (weight * error * above) @ ones - shared * errors * up,
        (weight * error * below) @ ones - shared * errors * down,
    ])  # fmt: skip
    return np.block([[first, both], [both, second]]), (along @ traits).ravel()


def triples_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit after a step of three-way effects by conjugate gradients, with their prior updated."""
    from scipy.sparse.linalg import LinearOperator, cg

    right, diagonal = triple_gradient(fit, rows)
    penalty, size = fit.prior.triple_penalty, fit.triple.size

    def product(direction: Floats) -> Floats:
        along = both_orders(np.ascontiguousarray(direction).reshape(fit.triple.shape))
        return triple_curvature(fit, rows, along).ravel() + penalty * direction.ravel()

    # Jacobi preconditioner: counts of triples differ by orders of magnitude between common and rare
    # items.
    scale = 1.0 / (diagonal.ravel() + penalty)
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    before = LinearOperator((size, size), matvec=lambda v: scale * v.ravel(), dtype=np.float64)
    pull = (right - penalty * np.tril(fit.triple)).ravel()
    step, _ = cg(
        operator, pull, rtol=settings.CONJUGATE_EXACT, maxiter=settings.CONJUGATE_STEPS, M=before
    )
    found = _search(fit, rows, triple=both_orders(step.reshape(fit.triple.shape)))
    used = np.tril(np.ones(fit.triple.shape[1:], dtype=bool))
    # The diagonal of the inverse, approximated by the inverse of the diagonal: A^3 columns are many.
    spread = fit.noise * scale.reshape(fit.triple.shape)[:, used]
    tau2 = float(np.mean(found.triple[:, used] ** 2 + spread))
    # Effective number of parameters of a ridge, sum d / (d + penalty), by the same approximation.
    freedom = float((diagonal[:, used] / (diagonal[:, used] + penalty)).sum())
    strength = fit.noise / max(tau2, settings.LEAST_EFFECT * fit.noise)
    return replace(found, prior=replace(fit.prior, triple_penalty=strength), freedom=freedom)


def triple_gradient(fit: Fit, rows: Rows) -> tuple[Floats, Floats]:
    """Return J' M e (A, A, A) of a sum, larger action first, and the diagonal of J' M J with nothing shared.

    With classes three-way effects are too many for normal equations; conjugate gradients need only
    products with the matrix. In the diagonal an item shown twice counts as two columns, since it only
    preconditions and scales uncertainty.
    """
    right, diagonal = np.zeros(fit.triple.shape), np.zeros(fit.triple.shape)
    for block, beside, weight in _weighed(fit, rows):
        error = ((rows.reward[block, None] - fit.q[block]) * rows.present[block, None]).T
        rest = weight * (error - fit.shared[block] * error.sum(axis=0))
        for k, seen in _seen_together(fit, beside):
            right += _scattered(beside, k, seen.T @ rest[k])
            diagonal += _scattered(beside, k, (seen**2).T @ weight)
    return right, diagonal


def triple_curvature(fit: Fit, rows: Rows, step: Floats) -> Floats:
    """Return J' M J step (A, A, A), larger action first; step has both orders of b and c."""
    out, step = np.zeros(fit.triple.shape), padded(step[None])
    for block, beside, weight in _weighed(fit, rows):
        seen = list(_seen_together(fit, beside))
        change = np.stack([both @ beside.triples(step, k) for k, both in seen])  # (K, Z, n)
        rest = weight * (change - fit.shared[block] * change.sum(axis=0))
        for k, both in seen:
            out += _scattered(beside, k, both.T @ rest[k])
    return out


def _weighed(fit: Fit, rows: Rows) -> Iterator[tuple[slice, Beside, Floats]]:
    """Yield blocks of rows with the probabilities of their classes (Z, n), zero where improbable."""
    for block in _blocks(rows.n):
        weight = fit.posterior[block].T
        yield (
            block,
            Beside(rows.action[block], 0, fit.shape[2]),
            weight * (weight >= settings.RARE_STEP),
        )


def _seen_together(fit: Fit, beside: Beside) -> Iterator[tuple[int, Floats]]:
    """Return how far each class examines two items at once from position k, (Z, pairs)."""
    for k in range(fit.shape[1]):
        one, two = beside.threes(k)
        yield k, fit.examined[:, k, one] * fit.examined[:, k, two]


def _scattered(beside: Beside, k: int, amount: Floats) -> Floats:
    """Return amounts (pairs, n) summed by own action and the two beside it, larger action first."""
    size = beside.size
    found = np.bincount(beside.index(k).ravel(), amount.ravel(), size**3).astype(np.float64)
    # The last action is padding.
    found = found.reshape(size, size, size)[:-1, :-1, :-1]
    return np.tril(found) + np.tril(found.swapaxes(1, 2), -1)


def both_orders(lower: Floats) -> Floats:
    """Return three-way effects (A, A, A) that are the same for b, c and c, b, from those with b >= c."""
    kept = np.tril(lower)
    return np.asarray(kept + np.tril(lower, -1).swapaxes(1, 2))


def _search(fit: Fit, rows: Rows, sides: Floats | None = None, **steps: Floats) -> Fit:
    """Return the fit after the longest of step, step/2, ... that does not raise the penalised loss."""
    # With a sum, a step of the effects ends at the minimum, and so does one of examination without
    # three-way effects. A step of the tilt may overshoot, because examination is clipped.
    exact = "effect" in steps or ("examined" in steps and not len(fit.triple))
    if exact and not fit.link.curved:
        return moved(fit, rows, **{name: getattr(fit, name) + step for name, step in steps.items()})
    before = fit.loss(rows)
    for halving in range(settings.HALVINGS):
        changes: dict[str, object] = {
            name: getattr(fit, name) + step * 0.5**halving for name, step in steps.items()
        }
        found = moved(fit, rows, sides=sides, **changes)
        if found.loss(rows) <= before:
            return found
    return fit


def noise_step(fit: Fit, rows: Rows) -> Fit:
    """Return the fit with the noise of one reward given the others, and what a ranking's rewards share."""
    if fit.link is Link.LOGISTIC:
        return fit
    (squares, totals), count = fit.squares(rows), rows.present.sum(axis=1)
    # E (sum e)^2 = sum e^2 + count (count - 1) common variance. The excess over the sum of squares,
    # divided by the number of ordered pairs, is the covariance of two errors of a ranking.
    square, total = float((fit.posterior * squares).sum()), (fit.posterior * totals).sum(axis=1)
    used = fit.posterior.sum(axis=1)
    rewards, pairs = max(float(used @ count), 1.0), float(used @ (count * (count - 1.0)))
    least = max(
        settings.LEAST_NOISE * float(rows.reward.var()),
        1e-12 * float((rows.reward**2).mean()),
        1e-300,
    )
    variance = max(square / rewards, least)
    common = float(
        np.clip((total.sum() - square) / max(pairs * variance, 1e-300), 0.0, settings.MOST_SHARED)
    )
    common = common if common > settings.LEAST_SHARED else 0.0
    shared = shared_by(common, count)
    return replace(
        fit,
        common=common,
        shared=shared,
        noise=max((square - float(total @ shared)) / rewards, least),
    )
