"""Asked before a run: whether its results may be written where they are to go."""

import fnmatch
import glob
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from counterrank import stores
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
        if given is None or given == "-" or _is_device(given):
            continue
        away = stores.is_url(given)
        real = given if away else os.path.realpath(given)
        for source in sources:
            (_refuse_address if away else _refuse_input)(option, given, real, source)
        if real in seen:
            raise OutputError(
                f"{seen[real]} and {option} would both write {given}; give each per file of its own"
            )
        seen[real] = option
        if away:
            stores.refuse_unwritable(given)
        else:
            _refuse_unwritable(option, given, real)


def _refuse_address(option: str, given: str, real: str, source: str) -> None:
    """Raise when an output in a store is an input, or would be one next time."""
    if real.rstrip("/") == source.rstrip("/"):
        raise OutputError(
            f"{option} {given} is the input {source}, which would be lost; write it elsewhere"
        )
    inside = real.startswith(source.rstrip("/") + "/") or fnmatch.fnmatch(real, source)
    if stores.is_url(source) and inside and has_known_extension(real):
        raise OutputError(
            f"{option} {given} lies in {source} and would be read as part of it; write elsewhere"
        )


def _refuse_input(option: str, given: str, real: str, source: str) -> None:
    if stores.is_url(source):
        return
    where = os.path.realpath(source)
    if os.path.isdir(where):
        if Path(real).is_relative_to(where) and has_known_extension(real):
            raise OutputError(
                f"{option} {given} lies in {source} and would be read as part of it; write "
                "elsewhere"
            )
    # Links: two names of one file differ as paths.
    elif real == where or _is_same(real, where):
        raise OutputError(
            f"{option} {given} is the input {source}, which would be lost; write it elsewhere"
        )
    elif glob.has_magic(source) and not os.path.exists(source):
        _refuse_match(option, given, real, source)


def _refuse_match(option: str, given: str, real: str, pattern: str) -> None:
    if any(_is_same(real, found) for found in glob.iglob(pattern, recursive=True)):
        raise OutputError(
            f"{option} {given} is one of the inputs {pattern} and would be lost; write elsewhere"
        )
    if fnmatch.fnmatch(os.path.abspath(given), os.path.abspath(pattern)):
        raise OutputError(
            f"{option} {given} would be one of {pattern} next time; write it elsewhere"
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


def _is_device(path: str | os.PathLike[str]) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
