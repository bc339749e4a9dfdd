"""The paper's figures and tables, by one command; what makes them is loaded on first use."""

from counterrank._lazy import attach
from counterrank.paper.figures import FIGURES

__getattr__, __dir__, __all__ = attach(
    {"page": ["write_page"], "runner": ["reproduce"]}, "counterrank.paper"
)
__all__ += ["FIGURES"]
