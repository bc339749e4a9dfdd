"""Every tuned number of the behaviour tree with its unit and its reason; and how far a tree may grow."""

from dataclasses import dataclass

from counterrank.common.errors import ConfigError

# growth; users change these through `TreeLimits`
#: Levels: 32 groups are more than most logs tell apart (Kiyohara et al. (2023), Algorithm 1).
MAX_DEPTH = 5
#: Leaves: the leaves of a full tree of that depth (follows from MAX_DEPTH).
MAX_LEAVES = 32
#: Rows: the spread of a group is then known within 7 % (1 / sqrt(2 rows)).
LEAF_ROWS = 100
#: Of the growing rows: smaller groups hardly move the estimate.
LEAF_SHARE = 0.02
#: Of the root's score: smaller gains are mostly luck of the search (12-24 runs in four simulated environments).
MIN_GAIN = 0.05
#: Bins: a threshold is then off by 1.6 % of the rows at most (1 / bins).
MAX_BINS = 64
#: Bins: fewer are too coarse to find a group.
LEAST_BINS = 16
#: Rows: few rows cannot tell many thresholds apart.
ROWS_PER_BIN = 400

#: Partitions: random ones of a node, as many as in the code behind the paper's figures.
PARTITIONS = 10

# rows looked at
#: Rankings: trees of larger logs are grown on a sample and applied to all rows; half of it takes
#: half the time (four simulated environments, 1,000,000 rankings, 10 runs each: with 100,000 the
#: MSE was 1.1 to 4.1 times as high, with 400,000 it was 0.7 to 1.2 times).
SAMPLE_ROWS = 200_000
#: Rows: an edge is then off by .4 % of the rows at most, far below a bin (binomial).
QUANTILE_ROWS = 20_000
#: Rows: exact second moments given the context vary little.
MOMENT_ROWS = 2_000
#: Reward: comparisons multiply four of them: more is no number (largest double, 1.8e308).
MOST_REWARD = 1e60

# MSE estimates
#: Variances: effects of pairs count where their squares exceed so many; one is what noise alone
#: gives (20 simulated worlds and the published one: 1 trusts noise, 3 and 6 distrust effects).
PAIRS_EVIDENCE = 2.5
#: Power: nearly all or nothing: effects that are clear are not shrunk (the same worlds).
PAIRS_STEEPNESS = 4.0
#: Standard errors: what triples add up to is chance; without any, 5 % of logs show more.
CHANCE = 2.0
#: Of the rows: they stand for the target's own log.
PASIF_SHARE = 0.2
#: Splits: with fewer the average depends on which splits were drawn.
PASIF_SPLITS = 10
#: Standard errors: the half-width CNF of SLOPE's intervals, which holds for 95 % of the estimates.
SLOPE_WIDTH = 1.96
#: Rows: the rest of a ranking is averaged over them.
PASIF_REST_ROWS = 1_000

#: Rankings: fits of different folds are compared on them; their mean adds a sixty-fourth of the
#: spread of rows to the differences between fits.
COMPARED_ROWS = 4_096

# random streams: each is np.random.default_rng([seed, stream]), so that all follow the seed
SAMPLE_STREAM = 29
BINNING_STREAM = 31
ORACLE_NOISE_STREAM = 41
SUBSAMPLE_STREAM = 47
PARTITION_STREAM = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLimits:
    """Depth, leaves, rows per leaf, bins a feature, and the gain a split must bring.

    `min_leaf` None: 2 % of the growing rows, at least 100. `min_gain` is a share of the objective
    at the root.
    """

    max_depth: int = MAX_DEPTH
    max_leaves: int = MAX_LEAVES
    min_leaf: int | None = None
    min_gain: float = MIN_GAIN
    max_bins: int = MAX_BINS

    def __post_init__(self) -> None:
        checks = {
            "max_depth": (self.max_depth, 0, 12),
            "max_leaves": (self.max_leaves, 1, 4096),
            "min_leaf": (1 if self.min_leaf is None else self.min_leaf, 1, 2**40),
            "min_gain": (self.min_gain, 0, 1),
            # Bins are bytes (`Codes`): 254 of them, and the one for missing values.
            "max_bins": (self.max_bins, 2, 254),
        }
        for name, (value, low, high) in checks.items():
            if not low <= value <= high:
                raise ConfigError(f"{name} is {value}; a behaviour tree takes {low} to {high}")

    def leaf_rows(self, n: int) -> int:
        """Return the least number of rows in a leaf when n rows grow the tree."""
        return max(LEAF_ROWS, int(n * LEAF_SHARE)) if self.min_leaf is None else self.min_leaf

    def bins_for(self, n: int) -> int:
        """Return the bins a feature gets: few rows cannot tell many thresholds apart."""
        return int(min(self.max_bins, max(LEAST_BINS, n // ROWS_PER_BIN)))
