"""Import paths that documentation once showed; they work until 1.0 and say where things are now."""

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any

#: Old module: where its names are now.
MOVED = {
    "counterrank.propensities": "counterrank.propensity_models",
    "counterrank.behavior.masks": "counterrank.behavior",
    "counterrank.behavior.candidates": "counterrank.behavior",
    "counterrank.inference.methods": "counterrank.inference",
    "counterrank.inference.normal": "counterrank.inference",
}


class _Moved(ModuleType):
    """A module without content that answers for another and warns."""

    def __getattr__(self, name: str) -> Any:
        # Python and its tools look for __file__, __path__ and the like in whatever is loaded.
        if name.startswith("__"):
            raise AttributeError(name)
        home = MOVED[self.__name__]
        found = getattr(importlib.import_module(home), name)
        warnings.warn(
            f"{self.__name__} is now {home}; this path goes with version 1.0",
            DeprecationWarning,
            stacklevel=2,
        )
        return found


def keep() -> None:
    """Let the old paths be imported; the modules behind them load when a name is asked for."""
    # Entries rather than files: `behavior` is a module and has no room for files, and
    # `behavior.candidates` is a function, which a file of that name would hide.
    for old in MOVED:
        sys.modules.setdefault(old, _Moved(old))
