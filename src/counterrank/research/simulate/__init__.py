"""Simulated rankings with known truth: environments, worlds of real shape, draws, exact values, logs on disk."""

from counterrank.research.simulate.environment import (
    Environment,
    Linear,
    RewardModel,
    SimulatedLog,
    Which,
    behavior_probability,
    distribution,
    pair_effect,
    paper,
    published,
    random,
    real_world,
    whole,
)
from counterrank.research.simulate.truth import Truth, true_value
from counterrank.research.simulate.worlds import PRESETS, DrawnWorld, World, preset
from counterrank.research.simulate.write import batches, reading_options, write_log

__all__ = [
    "PRESETS",
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
    "pair_effect",
    "paper",
    "preset",
    "published",
    "random",
    "real_world",
    "true_value",
    "whole",
    "reading_options",
    "write_log",
]
