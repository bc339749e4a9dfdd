"""The closed-form model: cross-fitted ridge, logistic where rewards are 0/1 and it predicts better."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.log import RankingLog
from counterrank.models.base import ModelKind, Prediction
from counterrank.models.designs import Prepared
from counterrank.models.grams import Grams, grams_of
from counterrank.models.layout import (
    Arrays,
    Layout,
    choose_folds,
    context_columns,
    count_slots,
    pair_slots,
    scale_of,
    slimmed,
    whole_distribution,
)
from counterrank.models.ridge import fit_ridge
from counterrank.models.settings import (
    ALL_DRAWS,
    DRAWS,
    GRAM_WORK,
    LARGEST_GRAM,
    LEAST_ROWS,
    LONGEST,
    MOST_SQUARES,
    PAIR_NUMBERS,
    TRAINING_ROWS,
    WIDEST_CROSS,
    WIDEST_PAIRS,
    Stream,
    stream,
)
from counterrank.models.shared_noise import Totals, totals_of, worth_it
from counterrank.models.tables import tables_of, tables_serve
from counterrank.source import Source

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """q_k = z' coef[fold, k, a_k], through a sigmoid at the positions where `logistic` (K,) says
    so.

    The mean under independent positions is exact for linear positions and, for logistic ones, an
    average over `draws` drawn rankings with the own action summed out; under dependent positions
    drawn rankings throughout.
    """

    layout: Layout
    coef: Floats
    logistic: Ints
    details: dict[str, Any] = field(default_factory=dict)
    draws: int = DRAWS
    seed: int = 0

    @property
    def kind(self) -> ModelKind:
        """Linear, whatever the link: position by position."""
        return ModelKind.LINEAR

    def predict(self, batch: RankingLog, target: str) -> Prediction:
        """Return q and E_pi q of a batch."""
        given = self.layout.arrays(batch)
        q = self.link(logged_values(self.layout, given, self.coef[None])[0], given)
        return Prediction(q, self.mean(batch, target, given))

    def link(self, linear: Floats, given: Arrays) -> Floats:
        """Return the model's values (n, K) from z' coef: a sigmoid where it is logistic, zero in
        the padding.
        """
        # By position: each keeps whichever of ridge and sigmoid predicted its unseen rows better.
        curved = self.logistic.astype(bool)
        if curved.any():
            linear[:, curved] = sigmoid(linear[:, curved])
        return clear(linear, given)

    def mean(self, batch: RankingLog, target: str, given: Arrays) -> Floats:
        """Return E_pi q_k (n, K)."""
        wanted = whole_distribution(batch, target)
        if wanted is None:
            drawn = policy_draws(batch, target, self.draws, self.seed)
            return self._drawn(drawn, given, np.empty((batch.n, 1, 0)))
        curved = np.flatnonzero(self.logistic)
        if not len(curved):
            return mean_values(self.layout, given, wanted, self.coef)
        draws = factored_draws(batch, wanted, self.draws, self.seed)
        # Logistic fits use indicators only, so the dense groups usually fall away and tables of
        # coefficients serve instead of columns.
        slim, coef = slimmed(self.layout, self.coef[:, curved])
        if slim.cross or slim.squares:
            out = self._drawn(draws, given, wanted)
        else:
            out = _logistic_means(slim, given, wanted, draws, coef, curved)
        if len(curved) < self.layout.K:
            straight = self.logistic == 0
            out[:, straight] = mean_values(self.layout, given, wanted, self.coef)[:, straight]
        return out

    def cascade(self, batch: RankingLog, target: str) -> Prediction:
        """Return the mean of a model with indicator columns only as the items above k let it be
        known: q_k becomes E_pi[q_k | a_1..a_k].
        """
        from counterrank.models.kernels import regress_predict

        given, wanted = self.layout.arrays(batch), whole_distribution(batch, target)
        assert wanted is not None
        known, mean = np.zeros(given.action.shape), np.zeros(given.action.shape)
        regress_predict.cascade_means(
            given.action, given.lengths, given.fold, given.x, given.centre, wanted, self.layout.slots, self.coef,
            mean, known,
        )  # fmt: skip
        return Prediction(known, mean)

    def _drawn(self, draws: Ints, given: Arrays, own: Floats) -> Floats:
        from counterrank.models.kernels import regress_predict

        out, layout = np.zeros(given.action.shape), self.layout
        regress_predict.mean_of_draws(
            draws, given.lengths, given.fold, given.x, given.centre, given.logging, layout.slots, layout.cross,
            layout.squares, own, self.coef, self.logistic, out,
        )  # fmt: skip
        return out


def sigmoid(values: Floats) -> Floats:
    """Return 1 / (1 + exp(-v)) of each value.

    >>> sigmoid(np.array([[0.0, -800.0, 800.0]])).round(6).tolist()
    [[0.5, 0.0, 1.0]]
    """
    from counterrank.models.kernels.sigmoid import sigmoid as kernel

    out = np.array(values, dtype=np.float64, order="C")
    kernel(out.reshape(-1), out.size)
    return out


def clear(values: Floats, given: Arrays) -> Floats:
    """Return values (n, K) with zeros in the padding."""
    values[given.action < 0] = 0.0
    return values


def logged_values(layout: Layout, given: Arrays, coef: Floats) -> Floats:
    """Return z' coef[s, fold, k, a_k] (S, n, K)."""
    from counterrank.models.kernels import regress_predict

    if tables_serve(layout, given):
        return tables_of(layout, coef).at_logged(given)[0]
    out = np.zeros((coef.shape[0], *given.action.shape))
    regress_predict.at_logged(
        given.action, given.lengths, given.fold, given.x, given.centre, given.logging,
        layout.slots, layout.cross, layout.squares, coef, out,
    )  # fmt: skip
    return out


