"""How heavy the code is, and whether it is within the budget of pyproject.toml.

`python -m benchmarks.weight` prints nodes of the syntax tree (docstrings left out), functions, classes,
options of the command line and parameters of `evaluate`, each beside its budget, and exits 1 where one
is exceeded. Nodes do not change with line length or formatting. `make lint` runs it.
"""

from __future__ import annotations

import ast
import inspect
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Return the tree with the docstring of every module, class and function cut off."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS)) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:] if isinstance(first.value.value, str) else node.body
    return tree


def counted(source: str) -> dict[str, int]:
    r"""Return nodes, functions and classes of one file.

    >>> counted('def f(x):\n    "Return x."\n    return x')
    {'nodes': 7, 'functions': 1, 'classes': 0}
    """
    nodes = list(ast.walk(without_docstrings(ast.parse(source))))
    return {
        "nodes": len(nodes),
        "functions": sum(isinstance(node, _FUNCTIONS) for node in nodes),
        "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
    }


def of_package(folder: Path) -> dict[str, int]:
    """Return the counts of every module below a folder together."""
    files = [counted(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))]
    return {name: sum(one[name] for one in files) for name in files[0]}


def of_surface() -> dict[str, int]:
    """Return the options of all commands together, and the parameters of `evaluate`."""
    import click

    import counterrank as cr
    from counterrank.cli.main import main as group

    context = click.Context(group)
    commands = [group.get_command(context, name) for name in group.list_commands(context)]
    options = [one for command in commands if command is not None for one in command.params]
    return {
        "options": sum(isinstance(one, click.Option) for one in options),
        "evaluate-parameters": len(inspect.signature(cr.evaluate).parameters),
    }


def main() -> int:
    """Print each measure beside its budget; return 1 where one is exceeded."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budget: dict[str, int] = config["tool"]["counterrank"]["budget"]
    measured = {**of_package(ROOT / "src" / "counterrank"), **of_surface()}
    for name, value in measured.items():
        over = "  over budget" if value > budget[name] else ""
        print(f"{name:20} {value:9,} of {budget[name]:9,}{over}")
    if any(value > budget[name] for name, value in measured.items()):
        print(
            "The code is heavier than its budget. Remove what the change replaces; a budget is raised in\n"
            "pyproject.toml only with a line in CHANGELOG.md that says what users got for it.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
