"""Reward models of rankings without replacement: clicks given what was clicked above, competition, amounts."""
