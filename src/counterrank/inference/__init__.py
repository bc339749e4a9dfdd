"""Standard errors and intervals from additive moments."""
