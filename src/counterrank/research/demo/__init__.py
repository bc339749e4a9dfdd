"""A log of an online shop's front page, made up but with known truth, and the main job run on it."""

from counterrank.research.demo.run import run
from counterrank.research.demo.shop import make_log

__all__ = ["make_log", "run"]
