"""What to randomise: which exploration lets next rankers be evaluated, and what it costs."""

from counterrank.exploration.planner import plan

__all__ = ["plan"]
