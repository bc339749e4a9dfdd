"""Behaviours over delta."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="distribution-delta",
    title="Behaviours over delta",
    parameter="delta",
    label="behaviour parameter delta",
    values=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    kind="distribution",
)
