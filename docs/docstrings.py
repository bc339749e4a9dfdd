"""Docstrings as pages want them: doctests, tables and trees become code blocks (an extension for mkdocstrings)."""

import inspect
import re
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
        elif paragraph.startswith("====") or "\n |- " in paragraph or re.match(r"    \S", paragraph):
            found.append(f"```text\n{paragraph}\n```")
        else:
            found.append(paragraph.replace("][", "]\\["))  # an index of an index is no link
    return "\n\n".join(found)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **options: Any) -> None:
        """Fence the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
