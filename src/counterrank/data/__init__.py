"""The log: what was shown and earned, how likely it was, and how rows are checked and read in turn."""
