"""Simulated rankings with known truth: environments, worlds of real shape, draws, exact values, logs on disk."""

from counterrank.research.simulate.draw import (
    SimulatedLog,
    behavior_probability,
    distribution,
    draw,
    pair_effect,
    sigmoid,
)
from counterrank.research.simulate.environment import (
    PRESETS,
    Environment,
    Linear,
    RewardModel,
    Which,
    paper,
    preset,
    published,
    random,
    real_world,
    whole,
)
from counterrank.research.simulate.truth import Truth, true_value
from counterrank.research.simulate.worlds import WORLDS, DrawnWorld, World, world
from counterrank.research.simulate.write import batches, reading_options, write_log

__all__ = [
    "PRESETS",
    "WORLDS",
    "DrawnWorld",
    "Environment",
    "Linear",
    "RewardModel",
    "SimulatedLog",
    "Truth",
    "Which",
    "World",
    "batches",
    "behavior_probability",
    "distribution",
    "draw",
    "pair_effect",
    "paper",
    "preset",
    "published",
    "random",
    "real_world",
    "sigmoid",
    "true_value",
    "whole",
    "world",
    "reading_options",
    "write_log",
]
