"""The paper's own AIPS: Algorithm 1 told the true bias plus noise, on the rows it is then applied
to.

The bias comes from ten fresh data sets of the log's size, as in the public code. In preset
`published` these are the published run's own, and so are the random partitions and the noise: the
same trees come out.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterrank import simulate
from counterrank.log import RankingLog
from counterrank.paper.algorithm1 import PartitionGrower, Random, RandomGrowth
from counterrank.paper.kernels.contributions import contributions
from counterrank.paper.replay import OracleView, Run
from counterrank.ratios import Ratios
from counterrank.simulate import Environment

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_FRESH_DATA_SETS = 10


@dataclass(slots=True, eq=False)
class Oracle:
    """What an oracle knows about a simulated log, made once and kept for any noise.

    `run` is the published run behind the log; without it, fresh rows are drawn and `values` (K,)
    are the true V_k.
    """

    env: Environment
    seed: int
    values: tuple[float, ...]
    run: Run | None = None
    _seen: dict[bool, OracleView] = field(default_factory=dict)

    def assignment(self, log: RankingLog, noise: float, *, cached: bool = False) -> "Assigned":
        """Return the model of each row and position, a tree for every position.

        `cached`: with the fresh data sets of a published run whose log was read back from disk
        (`Run.oracle`).
        """
        view = self._view(log.n, cached)
        grower = PartitionGrower(
            _context(log), view.context, RandomGrowth(noise=noise), self._generator()
        )
        y = logged_contributions(log, self.env.masks)
        chosen = [
            grower.grow(y[k], view.contributions[k], float(view.values[k]))[1] for k in range(log.K)
        ]
        return Assigned(self.env.masks, np.stack(chosen, axis=1))

    def _generator(self) -> Random:
        if self.run is not None:
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
    from counterrank.propensity import Propensity

    drawn, target = log.propensity, log.targets["new"]
    assert isinstance(drawn, Propensity)
    assert isinstance(target, Propensity)
    y = np.empty((log.K, len(masks), log.n))
    contributions(target.values / drawn.values, log.reward, masks, y)
    return y


def _context(log: RankingLog) -> Floats:
    assert log.context is not None
    return log.context
