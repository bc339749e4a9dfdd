"""Planning of exploration: what to randomise to evaluate the next rankers, and what it costs."""

from counterrank.exploration.planner import plan
from counterrank.exploration.result import Cost, DetectableLift, ExplorationOption, ExplorationPlan

__all__ = ["Cost", "DetectableLift", "ExplorationPlan", "ExplorationOption", "plan"]
