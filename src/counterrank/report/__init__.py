"""What people see: every result is one list of blocks, shown as a page, in a terminal and in a notebook.

`evaluation`, `learning`, `abtest`, `validation`, `plan`, `health` and `history` make the blocks of one kind
of result; `html`, `terminal` and `pictures` show them.
"""

from counterrank.report.words import at_least, known, percent, plain

__all__ = ["at_least", "known", "percent", "plain"]
