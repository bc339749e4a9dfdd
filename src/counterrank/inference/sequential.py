"""Looking every night: intervals and p-values that hold at all looks at a growing log together.

A 95 % t interval holds at one look that was planned. A log that is evaluated each night until the
answer pleases is looked at many times, and one of a thousand such intervals misses far more often
than one in twenty. An asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas
2021, theorem 2.2; the mixture is Robbins' 1970) holds at all times together, as n grows, for any
mean with a variance: it needs no bound on the weights, which empirical-Bernstein and betting
sequences (Waudby-Smith & Ramdas 2024) do and importance weights rarely have.
"""

import math
from dataclasses import dataclass

from counterrank.inference.intervals import check_level, critical_value
from counterrank.inference.multiplicity import two_sided


@dataclass(frozen=True, slots=True)
class Looks:
    """How often a log is looked at: once (`rows` None), or at any time, with intervals shortest at
    about `rows` rows.

    With r = n rho^2 the critical value is sqrt(2 (1 + 1/r) log(sqrt(1 + r) / alpha)), wider than
    the normal one by about 1.55 at `rows` and by less than 2 from a tenth to a thousand times that.
    `rows` must be the same at every look: rho is what is fixed in advance.
    """

    rows: int | None = None

    def critical(self, level: float, n: int) -> float:
        """Return how many standard errors an interval reaches to either side, from n rows.

        >>> round(Looks().critical(0.95, 500), 3), round(Looks(10_000).critical(0.95, 10_000), 3)
        (1.96, 3.035)
        """
        if self.rows is None:
            return critical_value(level)
        r = self._ratio(level, n)
        return math.sqrt(2 * (1 + 1 / r) * math.log(math.sqrt(1 + r) / (1 - level)))

    def level(self, level: float, n: int) -> float:
        """Return the level at which a normal interval is as wide."""
        return level if self.rows is None else math.erf(self.critical(level, n) / math.sqrt(2))

    def p_value(self, value: float, stderr: float, n: int, level: float = 0.95) -> float:
        """Return the p-value of value = 0: the smallest alpha whose interval leaves out 0, rho
        being that of `level`.

        >>> looks = Looks(10_000)
        >>> round(looks.p_value(looks.critical(0.95, 3000), 1.0, 3000), 6)
        0.05
        """
        if self.rows is None or math.isnan(value) or not stderr > 0:
            return two_sided(value, stderr)
        # The interval solved for alpha: z^2 = 2 (1 + 1/r) log(sqrt(1 + r) / alpha).
        r, z = self._ratio(level, n), value / stderr
        return min(1.0, math.sqrt(1 + r) * math.exp(-(z**2) * r / (2 * (1 + r))))

    def _ratio(self, level: float, n: int) -> float:
        assert self.rows is not None
        # rho^2 that makes the interval about shortest at `rows`; the width there is nearly flat in
        # rho, so a wrong guess of the final size costs little.
        spent = -2 * math.log(1 - check_level(level))
        return n * (spent + math.log(spent + 1)) / self.rows
