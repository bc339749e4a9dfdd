"""From data outside to a RankingLog in memory or a source of batches, here or on a cluster."""

from counterrank.common.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
__all__ = __dir__()
