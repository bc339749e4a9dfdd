"""Does the logger show what the target would show? From whole distributions, as sums over rows."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from counterrank.errors import CounterrankError
from counterrank.log import LOGGING, RankingLog
from counterrank.policies import Policy

Floats = NDArray[np.float64]

#: An item is hardly shown when it is shown less often than this ...
RARE = 1e-3
#: ... and this many times less often than the target would: in a catalogue of thousands every item
#: is rare.
FEWER = 10.0
#: Rankings drawn from a target whose positions depend on each other, for each of so many rows.
DRAWS, DRAWN_ROWS = 8, 2000
#: Numbers of whole distributions looked at: more would take long, and with a million items more
#: memory than there is.
CELLS = 20_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SupportSums:
    """Sums over rows: used positions (K,), target mass on items never and rarely shown (K,), rare
    mass by item (A,).
    """

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
    """Return as many rows, evenly spread, as keep whole distributions of all of them within `CELLS`
    numbers.
    """
    most = max(CELLS // (log.K * log.n_actions), 1)
    if log.n <= most or log.take(slice(0, 1)).distribution(LOGGING) is None:
        return log
    return log.take(np.linspace(0, log.n - 1, most).astype(np.int64))


def support_sums(batch: RankingLog, target: str) -> SupportSums | None:
    """Return the sums of one batch, or None when a distribution is missing."""
    old, new = batch.distribution(LOGGING), batch.distribution(target)
    if old is None or new is None:
        return None
    # (n, 1 or K, A): policies that are alike at all positions are looked at once.
    old, new = (table[:, None] if table.ndim == 2 else table for table in (old, new))
    used = (np.arange(batch.K) < batch.lengths[:, None]).astype(np.float64)  # (n, K)
    rare = np.where(_hardly(old, new), new, 0.0)
    never = np.where(old <= 0, rare, 0.0)
    times = used if rare.shape[1] > 1 else used.sum(axis=1, keepdims=True)
    return SupportSums(
        batch.n,
        used.sum(axis=0),
        (never.sum(axis=2) * used).sum(axis=0),
        (rare.sum(axis=2) * used).sum(axis=0),
        np.einsum("nk,nka->a", times, rare),
    )


def support(log: RankingLog, target: str) -> dict[str, Any] | None:
    """Return the target's probability of items the logger never (p = 0) or rarely (p < 1/1000)
    shows, by position.

    Exact where whole distributions are known, by draws of the target where both are policies, else
    None. Also up to five such items by mass.

    >>> log = RankingLog(action=[[0]], reward=[[1]], propensity=[[1.0]], targets={"new": [[0.25]]},
    ...                  dists={"propensity": [[1.0, 0.0]], "new": [[0.25, 0.75]]})
    >>> found = support(log, "new")
    >>> found["unlogged_share"].tolist(), found["actions"]
    ([0.75], [{'action': '1', 'share': 0.75}])
    """
    sums = support_sums(thinned(log), target)
    if sums is None:
        sums = drawn_sums(log, target)
    return None if sums is None else summary(sums, log.action_names)


def drawn_sums(log: RankingLog, target: str) -> SupportSums | None:
    """Return the sums from rankings drawn from the target, for policies whose positions depend on
    each other.

    At each position: drawn rankings that the logger cannot show as far as that, and items it shows
    rarely given those above. None unless both policies are whole and can be asked.
    """
    wanted, logging = log.target(target), log.propensity
    if not (isinstance(wanted, Policy) and isinstance(logging, Policy)):
        return None
    # Evenly spread rather than the first: logs change over time.
    some = log.take(np.linspace(0, log.n - 1, min(log.n, DRAWN_ROWS)).astype(np.int64))
    wanted, logging = some.target(target), some.propensity
    assert isinstance(wanted, Policy) and isinstance(logging, Policy)
    n, size = some.n, log.n_actions
    used = np.arange(log.K) < some.lengths[:, None]
    never, rare, by_action = np.zeros(log.K), np.zeros(log.K), np.zeros(size)
    try:
        drawn = np.broadcast_to(
            wanted.sample(log.K, np.random.default_rng(0), size=DRAWS), (n, DRAWS, log.K)
        )
        for draw in range(DRAWS):
            action = np.where(used, drawn[:, draw], -1)
            old, new = (_steps(policy.prefix_log_prob(action)) for policy in (logging, wanted))
            # Once one item cannot be shown, nothing below it can.
            gone = used & (np.cumprod(old > 0, axis=1) == 0)
            seldom = used & (gone | _hardly(old, new))
            never, rare = never + gone.sum(axis=0), rare + seldom.sum(axis=0)
            # Only the first such item is blamed: those below are unlikely because of it.
            first = seldom & (np.cumsum(seldom, axis=1) == 1)
            by_action += np.bincount(action[first], minlength=size)[:size]
    except CounterrankError:
        return None
    return SupportSums(
        n, used.sum(axis=0).astype(np.float64), never / DRAWS, rare / DRAWS, by_action / DRAWS
    )


def _steps(cumulative: Floats) -> Floats:
    """Return P(a_k | items above) from cumulative log-probabilities; zero after an impossible item."""
    before = np.concatenate([np.zeros((len(cumulative), 1)), cumulative[:, :-1]], axis=1)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(before), 0.0, np.exp(cumulative - before))


def _hardly(old: Floats, new: Floats) -> NDArray[np.bool_]:
    """Return what the logger hardly shows: rarely at all, and far more rarely than the target."""
    return (old < RARE) & (old * FEWER < new)


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
            {
                "action": str(a) if action_names is None else action_names[a],
                "share": float(by_action[a]),
            }
            for a in top
        ],
        "rows": sums.n,
    }
