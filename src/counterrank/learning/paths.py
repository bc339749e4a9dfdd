"""Two paths from the logger to what was learned, and unbiased lifts along each.

Best of m uses fresh draws of the logger. Let B of L draws of a row lie below the logged ranking by the
list value q. The weight of best of m is m C(B, m-1) / C(L, m-1), and its mean of q is sum_j C(j-1, m-1)
/ C(L, m) q_(j) over the sorted draws. Both are averages over all sets of m draws, so both are unbiased,
for every m from the same draws.

The Plackett-Luce path draws items by today's scores plus t times the learned score, or by the learned
score alone where today's scores are not known. Its weights need the probability of the logged ranking
but no sampler of the logger. They have no upper bound, so there is no control variate: (w - 1) r is at
least minus the largest r, which is all that the bound needs. That bound is further from the estimate
than the one of best of m.
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from pathlib import Path

import numpy as np

from counterrank._version import __version__
from counterrank.arrays import Bools, Floats, Ints
from counterrank.atomic import write_bytes
from counterrank.data.fingerprint import fingerprint_of
from counterrank.data.log import RankingLog
from counterrank.data.propensity import Propensity
from counterrank.errors import ConfigError, LogError
from counterrank.learning.policy import LearnedPolicy
from counterrank.models import policy_draws
from counterrank.policies import Policy, RowRandom, drawn_weight, settled
from counterrank.progress import reporter
from counterrank.weights.ratios import ratios_of

#: Takes rows of the log (b,) and rankings of them (b, D, K), returns list values (b, D).
ListValue = Callable[[Ints, Ints], Floats]

#: Rankings that are drawn and scored at a time: memory stays bounded whatever the size of the log.
_BLOCK = 8_192
#: The random stream of the keys that break ties, apart from that of the rankings.
_TIES = 1
#: Blocks that are stored together: about a million rankings, some seconds of work.
_GROUP = 128


@dataclass(frozen=True, slots=True, eq=False)
class DrawnValues:
    """List values of the logged rankings `own` (n,) and of drawn ones (n, L), sorted, and how many lie below."""

    own: Floats
    ordered: Floats
    below: Ints

    @property
    def draws(self) -> int:
        """Number of reference draws a row."""
        return int(self.ordered.shape[1])

    def weight(self, m: int) -> Floats:
        """Return unbiased weights (n,) of best-of-m against the logger, each in [0, m]."""
        return drawn_weight(self.below, self.draws, m)

    def mean(self, m: int, cap: float) -> Floats:
        """Return unbiased means (n,) of min(q, cap) under best-of-m."""
        values: Floats = np.minimum(self.ordered, cap) @ best_of_shares(self.draws, m)
        return values


#: Where fresh rankings come from: a stream, and the folder in which they are kept.
Draws = tuple[tuple[int, ...], Path | None]


def best_of_shares(draws: int, m: int) -> Floats:
    """Return how often each of L sorted draws is the best of m of them: C(j-1, m-1) / C(L, m).

    >>> best_of_shares(3, 2).round(4).tolist()
    [0.0, 0.3333, 0.6667]
    """
    # Whole numbers, divided once, so that nothing is rounded before.
    whole = comb(draws, m)
    return np.array([comb(j, m - 1) / whole for j in range(draws)])


def draw(
    log: RankingLog,
    logger: Policy,
    value: ListValue,
    draws: int,
    seeds: tuple[int, ...],
    keep: Path | None = None,
) -> DrawnValues:
    """Return list values of the logged rankings and of `draws` fresh ones of each row.

    Each row has random numbers of its own, a function of `seeds` and its number. With `keep`, every
    few blocks of rows are stored in that folder, and found again by a run that was interrupted.
    """
    progress = reporter()
    progress.begin("drawing rankings", log.n)
    size = max(1, _BLOCK // draws)
    # The key holds all that decides the draws; `_found` recognises the model by the list values.
    key = f"{__version__} by row {seeds} {draws} {fingerprint_of(log).of_rows}" if keep else ""
    groups = []
    for number, first in enumerate(range(0, log.n, size * _GROUP)):
        rows = np.arange(first, min(first + size * _GROUP, log.n))
        path = None if keep is None else keep / f"{'-'.join(map(str, seeds))}-{number}.draws"
        # A ranking that is drawn again must tie with itself, whichever batch it is scored in.
        own = settled(value(rows, log.action[rows][:, None, :])[:, 0])
        found = None if path is None else _found(path, key, own, draws)
        if found is None:
            parts = [
                _drawn(log, logger, value, rows[at : at + size], own[at : at + size], draws, seeds)
                for at in range(0, len(rows), size)
            ]
            found = _joined(parts)
            if path is not None:
                _stored(path, key, found)
        groups.append(found)
        progress.advance(len(rows))
    return _joined(groups)


def _drawn(
    log: RankingLog,
    logger: Policy,
    value: ListValue,
    rows: Ints,
    own: Floats,
    draws: int,
    seeds: tuple[int, ...],
) -> DrawnValues:
    part = log.take(rows)
    policy = logger if logger.n_rows == 1 else logger.take(rows)
    drawn = settled(value(rows, policy_draws(part, policy, draws, seeds)))
    # Ties are broken by random keys: then ranks are uniform under the logger, whatever q is.
    keys = RowRandom(part.numbers, [*seeds, _TIES]).random((len(rows), 1 + draws))
    ties = drawn == own[:, None]
    below = ((drawn < own[:, None]) | (ties & (keys[:, 1:] < keys[:, :1]))).sum(axis=1)
    return DrawnValues(own, np.sort(drawn, axis=1), below)


def _joined(parts: Sequence[DrawnValues]) -> DrawnValues:
    return DrawnValues(
        np.concatenate([part.own for part in parts]),
        np.concatenate([part.ordered for part in parts]),
        np.concatenate([part.below for part in parts]),
    )


#: The first bytes of stored draws: a file of that name without them is not ours to replace.
_MARK = b"counterrank/draws/1\n"


def _stored(path: Path, key: str, drawn: DrawnValues) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, key=np.array(key), own=drawn.own, ordered=drawn.ordered, below=drawn.below)
    write_bytes(path, _MARK + buffer.getvalue(), follow=False)


def _found(path: Path, key: str, own: Floats, draws: int) -> DrawnValues | None:
    """Return the draws stored for the same rows and model, or None."""
    if not path.exists() and not path.is_symlink():
        return None
    try:
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror or problem}") from None
    if not data.startswith(_MARK):
        raise ConfigError(
            f"{path} is a link, or was not written by `counterrank learn --resume`, and would be "
            "replaced: give a folder of its own"
        )
    try:
        with np.load(io.BytesIO(data[len(_MARK) :]), allow_pickle=False) as stored:
            found = DrawnValues(*(stored[name] for name in ("own", "ordered", "below")))
            same = str(stored["key"]) == key
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
        return None
    return found if same and _whole(found, own, draws) else None


def _whole(found: DrawnValues, own: Floats, draws: int) -> bool:
    """Return whether stored draws are complete and belong to these list values.

    Another model or another order of rows has other list values.
    """
    shapes = found.ordered.shape == (len(own), draws) and found.below.shape == own.shape
    kinds = [part.dtype.kind for part in (found.own, found.ordered, found.below)]
    if not shapes or kinds != ["f", "f", "i"] or not np.array_equal(found.own, own):
        return False
    inside = (found.below >= 0) & (found.below <= draws)
    return bool(
        inside.all()
        and np.isfinite(found.ordered).all()
        and (np.diff(found.ordered, axis=1) >= 0).all()
    )


@dataclass(frozen=True, slots=True)
class Rewards:
    """Totals of rankings (n,), moved so that none is below zero, and the largest they can be."""

    totals: Floats
    most: float
    shift: float


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Rows of one side of the split, with list values of logged and of drawn rankings."""

    log: RankingLog
    rewards: Rewards
    drawn: DrawnValues

    def lifts(self, m: int, cap: float) -> Floats:
        """Return unbiased paired lifts (n,) of best-of-m over the logger, with min(q, cap) as control variate.

        (w - 1)(r - c) + E_m c - E_1 c: the control has mean zero whatever q is.
        """
        w = self.drawn.weight(m)
        control = np.minimum(self.drawn.own, cap)
        gain: Floats = (
            (w - 1.0) * (self.rewards.totals - control)
            + self.drawn.mean(m, cap)
            - self.drawn.mean(1, cap)
        )
        return gain

    def expected(self, m: int) -> float:
        """Return the lift that the model expects of best-of-m."""
        return float((self.drawn.mean(m, np.inf) - self.drawn.mean(1, np.inf)).mean())

    def weight(self, m: int) -> Floats:
        """Return weights (n,) of best-of-m against the logger, each in [0, m]."""
        return self.drawn.weight(m)

    def today(self, n: int) -> float:
        """Return the mean list value of the logger on the first n rows."""
        return float(self.drawn.mean(1, np.inf)[:n].mean())

    def place(self, m: int) -> tuple[int, float | None]:
        """Return m and the factor of the learned score, None here."""
        return m, None

    def lowest(self, m: int, cap: float) -> float:
        """Return a number below which no lift can lie: w = m, r = 0, c = cap, or w = 0, r = most, c = 0."""
        return -max((m - 1) * cap, self.rewards.most)


