"""Which files a path means: a file, a folder, a pattern, a tree of key=value folders."""

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from counterrank.errors import LogError
from counterrank.readers import sniff

Value = str | int | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file: where it is, its format and compression, and what the folders above it say."""

    path: str
    format: str
    compression: str | None = None
    partitions: tuple[tuple[str, Value], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable content."""
        return {
            "path": self.path,
            "format": self.format,
            "compression": self.compression,
            "partitions": [list(pair) for pair in self.partitions],
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the file written by `to_dict`."""
        partitions = tuple((key, value) for key, value in content["partitions"])
        return cls(content["path"], content["format"], content["compression"], partitions)


def expand(path: str | os.PathLike[str], format: str | None = None) -> list[DataFile]:
    """Return the data files a path stands for, in the order of their names."""
    text = os.path.expanduser(os.fspath(path))
    where = Path(text)
    if where.is_dir():
        found = _in_folder(where)
        if not found:
            raise LogError(f"the folder {text} holds no data files ({', '.join(sniff.EXTENSIONS)})")
    elif where.exists():
        return [_file(where, format, ())]
    else:
        found = sorted(Path(name) for name in glob.glob(text, recursive=True))
        if not found:
            raise LogError(f"there is no file {text}" + (" that matches" if glob.has_magic(text) else ""))
        found = [file for name in found for file in (_in_folder(name) if name.is_dir() else [name])]
    pairs = _typed([_partitions(file) for file in found])
    return [_file(file, format, pair) for file, pair in zip(found, pairs, strict=True)]


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.rglob("*") if file.is_file() and sniff.has_known_extension(file.name))
    # Spark and others keep markers and temporary files beside the data.
    return [file for file in files if not any(part[:1] in "._" for part in file.relative_to(folder).parts)]


def _file(path: Path, format: str | None, partitions: tuple[tuple[str, Value], ...]) -> DataFile:
    found, compression = sniff.recognise(path, format)
    return DataFile(str(path), found, compression, partitions)


def _partitions(path: Path) -> list[tuple[str, str]]:
    pairs = (part.partition("=") for part in path.parent.parts)
    return [(key, unquote(value)) for key, sign, value in pairs if sign and key]


def _typed(all_pairs: list[list[tuple[str, str]]]) -> list[tuple[tuple[str, Value], ...]]:
    """Partition values as integers where every one of a key is, as text otherwise; Hive's name for null is None."""
    texts: dict[str, set[str]] = {}
    for pairs in all_pairs:
        for key, value in pairs:
            texts.setdefault(key, set()).add(value)
    null = "__HIVE_DEFAULT_PARTITION__"
    whole = {key for key, found in texts.items() if all(v.lstrip("-").isdecimal() for v in found - {null})}

    def typed(key: str, value: str) -> Value:
        return None if value == null else int(value) if key in whole else value

    return [tuple((key, typed(key, value)) for key, value in pairs) for pairs in all_pairs]