def mean_values(layout: Layout, given: Arrays, wanted: Floats, coef: Floats) -> Floats:
    """Return E_pi z' coef (n, K) for independent positions."""
    from counterrank.models.kernels import regress_predict

    # With one distribution at all positions the mean of a block depends on its size only: all blocks
    # become one.
    alike = wanted.shape[1] == 1 and given.logging.shape[1] == 1
    if alike and bool((given.lengths == layout.K).all()):
        layout, coef = _one_block(layout, coef)
    out = np.zeros(given.action.shape)
    regress_predict.mean_under(
        given.lengths, given.fold, given.x, given.centre, given.logging, wanted,
        layout.slots, layout.cross, layout.squares, coef, out,
    )  # fmt: skip
    return out


def _one_block(layout: Layout, coef: Floats) -> tuple[Layout, Floats]:
    """Return a model with one block whose mean is the same when all positions have one
    distribution.
    """
    A, dense = layout.A, layout.starts[3]
    single = replace(layout, slots=np.zeros_like(layout.slots))
    summed = np.zeros((*coef.shape[:-1], dense + A))  # (F, K, A, dense + A)
    summed[..., :dense] = coef[..., :dense]
    blocks = coef[..., dense:].reshape(*coef.shape[:-1], layout.blocks, A)
    for k in range(layout.K if layout.K > 1 else 0):
        size = np.bincount(np.delete(layout.slots[k], k), minlength=layout.blocks)
        summed[:, k, :, dense:] = np.einsum("fusb,s->fub", blocks[:, k], size / (layout.K - 1))
    return single, summed


def _logistic_means(
    layout: Layout, given: Arrays, wanted: Floats, draws: Ints, coef: Floats, at: Ints
) -> Floats:
    """Return E_pi of the sigmoid (n, K) at the positions `at` from their coefficients (F, Q, A, D):
    indicators only.
    """
    from counterrank.models.kernels.regress_tables import sigmoid_of_draws

    out, tables = np.zeros(given.action.shape), tables_of(layout, coef[None], positions=at)
    sigmoid_of_draws(
        draws, given.lengths, given.fold, given.x, given.centre, wanted, tables.values, at, out,
    )  # fmt: skip
    return out


