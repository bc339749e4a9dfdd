"""MSE over the reward noise."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="reward-noise",
    title="MSE over the reward noise",
    parameter="sigma",
    label="reward noise sigma",
    values=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
)
