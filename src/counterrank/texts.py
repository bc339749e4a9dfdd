"""What messages are made of: close names, lists of names, shares in per cent, others' errors."""

import difflib
import math
import re
from collections.abc import Iterable

#: Control characters but for tab and line feed, marks that turn the direction of text, halves of
#: characters, and what is no character.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
#: Between a number and its sign of per cent, so that no line breaks there.
NARROW = "\N{NARROW NO-BREAK SPACE}"


def visible(text: str) -> str:
    r"""Return a user's text with a mark in place of every character that acts on other text unseen.

    >>> visible("new\u202edlo\x1b[2J") == "new\ufffddlo\ufffd[2J"
    True
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)


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


def first_line(problem: BaseException) -> str:
    r"""Return the first line of what another library raised, or the kind of error where it says nothing.

    >>> first_line(OSError("no space\nat line 3")), first_line(OSError())
    ('no space', 'OSError')
    """
    lines = str(problem).strip().splitlines()
    return lines[0][:300] if lines else type(problem).__name__


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
    kept = []
    for way in text.split(", or "):
        words, option, _ = way.partition("--")
        words = re.sub(
            r"\b(say|give|see|use)$" if option else r"$^", "", words.rstrip(_LOOSE)
        ).strip(_LOOSE)
        # A condition whose advice was an option advises nothing.
        if words and not (option and words.lower().startswith("if ")):
            kept.append(words)
    return sentence(", or ".join(kept)) if kept else ""


def _runs(names: Iterable[str]) -> list[str]:
    runs: dict[str, list[str]] = {}
    for name in names:
        stem = re.fullmatch(r"(.+_)\d+", name)
        runs.setdefault(stem[1] if stem else name, []).append(name)
    return [run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs.values()]
