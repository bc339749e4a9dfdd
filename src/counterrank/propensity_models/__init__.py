"""Propensities that nobody logged: estimated from the log, cross-fitted, calibrated, and flagged."""

from counterrank.propensity_models.estimate import estimate_propensities, estimated_source

__all__ = [
    "estimate_propensities",
    "estimated_source",
]
