"""Does the logger show what the target would show? From whole distributions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterrank.log import LOGGING, RankingLog

Floats = NDArray[np.float64]

#: An item shown less often than this is hardly shown at all: its weight exceeds a thousand.
RARE = 1e-3


def support(log: RankingLog, target: str) -> dict[str, Any] | None:
    """Return the target's probability of items the logger never (p = 0) or rarely (p < 1/1000) shows, by position.

    Also up to five such items by mass. None when a distribution is missing.
    """
    old, new = log.distribution(LOGGING), log.distribution(target)
    if old is None or new is None:
        return None
    old, new = (np.broadcast_to(d[:, None] if d.ndim == 2 else d, (log.n, log.K, d.shape[-1])) for d in (old, new))
    used = (np.arange(log.K) < log.lengths[:, None])[:, :, None]  # (n, K, 1)
    count = np.maximum(used.sum(axis=(0, 2)), 1)
    rare = np.where(used & (old < RARE), new, 0.0)
    never = np.where(used & (old <= 0), new, 0.0)
    by_action = rare.sum(axis=(0, 1)) / max(int(used.sum()), 1)
    top = [int(a) for a in np.argsort(-by_action, kind="stable")[:5] if by_action[a] > 0]
    return {
        "unlogged_share": never.sum(axis=(0, 2)) / count,
        "rare_share": rare.sum(axis=(0, 2)) / count,
        "rare_below": RARE,
        "actions": [{"action": _name(log, a), "share": float(by_action[a])} for a in top],
        "rows": log.n,
    }


def _name(log: RankingLog, action: int) -> str:
    return log.action_names[action] if log.action_names is not None else str(action)
