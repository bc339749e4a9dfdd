"""Compiled inner loops of this package."""
