"""Names people meant: close matches for messages."""

import difflib
import re
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest known name, or nothing.

    >>> suggestion("rewrad", ["action", "reward"])
    " (did you mean 'reward'?)"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Return names for a message, cut after `most`; numbered columns stand together, a nameless one in quotes.

    >>> listed("abc", most=2)
    'a, b and 1 more'
    >>> listed(["query", "doc_1", "doc_2", "doc_3", "click_1", ""])
    "query, doc_1 to doc_3, click_1, ''"
    """
    all_names = [name or "''" for name in _runs(names)]
    shown = ", ".join(all_names[:most]) or "none"
    rest = len(all_names) - most
    return f"{shown} and {rest} more" if rest > 0 else shown


def _runs(names: Iterable[str]) -> list[str]:
    runs: dict[str, list[str]] = {}
    for name in names:
        stem = re.fullmatch(r"(.+_)\d+", name)
        runs.setdefault(stem[1] if stem else name, []).append(name)
    return [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs.values()]
