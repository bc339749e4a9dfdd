"""Algorithm 1 of Kiyohara et al. (2023) as its figures were made: a few random partitions a node, depth first.

What the public code adds to the paper's text, and this mode repeats: the noise on the bias is drawn
anew for each of the M x M pairs of models; a split is accepted at an equal score; the variance is
cut off below at that of the last model on all rows, except at the root; nodes are visited last in,
first out, and the score is that of the whole assignment. The choice uses the rows it is later
averaged over: for reproducing the paper only.

`algorithm` "text" follows the listing instead. A node's model is minimised anew when the node is
taken up (line 5), and stays where no partition is better; only strictly better partitions count; the
variance is the sample variance, without a floor. MSE(c; l) is read as that of the whole estimate
with c at node l, as section 4.1 defines the loss for an assignment of all rows. The listing names
no least size of a leaf and no depth, and with noise nearly every node splits: the bounds of the code
hold there, too.

With the generator, the models and the simulated rows of a published run, the trees are that run's
own trees.

`PublishedOracle` tells it the true bias plus noise. The bias comes from ten fresh data sets of the log's
size, as in the public code; in preset `published` these are the published run's own, and so are the
random partitions and the noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.data.propensity import Propensity
from counterrank.research import simulate
from counterrank.research.paper.columns import Column, with_columns
from counterrank.research.paper.figures import Algorithm
from counterrank.research.paper.partitions import (
    BINS,
    Records,
    best_pair,
    bin_codes,
    cuts,
    divide,
    divide_records,
    fill_records,
    left_sums,
    left_sums_of_records,
    score,
)
from counterrank.research.paper.replay import OracleView, PublishedRun, contributions
from counterrank.research.simulate import Environment
from counterrank.weights.ratios import Ratios

Singles = NDArray[np.float32] | Floats
Random = np.random.Generator | np.random.RandomState


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGrowth:
    """Settings of Algorithm 1: partitions tried at a node, noise of the bias, least rows of a leaf, depth.

    `algorithm`: "code", as the figures were made, or "text", as the listing is printed.
    """

    partitions: int = 10
    noise: float = 0.3
    min_leaf: int = 100
    max_depth: int = 5
    algorithm: Algorithm = "code"


@dataclass(frozen=True, slots=True)
class RandomTree:
    """Nodes in order of creation: feature (-1: leaf), threshold (left when below), children, model."""

    feature: list[int]
    threshold: list[float]
    left: list[int]
    right: list[int]
    model: list[int]

    def add(self, model: int) -> int:
        """Add a leaf and return its number."""
        for values in (self.feature, self.left, self.right):
            values.append(-1)
        self.model.append(model)
        self.threshold.append(np.nan)
        return len(self.model) - 1


class PartitionGrower:
    """Grows trees on the contexts of logged rows (n, d) and of simulated ones (N, d).

    One grower serves all positions.

    `rng` is asked in a fixed order: M normals at the root; at a node one normal, the features,
    their shares, then M x M normals a partition. The published runs asked a legacy generator in
    this order. After the text, it is asked for M normals at every node, and for none before the
    root.
    """

    def __init__(self, context: Floats, fresh: Floats, settings: RandomGrowth, rng: Random) -> None:
        self.context, self.fresh = np.ascontiguousarray(context), np.ascontiguousarray(fresh)
        self.settings, self.rng = settings, rng
        # Rows in rising order of each feature, then in their own order.
        order = [*np.argsort(context.T, axis=1, kind="stable"), np.arange(len(context))]
        self.order = np.array(order, dtype=np.int32)
        self.spare = np.empty(len(context), dtype=np.int32)
        self.buffers: list[Records] = []
        self.places = self._places(self.context), self._places(self.fresh)

    def _places(self, context: Floats) -> tuple[Floats, NDArray[np.uint16], Floats, Floats]:
        """Return contexts with their bins over the range of the logged ones."""
        low, high = self.context.min(axis=0), self.context.max(axis=0)
        scale = BINS / np.maximum(high - low, 1e-300)
        return context, bin_codes(context, low, scale), low, scale

    def records(self, fresh: Singles) -> "tuple[list[Records], Floats]":
        """Return simulated rows (M, N) as records, with two arrays to divide nodes into, and their sums (M,)."""
        width = len(fresh) + (self.fresh.shape[1] + 1) // 2 + 1
        if not self.buffers or self.buffers[0][2].shape != (fresh.shape[1], width):
            # Contributions, bins and number of a row side by side: a node reads its rows in one
            # stream, and dividing it copies whole words.
            words = np.empty(
                (3, fresh.shape[1], width), dtype=np.int32
            )  # in one piece: large pages are faster
            self.buffers = [(w.view(np.float32), w.view(np.uint16), w) for w in words]
        total = fill_records(
            fresh.astype(np.float32, copy=False), self.places[1][1], self.buffers[0]
        )
        return self.buffers, total

    def grow(self, y: Floats, fresh: Singles, value: float) -> tuple[RandomTree, Ints]:
        """Return the tree and the model of each logged row (n,), from contributions y (M, n) and fresh (M, N).

        The bias is that of the mean of `fresh` against `value`, the variance that of the mean of y.
        """
        # Row by row, since rows of a node are picked one by one.
        own = np.concatenate([y, y**2]).T.copy()
        state = _Growth(self, own, fresh, value)
        while state.stack:
            state.step(*state.stack.pop())
        return state.tree, state.choice


class _Growth:
    """One tree on its way: rows listed node by node, sums of the assignment so far."""

    def __init__(self, grower: PartitionGrower, own: Floats, fresh: Singles, value: float) -> None:
        self.grower, self.own, self.M, settings = grower, own, len(fresh), grower.settings
        n, M = len(own), self.M
        self.sizes = np.array([n, fresh.shape[1]], dtype=np.float64)
        code = settings.algorithm == "code"
        self.goal = np.array([value, -np.inf, settings.noise, code])
        self.order = grower.order.copy()
        self.records, simulated = grower.records(fresh)
        total = own.sum(axis=0)
        self.totals = np.zeros(3)
        # After the text, line 5 chooses the root's model like every other node's.
        root = self._best_model(total, simulated)[1] if code else 0
        if code:
            # A mean that hits the value has no bias: what is left is the variance of the last
            # model, the floor of the public code. Set after the root is scored, which has no floor
            # there.
            self.goal[1] = score(total[M - 1], total[-1], value, float(n), self.goal, 0.0)
        self.totals = np.array([total[root], total[M + root], simulated[root]])
        self.tree, self.choice = RandomTree([], [], [], [], []), np.full(n, root)
        self.stack = [(self.tree.add(root), (0, n), (0, fresh.shape[1]), 0)]

    def step(self, node: int, logged: tuple[int, int], fresh: tuple[int, int], depth: int) -> None:
        """Search a node, and divide it when one of its partitions is accepted."""
        settings, grower = self.grower.settings, self.grower
        count = logged[1] - logged[0]
        best = self._line_5(node, logged, fresh, depth) if settings.algorithm == "text" else None
        if depth >= settings.max_depth or count < 2 * settings.min_leaf:
            return
        if best is None:
            best = score(
                self.totals[0],
                self.totals[1],
                self.totals[2] / self.sizes[1],
                self.sizes[0],
                self.goal,
                float(grower.rng.standard_normal()),
            )
        features, shares, normal = self._draw(count)
        threshold = cuts(self.order, *logged, grower.context, features, shares)
        inside, simulated = self.order[-1, slice(*logged)], self._simulated(fresh, depth)
        own = left_sums(self.own, grower.places[0], inside, features, threshold)
        new = left_sums_of_records(simulated, self.M, grower.places[1], features, threshold)
        M, model = self.M, self.tree.model[node]
        # The assignment without this node; squared bias is of the whole, so no node can be scored
        # by itself.
        base = self.totals - (own[-1, model], own[-1, M + model], new[-1, model])
        _, s, a, b = best_pair(own, new, base, self.sizes, self.goal, normal, best)
        if s < 0:
            return
        right = own[-1] - own[s]
        self.totals = base + (
            own[s, a] + right[b],
            own[s, M + a] + right[M + b],
            new[s, a] + new[-1, b] - new[s, b],
        )
        self._divide(
            node, (int(features[s]), float(threshold[s])), (a, b), (logged, fresh, depth + 1)
        )

    def _line_5(
        self, node: int, logged: tuple[int, int], fresh: tuple[int, int], depth: int
    ) -> float:
        """Give the node the model of least MSE, all other nodes as they are, and return that MSE."""
        inside, M, before = self.order[-1, slice(*logged)], self.M, self.tree.model[node]
        own = self.own[inside].sum(axis=0)
        new = self._simulated(fresh, depth)[0][:, :M].sum(axis=0, dtype=np.float64)
        self.totals -= (own[before], own[M + before], new[before])
        best, model = self._best_model(own, new)
        self.totals += (own[model], own[M + model], new[model])
        self.tree.model[node] = self.choice[inside] = model
        return best

    def _best_model(self, own: Floats, new: Floats) -> tuple[float, int]:
        """Return the least score and its model, of sums (2 M,) and (M,) added to the totals."""
        M, normal = self.M, self.grower.rng.standard_normal(self.M)
        each = [
            score(
                self.totals[0] + own[m],
                self.totals[1] + own[M + m],
                (self.totals[2] + new[m]) / self.sizes[1],
                self.sizes[0],
                self.goal,
                normal[m],
            )
            for m in range(M)
        ]
        return float(min(each)), int(np.argmin(each))

    def _simulated(self, part: tuple[int, int], depth: int) -> Records:
        """Return the records of a node: the root's are kept, deeper nodes go back and forth between two arrays."""
        values, halves, words = self.records[0 if depth == 0 else 1 + depth % 2]
        where = slice(*part)
        return values[where], halves[where], words[where]

    def _draw(self, count: int) -> tuple[Ints, Floats, Floats]:
        rng, settings = self.grower.rng, self.grower.settings
        S, M, share = settings.partitions, self.M, settings.min_leaf / count
        # What `choice` of the legacy generator asks for, without its detours.
        whole = rng.integers if isinstance(rng, np.random.Generator) else rng.randint
        features = whole(0, self.grower.context.shape[1], size=S)
        shares = rng.uniform(share, 1 - share, size=S)
        # `_steps` and `_gather` take equal features as neighbours. Sorted before the normals are
        # drawn, as the public code visits partitions feature by feature.
        by_feature = np.argsort(features, kind="stable")
        return features[by_feature], shares[by_feature], rng.standard_normal((S, M, M))

    def _divide(
        self,
        node: int,
        cut: tuple[int, float],
        models: tuple[int, int],
        place: tuple[tuple[int, int], tuple[int, int], int],
    ) -> None:
        (start, stop), (first, last), depth = place
        grower, tree = self.grower, self.tree
        tree.feature[node], tree.threshold[node] = cut
        tree.left[node], tree.right[node] = (tree.add(model) for model in models)
        middle = start + divide(self.order[:, start:stop], grower.context, *cut, grower.spare)
        between = first
        # Leaves need no simulated rows, unless their model is minimised anew.
        if depth < grower.settings.max_depth or grower.settings.algorithm == "text":
            source, target = (
                self._simulated((first, last), depth - 1),
                self._simulated((first, last), depth),
            )
            between += divide_records(source, target[2], self.M, grower.places[1], *cut)
        self.choice[self.order[-1, start:middle]], self.choice[self.order[-1, middle:stop]] = models
        self.stack.append((tree.left[node], (start, middle), (first, between), depth))
        self.stack.append((tree.right[node], (middle, stop), (between, last), depth))


