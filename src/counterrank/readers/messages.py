"""What is said: no traceback from the depths, rankings by their ids."""

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from counterrank.errors import CounterrankError, LogError


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
