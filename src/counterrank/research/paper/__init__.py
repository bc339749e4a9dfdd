"""The paper's figures and tables, by one command; what makes them is loaded on first use."""

from counterrank._lazy import attach
from counterrank.research.paper.figures import FIGURES

__getattr__, __dir__, __all__ = attach(
    {"page": ["write_page"], "runner": ["reproduce"]}, "counterrank.research.paper"
)
__all__ += ["FIGURES"]
