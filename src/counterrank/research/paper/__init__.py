"""The paper's figures and tables, by one command; what makes them is loaded on first use."""

from counterrank.common.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = __dir__()
