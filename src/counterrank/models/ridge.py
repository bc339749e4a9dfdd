"""The cross-fitted ridge: Gram matrices, the designs that are tried, and the fits.

One pass sums z z', z r and r^2 by fold, position and own action. Every design (a linear map of the
columns), penalty and left-out fold is then computed from these sums. A fit is a common start plus the
departure of each position and own action from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from counterrank.arrays import Floats, Ints, Summed
from counterrank.data.log import RankingLog
from counterrank.data.source import Source
from counterrank.models import settings
from counterrank.models.columns import Arrays, Block, Layout, blocks_of, indicators


@dataclass(frozen=True, slots=True, eq=False)
class Grams(Summed):
    """Sums over the rows of fold f with a_k = u.

    gram (F, K, A, D, D) of z z'; cover (F, K, A, D) of z r_k; square (F, K, A) of r_k^2; rows (F,).
    """

    gram: Floats
    cover: Floats
    square: Floats
    rows: Floats


def grams_of(
    batch: RankingLog, layout: Layout, *, weight: Floats | None = None, given: Arrays | None = None,
    reward: Floats | None = None,
) -> Grams:  # fmt: skip
    """Return the Grams of a batch.

    `weight` (n, K) weighs rows, position by position; `given` are its arrays, if known; `reward`
    (n, K) replaces its rewards (the working responses of a Newton step).
    """
    given = layout.arrays(batch) if given is None else given
    rewards = batch.reward if reward is None else reward
    K, A, width = layout.K, layout.A, layout.width
    # F x K x A matrices rather than one: a fold is left out by subtraction, and each own action has a
    # model of its own, because the effect of a neighbour depends on the item it stands next to.
    whole = np.zeros((layout.F, K, A, width + 1, width + 1))
    for f, rows in blocks_of(given.fold):
        part = given.take(rows)
        block = Block(layout, part, indicators(part.action, A), sure=True)
        columns = np.empty((width + 1, len(rows)))
        for k in range(K):
            block.columns(k, columns[:width])
            columns[width] = rewards[rows, k]
            if weight is not None:
                columns *= np.sqrt(weight[rows, k])
            for u, mine in by_action(part.action[:, k], columns):
                # BLAS sees that both factors are the same, and takes half the products.
                whole[f, k, u] += mine @ mine.T
    gram, cover = whole[..., :width, :width], whole[..., width, :width]
    count = np.bincount(given.fold, minlength=layout.F).astype(np.float64)
    return Grams(gram.copy(), cover.copy(), whole[..., width, width].copy(), count)


def by_action(action: Ints, columns: Floats) -> Iterator[tuple[int, Floats]]:
    """Return the columns of each own action; rankings that end above have none."""
    # Sixteen bits are sorted by counting; actions are far fewer where Grams fit into memory.
    order = np.argsort(action.astype(np.int16), kind="stable")
    ordered = columns.take(order, axis=1)
    last = np.cumsum(np.bincount(action + 1))
    for u in range(len(last) - 1):
        if last[u] < last[u + 1]:
            yield u, ordered[:, last[u] : last[u + 1]]


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Columns z' map (D, p) with ridge penalties (p,). `columns` names the map, `name` the penalty too."""

    name: str
    columns: str
    map: Floats
    penalty: Floats


def designs(layout: Layout, k: int, *, pairs: bool) -> list[Design]:
    """Return the candidates at position k, from the smallest.

    "0": context only; "T": + centred counts above and below; "P": + each other position's centred
    indicators (where `pairs`); "TX", "PX": + context x counts; "TU", "TXU": + products of counts.
    """
    starts, every = layout.starts, np.eye(layout.width)
    # Context, context x counts and products of counts are already centred.
    context, cross, squares = (
        every[:, slice(*ends)] for ends in ((0, starts[0]), starts[1:3], starts[2:4])
    )
    found = [_design("0", [context], layout, 0.0)]
    groups = {"T": [_counts(layout, k)]}
    if pairs:
        groups["P"] = [_pairs(layout, k)]
    for name, group in list(groups.items()):
        if layout.cross and (name == "T" or layout.A <= settings.FEW_ACTIONS):
            groups[f"{name}X"] = [*group, cross]
    if layout.squares:
        # Counts of K - 1 items spread like sqrt(K - 1), their products like K - 1: divided by the
        # root they spread like counts, and one penalty serves both.
        scale = 1.0 / np.sqrt(max(layout.K - 1, 1))
        groups["TU"] = [*groups["T"], squares * scale]
        if layout.cross:
            groups["TXU"] = [*groups["TX"], squares * scale]
    for name, group in groups.items():
        found.extend(
            _design(name, [context, *group], layout, penalty) for penalty in settings.PENALTIES
        )
    return found


def _design(name: str, parts: list[Floats], layout: Layout, penalty: float) -> Design:
    joined = np.concatenate(parts, axis=1)
    weights = np.full(joined.shape[1], penalty)
    # The context is standardised: a penalty of one row hardly shrinks and keeps the solution unique.
    weights[: layout.d + 1] = 1.0
    return Design(name if penalty == 0 else f"{name}/{penalty:g}", name, joined, weights)


