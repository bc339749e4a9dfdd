"""The closed-form model: cross-fitted ridge, logistic where rewards are 0/1 and it predicts better.

The ridge is that of `ridge.py`; the logistic fit takes Newton steps on the same sums, weighted.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import expit

from counterrank.common.arrays import Floats, Ints
from counterrank.common.records import Json
from counterrank.data.encoding import ContextMoments, context_columns
from counterrank.data.log import RankingLog
from counterrank.data.source import Source, at_most
from counterrank.kernels.jit import fill, jit, vector_jit
from counterrank.models import settings
from counterrank.models.base import Fold, RewardModel, by_row, squared_loss
from counterrank.models.columns import (
    Arrays,
    Layout,
    blocks_of,
    columns_of,
    count_slots,
    expected,
    indicators,
    logged_values,
    pair_slots,
)
from counterrank.models.doubt import doubt
from counterrank.models.grams import Training, shared_grams
from counterrank.models.groups import grouping_of
from counterrank.models.rankings import (
    Rankings,
    Stream,
    factored_draws,
    rankings_of,
    stream,
    whole_distribution,
)
from counterrank.models.ridge import Posterior, Ridge, counted, fit_ridge, solve


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel(RewardModel):
    """q_k = z' coef[fold, k, a_k], through a sigmoid at the positions where `logistic` (K,) says so.

    Under independent positions the mean is exact at linear positions; at logistic ones it is an average
    over `draws` drawn rankings with the own action summed out. Under dependent positions it is an
    average over drawn rankings everywhere.
    """

    layout: Layout
    coef: Floats
    logistic: Ints
    details: Json = field(default_factory=dict)
    draws: int = settings.DRAWS
    seed: int = 0
    #: What the log says of its coefficients, with the layout that they were fitted in.
    posteriors: tuple[Posterior, ...] = ()

    @property
    def folds(self) -> int:
        """Number of folds."""
        return self.layout.F

    def expected(self, rankings: Rankings, fold: Fold) -> Floats:
        """Return q (m, K): z' coef, through a sigmoid where the position is logistic."""
        x, row_fold = self.layout.requests(rankings.x), by_row(fold, self.folds, rankings.m)
        fit = self.layout.fits(row_fold, x[rankings.row])
        arrays = Arrays(rankings.item, rankings.lengths, fit, x)
        out = logged_values(self.layout, arrays, self.coef, rankings.row)
        # Each position has the one of ridge and sigmoid that predicted its unseen rows better.
        for k in np.flatnonzero(self.logistic):
            out[:, k] = np.where(rankings.item[:, k] >= 0, expit(out[:, k]), 0.0)
        return out

    def mean_under(self, batch: RankingLog, target: str, fold: Fold) -> Floats:
        """Return E_pi q_k (n, K)."""
        distribution = whole_distribution(batch, target)
        if distribution is None:
            return super(LinearModel, self).mean_under(batch, target, fold)
        arrays = self.layout.arrays(batch)
        arrays = arrays._replace(fit=self.layout.fits(by_row(fold, self.folds, batch.n), arrays.x))
        straight = np.flatnonzero(self.logistic == 0)
        out = mean_values(self.layout, arrays, distribution, self.coef, straight)
        curved = np.flatnonzero(self.logistic)
        if len(curved):
            draws = factored_draws(batch, distribution, self.draws, self.seed)
            coef = self.coef[:, curved]
            out[:, curved] = logistic_means(self.layout, arrays, distribution, draws, coef, curved)
        return out

    def doubt(self, batch: RankingLog, target: str) -> float:
        """Return the posterior variance of the target's change from the logged reward (`doubt.py`)."""
        if whole_distribution(batch, target) is None:
            return 0.0
        return doubt(self.layout, self.posteriors, batch, target)

    def cascade(self, batch: RankingLog, target: str) -> tuple[Floats, Floats]:
        """Return E_pi[q_k | a_1..a_k], the items below k averaged out, and E_pi q_k (both n, K)."""
        layout, distribution = self.layout, whole_distribution(batch, target)
        arrays = layout.arrays(batch)
        assert distribution is not None
        given_above, mean = (
            np.zeros(arrays.action.shape),
            mean_values(layout, arrays, distribution, self.coef, np.arange(layout.K)),
        )
        for f, rows in blocks_of(arrays.fit):
            group = arrays.take(rows)
            above, columns = indicators(group.action, layout.A), np.empty((layout.width, len(rows)))
            below = np.broadcast_to(
                expected(distribution[rows], group.lengths, layout.K), above.shape
            )
            for own_position in range(layout.K):
                shown = np.concatenate([above[:own_position], below[own_position:]])
                for k in columns_of(layout, group, shown, [own_position], columns):
                    action_coef = self.coef[f, k, group.action[:, k]]
                    given_above[rows, k] = np.einsum("dn,nd->n", columns, action_coef)
        return clear(given_above, arrays), mean


