"""Estimates of the mean squared error of an assignment, one file each."""
