"""Algorithm 1 of Kiyohara et al. (2023) as its figures were made: a few random partitions a node,
depth first.

What the public code adds to the paper's text, and this mode repeats: the noise on the bias is drawn
anew for each of the M x M pairs of models; a split is accepted at an equal score; the variance is
cut off below at that of the last model on all rows, except at the root; nodes are visited last in,
first out, and the score is that of the whole assignment. The choice uses the rows it is later
averaged over: for reproducing the paper only.

With the generator, the models and the simulated rows of a published run, the trees are that run's
own trees.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.paper.kernels import random_partitions as kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32] | Floats
Records = tuple[NDArray[np.float32], NDArray[np.uint16], NDArray[np.int32]]
Random = np.random.Generator | np.random.RandomState


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGrowth:
    """Settings of Algorithm 1: partitions tried at a node, noise of the bias, least rows of a leaf,
    depth.

    `as_published` False follows the text: strictly better splits only, no floor under the variance.
    """

    partitions: int = 10
    noise: float = 0.3
    min_leaf: int = 100
    max_depth: int = 5
    as_published: bool = True


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
    """Grows trees on the contexts of logged rows (n, d) and of simulated ones (N, d); one grower
    serves all positions.

    `rng` is asked in a fixed order: M normals at the root; at a node one normal, the features,
    their shares, then M x M normals a partition. The published runs asked a legacy generator in
    this order.
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
        scale = kernel.BINS / np.maximum(high - low, 1e-300)
        return context, kernel.bin_codes(context, low, scale), low, scale

    def records(self, fresh: Singles) -> "tuple[list[Records], Floats]":
        """Return simulated rows (M, N) as records, with two arrays to divide nodes into, and their
        sums (M,).
        """
        width = len(fresh) + (self.fresh.shape[1] + 1) // 2 + 1
        if not self.buffers or self.buffers[0][2].shape != (fresh.shape[1], width):
            words = np.empty(
                (3, fresh.shape[1], width), dtype=np.int32
            )  # in one piece: large pages are faster
            self.buffers = [(w.view(np.float32), w.view(np.uint16), w) for w in words]
        total = kernel.fill_records(
            fresh.astype(np.float32, copy=False), self.places[1][1], self.buffers[0]
        )
        return self.buffers, total

    def grow(self, y: Floats, fresh: Singles, value: float) -> tuple[RandomTree, Ints]:
        """Return the tree and the model of each logged row (n,), from contributions y (M, n) and
        fresh (M, N).

        The bias is that of the mean of `fresh` against `value`, the variance that of the mean of y.
        """
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
        self.goal = np.array([value, -np.inf, settings.noise, settings.as_published])
        self.order = grower.order.copy()
        self.records, simulated = grower.records(fresh)
        total, means = own.sum(axis=0), simulated / fresh.shape[1]
        normal = grower.rng.standard_normal(M)
        each = [
            kernel.score(total[m], total[M + m], means[m], float(n), self.goal, normal[m])
            for m in range(M)
        ]
        root = int(np.argmin(each))
        if settings.as_published:
            self.goal[1] = kernel.score(total[M - 1], total[-1], value, float(n), self.goal, 0.0)
        self.totals = np.array([total[root], total[M + root], simulated[root]])
        self.tree, self.choice = RandomTree([], [], [], [], []), np.full(n, root)
        self.stack = [(self.tree.add(root), (0, n), (0, fresh.shape[1]), 0)]

    def step(self, node: int, logged: tuple[int, int], fresh: tuple[int, int], depth: int) -> None:
        """Search a node, and divide it when one of its partitions is accepted."""
        settings, grower = self.grower.settings, self.grower
        count = logged[1] - logged[0]
        if depth >= settings.max_depth or count < 2 * settings.min_leaf:
            return
        first, features, shares, normal = self._draw(count)
        threshold = kernel.cuts(self.order, *logged, grower.context, features, shares)
        inside, simulated = self.order[-1, slice(*logged)], self._simulated(fresh, depth)
        own = kernel.left_sums(self.own, grower.places[0], inside, features, threshold)
        new = kernel.left_sums_of_records(simulated, self.M, grower.places[1], features, threshold)
        M, model = self.M, self.tree.model[node]
        base = self.totals - (own[-1, model], own[-1, M + model], new[-1, model])
        best = kernel.score(
            self.totals[0],
            self.totals[1],
            self.totals[2] / self.sizes[1],
            self.sizes[0],
            self.goal,
            first,
        )
        _, s, a, b = kernel.best_pair(own, new, base, self.sizes, self.goal, normal, best)
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

    def _simulated(self, part: tuple[int, int], depth: int) -> Records:
        """Return the records of a node: the root's are kept, deeper nodes go back and forth between
        two arrays.
        """
        values, halves, words = self.records[0 if depth == 0 else 1 + depth % 2]
        where = slice(*part)
        return values[where], halves[where], words[where]

    def _draw(self, count: int) -> tuple[float, Ints, Floats, Floats]:
        rng, settings = self.grower.rng, self.grower.settings
        S, M, share = settings.partitions, self.M, settings.min_leaf / count
        first = float(rng.standard_normal())
        # What `choice` of the legacy generator asks for, without its detours.
        whole = rng.integers if isinstance(rng, np.random.Generator) else rng.randint
        features = whole(0, self.grower.context.shape[1], size=S)
        shares = rng.uniform(share, 1 - share, size=S)
        by_feature = np.argsort(features, kind="stable")
        return first, features[by_feature], shares[by_feature], rng.standard_normal((S, M, M))

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
        middle = start + kernel.divide(
            self.order[:, start:stop], grower.context, *cut, grower.spare
        )
        between = first
        if depth < grower.settings.max_depth:  # leaves need no simulated rows
            source, target = (
                self._simulated((first, last), depth - 1),
                self._simulated((first, last), depth),
            )
            between += kernel.divide_records(source, target[2], self.M, grower.places[1], *cut)
        self.choice[self.order[-1, start:middle]], self.choice[self.order[-1, middle:stop]] = models
        self.stack.append((tree.left[node], (start, middle), (first, between), depth))
        self.stack.append((tree.right[node], (middle, stop), (between, last), depth))
