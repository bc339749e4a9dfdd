"""The paper's figures and tables, by one command."""

from counterrank.paper.figures import FIGURES
from counterrank.paper.page import write_page
from counterrank.paper.runner import reproduce

__all__ = [
    "FIGURES",
    "reproduce",
    "write_page",
]
