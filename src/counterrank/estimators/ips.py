"""IPS: every item matters to every reward. Unbiased, and the variance explodes with K."""

from dataclasses import dataclass

from counterrank.behavior import Bools, standard
from counterrank.estimators.masked import MaskEstimator


@dataclass(frozen=True)
class IPS(MaskEstimator):
    """V_k = mean of pi(a|x)/pi0(a|x) r_k (Precup et al. 2000).

    >>> import counterrank as cr
    >>> log = cr.RankingLog(action=[[0, 1], [1, 0]], reward=[[1, 0], [0, 1]], propensity=[[.5, .5], [.5, .5]])
    >>> cr.IPS().estimate(log, [[1, .5], [.5, .5]]).value
    1.5
    """

    name: str = "ips"

    def mask(self, length: int) -> Bools:
        """Return all ones."""
        return standard(length)
