"""What to randomise: which exploration lets next rankers be evaluated, and what it costs."""

from counterrank.exploration.planner import plan
from counterrank.exploration.result import Cost, DetectableLift, ExplorationOption, ExplorationPlan

__all__ = ["Cost", "DetectableLift", "ExplorationPlan", "ExplorationOption", "plan"]
