"""Choices made from the log alone: estimates of the mean squared error, and the behaviour tree that minimises them."""
