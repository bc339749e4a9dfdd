"""What messages are made of: close names, lists of names, options, and the notes a log carries."""

import difflib
import math
import re
from collections.abc import Iterable

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


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest known name, or nothing.

    >>> suggestion("rewrad", ["action", "reward"])
    " (did you mean 'reward'?)"
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def say(option: str, value: str, python: str | None = None) -> str:
    """Return an option as the command line and as Python write it.

    >>> say("--logger", "top")
    "--logger top (logger='top' in Python)"
    """
    key = option.lstrip("-").replace("-", "_")
    return f"{option} {value} ({key}={python or repr(value)} in Python)"


def listed(names: Iterable[str], *, most: int = 12) -> str:
    """Return names for a message, cut after `most`; numbered columns stand together, a nameless one
    in quotes.

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


MISSING_PROPENSITY = "propensity-missing"
REWARD_PER_RANKING = "reward-per-ranking"
MISSING_REWARD_ZERO = "missing-reward-zero"
SINGLE_POSITION = "single-position-rows"
STANDARD_DROPPED = "standard-rows-dropped"
BY_INDEX = "actions-by-index"
UNANSWERED = "queries-without-hits"
UNKNOWN_HITS = "events-on-other-documents"

MEANING = {
    MISSING_PROPENSITY: "The log has no propensities; they must be estimated before anything else "
    "can be.",
    REWARD_PER_RANKING: "There is one reward a ranking: it is weighed and modelled by whole rankings "
    "and has no positions.",
    MISSING_REWARD_ZERO: "Missing rewards were read as 0, as asked.",
    SINGLE_POSITION: "Each row is one item at one position; values are per item shown, not per "
    "page.",
    STANDARD_DROPPED: "Rows of the standard policy have no propensities and were left out.",
    BY_INDEX: "Actions are known only by their index in each event: good for weights, not for "
    "reward models.",
    UNANSWERED: "Queries without hits show nothing to rank and were left out.",
    UNKNOWN_HITS: "Some events name documents that are not among the hits of their query; they are "
    "counted nowhere.",
}


def explain(note: str) -> str:
    """Return a note with the sentence behind it, or as it is where there is none.

    >>> explain("missing-reward-zero")
    'missing-reward-zero: Missing rewards were read as 0, as asked.'
    """
    return f"{note}: {MEANING[note]}" if note in MEANING else note


#: For a log whose policy did not explore.
WHAT_IS_POSSIBLE = (
    "What is possible: (1) if the same context was shown different lists over time, estimate the "
    f"propensities: {say('--estimate-propensity', 'by-list:COLUMNS')}; (2) show a random list, or swap "
    "neighbouring items at random, for a few percent of requests and log the probabilities; (3) an "
    "A/B test"
)
