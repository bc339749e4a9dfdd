"""One small declarative file a figure."""

import importlib

from counterrank.paper.names import FIGURES
from counterrank.paper.spec import Experiment


def get(name: str) -> Experiment:
    """Return the experiment behind a figure's name.

    >>> get("slate-size").values
    (4, 6, 8, 10, 12, 14)
    """
    if name not in FIGURES:
        raise KeyError(name)
    experiment: Experiment = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
    return experiment
