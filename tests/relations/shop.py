"""A small shop whose log can be told in many ways: Plackett-Luce logger, users, days, two rewards."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

import counterrank as cr

K, ITEMS = 3, 6
ESTIMATORS = ["ips", "snips", "iips", "rips", "auto"]


@dataclass(frozen=True, eq=False)
class Shop:
    """Everything that was drawn; `log` and `table` tell it."""

    action: np.ndarray
    clicks: np.ndarray
    price: np.ndarray
    context: np.ndarray
    user: np.ndarray
    day: np.ndarray
    old: np.ndarray
    new: np.ndarray

    def __len__(self) -> int:
        return len(self.action)

    def take(self, rows: np.ndarray) -> "Shop":
        return Shop(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def log(self, **changes: object) -> cr.RankingLog:
        told = {
            "action": self.action,
            "reward": self.clicks,
            "propensity": cr.PlackettLuce(self.old),
            "context": self.context,
            "unit": self.user,
        }
        return cr.RankingLog(**(told | changes))

    def table(self, names: list[str] | None = None) -> pa.Table:
        """Return the wide table with candidates and scores, items by name."""
        names = names or [f"item{i}" for i in range(ITEMS)]
        labels = np.array(names)
        return pa.table(
            {
                "action": labels[self.action].tolist(),
                "reward": self.clicks.tolist(),
                "candidates": [names] * len(self),
                "propensity_scores": self.old.tolist(),
                "new_scores": self.new.tolist(),
                "x_0": self.context[:, 0],
                "x_1": self.context[:, 1],
                "unit": self.user,
                "day": self.day,
            }
        )


@cache
def shop(n: int = 1500, seed: int = 3) -> Shop:
    rng = np.random.default_rng(seed)
    user = rng.integers(n // 3, size=n)
    context = rng.normal(size=(n, 2))
    appeal = np.linspace(-0.6, 0.6, ITEMS)
    old = 0.5 * rng.normal(size=(n, ITEMS)) + 0.3 * appeal
    new = old + 0.5 * appeal + 0.2 * context[:, :1] * appeal
    action = cr.PlackettLuce(old).sample(K, np.random.default_rng(seed + 1))[:, 0]
    chance = 1 / (1 + np.exp(1.5 - 1.2 * appeal[action] + 0.4 * np.arange(K)))
    clicks = (rng.random((n, K)) < chance).astype(float)
    price = clicks * np.round(np.exp(rng.normal(2.0, 0.3, size=(n, K))), 2)
    day = np.array([f"2026-10-{1 + row * 10 // n:02d}" for row in range(n)])
    return Shop(action, clicks, price, context, user, day, old, new)
