"""Importance weights: ratios of policies, their moments and variances, and what to think of them."""