#: How much of the learned score is added: a click's log odds count once at 1.
STRENGTHS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, eq=False)
class Tilted:
    """Rows of one side of the split, their list values, and for each fold the policy fitted without it."""

    log: RankingLog
    rewards: Rewards
    own: Floats
    policies: tuple[tuple[Bools, LearnedPolicy], ...]
    _known: dict[float, Floats] = field(default_factory=dict)

    def weight(self, strength: float) -> Floats:
        """Return weights (n,) against the logger, each at least 0."""
        if strength not in self._known:
            self._known[strength] = self._weight(strength)
        return self._known[strength]

    def _weight(self, strength: float) -> Floats:
        out = np.empty(self.log.n)
        for rows, policy in self.policies:
            part = self.log.where(rows)
            target = policy.plackett_luce(part, strength)
            out[rows] = ratios_of(part.with_targets({"learned": target}), "learned").full()[:, 0]
        return out

    def lifts(self, strength: float, cap: float) -> Floats:
        """Return unbiased paired lifts (n,) over the logger; too small where it has no support."""
        gain: Floats = (self.weight(strength) - 1.0) * self.rewards.totals
        return gain

    def expected(self, strength: float) -> float:
        """Return the lift if rewards are what the model expects of each page."""
        return float(((self.weight(strength) - 1.0) * self.own).mean())

    def place(self, strength: float) -> tuple[int, float | None]:
        """Return m, 1 here, and the factor of the learned score."""
        return 1, strength

    def lowest(self, strength: float, cap: float) -> float:
        """Return a number below which no lift can lie: w = 0, r = most."""
        return -self.rewards.most

    def today(self, n: int) -> float:
        """Return the mean list value of the logger on the first n rows."""
        return float(self.own[:n].mean())


def tilted(
    log: RankingLog, rewards: Rewards, own: Floats, policy: LearnedPolicy, fold: "int | Ints"
) -> Tilted:
    """Return a side whose rows are weighed with scores that were not fitted to them."""
    if isinstance(fold, int):
        return Tilted(log, rewards, own, ((np.ones(log.n, dtype=bool), policy),))
    folds = tuple(
        (fold == f, replace(policy, scorer=replace(policy.scorer, fold=int(f))))
        for f in np.unique(fold)
    )
    return Tilted(log, rewards, own, folds)


def check_joint(log: RankingLog) -> None:
    """Raise where the log does not say how probable each whole ranking was."""
    given = log.propensity
    supports = given.supports if isinstance(given, Propensity) else frozenset({"joint"})
    if isinstance(given, Policy) and not {"prefix", "joint"} & given.capabilities:
        supports = frozenset()
    if "joint" not in supports:
        raise LogError(
            "the Plackett-Luce path weighs whole rankings, and this log has no probability of "
            "them: log that of each item given those above (kind 'prefix'), or one number a "
            "ranking (kind 'joint')"
        )
