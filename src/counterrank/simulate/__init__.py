"""Simulated rankings with known truth: environments, draws, exact values, logs of any size on disk."""

from counterrank.simulate.draw import SimulatedLog, draw
from counterrank.simulate.environment import Environment, Linear
from counterrank.simulate.fresh import random
from counterrank.simulate.policy import behavior_probability
from counterrank.simulate.presets import PRESETS, REAL_WORLD_ROWS, paper, preset, published, real_world
from counterrank.simulate.replay import OracleView, Run, replay, replay_run, replay_value
from counterrank.simulate.truth import Truth, true_value
from counterrank.simulate.worlds import WORLDS, DrawnWorld, World, world
from counterrank.simulate.write import batches, write_log

__all__ = [
    "PRESETS",
    "WORLDS",
    "DrawnWorld",
    "World",
    "OracleView",
    "Run",
    "behavior_probability",
    "REAL_WORLD_ROWS",
    "Environment",
    "Linear",
    "SimulatedLog",
    "Truth",
    "batches",
    "draw",
    "paper",
    "preset",
    "published",
    "random",
    "real_world",
    "replay",
    "replay_run",
    "replay_value",
    "true_value",
    "world",
    "write_log",
]
