"""Public names load their module on first use, so that `import counterrank` stays quick."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def attach(
    modules: Mapping[str, Sequence[str]], package: str = "counterrank"
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a module's `__getattr__`, `__dir__` and `__all__` for names that live in
    `package.module`.

    Classes keep the `__module__` of the file they stand in, long as it looks in a signature: with
    the package's name there, `inspect.getsource` and a notebook's `??` do not find them, and doctest
    passes them over in silence.
    """
    home = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(home[name]), name)

    return get, lambda: sorted(home), sorted(home)
