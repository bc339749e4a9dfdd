"""The examination model: the reward that each class of users gives, and its means under a target.

Letters: n rankings, K positions, A actions, p context columns (the first is 1), Z classes, F folds.
`examined` (Z, K, K) is how far class z examines the item at l when it gives the reward at k; nothing
reads its diagonal. `scale` (n, 2) is how much of the items above and below a row's user examines.
Three-way effects are symmetric in the two other items. Padding (action -1) has no effect.
"""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from counterrank.arrays import Bools, Floats, Ints
from counterrank.data.encoding import ContextMoments, context_columns
from counterrank.data.log import RankingLog
from counterrank.models import settings
from counterrank.models.base import RewardModel, by_row
from counterrank.models.columns import (
    blocks_of,
    expected,
    whole_distribution,
)
from counterrank.models.draws import factored_draws
from counterrank.models.rankings import Rankings
from counterrank.records import Json

#: Rows whose rewards are held for all classes at once.
_ROWS = 4096


class Link(StrEnum):
    """How the own part and the pair part make a reward: own + pair, its sigmoid, or own exp(pair)."""

    SUM = "sum"
    LOGISTIC = "logistic"
    PRODUCT = "product"

    @property
    def curved(self) -> bool:
        """Whether steps need a search along them."""
        return self is not Link.SUM


class Effects(NamedTuple):
    """Effects by fold left out: own (F, A, p), shift (F, K), pair (F, A, A), triple (F, A, A, A) or none."""

    own: Floats
    shift: Floats
    pair: Floats
    triple: Floats


def traits_of(x: Floats) -> Floats:
    """Return the traits that examination may depend on (n, m): context columns and centred products.

    A user's patience is rarely monotone in a feature, hence the second-order terms.

    >>> traits_of(np.array([[1.0, 2.0]])).tolist()
    [[2.0, 3.0]]
    """
    z = x[:, 1:]
    d = z.shape[1]
    if d > settings.TRAIT_SQUARES:
        return np.ascontiguousarray(z)
    # The context is standardised, so a square has mean 1. Subtracting (left == right) centres it.
    left, right = np.triu_indices(d) if d <= settings.TRAIT_PRODUCTS else (np.arange(d),) * 2
    return np.ascontiguousarray(
        np.concatenate([z, z[:, left] * z[:, right] - (left == right)], axis=1)
    )


def scale_of_tilt(tilt: Floats, traits: Floats) -> Floats:
    """Return how much of the items above and below each row's user examines (n, 2)."""
    return np.ascontiguousarray(np.clip(1.0 + traits @ tilt.T, 0.0, settings.MOST_SEEN))


def chances(shares: Floats, traits: Floats) -> Floats:
    """Return the probabilities of the classes given the context (n, Z): softmax of shares . [1, traits].

    >>> chances(np.zeros((2, 2)), np.ones((1, 1))).tolist()
    [[0.5, 0.5]]
    """
    scores = shares[:, 1:] @ traits.T + shares[:, :1]
    # exp of differences to the largest cannot overflow.
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=0)
    return np.asarray(scores.T)


def own_parts(action: Ints, fold: Ints, x: Floats, own: Floats, shift: Floats) -> Floats:
    """Return x' own[f, a_k] + shift[f, k] (n, K), zero in the padding."""
    folds, A, _ = own.shape
    every = x @ own.reshape(folds * A, -1).T
    out = np.take_along_axis(every, fold[:, None] * A + np.maximum(action, 0), axis=1) + shift[fold]
    out[action < 0] = 0.0
    return np.asarray(out)


def pair_parts(
    action: Ints, fold: Ints, scale: Floats, pair: Floats, examined: Floats, triple: Floats
) -> Floats:
    """Return the effect of the other items on each class (n, Z, K).

    With s_zkl = examined x scale of l's side, sum_l s_zkl pair[f, a_k, a_l] + sum_{l < m} s_zkl
    s_zkm triple[f, a_k, a_l, a_m], the latter where triple (F, A, A, A) is not empty.
    """
    out = np.empty((len(action), *examined.shape[:2]))
    pair, triple = padded(pair), padded(triple)
    for first in range(0, len(action), _ROWS):
        rows = slice(first, first + _ROWS)
        seen = scale[rows].T
        beside = Beside(action[rows], fold[rows], pair.shape[1] - 1)
        for k in range(action.shape[1]):
            effect = beside.pairs(pair, k)
            effect[:k] *= seen[0]
            effect[k + 1 :] *= seen[1]
            part = examined[:, k] @ effect
            if len(triple):
                one, two = beside.threes(k)
                effect = beside.triples(triple, k)
                effect *= seen[(one > k).astype(int)]
                effect *= seen[(two > k).astype(int)]
                part += (examined[:, k, one] * examined[:, k, two]) @ effect
            out[rows, :, k] = part.T
    return out


