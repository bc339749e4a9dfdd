"""Does what was shown agree with the policy that is said to have shown it? Sums of one pass, for
the audit.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from counterrank.policies.base import Floats
from counterrank.policies.scored import Scored

if TYPE_CHECKING:
    from counterrank.policies.base import Ints

#: Score ranks that are told apart; all further ones share the last cell.
RANKS = 20


@dataclass(frozen=True, slots=True, eq=False)
class CandidateFit:
    """What a pass over the rows counted; two of them add.

    `rows`; `outside`: shown items that were no candidates, and the first such row; `ineligible`:
    shown items of score -inf; `contradicted`: rows in which an item stands above one of a higher
    score; `observed`, `expected` and `variance` (RANKS,): how often the item shown next had score
    rank r among what was left, how often Plackett-Luce expects it, and the variance of that count.
    """

    rows: int
    outside: int
    first_outside: int
    ineligible: int
    contradicted: int
    observed: Floats
    expected: Floats
    variance: Floats

    def __add__(self, other: Self) -> Self:
        first = [at for at in (self.first_outside, other.first_outside) if at >= 0]
        return type(self)(
            self.rows + other.rows,
            self.outside + other.outside,
            min(first, default=-1),
            self.ineligible + other.ineligible,
            self.contradicted + other.contradicted,
            self.observed + other.observed,
            self.expected + other.expected,
            self.variance + other.variance,
        )

    @property
    def z(self) -> Floats:
        """Observed minus expected in standard deviations, by score rank (RANKS,); 0 where nothing
        is expected.
        """
        sd = np.sqrt(self.variance)
        return np.divide(self.observed - self.expected, sd, out=np.zeros_like(sd), where=sd > 1e-9)

    @property
    def p_value(self) -> float:
        """Chance of a largest |z| like this one, were the policy true; Bonferroni over the ranks
        that can vary.
        """
        from math import erfc, sqrt

        tried = int((self.variance > 1e-9).sum())
        return (
            min(1.0, tried * erfc(float(np.abs(self.z).max(initial=0.0)) / sqrt(2)))
            if tried
            else 1.0
        )


def candidate_fit(policy: Scored, actions: "Ints", *, start: int = 0) -> CandidateFit:
    """Return the counts of rankings (n, K) shown by a policy over candidates.

    The frequencies are those of Plackett-Luce at the spec's temperature (1 for other kinds): each
    choice among what was left is a draw with known chances, so observed minus expected is a
    martingale whatever the rows.
    """
    from counterrank.policies.kernels.fit import choices

    sets = policy.candidates
    places = sets.locate(actions)
    temperature = policy.spec.options.get("temperature", 1.0)
    sums = np.zeros((3, RANKS))
    counts = np.zeros(2, np.int64)
    choices(sets.offsets, policy.scores, places, 1.0 / temperature, sums, counts)
    outside = np.flatnonzero((places == -2).any(axis=1))
    first = start + int(outside[0]) if len(outside) else -1
    ineligible, contradicted = (int(count) for count in counts)
    return CandidateFit(
        len(places), int((places == -2).sum()), first, ineligible, contradicted, *sums
    )