def _pairs(layout: Layout, k: int) -> Floats:
    """Return centred indicators by block: 1{.} minus the block's number of positions times the logger's mean."""
    # 1{a_l = b} - p0(b | x) has mean zero given the context. These columns are therefore uncorrelated
    # with any function of the context, and shrinking interactions does not move own effects.
    out = np.zeros((layout.width, layout.blocks * layout.A))
    centre, first = layout.starts[0], layout.starts[3]
    others = np.delete(layout.slots[k], k)
    size = np.bincount(others, minlength=layout.blocks)
    for block in range(layout.blocks):
        for b in range(layout.A):
            column = block * layout.A + b
            out[first + column, column] = 1.0
            out[centre + b, column] = -size[block]
    return out


def _counts(layout: Layout, k: int) -> Floats:
    """Return centred counts above and below (D, 2A), whatever the blocks are."""
    single = _pairs(layout, k)
    out = np.zeros((layout.width, 2 * layout.A))
    others = [m for m in range(layout.K) if m != k]
    for block in {int(layout.slots[k, m]) for m in others}:
        below = min(m for m in others if layout.slots[k, m] == block) > k
        side = slice(layout.A, 2 * layout.A) if below else slice(0, layout.A)
        out[:, side] += single[:, block * layout.A : (block + 1) * layout.A]
    return out


def others(values: Floats) -> Floats:
    """Return for each fold the sum over the other folds.

    >>> others(np.array([1.0, 2.0, 4.0])).tolist()
    [6.0, 5.0, 3.0]
    """
    rest: Floats = values.sum(axis=0) - values
    return rest


