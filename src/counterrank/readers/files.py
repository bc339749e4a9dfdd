"""Which files a path means, and what format each has: by its name, checked against its first bytes."""

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from counterrank.errors import LogError
from counterrank.readers.messages import guard
from counterrank.texts import suggestion

Value = str | int | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file: where it is, its format and compression, and what the folders above it say.

    `stamp` is size, time of change and identity when the file was found; `decimal` the sign in CSV
    numbers.
    """

    path: str
    format: str
    compression: str | None = None
    partitions: tuple[tuple[str, Value], ...] = ()
    decimal: str = "."
    stamp: tuple[int, int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable content."""
        return {
            "path": self.path,
            "format": self.format,
            "compression": self.compression,
            "partitions": [list(pair) for pair in self.partitions],
            "decimal": self.decimal,
            "stamp": self.stamp,
        }

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Self:
        """Return the file written by `to_dict`."""
        partitions = tuple((key, value) for key, value in content["partitions"])
        stamp = None if content["stamp"] is None else tuple(content["stamp"])
        return cls(
            content["path"],
            content["format"],
            content["compression"],
            partitions,
            content["decimal"],
            stamp,
        )

    def refuse_change(self) -> None:
        """Raise if the file is no longer the one that was found: sums over two versions of it mean
        nothing.
        """
        if self.stamp is not None and _stamp(self.path) != self.stamp:
            raise LogError(
                f"{self.path} was changed while it was being read; read a copy that nobody writes "
                "to"
            )


@contextmanager
def steady(file: DataFile) -> Iterator[None]:
    """Check before and after the block that the file is the one that was found."""
    file.refuse_change()
    yield
    file.refuse_change()


