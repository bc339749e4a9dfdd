"""RIPS: a reward depends on the own item and those above (cascade)."""

from dataclasses import dataclass

from counterrank.behavior import Bools, cascade
from counterrank.estimators.masked import MaskEstimator


@dataclass(frozen=True)
class RIPS(MaskEstimator):
    """V_k = mean of pi(a_1..a_k|x)/pi0(a_1..a_k|x) r_k (McInerney et al. 2020).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> [v.value for v in cr.RIPS().estimate(log, [[1, .5], [.5, .5]]).by_position]
    [1.0, 0.5]
    """

    name: str = "rips"

    def mask(self, length: int) -> Bools:
        """Return the lower triangle."""
        return cascade(length)