class Beside:
    """Looks up padded effects of the items beside each position; rows are columns."""

    def __init__(self, action: Ints, fold: Ints | int, A: int) -> None:
        # Padding is one action more, whose effects are zero.
        self.shown = np.where(action < 0, A, action).T
        self.fold, self.size = fold, A + 1
        self.one, self.two = np.triu_indices(len(self.shown), 1)
        self._both: Ints | None = None

    def pairs(self, effect: Floats, k: int) -> Floats:
        """Return effect[f, a_k, a_l] (K, n) of pair effects; zero at k itself."""
        index = (self.fold * self.size + self.shown[k]) * self.size + self.shown
        out = effect.take(index)
        out[k] = 0.0
        return np.asarray(out)

    def threes(self, k: int) -> tuple[Ints, Ints]:
        """Return all pairs of positions l < m other than k."""
        keep = (self.one != k) & (self.two != k)
        return self.one[keep], self.two[keep]

    def triples(self, effect: Floats, k: int) -> Floats:
        """Return effect[f, a_k, a_l, a_m] (pairs, n) of three-way effects, for `threes(k)`."""
        return np.asarray(effect.take(self.index(k)))

    def index(self, k: int) -> Ints:
        """Return where each of these stands in the padded effects."""
        # K positions look up the same pairs: their index is made once.
        if self._both is None:
            self._both = self.shown[self.one] * self.size + self.shown[self.two]
        index = self._both[(self.one != k) & (self.two != k)]
        return np.asarray(index + (self.fold * self.size + self.shown[k]) * self.size**2)


def padded(effect: Floats) -> Floats:
    """Return effects (F, A, A) or (F, A, A, A) with zeros for one more action; empty stays empty."""
    if not effect.size:
        return np.empty(0)
    out = np.zeros((len(effect), *(size + 1 for size in effect.shape[1:])))
    out[(slice(None), *(slice(size) for size in effect.shape[1:]))] = effect
    return out


