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

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.arrays import Floats, Ints
from counterrank.data.log import RankingLog
from counterrank.data.propensity import Propensity
from counterrank.kernels.jit import jit
from counterrank.research import simulate
from counterrank.research.paper.columns import column, with_columns
from counterrank.research.paper.figures import Algorithm, OracleForm
from counterrank.research.paper.replay import OracleView, PublishedRun, contributions
from counterrank.research.simulate import Environment
from counterrank.weights.ratios import Ratios

Singles = NDArray[np.float32] | Floats
Random = np.random.Generator | np.random.RandomState
Number = Floats | np.float64 | float


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

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    model: list[int] = field(default_factory=list)

    def add(self, model: int) -> int:
        """Add a leaf and return its number."""
        for values in (self.feature, self.left, self.right):
            values.append(-1)
        self.model.append(model)
        self.threshold.append(np.nan)
        return len(self.model) - 1


@dataclass(slots=True, eq=False)
class PartitionGrower:
    """Grows trees on the contexts of logged rows (n, d) and of simulated ones (N, d).

    `rng` is asked in a fixed order: M normals at the root; at a node one normal, the features,
    their shares, then M x M normals a partition. The published runs asked a legacy generator in
    this order. After the text, it is asked for M normals at every node, and for none before the
    root.
    """

    context: Floats
    fresh: Floats
    settings: RandomGrowth
    rng: Random

    def grow(self, y: Floats, fresh: Singles, value: float) -> tuple[RandomTree, Ints]:
        """Return the tree and the model of each logged row (n,), from contributions y (M, n) and fresh (M, N).

        The bias is that of the mean of `fresh` against `value`, the variance that of the mean of y.
        """
        state = _Growth(self, y, fresh, value)
        while state.stack:
            state.step(*state.stack.pop())
        return state.tree, state.choice


@jit
def left_sums(
    values: Singles, context: Floats, rows: Ints, features: Ints, threshold: Floats
) -> Floats:
    """Return the sums (S + 1, L) of values (n, L) over rows left of each cut, then over all rows."""
    cuts, width = features.shape[0], values.shape[1]
    out = np.zeros((cuts + 1, width))
    for i in rows:
        for c in range(width):
            out[cuts, c] += values[i, c]
        for s in range(cuts):
            if context[i, features[s]] < threshold[s]:
                for c in range(width):
                    out[s, c] += values[i, c]
    return out


