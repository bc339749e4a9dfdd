"""Reward models: cross-fitted, closed-form where it can be, with exact means under a target policy."""
