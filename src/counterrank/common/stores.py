"""Places that are no paths of this machine: `s3://bucket/log.parquet`, and any address fsspec knows.

Arrow's own file systems serve s3, gs and abfs; everything else goes through fsspec. Credentials
come from where these libraries look for them (environment, profiles, roles), never from an address:
addresses stand in results and messages.
"""

import errno
import fnmatch
import os
import re
import select
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

from counterrank.common.errors import ConfigError, LogError, MissingExtraError, OutputError, require
from counterrank.common.texts import first_line, suggestion

PathLike = str | os.PathLike[str]
#: Size, time of change in nanoseconds, and what tells two contents of one size and time apart.
Stamp = tuple[int, int, str]

#: Schemes that Arrow serves by itself.
NATIVE = ("s3", "gs", "gcs", "abfs", "abfss")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
#: What may stand behind the question mark of an address; anything else might be a secret.
_PARAMETERS = ("region", "endpoint_override", "scheme", "anonymous")
#: Seconds until a store that does not answer is given up.
_PATIENCE = 20
#: The same for a pipe on this machine.
PIPE_SECONDS = 3.0


def is_url(path: PathLike) -> bool:
    """Whether a path is an address in a store.

    >>> is_url("s3://logs/day.parquet"), is_url("logs/day.parquet"), is_url("C://x")
    (True, False, False)
    """
    return _URL.match(os.fspath(path)) is not None


def store_of(url: str) -> tuple[Any, str]:
    """Return the file system of an address and the path inside it."""
    _refuse_secrets(url)
    with clear_errors(url):
        scheme, host, path, query = _parts(url)
        if scheme in NATIVE:
            return _native(f"{scheme}://{host}", query, _environment()), _inside(host, path, scheme)
        return _by_fsspec(url)


def _parts(url: str) -> tuple[str, str, str, str]:
    """Return scheme, host, path and query; keys are taken as they are, with percent signs and all."""
    scheme, _, address = url.partition("://")
    address, _, query = address.partition("?")
    host, slash, path = address.partition("/")
    return scheme.lower(), host, slash + path, query


def _refuse_secrets(url: str) -> None:
    scheme, host, _, query = _parts(url)
    user, sign, _ = host.rpartition("@")
    # Of abfs://container@account/path the name before the @ is no user.
    if ":" in user or (sign and scheme not in NATIVE[3:]):
        raise ConfigError(
            f"the {scheme}:// address holds credentials; leave them out of it and give them by the "
            "environment or a profile, since addresses are written into results"
        )
    unknown = [key for key, _ in parse_qsl(query, True) if key not in _PARAMETERS]
    if unknown or (query and scheme not in NATIVE):
        raise ConfigError(
            f"the {scheme}:// address has parameters behind a question mark, which may hold "
            f"secrets; only {', '.join(_PARAMETERS)} may stand there, for s3, gs and abfs"
        )


def _inside(host: str, path: str, scheme: str) -> str:
    if scheme in NATIVE[3:]:
        # The container is named before the @, or is the first part of the path.
        container, sign, _ = host.rpartition("@")
        inside = f"{container}{path}" if sign else path
    else:
        inside = f"{host}{path}"
    return inside.strip("/")


def _environment() -> tuple[tuple[str, str], ...]:
    """Return the variables by which stores are found: with others, another connection is made."""
    prefixes = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_")
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith(prefixes)))


@lru_cache(maxsize=16)
def _native(base: str, query: str, environment: tuple[tuple[str, str], ...]) -> Any:
    from pyarrow import fs

    parameters = dict(parse_qsl(query))
    options: dict[str, object] = (
        {"anonymous": True} if parameters.get("anonymous") == "true" else {}
    )
    if base.startswith("s3:"):
        return _s3(base, parameters, options)
    if base.startswith("g"):
        options |= {
            key: parameters[key] for key in ("endpoint_override", "scheme") if key in parameters
        }
        patience = timedelta(seconds=_PATIENCE)
        return fs.GcsFileSystem(retry_time_limit=patience, **options)
    system, _ = fs.FileSystem.from_uri(f"{base}/")
    return system


def _s3(base: str, parameters: dict[str, str], options: dict[str, object]) -> Any:
    from pyarrow import fs

    # The variables of Amazon's own tools; Arrow reads them in some versions and in some ways only.
    endpoint = parameters.get("endpoint_override") or s3_endpoint()
    scheme, sign, host = endpoint.rpartition("://")
    options |= {
        "request_timeout": _PATIENCE,
        "connect_timeout": _PATIENCE / 4,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=3),
    }
    if endpoint:
        options |= {
            "endpoint_override": host,
            "scheme": parameters.get("scheme") or (scheme if sign else "https"),
        }
    region = (
        parameters.get("region")
        or os.environ.get("AWS_REGION")
        or os.environ.get("AWS_DEFAULT_REGION")
    )
    if region is None:
        bucket = base.partition("://")[2]
        region = "us-east-1" if endpoint else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(region=region, **options)


