"""Algorithm 1 of Kiyohara et al. (2023) as its figures were made: a few random partitions a node, depth first.

What the public code adds to the paper's text, and this mode repeats: the noise on the bias is drawn anew for each of
the M x M pairs of models; a split is accepted at an equal score; the variance is cut off below at that of the sparsest
model on all rows, except at the root; nodes are visited last in, first out, and the score is that of the whole
assignment. The choice uses the rows it is later averaged over: for reproducing the paper only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.tree.objective import Objective

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGrowth:
    """Settings of Algorithm 1: partitions tried at a node, noise of the bias, least rows of a leaf, depth.

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
        for values, value in zip((self.feature, self.left, self.right, self.model), (-1, -1, -1, model), strict=True):
            values.append(value)
        self.threshold.append(np.nan)
        return len(self.model) - 1


class RandomGrower:
    """One tree on statistics (n, L) of logged rows, then simulated ones; `logged` (n,) tells them apart."""

    def __init__(self, objective: Objective, settings: RandomGrowth, rng: np.random.Generator) -> None:
        self.objective, self.settings, self.rng = objective, settings, rng
        self.terms, self.coef, self.shape = objective.terms()
        self.floor = 0.0
        self.totals = np.zeros(self.shape[1])

    def grow(self, stats: Floats, context: Floats, logged: NDArray[np.bool_]) -> RandomTree:
        """Return the grown tree."""
        tree = RandomTree([], [], [], [], [])
        channels = self.channels(stats.sum(axis=0)[None])[0]  # (M, C)
        root = int(np.argmin(self.scores(channels)))
        self.totals = channels[root].copy()
        if self.settings.as_published:
            last = channels[-1]  # the sparsest stands last in the paper's list
            self.floor = float(last[1] - last[0] ** 2) / self.objective.n_apply
        stack = [(tree.add(root), np.arange(len(stats)), 0)]
        while stack:
            node, rows, depth = stack.pop()
            inside = rows[logged[rows]]
            if depth >= self.settings.max_depth or len(inside) < 2 * self.settings.min_leaf:
                continue
            found = self.search(stats[rows], context[rows], logged[rows], tree.model[node])
            if found is None:
                continue
            feature, threshold, (a, b), left = found
            tree.feature[node], tree.threshold[node] = feature, threshold
            tree.left[node], tree.right[node] = tree.add(a), tree.add(b)
            stack.append((tree.left[node], rows[left], depth + 1))
            stack.append((tree.right[node], rows[~left], depth + 1))
        return tree

    def search(
        self, stats: Floats, context: Floats, logged: NDArray[np.bool_], model: int
    ) -> tuple[int, float, tuple[int, int], NDArray[np.bool_]] | None:
        """Return the best of the random partitions of a node, or None; the totals then include it."""
        rng, least = self.rng, self.settings.min_leaf
        whole = stats.sum(axis=0)
        here = self.channels(whole[None])[0][model]
        base = self.totals - here
        best = float(self.scores(self.totals[None])[0])
        features = rng.integers(context.shape[1], size=self.settings.partitions)
        count = int(logged.sum())
        shares = rng.uniform(least / count, 1 - least / count, size=self.settings.partitions)
        thresholds = np.array([_cut(context[logged, f], s) for f, s in zip(features, shares, strict=True)])
        goes_left = context[:, features].T < thresholds[:, None]  # (S, n)
        lefts = goes_left.astype(np.float64) @ stats  # (S, L)
        on_left, on_right = self.channels(lefts), self.channels(whole - lefts)  # (S, M, C)
        every = base + on_left[:, :, None, :] + on_right[:, None, :, :]  # (S, M, M, C)
        scores = self.scores(every)
        at = np.unravel_index(int(np.argmin(scores)), scores.shape)
        value = float(scores[at])
        if value > best or (value == best and not self.settings.as_published):
            return None
        self.totals = every[at].copy()
        s, a, b = (int(i) for i in at)
        return int(features[s]), float(thresholds[s]), (a, b), goes_left[s]

    def channels(self, stats: Floats) -> Floats:
        """Return the channels (S, M, C) of statistics (S, L)."""
        from counterrank.kernels.splitting import expand_all

        return expand_all(stats, self.terms, self.coef, self.shape)

    def scores(self, channels: Floats) -> Floats:
        """Return variance + squared bias with fresh noise for channels (..., C), of a known or simulated truth."""
        spread = channels[..., 1] - channels[..., 0] ** 2
        variance = np.maximum(spread / self.objective.n_apply, self.floor)
        bias = channels[..., 2] - self.objective.targets[0]
        bias = bias + self.settings.noise * np.abs(bias) * self.rng.standard_normal(bias.shape)
        out: Floats = variance + bias**2
        return out


def _cut(values: Floats, share: float) -> float:
    """Return the midpoint between the values around rank share * n."""
    ordered = np.sort(values)
    rank = min(max(int(share * len(ordered)), 1), len(ordered) - 1)
    return float(ordered[rank - 1] + ordered[rank]) / 2
