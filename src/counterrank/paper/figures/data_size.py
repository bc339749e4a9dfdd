"""MSE over the number of rankings."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="data-size",
    title="MSE over the number of rankings",
    parameter="n",
    label="number of rankings n",
    values=(1000, 2000, 4000, 8000, 16000, 32000),
    log_x=True,
)
