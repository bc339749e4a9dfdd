"""Parsing and exit codes only; the work is done below."""