def solve(matrix: Floats, right: Floats, penalty: Floats) -> Floats:
    """Return (matrix + diag(penalty))^-1 right for stacks of matrices (..., p, p) and right sides (..., p, s)."""
    p = matrix.shape[-1]
    full = matrix.copy()
    full[..., np.arange(p), np.arange(p)] += penalty
    return np.asarray(np.linalg.solve(full, right), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Training:
    """The training rows of one log, shared by all its models: sums, columns and each position's designs.

    `pairs` says whether each other position has indicators of its own; `rows` is the number of rows of
    the whole log, where known.
    """

    grams: Grams
    layout: Layout
    pairs: bool
    source: Source
    rows: int | None = None
    _rest: dict[int, Floats] = field(init=False, default_factory=dict)
    _mapped: dict[tuple[int, str], Floats] = field(init=False, default_factory=dict)

    @cached_property
    def candidates(self) -> list[list[Design]]:
        """The designs that are tried at each position."""
        return [designs(self.layout, k, pairs=self.pairs) for k in range(self.layout.K)]

    @cached_property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        # r^2 = r for such rewards: the sums rule out most other logs before any row is read again.
        total, squares = self.grams.cover[..., 0].sum(), self.grams.square.sum()
        if not np.isclose(total, squares, rtol=1e-9, atol=0.0):
            return False

        def others_than_0_and_1(batch: RankingLog) -> int:
            return int((~np.isin(batch.reward[batch.action >= 0], (0.0, 1.0))).sum())

        return not self.source.reduce(others_than_0_and_1, label="rewards")

    def rest(self, k: int) -> Floats:
        """Return the training Grams (F, A, D, D) at position k."""
        if k not in self._rest:
            self._rest[k] = others(self.grams.gram[:, k])
        return self._rest[k]

    def mapped(self, k: int, design: Design) -> Floats:
        """Return the training Grams in the design's columns (F, A, p, p)."""
        key = (k, design.columns)
        # This product is costly (D^2 p). All penalties of the same columns share it.
        if key not in self._mapped:
            self._mapped[key] = design.map.T @ self.rest(k) @ design.map
        return self._mapped[key]

    def solved(self, k: int, design: Design, right: Floats) -> Floats:
        """Return ridge coefficients in raw columns (F, A, D, s) for raw right sides (F, A, D, s)."""
        inside = np.swapaxes(np.swapaxes(right, -1, -2) @ design.map, -1, -2)
        return design.map @ solve(self.mapped(k, design), inside, design.penalty)


@dataclass(frozen=True, slots=True, eq=False)
class Ridge:
    """Coefficients (F, K, A, D): fold f's were fitted without fold f. `chosen` (K,) names the designs.

    `loss` (K,) is the out-of-fold sum of squared errors, `size` (K,) the number of rewards behind
    it.
    """

    coef: Floats
    chosen: tuple[str, ...]
    loss: Floats
    size: Floats


def fit_ridge(training: Training) -> Ridge:
    """Return the ridge whose start, design and penalty have the least out-of-fold loss, position by position.

    A start is one fit for all own actions of a position, or one for all positions of an own action.
    Each own action and position then has a ridge on the residuals of the start.
    """
    grams, K = training.grams, training.layout.K
    coef, losses, chosen = np.zeros(grams.cover.shape), np.full(K, np.inf), [""] * K
    tied, tied_name = _best_tied(training)
    names = ("pooled", tied_name)
    for k in range(K):
        starts = np.stack([_pooled(training, k), tied[:, k]], axis=-1)  # (F, A, D, S)
        # A ridge on the residuals of a start shrinks towards the start instead of towards zero: rare
        # own actions borrow from all others.
        left = others(grams.cover[:, k])[..., None] - training.rest(k) @ starts
        for design in (None, *training.candidates[k]):
            fitted = starts if design is None else starts + training.solved(k, design, left)
            for s, name in enumerate(names):
                loss = out_of_fold(grams, k, fitted[..., s])
                # Strictly less: of equal designs the first, which is the smaller one, stays.
                if loss < losses[k]:
                    coef[:, k], losses[k] = fitted[..., s], loss
                    chosen[k] = name if design is None else f"{name}+{design.name}"
    return Ridge(coef, tuple(chosen), losses, grams.gram[..., 0, 0].sum(axis=(0, 2)))


def out_of_fold(grams: Grams, k: int, coef: Floats) -> float:
    """Return sum over the held-out rows of (r_k - z' coef)^2, for coef (F, A, D)."""
    # |r - Z c|^2 = r'r - 2 c'Z'r + c'Z'Z c: the fold's own sums hold all three terms.
    through = (grams.gram[:, k] @ coef[..., None])[..., 0] - 2 * grams.cover[:, k]
    return float(grams.square[:, k].sum() + (coef * through).sum())


def _best_tied(training: Training) -> tuple[Floats, str]:
    """Return the tied fit with the least out-of-fold loss over all positions: (F, K, A, D), and its name."""
    grams, K = training.grams, training.layout.K
    best, least, best_name = np.zeros(grams.cover.shape), np.inf, ""
    for j, design in enumerate(training.candidates[0]):
        if design.columns[0] == "T":
            fitted = tied_fit(training, j)
            loss = sum(out_of_fold(grams, k, fitted[:, k]) for k in range(K))
            if loss < least:
                best, least, best_name = fitted, loss, f"tied-{design.name}"
    return best, best_name


def tied_fit(training: Training, j: int) -> Floats:
    """Return design j fitted once per own action for all positions, with an intercept for each: (F, K, A, D)."""
    used = [found[j] for found in training.candidates]
    cover = others(training.grams.cover)
    mapped = np.stack([training.mapped(k, design) for k, design in enumerate(used)], axis=2)
    right = np.stack([cover[:, k] @ design.map for k, design in enumerate(used)], axis=2)
    shared, own = _bordered(mapped, right, used[0].penalty)
    out = np.stack([shared @ design.map.T for design in used], axis=1)
    out[..., 0] += own.swapaxes(1, 2)
    return out


def _pooled(training: Training, k: int) -> Floats:
    """Return one ridge for all own actions, with an intercept for each: (F, A, D)."""
    layout, wanted = training.layout, "P" if training.pairs else "T"
    # Each position's own indicators where there are enough rows for them, else counts.
    design = next(one for one in training.candidates[k] if one.columns == wanted)
    mapped, cover = training.mapped(k, design), others(training.grams.cover[:, k])
    penalty = np.full((layout.F, len(design.penalty)), settings.POOLED)
    rows = mapped[:, :, 0, 0].sum(axis=1, keepdims=True)
    # In proportion to the rows: very small at any size, but not zero, because column 0 and the A own
    # intercepts are collinear.
    penalty[:, : layout.d + 1] = np.maximum(settings.POOLED_CONTEXT * rows, 1e-9)
    shared, own = _bordered(mapped, cover @ design.map, penalty)
    out: Floats = np.repeat((shared @ design.map.T)[:, None], layout.A, axis=1)
    out[:, :, 0] += own
    return out


def _bordered(gram: Floats, right: Floats, penalty: Floats) -> tuple[Floats, Floats]:
    """Return coefficients (..., p) common to G groups of rows, and an intercept of each group (..., G).

    `gram` (..., G, p, p) and `right` (..., G, p) are the sums of each group, whose column 0 is the
    intercept. An intercept has only the rows of its group.
    """
    *shape, G, p = right.shape
    total, own = np.zeros((*shape, p + G, p + G)), np.arange(p, p + G)
    total[..., :p, :p] = gram.sum(axis=-3)
    total[..., p:, :p] = gram[..., 0]
    total[..., :p, p:] = gram[..., 0].swapaxes(-1, -2)
    total[..., own, own] = gram[..., 0, 0]
    side = np.concatenate([right.sum(axis=-2), right[..., 0]], axis=-1)
    held = np.broadcast_to(penalty, (*shape, p))
    held = np.concatenate([held, np.full((*shape, G), settings.POOLED)], axis=-1)
    solved = solve(total, side[..., None], held)[..., 0]
    return solved[..., :p], solved[..., p:]
