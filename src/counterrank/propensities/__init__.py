"""Propensities that nobody logged: estimated from the log, cross-fitted, calibrated, and flagged."""

from counterrank._lazy import attach

__getattr__, __dir__, __all__ = attach(
    {"estimate": ["estimate_propensities", "estimated_source"]}, package="counterrank.propensities"
)
