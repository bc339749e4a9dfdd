"""Names people meant: close matches for messages."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest known name, or nothing.

    >>> suggestion("rewrad", ["action", "reward"])
    " (did you mean 'reward'?)"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Return names for a message, cut after `most`.

    >>> listed("abc", most=2)
    'a, b and 1 more'
    """
    all_names = list(names)
    shown = ", ".join(all_names[:most]) or "none"
    rest = len(all_names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown
