"""Squared errors on an A/B log."""

from counterrank.paper.spec import Experiment

EXPERIMENT = Experiment(
    name="real-world",
    title="Squared errors on an A/B log",
    kind="real-world",
    values=(0.0,),
    estimators=("ips", "iips", "rips", "aips (pasif)", "aips", "auto"),
)
