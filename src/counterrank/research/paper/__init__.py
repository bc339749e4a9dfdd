"""The paper's figures and tables, by one command; what makes them is loaded on first use."""

from typing import TYPE_CHECKING

from counterrank._lazy import attach
from counterrank.research.paper.figures import FIGURES, OracleForm

if TYPE_CHECKING:
    from counterrank.research.paper.page import write_page
    from counterrank.research.paper.runner import reproduce

__all__ = ["FIGURES", "OracleForm", "reproduce", "write_page"]

# Hidden from type checkers, for which a module with `__getattr__` has every name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(__name__, {"page": ["write_page"], "runner": ["reproduce"]})