def s3_endpoint() -> str:
    """Return the address of the store that the environment names instead of Amazon's own, or nothing."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _by_fsspec(url: str) -> tuple[Any, str]:
    from pyarrow import fs

    scheme = url.partition("://")[0]
    core = require("fsspec.core", extra="stores")
    schemes = require("fsspec.registry", extra="stores").known_implementations
    if scheme not in schemes:
        near = suggestion(scheme, [*NATIVE, *schemes])
        raise ConfigError(
            f"{scheme}:// is no store that is known{near}; use {', '.join(NATIVE)}, or a scheme "
            "of fsspec"
        )
    try:
        system, inside = core.url_to_fs(url)
    except ImportError as problem:
        text = str(problem).splitlines()[0]
        raise MissingExtraError(f"{scheme}:// needs another package of fsspec: {text}") from None
    except (OSError, ConfigError):
        raise
    except Exception as problem:
        # Some schemes (reference, dask) need more than an address to begin with.
        raise ConfigError(
            f"{scheme}:// cannot be opened by its address alone: {without_secrets(first_line(problem))}"
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), inside


@contextmanager
def clear_errors(url: PathLike, *, writing: bool = False) -> Iterator[None]:
    """Turn what a store answers into one message about the address."""
    try:
        yield
    except OSError as problem:
        # Not `from`: the answers of stores quote requests, and requests may carry a signature.
        kind = OutputError if writing else LogError
        if isinstance(problem, MissingExtraError):
            raise
        verb = "write" if writing else "read"
        raise kind(f"cannot {verb} {os.fspath(url)}: {_reason(problem)}") from None


def _reason(problem: OSError) -> str:
    """Return what went wrong in words; stores number their answers in their own ways."""
    text = str(problem)
    for pattern, meaning in _ANSWERS.items():
        if re.search(pattern, text):
            return meaning
    if isinstance(problem, FileNotFoundError):
        return "there is nothing of that name"
    if isinstance(problem, PermissionError):
        return _DENIED
    return without_secrets(first_line(problem))


def without_secrets(text: str) -> str:
    """Return text whose addresses have lost what might be a secret.

    That is a user's password, and what stands behind a question mark.

    >>> without_secrets("cannot open https://me:pw@host/x?signature=abc now")
    'cannot open https://...@host/x?... now'
    """
    return re.sub(r"//[^/\s@]*:[^/\s@]*@", "//...@", re.sub(r"\?\S+", "?...", text))


_DENIED = "access is denied; check the credentials of the environment, and what they may do"
#: What stores say, as a pattern, and what it means.
_ANSWERS = {
    "NO_SUCH_BUCKET|NoSuchBucket|Bucket .* not found|ContainerNotFound": (
        "there is no such bucket"
    ),
    "ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|SIGNATURE_DOES_NOT_MATCH|HTTP status 403|"
    "UNAUTHENTICATED|PERMISSION_DENIED|AuthorizationFailure": _DENIED,
    "NETWORK_CONNECTION|[Cc]ouldn't connect|[Cc]ould not connect|[Cc]onnection refused|"
    "[Tt]imeout was reached": "the store does not answer",
}


def kind_of(path: str) -> str:
    """Return what is at a path or an address: "file", "folder", "device" or nothing."""
    if not is_url(path):
        tests = {"folder": os.path.isdir, "file": os.path.isfile, "device": os.path.exists}
        return next((kind for kind, test in tests.items() if test(path)), "")
    from pyarrow import fs

    system, inside = store_of(path)
    with clear_errors(path):
        type_of = system.get_file_info(inside).type
    return {fs.FileType.NotFound: "", fs.FileType.Directory: "folder"}.get(type_of, "file")


def stamp(path: PathLike) -> Stamp:
    """Return size, time of change and identity of a file, by which a change is noticed."""
    text = os.fspath(path)
    if not is_url(text):
        state = os.stat(text)
        return state.st_size, state.st_mtime_ns, str(state.st_ino)
    return glance(text, 0)[0]


def glance(path: PathLike, count: int) -> tuple[Stamp, bytes]:
    """Return the stamp of a file and its first bytes, in one visit."""
    text = os.fspath(path)
    if not is_url(text):
        with open(text, "rb") as local:
            return stamp(text), local.read(count)
    with opened(text) as file, clear_errors(text):
        return _stamp(text, file), bytes(file.read(count))


def _stamp(url: str, file: Any) -> Stamp:
    """Return the stamp of an open file, by what the store said when it was opened."""
    metadata = {_word(key).lower(): _word(value) for key, value in (file.metadata() or {}).items()}
    if "etag" in metadata:
        return file.size(), 0, metadata["etag"]
    system, inside = store_of(url)
    status = system.get_file_info(inside)
    return int(status.size or 0), int(status.mtime_ns or 0), ""


def _word(text: bytes | str) -> str:
    return text.decode() if isinstance(text, bytes) else text


def opened(path: PathLike) -> Any:
    """Return a file that is open for reading anywhere in it."""
    import pyarrow as pa

    text = os.fspath(path)
    if not is_url(text):
        return pa.OSFile(text)
    system, inside = store_of(text)
    with clear_errors(text):
        return system.open_input_file(inside)


def kept_open(url: str, version: Stamp | None) -> Any:
    """Return an open file of a store, one for all who read this version of it: opening asks the store."""
    if version is None or _parts(url)[0] not in NATIVE:
        return opened(url)
    return _kept_open(url, version, _environment())


@lru_cache(maxsize=128)
def _kept_open(url: str, version: Stamp, environment: tuple[tuple[str, str], ...]) -> Any:
    return opened(url)


def _opened_at_once(path: str, flags: int) -> int:
    """Return a descriptor; a pipe that nobody writes to is refused instead of being waited for."""
    if not os.path.exists(path) or not stat.S_ISFIFO(os.stat(path).st_mode):
        return os.open(path, flags)
    pipe = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(pipe, True)
    if not select.select([pipe], [], [], PIPE_SECONDS)[0]:
        os.close(pipe)
        raise OSError(errno.EPIPE, "it is a pipe, and nobody writes to it", path)
    return pipe


def read_bytes(path: PathLike) -> bytes:
    """Return the whole content of a small file."""
    if not is_url(path):
        with open(path, "rb", opener=_opened_at_once) as file:
            return file.read()
    with opened(path) as source, clear_errors(path):
        return bytes(source.read())


def upload(source: PathLike, url: str) -> None:
    """Copy a file of this machine to an address."""
    system, inside = store_of(url)
    with clear_errors(url, writing=True), open(source, "rb") as file:
        with system.open_output_stream(inside) as out:
            shutil.copyfileobj(file, out, 8 << 20)


def refuse_unwritable(url: str) -> None:
    """Raise when an object could not be written there: no such bucket, or no access to it."""
    from pyarrow import fs

    system, inside = store_of(url)
    if inside.endswith("/") or "/" not in inside:
        raise OutputError(f"cannot write {url}: name an object in a bucket")
    if _parts(url)[0] not in NATIVE:
        return
    with clear_errors(url, writing=True):
        bucket = system.get_file_info(inside.partition("/")[0])
    if bucket.type == fs.FileType.NotFound:
        raise OutputError(f"cannot write {url}: there is no such bucket")


def found_at(url: str) -> tuple[str, list[str]]:
    """Return the address of a folder, and the names in it that a folder or a pattern stands for.

    `*` stands for letters of one name, `**` for any number of folders; a folder that fits
    stands for all that lies in it.
    """
    path, tail = _cut(url)
    scheme, _, address = path.partition("://")
    parts = address.rstrip("/").split("/")
    fixed = next((i for i, segment in enumerate(parts) if _MAGIC.search(segment)), len(parts))
    base = f"{scheme}://{'/'.join(parts[:fixed])}{tail}"
    return base, [name for name in _file_names(base) if _fits(name.split("/"), parts[fixed:])]


def _file_names(url: str) -> list[str]:
    """Return the names of all files in a folder of a store, sorted."""
    from pyarrow import fs

    system, inside = store_of(url)
    with clear_errors(url):
        entries = system.get_file_info(fs.FileSelector(inside, recursive=True))
    return sorted(entry.path[len(inside) :].lstrip("/") for entry in entries if entry.is_file)


def joined(folder: str, name: str) -> str:
    """Return the path or address of a name in a folder.

    >>> joined("s3://logs/2026?region=eu-west-1", "day=1/part.parquet")
    's3://logs/2026/day=1/part.parquet?region=eu-west-1'
    """
    if not is_url(folder):
        return os.path.join(folder, name)
    path, tail = _cut(folder)
    return f"{path.rstrip('/')}/{name}{tail}"


def has_pattern(url: str) -> bool:
    """Whether an address is a pattern of several.

    >>> has_pattern("s3://logs/day=*/part.parquet"), has_pattern("s3://logs/x?region=eu-west-1")
    (True, False)
    """
    return bool(_MAGIC.search(_cut(url)[0]))


def _cut(url: str) -> tuple[str, str]:
    """Return an address without its parameters, and these with their question mark."""
    path, mark, query = url.partition("?")
    return path, mark + query


_MAGIC = re.compile(r"[*\[]")


def _fits(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return True  # the rest lies in a folder that fits
    if pattern[0] == "**":
        return any(_fits(parts[i:], pattern[1:]) for i in range(len(parts)))
    return (
        bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])
    )
