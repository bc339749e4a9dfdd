"""No traceback from the depths: failures of Arrow, codecs and text become one clear message."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from counterrank.errors import CounterrankError, LogError


@contextmanager
def guard(what: str, *, prefix: bool = False) -> Iterator[None]:
    """Turn what Arrow or a codec raises into a LogError about `what`; with `prefix`, also name it in our own."""
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
    except (UnicodeDecodeError, UnicodeEncodeError) as problem:
        raise LogError(f"{what} holds text that is not UTF-8: {problem.reason}") from None
    except MemoryError:
        raise LogError(f"{what} is damaged, or needs more memory than there is") from None
    except (pa.ArrowException, OSError, EOFError, zlib.error) as problem:
        raise LogError(f"{what} cannot be read; it is damaged or of another format: {_first_line(problem)}") from None
    except (OverflowError, ValueError, TypeError, KeyError, IndexError) as problem:
        raise LogError(f"{what} has content that cannot be used: {_first_line(problem)}") from None


def _first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return text[0][:300] if text else type(problem).__name__
