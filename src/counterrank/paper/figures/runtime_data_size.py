"""Run time over the number of rankings."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="runtime-data-size",
    title="Run time over the number of rankings",
    parameter="n",
    label="number of rankings n",
    values=(1000, 2000, 4000, 8000, 16000, 32000),
    kind="runtime",
    log_x=True,
)
