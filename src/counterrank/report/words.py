"""Numbers and texts as people read them: as many digits as the error supports, whole sentences, nothing unseen."""

import math
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeGuard

from counterrank.common.texts import NARROW

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


def plain(value: Any, error: Any = None, *, sign: bool = False) -> str:
    r"""Return a number with the digits its error supports.

    >>> plain(0.48306, 0.0263), plain(0.0312, 0.0084, sign=True), plain(None)
    ('0.483', '+0.031', '–')
    >>> plain(2.07e9, 6.6e8, sign=True), plain(756_801_774, 6.6e8), plain(3.2e-9, 1e-10)
    ('+2.1\xa0billion', '757\xa0million', '3.20e-09')
    >>> plain(0.0, 1e-12), plain(1e-17), plain(0.0, 0.02)
    ('0', '0', '0.000')
    """
    if not known(value):
        return NONE
    size, error = abs(value), error if known(error) else 0.0
    # What rounding left is nothing, and has no decimals.
    if size <= _ROUNDING and error < _TINY:
        return "0"
    # Eight decimals would leave nothing of a tiny number that its error supports.
    if size >= _BEYOND_WORDS or (_ROUNDING < size < _TINY and error < _TINY):
        return _text(value, ".2e", sign=sign)
    unit, word = 1.0, ""
    if size > _HUGE or error > _ROUGH:
        unit, name, _ = next((entry for entry in _WORDS if size >= entry[0]), _WORDS[-1])
        word = f"\N{NO-BREAK SPACE}{name}"
    return _text(value / unit, f",.{_places(value / unit, error / unit)}f", sign=sign) + word


def span(low: Any, high: Any, error: Any = None, *, sign: bool = False) -> str:
    """Return both ends of an interval, nothing when there is none.

    >>> span(0.431, 0.535, 0.0263), span(None, None)
    ('0.431 to 0.535', '')
    """
    if not (known(low) and known(high)):
        return ""
    return f"{plain(low, error, sign=sign)} to {plain(high, error, sign=sign)}"


def spaced(*texts: str) -> str:
    """Return the texts that are not empty, with spaces between them."""
    return " ".join(filter(None, texts))


def days_between(first: str, last: str) -> str:
    """Return the days of two ISO times, without what both have in common.

    >>> days_between("2026-03-01", "2026-03-14"), days_between("2025-12-30T08:00:00", "2026-01-02T09:30:00")
    ('1 to 14 March 2026', '30 December 2025 to 2 January 2026')
    >>> days_between("2026-02-27", "2026-03-02"), days_between("2026-03-01T10:00:00", "2026-03-01T12:00:00")
    ('27 February to 2 March 2026', '1 March 2026')
    """
    start, end = (f"{datetime.fromisoformat(text):%-d %B %Y}".split() for text in (first, last))
    while start and start[-1] == end[len(start) - 1]:
        start.pop()
    return " ".join([*start, "to", *end] if start else end)


def width(number: Any) -> float:
    """Return a quarter of an interval's length, the error whose digits its numbers have.

    That is the standard error where the interval is that of a standard error, and more where it
    allows for bias.
    """
    error: float = number.stderr
    return max((number.high - number.low) / 4, error) if known(number.low + error) else error


def percents(low: Any, high: Any) -> str:
    """Return both ends of an interval in per cent, nothing when there is none."""
    if not known(high - low):
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
    error = error if known(error) else 0.0
    # A bound below its error keeps a digit: "at least 0.00" would promise nothing.
    if 0 < value < error:
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
    scaled, places = value * 100, digits
    if places is None:
        # Below a tenth the first digit; what rounding left is no share.
        tiny = 1e-9 <= abs(scaled) < 0.1
        places = min(_digits_before(scaled, 1), 6) if tiny else 1
    how = ".2e" if abs(scaled) >= _HUGE else f",.{places}f"
    return _text(scaled, how, sign=sign) + NARROW + "%"


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
            told = f"{scaled:,.1f}".removesuffix(".0") if scaled < 1000 else f"{scaled:.1e}"
            return f"{told} {name}"
    return _text(value, ",.0f")


