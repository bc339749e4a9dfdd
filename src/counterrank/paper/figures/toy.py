"""Strategic variance reduction, computed."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="toy",
    title="Strategic variance reduction, computed",
    kind="toy",
    values=(0.0,),
)