class _Growth:
    """One tree on its way: the sums of the assignment so far, over logged and over simulated rows."""

    def __init__(self, grower: PartitionGrower, y: Floats, fresh: Singles, value: float) -> None:
        self.grower, self.value, (self.M, n) = grower, value, y.shape
        # Row by row, since rows of a node are picked one by one: y, its square; simulated y.
        self.own = np.concatenate([y, y**2]).T.copy()
        self.new: NDArray[Any] = np.ascontiguousarray(fresh.T)
        self.n, self.N, self.floor = n, len(self.new), -np.inf
        self.totals, self.code = np.zeros(3), grower.settings.algorithm == "code"
        own, new = self.own.sum(axis=0), self.new.sum(axis=0, dtype=np.float64)
        # After the text, line 5 chooses the root's model like every other node's.
        root = self._best_model(own, new)[1] if self.code else 0
        if self.code:
            # The variance of the last model; set after the root is scored, which has no floor in
            # the public code.
            last = self.M - 1
            self.floor = float(self._score(own[last], own[-1], value, 0.0))
        self.totals = self._of_model(own, new, root)
        self.tree, self.choice = RandomTree(), np.full(n, root)
        self.stack = [(self.tree.add(root), np.arange(n), np.arange(self.N), 0)]

    def _score(self, total: Number, square: Number, mean: Number, normal: Number) -> Floats:
        """Return variance + squared bias, of the sum and sum of squares over logged rows and of a simulated mean."""
        variance = (square - total * total / self.n) / (self.n - 1.0) / self.n
        bias = mean - self.value
        # Noise in proportion to the bias: sigma = .3 |bias| in section 4.1.
        bias = bias + np.abs(bias) * self.grower.settings.noise * normal
        found: Floats = np.maximum(variance, self.floor) + bias * bias
        return found

    def _of_model(self, own: Floats, new: Floats, model: int) -> Floats:
        return np.array([own[model], own[self.M + model], new[model]])

    def _best_model(self, own: Floats, new: Floats) -> tuple[float, int]:
        """Return the least score and its model, of sums (2 M,) and (M,) added to the totals."""
        normal = self.grower.rng.standard_normal(self.M)
        first, second, mean = self.totals
        each = self._score(
            first + own[: self.M], second + own[self.M :], (mean + new) / self.N, normal
        )
        return float(each.min()), int(each.argmin())

    def step(self, node: int, rows: Ints, fresh: Ints, depth: int) -> None:
        """Search a node, and divide it when one of its partitions is accepted."""
        settings, grower = self.grower.settings, self.grower
        best = np.inf if self.code else self._line_5(node, rows, fresh)
        if depth >= settings.max_depth or len(rows) < 2 * settings.min_leaf:
            return
        if self.code:
            first, second, mean = self.totals
            best = float(self._score(first, second, mean / self.N, grower.rng.standard_normal()))
        features, threshold, normal = self._draw(rows)
        own = left_sums(self.own, grower.context, rows, features, threshold)
        new = left_sums(self.new, grower.fresh, fresh, features, threshold)
        # The assignment without this node: squared bias is of the whole, so no node can be scored
        # by itself.
        base = self.totals - self._of_model(own[-1], new[-1], self.tree.model[node])
        found = self._best_pair(own, new, base, normal, best)
        if found is None:
            return
        s, a, b = found
        self.totals = (
            base
            + self._of_model(own[s], new[s], a)
            + self._of_model(own[-1] - own[s], new[-1] - new[s], b)
        )
        self._divide(node, rows, fresh, (int(features[s]), float(threshold[s])), (a, b), depth + 1)

    def _line_5(self, node: int, rows: Ints, fresh: Ints) -> float:
        """Give the node the model of least MSE, all other nodes as they are, and return that MSE."""
        own = self.own[rows].sum(axis=0)
        new = self.new[fresh].sum(axis=0, dtype=np.float64)
        self.totals = self.totals - self._of_model(own, new, self.tree.model[node])
        best, model = self._best_model(own, new)
        self.totals = self.totals + self._of_model(own, new, model)
        self.tree.model[node] = self.choice[rows] = model
        return best

    def _draw(self, rows: Ints) -> tuple[Ints, Floats, Floats]:
        """Return features and thresholds (S,) of random partitions, and the noise (S, M, M) of their bias."""
        rng, settings = self.grower.rng, self.grower.settings
        S, M, count = settings.partitions, self.M, len(rows)
        least = settings.min_leaf / count
        # What `choice` of the legacy generator asks for, without its detours.
        whole = rng.integers if isinstance(rng, np.random.Generator) else rng.randint
        features = whole(0, self.grower.context.shape[1], size=S)
        shares = rng.uniform(least, 1 - least, size=S)
        # Before the normals are drawn: the public code visits partitions feature by feature.
        order = np.argsort(features, kind="stable")
        features, shares = features[order], shares[order]
        ordered = {f: np.sort(self.grower.context[rows, f]) for f in np.unique(features)}
        # A row on either side: there is no midpoint before the first or after the last.
        ranks = np.clip((shares * count).astype(np.int64), 1, count - 1)
        both = [ordered[f][r - 1 : r + 1] for f, r in zip(features, ranks, strict=True)]
        return features, np.array([(a + b) / 2.0 for a, b in both]), rng.standard_normal((S, M, M))

    def _best_pair(
        self, own: Floats, new: Floats, base: Floats, normal: Floats, best: float
    ) -> tuple[int, int, int] | None:
        """Return the cut and the left and right model of the least score not above `best`; None where there is none."""
        M = self.M

        def both(left: Floats) -> Floats:
            """Return sums (S, M, M) with each model on the left and on the right."""
            sums: Floats = left[:-1, :, None] + (left[-1] - left[:-1])[:, None, :]
            return sums

        scores = self._score(
            base[0] + both(own[:, :M]),
            base[1] + both(own[:, M:]),
            (base[2] + both(new)) / self.N,
            normal,
        )
        chosen = None
        for s, every in enumerate(scores):
            here = every.min()
            # The best pair of a partition first, then the partitions: where an equal score counts,
            # the last partition wins, as in the public code.
            if here < best or (self.code and here == best):
                best, chosen = here, (s, *divmod(int(every.argmin()), M))
        return chosen

    def _divide(
        self,
        node: int,
        rows: Ints,
        fresh: Ints,
        cut: tuple[int, float],
        models: tuple[int, int],
        depth: int,
    ) -> None:
        tree, (feature, threshold) = self.tree, cut
        tree.feature[node], tree.threshold[node] = cut
        tree.left[node], tree.right[node] = (tree.add(model) for model in models)
        left = self.grower.context[rows, feature] < threshold
        below = self.grower.fresh[fresh, feature] < threshold
        self.choice[rows] = np.where(left, *models)
        self.stack.append((tree.left[node], rows[left], fresh[below], depth))
        self.stack.append((tree.right[node], rows[~left], fresh[~below], depth))


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

    def assignment(self, log: RankingLog, form: OracleForm) -> "Assigned":
        """Return the model of each row and position, a tree for every position.

        A form that is `cached` has the fresh data sets of a published run whose log was read back
        from disk (`PublishedRun.oracle`).
        """
        view, columns = self._view(log.n, form.cached), [column(name) for name in form.columns]
        grower = PartitionGrower(
            with_columns(_context(log), columns),
            with_columns(view.context, columns),
            RandomGrowth(noise=form.noise, algorithm=form.algorithm),
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
