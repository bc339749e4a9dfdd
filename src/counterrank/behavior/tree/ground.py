"""Everything trees of one log and target grow on, prepared once and shared by the folds."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from counterrank.behavior.candidates import Candidate
from counterrank.behavior.tree.binning import Bins, Codes, make_bins
from counterrank.behavior.tree.limits import Limits
from counterrank.behavior.tree.objective import Objective, Position
from counterrank.behavior.tree.plant import Slot, contributions, slots
from counterrank.log import RankingLog
from counterrank.ratios import ratios_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(slots=True, kw_only=True)
class Ground:
    """Binned contexts and contributions of the rows in memory.

    `log` are the rows of the log; `fresh` simulated rows for an oracle, which stand behind them in every array.
    """

    log: RankingLog
    target: str
    candidates: tuple[Candidate, ...]
    slots: list[Slot]
    bins: Bins
    codes: Codes  # (n, d)
    y: Floats  # (K, M, n)
    tails: Floats  # (K, M)
    context: Floats  # (n, d)
    per_position: bool
    fresh: int = 0
    _statistics: dict[tuple[int, bytes], Floats] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """Rows of the log and fresh ones."""
        return int(self.y.shape[2])

    def contributions(self, slot: int) -> Floats:
        """Return the contributions of a tree's models (M, n): at one position, or over all of them."""
        models = self.slots[slot].models
        if self.per_position:
            return np.ascontiguousarray(self.y[slot, models])
        weights = self.log.position_weights
        total: Floats = np.einsum("k,kmn->mn", weights, self.y[:, models])
        return total

    def position(self, slot: int, rows: Bools, *, n_apply: int, seed: int) -> Position:
        """Return what an MSE estimate sees of a tree's rows (n,) bool."""
        y = self.contributions(slot)
        grown = y[:, rows]
        tails = self.tails[slot, self.slots[slot].models] if self.per_position else self.tails.max(axis=0)
        log, extra = self.log, self.fresh
        reward = log.reward[:, slot] if self.per_position else log.reward @ log.position_weights
        return Position(
            index=slot if self.per_position else -1,
            relevant=self.slots[slot].relevant,
            order=self.slots[slot].order,
            mean=grown.mean(axis=1),
            second=np.einsum("mn,mn->m", grown, grown) / grown.shape[1],
            tails=tails,
            n_grow=int(rows.sum()),
            n_apply=n_apply,
            y=y,
            use=rows.astype(np.float64),
            weight=_padded(self._whole(), extra),
            reward=_padded(reward, extra),
            bucket=_padded(log.bucket, extra),
            context=self.context,
            action=log.action if extra == 0 else None,
            seed=seed,
        )

    def statistics(self, slot: int, objective: Objective, y: Floats) -> Floats:
        """Return the rows' statistics (n, L); those without replicates serve every fold."""
        if len(objective.replicates):
            return objective.statistics(y, self.is_logged())
        key = (slot, objective.pairs.tobytes())
        if key not in self._statistics:
            self._statistics[key] = objective.statistics(y, self.is_logged())
        return self._statistics[key]

    def is_logged(self) -> Floats:
        """Return 1 for rows of the log, 0 for fresh ones (n,)."""
        return _padded(np.ones(self.log.n), self.fresh)

    def held_out(self, share: float) -> Bools:
        """Return which rows (n,) confirm splits: whole units, the same for every position and fold."""
        # Folds use bucket mod F; the quotient splits each fold's units afresh.
        part = (self.log.bucket // 8) % 16 < round(16 * share)
        return np.concatenate([part, np.zeros(self.fresh, dtype=bool)])

    def _whole(self) -> Floats:
        ratios = ratios_of(self.log, self.target)
        if "joint" not in ratios.supports:
            return np.ones(self.log.n)
        whole: Floats = np.ascontiguousarray(ratios.full()[:, 0])
        return whole


def prepare(
    log: RankingLog,
    target: str,
    candidates: tuple[Candidate, ...],
    limits: Limits,
    *,
    per_position: bool,
    rng: np.random.Generator,
    fresh: RankingLog | None = None,
) -> Ground:
    """Return binned contexts and contributions of a log."""
    context = _context(log)
    bins = make_bins(context, categorical_columns(log), most=limits.bins_for(log.n), rng=rng)
    y, tails = contributions(log, target, candidates)
    if fresh is not None:
        context = np.concatenate([context, _context(fresh)])
        y = np.concatenate([y, contributions(fresh, target, candidates)[0]], axis=2)
    return Ground(
        log=log,
        target=target,
        candidates=candidates,
        slots=slots(candidates, per_position=per_position),
        bins=bins,
        codes=bins.codes(context),
        y=y,
        tails=tails,
        context=context,
        per_position=per_position,
        fresh=0 if fresh is None else fresh.n,
    )


def categorical_columns(log: RankingLog) -> Bools:
    """Return which context columns hold codes of categories (d,)."""
    return np.array([name in log.categories for name in log.context_names], dtype=bool)


def _context(log: RankingLog) -> Floats:
    return np.empty((log.n, 0)) if log.context is None else log.context


def _padded(values: NDArray[np.generic], extra: int) -> NDArray:  # type: ignore[type-arg]
    return values if extra == 0 else np.concatenate([values, np.zeros(extra, dtype=values.dtype)])
