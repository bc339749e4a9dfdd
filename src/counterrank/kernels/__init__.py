"""Compiled array functions: no validation, no state, no randomness of their own."""
