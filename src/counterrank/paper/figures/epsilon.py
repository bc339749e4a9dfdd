"""MSE over the randomness of the evaluation policy."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="epsilon",
    title="MSE over the randomness of the evaluation policy",
    parameter="epsilon",
    label="randomness of the evaluation policy epsilon",
    values=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
)
