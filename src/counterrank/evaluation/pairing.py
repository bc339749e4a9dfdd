"""How the estimates of one pass vary together: paired differences and how many rows make each."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.evaluation.jobs import Job
from counterrank.evaluation.state import Totals

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The row totals of a pass and which of their columns belong to which plan; column 0 is the logger."""

    totals: Totals
    states: Mapping[Hashable, Any]
    offsets: Mapping[Hashable, int]

    def combination(self, job: Job) -> Floats:
        """Return how the job's estimate combines the columns (T,)."""
        return self._placed(job, job.plan.combination(self.states[job.plan.key]))

    def _placed(self, job: Job, own: Floats) -> Floats:
        result = np.zeros(len(self.totals.sums))
        first = self.offsets[job.plan.key]
        result[first : first + len(own)] = own
        return result

    def stderr_of_difference(self, left: Job, right: Job) -> float:
        """Return the standard error of the difference of two estimates on the same rows."""
        combined = [self._placed(job, job.plan.error_combination(self.states[job.plan.key])) for job in (left, right)]
        return float(np.sqrt(self.totals.variance(combined[0] - combined[1])))

    def effective_outcomes(self, job: Job) -> float:
        """Return (sum |t|)^2 / sum t^2 of the row totals t: with 0/1 rewards and even weights, the rows with a 1.

        The smaller of the logger's own and, where the estimate is one column, the estimate's.
        """
        used = np.flatnonzero(self.combination(job))
        columns = [0, int(used[0])] if len(used) == 1 else [0]
        square, absolute = self.totals.gram.diagonal()[columns], self.totals.absolute[columns]
        return float(np.divide(absolute**2, square, out=np.zeros_like(square), where=square > 0).min())


def pairing(jobs: Sequence[Job], states: Mapping[Hashable, Any], totals: Totals) -> Pairing:
    """Return the pairing of jobs whose states stand in the order of the pass."""
    plans = {job.plan.key: job.plan for job in jobs}
    offsets, first = {}, 1
    for key, state in states.items():
        offsets[key] = first
        first += len(plans[key].combination(state))
    return Pairing(totals, states, offsets)
