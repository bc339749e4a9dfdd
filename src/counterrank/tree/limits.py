"""How far a tree may grow."""

from dataclasses import dataclass

from counterrank.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Depth, leaves, rows a leaf, bins a feature, and the gain a split must bring.

    `min_leaf` None: 2 % of the growing rows, at least 100. `min_gain` is a share of the objective at the root.
    `prune` is the share of the growing units kept apart to confirm each split; 0 confirms nothing.
    """

    max_depth: int = 5
    max_leaves: int = 32
    min_leaf: int | None = None
    min_gain: float = 0.05
    max_bins: int = 64
    prune: float = 0.5

    def __post_init__(self) -> None:
        checks = {
            "max_depth": (self.max_depth, 0, 12),
            "max_leaves": (self.max_leaves, 1, 4096),
            "min_leaf": (1 if self.min_leaf is None else self.min_leaf, 1, 2**40),
            "min_gain": (self.min_gain, 0, 1),
            "max_bins": (self.max_bins, 2, 254),
            "prune": (self.prune, 0, 0.9),
        }
        for name, (value, low, high) in checks.items():
            if not low <= value <= high:
                raise ConfigError(f"{name} is {value}; a behaviour tree takes {low} to {high}")

    def leaf_rows(self, n: int) -> int:
        """Return the least number of rows in a leaf when n rows grow the tree."""
        return max(100, n // 50) if self.min_leaf is None else self.min_leaf

    def bins_for(self, n: int) -> int:
        """Return the bins a feature gets: few rows cannot tell many thresholds apart."""
        return int(min(self.max_bins, max(16, n // 400)))
