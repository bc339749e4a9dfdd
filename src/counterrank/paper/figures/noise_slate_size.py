"""AIPS with errors in the bias estimate, over the length of the ranking K."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="noise-slate-size",
    title="AIPS with errors in the bias estimate, over the length of the ranking K",
    parameter="K",
    label="length of the ranking K",
    values=(4, 6, 8, 10, 12, 14),
    estimators=("aips (oracle .1)", "aips (oracle .3)", "aips (oracle .5)"),
)