def linked(link: Link, own: Floats, part: Floats) -> Floats:
    """Return the rewards of own parts and pair parts, arrays whose shapes broadcast."""
    if link is Link.PRODUCT:
        return np.asarray(
            own * np.exp(np.clip(part, -settings.LARGEST_EXPONENT, settings.LARGEST_EXPONENT))
        )
    return np.asarray(own + part if link is Link.SUM else expit(own + part))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """x (n, p) with a leading 1, traits (n, m), actions, rewards and presence (n, K), folds (n,)."""

    x: Floats
    traits: Floats
    action: Ints
    reward: Floats
    present: Floats
    fold: Ints

    @property
    def n(self) -> int:
        """Number of rankings."""
        return len(self.action)

    def take(self, keep: Bools | slice) -> "Rows":
        """Return some of the rows."""
        return Rows(*(np.ascontiguousarray(getattr(self, one.name)[keep]) for one in fields(self)))

    def thinned(self, count: int) -> "Rows":
        """Return every j-th row, such that about `count` are left."""
        return self.take(slice(None, None, max(self.n // count, 1)))


def rows_of(log: RankingLog, scale: ContextMoments, folds: int) -> Rows:
    """Return the rows of a log, its context standardised."""
    x = scale.standardised(context_columns(log))
    present = (log.action >= 0).astype(np.float64)
    return Rows(
        x,
        traits_of(x),
        np.ascontiguousarray(log.action),
        log.reward * present,
        present,
        log.bucket % folds,
    )


@dataclass(frozen=True, slots=True, eq=False)
class MixtureModel(RewardModel):
    """E[r_k | x, a] = sum_z P(z | x) q_zk, q_zk a link of own(x, a_k) and sum_l s_zkl W(a_k, a_l).

    s_z (K, K), here `examined`, is the behaviour model c of Kiyohara et al. 2023 with numbers as
    entries: how much the item at l matters to the reward at k. The log shows neither the entries nor
    the class of a user. A mixture fitted to all rewards of a ranking estimates both, because the
    rewards of a user vary together according to what the user examined. With one class (the
    visibility model), s_kl(x) = examined_kl (1 + tilt . traits(x)).

    `effects` leave each fold out in turn; `examined`, `tilt` (2, m) and `shares` (Z, 1 + m) are fitted to
    all rows. With independent positions the mean under a target is exact for sums and, with classes,
    for products. Otherwise it is an average over drawn rankings, with the own action summed out where
    positions are independent.
    """

    effects: Effects
    examined: Floats
    tilt: Floats
    shares: Floats
    link: Link
    scale: ContextMoments
    details: Json = field(default_factory=dict)
    draws: int = settings.DRAWS
    seed: int = 0

    @property
    def exact(self) -> bool:
        """Whether the mean under independent positions needs no draws."""
        return self.link is Link.SUM or (self.link is Link.PRODUCT and len(self.examined) > 1)

    @property
    def folds(self) -> int:
        """Number of folds."""
        return len(self.effects.own)

    def users(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the standardised context (n, p), chances of the classes (n, Z) and scales (n, 2)."""
        x = self.scale.standardised(x)
        traits = traits_of(x)
        return x, chances(self.shares, traits), scale_of_tilt(self.tilt, traits)

    def expected(self, rankings: Rankings, fold: int | Ints) -> Floats:
        """Return q (m, K), zero in the padding."""
        x, chance, scale = self.users(rankings.x)
        folds = by_row(fold, self.folds, rankings.m)
        action, effects, out = rankings.item, self.effects, np.empty(rankings.item.shape)
        for first in range(0, rankings.m, _ROWS):
            rows = slice(first, first + _ROWS)
            of = rankings.row[rows]
            own = own_parts(action[rows], folds[rows], x[of], effects.own, effects.shift)
            part = pair_parts(
                action[rows], folds[rows], scale[of], effects.pair, self.examined, effects.triple
            )
            out[rows] = np.einsum("iz,izk->ik", chance[of], linked(self.link, own[:, None], part))
        out[action < 0] = 0.0
        return out

    def mean_under(self, batch: RankingLog, target: str, fold: int | Ints) -> Floats:
        """Return E_pi q_k (n, K)."""
        wanted = whole_distribution(batch, target)
        # Dependent positions (a policy without replacement): only whole draws are its rankings.
        if wanted is None:
            return super(MixtureModel, self).mean_under(batch, target, fold)
        x, chance, scale = self.users(context_columns(batch))
        out = np.zeros(batch.action.shape)
        draws = None if self.exact else factored_draws(batch, wanted, self.draws, self.seed)
        for f, rows in blocks_of(by_row(fold, self.folds, batch.n)):
            users = Users(
                x[rows].T, chance[rows].T, scale[rows].T, batch.lengths[rows],
                expected(wanted[rows], batch.lengths[rows], batch.K),
            )  # fmt: skip
            if draws is not None:
                seen = self.examined[0]
                part = curved_means(self.link, self.effects, seen, f, users, draws[rows])
            elif self.link is Link.PRODUCT:
                part = product_means(self.effects, self.examined, f, users)
            elif len(users.wanted) == 1:
                part = alike_means(self.effects, self.examined, f, users)
            else:
                part = sum_means(self.effects, self.examined, f, users)
            out[rows] = part.T
        out[batch.action < 0] = 0.0
        return out


class Users(NamedTuple):
    """Rows of one fold as columns.

    x (p, n), chance of the classes (Z, n), scale (2, n), lengths (n,), and the target's
    distribution (K or 1, A, n), zero in the padding.
    """

    x: Floats
    chance: Floats
    scale: Floats
    lengths: Ints
    wanted: Floats


def alike_means(at: Effects, examined: Floats, f: int, users: Users) -> Floats:
    """Return E q_k (K, n) of a sum where all positions have one distribution p and none is padded.

    E q_k = p'own x + shift_k + sum_z chance_z (s_zk p'W p + (s_zk^2 - sum_l s_zkl^2) / 2 sum_u p_u
    p'T_u p), with s_zk = sum_l s_zkl: one mean pair effect, times how much each class examines.
    """
    (p,), (above, below) = users.wanted, users.scale
    plain = (p * (at.own[f] @ users.x)).sum(axis=0) + at.shift[f][:, None]
    # By position and class, (K, Z): sums over the items above and below.
    up, down = (np.tril(examined, -1), np.triu(examined, 1))
    sums = up.sum(axis=2).T, down.sum(axis=2).T
    seen = above * (sums[0] @ users.chance) + below * (sums[1] @ users.chance)
    out = plain + seen * (p * (at.pair[f] @ p)).sum(axis=0)
    if at.triple.shape[1]:
        A = len(p)
        both = (p[:, None] * p).reshape(A * A, -1)
        three = (p * (at.triple[f].reshape(A, A * A) @ both)).sum(axis=0)
        twice = above**2 * ((sums[0] ** 2 - (up**2).sum(axis=2).T) @ users.chance)
        twice += below**2 * ((sums[1] ** 2 - (down**2).sum(axis=2).T) @ users.chance)
        twice += 2 * above * below * ((sums[0] * sums[1]) @ users.chance)
        out += 0.5 * twice * three
    return np.asarray(out)


def sum_means(at: Effects, examined: Floats, f: int, users: Users) -> Floats:
    """Return E q_k (K, n) of a sum for any independent positions."""
    _, K, _ = examined.shape
    p = np.broadcast_to(users.wanted, (K, *users.wanted.shape[1:]))
    A, plain = p.shape[1], at.own[f] @ users.x
    out = np.empty((K, p.shape[2]))
    for k in range(K):
        rest = [m for m in range(K) if m != k]
        side = users.scale[[int(m > k) for m in range(K)]]
        seen = (examined[:, k].T @ users.chance) * side  # (K, n)
        value = plain + at.pair[f] @ sum(seen[m] * p[m] for m in rest) if rest else plain
        if at.triple.shape[1] and len(rest) > 1:
            both = np.zeros((A, A, p.shape[2]))
            for one, two in combinations(rest, 2):
                joint = (examined[:, k, one] * examined[:, k, two]) @ users.chance
                both += (joint * side[one] * side[two]) * p[one][:, None] * p[two]
            value = value + at.triple[f].reshape(A, A * A) @ both.reshape(A * A, -1)
        out[k] = (p[k] * value).sum(axis=0) + at.shift[f, k]
    return out


def product_means(at: Effects, examined: Floats, f: int, users: Users) -> Floats:
    """Return E q_k (K, n) of a product.

    exp(sum_l s_l W_l) is a product over independent positions, so its mean is the product of their
    means. Users of one class examine alike.
    """
    Z, K, _ = examined.shape
    p = np.broadcast_to(users.wanted, (K, *users.wanted.shape[1:]))
    A, plain = p.shape[1], at.own[f] @ users.x
    out = np.empty((K, p.shape[2]))
    for k in range(K):
        scaled = np.repeat(users.chance[:, None], A, axis=1)  # (Z, A own, n)
        for other in range(K):
            if other != k:
                # The clip keeps factors finite where there are few rows.
                power = examined[:, k, other, None, None] * at.pair[f]
                factor = np.exp(
                    np.clip(power, -settings.LARGEST_EXPONENT, settings.LARGEST_EXPONENT)
                )
                mean = (factor.reshape(Z * A, A) @ p[other]).reshape(scaled.shape)
                scaled *= np.where(users.lengths > other, mean, 1.0)
        out[k] = (p[k] * (plain + at.shift[f, k]) * scaled.sum(axis=0)).sum(axis=0)
    return out


def curved_means(
    link: Link, at: Effects, examined: Floats, f: int, users: Users, drawn: Ints
) -> Floats:
    """Return averages (K, n) of one class over drawn rankings (n, S, K), the own action summed out."""
    own = (at.own[f] @ users.x)[:, None] + at.shift[f][:, None]  # (A, K, n)
    chance = users.wanted.swapaxes(0, 1)
    effect = padded(at.pair[f : f + 1])[0, :-1]
    above, below = np.tril(examined, -1), np.triu(examined, 1)
    out = np.zeros(own.shape[1:])
    for s in range(drawn.shape[1]):
        # Padding, action -1, is the last column.
        beside = effect[:, drawn[:, s].T]  # (A own, K, n)
        part = users.scale[0] * (above @ beside) + users.scale[1] * (below @ beside)
        out += (chance * linked(link, own, part)).sum(axis=0)
    return np.asarray(out / drawn.shape[1])
