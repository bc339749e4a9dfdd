"""The lines between reliable, directional and insufficient evidence: one table, each with its reason."""

from dataclasses import dataclass

from counterrank.common.findings import FAILED, PASSED, WARNED, Outcome


@dataclass(frozen=True, slots=True)
class Threshold:
    """A check passes up to `reliable`, warns up to `directional` and fails beyond it."""

    measures: str
    reliable: float
    directional: float
    more_is_better: bool
    why: str

    def status(self, value: float) -> Outcome:
        """Return passed, warned or failed; what cannot be computed fails.

        >>> THRESHOLDS["ess"].status(250.0)
        <Outcome.WARNED: 'warned'>
        """
        if self.more_is_better:
            return (
                PASSED
                if value >= self.reliable
                else WARNED
                if value >= self.directional
                else FAILED
            )
        return PASSED if value <= self.reliable else WARNED if value <= self.directional else FAILED


#: By check.
THRESHOLDS = {
    "units": Threshold(
        "independent rows, or buckets of users when clustered",
        500,
        100,
        more_is_better=True,
        why="the relative error of a standard error is about 1/sqrt(2m): 3 % at 500, 7 % at 100",
    ),
    "ess": Threshold(
        "effective rows of the weights, (sum w)^2 / sum w^2",
        500,
        100,
        more_is_better=True,
        why="with fewer, intervals based on the normal law are too short, because the few heavy rows "
        "are skewed",
    ),
    "outcomes": Threshold(
        "rows that make the estimate, (sum abs t)^2 / sum t^2 of row totals",
        100,
        30,
        more_is_better=True,
        why="a rate from 30 events is known within 36 % at best, from 100 within 20 %",
    ),
    "tail": Threshold(
        "Pareto shape of the largest weights",
        0.7,
        1.0,
        more_is_better=False,
        why="above 0.7 the estimate converges too slowly to trust, above 1 its mean may not exist "
        "(Vehtari et al. 2024)",
    ),
    "concentration": Threshold(
        "largest share of the weight on one row",
        0.1,
        0.33,
        more_is_better=False,
        why="the interval then depends on one row",
    ),
    "mean-weight": Threshold(
        "distance of the mean weight from 1 where it is significant (1 %)",
        0.0,
        0.1,
        more_is_better=False,
        why="true propensities give weights of mean 1; a distance d biases the value by about d",
    ),
    "mean-weight-by-group": Threshold(
        "rows times distance from 1 of groups whose mean weight is off (1 % a log)",
        0.02,
        0.1,
        more_is_better=False,
        why="a group of 1 in 20 rows that is off by 40 % may move the value by 2 %",
    ),
    "support": Threshold(
        "target's probability of items that the logger shows with less than 1/1000 and less than a tenth "
        "of it",
        0.01,
        0.05,
        more_is_better=False,
        why="that share of the value is unknown",
    ),
    "agreement": Threshold(
        "distance to estimators with fewer assumptions, in half-widths of the interval; in both, "
        "less the bias that the interval allows for",
        0.5,
        1.0,
        more_is_better=False,
        why="a bias of half the half-width lowers the coverage of a 95 % interval to 83 %, one of a "
        "whole half-width to 50 %; only distances significant at 1 % count",
    ),
    "precision": Threshold(
        "half-width of the lift's interval relative to the logger's value",
        0.05,
        0.25,
        more_is_better=False,
        why="a lift of 5 % is a common size",
    ),
}
#: Positions with fewer effective rows than this are named.
POSITION_ESS = 100.0
#: Significance of E[w] = 1 and of disagreement.
SIGNIFICANT = 0.01
#: Significance of a finding of the audit that limits the verdict, over all its tests: with a dozen checks,
#: one healthy log in a hundred loses its level.
LIMITING = 0.001
