"""Numbers as people read them: as many digits as the error supports, signs where they matter, units always."""

import math
import sys
from typing import Any, TypeGuard

from counterrank.texts import NARROW

#: Shown where a number is missing.
NONE = "–"
MINUS = "−"
#: From here on all digits of a number would break a table and mean nothing: it is told in words, and
#: where words end with a power of ten.
_HUGE, _BEYOND_WORDS = 1e9, 1e15
#: Below the first decimals are mostly zeros, below the second numbers are what rounding left.
_TINY, _ROUNDING = 1e-6, 1e-15
#: Of an error from here on, the digits below a million mean nothing either.
_ROUGH = 1e6
_WORDS = ((1e12, "trillion", "T"), (1e9, "billion", "B"), (1e6, "million", "M"))
_LARGEST = sys.float_info.max


def known(value: Any) -> TypeGuard[float]:
    """Return whether this is a finite number.

    >>> known(0.5), known(None), known(float("nan")), known(True)
    (True, False, False, False)
    """
    # Compared, not converted: a whole number of 400 digits is no float at all.
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and -_LARGEST <= value <= _LARGEST
    )


def decimals(error: Any) -> int:
    """Return how many decimals an error supports: two of its digits when it starts below 3.55, else one.

    The rule of the Particle Data Group (2024, section 5.3), which keeps rounding below the noise.

    >>> decimals(0.0213), decimals(0.0061), decimals(4.2), decimals(None)
    (3, 3, 0, 3)
    """
    if not known(error) or error <= 0:
        return 3
    power = math.floor(math.log10(error))
    digits = 2 if error / 10.0**power < 3.55 else 1
    return min(max(digits - 1 - power, 0), 8)


def plain(value: Any, error: Any = None, *, sign: bool = False) -> str:
    r"""Return a number with the digits its error supports.

    >>> plain(0.48306, 0.0263), plain(0.0312, 0.0084, sign=True), plain(None)
    ('0.483', '+0.031', '–')
    >>> plain(2.07e9, 6.6e8, sign=True), plain(756_801_774, 6.6e8), plain(3.2e-9, 1e-10)
    ('+2.1\xa0billion', '757\xa0million', '3.20e-09')
    """
    if not known(value):
        return NONE
    if abs(value) >= _BEYOND_WORDS or _tiny(value, error):
        return _tidy(f"{value:+.2e}" if sign else f"{value:.2e}")
    if abs(value) > _HUGE or (known(error) and error > _ROUGH):
        size, word, _ = next((unit for unit in _WORDS if abs(value) >= unit[0]), _WORDS[-1])
        scaled = error / size if known(error) else None
        return f"{_digits(value / size, scaled, sign=sign)}\N{NO-BREAK SPACE}{word}"
    return _digits(value, error, sign=sign)


def _tiny(value: float, error: Any) -> bool:
    """Whether eight decimals would leave nothing of a number that its error supports."""
    return _ROUNDING < abs(value) < _TINY and not (known(error) and error >= _TINY)


def _digits(value: float, error: Any, *, sign: bool) -> str:
    places = _places(value, error)
    return _tidy(f"{value:+,.{places}f}" if sign else f"{value:,.{places}f}")


def span(low: Any, high: Any, error: Any = None, *, sign: bool = False) -> str:
    """Return both ends of an interval, nothing when there is none.

    >>> span(0.431, 0.535, 0.0263), span(None, None)
    ('0.431 to 0.535', '')
    """
    if not (known(low) and known(high)):
        return ""
    return f"{plain(low, error, sign=sign)} to {plain(high, error, sign=sign)}"


def width(number: Any) -> float:
    """Return a quarter of an interval's length, the error whose digits its numbers have.

    That is the standard error where the interval is that of a standard error, and more where it
    allows for bias.
    """
    error: float = number.stderr
    return max((number.high - number.low) / 4, error) if known(number.low + error) else error


def relative_ends(lift: Any) -> str:
    """Return both ends of a lift's interval in per cent; nothing when there is none or it has no width."""
    low, high = lift.relative_low, lift.relative_high
    if not known(high - low) or low == high:
        return ""
    return f"{percent(low, sign=True)} to {percent(high, sign=True)}"


