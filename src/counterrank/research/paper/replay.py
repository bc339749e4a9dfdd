"""The published data sets, draw for draw: the log of a run, and what its oracle saw.

The original runs take contexts and actions from one legacy generator seeded by the run, but
behaviours and noise from generators seeded 12345 in every run: all runs of equal n share them. The
published figures are then averages over contexts and actions alone. Runs 0..299 give the published
MSE of IPS, IIPS, RIPS and AIPS (true): of the 63 values that can be read at the 16 distinct points,
57 agree within 1 % and all within 3 %. The number of runs is inferred: prefixes of runs were
compared with four points (n = 1k to 8k), and the other twelve then agreed. The text speaks of 1000
runs in section 4.2 and of 300 in the appendix.

After the log, the same generator draws what the public code's tree is told: V_k from 10,000
rankings shown by the target, then ten fresh data sets of the log's size
(github.com/aiueola/kdd2023-aips, src/main.py and src/tree.py).

`RandomTree` is Algorithm 1 of Kiyohara et al. (2023) as its figures were made: a few random partitions a
node, depth first. What the public code adds to the paper's text, and this mode repeats: the noise on the bias is drawn
anew for each of the M x M pairs of models; a split is accepted at an equal score; the variance is
cut off below at that of the last model on all rows, except at the root; nodes are visited last in,
first out, and the score is that of the whole assignment. The choice uses the rows it is later
averaged over: for reproducing the paper only.

With the generator, the models and the simulated rows of a published run, the trees are that run's
own trees.

`oracle_assignment` tells it the true bias plus noise. The bias comes from ten fresh data sets of the log's
size, which are the published run's own, and so are the random partitions and the noise.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from counterrank.common.arrays import Bools, Floats, Ints
from counterrank.common.errors import ConfigError
from counterrank.data.log import Propensity, RankingLog
from counterrank.estimators.weights.ratios import Ratios
from counterrank.kernels.jit import jit
from counterrank.research.paper.figures import ORACLE_NOISE
from counterrank.research.simulate import (
    Environment,
    SimulatedLog,
    Which,
    behavior_probability,
    closed_form,
    distribution,
    effect_of_others,
    whole,
)

_SHARED_SEED = 12345
_VALUE_ROWS = 10_000
_FRESH_DATA_SETS = 10


@dataclass(frozen=True, slots=True)
class OracleView:
    """What an oracle knows besides the log: V_k (K,), fresh contexts (N, d), contributions of every model (K, M, N).

    Contributions are kept in single precision: their rounding is far below the error of their mean.
    """

    values: Floats
    context: Floats
    contributions: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRun:
    """One run of the published experiment: its rows, and its generator as they left it.

    `base` are the base rewards (ceil(n / K), A) of the contexts that its rows see.
    """

    env: Environment
    seed: int
    log: SimulatedLog
    base: Floats
    stream: np.random.RandomState

    def value(self) -> Floats:
        """Return V_k of the target on the run's contexts, behaviours and noise, actions summed out: (K,).

        The published V is the average of on-policy runs on these rows; this is its mean over their
        actions.
        """
        env, n = self.env, len(self.log.context)
        # Row i sees the base reward of row i // K.
        base, behavior = self.base[np.arange(n) // env.K], np.eye(env.M)[self.log.behavior]
        by_row = closed_form(env, self.log.p1, base, behavior)
        out: Floats = by_row.mean(axis=0) + env.sigma * _shared(n)[1].mean()
        return out

    def oracle(self) -> OracleView:
        """Return what the tree of this run was told; the same at every call."""
        env, n = self.env, len(self.log.context)
        stream = np.random.RandomState()
        stream.set_state(self.stream.get_state())
        # The original's truth: the target's actions on the log's contexts.
        stream.random_sample((n, env.K))
        context = stream.standard_normal((_VALUE_ROWS, env.d))
        # Draws of the original that nothing here uses: the stream has to move on.
        stream.random_sample((_VALUE_ROWS, env.K))
        values = _batch(env, context, stream, "target")[0].reward.mean(axis=0)
        ratio = _policy(env, "target") / _policy(env, "logging")
        context = np.empty((_FRESH_DATA_SETS * n, env.d))
        y = np.empty((env.K, env.M, len(context)), dtype=np.float32)
        for first in range(0, len(context), n):
            block = slice(first, first + n)
            context[block] = stream.standard_normal((n, env.d))
            fresh, _ = _batch(env, context[block], stream)
            contributions(ratio[fresh.action], fresh.reward, env.masks, y[:, :, block])
        return OracleView(values, context, y)


def replay_run(env: Environment, n: int, seed: int) -> PublishedRun:
    """Return run `seed` of the published experiment, for an environment of preset `published`.

    Base rewards are standardised over the run's own rows and seen with the context of row i // K,
    as there.

    >>> from counterrank.research.simulate import published
    >>> replay_run(published(), 1000, 0).log.action[0].tolist()
    [0, 1, 1, 0, 1, 1, 1, 1]
    """
    if env.name != "published":
        raise ConfigError(f"only preset 'published' can be replayed; this is {env.name!r}")
    whole("n", n, 2)
    if whole("seed", seed, 0) >= 2**32:
        raise ConfigError(
            f"seed is {seed}; runs of the published experiment are numbered below 2^32"
        )
    stream = np.random.RandomState(seed)
    return PublishedRun(env, seed, *_batch(env, stream.standard_normal((n, env.d)), stream), stream)


def _batch(
    env: Environment, context: Floats, stream: np.random.RandomState, policy: Which = "logging"
) -> tuple[SimulatedLog, Floats]:
    """Return rows of these contexts (n, d), their actions drawn from the stream, and base rewards."""
    n = len(context)
    uniform, noise = _shared(n)
    linear = env.base(context)
    # The original standardises over the rows of the run, so its base rewards differ a little from
    # run to run.
    base = 1.0 + expit((linear[: -(-n // env.K)] - linear.mean()) / linear.std())
    # Inverse distribution functions; what rounding leaves belongs to the last class.
    below = behavior_probability(env, context).cumsum(axis=1)[:, :-1]
    behavior = (below <= uniform[:, None]).sum(axis=1, dtype=np.int64)
    shown = np.cumsum(_policy(env, policy))[:-1]
    action = np.searchsorted(shown, stream.random_sample((n, env.K)), side="right")
    q = expected(action, behavior, env.masks, env.interaction, base)
    # Views of one row: these policies ignore the context.
    p0, p1 = (np.broadcast_to(_policy(env, which), (n, env.A)) for which in ("logging", "target"))
    reward = q + env.sigma * noise[:, None]
    return SimulatedLog(env, context, action, reward, p0, p1, behavior, q, policy), base


def _policy(env: Environment, which: Which) -> Floats:
    """Return the distribution (A,) of a policy: in this environment it ignores the context."""
    first: Floats = distribution(env, np.zeros((1, env.d)), which)[0]
    return first


@lru_cache(maxsize=16)
def _shared(n: int) -> tuple[Floats, Floats]:
    """Return the uniforms behind behaviours and the noise, which all data sets of n rows share."""
    return np.random.RandomState(_SHARED_SEED).uniform(size=n), np.random.RandomState(
        _SHARED_SEED
    ).standard_normal(n)


def expected(action: Ints, behavior: Ints, masks: Bools, effect: Floats, base: Floats) -> Floats:
    """Return base(x', a_k) + sum of effect[a_k, a_l] over the relevant l, in half precision: (n, K).

    Row i of the original sees the context of row i // K: base is (ceil(n / K), A). The original
    keeps expected rewards as float16: up to 5e-4 of each value is its rounding.
    """
    n, K = action.shape
    base_of_item = base[np.arange(n)[:, None] // K, action]
    total: Floats = base_of_item + effect_of_others(action, behavior, masks, effect)
    return total.astype(np.float16).astype(np.float64)


@jit
def contributions(
    ratio: Floats, reward: Floats, masks: Bools, out: Floats | NDArray[np.float32]
) -> None:
    """Fill out (K, M, n): reward[i, k] times the product of ratio[i, l] over the items l in masks[m, k].

    >>> out = np.empty((2, 1, 1))
    >>> contributions(np.array([[2.0, 3.0]]), np.ones((1, 2)), np.array([[[True, True], [False, True]]]), out)
    >>> out.ravel().tolist()
    [6.0, 3.0]
    """
    n, K = ratio.shape
    for m in range(len(masks)):
        for i in range(n):
            for k in range(K):
                weight = 1.0
                for place in range(K):
                    if masks[m, k, place]:
                        weight *= ratio[i, place]
                out[k, m, i] = weight * reward[i, k]


@jit
def sums_below(
    context: Floats, table: Floats, rows: Ints, features: Ints, threshold: Floats
) -> Floats:
    """Return the sums of a table (n, C) over the rows that are below the same thresholds (2^S, C).

    Bit s of a line's number says whether these rows are below threshold s of their features. A row is then
    added once, not S times.

    >>> sums_below(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0]]), np.arange(2), np.array([0]), np.array([2.0]))
    array([[4.],
           [3.]])
    """
    S, C = len(features), table.shape[1]
    sums = np.zeros((1 << S, C))
    for row in rows:
        sides = 0
        for s in range(S):
            sides |= (context[row, features[s]] < threshold[s]) << s
        for c in range(C):
            sums[sides, c] += table[row, c]
    return sums


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGrowth:
    """Settings of Algorithm 1: partitions tried at a node, noise of the bias, least rows of a leaf, depth."""

    partitions: int = 10
    noise: float = ORACLE_NOISE
    min_leaf: int = 100
    max_depth: int = 5


class RandomTree:
    """A tree over the contexts of logged rows (n, d) and of simulated ones (N, d).

    It is grown from contributions y (M, n) and fresh (M, N): the bias is that of the mean of `fresh`
    against `value`, the variance that of the mean of y. `choice` (n,) is the model of each logged
    row, `nodes` are [model, feature (-1: leaf), threshold (left when below)] in order of creation.

    `rng` is asked in a fixed order: M normals at the root; at a node one normal, the features,
    their shares, then M x M normals a partition. The published runs asked a legacy generator in
    this order.
    """

    def __init__(
        self,
        contexts: tuple[Floats, Floats],
        y: Floats,
        fresh: Floats | NDArray[np.float32],
        value: float,
        settings: RandomGrowth,
        rng: np.random.RandomState,
    ) -> None:
        self.contexts, self.value, self.settings, self.rng = contexts, value, settings, rng
        self.M, self.n = y.shape
        # Row by row, since rows of a node are picked one by one: y, its square; simulated y.
        logged = np.concatenate([y, y**2]).T.copy()
        self.tables = (logged, np.ascontiguousarray(fresh.T, dtype=np.float64))
        self.floor = -np.inf
        rows = (np.arange(self.n), np.arange(len(self.tables[1])))
        root_sums = self._sums(rows, rows[0][:0], np.empty(0))[-1]
        root = int(self._score(root_sums, rng.standard_normal(self.M)).argmin())
        # The variance of the last model, without a bias; set after the root is scored, which has no
        # floor in the public code.
        last = np.array([*root_sums[:2, -1], value * len(rows[1])])
        self.floor = float(self._score(last, 0.0))
        #: Sums of y, of its squares and of simulated y under the assignment so far.
        self.totals = root_sums[:, root]
        self.nodes: list[list[float]] = [[root, -1, np.nan]]
        self.choice = np.full(self.n, root)
        stack = [(0, *rows, 0)]
        while stack:
            stack += self._split(*stack.pop())

    def _sums(self, rows: tuple[Ints, Ints], features: Ints, threshold: Floats) -> Floats:
        """Return the sums of y, of its squares and of simulated y left of each threshold, and of all (S + 1, 3, M)."""
        sums = map(
            sums_below, self.contexts, self.tables, rows, repeat(features), repeat(threshold)
        )
        alike = np.concatenate(list(sums), axis=1)
        left = np.arange(len(alike)) >> np.arange(len(features))[:, None] & 1
        return np.concatenate([left @ alike, alike.sum(axis=0)[None]]).reshape(-1, 3, self.M)

    def _score(self, sums: Floats, normal: Floats | float) -> Floats:
        """Return variance + squared bias of assignments with these sums (3, ...)."""
        variance = (sums[1] - sums[0] * sums[0] / self.n) / (self.n - 1.0) / self.n
        bias = sums[2] / len(self.tables[1]) - self.value
        # Noise in proportion to the bias: sigma = .3 |bias| in section 4.1.
        bias = bias + np.abs(bias) * self.settings.noise * normal
        score: Floats = np.maximum(variance, self.floor) + bias * bias
        return score

    def _split(
        self, node: int, rows: Ints, fresh: Ints, depth: int
    ) -> list[tuple[int, Ints, Ints, int]]:
        """Search a node; return its two sides when one of its partitions is accepted."""
        if depth >= self.settings.max_depth or len(rows) < 2 * self.settings.min_leaf:
            return []
        best = float(self._score(self.totals, self.rng.standard_normal()))
        features, threshold, normal = self._draw(rows)
        sides = self._sums((rows, fresh), features, threshold)
        left, right = sides[:-1], sides[-1] - sides[:-1]  # (S, 3, M)
        # The assignment without this node: squared bias is of the whole, so no node can be scored
        # by itself.
        base = self.totals - sides[-1][:, int(self.nodes[node][0])]
        sums = base[:, None, None] + (left[..., None] + right[:, :, None, :])  # (S, 3, M, M)
        scores = self._score(sums.swapaxes(0, 1), normal).reshape(len(features), -1)
        least = scores.min(axis=1)
        if least.min() > best:
            return []
        # The best pair of a partition first, then the partitions: an equal score counts, so the last
        # partition wins, as in the public code.
        s = int(np.flatnonzero(least == least.min())[-1])
        models = divmod(int(scores[s].argmin()), self.M)
        self.totals = sums[s, :, models[0], models[1]]
        self.nodes[node][1:] = int(features[s]), float(threshold[s])
        mine, theirs = (
            context[selected, features[s]] < threshold[s]
            for context, selected in zip(self.contexts, (rows, fresh), strict=True)
        )
        self.choice[rows] = np.where(mine, *models)
        self.nodes += [[model, -1, np.nan] for model in models]
        last = len(self.nodes) - 1
        return [
            (last - 1, rows[mine], fresh[theirs], depth + 1),
            (last, rows[~mine], fresh[~theirs], depth + 1),
        ]

    def _draw(self, rows: Ints) -> tuple[Ints, Floats, Floats]:
        """Return features and thresholds (S,) of random partitions, and the noise (S, M, M) of their bias."""
        rng, S, context, count = self.rng, self.settings.partitions, self.contexts[0], len(rows)
        least = self.settings.min_leaf / count
        # What `choice` of the legacy generator asks for, without its detours.
        features = rng.randint(0, context.shape[1], size=S)
        shares = rng.uniform(least, 1 - least, size=S)
        # Before the normals are drawn: the public code visits partitions feature by feature.
        order = np.argsort(features, kind="stable")
        features, shares = features[order], shares[order]
        ordered = np.sort(context[rows], axis=0)
        # A row on either side: there is no midpoint before the first or after the last.
        ranks = np.clip((shares * count).astype(np.int64), 1, count - 1)
        threshold = (ordered[ranks - 1, features] + ordered[ranks, features]) / 2.0
        return features, threshold, rng.standard_normal((S, self.M, self.M))


@dataclass(frozen=True, slots=True, eq=False)
class Assigned:
    """Rows weighed by models (n, K) chosen for them."""

    masks: Bools
    choice: Ints

    def weights(self, batch: RankingLog, ratios: Ratios) -> Floats:
        """Return importance weights (n, K)."""
        return ratios.by_choice(self.masks, self.choice[batch.rows])


@lru_cache(maxsize=1)
def _oracle_view(run: PublishedRun) -> OracleView:
    """Return what the oracle of a run is told, made once for any noise."""
    return run.oracle()


def oracle_assignment(run: PublishedRun, log: RankingLog, noise: float = ORACLE_NOISE) -> Assigned:
    """Return the model of each row and position, a tree for every position of a published run."""
    view, masks, settings = _oracle_view(run), run.env.masks, RandomGrowth(noise=noise)
    # The legacy generator: its normals are not those of `default_rng`, whatever the seed.
    rng = np.random.RandomState(run.seed)
    assert log.context is not None
    contexts, y = (log.context, view.context), logged_contributions(log, masks)
    chosen = [
        RandomTree(
            contexts, y[k], view.contributions[k], float(view.values[k]), settings, rng
        ).choice
        for k in range(log.K)
    ]
    return Assigned(masks, np.stack(chosen, axis=1))


def logged_contributions(log: RankingLog, masks: Bools) -> Floats:
    """Return w r of every model on a simulated log of factored policies: (K, M, n)."""
    drawn, target = log.propensity, log.targets["new"]
    assert isinstance(drawn, Propensity)
    assert isinstance(target, Propensity)
    y = np.empty((log.K, len(masks), log.n))
    contributions(target.values / drawn.values, log.reward, masks, y)
    return y
