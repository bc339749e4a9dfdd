"""Critical values: of one look or of many, with room for a bias."""

import math
from dataclasses import dataclass
from functools import lru_cache

from counterrank.errors import ConfigError


def check_level(level: float) -> float:
    """Return `level` if it is a confidence level strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ConfigError(
            f"the confidence level must lie between 0 and 1, such as 0.95; got {level}"
        )
    return level


def critical_value(level: float, df: float = math.inf) -> float:
    """Return the two-sided critical value of the normal (df infinite) or t distribution.

    >>> round(critical_value(0.95), 4), round(critical_value(0.95, df=10), 4)
    (1.96, 2.2281)
    """
    from scipy import special

    tail = 0.5 + check_level(level) / 2
    return float(special.ndtri(tail) if math.isinf(df) else special.stdtrit(df, tail))


def two_sided(value: float, stderr: float) -> float:
    """Return the two-sided normal p-value of value = 0.

    Without a positive error nothing can be tested, whatever the difference: 1. So it is when either
    is unknown (NaN).

    >>> round(two_sided(1.96, 1.0), 4), two_sided(0.3, 0.0), two_sided(5.0, math.nan)
    (0.05, 1.0, 1.0)
    """
    if math.isnan(value) or not stderr > 0:
        return 1.0
    return math.erfc(abs(value) / stderr / math.sqrt(2))


@dataclass(frozen=True, slots=True)
class Looks:
    """How often a log is looked at: once (`rows` None), or at any time, with intervals shortest at about `rows` rows.

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
        """Return the p-value of value = 0: the smallest alpha whose interval leaves out 0, rho being that of `level`.

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


#: One look, planned beforehand.
ONCE = Looks()


#: Halvings of the bracket: from a width of 10 to below 1e-12.
_HALVINGS = 44


@lru_cache(4096)
def bias_aware_value(bias: float, level: float, df: float = math.inf) -> float:
    """Return cv(b), the `level` quantile of |N(b, 1)|, b = bias in standard errors (Armstrong & Kolesar 2018, 2021).

    If an estimate is off by at most b of its standard errors s, then estimate -/+ s cv(b) covers
    with probability `level` at least. cv is z at b = 0 and b + (one-sided z) for large b: shorter
    than the sum z + b, because an error can only leave through one end. With few units the t
    quantile's excess over z is added.

    >>> [round(bias_aware_value(b, 0.95), 4) for b in (0.0, 1.0, 5.0)]
    [1.96, 2.6461, 6.6449]
    """
    from scipy.special import ndtr

    # cv(b) lies between b (the distribution's centre) and b + z (a bias and a two-sided error at
    # once).
    plain = critical_value(level)
    low, high = abs(bias), abs(bias) + plain
    excess = 0.0 if math.isinf(df) else critical_value(level, df) - plain
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if ndtr(middle - abs(bias)) - ndtr(-middle - abs(bias)) < level:
            low = middle
        else:
            high = middle
    return high + excess


def bias_aware_half(stderr: float, bias: float, level: float, df: float = math.inf) -> float:
    """Return half the length of the interval, s cv(B/s); the bias alone where there is no sampling error.

    >>> bias_aware_half(0.0, 0.3, 0.95), round(bias_aware_half(2.0, 0.0, 0.95), 3)
    (0.3, 3.92)
    """
    if not stderr > 0:
        return abs(bias) if stderr == 0 else math.nan
    return stderr * bias_aware_value(bias / stderr, level, df)
