"""Estimates of propensities that were not logged: cross-fitted, calibrated and flagged."""

from counterrank.propensity_models.estimate import estimate_propensities, estimated_source

__all__ = [
    "estimate_propensities",
    "estimated_source",
]
