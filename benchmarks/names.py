"""Names that do not say what they hold, and public names without complete docstrings.

`python -m benchmarks.names` counts variables, parameters, fields and functions that are called by a
pronoun, an adverb or a participle (`found`, `one`, `away`), and compares the number with `vague-names` in
the budget of pyproject.toml. It also lists names of `counterrank.__all__`, and public classes and functions of the
packages in `documented-packages`, that lack a numpydoc section. It exits 1 if the number is over budget or a section is
missing; `make lint` runs it. With `--files` it prints every vague name with its line.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "counterrank"
VARIABLES = frozenset(
    "found one own part made away far like some other others rest kept seen said taken given both "
    "each every more most about into of at beside around against all again known wanted asked needed "
    "here there now same such this that these those whole few many much thing things stuff tmp data_ "
    "res ret val obj".split()
)
FUNCTIONS = frozenset(
    "of at listed said taken seen moved found made kept like one own together alone jointly near look "
    "calm once each every within beside around against nothing something otherwise stretch "
    "hand_over".split()
)
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def vague_names(source: str) -> Iterator[tuple[int, str]]:
    r"""Yield the line and the name of every vague name in a module.

    >>> list(vague_names("found = 1\nfor row in rows:\n    own = row"))
    [(1, 'found'), (3, 'own')]
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                words = VARIABLES
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                words = FUNCTIONS
            case _:
                continue
        if not name.startswith("__") and name.strip("_") in words:
            yield node.lineno, name


def public_names(pattern: str = "**/__init__.pyi") -> set[tuple[str, str]]:
    """Return package and name of everything that the stubs of a pattern export.

    >>> ("policies", "PlackettLuce") in public_names()
    True
    >>> ("estimators", "IPS") in public_names("__init__.pyi")
    True
    """
    exported = set()
    for stub in SOURCE.glob(pattern):
        for line in stub.read_text(encoding="utf-8").splitlines():
            match line.split():
                case ["from", module, "import", name, "as", _]:
                    exported.add((module.split(".")[1], name))
    return exported


def missing_sections(node: ast.AST) -> list[str]:
    """Return the numpydoc sections that the docstring of a class or function lacks.

    >>> missing_sections(ast.parse('def f(x): "Return x."').body[0])
    ['Parameters', 'Returns', 'Examples']
    """
    if isinstance(node, _FUNCTION):
        arguments = node.args
    elif isinstance(node, ast.ClassDef):
        constructors = [
            child
            for child in node.body
            if isinstance(child, _FUNCTION) and child.name == "__init__"
        ]
        arguments = constructors[0].args if constructors else ast.arguments([], [], None, [], [])
    else:
        return []
    text = ast.get_docstring(node) or ""
    takes_arguments = len(arguments.args) + len(arguments.kwonlyargs) > isinstance(
        node, ast.ClassDef
    )
    required = ["Parameters"] * takes_arguments
    required += ["Returns"] * isinstance(node, _FUNCTION) + ["Examples"]
    return [section for section in required if f"{section}\n{'-' * len(section)}" not in text]


def incomplete_docstrings(packages: list[str]) -> Iterator[str]:
    """Yield a message for every name that users import from `counterrank` and every public name of these packages
    whose docstring lacks a section.
    """
    required = public_names("__init__.pyi")
    required |= {(package, name) for package, name in public_names() if package in packages}
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[0]
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            missing = (
                missing_sections(node) if (package, getattr(node, "name", "")) in required else []
            )
            if missing:
                yield f"{path.relative_to(ROOT)}: {node.name} has no {', '.join(missing)}"


def main() -> int:
    """Print the number of vague names beside its budget; return 1 if a check fails."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budget = config["tool"]["counterrank"]["budget"]["vague-names"]
    total = 0
    for path in sorted(SOURCE.rglob("*.py")):
        for line, name in vague_names(path.read_text(encoding="utf-8")):
            total += 1
            if "--files" in sys.argv:
                print(f"{path.relative_to(ROOT)}:{line}: {name}")
    print(
        f"{'vague-names':20} {total:9,} of {budget:9,}{'  over budget' if total > budget else ''}"
    )
    messages = list(incomplete_docstrings(config["tool"]["counterrank"]["documented-packages"]))
    if messages:
        print(*messages, sep="\n", file=sys.stderr)
    if total > budget:
        print(
            "More variables are called by words such as `found` or `one` than before: call them by the\n"
            "noun of what they hold. `python -m benchmarks.names --files` lists them.",
            file=sys.stderr,
        )
    return int(bool(messages) or total > budget)


if __name__ == "__main__":
    sys.exit(main())