def factored_draws(batch: RankingLog, wanted: Floats, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from a factored policy; row by row the same in any
    chunking.
    """
    from counterrank.models.kernels import regress_predict

    out = np.empty((batch.n, size, batch.K), dtype=np.int64)
    regress_predict.draw_rankings(wanted, batch.lengths, batch.numbers, seed, out)
    return out


def policy_draws(batch: RankingLog, target: str, size: int, seed: int) -> Ints:
    """Return (n, size, K) rankings drawn from a target that is a policy, as long as the logged
    ones; row by row the same in any chunking.
    """
    from counterrank.policies import Policy, RowRandom

    policy = batch.target(target)
    assert isinstance(policy, Policy)
    # A policy without context has one row: each row of the log still gets draws of its own.
    each = size * (batch.n // policy.n_rows)
    drawn = policy.sample(
        batch.K, RowRandom(batch.numbers, [seed, Stream.TARGET_RANKINGS]), size=each
    ).reshape(batch.n, size, batch.K)
    return np.where(np.arange(batch.K) < batch.lengths[:, None, None], drawn, -1)


def training_source(source: Source, seed: int, rows: int = TRAINING_ROWS) -> Source:
    """Return the source itself, or a sample of it in memory when it is longer than `rows` or of
    unknown length.
    """
    from counterrank.source import MemorySource

    if source.n is not None and source.n <= rows:
        return source
    return MemorySource(source.sample(rows, stream(seed, Stream.TRAINING_ROWS)))


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The layout and Grams of the training rows, shared by every model of one log."""

    prepared: Prepared
    source: Source
    totals: Totals | None = None
    #: Rows of the whole log, where known.
    rows: int | None = None

    @property
    def layout(self) -> Layout:
        """The columns."""
        return self.prepared.layout

    @property
    def grams(self) -> Grams:
        """The sums."""
        return self.prepared.grams


def train(source: Source, *, seed: int = 0, rich: bool = True) -> Training:
    """Return the Grams of the training rows; `rich` adds context x count and count x count columns."""
    first = source.first
    K, A, d = first.K, first.n_actions, context_columns(first).shape[1]
    cross = rich and 0 < d * A <= WIDEST_CROSS and K > 1
    squares = (1 if A <= MOST_SQUARES else 2) if rich and K > 2 else 0
    dense = 1 + d + A + (d * A if cross else 0) + (0, A * (A + 1) // 2, A)[squares] + K
    # Gram matrices cost rows x K x width^2: wide models see fewer rows, never fewer than
    # LEAST_ROWS.
    training = training_source(
        source, seed, int(np.clip(GRAM_WORK / (K * dense**2), LEAST_ROWS, TRAINING_ROWS))
    )
    scale = training.reduce(scale_of, label="context")
    rows = training.n or TRAINING_ROWS
    F = choose_folds(A)
    plain = d + 1 + (K - 1) * A
    numbers = F * K * A * (dense + (K - 1) * A) ** 2
    # Each other position has indicators of its own where there are at least three training rows for
    # each of the A x plain coefficients; otherwise positions are tied into counts above and below.
    pairs = (
        2 < K
        and plain <= WIDEST_PAIRS
        and 3 * A * plain < rows * (F - 1) / F
        and numbers <= PAIR_NUMBERS
    )
    slots = pair_slots(K) if pairs else count_slots(K)
    layout = Layout(K, A, d, F, slots, scale, cross=cross, squares=squares)
    grams = training.reduce(lambda batch: grams_of(batch, layout), label="regression")
    totals = None
    if worth_it(layout):
        totals = training.reduce(lambda batch: totals_of(batch, layout), label="regression")
    return Training(Prepared(grams, layout, pairs), training, totals, source.n)


def fits_in_memory(first: RankingLog) -> bool:
    """Return whether the smallest Gram matrices (counts, no cross columns) are of a reasonable
    size.
    """
    A, d = first.n_actions, context_columns(first).shape[1]
    return bool(
        first.K <= LONGEST and choose_folds(A) * first.K * A * (1 + d + 3 * A) ** 2 <= LARGEST_GRAM
    )


def fit_linear(training: Training, *, seed: int = 0, curved: bool = True) -> LinearModel:
    """Return the cross-fitted model; `curved` lets 0/1 rewards have a logistic one where it
    predicts better.
    """
    ridge = fit_ridge(training.prepared, training.totals)
    details: dict[str, Any] = {
        "model": "ridge",
        "folds": training.layout.F,
        "training_rows": int(training.grams.rows.sum()),
        "designs": list(ridge.chosen),
        "out_of_fold_mse": float(ridge.loss.sum() / max(ridge.size.sum(), 1.0)),
        "mean_under_target": "closed form",
    }
    # Noise of the drawn mean falls with rows x draws: long logs need fewer draws a row.
    draws = int(np.clip(ALL_DRAWS // (training.rows or ALL_DRAWS), 1, DRAWS))
    linear = np.zeros(training.layout.K, dtype=np.int64)
    plain = LinearModel(training.layout, ridge.coef, linear, details, draws=draws, seed=seed)
    if not curved:
        return plain
    from counterrank.models.logistic import with_logistic

    return with_logistic(plain, ridge, training)
