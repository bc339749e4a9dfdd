"""The laboratory: the paper's experiments, simulated worlds, the demo and public data sets.

It imports the product; nothing in the product imports it. Its commands and formats reach users
through the entry points `counterrank.commands` and `counterrank.formats`, as any plug-in's do.
"""