def whole_percents(shares: Sequence[float]) -> list[int]:
    """Return shares in whole per cent that add up as the shares do: the largest remainders are rounded up.

    >>> whole_percents([0.664, 0.336]), whole_percents([1 / 3] * 3), whole_percents([])
    ([66, 34], [34, 33, 33], [])
    """
    floors = [math.floor(100 * share + 1e-9) for share in shares]
    missing = round(100 * sum(shares)) - sum(floors)
    places = sorted(range(len(shares)), key=lambda place: floors[place] - 100 * shares[place])
    return [floor + (place in places[:missing]) for place, floor in enumerate(floors)]


def roughly(value: Any) -> str:
    """Return a count of two significant digits: a plan is no more exact than that.

    >>> roughly(91_861), roughly(1_234_567), roughly(7.2)
    ('92,000', '1.2 million', '8')
    """
    return count(float(f"{math.ceil(value):.2g}")) if known(value) else NONE


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
        return _text(value, f".{digits - 1}e")
    if 1000 <= size < 1e5:
        rounded = float(f"{value:.{digits}g}")
        return _text(rounded, f",.{0 if rounded == round(rounded) else digits - 4}f")
    units = (*((unit, unit, letter) for unit, _, letter in _WORDS), (1e5, 1e3, "k"), (0.0, 1.0, ""))
    unit, letter = next((unit, letter) for least, unit, letter in units if size >= least)
    return _text(value / unit, f".{digits}g") + letter


def _places(value: float, error: float) -> int:
    """Return how many decimals an error supports: two of its digits when it starts below 3.55, else one.

    The rule of the Particle Data Group (2024, section 5.3), which keeps rounding below the noise. Without
    an error three digits: more would claim an exactness that nobody has stated.

    >>> [_places(1.0, error) for error in (0.0213, 0.0061, 4.2, 0.0)]
    [3, 3, 0, 2]
    """
    if error <= 0:
        return min(_digits_before(value, 3), 8) if value else 0
    two = error / 10.0 ** math.floor(math.log10(error)) < 3.55
    return min(_digits_before(error, 2 if two else 1), 8)


def _digits_before(value: float, digits: int) -> int:
    """Return how many decimals show so many digits of a number."""
    return max(digits - 1 - math.floor(math.log10(abs(value))), 0)


def _text(value: float, how: str, *, sign: bool = False) -> str:
    """Return a number in a format, with a true minus sign; zero has no sign."""
    text = format(value, f"+{how}" if sign else how)
    if not text.strip("+-0.,"):
        return text.lstrip("+-")
    return MINUS + text[1:] if text.startswith("-") else text


#: Control characters but for tab and line feed, marks that turn the direction of text, halves of
#: characters, and what is no character.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""Return a user's text with a mark in place of every character that acts on other text unseen.

    >>> visible("new\u202edlo\x1b[2J") == "new\ufffddlo\ufffd[2J"
    True
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


def sentence(text: str) -> str:
    """Return words as a sentence.

    >>> sentence("log more rows"), sentence("Is that so?"), sentence("log.csv is empty")
    ('Log more rows.', 'Is that so?', 'log.csv is empty.')
    """
    text = text.strip()
    # The name of a file stays as it is written.
    first = text if re.match(r"\S*[./\\]\w", text) else text[:1].upper() + text[1:]
    return first + ("" if text.endswith((".", "!", "?")) else ".")


#: What may be left at the end of advice without its option.
_LOOSE = " ,;:(`."


def without_options(text: str) -> str:
    """Return advice without what is typed: whoever reads the page first types nothing, and the details have it.

    >>> without_options("Name the user, --columns unit=COLUMN, or say --independent-rows if none comes twice.")
    'Name the user.'
    >>> without_options("Log P(a | x); see --weight"), without_options("if it is prefix, use --propensity-kind")
    ('Log P(a | x).', '')
    """
    advice = []
    for way in text.split(", or "):
        words, option, _ = way.partition("--")
        words = re.sub(
            r"\b(say|give|see|use)$" if option else r"$^", "", words.rstrip(_LOOSE)
        ).strip(_LOOSE)
        # A condition whose advice was an option advises nothing.
        if words and not (option and words.lower().startswith("if ")):
            advice.append(words)
    return sentence(", or ".join(advice)) if advice else ""
