"""Compiled loops over rows: products of ratios and sums of weighted rewards."""
