"""Public names load their module on first use, so that `import counterrank` stays quick."""

import importlib
import os
from collections.abc import Callable
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` for the names in the stub `__init__.pyi` beside its file.

    The stub has a line `from module import name as name` for each: type checkers, editors and this
    function read the same list. Classes keep the `__module__` of their file: with the package's
    name there, `inspect.getsource` and a notebook's `??` do not find them, and doctest skips them.
    """
    home: dict[str, str] = {}
    with open(os.path.join(os.path.dirname(file), "__init__.pyi"), encoding="utf-8") as stub:
        for line in stub:
            match line.split():
                case ["from", module, "import", name, "as", _]:
                    home[name] = module

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(home[name]), name)

    return get, lambda: sorted(home)
