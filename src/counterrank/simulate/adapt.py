"""A simulated log as the log that users have."""

import numpy as np

from counterrank.log import LOGGING, RankingLog
from counterrank.propensity import Propensity
from counterrank.simulate.draw import SimulatedLog

#: The name of the evaluated policy in every simulated log.
TARGET = "new"


def to_log(simulated: SimulatedLog) -> RankingLog:
    """Return the rankings with target "new", whole distributions of factored policies, and behaviour names.

    Plackett-Luce policies are given as policies, which know every marginal; their numbers would not.
    """
    env = simulated.env
    drawn = simulated.p0 if simulated.drawn_by == "logging" else simulated.p1
    names = np.array(env.behavior_names)[simulated.behavior]
    if not env.factored:
        from counterrank.policies import PlackettLuce

        return RankingLog(
            action=simulated.action,
            reward=simulated.reward,
            propensity=PlackettLuce(np.log(drawn)),
            context=simulated.context,
            behavior=names,
            targets={TARGET: PlackettLuce(np.log(simulated.p1))},
        )
    return RankingLog(
        action=simulated.action,
        reward=simulated.reward,
        propensity=Propensity("factored", simulated.propensity),
        context=simulated.context,
        behavior=names,
        targets={TARGET: Propensity("factored", simulated.target)},
        dists={LOGGING: drawn, TARGET: simulated.p1},
    )
