"""IIPS: a reward depends on the own item alone. Little variance; biased when items interact."""

from dataclasses import dataclass

from counterrank.behavior import Bools, independent
from counterrank.estimators.masked import MaskEstimator


@dataclass(frozen=True)
class IIPS(MaskEstimator):
    """V_k = mean of pi(a_k|x)/pi0(a_k|x) r_k (Li et al. 2018).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.IIPS().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "iips"

    def mask(self, length: int) -> Bools:
        """Return the identity."""
        return independent(length)