def clear(values: Floats, arrays: Arrays) -> Floats:
    """Return values (n, K) with zeros in the padding."""
    values[arrays.action < 0] = 0.0
    return values


def mean_values(
    layout: Layout, arrays: Arrays, distribution: Floats, coef: Floats, positions: Ints
) -> Floats:
    """Return E_pi z' coef (n, K) for independent positions (n, 1 or K, A), zero but at `positions`."""
    if not len(positions):
        return np.zeros(arrays.action.shape, order="F")
    if not (arrays.lengths == layout.K).all():
        distribution = np.where(arrays.action[:, :, None] >= 0, distribution, 0.0)
    elif distribution.shape[1] == 1:
        # The mean of a block depends only on its size: all blocks become one.
        layout, coef = _one_block(layout, coef)
    crossed, chance = layout.d if layout.cross else 0, np.ascontiguousarray(distribution)
    room, out = (
        np.empty(coef.shape[3] + 3 * chance.shape[2] ** 2),
        np.zeros(arrays.action.shape[::-1]),
    )
    means_of(
        layout.slots,
        layout.products,
        crossed,
        positions,
        arrays.fit,
        arrays.x,
        chance,
        coef,
        room,
        out,
    )
    return out.T


@vector_jit
def means_of(  # noqa: C901, PLR0913 - a kernel in one piece
    slots: Ints,
    products: tuple[Ints, Ints],
    crossed: int,
    positions: Ints,
    fit: Ints,
    x: Floats,
    distribution: Floats,
    coef: Floats,
    room: Floats,
    out: Floats,
) -> None:
    """Fill out (K, n), zeros, with E_pi z' coef, the own action summed out; see `columns_of`.

    `crossed` context columns are multiplied by counts. The distribution is zero in the padding, and `room`
    (D + 3 A^2,) is to work with.
    """
    b, c = products
    (n, p), (_, K, A, width) = x.shape, coef.shape
    squares, last = p + A * crossed, distribution.shape[1] - 1
    dense = squares + len(b)
    z, total, count = room[:width], room[width : width + A], room[width + A : width + 2 * A]
    spread = room[width + 2 * A : width + 2 * A + len(b)]
    for i in range(n):
        f = fit[i]
        fill(room[width:], 0.0)
        for j in range(p):
            z[j] = x[i, j]
        for k in range(K):
            place = min(k, last)
            for a in range(A):
                total[a] += distribution[i, place, a]
            # Covariances of independent positions add up.
            for j in range(len(b)):
                equal = 1.0 if b[j] == c[j] else 0.0
                spread[j] += distribution[i, place, b[j]] * (equal - distribution[i, place, c[j]])
        for k in positions:
            place = min(k, last)
            # One distribution of all positions makes the same columns of one block.
            if last > 0 or k == positions[0]:
                for a in range(A):
                    count[a] = total[a] - distribution[i, place, a]
                for j in range(crossed):
                    for a in range(A):
                        z[p + j * A + a] = x[i, 1 + j] * count[a]
                for j in range(len(b)):
                    equal = 1.0 if b[j] == c[j] else 0.0
                    at_own = distribution[i, place, b[j]] * (equal - distribution[i, place, c[j]])
                    z[squares + j] = count[b[j]] * count[c[j]] + spread[j] - at_own
                fill(z[dense:], 0.0)
                for neighbour in range(K):
                    if neighbour != k:
                        block = dense + slots[k, neighbour] * A
                        for a in range(A):
                            z[block + a] += distribution[i, min(neighbour, last), a]
            mean = 0.0
            for u in range(A):
                value = 0.0
                for j in range(width):
                    value += z[j] * coef[f, k, u, j]
                mean += distribution[i, place, u] * value
            out[k, i] = mean


