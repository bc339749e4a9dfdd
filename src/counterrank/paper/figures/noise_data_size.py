"""AIPS with errors in the bias estimate, over the number of rankings n."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="noise-data-size",
    title="AIPS with errors in the bias estimate, over the number of rankings n",
    parameter="n",
    label="number of rankings n",
    values=(1000, 2000, 4000, 8000, 16000, 32000),
    estimators=("aips (oracle .1)", "aips (oracle .3)", "aips (oracle .5)"),
    log_x=True,
)
