"""Public names load their module on first use, so that `import counterrank` stays quick."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def attach(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` for names that live in `package.module`.

    The package imports the same names under TYPE_CHECKING and lists them in `__all__`, both of
    which type checkers read. Classes keep the `__module__` of their file: with the package's name
    there, `inspect.getsource` and a notebook's `??` do not find them, and doctest skips them.
    """
    home = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(home[name]), name)

    return get, lambda: sorted(home)
