"""Files appear whole or not at all: write beside the target, then rename over it."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counterrank.common import stores
from counterrank.common.errors import OutputError


@contextmanager
def replacing(path: str | os.PathLike[str], *, follow: bool = True) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; rename it to `path` if the block succeeds.

    Any failure, including an interrupt, removes the temporary file and leaves an older `path`
    untouched. A link that a user named is followed; with `follow` False, for names that we chose,
    it is refused: it leads into a file that nobody offered. A device or pipe, such as /dev/stdout,
    is written to and never replaced. What goes to a store is made here and sent at the end.
    """
    if stores.is_url(path):
        with tempfile.TemporaryDirectory(prefix="counterrank-") as room:
            written = Path(room) / "made"
            yield written
            stores.upload(written, os.fspath(path))
        return
    if not follow and os.path.islink(path):
        raise OutputError(f"cannot write {path}: it is a link to another file; remove it")
    stream = follow and is_device(path)
    target = Path(os.path.realpath(path)) if follow and not stream else Path(path)
    try:
        if not stream:
            target.parent.mkdir(parents=True, exist_ok=True)
        folder = None if stream else target.parent
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=folder)
    except OSError as problem:
        raise OutputError(f"cannot write {path}: {problem.strerror or problem}") from problem
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if stream:
            with open(target, "wb") as out:
                out.write(temporary.read_bytes())
        else:
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, target)
    except OSError as problem:
        raise OutputError(f"cannot write {path}: {problem.strerror or problem}") from problem
    finally:
        temporary.unlink(missing_ok=True)


def is_device(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device or a pipe, which is written to and never replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def write_bytes(path: str | os.PathLike[str], data: bytes, *, follow: bool = True) -> None:
    """Write `data` to `path` atomically."""
    with replacing(path, follow=follow) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str, *, follow: bool = True) -> None:
    """Write `text` to `path` atomically, as UTF-8 with line feeds."""
    write_bytes(path, text.encode("utf-8"), follow=follow)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
