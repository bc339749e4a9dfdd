"""Team-draft interleaving of two rankings (Radlinski, Kurup, Joachims 2008)."""

import numpy as np
from numpy.typing import ArrayLike

from counterrank.errors import PolicyError
from counterrank.policies.arrays import ArrayPolicy
from counterrank.policies.base import Bools, Floats, Ints, SubsetResult
from counterrank.policies.events import as_actions, as_masks, pack
from counterrank.policies.ranked import as_rankings, check_rankings

#: All coin paths of a ranking are walked; 2^15 of them is the most that is still quick.
MAX_LENGTH = 30


class TeamDraft(ArrayPolicy):
    """Two rankings pick their best item not yet shown, in rounds; a fair coin a round says who picks first.

    P(L) = (coin paths whose ranking agrees with the items at L) / (all 2^ceil(K/2) paths).

    >>> policy = TeamDraft([[0, 1, 2]], [[1, 2, 0]])
    >>> np.exp(policy.prefix_log_prob(np.array([[0, 1, 2]]))).tolist()
    [[0.5, 0.5, 0.5]]
    """

    row_fields = ("first", "second")
    shared_fields = ("n_items",)

    def __init__(self, first: ArrayLike, second: ArrayLike, n_actions: int | None = None) -> None:
        self.first, self.second = as_rankings(first), as_rankings(second)
        largest = int(max(self.first.max(), self.second.max())) + 1
        self.n_items = largest if n_actions is None else int(n_actions)
        self.check()

    def check(self) -> None:
        check_rankings(self.first, self.n_items)
        check_rankings(self.second, self.n_items)
        if len({len(self.first), len(self.second)} - {1}) > 1:
            raise PolicyError(f"the two rankings have {len(self.first)} and {len(self.second)} rows")

    @property
    def n_actions(self) -> int:
        return self.n_items

    def subset_log_prob(self, actions: Ints, masks: Bools) -> SubsetResult:
        from counterrank.policies.kernels.policy_team_draft import count_paths

        items = as_actions(actions, self)
        sets = as_masks(masks, items)
        K = items.shape[1]
        if K > MAX_LENGTH:
            raise PolicyError(f"team-draft sets are counted for at most {MAX_LENGTH} positions, got {K}")
        codes = pack(sets)[..., 0]
        counts = count_paths(self.first, self.second, items, codes if codes.ndim == 2 else codes[None])
        with np.errstate(divide="ignore"):
            log_prob = np.log(counts) - (K + 1) // 2 * np.log(2)
        return SubsetResult(log_prob, np.zeros_like(log_prob))

    def prefix_log_prob(self, actions: Ints) -> Floats:
        return self.subset_log_prob(actions, np.tri(np.shape(actions)[1], dtype=bool)).log_prob

    def position_log_prob(self, actions: Ints) -> Floats:
        return self.subset_log_prob(actions, np.eye(np.shape(actions)[1], dtype=bool)).log_prob

    def sample(self, length: int, rng: np.random.Generator, *, size: int = 1) -> Ints:
        from counterrank.policies.kernels.policy_team_draft import sample

        if length > 2 * MAX_LENGTH:
            raise PolicyError(f"team-draft rankings are drawn for at most {2 * MAX_LENGTH} positions, got {length}")
        coins = rng.integers(0, 1 << ((length + 1) // 2), size=(self.n_rows, size))
        return sample(self.first, self.second, coins, length)
