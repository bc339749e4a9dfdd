"""Formats of other libraries, by name; those of other packages come as plug-ins."""

from counterrank.errors import ConfigError
from counterrank.io.adapters.tracking import read_ga4, read_metarank, read_ubi
from counterrank.io.files import ALIASES, FORMATS
from counterrank.io.reading import Adapter
from counterrank.plugins import FORMATS as PLUGINS
from counterrank.plugins import found, load
from counterrank.texts import suggestion

_OWN: dict[str, Adapter] = {
    "ubi": read_ubi,
    "ga4": read_ga4,
    "metarank": read_metarank,
}


def adapter_names() -> list[str]:
    """Return the names of all formats that are not plain files, ours and those of plug-ins."""
    return [*_OWN, *found(PLUGINS, _taken())]


def is_adapter(name: object) -> bool:
    """Return whether `name` is such a format.

    >>> is_adapter("ubi"), is_adapter("csv"), is_adapter(None)
    (True, False, False)
    """
    return name in adapter_names()


def adapter_of(name: str) -> Adapter | None:
    """Return the reader of another library's format; None for a plain file format.

    >>> adapter_of("csv") is None
    True
    """
    if name in FORMATS or name in ALIASES:
        return None
    if name in _OWN:
        return _OWN[name]
    others = found(PLUGINS, _taken())
    if name not in others:
        known = [*_taken(), *others]
        raise ConfigError(
            f"format '{name}' is unknown{suggestion(name, known)}; use one of {', '.join(known)}"
        )
    reader: Adapter = load(others[name], ConfigError)
    return reader


def _taken() -> list[str]:
    return [*FORMATS, *ALIASES, *_OWN]


__all__ = [
    "adapter_names",
    "adapter_of",
    "is_adapter",
]
