"""`auto`: one estimate chosen from the log alone, with an interval that allows for what it cannot
see.
"""
