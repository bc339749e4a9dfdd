"""The version, in a file of its own so that the build reads it without importing the package."""

__version__ = "1.0.0"