def _stamp(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    state = os.stat(path)
    return state.st_size, state.st_mtime_ns, state.st_ino


def expand(
    path: str | os.PathLike[str], format: str | None = None, *, decimal: str = "."
) -> list[DataFile]:
    """Return the data files a path stands for, in the order of their names."""
    text = os.path.expanduser(os.fspath(path))
    where = Path(text)
    if where.is_dir():
        found = _in_folder(where)
        if not found:
            raise LogError(f"the folder {text} holds no data files ({', '.join(EXTENSIONS)})")
    elif where.exists():
        return [_file(where, format, (), decimal)]
    else:
        found = sorted(Path(name) for name in glob.glob(text, recursive=True))
        if not found:
            raise LogError(
                f"there is no file {text}" + (" that matches" if glob.has_magic(text) else "")
            )
        found = [file for name in found for file in (_in_folder(name) if name.is_dir() else [name])]
    pairs = _typed([_partitions(file) for file in found])
    return [_file(file, format, pair, decimal) for file, pair in zip(found, pairs, strict=True)]


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(
        file for file in folder.rglob("*") if file.is_file() and has_known_extension(file.name)
    )
    # Spark and others keep markers and temporary files beside the data.
    return [
        file
        for file in files
        if not any(part[:1] in "._" for part in file.relative_to(folder).parts)
    ]


def _file(
    path: Path, format: str | None, partitions: tuple[tuple[str, Value], ...], decimal: str
) -> DataFile:
    found, compression = recognise(path, format)
    return DataFile(str(path), found, compression, partitions, decimal, _stamp(path))


def _partitions(path: Path) -> list[tuple[str, str]]:
    pairs = (part.partition("=") for part in path.parent.parts)
    return [(key, unquote(value)) for key, sign, value in pairs if sign and key]


def _typed(all_pairs: list[list[tuple[str, str]]]) -> list[tuple[tuple[str, Value], ...]]:
    """Partition values as integers where every one of a key is, as text otherwise; Hive's name for
    null is None.
    """
    texts: dict[str, set[str]] = {}
    for pairs in all_pairs:
        for key, value in pairs:
            texts.setdefault(key, set()).add(value)
    null = "__HIVE_DEFAULT_PARTITION__"
    whole = {
        key
        for key, found in texts.items()
        if all(v.lstrip("-").isdecimal() for v in found - {null})
    }

    def typed(key: str, value: str) -> Value:
        return None if value == null else int(value) if key in whole else value

    return [tuple((key, typed(key, value)) for key, value in pairs) for pairs in all_pairs]


#: Extension to format.
EXTENSIONS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow-stream",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
FORMATS = ("parquet", "arrow", "arrow-stream", "csv", "jsonl")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
#: Other names of formats.
ALIASES = {
    "feather": "arrow",
    "ipc": "arrow",
    "tsv": "csv",
    "ndjson": "jsonl",
    "json": "jsonl",
    "pq": "parquet",
}

_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow-stream"}
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_FOREIGN = {
    b"PK\x03\x04": "a zip archive or spreadsheet; unpack it or save it as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV or Parquet",
    b"\x89HDF": "an HDF5 file; save the table as Parquet",
    b"\x93NUMPY": "a NumPy array; use counterrank.RankingLog(action=..., ...)",
    b"BZh": "a bzip2 archive; unpack it first or use gzip",
    b"\xfd7zXZ": "an xz archive; unpack it first or use gzip",
    b"Obj\x01": "an Avro file; save the table as Parquet",
    b"ORC": "an ORC file; save the table as Parquet",
    b"FEA1": "a Feather file of version 1; write it again with a recent pyarrow or pandas",
    b"%PDF": "a PDF",
    b"\x80\x04\x95": "a pickle, which is never opened; save the table as Parquet",
}


def has_known_extension(name: str) -> bool:
    """Whether a file in a folder is taken for data.

    >>> has_known_extension("part-0.csv.gz"), has_known_extension("_SUCCESS")
    (True, False)
    """
    return _split(name)[0] in EXTENSIONS


def recognise(path: Path, format: str | None) -> tuple[str, str | None]:
    """Return the format and the compression of a file; its content decides where its name is silent
    or wrong.
    """
    with guard(str(path)):
        with open(path, "rb") as file:
            head = file.read(16)
    if not head:
        raise LogError(f"{path} is empty (0 bytes)")
    for magic, what in _FOREIGN.items():
        if head.startswith(magic):
            raise LogError(f"{path} is {what}")
    return _decided(path, head, format)


def _decided(path: Path, head: bytes, format: str | None) -> tuple[str, str | None]:
    extension, _ = _split(path.name)
    packed = next((kind for magic, kind in _PACKED.items() if head.startswith(magic)), None)
    seen = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if seen is not None:
        return seen, None
    named = _named(format) if format else EXTENSIONS.get(extension)
    if named in ("parquet", "arrow"):
        mark = "PAR1" if named == "parquet" else "ARROW1"
        raise LogError(
            f"{path} is not {'a Parquet' if named == 'parquet' else 'an Arrow'} file: it does not "
            f"start with {mark}, but with {head[:8]!r}"
            + (f"; it is packed with {packed}, unpack it first" if packed else "")
        )
    if named is None and packed is None:
        named = "jsonl" if head.lstrip()[:1] == b"{" else None
    if named is None:
        raise LogError(
            f"{path}: the format of '{path.name}' is not known; use one of {', '.join(EXTENSIONS)} "
            "or say --format parquet|arrow|csv|jsonl (format= in Python)"
        )
    return named, packed


def _named(format: str) -> str:
    found = ALIASES.get(format, format)
    if found not in FORMATS:
        known = [*FORMATS, *ALIASES]
        raise LogError(
            f"format '{format}' is unknown{suggestion(format, known)}; use {', '.join(FORMATS)}"
        )
    return found


def _split(name: str) -> tuple[str, str | None]:
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    packed = COMPRESSIONS.get(suffixes[-1]) if suffixes else None
    if packed:
        suffixes.pop()
    return (suffixes[-1] if suffixes else ""), packed
