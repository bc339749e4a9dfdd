"""A logger that always shows the same list tells nothing about others: refuse, and say what is
possible.
"""

from collections.abc import Callable, Sequence

import numpy as np

from counterrank.errors import PropensityError
from counterrank.log import RankingLog
from counterrank.policies import Policy
from counterrank.propensity import Propensity

WHAT_IS_POSSIBLE = (
    "What is possible: (1) if the same context was shown different lists over time, estimate the "
    "propensities (--estimate-propensity by-list:COLUMNS); (2) show a random list, or swap "
    "neighbouring items at random, for a few percent of requests and log the probabilities; (3) an "
    "A/B test"
)


def refuse_deterministic(
    first: RankingLog,
    sample: Callable[[], RankingLog],
    targets: Sequence[str],
    *,
    by_model: bool = False,
) -> None:
    """Raise when every logged propensity is 1, in the first rows and in a sample, while a target's
    are not.

    `by_model`: only estimators that need no weights were asked for.
    """
    if by_model or not _certain(first) or not _certain(probe := sample()):
        return
    others = [probe.target(name) for name in targets]
    same = [
        isinstance(p, Propensity) and bool((np.abs(p.values - 1.0) < 1e-12).all()) for p in others
    ]
    if all(same):
        return
    if isinstance(first.propensity, Policy):
        raise PropensityError(
            "the logging policy is deterministic: it has one list for each request. Weights then "
            "compare nothing, and no estimate is given. What is possible: (1) a model of users: "
            "--estimators pbm,click-model; (2) swap neighbouring items at random for a few percent "
            "of requests and log it; (3) an A/B test"
        )
    raise PropensityError(
        "every logged propensity is 1: the logging policy is deterministic, or the column holds no "
        f"propensities. Weights then compare nothing, and no estimate is given. {WHAT_IS_POSSIBLE}"
    )


def _certain(log: RankingLog) -> bool:
    if isinstance(log.propensity, Policy):
        return log.propensity.deterministic
    return bool((log.propensity.values == 1.0).all())
