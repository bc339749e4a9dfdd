"""Run time over the length of the ranking."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="runtime-slate-size",
    title="Run time over the length of the ranking",
    parameter="K",
    label="length of the ranking K",
    values=(4, 6, 8, 10, 12, 14),
    kind="runtime",
)
