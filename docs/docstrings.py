"""Docstrings as pages want them: code blocks for doctests, tables and trees; tables of parameters.

An extension for mkdocstrings.
"""

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
        elif (
            paragraph.startswith("====") or "\n |- " in paragraph or re.match(r"    \S", paragraph)
        ):
            found.append(f"```text\n{paragraph}\n```")
        else:
            found.append(paragraph.replace("][", "]\\["))  # an index of an index is no link
    return "\n\n".join(found)


#: Parameters that mean the same wherever they stand, for docstrings that do not say it again.
COMMON = {
    "level": "confidence of the intervals",
    "seed": "every random stream follows it",
    "segments": "a column or several whose groups are looked at",
    "time": "the column with the time of each ranking",
    "targets": "candidate policies by name, or names of columns",
    "position_weights": "weights of the positions in the value: numbers, or a name such as `dcg`",
    "reading": "options of the reader, `counterrank.io.ReadOptions`",
    "log": "a `RankingLog`, a frame or a path",
    "n_rows": "rows of the log",
    "on_missing": '"superset" widens a mask to what the log supports',
}


def said_of(name: str, text: str) -> str:
    """Return the sentence of a docstring that first names a parameter in backticks, else what it
    means everywhere.

    >>> said_of("b", "Adds `a` to it. `b` is what is left; >>> no prose")
    '`b` is what is left'
    """
    prose = " ".join(re.sub(r"(?ms)^```.*?^```", "", text).split())
    for sentence in re.split(r"(?<=[.;])\s+(?=[`A-Z\"(>])", prose):
        if re.search(rf"`{re.escape(name)}[`=(: ]", sentence):
            return sentence.rstrip(".;")
    return COMMON.get(name, "")


def parameter_table(parameters: list[griffe.Parameter], text: str) -> str:
    """Return a table of what can be given: name, type, default, and what the docstring says of it."""
    rows = []
    for one in parameters:
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
        name = stars.get(one.kind, "") + one.name  # type: ignore[arg-type]
        kind = str(one.annotation or "").strip("\"'")
        default = "" if one.default is None or name[0] == "*" else f"`{one.default}`"
        cells = (f"`{name}`", f"`{kind}`" if kind else "", default, said_of(one.name, text))
        rows.append("| " + " | ".join(cell.replace("|", "&#124;") for cell in cells) + " |")
    head = ["| parameter | type | default | meaning |", "|---|---|---|---|"]
    # Code spans keep entities as they are written: a bar inside one is spelt by HTML instead.
    body = [re.sub(r"`([^`]*&#124;[^`]*)`", r"<code>\1</code>", row) for row in rows]
    return "\n".join([*head, *body])


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_package(self, *, pkg: griffe.Module, **options: Any) -> None:
        """Add tables of parameters to the docstrings of public names that do not list them."""
        if pkg.name != "counterrank":
            return
        for member in pkg.members.values():
            if isinstance(member, griffe.Alias):
                self.tabulate(member)

    def tabulate(self, alias: griffe.Alias) -> None:
        """Add a table of its parameters to the docstring of a public function or class."""
        try:
            obj = alias.final_target
        except griffe.AliasResolutionError:  # a name from another library
            return
        if not (obj.is_function or obj.is_class) or obj.docstring is None:
            return
        if "Parameters\n----------" in obj.docstring.value:
            return
        given = [one for one in obj.parameters if one.name not in ("self", "cls")]
        if len(given) > 1:
            told = obj.docstring.value
            obj.docstring.value = f"{told}\n\n{parameter_table(given, told)}"

    def on_instance(self, *, obj: griffe.Object, **options: Any) -> None:
        """Fence the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
