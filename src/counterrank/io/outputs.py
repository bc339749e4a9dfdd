"""Asked before a run: whether its results may be written where they are to go."""

import fnmatch
import glob
import os
from collections.abc import Iterable, Mapping

from counterrank import atomic, stores
from counterrank.errors import OutputError
from counterrank.io.files import has_known_extension


def check_outputs(
    inputs: Iterable[str | os.PathLike[str] | None],
    outputs: Mapping[str, str | os.PathLike[str] | None],
) -> None:
    """Raise when an output is an input, would be read as one next time, is named twice, or cannot be made.

    `outputs` maps what a user calls an output, "--json", to its path; None and "-" are no files.
    """
    sources = [os.path.expanduser(os.fspath(path)) for path in inputs if path is not None]
    seen: dict[str, str] = {}
    for option, path in outputs.items():
        given = None if path is None else os.fspath(path)
        if given is None or given == "-" or atomic.is_device(given):
            continue
        away = stores.is_url(given)
        real = given if away else os.path.realpath(given)
        for source in sources:
            _refuse_input(option, given, real, source)
        if real in seen:
            raise OutputError(
                f"{seen[real]} and {option} would both write {given}; give each per file of its own"
            )
        seen[real] = option
        if away:
            stores.refuse_unwritable(given)
        else:
            _refuse_unwritable(option, given, real)


def _refuse_input(option: str, given: str, real: str, source: str) -> None:
    """Raise when an output is an input, or would be one next time."""
    away = stores.is_url(source)
    if away != stores.is_url(real):
        return
    place = (source if away else os.path.realpath(source)).rstrip("/")
    folder = os.path.isdir(place)
    # Links: two names of one file differ as paths.
    if not folder and (real.rstrip("/") == place or _is_same(real, place)):
        raise OutputError(
            f"{option} {given} is the input {source}, which would be lost; write it elsewhere"
        )
    inside = (away or folder) and real.startswith(f"{place}/")
    if (inside or (away and fnmatch.fnmatch(real, source))) and has_known_extension(real):
        raise OutputError(
            f"{option} {given} lies in {source} and would be read as part of it; write elsewhere"
        )
    if away or not glob.has_magic(source) or os.path.exists(source):
        return
    if any(_is_same(real, found) for found in glob.iglob(source, recursive=True)):
        raise OutputError(
            f"{option} {given} is one of the inputs {source} and would be lost; write elsewhere"
        )
    if fnmatch.fnmatch(os.path.abspath(given), os.path.abspath(source)):
        raise OutputError(
            f"{option} {given} would be one of {source} next time; write it elsewhere"
        )


def _refuse_unwritable(option: str, given: str, real: str) -> None:
    if os.path.isdir(real):
        raise OutputError(f"cannot write {option} {given}: it is a folder")
    if os.path.exists(real) and _is_read_only(real):
        raise OutputError(f"cannot write {option} {given}: the file is read-only")
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise OutputError(f"cannot write {option} {given}: {folder} is no folder")
    if _is_read_only(folder):
        raise OutputError(f"cannot write {option} {given}: no permission to write in {folder}")


def _is_read_only(path: str) -> bool:
    # The superuser may write anywhere; who took every permission to write away meant it all the
    # same.
    return not os.access(path, os.W_OK) or not os.stat(path).st_mode & 0o222


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
