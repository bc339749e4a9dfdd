"""Simulated rankings with known truth: environments, worlds of real shape, draws, exact values,
logs on disk.
"""

from counterrank.simulate.draw import (
    SimulatedLog,
    behavior_probability,
    distribution,
    draw,
    sigmoid,
)
from counterrank.simulate.environment import (
    PRESETS,
    Environment,
    Linear,
    Which,
    paper,
    preset,
    published,
    random,
    real_world,
    whole,
)
from counterrank.simulate.truth import Truth, true_value
from counterrank.simulate.worlds import WORLDS, DrawnWorld, World, world
from counterrank.simulate.write import batches, write_log

__all__ = [
    "PRESETS",
    "WORLDS",
    "DrawnWorld",
    "Environment",
    "Linear",
    "SimulatedLog",
    "Truth",
    "Which",
    "World",
    "batches",
    "behavior_probability",
    "distribution",
    "draw",
    "paper",
    "preset",
    "published",
    "random",
    "real_world",
    "sigmoid",
    "true_value",
    "whole",
    "world",
    "write_log",
]