def _one_block(layout: Layout, coef: Floats) -> tuple[Layout, Floats]:
    """Return a model with one block and the same mean where all positions have one distribution."""
    dense, neighbours = np.split(coef, [layout.starts[3]], axis=-1)
    neighbours = neighbours.reshape(*coef.shape[:-1], layout.blocks, layout.A)
    size = np.stack(
        [
            np.bincount(np.delete(row, k), minlength=layout.blocks)
            for k, row in enumerate(layout.slots)
        ]
    )
    mean = np.einsum("fkusb,ks->fkub", neighbours, size / max(layout.K - 1, 1))
    single = replace(layout, slots=np.zeros_like(layout.slots))
    return single, np.concatenate([dense, mean], axis=-1)


def logistic_means(
    layout: Layout, arrays: Arrays, distribution: Floats, draws: Ints, coef: Floats, positions: Ints
) -> Floats:
    """Return E_pi of the sigmoid (n, Q) at the positions `positions` from their coefficients (F, Q, A, D).

    The other items are drawn (n, S, K), the own action is summed out.
    """
    # A logistic fit has coefficients on indicators alone.
    plain, used = layout.plain
    columns, out = arrays.x[:, : layout.d + 1], np.empty((len(positions), len(draws)))
    coef_used = np.ascontiguousarray(coef[..., used])
    fill_logistic(
        plain.slots[positions],
        np.ascontiguousarray(columns),
        arrays.fit,
        draws,
        distribution,
        coef_used,
        positions,
        out,
    )
    return out.T


@vector_jit
def fill_logistic(
    slots: Ints,
    columns: Floats,
    fold: Ints,
    draws: Ints,
    distribution: Floats,
    coef: Floats,
    positions: Ints,
    out: Floats,
) -> None:
    """Fill out (Q, n) with the mean over draws and own actions; `columns` (n, D') come before the blocks."""
    (n, S, K), A, dense = draws.shape, distribution.shape[2], columns.shape[1]
    for i in range(n):
        for q in range(len(positions)):
            k, total = positions[q], 0.0
            for u in range(A if draws[i, 0, k] >= 0 else 0):
                alone = 0.0
                for j in range(dense):
                    alone += columns[i, j] * coef[fold[i], q, u, j]
                chance = distribution[i, min(k, distribution.shape[1] - 1), u]
                for s in range(S):
                    value = alone
                    for neighbour in range(K):
                        item = draws[i, s, neighbour]
                        if neighbour != k and item >= 0:
                            value += coef[fold[i], q, u, dense + slots[q, neighbour] * A + item]
                    total += chance / (1.0 + np.exp(-value))
            out[q, i] = total / S


