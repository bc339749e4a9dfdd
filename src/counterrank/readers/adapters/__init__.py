"""Logs of other libraries and public data sets, each in the format it really has."""
