"""The cross-fitted ridge: effects as a sum of levels, from those that all rows share to those of few rows.

The expected reward at position k of own action u, for a request of group b, is z' beta with

    beta = all + action_u + position_k + (position, action)_ku + (group, action)_bu + (all three)_bku,

each level a departure from those before it, fitted to what they leave. A level's coefficients are normal
around zero with a variance for each kind of column (intercepts, context, curves, crosses, products,
neighbours), which its own coefficients tell: empirical Bayes (Morris 1983), by the fixed point of MacKay
(1992). Rare cells are therefore shrunk to what they share with others, a level of which the log shows
nothing is shrunk away, and there is no penalty to tune. Of each level the share enters that predicts unseen
rows best, from none to all of it.

Where groups have little in common, the first four levels are those of each group instead: as departures their
effects would be shrunk twice, towards those of all rows and then towards none. Fits that predict unseen rows
about equally well are averaged by their likelihood, so that a small change of the log changes little.

The same prior says what the log does not know of a level's coefficients (`Posterior`): in a direction
without rows it is the variance between cells, in others the error of the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from counterrank.common.arrays import Floats, Ints
from counterrank.models import settings
from counterrank.models.columns import Layout
from counterrank.models.grams import Training


class Level(NamedTuple):
    """Which of the axes (group, position, action) have coefficients of their own, and their columns.

    `counts`: neighbours are counted above and below, whatever the blocks are, so that positions can share
    coefficients.
    """

    name: str
    group: bool
    position: bool
    action: bool
    counts: bool
    kinds: tuple[str, ...]

    @property
    def shared(self) -> tuple[int, ...]:
        """Axes of (F, B, K, A) over which the level sums."""
        splits_by = (self.group, self.position, self.action)
        return tuple(axis for axis, splits in enumerate(splits_by, 1) if not splits)

    def without(self, kind: str) -> Level:
        """Return the level without the columns of a kind."""
        return self._replace(kinds=tuple(name for name in self.kinds if name != kind))


_OWN = ("intercept", "context", "curves")
_COUNTS = (*_OWN, "cross", "products", "neighbours")
#: The levels, each a departure from the sum of those before it; the first four do not know groups.
LEVELS = (
    Level("all", False, False, False, True, _COUNTS),
    Level("action", False, False, True, True, _COUNTS),
    Level("position", False, True, False, False, (*_OWN, "neighbours")),
    Level("position and action", False, True, True, False, (*_OWN, "cross", "neighbours")),
    Level("group", True, False, False, True, _COUNTS),
    Level("group and action", True, False, True, True, _COUNTS),
    Level(
        "group, position and action",
        True,
        True,
        True,
        False,
        ("intercept", "context", "neighbours"),
    ),
)
COMMON = 4
#: The same without products of counts.
PLAIN = tuple(level.without("products") for level in LEVELS)


def apart(levels: Sequence[Level]) -> tuple[Level, ...]:
    """Return the levels that do not know groups, for each group on its own."""
    common = levels[:COMMON]
    return tuple(level._replace(name=f"{level.name}, by group", group=True) for level in common)


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """What all rows and the prior say of a level's coefficients: covariance noise (gram + penalty)^-1.

    `gram` (B or 1, K or 1, A or 1, p, p) are sums of its columns over all rows, `share` (K,) how much of the
    level enters at each position.
    """

    level: Level
    gram: Floats
    penalty: Floats
    noise: float
    share: Floats

    def with_noise(self, noise: float) -> Posterior:
        """Return the same prior beside another noise: a penalty is the noise over a variance.

        Where the levels explain rewards to the last digit, a millionth of the noise remains: the penalty
        alone tells columns apart that are the same, and what the log never shows keeps its variance.
        """
        noise = max(noise, 1e-6 * self.noise)
        ratio = noise / self.noise if self.noise > 0.0 else 1.0
        return replace(self, noise=noise, penalty=self.penalty * ratio)

    def variance(self, layout: Layout, c: Floats) -> float:
        """Return the posterior variance of sum c' beta for c (B, K, A, D)."""
        inside = collected(layout, self.level, (c * self.share[:, None, None])[None])[0]
        through = solve(self.gram, inside[..., None], self.penalty)[..., 0]
        return self.noise * float((inside * through).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """Coefficients (F, B or 1, K, A, D): those of fold f were fitted without fold f.

    Without a level of groups there is one fit a fold. `loss` (K,) is the out-of-fold sum of squared
    errors, `size` (K,) the number of rewards behind it, `posteriors` are those of the levels that enter.
    """

    coef: Floats
    loss: Floats
    size: Floats
    posteriors: tuple[Posterior, ...]


def fit_ridge(training: Training) -> Ridge:
    """Return the average of fits of levels by the likelihood of unseen rows.

    - With products of counts or without them: empirical Bayes leaves products a little weight where there
      is nothing of them, and a target whose rankings are rare in the log multiplies it.
    - With groups that depart from all rows, or each on its own: where groups have little in common, what
      they share is shrunk twice, first as the effect of all, then as a departure from it.
    """
    by_group = training.layout.B > 1
    choices = [PLAIN, LEVELS] if training.layout.squares else [PLAIN]
    fits = [fit_levels(training, c if by_group else c[:COMMON]) for c in choices]
    prior = np.ones(len(fits))
    if by_group:
        shares = likelihoods(fits, prior)
        likely = np.flatnonzero(shares)
        fits += [fit_levels(training, apart(choices[j])) for j in likely.tolist()]
        # Groups on their own come and go with the fit that they are beside.
        prior = np.concatenate([prior, np.minimum(shares[likely] / settings.LEAST_SHARE, 1.0)])
    return averaged(fits, likelihoods(fits, prior))


def likelihoods(fits: Sequence[Ridge], prior: Floats) -> Floats:
    """Return each fit's share (M,) by `prior` and likelihood of unseen rows; the least shares fade to zero.

    The noise is normal, with the variance that the best fit leaves.
    """
    loss = np.array([fit.loss.sum() for fit in fits])
    noise = max(float(loss.min()) / max(float(fits[0].size.sum()), 1.0), 1e-300)
    likely = prior * np.exp(-0.5 * (loss - loss.min()) / noise)
    shares = np.maximum(likely / likely.sum() - settings.LEAST_SHARE, 0.0)
    return np.asarray(shares / shares.sum())


def averaged(fits: list[Ridge], shares: Floats) -> Ridge:
    """Return the average of fits, whose loss is at most the average of theirs and whose doubts add by share."""
    by_share = [(fit, float(share)) for fit, share in zip(fits, shares, strict=True) if share]
    if len(by_share) == 1:
        return by_share[0][0]
    coef = np.asarray(sum(share * fit.coef for fit, share in by_share))
    loss = np.asarray(sum(share * fit.loss for fit, share in by_share))
    posteriors = tuple(
        replace(posterior, share=share**0.5 * posterior.share)
        for fit, share in by_share
        for posterior in fit.posteriors
    )
    return Ridge(coef, loss, fits[0].size, posteriors)


def fit_levels(training: Training, levels: Sequence[Level]) -> Ridge:
    """Return the sum of the shares of levels that predict unseen rows best."""
    layout, grams = training.layout, training.grams
    F, K, A, D = layout.F, layout.K, layout.A, layout.width
    by_group = grams.gram, grams.cover
    common = (grams.gram.sum(axis=1, keepdims=True), grams.cover.sum(axis=1, keepdims=True))
    coef, posteriors = np.zeros((F, 1, K, A, D)), []
    loss, size = grams.square.sum(axis=(0, 1, 3)), grams.gram[..., 0, 0].sum(axis=(0, 1, 3))
    for level in levels:
        gram, cover = by_group if level.group else common
        noise = float(loss.sum() / max(size.sum(), 1.0))
        fitted, change, posterior = departure(layout, level, gram, cover, coef, noise)
        if posterior.share.any():
            coef = coef + fitted * posterior.share[:, None, None]
            loss = loss + change
            posteriors.append(posterior)
    # What later levels explain is noise while a level is fitted, and no more when all are.
    least = float(loss.sum() / max(size.sum(), 1.0))
    with_final_noise = tuple(posterior.with_noise(least) for posterior in posteriors)
    return Ridge(coef, loss, size, with_final_noise)


def departure(
    layout: Layout, level: Level, gram: Floats, cover: Floats, coef: Floats, noise: float
) -> tuple[Floats, Floats, Posterior]:
    """Return a level fitted to what the coefficients so far leave (F, B, K, A, D) of the rewards.

    Beside its coefficients by fold left out: what their share adds to the loss out of fold at each position
    (K,), and their posterior. The share has the least loss between none and all of them.
    """
    # What the coefficients without fold f leave in fold f, and in all rows.
    held = cover - (gram @ coef[..., None])[..., 0]
    right_of_all = cover.sum(axis=0) - (gram.sum(axis=0) @ coef[..., None])[..., 0]
    right, right_without = (
        collected(layout, level, held),
        collected(layout, level, right_of_all - held),
    )
    inside = collected(layout, level, gram, matrix=True)
    total = inside.sum(axis=0)
    penalty = shrinkage(total, right.sum(axis=0), kinds_of(layout, level), noise)
    beta = solve(total - inside, right_without[..., None], penalty)[..., 0]
    # |r - t Z b|^2 - |r|^2 = t^2 b'Z'Z b - 2 t b'Z'r: the fold's own sums hold both terms.
    squares, explained = (
        (beta * terms).sum(axis=(0, 1, 3, 4))
        for terms in ((inside @ beta[..., None])[..., 0], right)
    )
    share = np.clip(explained / np.maximum(squares, 1e-300), 0.0, 1.0)
    # Positions that share coefficients have them together.
    change = np.broadcast_to(
        share * (share * squares - 2 * explained) / (layout.K / len(share)), layout.K
    )
    shape = (layout.F, gram.shape[1], layout.K, layout.A, layout.width)
    posterior = Posterior(level, total, penalty, noise, np.array(np.broadcast_to(share, layout.K)))
    return spread_out(layout, level, beta, shape), change, posterior


def shrinkage(gram: Floats, right: Floats, kinds: Ints, noise: float) -> Floats:
    """Return the penalty of each column (p,), noise / variance of its kind.

    `gram` (..., p, p) and `right` (..., p) are the cells of a level. A step sets each variance to the sum
    of squared coefficients by their effective number, which is that of the coefficients less the part
    that the prior knows (MacKay 1992, eq. 4.11).
    """
    p = len(kinds)
    gram, right = gram.reshape(-1, p, p), right.reshape(-1, p)
    # A variance is known well from some of the cells.
    sampled = np.linspace(0, len(right) - 1, min(len(right), settings.SHRINKAGE_CELLS)).astype(int)
    gram, right = gram[sampled], right[sampled]
    size, strength = np.bincount(kinds), np.full(kinds.max() + 1, settings.FIRST_PENALTY)
    for _ in range(settings.SHRINKAGE_STEPS):
        inverse = inverted(gram, strength[kinds])
        beta = (inverse @ right[..., None])[..., 0]
        prior = np.diagonal(inverse, axis1=-2, axis2=-1).sum(axis=0)
        effective_number = size * len(right) - strength * np.bincount(kinds, prior)
        squares = np.bincount(kinds, (beta**2).sum(axis=0))
        strength = noise * np.maximum(effective_number, 0.0) / np.maximum(squares, 1e-300)
        strength = np.clip(strength, *settings.PENALTY_RANGE)
    return np.asarray(strength[kinds])


def inverted(gram: Floats, penalty: Floats) -> Floats:
    """Return (gram + diag(penalty))^-1 for a stack of matrices."""
    full, diagonal = gram.copy(), np.arange(len(penalty))
    full[..., diagonal, diagonal] += penalty
    return np.asarray(np.linalg.inv(full))


def solve(matrix: Floats, right: Floats, penalty: Floats) -> Floats:
    """Return (matrix + diag(penalty))^-1 right for stacks of matrices (..., p, p) and right sides (..., p, s)."""
    p = matrix.shape[-1]
    full = matrix.copy()
    full[..., np.arange(p), np.arange(p)] += penalty
    return np.asarray(np.linalg.solve(full, right), dtype=np.float64)


def ranges(layout: Layout) -> dict[str, slice]:
    """Return the columns of each kind."""
    curves, cross, squares, blocks = layout.starts
    ends = (0, 1, curves, cross, squares, blocks, layout.width)
    return {kind: slice(*ends[j : j + 2]) for j, kind in enumerate(_KINDS)}


_KINDS = ("intercept", "context", "curves", "cross", "products", "neighbours")


def places(layout: Layout, level: Level, kind: str) -> Ints:
    """Return the columns of a kind; neighbours of a level of counts have one for each side and action."""
    columns = ranges(layout)[kind]
    counts = level.counts and kind == "neighbours"
    return np.arange(columns.start, columns.start + 2 * layout.A if counts else columns.stop)


def columns_of_level(layout: Layout, level: Level) -> Ints:
    """Return the columns of a level, once its neighbours are counted."""
    return np.concatenate([places(layout, level, kind) for kind in level.kinds])


def kinds_of(layout: Layout, level: Level) -> Ints:
    """Return the kind of each of a level's columns (p,), as numbers without gaps."""
    sizes = [len(places(layout, level, kind)) for kind in level.kinds]
    return np.unique(np.repeat(level.kinds, sizes), return_inverse=True)[1]


def sides(layout: Layout, k: int) -> Floats:
    """Return the map (blocks A, 2 A) from a position's blocks to counts above and below."""
    out, items = np.zeros((layout.blocks, layout.A, 2, layout.A)), np.arange(layout.A)
    for side, blocks in enumerate((layout.slots[k, :k], layout.slots[k, k + 1 :])):
        out[blocks[:, None], items, side, items] = 1.0
    return out.reshape(layout.blocks * layout.A, -1)


def counted(layout: Layout, values: Floats, k: int) -> Floats:
    """Return values (..., D) with a position's blocks summed to counts above and below."""
    first = layout.starts[3]
    return np.concatenate([values[..., :first], values[..., first:] @ sides(layout, k)], axis=-1)


def collected(layout: Layout, level: Level, values: Floats, *, matrix: bool = False) -> Floats:
    """Return values (F, B, K, A, D) in a level's columns, summed over what it shares (that axis is 1).

    A `matrix` has columns on its last two axes.
    """
    columns, out = columns_of_level(layout, level), None
    over = tuple(axis for axis in level.shared if axis != 2)
    by_position = []
    for k in range(layout.K):
        cells = values[:, :, k]
        cells = cells.sum(axis=tuple(a - (a > 2) for a in over), keepdims=True)
        if level.counts:
            cells = counted(layout, cells, k)
            if matrix:
                cells = counted(layout, cells.swapaxes(-1, -2), k)
        cells = cells[..., columns[:, None], columns] if matrix else cells[..., columns]
        if level.position:
            by_position.append(cells)
        else:
            out = cells if out is None else out + cells
    return np.stack(by_position, axis=2) if out is None else out[:, :, None]


def spread_out(layout: Layout, level: Level, small: Floats, shape: tuple[int, ...]) -> Floats:
    """Return a level's coefficients (F, B, K, A, p) in the layout's columns: the transpose of `collected`."""
    out, first, columns = np.zeros(shape), layout.starts[3], columns_of_level(layout, level)
    width = first + 2 * layout.A if level.counts else layout.width
    for k in range(layout.K):
        cells = np.zeros((*small.shape[:2], small.shape[3], width))
        cells[..., columns] = small[:, :, k if level.position else 0]
        if level.counts:
            out[:, :, k, :, :first] = cells[..., :first]
            out[:, :, k, :, first:] = cells[..., first:] @ sides(layout, k).T
        else:
            out[:, :, k] = cells
    return out
