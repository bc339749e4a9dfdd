"""MSE over the behaviour distribution."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="behavior",
    title="MSE over the behaviour distribution",
    parameter="delta",
    label="behaviour parameter delta",
    values=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
)