def train(
    source: Source,
    *,
    seed: int = 0,
    rich: bool = True,
    shared: dict[Hashable, Any] | None = None,
) -> Training | None:
    """Return the Grams of the training rows; `rich` adds context x count and count x count columns.

    `shared` keeps what does not depend on rewards for other rewards of the same rows.
    None where the smallest Gram matrices (counts, no cross columns) would not fit into memory.
    """
    first, rng = source.first, stream(seed, Stream.TRAINING_ROWS)
    K, A, d = first.K, first.n_actions, context_columns(first).shape[1]
    # Fewer folds where each own action has few rows.
    F = 4 if A <= 4 else 3 if A <= 10 else 2
    if K > settings.LONGEST or F * K * A * (1 + d + 3 * A) ** 2 > settings.LARGEST_GRAM:
        return None
    cross = rich and 0 < d * A <= settings.WIDEST_CROSS and K > 1
    squares = (1 if A <= settings.MOST_SQUARES else 2) if rich and K > 2 else 0
    curves = (d * (d + 1) // 2 if d <= settings.FEW_CURVES else d) if rich else 0
    dense = 1 + d + curves + (d * A if cross else 0) + (0, A * (A + 1) // 2, A)[squares] + K
    # Gram matrices cost rows x K x width^2, so wide models read fewer rows.
    max_rows = settings.GRAM_WORK / (K * dense**2)
    max_rows = int(np.clip(max_rows, settings.LEAST_ROWS, settings.TRAINING_ROWS))
    training = at_most(source, max_rows, rng)
    moments = training.reduce(ContextMoments.from_batch, label="context").mean_and_spread
    rows = training.n or settings.TRAINING_ROWS
    plain = d + 1 + (K - 1) * A
    numbers = F * K * A * (dense + (K - 1) * A) ** 2
    # Each other position has indicators of its own where there are three training rows for each of the
    # A x plain coefficients. Otherwise positions share counts above and below.
    pairs = (
        2 < K
        and plain <= settings.WIDEST_PAIRS
        and 3 * A * plain < rows * (F - 1) / F
        and numbers <= settings.PAIR_NUMBERS
    )
    slots = pair_slots(K) if pairs else count_slots(K)
    layout = Layout(K, A, F, slots, *moments, cross=cross, squares=squares, curved=rich)
    if rich and settings.GROUPS * F * K * A * layout.width**2 <= settings.GROUP_NUMBERS:
        sampled = training.sample(settings.GROUPING_ROWS, stream(seed, Stream.GROUPING_ROWS))
        layout = replace(layout, groups=grouping_of(sampled, layout))
    grams = shared_grams(training, layout, ("gram", seed, *layout.key), shared)
    return Training(grams, layout, pairs, training, source.n)


def fit_linear(training: Training, *, seed: int = 0, curved: bool = True) -> LinearModel:
    """Return the cross-fitted model; `curved` lets 0/1 rewards have a logistic one where it predicts better."""
    layout, ridge = training.layout, training.cached("ridge", lambda: fit_ridge(training))
    details: Json = {
        "model": "ridge",
        "folds": layout.F,
        "training_rows": int(training.grams.rows.sum()),
        "levels": list(dict.fromkeys(posterior.level.name for posterior in ridge.posteriors)),
        "out_of_fold_mse": float(ridge.loss.sum() / max(ridge.size.sum(), 1.0)),
        "mean_under_target": "closed form",
    }
    if ridge.coef.shape[1] == 1:
        layout = replace(layout, groups=None)
    coef = ridge.coef.reshape(-1, *ridge.coef.shape[2:])
    # The noise of the drawn mean falls with rows x draws: long logs need fewer draws for a row.
    draws = int(
        np.clip(settings.ALL_DRAWS // (training.rows or settings.ALL_DRAWS), 1, settings.DRAWS)
    )
    linear = np.zeros(layout.K, dtype=np.int64)
    plain = LinearModel(
        layout, coef, linear, details, draws=draws, seed=seed, posteriors=ridge.posteriors
    )
    if not curved:
        return plain
    return with_logistic(plain, ridge, training)


def with_logistic(model: LinearModel, ridge: Ridge, training: Training) -> LinearModel:
    """Return the model with a logistic fit at the positions where it has the lower out-of-fold squared loss."""
    if not training.binary:
        return model
    # The groups of a fold share its logistic fit.
    coef = np.repeat(fit_logistic(training, model.seed), model.layout.B, axis=0)
    curved = replace(model, coef=coef, logistic=np.ones(training.layout.K, dtype=np.int64))

    def squared_errors(batch: RankingLog) -> Floats:
        fold = batch.bucket % curved.folds
        return squared_loss(curved, rankings_of(batch), batch.reward, fold, axis=0)

    error = training.source.reduce(squared_errors, label="logistic")
    # Compared by squared error: the variance of a corrected estimate depends on it.
    better = error < ridge.loss
    if not better.any():
        return model
    mixed = np.where(better[None, :, None, None], coef, model.coef)
    details = model.details | {
        "model": "logistic where better, else ridge",
        "logistic_positions": (np.flatnonzero(better) + 1).tolist(),
        "out_of_fold_mse": float(np.minimum(error, ridge.loss).sum() / max(ridge.size.sum(), 1.0)),
        "mean_under_target": f"average over {model.draws} drawn rankings per row, own action "
        "summed out",
    }
    return replace(model, coef=mixed, logistic=better.astype(np.int64), details=details)


def fit_logistic(training: Training, seed: int = 0) -> Floats:
    """Return coefficients (F, K, A, D) in the training's columns; fold f's leave fold f out."""
    # Newton steps use indicator columns only.
    full, (layout, columns) = training.grams, training.layout.plain
    maps = [_logit_map(training, layout, k) for k in range(layout.K)]
    # Half a click and half a miss more (Anscombe 1956) give cells without clicks a finite logit.
    rate = full.cover[..., 0].sum(axis=(0, 1)) + 0.5
    rate /= full.gram[..., 0, 0].sum(axis=(0, 1)) + 1.0
    start = np.log(rate / (1 - rate))  # (K, A)
    fitted = [np.zeros((layout.A, column_map.shape[1])) for column_map in maps]
    for k in range(layout.K):
        fitted[k][:, 0] = start[k]

    def raw(values: list[Floats]) -> Floats:
        """Return the coefficients in the columns of the layout, by position."""
        return np.stack(
            [beta @ column_map.T for beta, column_map in zip(values, maps, strict=True)], axis=-3
        )

    def sums(source: Source) -> Floats:
        coef = np.repeat(raw(fitted)[None], layout.F, axis=0)
        return source.reduce(lambda batch: newton_sums(batch, layout, coef), label="logistic")

    long = (training.rows or 0) > settings.LONG_LOG
    max_rows = settings.NEWTON_ROWS_LONG if long else settings.NEWTON_ROWS
    sampled = at_most(training.source, max_rows, stream(seed, Stream.NEWTON_ROWS))
    # One fit to all folds brings the coefficients near their optimum. Few rows are enough for it.
    for _ in range(settings.NEWTON_STEPS):
        state, change = sums(sampled), 0.0
        for k, column_map in enumerate(maps):
            before = fitted[k]
            fitted[k] = _newton(state[:, k].sum(axis=0), before, start[k], column_map)
            change = max(change, float(np.abs(fitted[k] - before).max()))
        if change <= settings.NEWTON_ENOUGH:
            break
    state = sums(training.source)
    # Then one step with the sums of the other folds. Newton's error is quadratic, so this is nearly the
    # fit without the fold.
    by_fold = [
        _newton(
            _others(state[:, k]),
            fitted[k][None],
            start[k],
            column_map,
        )
        for k, column_map in enumerate(maps)
    ]
    out = np.zeros((layout.F, layout.K, layout.A, training.layout.width))
    out[..., columns] = raw(by_fold)
    return out


def _others(values: Floats) -> Floats:
    """Return for each fold the sum over the other folds."""
    other_folds: Floats = values.sum(axis=0) - values
    return other_folds


def _logit_map(training: Training, layout: Layout, k: int) -> Floats:
    """Return the map to a position's logistic columns: each other position's items, or counts of them."""
    wide, rows = np.eye(layout.width), training.grams.rows.sum()
    # Eight training rows for each coefficient, where the ridge has three: a 0/1 reward says less, and
    # cells without any click have no finite optimum.
    enough = 8 * layout.A * layout.width < rows * (layout.F - 1) / layout.F
    return wide if training.pairs and enough else counted(layout, wide, k)


def _newton(sums: Floats, current: Floats, start: Floats, column_map: Floats) -> Floats:
    """Return one penalised Newton step from `current` (..., A, p); the intercept is shrunk to `start` (A,)."""
    gram, cover = sums[..., :-1, :-1], sums[..., -1, :-1]
    penalty = np.full(column_map.shape[1], settings.LOGIT_PENALTY)
    penalty[0] = settings.LOGIT_INTERCEPT
    deviation = current.copy()
    deviation[..., 0] -= start
    slope = cover @ column_map - penalty * deviation
    step = solve(column_map.T @ gram @ column_map, slope[..., None], penalty)[..., 0]
    # The length of the step is limited: separable cells have their optimum at infinity.
    longest = np.abs(step).max(axis=-1, keepdims=True)
    moved: Floats = current + step * np.minimum(
        1.0, settings.LOGIT_STEP / np.maximum(longest, 1e-12)
    )
    return moved


def newton_sums(batch: RankingLog, layout: Layout, coef: Floats) -> Floats:
    """Return the sums of a Newton step from coefficients (F, K, A, D) of indicator columns.

    By fold, position and own action (F, K, A, D + 1, D + 1): of w z z', with the slopes z (r - p) in the last row
    and column. p is the expected 0/1 reward, w = p (1 - p) its variance.
    """
    arrays, reward, width = layout.arrays(batch), np.ascontiguousarray(batch.reward), layout.width
    sums = np.zeros((*coef.shape[:-1], width + 1, width + 1))
    least = settings.LEAST_VARIANCE
    add_newton(layout.slots, arrays.action, arrays.fit, arrays.x, reward, coef, least, sums)
    # The kernel fills the lower half.
    sums += np.tril(sums, -1).swapaxes(-1, -2)
    return sums


@jit
def add_newton(  # noqa: C901 - a kernel in one piece
    slots: Ints,
    action: Ints,
    fold: Ints,
    x: Floats,
    reward: Floats,
    coef: Floats,
    least: float,
    sums: Floats,
) -> None:
    """Add w z z' (its lower half) and z (r - p) to the sums of each row's fold, position and own action.

    Of the columns only those of the request and one indicator for each other position are not zero.
    """
    (n, K), A, p = action.shape, coef.shape[2], x.shape[1]
    columns = np.empty(K, np.int64)
    for i in range(n):
        f, length = fold[i], 0
        while length < K and action[i, length] >= 0:
            length += 1
        for k in range(length):
            u, count, value = action[i, k], 0, 0.0
            for j in range(p):
                value += x[i, j] * coef[f, k, u, j]
            for neighbour in range(length):
                if neighbour != k:
                    columns[count] = p + slots[k, neighbour] * A + action[i, neighbour]
                    value += coef[f, k, u, columns[count]]
                    count += 1
            chance = 1.0 / (1.0 + np.exp(-value))
            # Raised where the variance vanishes; the slope is what it is.
            weight, error = max(chance * (1.0 - chance), least), reward[i, k] - chance
            cell, right = sums[f, k, u], sums[f, k, u, coef.shape[3]]
            for j in range(p):
                right[j] += error * x[i, j]
                for before in range(j + 1):
                    cell[j, before] += weight * x[i, j] * x[i, before]
            for j in range(count):
                column = columns[j]
                right[column] += error
                cell[column, column] += weight
                for before in range(p):
                    cell[column, before] += weight * x[i, before]
                for before in range(j):
                    # Positions may share a column, which counts them: its square has both products.
                    low, high = min(column, columns[before]), max(column, columns[before])
                    cell[high, low] += weight if low < high else 2.0 * weight
