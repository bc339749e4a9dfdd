"""MSE over the identifiability of behaviour."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="identifiability",
    title="MSE over the identifiability of behaviour",
    parameter="lam",
    label="identifiability of behaviour lambda",
    values=(0.0, 1.0, 2.0, 4.0, 8.0, 16.0),
)
