"""Strategic variance reduction, computed."""

from counterrank.experiments.spec import Experiment

EXPERIMENT = Experiment(
    name="toy",
    title="Strategic variance reduction, computed",
    kind="toy",
    values=(0.0,),
)
