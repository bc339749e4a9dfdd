"""Examination models: which items a user looks at when the reward at a position comes about.

One class of users with a tilt by context is the visibility model; several classes are the mixture.
See ../WHY.md.
"""

from counterrank.models.mixture.model import MixtureModel, Rows, rows_of
from counterrank.models.mixture.search import Frame, columns, fitted

__all__ = ["Frame", "MixtureModel", "Rows", "columns", "fitted", "rows_of"]
