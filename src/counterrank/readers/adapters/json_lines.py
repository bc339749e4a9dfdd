"""JSON objects of a file, one a line, with their line numbers."""

import json
from collections.abc import Iterator
from typing import Any

from counterrank.errors import LogError
from counterrank.readers import streams
from counterrank.readers.paths import expand


def read(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ("file, line 3", object) for each line that is not empty."""
    for file in expand(path, "jsonl"):
        number, rest = 0, b""
        with streams.Unpacked(file) as stream:
            while chunk := stream.read(1 << 22):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    number += 1
                    if line.strip():
                        yield _parsed(line, f"{file.path}, line {number}")
        if rest.strip():
            yield _parsed(rest, f"{file.path}, line {number + 1}")


def _parsed(line: bytes, place: str) -> tuple[str, dict[str, Any]]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise LogError(f"{place} is not JSON: {str(problem)[:200]}") from None
    if not isinstance(found, dict):
        raise LogError(f"{place} is not a JSON object, but {str(found)[:40]!r}")
    return place, found
