"""Simulated rankings with known truth: environments, draws, exact values, and a writer for logs of any size."""

from counterrank.simulate.draw import SimulatedLog, draw
from counterrank.simulate.environment import Environment, Linear
from counterrank.simulate.fresh import random
from counterrank.simulate.presets import PRESETS, paper, preset, published, real_world
from counterrank.simulate.truth import Truth, true_value

__all__ = [
    "PRESETS",
    "Environment",
    "Linear",
    "SimulatedLog",
    "Truth",
    "draw",
    "paper",
    "preset",
    "published",
    "random",
    "real_world",
    "true_value",
]
