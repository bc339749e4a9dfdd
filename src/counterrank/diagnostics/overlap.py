"""Does the logger show what the target would show? From whole distributions, as sums over rows."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.log import LOGGING, RankingLog

Floats = NDArray[np.float64]

#: An item shown less often than this is hardly shown at all: its weight exceeds a thousand.
RARE = 1e-3
#: Numbers of whole distributions looked at: more would take long, and with a million items more memory than there is.
CELLS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SupportSums:
    """Sums over rows: used positions (K,), target mass on items never and rarely shown (K,), rare mass by item (A,)."""

    n: int
    used: Floats
    never: Floats
    rare: Floats
    by_action: Floats

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.n + other.n,
            self.used + other.used,
            self.never + other.never,
            self.rare + other.rare,
            self.by_action + other.by_action,
        )


def thinned(log: RankingLog) -> RankingLog:
    """Return as many rows, evenly spread, as keep whole distributions of all of them within `CELLS` numbers."""
    most = max(CELLS // (log.K * log.n_actions), 1)
    if log.n <= most or log.take(slice(0, 1)).distribution(LOGGING) is None:
        return log
    return log.take(np.linspace(0, log.n - 1, most).astype(np.int64))


def support_sums(batch: RankingLog, target: str) -> SupportSums | None:
    """Return the sums of one batch, or None when a distribution is missing."""
    old, new = batch.distribution(LOGGING), batch.distribution(target)
    if old is None or new is None:
        return None
    shape = (batch.n, batch.K, new.shape[-1])
    old, new = (np.broadcast_to(d[:, None] if d.ndim == 2 else d, shape) for d in (old, new))
    used = np.arange(batch.K) < batch.lengths[:, None]  # (n, K)
    rare = np.where(used[:, :, None] & (old < RARE), new, 0.0)
    never = np.where(old <= 0, rare, 0.0)
    return SupportSums(
        batch.n,
        used.sum(axis=0).astype(np.float64),
        never.sum(axis=(0, 2)),
        rare.sum(axis=(0, 2)),
        rare.sum(axis=(0, 1)),
    )


def support(log: RankingLog, target: str) -> dict[str, Any] | None:
    """Return the target's probability of items the logger never (p = 0) or rarely (p < 1/1000) shows, by position.

    Also up to five such items by mass. None when a distribution is missing.

    >>> log = RankingLog(action=[[0]], reward=[[1]], propensity=[[1.0]], targets={"new": [[0.25]]},
    ...                  dists={"propensity": [[1.0, 0.0]], "new": [[0.25, 0.75]]})
    >>> found = support(log, "new")
    >>> found["unlogged_share"].tolist(), found["actions"]
    ([0.75], [{'action': '1', 'share': 0.75}])
    """
    sums = support_sums(thinned(log), target)
    return None if sums is None else summary(sums, log.action_names)


def summary(sums: SupportSums, action_names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Return shares by position and the items that miss most, from the sums of all batches."""
    count = np.maximum(sums.used, 1.0)
    by_action = sums.by_action / max(float(sums.used.sum()), 1.0)
    top = [int(a) for a in np.argsort(-by_action, kind="stable")[:5] if by_action[a] > 0]
    return {
        "unlogged_share": sums.never / count,
        "rare_share": sums.rare / count,
        "rare_below": RARE,
        "actions": [
            {"action": str(a) if action_names is None else action_names[a], "share": float(by_action[a])} for a in top
        ],
        "rows": sums.n,
    }
