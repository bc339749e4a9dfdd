"""Compiled loops of the propensity models."""
