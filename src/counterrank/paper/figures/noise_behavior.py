"""AIPS with errors in the bias estimate, over the behaviour parameter delta."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="noise-behavior",
    title="AIPS with errors in the bias estimate, over the behaviour parameter delta",
    parameter="delta",
    label="behaviour parameter delta",
    values=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    estimators=("aips (oracle .1)", "aips (oracle .3)", "aips (oracle .5)"),
)
