"""What is said: close matches for names, notes about repairs, no traceback from the depths."""

import difflib
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from counterrank.errors import CounterrankError, LogError


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

MEANING = {
    MISSING_PROPENSITY: "The log has no propensities; they must be estimated before anything else "
    "can be.",
    REWARD_PER_RANKING: "There is one reward a ranking. It stands at the last item: IPS and RIPS "
    "use it correctly, IIPS cannot.",
    MISSING_REWARD_ZERO: "Missing rewards were read as 0, as asked.",
    SINGLE_POSITION: "Each row is one item at one position; values are per item shown, not per "
    "page.",
    STANDARD_DROPPED: "Rows of the standard policy have no propensities and were left out.",
    BY_INDEX: "Actions are known only by their index in each event: good for weights, not for "
    "reward models.",
}


def explain(note: str) -> str:
    """Return a note with the sentence behind it, or as it is where there is none.

    >>> explain("missing-reward-zero")
    'missing-reward-zero: Missing rewards were read as 0, as asked.'
    """
    return f"{note}: {MEANING[note]}" if note in MEANING else note


def not_utf8(what: str) -> LogError:
    """Return the error about bytes that are no UTF-8 text."""
    return LogError(
        f"{what} holds text that is not UTF-8; write it again in UTF-8, with iconv -f latin1 -t "
        "utf-8, say"
    )


@contextmanager
def guard(what: str, *, prefix: bool = False) -> Iterator[None]:
    """Turn what Arrow or a codec raises into a LogError about `what`; with `prefix`, also name it
    in our own.
    """
    try:
        yield
    except CounterrankError as problem:
        if not prefix or what in str(problem):
            raise
        raise type(problem)(f"{what}: {problem}") from None
    except FileNotFoundError:
        raise LogError(f"there is no file {what}") from None
    except PermissionError:
        raise LogError(f"no permission to read {what}") from None
    except IsADirectoryError:
        raise LogError(f"{what} is a folder, not a file") from None
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise not_utf8(what) from None
    except MemoryError:
        raise LogError(f"{what} is damaged, or needs more memory than there is") from None
    except (pa.ArrowException, OSError, EOFError, zlib.error) as problem:
        raise _damaged(what, problem) from None
    except (OverflowError, ValueError, TypeError, KeyError, IndexError) as problem:
        raise LogError(f"{what} has content that cannot be used: {_first_line(problem)}") from None


@contextmanager
def naming_rankings(ids: pa.Array, start: int) -> Iterator[None]:
    """Say "ranking 'r7'" where an error says "row 7": the ranking's rows stand elsewhere in the
    file.
    """
    try:
        yield
    except CounterrankError as problem:

        def named(found: re.Match[str]) -> str:
            index = int(found[1]) - start
            return f"ranking {ids[index].as_py()!r}" if 0 <= index < len(ids) else found[0]

        raise type(problem)(re.sub(r"\brow (\d+)", named, str(problem), count=1)) from None


def _damaged(what: str, problem: BaseException) -> LogError:
    if isinstance(problem, pa.ArrowInvalid) and re.search("utf-?8", str(problem), re.IGNORECASE):
        return not_utf8(what)
    return LogError(
        f"{what} cannot be read; it is damaged or of another format: {_first_line(problem)}"
    )


def _first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return text[0][:300] if text else type(problem).__name__
