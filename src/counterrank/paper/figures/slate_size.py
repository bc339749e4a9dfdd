"""MSE over the length of the ranking."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="slate-size",
    title="MSE over the length of the ranking",
    parameter="K",
    label="length of the ranking K",
    values=(4, 6, 8, 10, 12, 14),
)