def at_least(value: Any, error: Any = None, *, sign: bool = False) -> str:
    """Return a lower bound, rounded down: no more is promised than was shown.

    >>> at_least(0.4369, 0.05, sign=True), plain(0.4369, 0.05, sign=True)
    ('+0.43', '+0.44')
    >>> at_least(0.0042, 0.05)
    '0.004'
    """
    if not known(value) or abs(value) >= _ROUGH:
        return plain(value, error, sign=sign)
    # A bound below its error keeps a digit: "at least 0.00" would promise nothing.
    if known(error) and 0 < value < error:
        error = value
    steps = 10.0 ** _places(value, error)
    # The tiny part is for bounds that are round but for rounding.
    return plain(math.floor(value * steps + 1e-9) / steps, error, sign=sign)


def percent(value: Any, *, sign: bool = False, digits: int | None = None) -> str:
    """Return a share as a percentage.

    >>> percent(0.0681, sign=True), percent(-0.00042)
    ('+6.8\u202f%', '−0.04\u202f%')
    """
    if not known(value):
        return NONE
    if abs(value) * 100 >= _HUGE:
        return _tidy(f"{value * 100:+.2e}" if sign else f"{value * 100:.2e}") + NARROW + "%"
    places = digits if digits is not None else _percent_places(value)
    text = f"{value * 100:+,.{places}f}" if sign else f"{value * 100:,.{places}f}"
    return _tidy(text) + NARROW + "%"


def count(value: Any) -> str:
    """Return a count with separators; large ones rounded in words.

    >>> count(12345.6), count(3.2e7), count(None)
    ('12,346', '32 million', '–')
    """
    if not known(value):
        return NONE
    for size, name, _ in _WORDS:
        if abs(value) >= size:
            scaled = value / size
            return (
                f"{scaled:,.1f}".removesuffix(".0") + f" {name}"
                if scaled < 1000
                else f"{scaled:.1e} {name}"
            )
    return _tidy(f"{value:,.0f}")


def roughly(value: Any) -> str:
    """Return a count of two significant digits: a plan is no more exact than that.

    >>> roughly(91_861), roughly(1_234_567), roughly(7.2)
    ('92,000', '1.2 million', '8')
    """
    if not known(value):
        return NONE
    whole = math.ceil(value)
    return count(float(f"{whole:.2g}"))


def short(value: Any, digits: int = 3) -> str:
    """Return a number of three significant digits, or more, for axes and labels.

    >>> short(1234.5), short(0.01234), short(2.0), short(1e-7), short(123_456), short(2.5e6), short(6e9)
    ('1,230', '0.0123', '2', '1e-07', '123k', '2.5M', '6B')
    >>> short(0.99975, 4), short(100_010, 5)
    ('0.9998', '100.01k')
    """
    if not known(value):
        return NONE
    size = abs(value)
    if size >= _BEYOND_WORDS:
        return _tidy(f"{value:.{digits - 1}e}")
    for unit, _, letter in _WORDS:
        if size >= unit:
            return _tidy(f"{value / unit:.{digits}g}") + letter
    if size >= 1e5:
        return _tidy(f"{value / 1e3:.{digits}g}") + "k"
    if size >= 1000:
        rounded = float(f"{value:.{digits}g}")
        return _tidy(f"{rounded:,.{0 if rounded == round(rounded) else digits - 4}f}")
    return _tidy(f"{value:.{digits}g}")


def _places(value: float, error: Any) -> int:
    # Without an error three digits: more would claim an exactness that nobody has stated.
    if known(error) and error > 0:
        return decimals(error)
    return 0 if value == 0 else min(max(3 - 1 - math.floor(math.log10(abs(value))), 0), 8)


def _percent_places(value: float) -> int:
    scale = abs(value) * 100
    if scale < 1e-9:  # rounding, no share
        return 1
    return 1 if scale >= 0.1 else min(1 - math.floor(math.log10(scale)) - 1, 6)


def _tidy(text: str) -> str:
    if text.startswith("-"):
        text = MINUS + text[1:]
    zero = text.strip("+" + MINUS + "0.,")
    return text.lstrip("+" + MINUS) if not zero else text
