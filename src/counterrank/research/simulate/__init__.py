"""Simulated rankings with known truth: environments, worlds of real shape, draws, exact values, logs on disk."""

from counterrank.common.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = __dir__()