_FRESH_DATA_SETS = 10


@dataclass(slots=True, eq=False)
class PublishedOracle:
    """What an oracle knows about a simulated log, made once and kept for any noise.

    `run` is the published run behind the log; without it, fresh rows are drawn and `values` (K,)
    are the true V_k.
    """

    env: Environment
    seed: int
    values: tuple[float, ...]
    run: PublishedRun | None = None
    _seen: dict[bool, OracleView] = field(default_factory=dict)

    def assignment(
        self,
        log: RankingLog,
        noise: float,
        *,
        cached: bool = False,
        algorithm: Algorithm = "code",
        columns: Sequence[Column] = (),
    ) -> "Assigned":
        """Return the model of each row and position, a tree for every position.

        `cached`: with the fresh data sets of a published run whose log was read back from disk
        (`PublishedRun.oracle`). `columns`: what else nodes may be split on.
        """
        view = self._view(log.n, cached)
        grower = PartitionGrower(
            with_columns(_context(log), columns),
            with_columns(view.context, columns),
            RandomGrowth(noise=noise, algorithm=algorithm),
            self._generator(),
        )
        y = logged_contributions(log, self.env.masks)
        chosen = [
            grower.grow(y[k], view.contributions[k], float(view.values[k]))[1] for k in range(log.K)
        ]
        return Assigned(self.env.masks, np.stack(chosen, axis=1))

    def _generator(self) -> Random:
        if self.run is not None:
            # The legacy generator: its normals are not those of `default_rng`, whatever the seed.
            return np.random.RandomState(self.seed)
        return np.random.default_rng([self.seed, 37])

    def _view(self, n: int, cached: bool) -> OracleView:
        if cached not in self._seen:
            self._seen[cached] = (
                self._draw(n) if self.run is None else self.run.oracle(cached=cached)
            )
        return self._seen[cached]

    def _draw(self, n: int) -> OracleView:
        fresh = simulate.draw(
            self.env, _FRESH_DATA_SETS * n, np.random.default_rng([self.seed, 23])
        )
        y = np.empty((self.env.K, self.env.M, len(fresh.action)), dtype=np.float32)
        contributions(fresh.target / fresh.propensity, fresh.reward, self.env.masks, y)
        return OracleView(np.array(self.values), fresh.context, y)


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """Rows weighed by models (n, K) chosen for them."""

    masks: NDArray[np.bool_]
    choice: Ints

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K)."""
        return ratios.by_choice(self.masks, self.choice[batch.rows])


def logged_contributions(log: RankingLog, masks: NDArray[np.bool_]) -> Floats:
    """Return w r of every model on a simulated log of factored policies: (K, M, n)."""
    drawn, target = log.propensity, log.targets["new"]
    assert isinstance(drawn, Propensity)
    assert isinstance(target, Propensity)
    y = np.empty((log.K, len(masks), log.n))
    contributions(target.values / drawn.values, log.reward, masks, y)
    return y


def _context(log: RankingLog) -> Floats:
    assert log.context is not None
    return log.context
