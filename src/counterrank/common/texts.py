"""What messages are made of: close names, lists of names, shares in per cent, others' errors; and shipped texts."""

import difflib
import math
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

#: Between a number and its sign of per cent, so that no line breaks there.
NARROW = "\N{NARROW NO-BREAK SPACE}"


def in_percent(share: float, digits: int = 1) -> str:
    """Return a share as messages, flags and reasons write it: as the report does.

    >>> in_percent(0.5), in_percent(0.123, 0)
    ('50.0\u202f%', '12\u202f%')
    """
    return f"{share * 100:.{digits}f}{NARROW}%"


def in_z(z: float) -> str:
    """Return how many standard errors a mean is off, for a message.

    >>> in_z(-3.14), in_z(float("inf"))
    ('z = -3.1', 'the same in every row')
    """
    return f"z = {z:.1f}" if math.isfinite(z) else "the same in every row"


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest known name, or nothing.

    >>> suggestion("rewrad", ["action", "reward"])
    " (did you mean 'reward'?)"
    """
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def comma_separated(names: Iterable[str], *, limit: int = 12) -> str:
    """Return names for a message, cut after `limit`; numbered columns stand together, a nameless one in quotes.

    >>> comma_separated("abc", limit=2)
    'a, b and 1 more'
    >>> comma_separated(["query", "doc_1", "doc_2", "doc_3", "click_1", ""])
    "query, doc_1 to doc_3, click_1, ''"
    """
    all_names = [name or "''" for name in _runs(names)]
    shown = ", ".join(all_names[:limit]) or "none"
    hidden = len(all_names) - limit
    return f"{shown} and {hidden} more" if hidden > 0 else shown


def plural(word: str) -> str:
    """Return the plural of an English noun; a word that ends in s is one already.

    >>> [plural(word) for word in ("page", "search", "query", "day", "visits")]
    ['pages', 'searches', 'queries', 'days', 'visits']
    """
    if word.endswith("s") and not word.endswith("ss"):
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}{'es' if word.endswith(('ss', 'sh', 'ch', 'x', 'z')) else 's'}"


def first_line(problem: BaseException) -> str:
    r"""Return the first line of what another library raised, or the kind of error where it says nothing.

    >>> first_line(OSError("no space\nat line 3")), first_line(OSError())
    ('no space', 'OSError')
    """
    lines = str(problem).strip().splitlines()
    return lines[0][:300] if lines else type(problem).__name__


def _runs(names: Iterable[str]) -> list[str]:
    runs: dict[str, list[str]] = {}
    for name in names:
        stem = re.fullmatch(r"(.+_)\d+", name)
        runs.setdefault(stem[1] if stem else name, []).append(name)
    return [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs.values()]


@cache
def packaged(package: str, path: str) -> str:
    """Return the text of a file that is shipped in a package."""
    return files(package).joinpath(path).read_text(encoding="utf-8")
