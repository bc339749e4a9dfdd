"""Docstrings as pages want them: code blocks for doctests, tables and trees; public names as people
import them.

An extension for mkdocstrings.
"""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import griffe


def fenced(text: str) -> str:
    r"""Return a docstring whose doctest, table and tree paragraphs stand in code fences.

    >>> fenced("A.\n\n>>> 1\n1")
    'A.\n\n```pycon\n>>> 1\n1\n```'
    """
    found = []
    for paragraph in re.split(r"\n{2,}", inspect.cleandoc(text)):
        if paragraph.lstrip().startswith(">>>"):
            found.append(f"```pycon\n{inspect.cleandoc(paragraph)}\n```")
        elif (
            paragraph.startswith("====") or "\n |- " in paragraph or re.match(r"    \S", paragraph)
        ):
            found.append(f"```text\n{paragraph}\n```")
        else:
            found.append(paragraph.replace("][", "]\\["))  # an index of an index is no link
    return "\n\n".join(found)


def public_names(source: str) -> dict[str, str]:
    """Return the home of each name that a package loads on first use (`attach` of
    `counterrank._lazy`).

    >>> public_names("get, dir, all = attach({'log': ['RankingLog']})")
    {'RankingLog': 'log'}
    """
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    (table,) = (
        ast.literal_eval(call.args[0]) for call in calls if getattr(call.func, "id", "") == "attach"
    )
    return {name: module for module, names in table.items() for name in names}


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed, and shows public names as `counterrank.NAME`."""

    def on_package(self, *, pkg: griffe.Module, **options: Any) -> None:
        """Add the names that are loaded on first use, which are not seen by reading the package's
        source.
        """
        if pkg.name == "counterrank":
            for name, module in public_names(Path(str(pkg.filepath)).read_text()).items():
                pkg.set_member(name, griffe.Alias(name, f"{pkg.name}.{module}.{name}", parent=pkg))

    def on_instance(self, *, obj: griffe.Object, **options: Any) -> None:
        """Fence the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
