"""Every tuned number of the behaviour tree: value, unit, why, and what it was set on; and how far a
tree may grow.
"""

from dataclasses import dataclass

from counterrank.errors import ConfigError
from counterrank.settings import Setting

# --- growth; users change these through `Limits`
# -------------------------------------------------------------------
MAX_DEPTH = Setting(
    5,
    "levels",
    "32 groups are more than most logs tell apart",
    "Kiyohara et al. (2023), Algorithm 1",
)
MAX_LEAVES = Setting(
    32, "leaves", "the leaves of a full tree of that depth", "follows from MAX_DEPTH"
)
LEAF_ROWS = Setting(
    100, "rows", "the spread of a group is then known within 7 %", "1 / sqrt(2 rows)"
)
LEAF_SHARE = Setting(
    0.02, "of the growing rows", "smaller groups hardly move the estimate", "chosen, not tuned"
)
MIN_GAIN = Setting(
    0.05,
    "of the root's score",
    "smaller gains are mostly luck of the search",
    "12-24 runs in four simulated environments",
)
MAX_BINS = Setting(64, "bins", "a threshold is then off by 1.6 % of the rows at most", "1 / bins")
LEAST_BINS = Setting(16, "bins", "fewer are too coarse to find a group", "chosen, not tuned")
ROWS_PER_BIN = Setting(
    400, "rows", "few rows cannot tell many thresholds apart", "chosen, not tuned"
)
CONFIRM_SHARE = Setting(
    0.5, "of the growing units", "a search over thousands of splits needs other rows to confirm "
                                 "what it found",
    "docs/evidence/mse-estimates.md: unconfirmed, the MSE is 1.7 times as high",
)  # fmt: skip
SWEEPS = Setting(
    3, "passes over the leaves", "a leaf's best model depends on the others'", "chosen, not tuned"
)

# --- rows looked at
# ------------------------------------------------------------------------------------------------
SAMPLE_ROWS = Setting(
    200_000,
    "rankings",
    "trees of larger logs are grown on a sample and applied to all rows; half of it takes half "
    "the time",
    "four simulated environments, 1,000,000 rankings, 10 runs each: with 100,000 the MSE was 1.1 "
    "to 4.1 times as high, with 400,000 it was 0.7 to 1.2 times",
)
QUANTILE_ROWS = Setting(
    20_000, "rows", "an edge is then off by .4 % of the rows at most, far below a bin", "binomial"
)
MOMENT_ROWS = Setting(
    2_000, "rows", "exact second moments given the context vary little", "chosen, not tuned"
)
MOST_REWARD = Setting(
    1e60,
    "reward",
    "comparisons multiply four of them: more is no number",
    "largest double, 1.8e308",
)

# --- MSE estimates
# -------------------------------------------------------------------------------------------------
PAIRS_EVIDENCE = Setting(
    2.5,
    "variances",
    "effects of pairs count where their squares exceed so many; one is what noise alone gives",
    "20 simulated worlds and the published one: 1 trusts noise, 3 and 6 distrust effects",
)
PAIRS_STEEPNESS = Setting(
    4.0, "power", "nearly all or nothing: effects that are clear are not shrunk", "the same worlds"
)
SU_DELTA = Setting(0.05, "chance", "the bound on the bias holds but for it", "Su et al. (2020)")
PASIF_SHARE = Setting(
    0.2, "of the rows", "they stand for the target's own log", "chosen, not tuned"
)
PASIF_SPLITS = Setting(
    10, "splits", "the average over random splits must not be a lottery", "chosen, not tuned"
)
PASIF_REST_ROWS = Setting(
    1_000, "rows", "the rest of a ranking is averaged over them", "chosen, not tuned"
)

# --- random streams: each is np.random.default_rng([seed, stream]), so that all follow the seed
# ---------------------
SAMPLE_STREAM = 29
BINNING_STREAM = 31
ORACLE_NOISE_STREAM = 41
SUBSAMPLE_STREAM = 47


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Depth, leaves, rows a leaf, bins a feature, and the gain a split must bring.

    `min_leaf` None: 2 % of the growing rows, at least 100. `min_gain` is a share of the objective
    at the root. `prune` is the share of the growing units kept apart to confirm each split; 0
    confirms nothing.
    """

    max_depth: int = MAX_DEPTH.value
    max_leaves: int = MAX_LEAVES.value
    min_leaf: int | None = None
    min_gain: float = MIN_GAIN.value
    max_bins: int = MAX_BINS.value
    prune: float = CONFIRM_SHARE.value

    def __post_init__(self) -> None:
        checks = {
            "max_depth": (self.max_depth, 0, 12),
            "max_leaves": (self.max_leaves, 1, 4096),
            "min_leaf": (1 if self.min_leaf is None else self.min_leaf, 1, 2**40),
            "min_gain": (self.min_gain, 0, 1),
            # Bins are bytes (`Codes`): 254 of them, and the one for missing values.
            "max_bins": (self.max_bins, 2, 254),
            "prune": (self.prune, 0, 0.9),
        }
        for name, (value, low, high) in checks.items():
            if not low <= value <= high:
                raise ConfigError(f"{name} is {value}; a behaviour tree takes {low} to {high}")

    def leaf_rows(self, n: int) -> int:
        """Return the least number of rows in a leaf when n rows grow the tree."""
        return (
            max(LEAF_ROWS.value, int(n * LEAF_SHARE.value))
            if self.min_leaf is None
            else self.min_leaf
        )

    def bins_for(self, n: int) -> int:
        """Return the bins a feature gets: few rows cannot tell many thresholds apart."""
        return int(min(self.max_bins, max(LEAST_BINS.value, n // ROWS_PER_BIN.value)))
